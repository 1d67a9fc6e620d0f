//! What a reader sees when a view cannot be shown or something is not done: why, what was typed, and the way back.

use maud::html;

use crate::layout::{Fragment, Page, Shell};

/// `said` is the reason, `found` whether there is such a thing at all.
pub fn problem(shell: &Shell, said: &str, found: bool) -> Page {
    let words = shell.words();
    let title = if found { words.went_wrong } else { words.not_found };
    let markup = html! {
        h1 { (title) }
        p dir="auto" { (crate::clip(said, 600)) }
        @if !found { p { (words.not_found_help) } }
        p { a.button href="/" { (words.to_overview) } }
    };
    Page { nav: "problem", title: title.into(), fragments: vec![Fragment::new("problem", &[], markup)], dialog: None }
}

/// Something was not done. What was typed for it is kept on the page, to be sent again.
pub fn refused(shell: &Shell, said: &str, typed: Option<&str>, back: &str) -> Page {
    let words = shell.words();
    let markup = html! {
        h1 { (words.refused) }
        p dir="auto" { (crate::clip(said, 600)) }
        @if let Some(typed) = typed {
            label for="typed" { (words.you_typed) }
            textarea id="typed" rows="6" readonly dir="auto" { (crate::clip(typed, 60_000)) }
        }
        p { a.button href=(back) { (words.go_back) } }
    };
    Page {
        nav: "problem",
        title: words.refused.into(),
        fragments: vec![Fragment::new("problem", &[], markup)],
        dialog: None,
    }
}
