//! What the gateway decides when no component does: small and boring. A deployment without any plugin still works.

use crate::event::Role;
use crate::policy::{
    Action, Block, CategoriesInput, Classification, EventFacts, Layer, NextInput, RolesInput, Task, ToolCall, Verdict,
};

/// Session keys first, then the deployment's agents, then the careful guess.
pub(super) fn roles(input: &RolesInput) -> Vec<Role> {
    input.events.iter().map(|event| role(event, &input.main_agents)).collect()
}

fn role(event: &EventFacts, main_agents: &[String]) -> Role {
    match event.event_type.as_str() {
        "a2a.send" | "a2a.response" | "a2a.complete" => {}
        "a2a.auto_route" => return Role::Orchestration,
        "a2a.delivery" => return Role::System,
        other => return Role::of_type(other).unwrap_or(Role::Delegation),
    }
    let is_subagent = |key: &String| key.split(':').any(|part| part == "subagent");
    let is_main = |key: &String| key.starts_with("agent:") && !is_subagent(key);
    let known = |agent: &String| main_agents.contains(agent);
    let keys = &event.session_keys;
    match () {
        () if keys.iter().any(is_subagent) => Role::Delegation,
        () if keys.len() >= 2 && keys.iter().all(is_main) => Role::Conversation,
        () if known(&event.from_agent) && known(&event.to_agent) => Role::Conversation,
        () => Role::Delegation,
    }
}

/// No category rather than a guess.
pub(super) fn categories(input: &CategoriesInput) -> Vec<Classification> {
    input.conversations.iter().map(|_| Classification::none("no classifier answered")).collect()
}

/// A task is not completed while steps are open.
pub(super) fn before_tool_call(call: &ToolCall) -> Verdict {
    let forced = match call.arguments.get("force_complete") {
        Some(serde_json::Value::String(text)) => text == "true",
        Some(serde_json::Value::Bool(forced)) => *forced,
        _ => false,
    };
    let remaining: Vec<String> = call.task.iter().flat_map(Task::open_steps).map(|step| step.id.clone()).collect();
    if call.tool != "task_complete" || remaining.is_empty() {
        return Verdict::Allow;
    }
    if forced {
        let warning = format!("Force completed with {} steps remaining: {}", remaining.len(), remaining.join(", "));
        return Verdict::AllowWith { warning };
    }
    Verdict::Block(Block {
        reason: format!("Cannot complete task: {} steps still incomplete", remaining.len()),
        remaining,
        instructions: vec![
            "Complete or skip the remaining steps with task_update, then call task_complete again".into(),
        ],
    })
}

/// A guard that should have an answer and has none.
pub(super) fn guard_failed(guard: &str, why: &str) -> Verdict {
    Verdict::Block(Block {
        reason: format!("The guard {guard} gave no answer, so the call does not run ({why})"),
        remaining: Vec::new(),
        instructions: vec![format!(
            "Tell the operator: `chela plugin list` shows the guard {guard}; `plugins.guards[].onFailure` says what its failure means"
        )],
    })
}

pub(super) fn instructions() -> String {
    String::new()
}

/// One plain prompt.
pub(super) fn next(input: &NextInput) -> Action {
    let Some(task) = &input.task else { return Action::Skip { reason: "there is no task".into() } };
    let open = task.open_steps().count();
    match input.layer {
        Layer::SelfDriving | Layer::EventBased if open == 0 => Action::Skip { reason: "no step is open".into() },
        Layer::Unblock => {
            let blocker = input.blocker.clone().unwrap_or_default();
            let prompt = format!(
                "The task \"{}\" of {} is blocked: {}. Please help to unblock it.",
                task.description, blocker.owner, blocker.reason
            );
            Action::Send { prompt }
        }
        _ => Action::Send { prompt: format!("Continue the task \"{}\": {open} steps are open.", task.description) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Step, StepStatus};

    fn check(kind: &str, from_to: (&str, &str), keys: &[&str], expected: Role) {
        let event = EventFacts {
            event_type: kind.into(),
            from_agent: from_to.0.into(),
            to_agent: from_to.1.into(),
            session_keys: keys.iter().map(|key| (*key).into()).collect(),
            ..EventFacts::default()
        };
        let input = RolesInput { main_agents: vec!["ruda".into(), "eden".into()], events: vec![event] };
        assert_eq!(roles(&input), [expected], "{kind} {from_to:?} {keys:?}");
    }

    #[test]
    fn roles_follow_session_keys_then_agents_then_care() {
        check("a2a.send", ("", ""), &["agent:ruda:main", "agent:eden:subagent:1f"], Role::Delegation);
        check("a2a.send", ("", ""), &["agent:ruda:main", "agent:eden:main"], Role::Conversation);
        check("a2a.response", ("ruda", "eden"), &[], Role::Conversation);
        check("a2a.response", ("ruda", "stranger"), &[], Role::Delegation);
        check("a2a.complete", ("", ""), &[], Role::Delegation);
        check("a2a.spawn", ("ruda", "eden"), &[], Role::Delegation);
        check("task.started", ("", ""), &[], Role::Orchestration);
        check("a2a.auto_route", ("", ""), &[], Role::Orchestration);
        check("plugin.loaded", ("", ""), &[], Role::System);
    }

    #[test]
    fn completion_is_blocked_while_steps_are_open_and_nothing_else_is() {
        let step = |id: &str, status| Step { id: id.into(), content: String::new(), status };
        let steps = vec![step("s1", StepStatus::Done), step("s2", StepStatus::Pending)];
        let task = Task { steps, ..Task::default() };
        let call = |tool: &str| ToolCall { tool: tool.into(), task: Some(task.clone()), ..ToolCall::default() };
        let Verdict::Block(block) = before_tool_call(&call("task_complete")) else { panic!("blocked") };
        assert_eq!(block.remaining, ["s2"]);
        assert_eq!(before_tool_call(&call("task_update")), Verdict::Allow);
        let mut forced = call("task_complete");
        forced.arguments.insert("force_complete".into(), "true".into());
        assert!(matches!(before_tool_call(&forced), Verdict::AllowWith { .. }));
    }
}
