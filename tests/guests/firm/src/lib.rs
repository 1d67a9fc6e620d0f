//! A continuation in Rust, the same as tests/js/continuation.js and tests/python/continuation.py: it says its word and the open steps, waits
//! for whoever fails again and again, and leaves alone whom its configuration names.

use chela_sdk::continuation::{Action, Continuation, InstructionsRequest, Layer, NextRequest};
use chela_sdk::{ConfigError, Failure, Plugin, StepStatus, log, parse_config};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Firm {
    word: Option<String>,
    spare: Option<String>,
}

impl Firm {
    fn word(&self) -> &str {
        self.word.as_deref().unwrap_or("go on")
    }
}

impl Plugin for Firm {
    const LIMITS: &'static [(&'static str, u32)] = &[("cpuMs", 40)];

    fn configure(json: &str) -> Result<Self, ConfigError> {
        parse_config(json)
    }
}

impl Continuation for Firm {
    fn instructions(&self, request: InstructionsRequest) -> Result<String, Failure> {
        if request.agent.id == "!refuse" {
            return Err(Failure::InvalidInput("it was told to refuse".into()));
        }
        Ok(format!("{}, {} {}", self.word(), request.agent.role, request.agent.id))
    }

    fn next(&self, request: NextRequest) -> Result<Action, Failure> {
        if Some(&request.agent.id) == self.spare.as_ref() {
            return Ok(Action::Skip(format!("{} is spared", request.agent.id)));
        }
        if request.same_error >= 2 {
            log::info(&format!("{} times {}", request.same_error, request.last_error));
            return Ok(Action::Backoff(u64::from(request.same_error) * 1_000));
        }
        let layer = match request.layer {
            Layer::SelfDriving => "self-driving",
            Layer::EventBased => "event-based",
            Layer::Polling => "polling",
            Layer::Unblock => "unblock",
            Layer::Backlog => "backlog",
            Layer::Zombie => "zombie",
            Layer::Other => "other",
        };
        let open = |status: &StepStatus| !matches!(status, StepStatus::Done | StepStatus::Skipped);
        let steps = request.task.into_iter().flat_map(|task| task.steps);
        let open: Vec<String> = steps.filter(|step| open(&step.status)).map(|step| step.content).collect();
        let counted = format!("{}/{}", request.counters.in_a_row, request.counters.in_a_row_max);
        let why = request.blocker.map(|blocker| format!(" ({}: {})", blocker.kind, blocker.reason)).unwrap_or_default();
        Ok(Action::Send(format!("[{layer} {counted}] {}: {}{why}", self.word(), open.join(", "))))
    }
}

chela_sdk::continuation!(Firm);
