//! Milestones with their items, and todos: read, added to, marked and put in another order.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::parts::{badge, clip, empty, encode, moment, steps_bar, task_path};
use crate::views::{ListRow, MilestoneRow, Milestones, Steps, Todos};

const MARKS: [&str; 3] = ["todo", "in_progress", "done"];

pub fn milestones(shell: &Shell, view: &Milestones) -> Page {
    let words = shell.words();
    let head = html! { h1 { (words.milestones) " " span.small { (view.total) } } (problem(view.problem.as_deref())) };
    let list = html! {
        @if view.rows.is_empty() && view.problem.is_none() { (empty(words.no_milestones, None)) }
        ul.rows { @for (at, one) in view.rows.iter().enumerate() { (milestone(shell, one, view.from + at, view.total)) } }
        (pages(shell, view.from, view.rows.len(), view.total))
    };
    let mut fragments = vec![Fragment::new("head", &["lists"], head), Fragment::new("list", &["lists"], list)];
    if shell.may_write() {
        fragments.push(Fragment::new("new", &[], new_milestone(shell)));
    }
    Page { nav: "milestones", title: words.milestones.into(), fragments, dialog: None }
}

fn problem(said: Option<&str>) -> Markup {
    html! { @if let Some(said) = said { p.notice data-kind="bad" role="alert" dir="auto" { (clip(said, 400)) } } }
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

/// Buttons that mark a row otherwise, or move it.
fn marks(shell: &Shell, row: &ListRow, at: usize, total: usize) -> Markup {
    let words = shell.words();
    let word = |mark: &str| match mark {
        "done" => words.step_done,
        "in_progress" => words.in_progress,
        _ => words.step_open,
    };
    let button = |value: &str, mark: &str, word: &str| {
        let label = format!("{word}: {}", clip(&row.title, 60));
        html! { button.quiet type="submit" name="do" value=(format!("{value}:{}", row.id)) aria-label=(label) title=(word) { (mark) } }
    };
    html! {
        span.buttons {
            @for mark in MARKS.into_iter().filter(|mark| *mark != row.status) {
                (button(mark, match mark { "done" => "✓", "in_progress" => "▶", _ => "○" }, word(mark)))
            }
            @if at > 0 { (button("up", "↑", words.move_up)) }
            @if at + 1 < total { (button("down", "↓", words.move_down)) }
        }
    }
}

fn milestone(shell: &Shell, one: &MilestoneRow, at: usize, total: usize) -> Markup {
    let (words, row) = (shell.words(), &one.row);
    let path = format!("/milestones/{}", encode(&row.id));
    let done = one.items.iter().filter(|item| item.status == "done").count();
    html! {
        li.row data-key=(row.id) {
            div.head { (mark_badge(shell, &row.status)) h2 dir="auto" { (clip(&row.title, 200)) } @if let Some(due) = &one.due { span.small { (words.due) ": " (moment(due)) } } }
            @if !one.description.is_empty() { p.small dir="auto" { (clip(&one.description, 600)) } }
            @if !one.items.is_empty() { (steps_bar(shell, Steps { done, total: one.items.len() })) }
            (form_of(shell, "/milestones", html! {
                @if shell.may_write() { (marks(shell, row, at, total)) }
                ul.checklist { @for (nth, item) in one.items.iter().enumerate() { (checked(shell, item, nth, one.items.len())) } }
            }))
            @if one.items_left > 0 { p.small { "… +" (one.items_left) } }
            @if shell.may_write() { (edit(shell, one, &path)) }
        }
    }
}

/// What is marked by buttons, for those who may.
fn form_of(shell: &Shell, action: &str, inner: Markup) -> Markup {
    html! {
        @if shell.may_write() { form method="post" action=(action) { (shell.back()) (inner) p.said role="alert" {} } } @else { (inner) }
    }
}

fn checked(shell: &Shell, row: &ListRow, at: usize, total: usize) -> Markup {
    html! {
        li data-key=(row.id) data-status=(row.status) {
            (mark_badge(shell, &row.status))
            span.content dir="auto" { (clip(&row.title, 300)) @if let Some(task) = &row.task { " " a.small href=(task_path(task)) { (shell.words().for_task) } } }
            @if shell.may_write() { (marks(shell, row, at, total)) }
        }
    }
}

fn edit(shell: &Shell, one: &MilestoneRow, path: &str) -> Markup {
    let (words, id) = (shell.words(), &one.row.id);
    html! {
        details {
            summary { (words.edit) }
            form.inline method="post" action=(path) {
                (shell.back())
                label for=(format!("item-{id}")) { (words.new_item) }
                input id=(format!("item-{id}")) name="title" type="text" required maxlength="500" dir="auto";
                label for=(format!("task-{id}")) { (words.task_id) }
                input id=(format!("task-{id}")) name="task" type="text" maxlength="200" placeholder="task_…";
                button type="submit" name="do" value="item" { (words.add_item) }
                p.said role="alert" {}
            }
            form.inline method="post" action=(path) {
                (shell.back())
                input type="hidden" name="seen" value=(one.mark());
                label for=(format!("title-{id}")) { (words.title) }
                input id=(format!("title-{id}")) name="title" type="text" required maxlength="500" dir="auto" value=(clip(&one.row.title, 2_000));
                label for=(format!("due-{id}")) { (words.due) }
                input id=(format!("due-{id}")) name="due" type="date" value=(one.due.as_deref().and_then(|due| due.get(..10)).unwrap_or_default());
                button type="submit" name="do" value="change" { (words.save) }
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
            input id="new-title" name="title" type="text" required maxlength="500" dir="auto";
            label for="new-description" { (words.description) }
            textarea id="new-description" name="description" rows="2" maxlength="2000" dir="auto" {}
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
        h1 { (words.todos) " " span.small { (view.total) } }
        (problem(view.problem.as_deref()))
        @if view.rows.is_empty() && view.problem.is_none() { (empty(words.no_todos, None)) }
        (form_of(shell, "/todos", html! {
            ul.checklist { @for (at, row) in view.rows.iter().enumerate() { (checked(shell, row, view.from + at, view.total)) } }
        }))
        (pages(shell, view.from, view.rows.len(), view.total))
    };
    let mut fragments = vec![Fragment::new("list", &["lists"], list)];
    if shell.may_write() {
        let new = html! {
            form.inline method="post" action="/todos" {
                (shell.back())
                label for="new-todo" { (words.new_todo) }
                input id="new-todo" name="title" type="text" required maxlength="500" dir="auto";
                button.main type="submit" name="do" value="new" { (words.add_todo) }
                p.said role="alert" {}
            }
        };
        fragments.push(Fragment::new("new", &[], new));
    }
    Page { nav: "todos", title: words.todos.into(), fragments, dialog: None }
}
