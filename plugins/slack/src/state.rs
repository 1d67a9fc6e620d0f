//! All that the next instance must know, as JSON under the name `slack/1`.
//! Keeps true: every list has its limit; a snapshot of an earlier version is read, one of another kind is refused.

use std::collections::{BTreeMap, VecDeque};

use chela_sdk::channel::keep::{self, Seen, push, trim};
use chela_sdk::channel::{Calls, Deliveries, Questions, State as Snapshot};
use serde::{Deserialize, Serialize};

use crate::commands::Pending;
use crate::inbound::Message;
use crate::names::Names;
use crate::private::{PRIVATE_MAX, Private, Secret};
use crate::web::Purpose;

pub const SCHEMA: &str = "slack/1";

/// Threads that the bot has part in.
const THREADS_MAX: usize = 200;
const DIRECT_MAX: usize = 200;
pub const PENDING_MAX: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct State {
    pub link: Link,
    pub me: Option<Me>,
    pub names: Names,
    pub seen: Seen,
    /// The channel of each person that was written with directly.
    pub direct: BTreeMap<String, String>,
    pub threads: VecDeque<String>,
    pub calls: Calls<Purpose>,
    pub deliveries: Deliveries,
    /// Deliveries whose next part may be there already, and since when.
    pub unsure: BTreeMap<String, u64>,
    pub questions: Questions,
    pub pending: VecDeque<Pending>,
    /// What one person alone reads, longer than its address is good.
    pub private: VecDeque<Private>,
    /// Deliveries under way that one person alone is to read.
    pub secrets: BTreeMap<String, Secret>,
    /// Messages that wait for the names of people.
    pub held: VecDeque<Held>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub message: Message,
    pub waits: Vec<String>,
}

/// The sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Link {
    pub phase: Phase,
    /// Counts requests and sockets; each has its own name, so that nothing of an earlier one is taken for this one's.
    pub generation: u64,
    /// Attempts since the last good connection.
    pub attempts: u32,
    /// The socket that events come from; while it is refreshed, also the one before.
    pub live: Vec<String>,
    /// A socket that was asked for and has not greeted yet.
    pub opening: Option<String>,
    pub ready_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    #[default]
    Idle,
    /// Asked who the bot is.
    Greeting,
    /// A socket is open or on its way.
    Connected,
    /// A timer runs until the next attempt.
    Waiting,
    /// Trying again is of no use before an operator has changed something.
    Halted,
}

/// The bot itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Me {
    pub user: String,
    pub bot: String,
    pub name: String,
    pub team: String,
}

impl State {
    pub fn snapshot(&self) -> Snapshot {
        keep::snapshot(SCHEMA, self)
    }

    pub fn restored(snapshot: &Snapshot) -> Result<Self, String> {
        let mut state: Self = keep::restored(SCHEMA, snapshot)?;
        trim(&mut state.threads, THREADS_MAX);
        trim(&mut state.pending, PENDING_MAX);
        trim(&mut state.private, PRIVATE_MAX);
        // Earlier versions knew this of addresses alone.
        for pending in state.pending.clone().into_iter().filter(|pending| pending.private) {
            state.remember_private(&pending.name, &pending.sender);
        }
        state.deliveries.trim();
        Ok(state)
    }

    pub fn remember_direct(&mut self, person: &str, channel: &str) {
        if self.direct.len() >= DIRECT_MAX && !self.direct.contains_key(person) {
            self.direct.pop_first();
        }
        self.direct.insert(person.to_owned(), channel.to_owned());
    }

    /// The bot has part in a thread, by the name of its first message.
    pub fn joins(&mut self, thread: &str) {
        if !self.has_part_in(thread) {
            push(&mut self.threads, thread.to_owned(), THREADS_MAX);
        }
    }

    pub fn has_part_in(&self, thread: &str) -> bool {
        self.threads.iter().any(|known| known == thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_forget_the_oldest() {
        let mut state = State::default();
        for n in 0..1_000 {
            state.joins(&format!("C1.{n}.1"));
            state.joins(&format!("C1.{n}.1"));
            state.remember_direct(&format!("U{n}"), "D1");
            (0..2).for_each(|part| state.remember_private(&format!("command.{n}.{part}"), "U7"));
        }
        assert_eq!((state.threads.len(), state.direct.len()), (THREADS_MAX, DIRECT_MAX));
        assert_eq!(state.private.len(), PRIVATE_MAX);
        assert!(state.has_part_in("C1.999.1") && !state.has_part_in("C1.1.1"));
        assert_eq!(State::restored(&state.snapshot()).expect("restored"), state);
    }
}
