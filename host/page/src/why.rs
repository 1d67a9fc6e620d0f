//! Why something was decided as it was: every decision with who made it, on what, and what was answered.

use maud::{Markup, html};

use crate::layout::Shell;
use crate::long::fitting;
use crate::parts::{badge, clip, empty, encode, indexed};
use crate::time::when;
use crate::views::{Decision, Indexed, Why};

/// What all decisions together may take, beside what they are about.
const DECISIONS_BYTES: usize = 60_000;

pub(crate) fn why(shell: &Shell, why: &Indexed<Why>) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.why) }
        p.small { (words.why_help) }
        (indexed(shell, why, |why| html! {
            @if why.decisions.is_empty() { (empty(words.no_decisions, None)) }
            @if why.older.is_some() || shell.asked("decided").is_some() {
                p.pages {
                    @if let Some(older) = &why.older { a.button href=(shell.with("decided", older)) { (words.older) } }
                    @if shell.asked("decided").is_some() { " " a.button href=(shell.with("decided", "")) { (words.latest) } }
                }
            }
            (fitting(DECISIONS_BYTES, |each| html! { ol.rows { @for one in &why.decisions { (decision(shell, one, each)) } } }))
        }))
    }
}

fn decision(shell: &Shell, one: &Decision, each: usize) -> Markup {
    let words = shell.words();
    html! {
        li.row {
            div.head {
                a href=(format!("/plugins/{}", encode(&one.slot))) { code { (clip(&one.slot, 60)) } }
                @match &one.component {
                    Some((name, version)) => span { bdi { (clip(name, 60)) } " " (clip(version, 40)) },
                    None => (badge("stuck", "◇", words.by_gateway)),
                }
                code { (clip(&one.export, 60)) }
                span.small { (when(one.at)) }
                @if let Some(micros) = one.micros { span.small { (micros) " µs" } }
            }
            dl.facts {
                dt { (words.answered) } dd dir="auto" { code { (clip(&one.answer, each.min(400))) } }
                @if !one.reason.is_empty() { dt { (words.reason) } dd dir="auto" { (clip(&one.reason, each.min(300))) } }
                @if !one.digest.is_empty() { dt { (words.input_digest) } dd { code { (clip(&one.digest, 64)) } } }
            }
        }
    }
}
