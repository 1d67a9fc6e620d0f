//! Jobs between agents: how they stand, what went wrong, and what a person may do about it.

use maud::{Markup, html};

use crate::chart::across;
use crate::layout::{Fragment, Page, Shell};
use crate::long::fitting;
use crate::parts::{agent_link, badge, clip, empty, encode, job_kind, job_mark, noted, said, task_path};
use crate::time::when;
use crate::views::{JobCard, JobDetail, Jobs, TurnRow};
use crate::why::why;

/// What the message of a job and its turns may take.
const MESSAGE_BYTES: usize = 8_000;
const TURNS_BYTES: usize = 40_000;

pub fn jobs(shell: &Shell, view: &Jobs) -> Page {
    let words = shell.words();
    let fragments = vec![
        Fragment::new("head", &["jobs"], head(shell, view)),
        Fragment::new("list", if view.filter.cursor.is_some() { &[] } else { &["jobs"] }, list(shell, view)),
    ];
    Page { nav: "jobs", title: words.jobs.into(), fragments, dialog: None }
}

fn head(shell: &Shell, view: &Jobs) -> Markup {
    let (words, filter) = (shell.words(), &view.filter);
    let there = |status: &str| shell.with_all(&[("cursor", ""), ("status", status)]);
    let rows: Vec<(String, u64, String)> = view
        .counts
        .iter()
        .map(|(status, count)| (words.job_status(status).to_owned(), *count as u64, count.to_string()))
        .collect();
    html! {
        h1 { (words.jobs) }
        (across(words.jobs_by_state, &rows))
        nav.tabs aria-label=(words.status) {
            a href=(there("")) aria-current=[filter.status.is_none().then_some("page")] { (words.all) }
            @for (status, count) in &view.counts {
                a href=(there(status)) aria-current=[(filter.status.as_ref() == Some(status)).then_some("page")] {
                    (words.job_status(status)) " " span.small { (count) }
                }
            }
        }
        form.filters method="get" action="/jobs" role="search" aria-label=(words.filters) {
            @if let Some(status) = &filter.status { input type="hidden" name="status" value=(status); }
            label for="agent" { (words.agent) }
            select id="agent" name="agent" data-auto {
                option value="" { (words.all_agents) }
                @for one in &view.agents {
                    option value=(one.id) selected[filter.agent.as_deref() == Some(&one.id)] { (clip(&one.name, 60)) }
                }
            }
            label for="session" { (words.work_session) }
            input id="session" name="session" type="text" maxlength="200" placeholder="ws_…" value=(filter.session.as_deref().unwrap_or_default());
            button type="submit" { (words.filter) }
            @if filter.agent.is_some() || filter.session.is_some() { a href=(shell.with_all(&[("agent", ""), ("session", ""), ("cursor", "")])) { (words.clear) } }
        }
    }
}

fn list(shell: &Shell, view: &Jobs) -> Markup {
    let words = shell.words();
    html! {
        @if view.jobs.is_empty() { (empty(words.no_jobs, None)) }
        ul.rows { @for one in &view.jobs { li.row data-key=(one.row.id) { (card(shell, one, true)) } } }
        @if let Some(next) = &view.next { p { a.button href=(shell.with("cursor", next)) { (words.more) } } }
    }
}

fn card(shell: &Shell, one: &JobCard, linked: bool) -> Markup {
    let (words, row) = (shell.words(), &one.row);
    let path = format!("/jobs/{}", encode(&row.id));
    html! {
        div.head {
            (badge(job_kind(&row.status), job_mark(&row.status), words.job_status(&row.status)))
            (agent_link(&row.from)) span.small aria-label=(words.from_to) { "→" } (agent_link(&row.to))
            @if linked { a href=(path) { (if one.label.is_empty() { words.job.to_owned() } else { clip(&one.label, 80) }) } }
        }
        p.small {
            (words.turn) " " (row.turn) "/" (one.turns_max) " · " (words.tries) " " (one.tries) "/" (one.tries_max)
            @if one.resumed > 0 { " · " (words.resumed) " " (one.resumed) }
            " · " (words.created) " " (when(one.made)) " · " (words.last_activity) " " (when(row.at))
            @if let Some(at) = one.next_try { " · " (words.next_try) " " (when(at)) }
        }
        @if let Some(error) = &row.error { div.small.said dir="auto" { @if linked { (clip(error, 300)) } @else { (noted(shell, "error", error, 1_000)) } } }
        p.small.links {
            @if let Some(task) = &one.task { a href=(task_path(task)) { (words.for_task) } " " }
            @if let Some(session) = &row.work_session { a href=(format!("/conversations/{}", encode(session))) { (words.conversation) } " " }
            a href=(format!("/events?job={}", encode(&row.id))) { (words.events) }
            @if let Some(old) = &one.retry_of { " " a href=(format!("/jobs/{}", encode(old))) { (words.retry_of) } }
        }
        @if shell.may_write() && (one.may_cancel || one.may_retry) {
            form.inline method="post" action=(path) {
                (shell.back())
                @if one.may_cancel { button type="submit" name="do" value="cancel" { (words.cancel_job) } }
                @if one.may_retry { button type="submit" name="do" value="retry" { (words.retry_job) } }
                p.said role="alert" {}
            }
        }
    }
}

pub fn job(shell: &Shell, view: &JobDetail) -> Page {
    let words = shell.words();
    let head = html! {
        p.small { a href="/jobs" { "← " (words.back_to_list) } }
        h1 { (words.job) @if !view.card.label.is_empty() { " · " bdi { (clip(&view.card.label, 100)) } } }
        (card(shell, &view.card, false))
        dl.facts { dt { (words.phase) } dd { (clip(words.job_phase(&view.card.phase), 60)) } dt { (words.identifier) } dd { code { (clip(&view.card.row.id, 80)) } } }
    };
    let message = html! {
        h2 { (words.message) }
        div.text dir="auto" { (said(shell, "message", &view.message, MESSAGE_BYTES)) }
        h2 { (words.turns) @if view.turns_left > 0 { " " span.small { "+" (view.turns_left) } } }
        @if view.turns.is_empty() { (empty(words.nothing_here, None)) }
        (fitting(TURNS_BYTES, |each| html! { ol.rows { @for one in &view.turns { (turn(shell, one, each)) } } }))
    };
    let fragments = vec![
        Fragment::new("head", &["jobs"], head),
        Fragment::new("turns", &["jobs"], message),
        Fragment::new("why", &["jobs"], why(shell, &view.why)),
    ];
    Page { nav: "jobs", title: words.job.into(), fragments, dialog: None }
}

fn turn(shell: &Shell, one: &TurnRow, each: usize) -> Markup {
    let words = shell.words();
    html! {
        li.row data-key=(format!("t-{}", one.turn)) {
            div.head {
                strong { (words.turn) " " (one.turn) } (agent_link(&one.who)) span.tag { (clip(words.turn_state(&one.state), 60)) }
                @if let Some(at) = one.at { span.small { (when(at)) } }
                @if one.tries > 0 { span.small { (words.tries) " " (one.tries + 1) } }
            }
            @if !one.reply.is_empty() { div.text dir="auto" { (said(shell, &format!("turn-{}", one.turn), &one.reply, each)) } }
            @if !one.error.is_empty() { div.small.said dir="auto" { (noted(shell, &format!("error-{}", one.turn), &one.error, each.min(400))) } }
        }
    }
}
