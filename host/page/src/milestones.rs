//! Milestones with their items, and todos: read, added to, changed, marked, put in another order and deleted.

use maud::{Markup, html};

use crate::caps::LIST_BYTES;
use crate::layout::{Fragment, Page, Shell};
use crate::long::{fitting, in_field, label_bytes};
use crate::parts::{badge, clip, empty, encode, moment, noted, steps_bar, task_path};
use crate::views::{Chosen, ListRow, MilestoneRow, Milestones, Problem, RowKind, Steps, Todos};

/// A form that takes more than this stands alone, without the list.
const FORM_BYTES: usize = 30_000;
/// A title takes at most this of its row.
const TITLE_BYTES: usize = 1_600;

const MARKS: [&str; 3] = ["todo", "in_progress", "done"];

pub fn milestones(shell: &Shell, view: &Milestones) -> Page {
    let words = shell.words();
    let head =
        html! { h1 { (words.milestones) " " span.small { (view.total) } } (problem(shell, view.problem.as_ref())) };
    let rows = |each: usize| {
        html! { ul.rows { @for (at, one) in view.rows.iter().enumerate() { (milestone(shell, one, (view.from + at, view.total), each)) } } }
    };
    let list = html! {
        @if view.rows.is_empty() && view.problem.is_none() { (empty(words.no_milestones, None)) }
        (fitting(LIST_BYTES, rows))
        (pages(shell, view.from, view.rows.len(), view.total))
    };
    let mut fragments = vec![Fragment::new("head", &["lists"], head)];
    let form = edited(shell, "/milestones", view.edited.as_ref());
    let alone = form.as_ref().is_some_and(|form| form.markup.0.len() > FORM_BYTES);
    fragments.extend(form);
    if !alone {
        fragments.push(Fragment::new("list", &["lists"], list));
    }
    if shell.may_write() && !alone {
        fragments.push(Fragment::new("new", &[], new_milestone(shell)));
    }
    let dialog = deleted(shell, "/milestones", view.deleted.as_ref());
    Page { nav: "milestones", title: words.milestones.into(), fragments, dialog }
}

/// This list without a row that is to be changed or deleted.
fn list_alone(shell: &Shell) -> String {
    shell.with_all(&[("edit", ""), ("delete", "")])
}

/// The row that is to be changed, above the list: not every row has a whole form, lest the page be large.
fn edited(shell: &Shell, path: &str, chosen: Option<&Chosen>) -> Option<Fragment> {
    let (chosen, words) = (chosen.filter(|_| shell.may_write())?, shell.words());
    let is_milestone = chosen.kind == RowKind::Milestone;
    let path = if is_milestone { format!("{path}/{}", encode(&chosen.row.id)) } else { path.to_owned() };
    // Every row's form leads to the same place; what is typed for one of them shows up in no other.
    let form = html! {
        h2 dir="auto" { (words.edit) ": " (clip(&chosen.row.title, 160)) }
        form.inline method="post" action=(path) data-draft=(chosen.row.id) {
            input type="hidden" name="back" value=(list_alone(shell));
            input type="hidden" name="seen" value=(chosen.seen);
            label for="edit-title" { (words.title) }
            input id="edit-title" name="title" type="text" required dir="auto" autofocus value=(chosen.row.title);
            @if chosen.kind == RowKind::Item {
                label for="edit-task" { (words.task_id) }
                input id="edit-task" name="task" type="text" placeholder="task_…" value=(chosen.row.task.as_deref().unwrap_or_default());
            }
            @if is_milestone {
                (description(shell, "edit-description", &chosen.description))
                (due(shell, "edit-due", chosen.due.as_deref()))
            }
            button.main type="submit" name="do" value=(format!("change:{}", chosen.row.id)) { (words.save) }
            a.button href=(list_alone(shell)) data-forget { (words.never_mind) }
            a.button href=(shell.with_all(&[("edit", ""), ("delete", &chosen.row.id)])) { (words.delete) }
            p.said role="alert" {}
        }
    };
    Some(Fragment::new("edit", &["lists"], form))
}

/// A field for a description that can be shown whole; a form without it leaves the description as it is.
fn description(shell: &Shell, id: &str, text: &str) -> Markup {
    let shown = in_field(text);
    html! {
        @if shown.0.len() <= LIST_BYTES {
            label for=(id) { (shell.words().description) }
            textarea id=(id) name="description" rows="2" dir="auto" { (shown) }
        } @else {
            p.notice data-kind="stuck" { (shell.words().description) ": " (shell.words().too_long_here) }
        }
    }
}

/// A field for a day, empty for none. A browser empties a field of days that holds none, so another system's words have a field of text.
fn due(shell: &Shell, id: &str, due: Option<&str>) -> Markup {
    let due = due.unwrap_or_default();
    let day = due.get(..10).filter(|day| is_day(day));
    html! {
        label for=(id) { (shell.words().due) }
        @match day {
            None if !due.is_empty() => input id=(id) name="due" type="text" value=(due);,
            day => input id=(id) name="due" type="date" value=(day.unwrap_or_default());,
        }
    }
}

/// Whether a field of days shows it for certain; a leap day may pass for text.
fn is_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let numbers: Vec<u32> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    let (&[_, month, day], [4, 2, 2]) = (&numbers[..], &parts.iter().map(|part| part.len()).collect::<Vec<_>>()[..])
    else {
        return false;
    };
    let days = match month {
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Asks once more before a row is gone.
fn deleted(shell: &Shell, path: &str, chosen: Option<&Chosen>) -> Option<(String, Markup)> {
    let (chosen, words) = (chosen.filter(|_| shell.may_write())?, shell.words());
    let (path, what) = match chosen.kind {
        RowKind::Milestone => (format!("{path}/{}", encode(&chosen.row.id)), words.milestone),
        RowKind::Item => (path.to_owned(), words.item),
        RowKind::Todo => (path.to_owned(), words.todo),
    };
    let asked = html! {
        form method="post" action=(path) {
            h2 id="dialog-title" { (words.delete_really) }
            p dir="auto" { (what) ": " strong { (clip(&chosen.row.title, 300)) } }
            @if chosen.items > 0 { p { (words.items_go_too) " " (chosen.items) } }
            input type="hidden" name="back" value=(list_alone(shell));
            input type="hidden" name="seen" value=(chosen.whole);
            div.actions {
                button.main type="submit" name="do" value=(format!("delete:{}", chosen.row.id)) { (words.delete) }
                a.button href=(list_alone(shell)) data-dismiss { (words.never_mind) }
            }
            p.said role="alert" {}
        }
    };
    Some((list_alone(shell), asked))
}

fn problem(shell: &Shell, problem: Option<&Problem>) -> Markup {
    html! { @if let Some(problem) = problem { (crate::problem::notice(shell, problem)) } }
}

fn pages(shell: &Shell, from: usize, shown: usize, total: usize) -> Markup {
    let words = shell.words();
    html! {
        @if from > 0 || from + shown < total {
            p.pages {
                @if from > 0 { a.button href=(shell.with("from", "")) { (words.to_first) } }
                @if from + shown < total { a.button href=(shell.with("from", &(from + shown).to_string())) { (words.more) } }
            }
        }
    }
}

pub(crate) fn mark_badge(shell: &Shell, status: &str) -> Markup {
    let words = shell.words();
    match status {
        "done" => badge("good", "✓", words.step_done),
        "in_progress" => badge("going", "▶", words.in_progress),
        _ => badge("calm", "○", words.step_open),
    }
}

/// Buttons that mark a row otherwise, or move it; a milestone's own say to it what they say, since its items may have ids like its own.
fn marks(shell: &Shell, row: &ListRow, (at, total, each): (usize, usize, usize), own: Option<&str>) -> Markup {
    let words = shell.words();
    let word = |mark: &str| match mark {
        "done" => words.step_done,
        "in_progress" => words.in_progress,
        _ => words.step_open,
    };
    let button = |value: &str, mark: &str, word: &str| {
        let label = format!("{word}: {}", clip(&row.title, label_bytes(each)));
        html! { button.quiet name="do" formaction=[own] value=(format!("{value}:{}", row.id)) aria-label=(label) title=(word) { (mark) } }
    };
    let link = |name: &str, mark: &str, word: &str| {
        let label = format!("{word}: {}", clip(&row.title, label_bytes(each)));
        let path = shell.with_all(&[("edit", ""), ("delete", ""), (name, &row.id)]);
        html! { a.button.quiet href=(path) aria-label=(label) title=(word) { (mark) } }
    };
    html! {
        span.buttons {
            @for mark in MARKS.into_iter().filter(|mark| *mark != row.status) {
                (button(mark, match mark { "done" => "✓", "in_progress" => "▶", _ => "○" }, word(mark)))
            }
            @if at > 0 { (button("up", "↑", words.move_up)) }
            @if at + 1 < total { (button("down", "↓", words.move_down)) }
            (link("edit", "✎", words.edit))
            @if own.is_some() { (link("delete", "✕", words.delete)) }
        }
    }
}

fn milestone(shell: &Shell, one: &MilestoneRow, (at, total): (usize, usize), each: usize) -> Markup {
    let (words, row) = (shell.words(), &one.row);
    let path = format!("/milestones/{}", encode(&row.id));
    let steps = Steps { done: one.items_done, total: one.items_total };
    let title = noted(shell, &format!("milestone-{}", row.id), &row.title, each.min(TITLE_BYTES));
    html! {
        li.row data-key=(row.id) {
            div.head { (mark_badge(shell, &row.status)) h2 dir="auto" { (title) } @if let Some(due) = &one.due { span.small { (words.due) ": " (moment(due)) } } }
            @if !one.description.is_empty() { div.small dir="auto" { (noted(shell, &format!("about-{}", row.id), &one.description, each.min(600))) } }
            @if one.items_total > 0 { (steps_bar(shell, steps)) }
            (form_of(shell, "/milestones", html! {
                @if shell.may_write() { (marks(shell, row, (at, total, each), Some(&path))) }
                ul.checklist { @for (nth, item) in (one.items_from..).zip(&one.items) { (checked(shell, item, (nth, one.items_total), each)) } }
            }))
            (item_pages(shell, one))
            @if shell.may_write() { (new_item(shell, one, &path)) }
        }
    }
}

/// Ways to the items of a milestone that are not shown: then it is the one that is open.
fn item_pages(shell: &Shell, one: &MilestoneRow) -> Markup {
    let (words, end) = (shell.words(), one.items_from + one.items.len());
    let to = |from: usize| {
        shell.with_all(&[("open", &one.row.id), ("item", &from.to_string()), ("edit", ""), ("delete", "")])
    };
    html! {
        @if one.items.len() < one.items_total {
            p.small.pages {
                @if one.items.is_empty() { a href=(to(0)) { (words.show_items) " (" (one.items_total) ")" } }
                @else {
                    (one.items_from + 1) "–" (end) " / " (one.items_total) " "
                    @if one.items_from > 0 { a href=(to(0)) { (words.to_first) } " " }
                    @if end < one.items_total { a href=(to(end)) { (words.more) } }
                }
            }
        }
    }
}

/// What is marked by buttons, for those who may.
fn form_of(shell: &Shell, action: &str, inner: Markup) -> Markup {
    html! {
        @if shell.may_write() { form method="post" action=(action) { (shell.back()) (inner) p.said role="alert" {} } } @else { (inner) }
    }
}

fn checked(shell: &Shell, row: &ListRow, place: (usize, usize), each: usize) -> Markup {
    let title = noted(shell, &format!("title-{}", row.id), &row.title, each.min(TITLE_BYTES));
    html! {
        li data-key=(row.id) data-status=(row.status) {
            (mark_badge(shell, &row.status))
            span.content dir="auto" { (title) @if let Some(task) = &row.task { " " (task_link(shell, task, row.task_title.as_deref())) } }
            @if shell.may_write() { (marks(shell, row, (place.0, place.1, each), None)) }
        }
    }
}

fn task_link(shell: &Shell, task: &str, title: Option<&str>) -> Markup {
    let words = shell.words();
    html! { a.small href=(task_path(task)) { (words.for_task) @if let Some(title) = title { ": " bdi { (clip(&shell.named(title), 80)) } } } }
}

fn new_item(shell: &Shell, one: &MilestoneRow, path: &str) -> Markup {
    let (words, id) = (shell.words(), &one.row.id);
    html! {
        details {
            summary { (words.new_item) }
            form.inline method="post" action=(path) {
                (shell.back())
                label for=(format!("item-{id}")) { (words.new_item) }
                input id=(format!("item-{id}")) name="title" type="text" required dir="auto";
                label for=(format!("task-{id}")) { (words.task_id) }
                input id=(format!("task-{id}")) name="task" type="text" placeholder="task_…";
                button name="do" value="item" { (words.add_item) }
                p.said role="alert" {}
            }
        }
    }
}

fn new_milestone(shell: &Shell) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.new_milestone) }
        form method="post" action="/milestones" {
            (shell.back())
            label for="new-title" { (words.title) }
            input id="new-title" name="title" type="text" required dir="auto";
            label for="new-description" { (words.description) }
            textarea id="new-description" name="description" rows="2" dir="auto" {}
            label for="new-due" { (words.due) }
            input id="new-due" name="due" type="date";
            button.main type="submit" name="do" value="new" { (words.add_milestone) }
            p.said role="alert" {}
        }
    }
}

pub fn todos(shell: &Shell, view: &Todos) -> Page {
    let words = shell.words();
    let list = html! {
        @if view.rows.is_empty() && view.problem.is_none() { (empty(words.no_todos, None)) }
        (form_of(shell, "/todos", fitting(LIST_BYTES, |each| html! {
            ul.checklist { @for (at, row) in (view.from..).zip(&view.rows) { (checked(shell, row, (at, view.total), each)) } }
        })))
        (pages(shell, view.from, view.rows.len(), view.total))
    };
    let mut fragments: Vec<Fragment> = edited(shell, "/todos", view.edited.as_ref()).into_iter().collect();
    let head = html! { h1 { (words.todos) " " span.small { (view.total) } } (problem(shell, view.problem.as_ref())) };
    fragments.insert(0, Fragment::new("head", &["lists"], head));
    fragments.push(Fragment::new("list", &["lists"], list));
    if shell.may_write() {
        let new = html! {
            form.inline method="post" action="/todos" {
                (shell.back())
                label for="new-todo" { (words.new_todo) }
                input id="new-todo" name="title" type="text" required dir="auto";
                button.main type="submit" name="do" value="new" { (words.add_todo) }
                p.said role="alert" {}
            }
        };
        fragments.push(Fragment::new("new", &[], new));
    }
    let dialog = deleted(shell, "/todos", view.deleted.as_ref());
    Page { nav: "todos", title: words.todos.into(), fragments, dialog }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_days_is_for_days_alone() {
        let check = |text: &str, is: bool| assert_eq!(is_day(text), is, "{text}");
        check("2026-12-31", true);
        check("2026-02-28", true);
        check("2026-02-30", false);
        check("2026-13-01", false);
        check("2026-1-001", false);
        check("next week,", false);
        check("", false);
    }
}
