//! What an event is about, told from its type, its session keys and the main agents, in this order.
//! Keeps true: what is unclear is never taken for a conversation of main agents.

use crate::classifier::{EventFacts, Role};

/// The role of one event: for classifiers that have no opinion of their own about roles.
pub fn usual(event: &EventFacts, main_agents: &[String]) -> Role {
    let (family, name) = event.event_type.split_once('.').unwrap_or((&event.event_type, ""));
    match (family, name) {
        ("a2a", "send" | "response" | "complete") => of_message(event, main_agents),
        ("a2a", "auto_route") => Role::OrchestrationTask,
        ("a2a", "delivery") => Role::SystemObservability,
        // `spawn`, `spawn_result` and what later versions add: among delegations it spoils no conversation.
        ("a2a", _) => Role::DelegationSubagent,
        ("continuation" | "human_query" | "job" | "plan" | "task" | "unblock" | "zombie", _) => Role::OrchestrationTask,
        ("channel" | "config" | "gateway" | "log" | "milestone" | "plugin" | "policy", _) => Role::SystemObservability,
        // Where nothing tells, the careful guess: it spoils no conversation and is still seen among the events of its agents.
        _ => Role::DelegationSubagent,
    }
}

fn of_message(event: &EventFacts, main_agents: &[String]) -> Role {
    let keys: Vec<&str> = event.session_keys.iter().map(String::as_str).filter(|key| !key.is_empty()).collect();
    if keys.iter().any(|key| is_subagent(key)) {
        return Role::DelegationSubagent;
    }
    let is_main = |agent: &String| main_agents.contains(agent);
    let main = match keys.as_slice() {
        [] => is_main(&event.from_agent) && is_main(&event.to_agent),
        // One key tells of one side only; the list of main agents tells of the other.
        [key] => is_main_session(key) && is_main(&event.from_agent) && is_main(&event.to_agent),
        keys => keys.iter().all(|key| is_main_session(key)),
    };
    if main { Role::ConversationMain } else { Role::DelegationSubagent }
}

/// `agent:eden:subagent:1f`
fn is_subagent(key: &str) -> bool {
    key.split(':').skip(1).any(|part| part == "subagent")
}

/// `agent:eden:main`, also with what a channel adds behind it.
fn is_main_session(key: &str) -> bool {
    let mut parts = key.split(':');
    parts.next() == Some("agent") && parts.next().is_some_and(|agent| !agent.is_empty()) && parts.next() == Some("main")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(event_type: &str, from: &str, to: &str, keys: &[&str]) -> Role {
        let event = EventFacts {
            event_type: event_type.into(),
            agent: from.into(),
            from_agent: from.into(),
            to_agent: to.into(),
            session_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            work_session: String::new(),
        };
        usual(&event, &["eden".into(), "seum".into()])
    }

    fn check(event_types: &str, expected: Role) {
        for event_type in event_types.split(' ') {
            assert_eq!(role(event_type, "eden", "seum", &[]), expected, "{event_type}");
        }
    }

    #[test]
    fn the_type_decides_where_it_can() {
        check("task.started continuation.sent plan.proposed unblock.requested zombie.found", Role::OrchestrationTask);
        check("job.finished human_query.asked a2a.auto_route", Role::OrchestrationTask);
        check("a2a.delivery plugin.trapped channel.joined policy.refused log.gap", Role::SystemObservability);
        check("config.changed gateway.started milestone.sync_failed", Role::SystemObservability);
        check("a2a.spawn a2a.spawn_result", Role::DelegationSubagent);
    }

    #[test]
    fn unknown_types_are_taken_conservatively() {
        check("a2a.whisper a2a. a2a", Role::DelegationSubagent);
        check("milestone.reached", Role::SystemObservability);
        check("weather.changed sent", Role::DelegationSubagent);
    }

    fn check_message(from: &str, to: &str, keys: &[&str], expected: Role) {
        for event_type in ["a2a.send", "a2a.response", "a2a.complete"] {
            assert_eq!(role(event_type, from, to, keys), expected, "{event_type} {from} {to} {keys:?}");
        }
    }

    #[test]
    fn session_keys_come_before_the_list_of_main_agents() {
        check_message("eden", "seum", &["agent:eden:main", "agent:seum:main"], Role::ConversationMain);
        check_message("new", "newer", &["agent:new:main", "agent:newer:main"], Role::ConversationMain);
        check_message("eden", "seum", &["agent:eden:main", "agent:seum:subagent:1f"], Role::DelegationSubagent);
        check_message("eden", "seum", &["agent:eden:subagent:1f"], Role::DelegationSubagent);
        check_message("eden", "seum", &["agent:eden:main", "agent:seum:cron:7"], Role::DelegationSubagent);
    }

    #[test]
    fn without_keys_both_agents_have_to_be_main() {
        check_message("eden", "seum", &[], Role::ConversationMain);
        check_message("eden", "seum", &["", ""], Role::ConversationMain);
        check_message("eden", "worker", &[], Role::DelegationSubagent);
        check_message("", "", &[], Role::DelegationSubagent);
    }

    #[test]
    fn one_key_needs_the_list_for_the_other_side() {
        check_message("eden", "seum", &["agent:eden:main"], Role::ConversationMain);
        check_message("eden", "worker", &["agent:eden:main"], Role::DelegationSubagent);
    }

    #[test]
    fn an_agent_called_subagent_is_none() {
        check_message("eden", "seum", &["subagent:eden:main", "agent:seum:main"], Role::DelegationSubagent);
        check_message("a", "b", &["agent:subagents:main", "agent:seum:main"], Role::ConversationMain);
    }
}
