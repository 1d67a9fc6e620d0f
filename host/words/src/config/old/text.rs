//! What was understood of an old configuration, as the text of a `chela.json` that says where it came from.

use serde_json::{Value, json};

use super::super::{Config, Listen, Secret};
use super::Old;

/// Comments above the parts that came from the old file.
const ABOUT: [(&str, &str); 5] = [
    ("gateway", "From `gateway.port`, `gateway.bind` and `gateway.auth` of openclaw.json."),
    ("agents", "From `agents` of openclaw.json."),
    ("session", "From `session.agentToAgent` of openclaw.json."),
    ("tools", "From `tools.agentToAgent` of openclaw.json."),
    ("providers", "From `models.providers` of openclaw.json, and the providers that its agents name."),
];

impl Old {
    /// The text of a `chela.json`, with every key spelled out; `token` when there is a new one.
    pub fn to_text(&self, token: Option<&str>) -> String {
        let mut config = Config { agents: self.agents.clone(), providers: self.providers.clone(), ..Config::default() };
        config.gateway.listen = self.listen;
        config.session.agent_to_agent = self.exchange;
        config.tools.agent_to_agent = self.agent_to_agent.clone();
        if self.monitor_off {
            config.monitor.listen = Listen::Off;
        }
        if self.hub_off {
            config.hub.listen = Listen::Off;
        }
        let mut value = config.to_value();
        value["gateway"]["auth"]["token"] = match (token, &self.token) {
            (Some(token), _) => json!(token),
            (None, secret) => secret.as_ref().map_or_else(|| json!(""), written),
        };
        for (name, provider) in &self.providers {
            if let Some(key) = &provider.key {
                value["providers"][name]["key"] = written(key);
            }
        }
        let body = serde_json::to_string_pretty(&value).expect("a configuration is plain JSON");
        let mut text = String::from(
            "// Made by `chela serve --adopt` from openclaw.json, which is left as it was and read no more.\n",
        );
        if !self.ignored.is_empty() {
            text.push_str("// What of it was not taken over:\n");
        }
        for ignored in &self.ignored {
            text.push_str(&format!("//   {}: {}\n", ignored.path, ignored.reason));
        }
        for line in body.lines() {
            let about = ABOUT.iter().find(|(key, _)| line.starts_with(&format!("  \"{key}\":")));
            text.extend(about.map(|(_, said)| format!("  // {said}\n")));
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// A secret as a configuration has it; a plain one is a text.
fn written(secret: &Secret) -> Value {
    match secret {
        Secret::Text(text) => json!(text),
        elsewhere => json!(elsewhere),
    }
}
