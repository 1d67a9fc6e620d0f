//! What happens, as it happens: a line an event with its role, cards for what people look for, or who gave what to whom as a tree.

use maud::{Markup, html};

use crate::caps::LIST_BYTES;
use crate::chart::lanes;
use crate::conversations::thread_badge;
use crate::layout::{Fragment, Page, Shell};
use crate::long::{WHOLE, fitting, parts};
use crate::parts::{agent_link, badge, clip, empty, encode, indexed, task_path};
use crate::time::when;
use crate::views::{Branch, EventLine, EventSort, Events, EventsFilter, EventsShown};
use crate::words::Words;

pub(crate) const ROLES: [&str; 4] =
    ["conversation.main", "delegation.subagent", "orchestration.task", "system.observability"];

pub fn events(shell: &Shell, view: &Events) -> Page {
    let words = shell.words();
    // Who has paused, or looks at what is old, is not disturbed by what is new.
    let stands = view.filter.until.is_some() || view.filter.cursor.is_some();
    let topics: &[&str] = if stands { &[] } else { &["activity"] };
    let fragments = vec![
        Fragment::new("head", &[], head(shell, view)),
        Fragment::new("pause", topics, pause(shell, view)),
        Fragment::new("list", topics, list(shell, view)),
    ];
    let dialog = view.raw.as_ref().map(|raw| (shell.with_all(&[("raw", ""), ("at", "")]), raw_json(shell, raw)));
    Page { nav: "events", title: words.events.into(), fragments, dialog }
}

pub(crate) fn role_word(words: &Words, role: &str) -> &'static str {
    match role {
        "conversation.main" => words.role_conversation,
        "delegation.subagent" => words.role_delegation,
        "orchestration.task" => words.role_orchestration,
        _ => words.role_system,
    }
}

fn head(shell: &Shell, view: &Events) -> Markup {
    let words = shell.words();
    let EventsFilter { role, kind, session, task, job, tree, .. } = &view.filter;
    let is_narrow = kind.is_some() || session.is_some() || task.is_some() || job.is_some();
    let plain = |name: &str, value: &str| shell.with_all(&[("cursor", ""), (name, value)]);
    // A tree has no roles: to choose one is to leave it.
    let of_role = |role: &str| shell.with_all(&[("cursor", ""), ("tree", ""), ("role", role)]);
    let tree_path = shell.with_all(&[("cursor", ""), ("role", ""), ("tree", if *tree { "" } else { "1" })]);
    html! {
        h1 { (words.events) }
        @if let Some((id, title)) = &view.session {
            p { (words.of_session) " " a href=(format!("/conversations/{}", encode(id))) dir="auto" { (clip(&shell.named(title), 120)) } " " a href=(plain("session", "")) { (words.clear) } }
        }
        nav.tabs aria-label=(words.role_of_event) {
            a href=(of_role("")) aria-current=[(role.is_none() && !tree).then_some("page")] { (words.all) }
            @for one in ROLES {
                a href=(of_role(one)) aria-current=[(role.as_deref() == Some(one) && !tree).then_some("page")] { (role_word(words, one)) }
            }
            a href=(tree_path) aria-current=[tree.then_some("page")] { (words.as_tree) }
        }
        form.filters method="get" action="/events" role="search" aria-label=(words.filters) {
            @if let Some(role) = role { input type="hidden" name="role" value=(role); }
            @if *tree { input type="hidden" name="tree" value="1"; }
            label for="type" { (words.event_type) }
            input id="type" name="type" type="text" maxlength="80" value=(kind.as_deref().unwrap_or_default()) placeholder="task.blocked";
            label for="session" { (words.work_session) }
            input id="session" name="session" type="text" maxlength="200" value=(session.as_deref().unwrap_or_default()) placeholder="ws_…";
            label for="task" { (words.for_task) }
            input id="task" name="task" type="text" maxlength="200" value=(task.as_deref().unwrap_or_default()) placeholder="task_…";
            @if let Some(job) = job { input type="hidden" name="job" value=(job); }
            @if let Some(until) = &view.filter.until { input type="hidden" name="until" value=(until); }
            button type="submit" { (words.filter) }
            @if is_narrow { a href=(shell.with_all(&[("cursor", ""), ("type", ""), ("session", ""), ("task", ""), ("job", "")])) { (words.clear) } }
        }
    }
}

fn pause(shell: &Shell, view: &Events) -> Markup {
    let words = shell.words();
    html! {
        p.actions {
            @if view.filter.until.is_some() || view.filter.cursor.is_some() {
                (badge("stuck", "‖", words.paused_here)) " "
                a.button href=(shell.with_all(&[("until", ""), ("cursor", "")])) { (words.go_on_live) }
            } @else {
                (badge("good", "●", words.connected)) " "
                @if let Some(now) = &view.now { a.button href=(shell.with("until", now)) { (words.pause) } }
            }
        }
    }
}

fn list(shell: &Shell, view: &Events) -> Markup {
    let words = shell.words();
    indexed(shell, &view.shown, |shown| match shown {
        EventsShown::Lines { lines, next } => html! {
            @if lines.is_empty() { (empty(words.no_match, None)) }
            @else { (lanes(lines, words)) }
            (fitting(LIST_BYTES, |each| html! { ol.rows { @for one in lines { (line(shell, one, each)) } } }))
            @if let Some(next) = next { p { a.button href=(shell.with("cursor", next)) { (words.older) } } }
        },
        EventsShown::Tree { branches, next } => html! {
            @if branches.is_empty() { (empty(words.no_delegation, None)) }
            @else { (fitting(LIST_BYTES, |each| html! { ul.tree { @for one in branches { (branch(shell, one, each)) } } })) }
            @if let Some(next) = next { p { a.button href=(shell.with("cursor", next)) { (words.older) } } }
        },
    })
}

fn line(shell: &Shell, one: &EventLine, each: usize) -> Markup {
    let words = shell.words();
    let sort = match one.sort {
        EventSort::Plain => None,
        EventSort::Question => Some("question"),
        EventSort::SelfDriving => Some("driving"),
        EventSort::StopGuard => Some("guard"),
        EventSort::Failure => Some("failure"),
    };
    html! {
        li.row.event data-key=(format!("e-{}", one.cursor)) data-sort=[sort] data-role=(one.role) {
            div.head {
                @match one.sort {
                    EventSort::Question => (badge("asks", "?", words.question_card)),
                    EventSort::SelfDriving => (badge("going", "↻", &driving(words, one))),
                    EventSort::StopGuard => (badge("stuck", "✋", words.stop_guard_card)),
                    EventSort::Failure => (badge("bad", "✕", words.failed)),
                    EventSort::Plain => span.tag { (role_word(words, &one.role)) },
                }
                code { (clip(&one.kind, 60)) }
                @if one.agent.id.is_empty() || one.agent.id == "system" { span.small { (words.system) } } @else { (agent_link(&one.agent)) }
                @if let Some(to) = &one.to { span.small aria-label=(words.from_to) { "→" } (agent_link(to)) }
                span.small { (when(one.at)) }
                @if let Some(left) = one.steps_left { span.small { (words.steps_left) " " (left) } }
            }
            @if !one.said.is_empty() { p.small dir="auto" { (clip(&shell.named(&one.said), each.min(300))) } }
            p.small.links {
                @if let Some(task) = &one.task { a href=(task_path(task)) { (words.for_task) } " " }
                @if let Some(session) = &one.session { a href=(shell.with("session", session)) { (words.work_session) } " " }
                @if let Some(job) = &one.job { a href=(format!("/jobs/{}", encode(job))) { (words.job) } " " }
                a href=(shell.with_all(&[("raw", &one.cursor), ("at", "")])) aria-label=(format!("{}: {}", words.raw_json, clip(&one.kind, 60))) { (words.raw_json) }
            }
        }
    }
}

fn driving(words: &Words, one: &EventLine) -> String {
    match one.in_a_row {
        Some((count, _)) => format!("{} #{count}", words.self_driving_card),
        None => words.self_driving_card.to_owned(),
    }
}

fn branch(shell: &Shell, one: &Branch, each: usize) -> Markup {
    let words = shell.words();
    html! {
        li data-key=(one.key) {
            div.row {
                div.head {
                    (agent_link(&one.from)) span.small aria-label=(words.from_to) { "→" } (agent_link(&one.to))
                    @if one.is_spawn { (badge("calm", "⑂", words.sub_agent)) }
                    (thread_badge(shell, &one.state))
                    span.small { (words.messages) " " (one.messages) " · " (when(one.at)) }
                }
                @if !one.said.is_empty() { p.small dir="auto" { (clip(&shell.named(&one.said), each.min(200))) } }
            }
            @if !one.branches.is_empty() { ul { @for inner in &one.branches { (branch(shell, inner, each)) } } }
        }
    }
}

fn raw_json(shell: &Shell, raw: &str) -> Markup {
    html! {
        h2 id="dialog-title" { (shell.words().raw_json) }
        (parts(shell, raw, WHOLE, "dialog", &|raw| html! { pre.json tabindex="0" dir="ltr" { code { (raw) } } }))
        div.actions { a.button href=(shell.with_all(&[("raw", ""), ("at", "")])) data-dismiss { (shell.words().close) } }
    }
}
