//! A guard that does what its configuration says, or what the argument `do` of the tool call says.

use chela_sdk::guard::{Guard, Refusal, Request, Verdict};
use chela_sdk::{ConfigError, Failure, Plugin, parse_config};
use serde_json::{Value, json};

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct UnrulyGuard {
    #[serde(rename = "do")]
    deed: String,
    /// What it leaves in the arguments and in its words.
    mark: String,
}

impl Plugin for UnrulyGuard {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        parse_config(json)
    }
}

impl Guard for UnrulyGuard {
    fn before_tool_call(&self, request: Request) -> Result<Verdict, Failure> {
        let mut arguments: Value = serde_json::from_str(&request.arguments)
            .map_err(|error| Failure::InvalidInput(format!("the arguments are not JSON: {error}")))?;
        let asked = arguments["do"].as_str().unwrap_or_default().to_owned();
        let refusal = |remaining: &str| Refusal {
            reason: format!("{} says no", self.mark),
            remaining: if remaining.is_empty() { Vec::new() } else { vec![remaining.into()] },
            instructions: vec![format!("ask {}", self.mark)],
        };
        match if self.deed.is_empty() { asked.as_str() } else { &self.deed } {
            "panic" => panic!("the guard was told to panic"),
            "decline" => Err(Failure::Internal("not today".into())),
            "other" => Ok(Verdict::Other(("later".into(), "a verdict of a later version".into()))),
            "not-json" => Ok(Verdict::Rewrite("{\"cut\": ".into())),
            "not-an-object" => Ok(Verdict::Rewrite("[1]".into())),
            "unknown-step" => Ok(Verdict::Block(refusal("s99"))),
            "long-reason" => Ok(Verdict::Block(Refusal { reason: "r".repeat(300_000), ..refusal("") })),
            "block" => Ok(Verdict::Block(refusal(""))),
            "warn" => Ok(Verdict::AllowWith(format!("{} warns", self.mark))),
            "mark" => {
                let mut marks = arguments["marks"].as_array().cloned().unwrap_or_default();
                marks.push(json!(self.mark));
                arguments["marks"] = json!(marks);
                Ok(Verdict::Rewrite(arguments.to_string()))
            }
            _ => Ok(Verdict::Allow),
        }
    }
}

chela_sdk::guard!(UnrulyGuard);
