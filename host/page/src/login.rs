//! The page before all others: a token, and what was wrong with the last one.

use maud::html;

use crate::layout::{Fragment, Page, Shell};
use crate::parts::code_marks;

/// `next` is where the reader wanted to go.
pub fn login(shell: &Shell, next: &str) -> Page {
    let words = shell.words();
    let form = html! {
        h1 { (words.sign_in) }
        form method="post" action="/login" data-plain {
            input type="hidden" name="next" value=(next);
            label for="token" { (words.token) }
            input id="token" name="token" type="password" autocomplete="current-password" required autofocus maxlength="4096"
                spellcheck="false" aria-describedby="token-help";
            p.small id="token-help" { (code_marks(words.token_help)) }
            button.main type="submit" { (words.sign_in) }
        }
    };
    Page { nav: "login", title: words.sign_in.into(), fragments: vec![Fragment::new("login", &[], form)], dialog: None }
}
