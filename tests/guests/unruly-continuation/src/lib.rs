//! A continuation that does what its configuration says: a deed for each layer, else `otherwise`.

use std::collections::BTreeMap;

use chela_sdk::continuation::{Action, Continuation, InstructionsRequest, Layer, NextRequest};
use chela_sdk::{ConfigError, Failure, Plugin, parse_config};

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct UnrulyContinuation {
    layers: BTreeMap<String, String>,
    otherwise: String,
}

impl Plugin for UnrulyContinuation {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        parse_config(json)
    }
}

impl Continuation for UnrulyContinuation {
    fn instructions(&self, _request: InstructionsRequest) -> Result<String, Failure> {
        Ok(String::new())
    }

    fn next(&self, request: NextRequest) -> Result<Action, Failure> {
        let layer = match request.layer {
            Layer::SelfDriving => "self-driving",
            Layer::EventBased => "event-based",
            Layer::Polling => "polling",
            Layer::Unblock => "unblock",
            Layer::Backlog => "backlog",
            Layer::Zombie => "zombie",
            Layer::Other => "other",
        };
        match self.layers.get(layer).unwrap_or(&self.otherwise).as_str() {
            "empty" => Ok(Action::Send(" \n".into())),
            "huge" => Ok(Action::Send("p".repeat(1_000_000))),
            "panic" => panic!("it was told to panic"),
            "decline" => Err(Failure::Internal("not today".into())),
            "skip" => Ok(Action::Skip("not now".into())),
            "backoff" => Ok(Action::Backoff(600_000)),
            _ => Ok(Action::Send(format!(
                "go on: {layer} {}/{} earlier {:?}",
                request.counters.in_a_row, request.counters.in_a_row_max, request.earlier
            ))),
        }
    }
}

chela_sdk::continuation!(UnrulyContinuation);
