//! A stop to test with: the agent `eden` and its task `task_1`, "OAuth".
//! Keeps true: nothing in it makes a layer skip or back off by itself. Never: part of the component.

use chela_sdk::continuation::{Blocker, Counters, Layer, NextRequest};
use chela_sdk::{Agent, Context, Step, StepStatus, Task};

pub fn request(layer: Layer, steps: Vec<Step>) -> NextRequest {
    NextRequest {
        context: Context { now_ms: 0, seed: 0, deployment: String::new(), locale: "ko".into(), budget_ms: 50 },
        agent: Agent { id: "eden".into(), role: "agent".into(), session_key: "agent:eden:main".into() },
        layer,
        task: Some(Task { id: "task_1".into(), description: "OAuth".into(), status: "in_progress".into(), steps }),
        blocker: None,
        counters: Counters { in_a_row: 3, in_a_row_max: 20, without_progress: 1, requests: 2, requests_max: 3 },
        idle_ms: 500,
        last_error: String::new(),
        same_error: 0,
        earlier: String::new(),
        attrs: Vec::new(),
    }
}

/// One step a sign, as task files mark them: `x`, `>`, `-`, and `.` for pending, `?` for a status of a later version.
pub fn steps(signs: &str) -> Vec<Step> {
    let step = |(index, sign)| {
        let id = format!("s{}", index + 1);
        let status = match sign {
            'x' => StepStatus::Done,
            '>' => StepStatus::InProgress,
            '-' => StepStatus::Skipped,
            '.' => StepStatus::Pending,
            _ => StepStatus::Other,
        };
        Step { content: format!("do {id}"), id, status }
    };
    signs.chars().enumerate().map(step).collect()
}

pub fn blocker(kind: &str) -> Blocker {
    Blocker { kind: kind.into(), reason: "no API key".into(), action: "send the key".into(), owner: "noah".into() }
}
