//! What lies behind the tabs of a task: its progress, what was said for it, and its events.

use maud::{Markup, html};

use crate::layout::Shell;
use crate::parts::{badge, bubble, clip, empty, indexed, task_path};
use crate::time::when;
use crate::views::{Bubble, EventRow, Indexed, TaskDetail};

pub(crate) fn timeline(shell: &Shell, view: &TaskDetail) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.timeline) }
        @if view.progress.is_empty() { (empty(words.no_progress, None)) }
        ol.timeline {
            @if view.progress_left > 0 { li.small { "… +" (view.progress_left) } }
            @for line in &view.progress { li dir="auto" { (clip(line, 400)) } }
        }
        @if shell.may_write() && !view.is_over {
            form.inline method="post" action=(format!("{}/note", task_path(&view.card.id))) {
                (shell.back())
                label for="note" { (words.note) }
                input id="note" name="text" type="text" required maxlength="2000" dir="auto";
                button type="submit" { (words.do_note) }
                p.said role="alert" {}
            }
        }
    }
}

pub(crate) fn conversation(shell: &Shell, view: &TaskDetail, turns: &[Bubble], total: usize, pages: Markup) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.conversation) " " span.small { (total) } }
        (pages)
        @if turns.is_empty() { (empty(words.no_turns, None)) }
        ol.bubbles { @for one in turns { (bubble(shell, &once(view, one))) } }
    }
}

/// The question that stands at the head of the page is not asked a second time below.
fn once(view: &TaskDetail, one: &Bubble) -> Bubble {
    let shown = view.question.as_ref().map(|card| &card.id);
    let question = one.question.clone().filter(|card| Some(&card.id) != shown);
    Bubble { question, ..one.clone() }
}

pub(crate) fn events(shell: &Shell, events: &Indexed<Vec<EventRow>>, next: Option<&str>, later: bool) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.events) }
        (indexed(shell, events, |rows| html! {
            @if rows.is_empty() { (empty(words.no_events, None)) }
            ol.rows {
                @for row in rows {
                    li.row data-human[row.human] {
                        @if row.human { (badge("asks", "?", words.questions)) " " }
                        code { (clip(&row.kind, 60)) } " " bdi { (clip(&row.agent, 60)) } " " span.small { (when(row.at)) }
                        @if !row.said.is_empty() { p.small dir="auto" { (clip(&shell.named(&row.said), 300)) } }
                    }
                }
            }
        }))
        (pages(shell, next.map(|next| (next, words.more)), later))
    }
}

/// The ways on and back in a long list.
pub(crate) fn pages(shell: &Shell, next: Option<(&str, &str)>, later: bool) -> Markup {
    let words = shell.words();
    html! {
        @if next.is_some() || later {
            p.pages {
                @if later { a.button href=(shell.with("cursor", "")) { (words.latest) } }
                @if let Some((next, word)) = next { " " a.button href=(shell.with("cursor", next)) { (word) } }
            }
        }
    }
}
