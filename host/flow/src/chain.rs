//! Chains: all messages that one message has caused, however many agents they went through, and how far they may go.

use serde::{Deserialize, Serialize};

use crate::job::Place;

/// Agents of a chain that are shown at most.
const PATH_MAX: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    pub id: String,
    /// Forwards from agent to agent since it began.
    pub hop: u32,
    /// When it began.
    #[serde(default)]
    pub began_at: u64,
    /// The agents that it went through, the last ones.
    #[serde(default)]
    pub path: Vec<String>,
    /// Where the person is who began it; none where no channel did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The span that it began in, where somebody collects them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<String>,
}

/// How far a chain may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub hops: u32,
    pub messages: u64,
    pub tokens: u64,
    pub age_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { hops: 8, messages: 500, tokens: 5_000_000, age_ms: 86_400_000 }
    }
}

/// What a chain has taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub messages: u64,
    pub tokens: u64,
}

/// A chain goes no further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chain {id} goes no further: {path} ({why}); answer instead of forwarding, or raise `a2a.chain.{key}`")]
pub struct Refused {
    id: String,
    path: String,
    why: String,
    key: &'static str,
}

impl Chain {
    pub fn begin(id: String, agent: &str, now: u64) -> Self {
        Self { id, hop: 0, began_at: now, path: vec![agent.to_owned()], place: None, span: None }
    }

    /// A chain that a person began in a channel.
    pub fn in_place(self, place: Option<Place>) -> Self {
        Self { place, ..self }
    }

    /// A chain that began while something was traced.
    pub fn in_span(self, span: Option<String>) -> Self {
        Self { span, ..self }
    }

    /// The chain one agent further on, if it may go there.
    pub fn forward(&self, to: &str, used: Used, limits: &Limits, now: u64) -> Result<Self, Refused> {
        // A chain of an older record does not say when it began.
        let age_ms = if self.began_at == 0 { 0 } else { now.saturating_sub(self.began_at) };
        let over = if self.hop >= limits.hops {
            Some((format!("forwarded {} times", self.hop), "hops"))
        } else if used.messages >= limits.messages {
            Some((format!("{} messages", used.messages), "messages"))
        } else if used.tokens >= limits.tokens {
            Some((format!("{} tokens", used.tokens), "tokens"))
        } else if age_ms >= limits.age_ms {
            Some((format!("{} minutes old", age_ms / 60_000), "hours"))
        } else {
            None
        };
        let mut path = self.path.clone();
        path.push(to.to_owned());
        if let Some((why, key)) = over {
            return Err(Refused { id: self.id.clone(), path: path.join(" -> "), why, key });
        }
        let more = path.len().saturating_sub(PATH_MAX);
        path.drain(..more);
        Ok(Self { hop: self.hop + 1, path, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_at_each_of_its_limits_and_shows_its_way() {
        const BEGAN: u64 = 1_000;
        let limits = Limits { hops: 2, messages: 10, tokens: 100, age_ms: 60_000 };
        let check = |used: Used, now: u64, expected: &str| {
            let chain = Chain::begin("c".into(), "ruda", BEGAN);
            let said =
                chain.forward("eden", used, &limits, now).map_or_else(|error| error.to_string(), |_| "on".into());
            assert!(said.contains(expected), "{said}");
        };
        let none = Used::default();
        check(none, 0, "on");
        check(Used { messages: 10, ..none }, 0, "ruda -> eden (10 messages)");
        check(Used { tokens: 100, ..none }, 0, "a2a.chain.tokens");
        check(none, BEGAN + 60_000, "1 minutes old");
        let once = Chain::begin("c".into(), "ruda", BEGAN).forward("eden", none, &limits, 0).expect("one");
        let twice = once.forward("seum", none, &limits, 0).expect("two");
        let said = twice.forward("ruda", none, &limits, 0).expect_err("a third").to_string();
        assert!(said.contains("ruda -> eden -> seum -> ruda (forwarded 2 times)"), "{said}");
    }
}
