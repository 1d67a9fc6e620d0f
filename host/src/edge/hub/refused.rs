//! Why something was not done or cannot be shown, in the reader's language; what the refusal says itself is a detail, where it says more.

use chela_page::{Lang, Said, Words};

use crate::edge::Refusal;
use crate::hub::Error;

/// What a refusal comes to.
pub(super) fn told(lang: Lang, refusal: &Refusal) -> Said {
    let words = lang.words();
    let kind = match refusal {
        Refusal::Changed { .. } => words.changed_meanwhile,
        Refusal::Over { .. } => words.task_over,
        Refusal::Gone { .. } => words.gone_meanwhile,
        Refusal::Answered { .. } => words.answered_already,
        Refusal::Expired { .. } => words.question_expired,
        Refusal::Waits { .. } => words.waits_for_task,
        Refusal::Guarded { .. } => words.guard_refused,
        Refusal::Conflict { .. } => words.cannot_now,
        Refusal::Parameter { .. } => words.not_taken,
        Refusal::NoSuch { .. } | Refusal::NoSuchPath { .. } | Refusal::NoSuchVerb { .. } => words.not_found,
        Refusal::ScopeMissing { .. } | Refusal::NotHere { .. } => words.not_permitted,
        Refusal::Rate { .. } | Refusal::TokenLocked { .. } => words.too_often,
        Refusal::BodyTooLarge { .. } => words.too_long,
        Refusal::BodyTooSlow { .. } | Refusal::BodyBroken => words.broken_off,
        Refusal::TokenMissing | Refusal::TokenWrong => words.expired,
        Refusal::Host => words.wrong_name,
        Refusal::Origin => words.wrong_place,
        Refusal::Indexing { .. } => words.indexing,
        Refusal::Unavailable { .. } => words.try_later,
    };
    Said { said: kind.to_owned(), detail: says_more(refusal).then(|| refusal.to_string()) }
}

/// Whether a refusal says something that its kind does not say.
fn says_more(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Changed { .. }
        | Refusal::Over { .. }
        | Refusal::Gone { .. }
        | Refusal::Expired { .. }
        | Refusal::Rate { .. }
        | Refusal::TokenLocked { .. }
        | Refusal::TokenMissing
        | Refusal::TokenWrong
        | Refusal::BodyBroken
        | Refusal::Indexing { .. } => false,
        Refusal::Answered { .. }
        | Refusal::Waits { .. }
        | Refusal::Guarded { .. }
        | Refusal::Conflict { .. }
        | Refusal::Parameter { .. }
        | Refusal::NoSuch { .. }
        | Refusal::NoSuchPath { .. }
        | Refusal::NoSuchVerb { .. }
        | Refusal::ScopeMissing { .. }
        | Refusal::NotHere { .. }
        | Refusal::BodyTooLarge { .. }
        | Refusal::BodyTooSlow { .. }
        | Refusal::Host
        | Refusal::Origin
        | Refusal::Unavailable { .. } => true,
    }
}

/// Why there is no view.
pub(super) fn unseen(words: &Words, error: &Error) -> Said {
    match error {
        Error::Unknown { what, id } => Said { said: format!("{}: {id}", words.thing(what)), detail: None },
        Error::Indexing { percent } => Said { said: format!("{} ({percent} %)", words.indexing), detail: None },
        other => Said { said: words.try_later.to_owned(), detail: Some(other.to_string()) },
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
                assert!(told.said.starts_with(kind) && !told.said.contains(&detail), "{told:?}");
                assert_eq!(told.detail.is_some(), says_more(&refusal), "{told:?}");
            }
        };
        let said = || "the reason".to_owned();
        check(Refusal::Changed { said: said() }, "그사이", "This has changed since you looked");
        check(Refusal::Gone { said: said() }, "그사이", "It is gone");
        check(Refusal::Answered { said: said() }, "이미", "Somebody has answered already");
        check(Refusal::Expired { said: said() }, "기한이", "This question has expired");
        check(Refusal::Waits { said: said() }, "먼저 끝나야", "Another task");
        check(Refusal::Guarded { said: said() }, "규칙이", "A guard has refused");
        check(Refusal::Over { said: said() }, "끝난 작업", "This task is over");
        check(Refusal::Conflict { said: said() }, "지금 상태에서는", "That cannot be done");
        check(bad("text", said()), "입력을", "What was given");
        check(Refusal::NoSuch { what: said() }, "찾을 수", "Not found");
        check(Refusal::ScopeMissing { needed: crate::scope::Scope::Write }, "이 토큰으로는", "This token may not");
        check(Refusal::Unavailable { said: said() }, "지금은", "This cannot be done just now");
        check(Refusal::Host, "이 이름으로는", "This is not opened under this name");
    }

    #[test]
    fn what_is_not_there_is_named_in_the_readers_language() {
        let unknown = Error::Unknown { what: "task", id: "task_1".into() };
        assert_eq!(unseen(Lang::Ko.words(), &unknown).said, "작업: task_1");
        assert_eq!(unseen(Lang::Ko.words(), &Error::Indexing { percent: 7 }).said, "기록을 색인하는 중입니다 (7 %)");
    }
}
