//! A guard in Rust, the same as tests/js/guard.js and tests/python/guard.py: it blocks the tool of its configuration while steps are open,
//! warns of long arguments, and tidies a text that says so.

use chela_sdk::guard::{Guard, Refusal, Request, Verdict};
use chela_sdk::{ConfigError, Failure, Plugin, StepStatus, log, parse_config};
use serde_json::{Value, json};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Careful {
    tool: Option<String>,
}

impl Plugin for Careful {
    const LIMITS: &'static [(&'static str, u32)] = &[("cpuMs", 40)];

    fn configure(json: &str) -> Result<Self, ConfigError> {
        parse_config(json)
    }
}

impl Guard for Careful {
    fn before_tool_call(&self, request: Request) -> Result<Verdict, Failure> {
        let mut arguments: Value =
            serde_json::from_str(&request.arguments).map_err(|error| Failure::InvalidInput(error.to_string()))?;
        let text = arguments["progress"].as_str().unwrap_or_default().to_owned();
        if text == "!refuse" {
            return Err(Failure::InvalidInput("it was told to refuse".into()));
        }
        if Some(&request.tool) == self.tool.as_ref() {
            let open = |status: &StepStatus| !matches!(status, StepStatus::Done | StepStatus::Skipped);
            let steps = request.task.into_iter().flat_map(|task| task.steps);
            let remaining: Vec<String> = steps.filter(|step| open(&step.status)).map(|step| step.id).collect();
            log::info(&format!("{} open for {}", remaining.len(), request.agent.id));
            let reason = format!("{} is guarded", request.tool);
            return Ok(Verdict::Block(Refusal { reason, remaining, instructions: vec!["finish the steps".into()] }));
        }
        if let Some(rest) = text.strip_prefix("!tidy ") {
            arguments["progress"] = json!(rest.trim());
            return Ok(Verdict::Rewrite(arguments.to_string()));
        }
        Ok(if text.chars().count() > 20 { Verdict::AllowWith("a long text".into()) } else { Verdict::Allow })
    }
}

chela_sdk::guard!(Careful);
