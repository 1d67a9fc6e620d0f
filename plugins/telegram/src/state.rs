//! All that the next instance must know, as JSON under the name `telegram/1`.
//! Keeps true: every list has its limit; a snapshot of an earlier version is read, one of another kind is refused.

use std::collections::{BTreeMap, VecDeque};

use chela_sdk::channel::keep::{self, Seen, push, trim};
use chela_sdk::channel::{Calls, Deliveries, Questions, State as Snapshot};
use serde::{Deserialize, Serialize};

use crate::bot::Purpose;
use crate::look::Unsure;
use crate::numbers::Numbers;

pub const SCHEMA: &str = "telegram/1";

/// Messages whose words are remembered, so that an edit that changes none is not heard.
const SAID_MAX: usize = 64;
/// Groups that became others.
const MOVED_MAX: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct State {
    pub link: Link,
    /// The first update that was not taken yet.
    pub offset: Option<i64>,
    /// When the last update came.
    pub updated_ms: u64,
    pub me: Option<Me>,
    pub seen: Seen,
    /// Messages and a sum of their words.
    pub said: VecDeque<(String, u64)>,
    /// Groups that became supergroups, and their new ids.
    pub moved: VecDeque<(i64, i64)>,
    pub calls: Calls<Purpose>,
    pub deliveries: Deliveries,
    pub numbers: Numbers,
    /// Messages that may be there, and no answer said so.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub unsure: VecDeque<Unsure>,
    pub questions: Questions,
    /// Places where somebody works, and since when.
    pub typing: BTreeMap<String, u64>,
    /// What was registered as commands, so that it is done once.
    pub commands: String,
}

/// The polling of updates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Link {
    pub phase: Phase,
    /// Counts the requests; each has its own name, so that an answer to an earlier one is not taken for this one's.
    pub generation: u64,
    /// Attempts since the last good answer.
    pub attempts: u32,
    /// Until then at most, messages are not looked for: what was said while nobody polled is to be heard first.
    #[serde(skip_serializing_if = "is_zero")]
    pub catch_up_until_ms: u64,
}

/// What is not there takes no room.
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    #[default]
    Idle,
    /// Asked who the bot is.
    Greeting,
    /// A webhook that is in the way is being taken away.
    Clearing,
    Polling,
    /// A timer runs until the next attempt.
    Waiting,
    /// Trying again is of no use before an operator has changed something.
    Halted,
}

/// The bot itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Me {
    pub id: i64,
    /// Without the at sign.
    pub username: String,
}

impl State {
    pub fn snapshot(&self) -> Snapshot {
        keep::snapshot(SCHEMA, self)
    }

    pub fn restored(snapshot: &Snapshot) -> Result<Self, String> {
        let mut state: Self = keep::restored(SCHEMA, snapshot)?;
        trim(&mut state.said, SAID_MAX);
        trim(&mut state.moved, MOVED_MAX);
        state.deliveries.trim();
        state.numbers.trim();
        // An earlier version did not note which numbers there were when it sent a message.
        for call in state.calls.under_way_mut() {
            if let Purpose::Part { after: after @ None, .. } = &mut call.purpose {
                *after = Some(0);
            }
        }
        Ok(state)
    }

    /// Notes the words of a message; false when they are the same as before.
    pub fn says_anew(&mut self, message: &str, words: u64) -> bool {
        if self.said.iter().any(|(said, before)| said == message && *before == words) {
            return false;
        }
        self.said.retain(|(said, _)| said != message);
        push(&mut self.said, (message.to_owned(), words), SAID_MAX);
        true
    }

    pub fn moves(&mut self, from: i64, to: i64) {
        self.moved.retain(|(before, _)| *before != from);
        push(&mut self.moved, (from, to), MOVED_MAX);
    }

    /// The chat that a chat is by now.
    pub fn current(&self, chat: i64) -> i64 {
        self.moved.iter().find(|(before, _)| *before == chat).map_or(chat, |(_, now)| *now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_forget_the_oldest() {
        let mut state = State::default();
        for n in 0..1_000 {
            assert!(state.says_anew(&n.to_string(), 1));
            state.moves(-n - 1, -n - 1_001);
        }
        assert_eq!((state.said.len(), state.moved.len()), (SAID_MAX, MOVED_MAX));
        assert_eq!((state.current(-1_000), state.current(-5)), (-2_000, -5));
        assert_eq!(State::restored(&state.snapshot()).expect("restored"), state);
    }

    #[test]
    fn the_same_words_are_said_once() {
        let mut state = State::default();
        assert!(state.says_anew("1.2", 7) && !state.says_anew("1.2", 7) && state.says_anew("1.2", 8));
        assert!(!state.says_anew("1.2", 8));
    }
}
