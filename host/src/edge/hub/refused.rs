//! Why something was not done or cannot be shown, in the reader's language: what kind of refusal it is, and then what it says itself.

use chela_page::{Lang, Words};

use crate::edge::Refusal;
use crate::hub::Error;

/// What a refusal comes to.
pub(super) fn told(lang: Lang, refusal: &Refusal) -> String {
    let words = lang.words();
    let kind = match refusal {
        Refusal::Changed { .. } => words.changed_meanwhile,
        Refusal::Over { .. } => words.task_over,
        Refusal::Conflict { .. } => words.cannot_now,
        Refusal::Parameter { .. } => words.not_taken,
        Refusal::NoSuch { .. } | Refusal::NoSuchPath { .. } | Refusal::NoSuchVerb { .. } => words.not_found,
        Refusal::ScopeMissing { .. } | Refusal::NotHere { .. } => words.not_permitted,
        Refusal::Rate { .. } | Refusal::TokenLocked { .. } => words.too_often,
        Refusal::BodyTooLarge { .. } => words.too_long,
        Refusal::BodyTooSlow { .. } | Refusal::BodyBroken => words.broken_off,
        Refusal::TokenMissing | Refusal::TokenWrong => words.expired,
        Refusal::Host | Refusal::Origin => words.wrong_place,
        Refusal::Indexing { .. } => words.indexing,
        Refusal::Unavailable { .. } => words.try_later,
    };
    format!("{kind} ({refusal})")
}

/// Why there is no view.
pub(super) fn unseen(words: &Words, error: &Error) -> String {
    match error {
        Error::Unknown { what, id } => format!("{}: {id}", words.thing(what)),
        Error::Indexing { percent } => format!("{} ({percent} %)", words.indexing),
        other => format!("{} ({other})", words.try_later),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::params::bad;

    #[test]
    fn a_refusal_is_told_in_the_readers_language_with_what_it_says() {
        let check = |refusal: Refusal, ko: &str, en: &str| {
            let detail = refusal.to_string();
            for (lang, kind) in [(Lang::Ko, ko), (Lang::En, en)] {
                let told = told(lang, &refusal);
                assert!(told.starts_with(kind) && told.ends_with(&format!("({detail})")), "{told}");
            }
        };
        let said = || "the reason".to_owned();
        check(Refusal::Changed { said: said() }, "그사이", "This has changed since you looked");
        check(Refusal::Over { said: said() }, "끝난 작업", "This task is over");
        check(Refusal::Conflict { said: said() }, "지금 상태에서는", "That cannot be done");
        check(bad("text", said()), "입력을", "What was given");
        check(Refusal::NoSuch { what: said() }, "찾을 수", "Not found");
        check(Refusal::ScopeMissing { needed: crate::scope::Scope::Write }, "이 토큰으로는", "This token may not");
        check(Refusal::Unavailable { said: said() }, "지금은", "This cannot be done just now");
    }

    #[test]
    fn what_is_not_there_is_named_in_the_readers_language() {
        let unknown = Error::Unknown { what: "task", id: "task_1".into() };
        assert_eq!(unseen(Lang::Ko.words(), &unknown), "작업: task_1");
        assert_eq!(unseen(Lang::Ko.words(), &Error::Indexing { percent: 7 }), "기록을 색인하는 중입니다 (7 %)");
    }
}
