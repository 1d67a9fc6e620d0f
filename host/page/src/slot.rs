//! One slot: what serves, what served, what it is told, and what another version would answer before it is let in.

use maud::{Markup, html};

use crate::assets::mark_of;
use crate::conversations::name_of;
use crate::layout::{Fragment, Page, Shell};
use crate::long::in_field;
use crate::parts::{clip, code_marks, empty, encode, indexed};
use crate::plugins::card;
use crate::task_tabs::pages;
use crate::time::when;
use crate::views::{Answered, Rules, SlotDetail, Tried};
use crate::words::Words;

/// What an editor takes at most beside everything else, and alone on its page.
const EDITOR_BYTES: usize = 20_000;
const ALONE_BYTES: usize = 125_000;

pub fn slot(shell: &Shell, view: &SlotDetail) -> Page {
    let mut fragments = vec![Fragment::new("head", &["plugins", "counters"], head(shell, view))];
    let alone = match (shell.asked("edit").as_deref(), &view.rules) {
        (Some("config"), _) => Some(Fragment::new("config", &[], config(shell, view, ALONE_BYTES))),
        (Some("rules"), Some(rules)) => {
            Some(Fragment::new("rules", &[], rules_editor(shell, view, rules, ALONE_BYTES)))
        }
        _ => None,
    };
    if let Some(alone) = alone.filter(|_| shell.may_admin()) {
        fragments.push(alone);
        return Page { nav: "plugins", title: clip(&view.card.slot, 80), fragments, dialog: None };
    }
    if view.classifies && shell.may_admin() {
        fragments.push(Fragment::new("try", &[], try_it(shell, view)));
    }
    if shell.may_admin() {
        fragments.push(Fragment::new("load", &[], load(shell, view)));
        fragments.push(Fragment::new("config", &[], config(shell, view, EDITOR_BYTES)));
        if let Some(rules) = &view.rules {
            fragments.push(Fragment::new("rules", &[], rules_editor(shell, view, rules, EDITOR_BYTES)));
        }
    }
    fragments.push(Fragment::new("history", &["plugins"], history(shell, view)));
    fragments.push(Fragment::new("logs", &["plugins"], logs(shell, view)));
    Page { nav: "plugins", title: clip(&view.card.slot, 80), fragments, dialog: None }
}

fn path_of(view: &SlotDetail) -> String {
    format!("/plugins/{}", encode(&view.card.slot))
}

fn head(shell: &Shell, view: &SlotDetail) -> Markup {
    let (words, one) = (shell.words(), &view.card);
    let button = |word: &str, value: &str| html! { button type="submit" name="do" value=(value) { (word) } };
    html! {
        p.small { a href="/plugins" { "← " (words.back_to_list) } }
        h1 { (clip(&one.slot, 80)) }
        (card(shell, one, false))
        @if let Some(plugin) = &one.plugin {
            dl.facts {
                dt { (words.source) } dd { code { (clip(&plugin.source, 200)) } }
                dt { (words.hash) } dd { code { (clip(&plugin.hash, 80)) } }
                @if !one.on_failure.is_empty() { dt { (words.on_failure) } dd { (clip(on_failure(words, &one.on_failure), 40)) } }
            }
        }
        @if shell.may_admin() {
            form.actions method="post" action=(path_of(view)) aria-label=(words.actions) {
                (shell.back())
                @match one.state.as_str() {
                    "disabled" => (button(words.do_enable, "enable")),
                    "quarantined" => { (button(words.do_release, "release")) (button(words.do_disable, "disable")) },
                    "failed" | "empty" => (button(words.do_enable, "enable")),
                    _ => (button(words.do_disable, "disable")),
                }
                (button(words.do_rollback, "rollback"))
                (button(words.do_unload, "unload"))
                @if one.waiting.is_some() { (button(words.do_accept, "accept")) }
                p.said role="alert" {}
            }
        }
    }
}

/// What becomes of a decision that a plugin could not make.
fn on_failure<'a>(words: &Words, word: &'a str) -> &'a str
where
    'static: 'a,
{
    match word {
        "block" => words.failure_blocks,
        "builtin" => words.failure_builtin,
        "allow" => words.failure_allows,
        other => other,
    }
}

/// The sources that there are, to be chosen or written.
fn source_field(shell: &Shell, view: &SlotDetail, id: &str, value: &str) -> Markup {
    let list = format!("{id}-list");
    html! {
        label for=(id) { (shell.words().source) }
        input id=(id) name="source" type="text" required list=(list) value=(value) placeholder="builtin:rules";
        datalist id=(list) { @for one in &view.sources { option value=(one) {} } }
    }
}

fn try_it(shell: &Shell, view: &SlotDetail) -> Markup {
    let words = shell.words();
    let serving = view.card.plugin.as_ref().map(|plugin| plugin.source.clone()).unwrap_or_default();
    let asked = view.tried.as_ref().map_or(serving.as_str(), |tried| tried.source.as_str());
    html! {
        h2 { (words.try_classifier) }
        p.small { (words.try_help) }
        form method="post" action=(format!("{}/try", path_of(view))) {
            (shell.back())
            (source_field(shell, view, "try-source", asked))
            label for="try-text" { (words.try_text) }
            textarea id="try-text" name="text" rows="3" dir="auto" { (view.text) }
            div.actions {
                button.main type="submit" name="try" value="source:text" { (words.try_on_text) }
                button type="submit" name="try" value="source:sessions" { (words.try_on_sessions) }
            }
            p.said role="alert" {}
        }
        @if let Some(tried) = &view.tried { (outcome(shell, view, tried)) }
    }
}

/// What was answered, with the category by its name.
fn answered(shell: &Shell, view: &SlotDetail, one: &Answered) -> String {
    let mut said = one.category.as_deref().map_or("–", |key| name_of(shell, &view.categories, key)).to_owned();
    if !one.rest.is_empty() {
        said = format!("{said} {}", one.rest);
    }
    if one.failed { format!("✕ {}", one.rest) } else { said }
}

fn outcome(shell: &Shell, view: &SlotDetail, tried: &Tried) -> Markup {
    let words = shell.words();
    html! {
        div id="tried" {
            @if let Some(problem) = &tried.problem {
                p.notice data-kind="bad" role="alert" dir="auto" { strong { (words.not_tried) } " " (clip(problem, 800)) }
            } @else {
                p.notice data-kind=(if tried.changed == 0 { "good" } else { "stuck" }) role="status" {
                    (words.tried_asked) " " (tried.asked) " · " (words.tried_changed) " " (tried.changed)
                }
                div.wide tabindex="0" role="region" aria-label=(words.try_classifier) {
                    table.grid {
                        thead { tr { th scope="col" { (if tried.on_sessions { words.work_session } else { words.try_text }) } th scope="col" { (words.answers_now) } th scope="col" { (words.would_answer) } } }
                        tbody {
                            @for row in &tried.rows {
                                tr data-changed[row.before != row.after] {
                                    td dir="auto" {
                                        @match &row.session {
                                            Some(id) => a href=(format!("/conversations/{}", encode(id))) { (clip(&row.title, 100)) },
                                            None => (clip(&row.title, 100)),
                                        }
                                    }
                                    td { (clip(&answered(shell, view, &row.before), 120)) }
                                    td { (clip(&answered(shell, view, &row.after), 120)) @if row.before != row.after { " " strong { "≠" } span.unseen { " " (words.tried_changed) } } }
                                }
                            }
                        }
                    }
                }
                @if tried.on_sessions && tried.rows.len() < tried.asked { p.small { (words.only_changed) } }
            }
        }
    }
}

fn load(shell: &Shell, view: &SlotDetail) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.load) }
        form.inline method="post" action=(path_of(view)) {
            (shell.back())
            (source_field(shell, view, "load-source", ""))
            button.main type="submit" name="do" value="load" { (words.do_load) }
            p.said role="alert" {}
        }
        form.inline method="post" action=(format!("{}/upload", path_of(view))) data-upload {
            label for="upload" { (words.upload) }
            input id="upload" type="file" accept=".wasm" required;
            button type="submit" { (words.do_upload) }
            p.said role="alert" {}
            noscript { p.small { (code_marks(words.upload_needs_script)) } }
        }
        @if view.classifies {
            form.inline method="post" action=(format!("{}/try/upload", path_of(view))) data-upload {
                label for="try-upload" { (words.try_upload) }
                input id="try-upload" type="file" accept=".wasm" required;
                button type="submit" { (words.try_on_sessions) }
                p.said role="alert" {}
                noscript { p.small { (words.try_upload_needs_script) } }
            }
        }
    }
}

/// Tries what is typed above, before it is saved. The page that shows the outcome has it again.
fn try_typed(shell: &Shell, view: &SlotDetail, what: &str) -> Markup {
    let (words, id) = (shell.words(), format!("{what}-try"));
    let action = format!("{}/try", path_of(view));
    let button = |on: &str, word: &str| {
        html! { button type="submit" formaction=(action) name="try" value=(format!("{what}:{on}")) { (word) } }
    };
    html! {
        label for=(id) { (words.try_first) }
        textarea id=(id) name="text" rows="2" dir="auto" { (view.text) }
        div.actions { (button("text", words.try_on_text)) (button("sessions", words.try_on_sessions)) }
    }
}

/// Where an editor stands that takes more than there is room for here; what a page cannot hold at all is not cut, since saving it would lose the rest.
fn elsewhere(shell: &Shell, what: &str, word: &str, text: &Markup, bytes_max: usize) -> Option<Markup> {
    let words = shell.words();
    match text.0.len() {
        bytes if bytes > ALONE_BYTES => {
            Some(html! { p.notice data-kind="stuck" { (word) ": " (words.too_long_here) } })
        }
        bytes if bytes > bytes_max => {
            Some(html! { p { a.button href=(shell.with("edit", what)) { (words.edit) ": " (word) } } })
        }
        _ => None,
    }
}

fn config(shell: &Shell, view: &SlotDetail, bytes_max: usize) -> Markup {
    let words = shell.words();
    let text = in_field(view.typed_config.as_ref().unwrap_or(&view.config));
    let away = elsewhere(shell, "config", words.config_json, &text, bytes_max);
    html! {
        h2 { (words.config_of_plugin) }
        @match (&view.card.plugin, away) {
            (Some(_), Some(away)) => (away),
            (Some(plugin), None) => form method="post" action=(path_of(view)) {
                (shell.back())
                input type="hidden" name="source" value=(plugin.source);
                input type="hidden" name="seen" value=(view.mark()) data-keep[view.typed_config.is_some()];
                label for="config-text" { (words.config_json) }
                textarea.code id="config-text" name="config" rows="8" spellcheck="false" dir="ltr" data-keep[view.typed_config.is_some()] {
                    (text)
                }
                button type="submit" name="do" value="config" { (words.save_config) }
                @if view.classifies { (try_typed(shell, view, "config")) }
                p.said role="alert" {}
            },
            (None, _) => (empty(words.nothing_serves, None)),
        }
    }
}

fn rules_editor(shell: &Shell, view: &SlotDetail, rules: &Rules, bytes_max: usize) -> Markup {
    let words = shell.words();
    let not_here = |why: &str, said: &str| {
        html! { p.notice data-kind="stuck" dir="auto" { code { "plugins/rules.json5" } " " (why) " " (clip(said, 300)) } }
    };
    html! {
        h2 { (words.rules) }
        @match rules {
            Rules::Text(text) => (rules_form(shell, view, text, bytes_max)),
            Rules::TooLong => (not_here(words.rules_too_long, "")),
            Rules::NotText => (not_here(words.rules_not_text, "")),
            Rules::Unread(said) => (not_here(words.rules_unread, said)),
        }
    }
}

fn rules_form(shell: &Shell, view: &SlotDetail, rules: &str, bytes_max: usize) -> Markup {
    let words = shell.words();
    let text = in_field(view.typed_rules.as_deref().unwrap_or(rules));
    if let Some(away) = elsewhere(shell, "rules", words.rules, &text, bytes_max) {
        return away;
    }
    html! {
        p.small { (words.rules_help) }
        form method="post" action=(format!("{}/rules", path_of(view))) {
            (shell.back())
            input type="hidden" name="seen" value=(mark_of(rules)) data-keep[view.typed_rules.is_some()];
            label for="rules-text" { code { "plugins/rules.json5" } }
            textarea.code id="rules-text" name="rules" rows="14" spellcheck="false" dir="ltr" data-keep[view.typed_rules.is_some()] {
                (text)
            }
            button type="submit" { (words.save_rules) }
            (try_typed(shell, view, "rules"))
            p.said role="alert" {}
        }
    }
}

fn history(shell: &Shell, view: &SlotDetail) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.swaps) }
        (indexed(shell, &view.history, |(rows, older)| html! {
            @if rows.is_empty() { (empty(words.no_swaps, None)) }
            ol.timeline { @for row in rows { li { code { (clip(&row.kind, 60)) } " " span.small { (when(row.at)) } @if !row.said.is_empty() { p.small dir="auto" { (clip(&row.said, 300)) } } } } }
            (pages(shell, older.as_deref().map(|older| (older, words.older)), shell.asked("cursor").is_some()))
        }))
    }
}

fn logs(shell: &Shell, view: &SlotDetail) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.plugin_log) }
        @if view.logs.is_empty() { (empty(words.nothing_here, None)) }
        ol.timeline { @for (level, text, at) in &view.logs { li dir="auto" { code { (clip(level, 10)) } " " (clip(text, 300)) " " span.small { (when(*at)) } } } }
    }
}
