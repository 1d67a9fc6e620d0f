//! Shows that the bot types while an agent works. Telegram shows it for five seconds, so it is said again before that.

use chela_sdk::channel::{Presence, Turn};
use serde_json::json;

use crate::bot::Purpose;
use crate::machine::{Machine, TYPING_TIMER};
use crate::place::Place;

const AGAIN_MS: u64 = 4_000;
const PLACES_MAX: usize = 32;
/// Work whose end was never told is no longer shown.
const LONGEST_MS: u64 = 30 * 60_000;

impl Machine {
    pub fn presence(&mut self, turn: &mut Turn, presence: &Presence) {
        if !self.config.typing || Place::of(&presence.target).is_none() {
            return;
        }
        let was_quiet = self.state.typing.is_empty();
        if !presence.typing {
            self.state.typing.remove(&presence.target);
            if !was_quiet && self.state.typing.is_empty() {
                turn.cancel(TYPING_TIMER);
            }
        } else if self.state.typing.len() < PLACES_MAX && !self.state.typing.contains_key(&presence.target) {
            self.state.typing.insert(presence.target.clone(), turn.now_ms);
            self.show_typing(turn, &presence.target);
            if was_quiet {
                turn.timer(TYPING_TIMER, AGAIN_MS);
            }
        }
        turn.changed();
    }

    pub fn type_again(&mut self, turn: &mut Turn) {
        let oldest = turn.now_ms.saturating_sub(LONGEST_MS);
        self.state.typing.retain(|_, since_ms| *since_ms >= oldest);
        let targets: Vec<String> = self.state.typing.keys().cloned().collect();
        for target in &targets {
            self.show_typing(turn, target);
        }
        if !targets.is_empty() {
            turn.timer(TYPING_TIMER, AGAIN_MS);
        }
    }

    fn show_typing(&mut self, turn: &mut Turn, target: &str) {
        let Some(place) = Place::of(target) else { return };
        let place = Place { chat: self.state.current(place.chat), ..place };
        let mut body = json!({ "action": "typing" });
        place.put_into(&mut body);
        let text = body.to_string();
        if !self.state.calls.any(|call| call.purpose == Purpose::Typing && call.body == text) {
            self.ask(turn, Purpose::Typing, place.chat, "sendChatAction", &body);
        }
    }
}
