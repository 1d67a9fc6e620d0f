//! The default guard: a task is not completed while steps of it are open, unless that is forced.

use chela_sdk::guard::{Guard, Refusal, Request, Verdict};
use chela_sdk::{ConfigError, Failure, Plugin, StepStatus, no_config};
use serde_json::Value;

struct StopGuard;

impl Plugin for StopGuard {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        no_config(json).map(|()| Self)
    }
}

impl Guard for StopGuard {
    fn before_tool_call(&self, request: Request) -> Result<Verdict, Failure> {
        if request.tool != "task_complete" {
            return Ok(Verdict::Allow);
        }
        let steps = request.task.map(|task| task.steps).unwrap_or_default();
        let open = steps.into_iter().filter(|step| !matches!(step.status, StepStatus::Done | StepStatus::Skipped));
        let remaining: Vec<String> = open.map(|step| step.id).collect();
        if remaining.is_empty() {
            return Ok(Verdict::Allow);
        }
        if is_forced(&request.arguments)? {
            let (count, ids) = (remaining.len(), remaining.join(", "));
            return Ok(Verdict::AllowWith(format!("Force completed with {count} steps remaining: {ids}")));
        }
        Ok(Verdict::Block(Refusal {
            reason: format!("Cannot complete task: {} steps still incomplete", remaining.len()),
            remaining,
            instructions: vec![
                "Complete remaining steps: task_update(action: 'complete_step', step_id: 'sN')".into(),
                "Or skip them: task_update(action: 'skip_step', step_id: 'sN')".into(),
                "Or force complete: task_complete(force_complete: 'true')".into(),
            ],
        }))
    }
}

/// Models write the flag as a word or as a truth value.
fn is_forced(arguments: &str) -> Result<bool, Failure> {
    let arguments: Value = serde_json::from_str(arguments)
        .map_err(|error| Failure::InvalidInput(format!("the arguments are not JSON: {error}")))?;
    Ok(match &arguments["force_complete"] {
        Value::Bool(forced) => *forced,
        Value::String(text) => text.trim().eq_ignore_ascii_case("true"),
        _ => false,
    })
}

chela_sdk::guard!(StopGuard);

#[cfg(test)]
mod tests {
    use super::*;
    use chela_sdk::{Agent, Context, Step, Task};

    fn check(tool: &str, arguments: &str, steps: &[(&str, StepStatus)], expected: &str) {
        let steps =
            steps.iter().map(|(id, status)| Step { id: (*id).into(), content: format!("do {id}"), status: *status });
        let task = Task {
            id: "task_1".into(),
            description: "OAuth".into(),
            status: "in_progress".into(),
            steps: steps.collect(),
        };
        let request = Request {
            context: Context { now_ms: 0, seed: 0, deployment: String::new(), locale: "en".into(), budget_ms: 50 },
            tool: tool.into(),
            arguments: arguments.into(),
            agent: Agent { id: "eden".into(), role: "agent".into(), session_key: "agent:eden:main".into() },
            task: Some(task),
            attrs: Vec::new(),
        };
        let answer = match StopGuard.before_tool_call(request) {
            Ok(Verdict::Allow) => "allow".to_owned(),
            Ok(Verdict::AllowWith(warning)) => format!("allow with {warning}"),
            Ok(Verdict::Block(refusal)) => format!("block {} {}", refusal.reason, refusal.remaining.join(",")),
            other => format!("{other:?}"),
        };
        assert!(answer.starts_with(expected), "{answer}");
    }

    const OPEN: &[(&str, StepStatus)] = &[
        ("s1", StepStatus::Done),
        ("s2", StepStatus::InProgress),
        ("s3", StepStatus::Pending),
        ("s4", StepStatus::Skipped),
    ];

    #[test]
    fn completion_is_blocked_while_steps_are_open() {
        check("task_complete", "{}", OPEN, "block Cannot complete task: 2 steps still incomplete s2,s3");
    }

    #[test]
    fn a_status_of_a_later_version_counts_as_open() {
        check("task_complete", "{}", &[("s1", StepStatus::Other)], "block Cannot complete task: 1 ");
    }

    #[test]
    fn completion_passes_when_all_steps_are_closed_or_there_are_none() {
        check("task_complete", "{}", &[("s1", StepStatus::Done), ("s2", StepStatus::Skipped)], "allow");
        check("task_complete", "{}", &[], "allow");
    }

    #[test]
    fn force_passes_with_a_warning_that_names_the_steps() {
        let warned = "allow with Force completed with 2 steps remaining: s2, s3";
        check("task_complete", r#"{"force_complete": "true"}"#, OPEN, warned);
        check("task_complete", r#"{"force_complete": true}"#, OPEN, warned);
        check("task_complete", r#"{"force_complete": "false"}"#, OPEN, "block");
        check("task_complete", r#"{"force_complete": 1}"#, OPEN, "block");
    }

    #[test]
    fn other_tools_are_not_its_concern() {
        check("task_update", "not json", OPEN, "allow");
    }

    #[test]
    fn arguments_that_are_not_json_are_a_failure() {
        check("task_complete", "{", OPEN, "Err(Failure::InvalidInput");
    }
}
