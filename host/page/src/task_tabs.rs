//! What lies behind the tabs of a task: its progress, what was said for it, and its events.

use maud::{Markup, html};

use crate::layout::Shell;
use crate::long::fitting;
use crate::parts::{badge, bubbles, clip, empty, indexed, noted, task_path};
use crate::time::when;
use crate::views::{Bubble, EventRow, Indexed, TaskDetail};

/// What all lines of progress together may take.
const PROGRESS_BYTES: usize = 24_000;

pub(crate) fn timeline(shell: &Shell, view: &TaskDetail) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.timeline) }
        @if view.progress.is_empty() { (empty(words.no_progress, None)) }
        @if view.progress_from > 0 || view.progress_later > 0 {
            p.pages {
                @if view.progress_from > 0 { a.button href=(shell.with("before", &view.progress_from.to_string())) { (words.older) " (" (view.progress_from) ")" } }
                @if view.progress_later > 0 { " " a.button href=(shell.with("before", "")) { (words.latest) } }
            }
        }
        (fitting(PROGRESS_BYTES, |each| html! {
            ol.timeline { @for (at, line) in (view.progress_from..).zip(&view.progress) { li dir="auto" { (noted(shell, &format!("line-{at}"), line, each)) } } }
        }))
        @if shell.may_write() && !view.is_over {
            form.inline method="post" action=(format!("{}/note", task_path(&view.card.id))) {
                (shell.back())
                label for="note" { (words.note) }
                input id="note" name="text" type="text" required dir="auto";
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
        (bubbles(shell, &turns.iter().map(|one| once(view, one)).collect::<Vec<_>>(), None, &html! {}))
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
