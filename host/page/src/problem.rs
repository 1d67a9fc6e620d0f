//! What a reader sees when a view cannot be shown or something is not done: why, what was typed, and the way back.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::long::in_field;
use crate::views::Problem;

/// What a reader is told in their own words, and the detail as the machinery has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub said: String,
    pub detail: Option<String>,
}

impl From<&str> for Said {
    fn from(said: &str) -> Self {
        Self { said: said.to_owned(), detail: None }
    }
}

/// The detail of a refusal, for whoever wants to know: it is in English, whatever the reader reads.
pub(crate) fn detail(shell: &Shell, detail: Option<&str>) -> Markup {
    html! { @if let Some(detail) = detail { details.small open { summary { (shell.words().details) } p lang="en" dir="auto" { (crate::clip(detail, 1_000)) } } } }
}

/// Why a list or a folder cannot be shown.
pub(crate) fn notice(shell: &Shell, problem: &Problem) -> Markup {
    let words = shell.words();
    let (said, about) = match problem {
        Problem::Missing(path) => (words.no_such_file, path),
        Problem::Refused(said) => (words.not_shown_here, said),
        Problem::Unreadable(said) => (words.file_unreadable, said),
    };
    html! { div.notice data-kind="bad" role="alert" { (said) (detail(shell, Some(about))) } }
}

/// `said` is the reason, `found` whether there is such a thing at all.
pub fn problem(shell: &Shell, said: &Said, found: bool) -> Page {
    let words = shell.words();
    let title = if found { words.went_wrong } else { words.not_found };
    let markup = html! {
        h1 { (title) }
        p dir="auto" { (crate::clip(&said.said, 600)) } (detail(shell, said.detail.as_deref()))
        @if !found { p { (words.not_found_help) } }
        p { a.button href="/" { (words.to_overview) } }
    };
    Page { nav: "problem", title: title.into(), fragments: vec![Fragment::new("problem", &[], markup)], dialog: None }
}

/// Something was not done. Everything that was typed for it is kept on the page, to be sent again.
pub fn refused(shell: &Shell, said: &Said, typed: &[(String, String)], back: &str) -> Page {
    let words = shell.words();
    let markup = html! {
        h1 { (words.refused) }
        p dir="auto" { (crate::clip(&said.said, 600)) } (detail(shell, said.detail.as_deref()))
        @for (at, (name, typed)) in typed.iter().enumerate() {
            label for=(format!("typed-{at}")) { (words.you_typed) " (" (words.field(name)) ")" }
            textarea id=(format!("typed-{at}")) rows="6" readonly dir="auto" { (in_field(typed)) }
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
