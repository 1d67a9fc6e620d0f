//! The configuration that a first start writes: complete, strict JSON, with a demo team that needs no key.

use serde_json::Value;

use super::{Agent, AgentRole, Agents, Config, Identity, Listen, ModelRef, Providers, RunLimits, Team};
use crate::port::PerPort;

/// What `chela init` and a first start may choose.
#[derive(Clone, Debug, Default)]
pub struct Starter {
    /// Addresses other than the usual ones.
    pub listen: PerPort<Option<Listen>>,
    /// Leave the team empty instead of adding the demo team.
    pub empty_team: bool,
}

/// The text of a first `chela.json`, with every key spelled out.
pub fn starter(choices: &Starter, token: &str) -> String {
    let mut config = Config::default();
    config.gateway.listen = choices.listen.gateway.unwrap_or(config.gateway.listen);
    config.monitor.listen = choices.listen.monitor.unwrap_or(config.monitor.listen);
    config.hub.listen = choices.listen.hub.unwrap_or(config.hub.listen);
    if !choices.empty_team {
        config.teams = vec![Team { id: "demo".into(), name: Some("Demo team".into()), colour: Some("#d9480f".into()) }];
        config.agents = demo_team();
        config.providers = demo_provider();
    }
    let mut value = config.to_value();
    value["gateway"]["auth"]["token"] = Value::String(token.into());
    let mut text = serde_json::to_string_pretty(&value).expect("a configuration is plain JSON");
    text.push('\n');
    text
}

/// Answers from a script, so that the demo team needs no key.
fn demo_provider() -> Providers {
    let demo = r#"{"kind": "scripted", "models": [{"id": "demo", "name": "Scripted demo"}]}"#;
    [("demo".to_owned(), serde_json::from_str(demo).expect("a good provider"))].into_iter().collect()
}

fn demo_team() -> Agents {
    let agent = |id: &str, name: &str, emoji: &str, role| Agent {
        id: id.parse().expect("the demo team has good ids"),
        name: Some(name.into()),
        role,
        team: Some("demo".into()),
        orchestrator: None,
        identity: Some(Identity { emoji: Some(emoji.into()), ..Identity::default() }),
        workspace: None,
        model: None,
        fallbacks: Vec::new(),
        instructions: None,
        tools: None,
        limits: RunLimits::default(),
    };
    let list = vec![
        agent("ruda", "Ruda", "🦀", AgentRole::Orchestrator),
        agent("eden", "Eden", "🌱", AgentRole::Worker),
        agent("seum", "Seum", "🛠", AgentRole::Worker),
    ];
    Agents { default: Some(list[0].id.clone()), model: Some(ModelRef("demo/demo".into())), fallbacks: Vec::new(), list }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Secret, parse};

    #[test]
    fn the_starter_is_strict_json_complete_and_valid() {
        let text = starter(&Starter::default(), "a-token-of-enough-length");
        let value: Value = serde_json::from_str(&text).expect("strict JSON");
        let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
        assert_eq!(
            keys,
            [
                "deployment",
                "gateway",
                "monitor",
                "hub",
                "agents",
                "providers",
                "runs",
                "tools",
                "teams",
                "categories",
                "plugins",
                "decisions",
                "events",
                "limits",
                "log"
            ]
        );
        let config = parse(&text).expect("a valid configuration");
        assert_eq!(config.agents.list.len(), 3);
        assert_eq!(config.gateway.auth.token, Secret::Text("a-token-of-enough-length".into()));
    }
}
