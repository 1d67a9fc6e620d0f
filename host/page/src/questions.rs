//! Every question to people: open ones with the place for their answers, and those that are over.

use maud::html;

use crate::layout::{Fragment, Page, Shell};
use crate::parts::{empty, questions_of};
use crate::views::{QuestionState, Questions};

pub fn questions(shell: &Shell, view: &Questions) -> Page {
    let words = shell.words();
    let tabs = [
        (QuestionState::Open, "", words.pending_questions),
        (QuestionState::Answered, "answered", words.answered_questions),
        (QuestionState::Expired, "expired", words.expired_questions),
    ];
    let head = html! {
        h1 { (words.questions) }
        nav.tabs aria-label=(words.filters) {
            @for (state, key, word) in tabs {
                a href=(if key.is_empty() { "/questions".to_owned() } else { format!("/questions?state={key}") })
                    aria-current=[(state == view.state).then_some("page")] { (word) }
            }
        }
    };
    let list = html! {
        @if view.questions.is_empty() {
            @if view.state == QuestionState::Open { (empty(words.no_questions, Some(words.no_questions_help))) }
            @else { (empty(words.nothing_here, None)) }
        }
        (questions_of(shell, view.questions.iter()))
        @if let Some(next) = &view.next { p { a.button href=(shell.with("cursor", next)) { (words.more) } } }
    };
    let fragments = vec![Fragment::new("head", &[], head), Fragment::new("list", &["questions"], list)];
    Page { nav: "questions", title: words.questions.into(), fragments, dialog: None }
}
