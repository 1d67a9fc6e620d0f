//! All that the next instance must know, as JSON under the name `discord/1`.
//! Keeps true: every list has its limit; a snapshot of an earlier version is read, one of another kind is refused.

use std::collections::{BTreeMap, VecDeque};

use chela_sdk::channel::State as Snapshot;
use chela_sdk::channel::keep::{self, Seldom, push, trim};
use serde::{Deserialize, Serialize};

use crate::delivery::{Delivery, Done};
use crate::inbound::Held;
use crate::interactions::Pending;
use crate::limits::Limits;
use crate::names::Names;
use crate::rest::Call;
use crate::sequence::Sequence;

pub const SCHEMA: &str = "discord/1";

/// Ids of messages and interactions that were taken, so that none is taken twice.
pub const SEEN_MAX: usize = 64;
/// Results that are told again when the host asks again.
pub const DONE_MAX: usize = 32;
pub const DIRECT_MAX: usize = 200;
pub const QUESTIONS_MAX: usize = 100;
pub const INTERACTIONS_MAX: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct State {
    pub link: Link,
    pub session: Option<Session>,
    pub sequence: Sequence,
    pub me: Option<Me>,
    pub names: Seldom<Names>,
    pub seen: Seldom<VecDeque<u64>>,
    /// The channel of each person that was written with directly.
    pub direct: BTreeMap<u64, u64>,
    pub calls: Seldom<VecDeque<Call>>,
    pub next_call: u64,
    pub limits: Limits,
    pub deliveries: Seldom<VecDeque<Delivery>>,
    pub done: Seldom<VecDeque<Seldom<Done>>>,
    /// Messages that carry a question, and its id.
    pub questions: VecDeque<(u64, String)>,
    pub interactions: VecDeque<Pending>,
    /// Messages of places that are being asked for.
    pub held: VecDeque<Held>,
    pub typing: BTreeMap<u64, u64>,
    /// What was registered as commands, so that it is done once.
    pub commands: String,
}

/// The connection to the gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Link {
    pub phase: Phase,
    /// Counts the connections; each has its own name, so that nothing of an earlier one is taken for this one's.
    pub generation: u64,
    /// Attempts since the last good connection.
    pub attempts: u32,
    pub interval_ms: u64,
    /// The number that the host's heartbeats say.
    pub told: Option<u64>,
    /// The number of the last state that was kept.
    pub saved: Option<u64>,
    /// A heartbeat was sent and not acknowledged.
    pub unacknowledged: bool,
    pub ready_ms: u64,
    pub identified_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    #[default]
    Idle,
    /// A timer runs until the next attempt.
    Waiting,
    /// The socket was asked for.
    Opening,
    /// Identify or resume was sent.
    Greeting,
    Ready,
    /// Trying again is of no use before an operator has changed something.
    Halted,
}

/// A session of the gateway that can be resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub id: String,
    pub url: String,
}

/// The bot itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Me {
    pub id: u64,
    pub name: String,
    pub application: u64,
}

impl State {
    pub fn snapshot(&self) -> Snapshot {
        keep::snapshot(SCHEMA, self)
    }

    pub fn restored(snapshot: &Snapshot) -> Result<Self, String> {
        let mut state: Self = keep::restored(SCHEMA, snapshot)?;
        // A state of before may have had other limits.
        trim(&mut state.seen, SEEN_MAX);
        trim(&mut state.done, DONE_MAX);
        trim(&mut state.questions, QUESTIONS_MAX);
        trim(&mut state.interactions, INTERACTIONS_MAX);
        Ok(state)
    }

    /// Notes an id of the network; false when it was seen before.
    pub fn is_new(&mut self, id: u64) -> bool {
        if self.seen.contains(&id) {
            return false;
        }
        push(&mut self.seen, id, SEEN_MAX);
        true
    }

    pub fn remember_direct(&mut self, peer: u64, channel: u64) {
        if self.direct.len() >= DIRECT_MAX && !self.direct.contains_key(&peer) {
            self.direct.pop_first();
        }
        self.direct.insert(peer, channel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(schema: &str, bytes: &str) -> Snapshot {
        Snapshot { schema: schema.into(), bytes: bytes.into() }
    }

    #[test]
    fn a_snapshot_comes_back_as_it_was() {
        let mut state = State { commands: "x".into(), next_call: 7, ..State::default() };
        state.remember_direct(u64::MAX, 5);
        assert!(state.is_new(9) && !state.is_new(9));
        assert_eq!(State::restored(&state.snapshot()).expect("restored"), state);
    }

    #[test]
    fn snapshots_of_released_versions_are_read() {
        // One line a released version, as it wrote them; never edited.
        let released = include_str!("../tests/snapshots.ndjson");
        for line in released.lines().filter(|line| !line.is_empty()) {
            let state = State::restored(&snapshot(SCHEMA, line)).expect("restored");
            assert!(state.session.is_some() && state.me.is_some());
        }
        assert!(!released.trim().is_empty());
    }

    #[test]
    fn a_state_with_fields_of_a_later_version_is_read() {
        let state = State::restored(&snapshot(SCHEMA, r#"{"nextCall": 3, "later": true}"#)).expect("restored");
        assert_eq!(state.next_call, 3);
    }

    #[test]
    fn another_form_is_refused() {
        let refused = |schema: &str, bytes: &str| State::restored(&snapshot(schema, bytes)).expect_err("refused");
        assert!(refused("telegram/1", "{}").contains("telegram/1"));
        assert!(refused("discord/2", "{}").contains("discord/1"));
        assert!(refused(SCHEMA, "[").contains("cannot be read"));
    }

    #[test]
    fn lists_forget_the_oldest() {
        let mut state = State::default();
        for id in 1..1_000 {
            assert!(state.is_new(id));
            state.remember_direct(id, id);
        }
        assert_eq!((state.seen.len(), state.direct.len()), (SEEN_MAX, DIRECT_MAX));
        assert!(state.seen.contains(&999));
    }
}
