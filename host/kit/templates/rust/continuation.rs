//! {{summary}}.

use chela_sdk::continuation::{Action, Continuation, InstructionsRequest, NextRequest};
use chela_sdk::{ConfigError, Failure, Plugin, StepStatus, no_config};

struct {{type}};

impl Plugin for {{type}} {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        no_config(json).map(|()| Self)
    }
}

impl Continuation for {{type}} {
    fn instructions(&self, _request: InstructionsRequest) -> Result<String, Failure> {
        Ok("One step at a time. Say what is done.".into())
    }

    fn next(&self, request: NextRequest) -> Result<Action, Failure> {
        let Some(task) = request.task else { return Ok(Action::Skip("there is no task".into())) };
        let is_open = |status| !matches!(status, StepStatus::Done | StepStatus::Skipped);
        let open = task.steps.iter().filter(|step| is_open(step.status)).count();
        Ok(Action::Send(format!("Go on with {}: {open} steps are open.", task.description)))
    }
}

chela_sdk::continuation!({{type}});
