//! The name of a session: `agent:<id>` and what follows. Keeps true: a key that was read names one agent.

use std::fmt;

use crate::id::AgentId;

const BYTES_MAX: usize = 256;

/// A session of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    pub agent: AgentId,
    /// After `agent:<id>:`; `main` for the agent's own.
    tail: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} is not a session key: {said}; write `agent:<id>`, `agent:<id>:main` or what `sessions.list` tells")]
pub struct BadSessionKey {
    shown: String,
    said: &'static str,
}

impl SessionKey {
    pub fn main(agent: AgentId) -> Self {
        Self { agent, tail: "main".into() }
    }

    /// A bare agent id and `agent:<id>` are the agent's main session.
    pub fn parse(text: &str) -> Result<Self, BadSessionKey> {
        let bad = |said| BadSessionKey { shown: text.chars().take(80).collect(), said };
        if text.len() > BYTES_MAX {
            return Err(bad("it is longer than 256 bytes"));
        }
        // Keys are the same in any case.
        let text = &text.to_lowercase();
        let rest = text.strip_prefix("agent:").unwrap_or(text);
        let (id, tail) = match rest.split_once(':') {
            Some(_) if !text.starts_with("agent:") => return Err(bad("it does not begin with `agent:`")),
            Some((id, tail)) => (id, tail),
            None => (rest, "main"),
        };
        let agent = id.parse().map_err(|_| bad("it names no agent"))?;
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+' | '#');
        let good = |part: &str| !part.is_empty() && part.chars().all(plain);
        if !tail.split(':').all(good) {
            return Err(bad("a part after the agent is empty or has a sign that no key has"));
        }
        Ok(Self { agent, tail: tail.to_owned() })
    }

    /// A session of an agent by what follows the agent in its key.
    pub fn of(agent: AgentId, tail: &str) -> Result<Self, BadSessionKey> {
        Self::parse(&format!("agent:{agent}:{tail}"))
    }

    pub fn is_main(&self) -> bool {
        self.tail == "main"
    }

    /// `group` where many talk, else `direct`.
    pub fn kind(&self) -> &'static str {
        let many = |part: &str| matches!(part, "group" | "channel");
        if self.tail.split(':').any(many) { "group" } else { "direct" }
    }

    /// The place in a channel that it is about: `discord:channel:7:thread:9` gives the channel, the kind of place, the place and the thread.
    pub fn channel(&self) -> Option<(&str, &str, &str, Option<&str>)> {
        let parts: Vec<&str> = self.tail.split(':').collect();
        let is_kind = |kind: &str| matches!(kind, "channel" | "group" | "direct");
        match parts.as_slice() {
            [channel, kind, place] if is_kind(kind) => Some((channel, kind, place, None)),
            [channel, kind, place, "thread", thread] if is_kind(kind) => Some((channel, kind, place, Some(thread))),
            _ => None,
        }
    }

    /// A thread in a channel.
    pub fn is_thread(&self) -> bool {
        self.channel().is_some_and(|(.., thread)| thread.is_some())
    }

    /// Of a session that a client of `/v1` has begun, what follows `openai:`: the user that it named, else the run.
    pub fn of_api(&self) -> Option<&str> {
        self.tail.strip_prefix("openai:")
    }

    /// The person that `direct:<peer>` is about.
    pub fn peer(&self) -> Option<&str> {
        self.tail.strip_prefix("direct:").filter(|peer| !peer.contains(':'))
    }

    /// One of several conversations that an agent has with others at once: `agent:<id>:a2a:<conversation>`.
    pub fn is_slot(&self) -> bool {
        self.tail.starts_with("a2a:")
    }

    /// The session of a sub-agent, which works for the agent for a while.
    pub fn is_subagent(&self) -> bool {
        self.tail.split(':').any(|part| part == "subagent")
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent:{}:{}", self.agent, self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_mean_the_main_session_and_a_bad_tail_is_refused() {
        let check = |text: &str, expected: Option<&str>| {
            let read = SessionKey::parse(text).map(|key| key.to_string());
            assert_eq!(read.as_deref().ok(), expected, "{text}");
        };
        check("eden", Some("agent:eden:main"));
        check("agent:eden", Some("agent:eden:main"));
        check("agent:eden:main", Some("agent:eden:main"));
        check("agent:eden:discord:channel:123:thread:9", Some("agent:eden:discord:channel:123:thread:9"));
        check("agent:eden:direct:민수", Some("agent:eden:direct:민수"));
        check("agent:eden:", None);
        check("agent:eden:a::b", None);
        check("agent:eden:a/../b", None);
        check("agent:../x:main", None);
        check("eden:main", None);
        check("", None);
        check(&format!("agent:eden:{}", "x".repeat(300)), None);
        assert!(SessionKey::parse("agent:eden:subagent:7").expect("good").is_subagent());
        assert!(!SessionKey::parse("eden").expect("good").is_subagent());
        let is_thread = |text: &str| SessionKey::parse(text).expect("good").is_thread();
        assert!(is_thread("agent:eden:slack:channel:c1:thread:17.5") && !is_thread("agent:eden:slack:channel:c1"));
        assert_eq!(SessionKey::parse("agent:eden:openai:kim").expect("good").of_api(), Some("kim"));
    }
}
