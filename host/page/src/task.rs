//! One task: how it stands, what is to be done, what stands in the way, and everything that a person may do about it.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::long::{fitting, label_bytes};
use crate::moves::{Move, moves};
use crate::parts::{
    agent_link, badge, clip, empty, encode, moment, noted, priority_badge, question, said, shown_title, status_badge,
    steps_bar, task_path,
};
use crate::task_tabs;
use crate::views::{Blocker, StepRow, TaskDetail, TaskDialog, TaskTab};
use crate::words::Words;

/// What the description and what led to it may take, what each of the texts at the head, and all steps together.
const TEXT_BYTES: usize = 12_000;
const HEAD_BYTES: usize = 2_000;
const STEPS_BYTES: usize = 50_000;

pub fn task(shell: &Shell, view: &TaskDetail, tab: &TaskTab, dialog: Option<TaskDialog>) -> Page {
    let topics = [format!("task:{}", view.card.id)];
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    let mut fragments = vec![Fragment::new("head", &topics, head(shell, view, tab))];
    match tab {
        TaskTab::Details => {
            fragments.push(Fragment::new("steps", &topics, steps(shell, view)));
            fragments.push(Fragment::new("about", &topics, about(shell, view)));
            fragments.push(Fragment::new("timeline", &topics, task_tabs::timeline(shell, view)));
        }
        TaskTab::Conversation { turns, total, older, later } => {
            let pages = task_tabs::pages(shell, older.as_deref().map(|older| (older, shell.words().older)), *later);
            let talk = task_tabs::conversation(shell, view, turns, *total, pages);
            fragments.push(Fragment::new("talk", &topics, talk));
        }
        TaskTab::Why(why) => fragments.push(Fragment::new("why", &topics, crate::why::why(shell, why))),
        TaskTab::Events { events, next, later } => {
            fragments.push(Fragment::new("events", &topics, task_tabs::events(shell, events, next.as_deref(), *later)));
        }
    }
    // What can be done no longer is not asked about, however old the address is.
    let may = |one: &TaskDialog| moves(&view.card.status).iter().any(|known| known.as_str() == one.as_str());
    let dialog = dialog.filter(|one| shell.may_write() && !view.is_over && may(one));
    let dialog = dialog.map(|one| (task_path(&view.card.id), ask(shell, view, one)));
    Page { nav: "tasks", title: shown_title(shell, &view.card), fragments, dialog }
}

fn head(shell: &Shell, view: &TaskDetail, tab: &TaskTab) -> Markup {
    let (words, card) = (shell.words(), &view.card);
    let path = task_path(&card.id);
    let tabs = [
        ("", words.details, matches!(tab, TaskTab::Details)),
        ("conversation", words.conversation, matches!(tab, TaskTab::Conversation { .. })),
        ("events", words.events, matches!(tab, TaskTab::Events { .. })),
        ("why", words.why, matches!(tab, TaskTab::Why(_))),
    ];
    html! {
        p.small { a href="/tasks" { "← " (words.back_to_list) } }
        h1 dir="auto" { (shown_title(shell, card)) }
        div.head { (status_badge(shell, &card.status)) (priority_badge(shell, &card.priority)) (agent_link(&card.agent)) span.small { (moment(&card.activity)) } }
        @if let Some(steps) = card.steps { (steps_bar(shell, steps)) }
        @if let Some(problem) = &view.problem { p.notice data-kind="bad" dir="auto" { strong { (words.unreadable) } " " (clip(problem, 300)) } }
        @if let Some(card) = &view.question { (question(shell, card, HEAD_BYTES)) }
        @else if let Some(blocked) = &view.blocked { (blocker(shell, blocked)) }
        @if let Some((kind, summary, reason)) = &view.outcome {
            div.notice data-kind=(if kind == "completed" { "good" } else { "calm" }) dir="auto" {
                strong { (words.outcome) ": " (words.task_status(kind)) }
                @if !summary.is_empty() { div { (noted(shell, "summary", summary, HEAD_BYTES)) } }
                @if !reason.is_empty() { div { (noted(shell, "reason", reason, HEAD_BYTES)) } }
            }
        }
        @if shell.may_write() && !view.is_over { (actions(shell, view)) }
        nav.tabs aria-label=(words.details) {
            @for (key, word, is_here) in tabs {
                a href=(if key.is_empty() { path.clone() } else { format!("{path}?tab={key}") }) aria-current=[is_here.then_some("page")] { (word) }
            }
        }
    }
}

fn blocker(shell: &Shell, blocked: &Blocker) -> Markup {
    let words = shell.words();
    html! {
        div.notice data-kind="stuck" dir="auto" {
            (badge("stuck", "■", words.blocked)) " " (noted(shell, "blocked", &blocked.reason, HEAD_BYTES))
            p.small {
                (clip(words.blocker_kind(&blocked.kind), 60))
                @if !blocked.unblocked_by.is_empty() { " · → " bdi { (clip(&blocked.unblocked_by.join(", "), 200)) } }
                @if !blocked.escalation.is_empty() && blocked.escalation != "none" { " · " (clip(words.escalation(&blocked.escalation), 60)) }
            }
            @if !blocked.action.is_empty() { div.small { bdi { (noted(shell, "action", &blocked.action, 400)) } } }
        }
    }
}

pub(crate) fn move_word(words: &Words, one: Move) -> &'static str {
    match one {
        Move::Pick => words.do_start,
        Move::Approve => words.do_approve,
        Move::Resume => words.do_resume,
        Move::ToBacklog => words.do_backlog,
        Move::Block => words.do_block,
        Move::Complete => words.do_complete,
        Move::Cancel => words.do_cancel,
    }
}

/// The field that says how the task stood when the reader looked.
fn seen(shell: &Shell, view: &TaskDetail) -> Markup {
    html! { (shell.back()) input type="hidden" name="seen" value=(view.card.status); }
}

fn actions(shell: &Shell, view: &TaskDetail) -> Markup {
    let (words, path) = (shell.words(), task_path(&view.card.id));
    html! {
        form.actions method="post" action=(format!("{path}/move")) aria-label=(words.actions) {
            (seen(shell, view))
            @for one in moves(&view.card.status) {
                @if one.asks() { a.button href=(format!("{path}?dialog={}", one.as_str())) { (move_word(words, *one)) } }
                @else { button type="submit" name="move" value=(one.as_str()) { (move_word(words, *one)) } }
            }
            p.said role="alert" {}
        }
    }
}

fn steps(shell: &Shell, view: &TaskDetail) -> Markup {
    let (words, path) = (shell.words(), task_path(&view.card.id));
    let writes = shell.may_write() && !view.is_over;
    html! {
        h2 { (words.steps) @if let Some(steps) = view.card.steps { " " span.small { "(" (steps.done) "/" (steps.total) ")" } } }
        @if view.steps.is_empty() { (empty(words.no_steps, None)) }
        form method="post" action=(format!("{path}/steps")) {
            (seen(shell, view))
            (fitting(STEPS_BYTES, |each| html! {
                ol.checklist start=(view.steps_from + 1) { @for row in &view.steps { (step(shell, row, (writes, each))) } }
            }))
            p.said role="alert" {}
        }
        (step_pages(shell, view))
        @if writes {
            form.inline method="post" action=(format!("{path}/steps")) {
                (seen(shell, view))
                label for="new-step" { (words.new_step) }
                input id="new-step" name="content" type="text" required dir="auto";
                button type="submit" name="do" value="add" { (words.add_step) }
                p.said role="alert" {}
            }
        }
    }
}

/// Ways to the steps that are not shown.
fn step_pages(shell: &Shell, view: &TaskDetail) -> Markup {
    let (words, end) = (shell.words(), view.steps_from + view.steps.len());
    html! {
        @if view.steps.len() < view.steps_total {
            p.pages {
                span.small { (view.steps_from + 1) "–" (end) " / " (view.steps_total) " " }
                @if view.steps_from > 0 { a.button href=(shell.with("steps", "0")) { (words.to_first) } }
                @if end < view.steps_total { " " a.button href=(shell.with("steps", &end.to_string())) { (words.more) } }
            }
        }
    }
}

fn step(shell: &Shell, row: &StepRow, (writes, each): (bool, usize)) -> Markup {
    let words = shell.words();
    let (kind, mark, word) = match row.status.as_str() {
        "done" => ("good", "✓", words.step_done),
        "in_progress" => ("going", "▶", words.step_now),
        "skipped" => ("calm", "–", words.step_skipped),
        _ => ("calm", "○", words.step_open),
    };
    let is_open = matches!(row.status.as_str(), "pending" | "in_progress");
    let button = |value: String, mark: &str, word: &str| {
        let label = format!("{word}: {}", clip(&row.content, label_bytes(each)));
        html! { button.quiet type="submit" name="do" value=(value) aria-label=(label) title=(word) { (mark) } }
    };
    html! {
        li data-key=(row.id) data-status=(row.status) {
            (badge(kind, mark, word))
            span.content dir="auto" { span.small { "(" (row.id) ") " } (noted(shell, &format!("step-{}", row.id), &row.content, each)) }
            @if writes && !row.id.is_empty() {
                span.buttons {
                    @if is_open {
                        (button(format!("complete:{}", row.id), "✓", words.complete_step))
                        (button(format!("skip:{}", row.id), "⤼", words.skip_step))
                    }
                    @if row.status == "pending" { (button(format!("start:{}", row.id), "▶", words.start_step)) }
                    @if !row.is_first { (button(format!("up:{}", row.id), "↑", words.move_up)) }
                    @if !row.is_last { (button(format!("down:{}", row.id), "↓", words.move_down)) }
                }
            }
        }
    }
}

fn about(shell: &Shell, view: &TaskDetail) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.description) }
        div.text dir="auto" { (said(shell, "description", &view.description, TEXT_BYTES)) }
        @if let Some(context) = &view.context {
            h3 { (words.context) }
            div.text dir="auto" { (said(shell, "context", context, TEXT_BYTES)) }
        }
        dl.facts {
            dt { (words.created) } dd { (moment(&view.created)) @if let Some(by) = &view.created_by { " · " bdi { (clip(by, 60)) } } }
            @if let Some(due) = &view.due { dt { (words.due) } dd { (moment(due)) } }
            @if !view.depends_on.is_empty() {
                dt { (words.depends_on) }
                dd {
                    @for (at, (id, title)) in view.depends_on.iter().enumerate() { @if at > 0 { " · " } a href=(task_path(id)) dir="auto" { (named_task(shell, title)) } }
                    @if view.depends_left > 0 { " · +" (view.depends_left) " " a href=(format!("/api/tasks/{}", encode(&view.card.id))) { (words.show_whole) } }
                }
            }
            @if let Some(session) = &view.work_session {
                dt { (words.work_session) }
                dd { a href=(format!("/conversations/{}", encode(session))) { (words.conversations) } }
            }
        }
    }
}

/// Another task by its title; never by its raw id.
fn named_task(shell: &Shell, title: &str) -> String {
    if title.is_empty() { format!("({})", shell.words().for_task) } else { clip(&shell.named(title), 100) }
}

fn ask(shell: &Shell, view: &TaskDetail, dialog: TaskDialog) -> Markup {
    let (words, path) = (shell.words(), task_path(&view.card.id));
    let (title, label, required) = match dialog {
        TaskDialog::Block => (words.do_block, words.what_is_in_the_way, true),
        TaskDialog::Cancel => (words.do_cancel, words.why_cancel, false),
        TaskDialog::Complete => (words.do_complete, words.what_was_achieved, false),
    };
    html! {
        form method="post" action=(format!("{path}/move")) {
            h2 id="dialog-title" { (title) }
            p dir="auto" { (shown_title(shell, &view.card)) }
            (seen(shell, view))
            label for="text" { (label) }
            textarea id="text" name="text" rows="3" required[required] dir="auto" {}
            @if dialog == TaskDialog::Complete && view.card.steps.is_some_and(|steps| steps.done < steps.total) {
                label.check { input type="checkbox" name="force" value="true"; " " (words.force_complete) }
            }
            p.said role="alert" {}
            div.actions {
                button.main type="submit" name="move" value=(dialog.as_str()) { (title) }
                a.button href=(path) data-dismiss data-forget { (words.never_mind) }
            }
        }
    }
}
