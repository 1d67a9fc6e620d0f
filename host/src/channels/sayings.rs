//! What the gateway itself says to people in channels, in the language of the deployment. Pure.

use crate::config::Locale;

pub(super) fn passed_on(locale: Locale) -> &'static str {
    match locale {
        Locale::En => "Passed on.",
        Locale::Ko => "전달했습니다.",
    }
}

pub(super) fn no_task(locale: Locale, agent: &str) -> String {
    match locale {
        Locale::En => format!("{agent} has no open task."),
        Locale::Ko => format!("{agent}: 열린 작업이 없습니다."),
    }
}

/// Somebody asked for the tasks of an agent that there is not.
pub(super) fn no_agent(locale: Locale, asked: &str, agents: &[&str]) -> String {
    let agents = agents.join(", ");
    match locale {
        Locale::En => format!("There is no agent {asked}; there are: {agents}."),
        Locale::Ko => format!("{asked} 에이전트는 없습니다. 있는 에이전트: {agents}"),
    }
}

pub(super) fn no_question(locale: Locale) -> &'static str {
    match locale {
        Locale::En => "No question is open here.",
        Locale::Ko => "여기에는 열린 질문이 없습니다.",
    }
}

pub(super) fn no_command(locale: Locale) -> &'static str {
    match locale {
        Locale::En => "There is no such command; there are `tasks` and `questions`.",
        Locale::Ko => "그런 명령은 없습니다. `tasks`와 `questions`가 있습니다.",
    }
}

pub(super) fn took_too_long(locale: Locale) -> &'static str {
    match locale {
        Locale::En => "This took too long and was ended.",
        Locale::Ko => "너무 오래 걸려서 중단했습니다.",
    }
}

pub(super) fn did_not_work(locale: Locale, said: &str) -> String {
    match locale {
        Locale::En => format!("This did not work: {said}"),
        Locale::Ko => format!("실패했습니다: {said}"),
    }
}

pub(super) fn not_taken(locale: Locale) -> &'static str {
    match locale {
        Locale::En => "This message was not taken: too much waits here already. Please send it again later.",
        Locale::Ko => "기다리는 메시지가 너무 많아 받지 못했습니다. 나중에 다시 보내 주세요.",
    }
}
