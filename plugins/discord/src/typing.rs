//! Shows that the bot types while an agent works. Discord shows it for ten seconds, so it is said again before that.

use chela_sdk::channel::{Output, Presence, Turn};
use serde_json::Value;

use crate::delivery::Target;
use crate::machine::{Machine, TYPING_TIMER};
use crate::rest::{Ask, Purpose};

const AGAIN_MS: u64 = 8_000;
const PLACES_MAX: usize = 32;
/// Work whose end was never told is no longer shown.
const LONGEST_MS: u64 = 30 * 60_000;

impl Machine {
    pub fn presence(&mut self, turn: &mut Turn, presence: &Presence) {
        if !self.config.typing {
            return;
        }
        let channel = match Target::of(&presence.target) {
            Some(Target::Place(channel)) => Some(channel),
            // Opening a conversation only to type in it would be too much.
            Some(Target::Person(peer)) => self.state.direct.get(&peer).copied(),
            None => None,
        };
        let Some(channel) = channel else { return };
        let was_quiet = self.state.typing.is_empty();
        if !presence.typing {
            self.state.typing.remove(&channel);
            if !was_quiet && self.state.typing.is_empty() {
                turn.push(Output::CancelTimer(TYPING_TIMER.into()));
            }
        } else if self.state.typing.len() < PLACES_MAX && !self.state.typing.contains_key(&channel) {
            self.state.typing.insert(channel, turn.now_ms);
            self.show_typing(turn, channel);
            if was_quiet {
                turn.timer(TYPING_TIMER, AGAIN_MS);
            }
        }
        turn.changed();
    }

    pub fn type_again(&mut self, turn: &mut Turn) {
        let oldest = turn.now_ms.saturating_sub(LONGEST_MS);
        self.state.typing.retain(|_, since_ms| *since_ms >= oldest);
        let channels: Vec<u64> = self.state.typing.keys().copied().collect();
        for channel in &channels {
            self.show_typing(turn, *channel);
        }
        if !channels.is_empty() {
            turn.timer(TYPING_TIMER, AGAIN_MS);
        }
    }

    fn show_typing(&mut self, turn: &mut Turn, channel: u64) {
        let is_asked = |call: &crate::rest::Call| call.purpose == Purpose::Typing && call.is_about(channel);
        if !self.state.calls.iter().any(is_asked) {
            self.ask(turn, Purpose::Typing, Ask::channel("POST", channel, "/typing", "/typing", Value::Null));
        }
    }
}
