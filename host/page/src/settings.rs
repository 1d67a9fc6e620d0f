//! The configuration in force, a part at a time with what its schema says, and who may come in with which scope.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::long::{fitting, in_field};
use crate::parts::{badge, clip, code_marks, empty};
use crate::views::Settings;
use crate::words::Words;

/// What the editor takes at most beside the table, and alone on its page; and what the table may take.
const EDITOR_BYTES: usize = 40_000;
const ALONE_BYTES: usize = 125_000;
const TABLE_BYTES: usize = 80_000;

pub fn settings(shell: &Shell, view: &Settings) -> Page {
    let words = shell.words();
    let mut fragments = vec![Fragment::new("head", &["settings"], head(shell, view))];
    let alone = shell.asked("edit").is_some() && shell.may_admin();
    if !alone {
        fragments.push(Fragment::new("fields", &["settings"], fields(shell, view)));
    }
    if shell.may_admin() {
        fragments.push(Fragment::new("edit", &[], edit(shell, view, if alone { ALONE_BYTES } else { EDITOR_BYTES })));
    }
    if !alone {
        fragments.push(Fragment::new("tokens", &["settings"], tokens(shell, view)));
    }
    Page { nav: "settings", title: words.settings.into(), fragments, dialog: None }
}

fn head(shell: &Shell, view: &Settings) -> Markup {
    let words = shell.words();
    html! {
        h1 { (words.settings) }
        p.small { code { (clip(&view.path, 300)) } " · " (words.revision) " " code { (clip(&view.revision, 12)) } }
        @if view.problems.is_empty() { p { (badge("good", "✓", words.file_in_force)) } }
        @else {
            div.notice data-kind="bad" role="alert" {
                strong { (words.file_not_in_force) }
                ul { @for one in view.problems.iter().take(20) { li dir="auto" { (clip(one, 300)) } } }
            }
        }
        @if !view.restart_needed.is_empty() {
            p.notice data-kind="stuck" { (words.restart_needed) ": " @for one in view.restart_needed.iter().take(20) { code { (clip(one, 80)) } " " } }
        }
        nav.tabs aria-label=(words.sections) {
            @for one in &view.sections {
                a href=(shell.with_all(&[("section", one), ("edit", "")])) aria-current=[(*one == view.section).then_some("page")] { (clip(one, 40)) }
            }
        }
    }
}

fn fields(shell: &Shell, view: &Settings) -> Markup {
    let words = shell.words();
    html! {
        h2 { (clip(&view.section, 40)) }
        @if view.rows.is_empty() { (empty(words.nothing_here, None)) }
        @else {
            (fitting(TABLE_BYTES, |each| html! { div.wide tabindex="0" role="region" aria-label=(words.settings) {
                table.grid {
                    thead { tr { th scope="col" { (words.setting) } th scope="col" { (words.value) } th scope="col" { (words.meaning) } } }
                    tbody {
                        @for row in &view.rows {
                            tr {
                                th scope="row" { code { (clip(&row.path, 80)) } " " span.small { (clip(&kind(words, &row.kind), 60)) } }
                                td dir="auto" { code { (clip(&row.value, each.min(160))) } }
                                td lang="en" { (clip(&row.said, each.min(400))) }
                            }
                        }
                    }
                }
            } }))
        }
    }
}

/// What may stand there; words of a choice are written as they are.
fn kind(words: &Words, kinds: &str) -> String {
    let word = |kind| match kind {
        "integer" => words.kind_integer,
        "number" => words.kind_number,
        "string" => words.kind_string,
        "boolean" => words.kind_boolean,
        "array" => words.kind_array,
        "object" => words.kind_object,
        other => other,
    };
    kinds.split(" | ").map(word).collect::<Vec<_>>().join(" | ")
}

fn edit(shell: &Shell, view: &Settings, bytes_max: usize) -> Markup {
    let words = shell.words();
    let text = in_field(&view.text);
    if text.0.len() > bytes_max {
        // What a page cannot hold is not cut, since saving it would lose the rest.
        return html! {
            h2 { (words.change_settings) }
            @if text.0.len() > ALONE_BYTES { p.notice data-kind="stuck" { code { (clip(&view.section, 40)) } ": " (words.too_long_here) } }
            @else { p { a.button href=(shell.with("edit", "1")) { (words.edit) ": " (clip(&view.section, 40)) } } }
        };
    }
    html! {
        h2 { (words.change_settings) }
        p.small { (words.change_settings_help) }
        form method="post" action="/settings" {
            (shell.back())
            input type="hidden" name="section" value=(view.section);
            input type="hidden" name="seen" value=(view.revision);
            label for="section-text" { code { (clip(&view.section, 40)) } }
            textarea.code id="section-text" name="text" rows="16" spellcheck="false" dir="ltr" { (text) }
            button type="submit" { (words.save) }
            p.said role="alert" {}
        }
    }
}

fn tokens(shell: &Shell, view: &Settings) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.tokens) }
        p.small { (code_marks(words.tokens_help)) }
        ul.rows {
            @for one in &view.tokens {
                li.row { div.head { strong { bdi { (clip(&one.name, 60)) } } code { (clip(&one.scope, 60)) } @if one.is_owner { (badge("calm", "◆", words.owner)) } } }
            }
        }
    }
}
