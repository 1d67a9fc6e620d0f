//! How agents talk to each other: who may, how long, how often, and when it is enough.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::id::AgentId;

/// Flows between agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct A2a {
    /// The language in which failures are told.
    pub language: Language,
    /// How long the run of the other side may take before its sender hears that there is no reply.
    #[schemars(range(min = 1, max = 86_400))]
    pub wait_seconds: u64,
    /// Further tries after failures that may pass, such as an overloaded model.
    #[schemars(range(max = 20))]
    pub max_retries: u32,
    /// Before the first further try; it doubles with each.
    #[schemars(range(min = 1, max = 300_000))]
    pub backoff_ms: u64,
    /// A job whose run goes on for so long without anything recorded is given up.
    #[schemars(range(min = 1, max = 10_080))]
    pub stale_minutes: u64,
    /// How long finished jobs are kept.
    #[schemars(range(min = 1, max = 365))]
    pub keep_days: u32,
    /// How many finished jobs are kept at most; the oldest go first.
    #[schemars(range(min = 100, max = 100_000_000))]
    pub keep_jobs: usize,
    pub chain: ChainLimits,
    pub spawn: Spawn,
}

/// How far the messages go that one message causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ChainLimits {
    /// Forwards from agent to agent, one after the other.
    #[schemars(range(min = 1, max = 100))]
    pub hops: u32,
    /// Messages of all agents together.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub messages: u64,
    /// What all of its runs may use.
    #[schemars(range(min = 1))]
    pub tokens: u64,
    /// Since its first message.
    #[schemars(range(min = 1, max = 168))]
    pub hours: u64,
}

/// Sub-agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Spawn {
    /// Sub-agents of sub-agents.
    #[schemars(range(min = 1, max = 20))]
    pub depth: u32,
    /// Sub-agents that work for one session at once.
    #[schemars(range(min = 1, max = 1_000))]
    pub children: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    Ko,
    En,
}

impl Default for A2a {
    fn default() -> Self {
        Self {
            language: Language::Ko,
            wait_seconds: 300,
            max_retries: 3,
            backoff_ms: 2_000,
            stale_minutes: 60,
            keep_days: 7,
            keep_jobs: 100_000,
            chain: ChainLimits::default(),
            spawn: Spawn::default(),
        }
    }
}

impl Default for ChainLimits {
    fn default() -> Self {
        Self { hops: 8, messages: 500, tokens: 5_000_000, hours: 24 }
    }
}

impl Default for Spawn {
    fn default() -> Self {
        Self { depth: 5, children: 8 }
    }
}

/// How sessions of agents exchange messages, and how long sessions stay that nobody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Session {
    pub agent_to_agent: Exchange,
    /// After how many idle days the session of a sub-agent, or of one of several conversations between agents, is archived; 0 is never.
    #[schemars(range(max = 36_500))]
    pub subagent_keep_days: u32,
    /// After how many idle days the session of a thread in a channel, or of a user of `/v1`, is archived; 0 is never.
    #[schemars(range(max = 36_500))]
    pub thread_keep_days: u32,
    /// For how many days what is archived is kept; 0 is for ever.
    #[schemars(range(max = 36_500))]
    pub archive_keep_days: u32,
}

impl Default for Session {
    fn default() -> Self {
        Self { agent_to_agent: Exchange::default(), subagent_keep_days: 30, thread_keep_days: 30, archive_keep_days: 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Exchange {
    /// How often two agents go back and forth after the first reply.
    #[schemars(range(max = 5))]
    pub max_ping_pong_turns: u32,
}

impl Default for Exchange {
    fn default() -> Self {
        Self { max_ping_pong_turns: 5 }
    }
}

/// Who may send to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentToAgent {
    /// Whether agents may send to each other at all.
    pub enabled: bool,
    /// Ids of agents that may send to each other, `*` for any end of one; or `from->to` for one direction.
    pub allow: Vec<Allow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("pattern" = r"^[a-z0-9_*-]{1,65}(->[a-z0-9_*-]{1,65})?$", "x-advice" = "write an agent's id, `*`, or `from->to`"))]
pub struct Allow(pub String);

impl Default for AgentToAgent {
    fn default() -> Self {
        Self { enabled: true, allow: vec![Allow("*".into())] }
    }
}

impl AgentToAgent {
    /// Whether one agent may send to another. Sessions of one agent always may.
    pub fn allows(&self, from: &AgentId, to: &AgentId) -> bool {
        let (from, to) = (from.as_ref(), to.as_ref());
        let both = |side: &str| self.allow.iter().any(|allow| !allow.0.contains("->") && fits(&allow.0, side));
        let directed = |allow: &Allow| allow.0.split_once("->").is_some_and(|(a, b)| fits(a, from) && fits(b, to));
        from == to || (self.enabled && ((both(from) && both(to)) || self.allow.iter().any(directed)))
    }
}

/// Whether a pattern with `*` in it fits a name.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(end) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(end)
}

/// What an agent says about itself as the target of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentA2a {
    /// Conversations with other agents that it answers at once, each in a session of its own. With 1 all of them are in its main session.
    #[schemars(range(min = 1, max = 100))]
    pub concurrency: usize,
}

impl Default for AgentA2a {
    fn default() -> Self {
        Self { concurrency: 1 }
    }
}

impl Config {
    /// How many conversations with others an agent answers at once.
    pub fn slots_of(&self, agent: &AgentId) -> usize {
        self.agents.list.iter().find(|known| known.id == *agent).map_or(1, |known| known.a2a.concurrency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_send_to_whom_follows_from_ids_and_directions() {
        let check = |allow: &[&str], from: &str, to: &str, expected: bool| {
            let policy = AgentToAgent { enabled: true, allow: allow.iter().map(|a| Allow((*a).into())).collect() };
            let id = |text: &str| text.parse::<AgentId>().expect("an id");
            assert_eq!(policy.allows(&id(from), &id(to)), expected, "{allow:?} {from} {to}");
        };
        check(&["*"], "eden", "seum", true);
        check(&[], "eden", "seum", false);
        check(&[], "eden", "eden", true);
        check(&["eden"], "eden", "seum", false);
        check(&["eden", "se*"], "eden", "seum", true);
        check(&["ruda->*"], "ruda", "seum", true);
        check(&["ruda->*"], "seum", "ruda", false);
        check(&["dev-*-a"], "dev-x-a", "dev-y-a", true);
        check(&["dev-*-a"], "dev-x-b", "dev-y-a", false);
        check(&["*a*a*", "x"], "banana", "x", true);
        check(&["ab*ba", "x"], "aba", "x", false);
        let off = AgentToAgent { enabled: false, ..AgentToAgent::default() };
        assert!(!off.allows(&"eden".parse().expect("an id"), &"seum".parse().expect("an id")));
    }
}
