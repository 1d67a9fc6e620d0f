//! Chat networks: which component speaks to each, what it is granted, and who hears its people.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::plugins::{Binding, PluginLimits};
use super::tools::ReachableHost;
use super::{Config, Secret};
use crate::id::AgentId;
use crate::schema::Problem;

/// A chat network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Channel {
    /// The adapter: `builtin:NAME`, a file in `plugins/`, or an absolute path; without it `chela plugin load` binds one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What the file must be, as 64 hexadecimal digits; another file is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$", "x-advice" = "write the 64 digits that `sha256sum FILE` prints"))]
    pub sha256: Option<String>,
    /// The adapter's own configuration; `chela plugin inspect FILE --json` shows its schema.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    pub limits: ChannelLimits,
    /// What the adapter may reach and use; nothing unless it stands here.
    pub grants: Grants,
    /// Which agent hears whom.
    pub routing: Routing,
}

/// What one call of an adapter may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ChannelLimits {
    /// CPU time of one call.
    #[schemars(range(min = 1, max = 60_000))]
    pub cpu_ms: u32,
    /// CPU time of taking up its configuration.
    #[schemars(range(min = 1, max = 120_000))]
    pub configure_ms: u32,
    /// Memory of the adapter.
    #[schemars(range(min = 1, max = 4_096))]
    pub memory_mb: u32,
}

/// What an adapter may reach and use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Grants {
    /// Hosts that it may reach, by WebSocket and by HTTP; a name without a scheme only by TLS.
    #[schemars(length(max = 100))]
    pub hosts: Vec<ReachableHost>,
    /// Secrets that the gateway puts in for it, by the names that the adapter uses. It never sees them.
    pub secrets: BTreeMap<String, GrantedSecret>,
    /// Paths below `/hooks/NAME/` at which the network calls the adapter.
    pub webhooks: BTreeMap<String, Webhook>,
    pub rates: ChannelRates,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GrantedSecret {
    pub value: Secret,
    /// The hosts that may be told it; each must be granted as well. None for a key that only verifies calls.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub hosts: Vec<ReachableHost>,
}

/// A path at which a network calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Webhook {
    /// How the gateway tells a call of the network from anybody else's; without it every call passes, as unverified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// A signature that a call carries: HMAC-SHA-256 over its body, or over more than that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Verify {
    /// The name of the key among the secrets.
    pub secret: String,
    /// The header that has the signature.
    #[schemars(extend("pattern" = "^[a-z0-9-]{1,64}$", "x-advice" = "write the header's name in lower case"))]
    pub header: String,
    /// What stands before the signature, such as `sha256=`.
    #[serde(default)]
    pub prefix: String,
    #[serde(default)]
    pub coding: SignatureCoding,
    /// What is signed, one part after the other: `body`, `header:NAME` for what that header says, anything else as it stands.
    #[serde(default = "over_body")]
    #[schemars(length(min = 1, max = 16))]
    pub over: Vec<String>,
}

fn over_body() -> Vec<String> {
    vec!["body".into()]
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignatureCoding {
    #[default]
    Hex,
    Base64,
}

/// What an adapter may do a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ChannelRates {
    /// Frames on its sockets.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub frames: u32,
    /// HTTP requests.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub requests: u32,
    /// Messages of people.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub messages: u32,
    /// How long one request may take.
    #[schemars(range(min = 100, max = 600_000))]
    pub request_ms: u64,
    /// Of an answer no more than this is read.
    #[schemars(range(min = 1, max = 4_194_304))]
    pub response_bytes: usize,
    /// A message on a socket that is larger ends it.
    #[schemars(range(min = 1_024, max = 16_777_216))]
    pub frame_bytes: usize,
}

/// Which agent hears whom: who was asked for by name, else by the sender, else by the place, else the channel's own. A worker's people are
/// heard by its orchestrator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Routing {
    /// Who hears everybody else; the deployment's default agent unless it stands here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// By the sender's id.
    pub peers: BTreeMap<String, AgentId>,
    /// By the place's id, such as a channel's; a thread goes with its channel.
    pub channels: BTreeMap<String, AgentId>,
    /// Whether `@NAME` at the beginning of a message asks for an agent by its id or its name.
    pub mentions: bool,
    /// Whether in places of many only messages that speak to the adapter itself are heard.
    pub addressed_only: bool,
}

impl Default for ChannelLimits {
    fn default() -> Self {
        Self { cpu_ms: 1_000, configure_ms: 2_000, memory_mb: 16 }
    }
}

impl From<ChannelLimits> for PluginLimits {
    fn from(limits: ChannelLimits) -> Self {
        Self { cpu_ms: limits.cpu_ms, configure_ms: limits.configure_ms, memory_mb: limits.memory_mb }
    }
}

impl Default for ChannelRates {
    fn default() -> Self {
        Self {
            frames: 600,
            requests: 3_000,
            messages: 30_000,
            request_ms: 30_000,
            response_bytes: 1024 * 1024,
            frame_bytes: 1024 * 1024,
        }
    }
}

impl Default for Routing {
    fn default() -> Self {
        Self { agent: None, peers: BTreeMap::new(), channels: BTreeMap::new(), mentions: true, addressed_only: true }
    }
}

impl Channel {
    /// What is bound by the configuration.
    pub fn binding(&self) -> Option<Binding> {
        let source = self.source.clone()?;
        let (sha256, config) = (self.sha256.clone(), self.config.clone());
        Some(Binding { source, sha256, config, limits: self.limits.into() })
    }
}

/// What the schema cannot say.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, channel) in &config.channels {
        let at = |rest: &str| format!("channels.{name}{rest}");
        let letters = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        let reserved = ["main", "direct", "subagent", "a2a"].contains(&name.as_str());
        if name.is_empty() || name.len() > 40 || !letters || name.starts_with('-') || reserved {
            let said =
                "a channel's name has 1 to 40 of a-z, 0-9 and `-`, and is none of main, direct, subagent and a2a";
            problems.push(Problem::new(at(""), said));
        }
        if channel.source.as_deref().is_some_and(|source| source.is_empty() || source.contains("..")) {
            let said = "name a component: `builtin:NAME`, a file in `plugins/`, or an absolute path without `..`";
            problems.push(Problem::new(at(".source"), said));
        }
        problems.extend(granted(channel, &at));
        let routing = &channel.routing;
        let peers = routing.peers.iter().map(|(peer, agent)| (format!(".routing.peers.{peer}"), agent));
        let places = routing.channels.iter().map(|(place, agent)| (format!(".routing.channels.{place}"), agent));
        let own = routing.agent.iter().map(|agent| (".routing.agent".to_owned(), agent));
        for (path, agent) in peers.chain(places).chain(own) {
            if !config.agents.list.iter().any(|known| known.id == *agent) {
                problems.push(Problem::new(at(&path), format!("no agent has the id `{agent}`")));
            }
        }
    }
    problems
}

fn granted(channel: &Channel, at: &dyn Fn(&str) -> String) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (secret, granted) in &channel.grants.secrets {
        for host in &granted.hosts {
            if !channel.grants.hosts.contains(host) {
                let said = format!("`{}` is not among `grants.hosts`; add it there, or take it out here", host.0);
                problems.push(Problem::new(at(&format!(".grants.secrets.{secret}.hosts")), said));
            }
        }
    }
    for (path, webhook) in &channel.grants.webhooks {
        if webhook.verify.as_ref().is_some_and(|rule| !rule.over.iter().any(|part| part == "body")) {
            let said = "add `body`: a signature that leaves the body out says nothing of it";
            problems.push(Problem::new(at(&format!(".grants.webhooks.{path}.verify.over")), said));
        }
        let part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if !path.split('/').all(part) || path.len() > 128 {
            let said = "a path is written as `events` or `a/b`: letters, digits, `-`, `_`, `.` and `/` between";
            problems.push(Problem::new(at(&format!(".grants.webhooks.{path}")), said));
        }
        if let Some(verify) =
            webhook.verify.as_ref().filter(|verify| !channel.grants.secrets.contains_key(&verify.secret))
        {
            let said = format!("`{}` is not among `grants.secrets`", verify.secret);
            problems.push(Problem::new(at(&format!(".grants.webhooks.{path}.verify.secret")), said));
        }
    }
    problems
}
