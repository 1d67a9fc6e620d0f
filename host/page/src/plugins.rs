//! Slots and what fills them: how they do, and where to go to change one.

use maud::{Markup, html};

use crate::chart::{spans, time_of};
use crate::layout::{Fragment, Page, Shell};
use crate::parts::{badge, clip, empty, encode};
use crate::views::{Plugins, SlotCard};
use crate::words::Words;

pub fn plugins(shell: &Shell, view: &Plugins) -> Page {
    let words = shell.words();
    let fragments = vec![
        Fragment::new("head", &["plugins", "counters"], head(shell, view)),
        Fragment::new("slots", &["plugins", "counters"], slots(shell, view)),
        Fragment::new("installed", &["plugins"], installed(shell, view)),
    ];
    Page { nav: "plugins", title: words.plugins.into(), fragments, dialog: None }
}

fn head(shell: &Shell, view: &Plugins) -> Markup {
    let words = shell.words();
    let rows: Vec<(String, u64, u64)> = view
        .slots
        .iter()
        .filter(|one| one.calls > 0)
        .map(|one| (one.slot.clone(), one.p50_micros, one.p99_micros))
        .collect();
    html! {
        h1 { (words.plugins) }
        p.small { (words.interface) " " code { (clip(&view.interface, 40)) }
            @if view.unrecorded > 0 { " · " (words.unrecorded) " " (view.unrecorded) } }
        @if !rows.is_empty() { h2 { (words.latency) } (spans(words.latency, &rows)) }
    }
}

fn slots(shell: &Shell, view: &Plugins) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.slots) }
        @if view.slots.is_empty() { (empty(words.nothing_here, None)) }
        ul.cards { @for one in &view.slots { li.card data-key=(one.slot) { (card(shell, one, true)) } } }
    }
}

pub(crate) fn state_badge(shell: &Shell, state: &str) -> Markup {
    let words = shell.words();
    match state {
        "serving" => badge("good", "✓", words.slot_serving),
        "probation" => badge("going", "◔", words.slot_probation),
        "loading" => badge("calm", "…", words.slot_loading),
        "quarantined" => badge("bad", "⚠", words.slot_quarantined),
        "disabled" => badge("calm", "–", words.slot_disabled),
        "failed" => badge("bad", "✕", words.slot_failed),
        "empty" => badge("calm", "○", words.slot_empty),
        other => badge("calm", "•", &clip(other, 40)),
    }
}

pub(crate) fn card(shell: &Shell, one: &SlotCard, linked: bool) -> Markup {
    let words = shell.words();
    html! {
        div.head {
            @if linked { a.title href=(format!("/plugins/{}", encode(&one.slot))) { (clip(&one.slot, 80)) } }
            (state_badge(shell, &one.state))
        }
        @match &one.plugin {
            Some(plugin) => p { bdi { (clip(&plugin.name, 60)) } " " (clip(&plugin.version, 40)) " " code.small title=(clip(&plugin.hash, 80)) { (clip(&plugin.hash, 12)) } },
            None => p.small { (words.nothing_serves) },
        }
        @if let Some(problem) = &one.problem { p.small.said dir="auto" { (clip(problem, 400)) } }
        @if let Some((source, more)) = &one.waiting {
            p.notice data-kind="stuck" dir="auto" { (words.waits_for_grants) ": " bdi { (clip(source, 80)) } " → " (clip(&more.join(", "), 200)) }
        }
        dl.facts.small {
            dt { (words.calls) } dd { (one.calls) }
            @if one.calls > 0 { dt { "p50 / p99" } dd { (time_of(one.p50_micros)) " / " (time_of(one.p99_micros)) } }
            dt { (words.failures) } dd {
                @if one.failures.is_empty() { "0" }
                @for (kind, count) in &one.failures { code { (clip(kind, 40)) } " " (count) " " }
                @if one.fallbacks > 0 { " · " (words.fallbacks) " " (one.fallbacks) }
            }
            dt { (words.memory) } dd { (megabytes(one.memory_bytes)) @if let Some(most) = one.memory_mb_max { " / " (most) " MB" } }
            dt { (words.grants) } dd { @if one.grants.is_empty() { (words.none) } @for grant in &one.grants { (granted(words, grant)) " " } }
        }
    }
}

/// A grant with the word for what it lets a plugin reach.
fn granted(words: &Words, grant: &str) -> Markup {
    let (word, name) = grant.split_once(' ').unwrap_or(("", grant));
    let word = match word {
        "host" => words.grant_host,
        "secret" => words.grant_secret,
        "webhook" => words.grant_webhook,
        _ => return html! { code { (clip(grant, 80)) } },
    };
    html! { (word) " " code { (clip(name, 80)) } }
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

fn installed(shell: &Shell, view: &Plugins) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.installed) }
        @if view.installed.is_empty() { (empty(words.none_installed, None)) }
        ul { @for name in &view.installed { li { code { (clip(name, 100)) } } } }
    }
}
