//! The configuration that a first start writes: complete, strict JSON, with a demo team that needs no key.

use serde_json::{Value, json};

use super::{
    Agent, AgentA2a, AgentRole, Agents, Config, Identity, Listen, Locale, ModelRef, Provider, ProviderKind, RunLimits,
};
use super::{Secret, Team};
use crate::id::AgentId;
use crate::port::PerPort;

/// What `chela init` and a first start may choose.
#[derive(Clone, Debug, Default)]
pub struct Starter {
    /// Addresses other than the usual ones.
    pub listen: PerPort<Option<Listen>>,
    /// What the deployment is called, if not as usual.
    pub name: Option<String>,
    pub locale: Option<Locale>,
    pub team: StarterTeam,
    /// Who answers for the models of the team; else a script, if there is a team.
    pub provider: Option<StarterProvider>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StarterTeam {
    #[default]
    Demo,
    Empty,
    /// Agents by id, the first the default.
    Own(Vec<AgentId>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct StarterProvider {
    pub kind: ProviderKind,
    pub base_url: Option<String>,
    /// Where its key is found; never the key itself.
    pub key: Option<Secret>,
    pub model: String,
}

impl StarterProvider {
    /// Answers from a script, so that a team needs no key.
    pub fn scripted() -> Self {
        Self { kind: ProviderKind::Scripted, base_url: None, key: None, model: "demo".into() }
    }

    /// What it is called in the configuration.
    fn name(&self) -> &'static str {
        match self.kind {
            ProviderKind::Anthropic => "anthropic",
            ProviderKind::Openai => "openai",
            ProviderKind::Scripted => "demo",
        }
    }

    fn provider(&self) -> Provider {
        let shown = (self.kind == ProviderKind::Scripted).then_some("Scripted demo");
        let mut model = json!({ "id": self.model });
        if let Some(name) = shown {
            model["name"] = json!(name);
        }
        let made = json!({ "kind": self.kind, "models": [model] });
        let made: Provider = serde_json::from_value(made).expect("a good provider");
        Provider { base_url: self.base_url.clone(), key: self.key.clone(), ..made }
    }
}

/// The text of a first `chela.json`, with every key spelled out.
pub fn starter(choices: &Starter, token: &str) -> String {
    let mut config = Config::default();
    config.gateway.listen = choices.listen.gateway.unwrap_or(config.gateway.listen);
    config.monitor.listen = choices.listen.monitor.unwrap_or(config.monitor.listen);
    config.hub.listen = choices.listen.hub.unwrap_or(config.hub.listen);
    config.deployment.name = choices.name.clone().unwrap_or(config.deployment.name);
    config.deployment.locale = choices.locale.unwrap_or(config.deployment.locale);
    match &choices.team {
        StarterTeam::Empty => {}
        StarterTeam::Demo => {
            let team = Team { id: "demo".into(), name: Some("Demo team".into()), colour: Some("#d9480f".into()) };
            config.teams = vec![team];
            config.agents = demo_team();
        }
        StarterTeam::Own(ids) => {
            let agent = |id: &AgentId| serde_json::from_value(json!({ "id": id })).expect("a good agent");
            let (default, list) = (ids.first().cloned(), ids.iter().map(agent).collect());
            config.agents = Agents { default, list, ..Agents::default() };
        }
    }
    let scripted = || (choices.team != StarterTeam::Empty).then(StarterProvider::scripted);
    if let Some(chosen) = choices.provider.clone().or_else(scripted) {
        config.agents.model = Some(ModelRef(format!("{}/{}", chosen.name(), chosen.model)));
        config.providers = [(chosen.name().to_owned(), chosen.provider())].into_iter().collect();
    }
    let mut value = config.to_value();
    value["gateway"]["auth"]["token"] = Value::String(token.into());
    let mut text = serde_json::to_string_pretty(&value).expect("a configuration is plain JSON");
    text.push('\n');
    text
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
        a2a: AgentA2a::default(),
    };
    let list = vec![
        agent("ruda", "Ruda", "🦀", AgentRole::Orchestrator),
        agent("eden", "Eden", "🌱", AgentRole::Worker),
        agent("seum", "Seum", "🛠", AgentRole::Worker),
    ];
    Agents { default: Some(list[0].id.clone()), list, ..Agents::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

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
                "tls",
                "agents",
                "providers",
                "runs",
                "a2a",
                "human",
                "continuation",
                "session",
                "tools",
                "teams",
                "categories",
                "plugins",
                "channels",
                "decisions",
                "events",
                "audit",
                "limits",
                "traces",
                "log"
            ]
        );
        let config = parse(&text).expect("a valid configuration");
        assert_eq!(config.agents.list.len(), 3);
        assert_eq!(config.gateway.auth.token, Secret::Text("a-token-of-enough-length".into()));
    }
    #[test]
    fn every_choice_makes_a_valid_configuration() {
        let ids = vec!["mina".parse().expect("an id"), "joon".parse().expect("an id")];
        let key = serde_json::from_str(r#"{"env": "OPENAI_API_KEY"}"#).expect("a secret");
        let provider = StarterProvider {
            kind: ProviderKind::Openai,
            base_url: Some("http://127.0.0.1:11434/v1".into()),
            key: Some(key),
            model: "qwen3:8b".into(),
        };
        for team in [StarterTeam::Demo, StarterTeam::Empty, StarterTeam::Own(ids)] {
            for provider in [None, Some(StarterProvider::scripted()), Some(provider.clone())] {
                let choices = Starter { team: team.clone(), provider: provider.clone(), ..Starter::default() };
                let text = starter(&choices, "a-token-of-enough-length");
                let config = parse(&text).unwrap_or_else(|problems| panic!("{choices:?}: {problems}"));
                let expected = provider.is_some() || team != StarterTeam::Empty;
                assert_eq!(config.agents.model.is_some(), expected, "{choices:?}");
            }
        }
    }
}
