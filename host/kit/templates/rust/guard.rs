//! {{summary}}.

use chela_sdk::guard::{Guard, Refusal, Request, Verdict};
use chela_sdk::{ConfigError, Failure, Plugin, log, parse_config};
use serde::Deserialize;

/// The configuration: what the deployment may say.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct {{type}} {
    scratch: String,
}

impl Default for {{type}} {
    fn default() -> Self {
        Self { scratch: "tmp/".into() }
    }
}

impl Plugin for {{type}} {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        parse_config(json)
    }
}

impl Guard for {{type}} {
    fn before_tool_call(&self, request: Request) -> Result<Verdict, Failure> {
        if request.tool != "files_delete" {
            return Ok(Verdict::Allow);
        }
        let arguments: serde_json::Value =
            serde_json::from_str(&request.arguments).map_err(|error| Failure::InvalidInput(error.to_string()))?;
        let path = arguments["path"].as_str().unwrap_or_default();
        if path.starts_with(&self.scratch) && !path.contains("..") {
            return Ok(Verdict::Allow);
        }
        log::info(&format!("{} wanted to delete {path}", request.agent.id));
        Ok(Verdict::Block(Refusal {
            reason: format!("Only files in {} may be deleted", self.scratch),
            remaining: vec![],
            instructions: vec!["Ask a person to delete it, or move it to the scratch folder".into()],
        }))
    }
}

chela_sdk::guard!({{type}});
