//! One agent: what it does, what waits for it, and how it is kept at work.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::overview::{card, team_of};
use crate::parts::{badge, clip, empty, encode, face, job_row, priority_badge, questions_of, status_badge, task_line};
use crate::time::when;
use crate::views::{AgentDetail, Kept};

const AVATAR_BYTES_MAX: usize = 20_000;

pub fn agent(shell: &Shell, view: &AgentDetail) -> Page {
    let words = shell.words();
    let mine = format!("agent:{}", view.card.face.id);
    // There also while nothing is asked, so that the next question shows up on an open page.
    let asked = html! {
        @if !view.questions.is_empty() { h2 { (words.questions) } (questions_of(shell, view.questions.iter())) }
    };
    let fragments = vec![
        Fragment::new("head", &[&mine, "agents", "tasks", "questions"], head(shell, view)),
        Fragment::new("questions", &["questions"], asked),
        Fragment::new("tasks", &["tasks"], tasks(shell, view)),
        Fragment::new("kept", &[&mine], kept(shell, &view.kept)),
        Fragment::new("jobs", &["jobs"], jobs(shell, view)),
        Fragment::new("sessions", &[&mine], sessions(shell, view)),
    ];
    Page { nav: "overview", title: clip(&view.card.face.name, 60), fragments, dialog: None }
}

fn head(shell: &Shell, view: &AgentDetail) -> Markup {
    let words = shell.words();
    let role = match view.card.role.as_str() {
        "orchestrator" => words.role_orchestrator,
        "worker" => words.role_worker,
        _ => words.role_agent,
    };
    html! {
        h1 { @if let Some(picture) = view.avatar.as_deref().filter(|one| is_picture(one)) { img.avatar src=(picture) alt=""; " " } (face(&view.card.face)) }
        p { (badge("calm", "◆", role)) " " (team_of(&view.card)) " " span.small { (words.tokens_today) ": " (view.tokens_today) } }
        div.card { (card(shell, &view.card)) }
        @if let Some(chat) = &view.chat {
            p { a.button href=(format!("/chat?agent={}", encode(&chat.id))) { (words.chat_with) ": " (face(chat)) } }
        }
    }
}

/// A page loads nothing from elsewhere: a picture is in its own address, or it is not shown.
fn is_picture(address: &str) -> bool {
    address.starts_with("data:image/") && address.len() <= AVATAR_BYTES_MAX
}

fn tasks(shell: &Shell, view: &AgentDetail) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.tasks) " " span.small { (view.tasks_total) } }
        @if view.tasks.is_empty() { (empty(words.no_tasks, None)) }
        ul.rows {
            @for one in &view.tasks {
                li.row data-key=(one.id) { div.head { (status_badge(shell, &one.status)) (priority_badge(shell, &one.priority)) } (task_line(shell, one)) }
            }
        }
        @if view.tasks_total > view.tasks.len() {
            p { a href=(format!("/tasks?agent={}", encode(&view.card.face.id))) { (words.more) } }
        }
    }
}

fn kept(shell: &Shell, kept: &Kept) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.continuation) }
        @if !kept.enabled { p.small { (words.continuation_off) } }
        @else if kept.next.is_none() && kept.last.is_none() { (empty(words.nothing_kept, None)) }
        dl.facts {
            @if let Some((layer, at)) = &kept.next { dt { (words.next_look) } dd { (clip(words.layer(layer), 60)) " · " (when(*at)) } }
            @if let Some((action, reason, at)) = &kept.last { dt { (words.last_action) } dd dir="auto" { (clip(words.kept_action(action), 60)) " · " (when(*at)) (crate::problem::detail(shell, Some(reason.as_str()).filter(|reason| !reason.is_empty()))) } }
            @if let Some((count, max)) = kept.in_a_row { dt { (words.in_a_row) } dd { (count) "/" (max) } }
            @if let Some((count, max)) = kept.without_progress { dt { (words.without_progress) } dd { (count) "/" (max) } }
        }
    }
}

fn jobs(shell: &Shell, view: &AgentDetail) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.jobs) }
        @if view.jobs.is_empty() { (empty(words.no_jobs, None)) }
        @else { ul.rows { @for job in &view.jobs { (job_row(shell, job)) } } }
    }
}

fn sessions(shell: &Shell, view: &AgentDetail) -> Markup {
    html! {
        h2 { (shell.words().sessions) }
        @if view.sessions.is_empty() { (empty(shell.words().no_sessions, None)) }
        ul.rows { @for (key, at) in &view.sessions { li.row data-key=(key) { code { (clip(key, 120)) } " " span.small { (when(*at)) } } } }
    }
}
