//! Messages of which it is not known whether Telegram has them: each is looked for, and sent again only where it is not there.
//! Telegram takes no key for a message and shows a bot no history, but it says of a number whether a message of the bot's own is there: it
//! refuses to put below it what stands below it already. So the numbers that were given out since the message was sent, and that belong to
//! nothing else that is known, are asked for one after the other. Keeps true: a look changes no message; in a chat one message is looked
//! for at a time, and where two may be there nothing is told from a look; a look has an end.

use chela_sdk::channel::{Answered, Call, Delivery, Turn};
use chela_sdk::log;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bot::{Purpose, Said, chat_of, lane_of, makes_message};
use crate::entities::entities;
use crate::machine::Machine;
use crate::numbers::count_of;
use crate::place::message_name;
use crate::questions::markup;

/// What was cut off may still be in the midst of being done.
pub const MOMENT_MS: u64 = 2_000;
/// Looks wait until all that was said meanwhile is heard, so that its numbers are known; no longer than this.
pub const CATCH_UP_MS: u64 = 60_000;
const ASKED_MAX: u32 = 200;
/// Looks in vain before the host is to ask again, each after another attempt.
const ROUNDS_MAX: u8 = 2;
const UNSURE_MAX: usize = 256;

pub const METHOD: &str = "editMessageReplyMarkup";

/// A message that may be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unsure {
    /// Empty for what the adapter said by itself, which is not said again.
    delivery: String,
    chat: i64,
    /// The highest number when it was sent; 0 where nothing can be told from a look.
    after: i64,
    /// It was looked for in vain, and not sent since.
    #[serde(default)]
    looked: bool,
    #[serde(default)]
    rounds: u8,
}

/// What an answer to a look says of a number.
#[derive(Debug, PartialEq)]
enum Finding {
    It,
    /// A message that is not the one.
    Other,
    NotThere,
    /// Looking on is of no use.
    Over,
    Later(String, u64),
}

impl Finding {
    fn of(said: Said, text: &str) -> Self {
        match said {
            Said::Refused { status: 400, said, moved: None } => {
                let said = said.to_ascii_lowercase();
                let says = |words: [&str; 2]| words.iter().any(|words| said.contains(words));
                match () {
                    () if says(["message is not modified", "message_not_modified"]) => Self::It,
                    () if says(["message can't be edited", "message_author_required"]) => Self::Other,
                    () if says(["chat not found", "peer_id_invalid"]) => Self::Over,
                    () => Self::NotThere,
                }
            }
            Said::Refused { .. } => Self::Over,
            // Something else stood below it: still the one, if these are its words.
            Said::Done(message) => match message["text"].as_str() {
                Some(words) if words.trim() == text.trim() => Self::It,
                _ => Self::Other,
            },
            Said::Wait { ms } => Self::Later("Telegram asks to wait".into(), ms),
            Said::Nothing(error) | Said::Uncertain(error) => Self::Later(error, 0),
            Said::Unreachable(error) => Self::Later(error, 60_000),
        }
    }
}

impl Machine {
    /// A request that makes a message may have been done: it becomes a look, or is made again where a look tells nothing. False when it is
    /// not to be repeated.
    pub fn doubt(&mut self, call: &mut Call<Purpose>) -> bool {
        let Some(chat) = chat_of(call) else { return false };
        let Purpose::Part { delivery: id, after } = call.purpose.clone() else {
            self.note(String::new(), chat, 0);
            return false;
        };
        self.note(id.clone(), chat, after.unwrap_or(0));
        if let Some((purpose, body)) = self.look(&id, chat) {
            (call.purpose, call.what, call.body) = (purpose, METHOD.to_owned(), body.to_string());
            return true;
        }
        log::warn("whether Telegram has a message cannot be seen");
        call.purpose = Purpose::Part { delivery: id, after: None };
        self.config.repeat_uncertain
    }

    /// Notes that a message may be there. Where another one may be there as well, neither can be told from the other.
    fn note(&mut self, delivery: String, chat: i64, after: i64) {
        let unsure = &mut self.state.unsure;
        let before = unsure.iter().position(|one| one.chat == chat && one.delivery == delivery && !delivery.is_empty());
        let known = before.and_then(|at| unsure.remove(at));
        let mut one = known.unwrap_or(Unsure { delivery, chat, after, looked: false, rounds: 0 });
        one.looked = false;
        for other in unsure.iter_mut().filter(|other| other.chat == chat) {
            (other.after, one.after) = (0, 0);
        }
        chela_sdk::channel::keep::push(unsure, one, UNSURE_MAX);
    }

    fn unsure(&self, delivery: &str) -> Option<&Unsure> {
        self.state.unsure.iter().find(|one| one.delivery == delivery)
    }

    /// The first request of a look for the next part of a delivery; none where it is not to be looked for.
    pub fn look(&self, id: &str, chat: i64) -> Option<(Purpose, Value)> {
        let unsure = self.unsure(id).filter(|one| one.chat == chat && one.after > 0 && !one.looked)?;
        let number = self.state.numbers.candidate(chat, unsure.after, unsure.after)?;
        let body = probe(self.state.deliveries.get(id)?, chat, number);
        Some((Purpose::Look { delivery: id.to_owned(), at: number, asked: 1 }, body))
    }

    /// Whether looks wait until what was said meanwhile is heard.
    pub fn is_to_catch_up(&self) -> bool {
        self.state.unsure.iter().any(|one| one.after > 0 && !one.looked)
    }

    /// Lanes of chats in which a message is looked for.
    pub fn looking(&self) -> impl Iterator<Item = String> {
        self.state.unsure.iter().filter(|one| one.after > 0 && !one.looked).map(|one| lane_of(one.chat))
    }

    pub fn looked(&mut self, turn: &mut Turn, answered: Answered<Purpose>, said: Said) {
        let Purpose::Look { delivery: id, at, asked } = answered.call.purpose.clone() else { return };
        let (Some(unsure), Some(delivery)) = (self.unsure(&id), self.state.deliveries.get(&id)) else { return };
        let (chat, after) = (unsure.chat, unsure.after);
        let text = delivery.parts.get(delivery.nth()).map(|part| entities(part).0).unwrap_or_default();
        if let Said::Refused { moved: Some(moved), .. } = &said {
            self.state.moves(chat, *moved);
        }
        match Finding::of(said, &text) {
            Finding::It => return self.is_there(turn, &id, chat, at),
            Finding::Later(error, ms) => return self.state.deliveries.park(turn, &id, &error, ms),
            Finding::Over => return self.is_not_there(turn, answered, &id),
            Finding::Other => self.learn(chat, at),
            Finding::NotThere => {}
        }
        match self.state.numbers.candidate(chat, after, at).filter(|_| asked < ASKED_MAX) {
            Some(number) => self.look_at(turn, answered, chat, number),
            None => self.is_not_there(turn, answered, &id),
        }
    }

    /// The same look, at another number. All looks together take half of the requests at most.
    fn look_at(&mut self, turn: &Turn, mut answered: Answered<Purpose>, chat: i64, number: i64) {
        let Purpose::Look { delivery: id, at, asked } = &mut answered.call.purpose else { return };
        (*at, *asked) = (number, *asked + 1);
        let Some(delivery) = self.state.deliveries.get(id) else { return };
        answered.call.body = probe(delivery, chat, number).to_string();
        answered.call.tries = 0;
        let pace_ms = self.looking().count() as u64 * 2_000 / u64::from(self.config.requests_per_second);
        self.state.calls.again(answered, turn.now_ms + pace_ms);
    }

    fn is_there(&mut self, turn: &mut Turn, id: &str, chat: i64, number: i64) {
        self.learn(chat, number);
        self.state.unsure.retain(|one| one.delivery != id);
        self.part_is_there(turn, id, message_name(chat, number));
    }

    /// It is sent again, before all that waits for it in its chat.
    fn is_not_there(&mut self, turn: &mut Turn, mut answered: Answered<Purpose>, id: &str) {
        let Some(unsure) = self.state.unsure.iter_mut().find(|one| one.delivery == id) else { return };
        unsure.looked = true;
        unsure.rounds += 1;
        if !self.config.repeat_uncertain {
            return self.part_answered(turn, id, Said::Uncertain("nothing of it was found".into()));
        }
        if unsure.rounds >= ROUNDS_MAX {
            unsure.rounds = 0;
            return self.state.deliveries.park(turn, id, "Telegram answers nothing that tells whether it has it", 0);
        }
        let place = self.state.deliveries.get(id).and_then(|delivery| self.place_of(delivery).map(|at| (delivery, at)));
        match place {
            Some((delivery, place)) if chat_of(&answered.call) == Some(place.chat) => {
                let (method, body) = self.next_part(delivery, place);
                let call = &mut answered.call;
                (call.what, call.body) = (method.to_owned(), body.to_string());
                call.purpose = Purpose::Part { delivery: id.to_owned(), after: None };
                self.state.calls.again(answered, turn.now_ms);
            }
            // It has become another chat.
            _ => self.advance(turn, id),
        }
    }

    /// Telegram has made a message of ours: what was said there before is below it.
    pub fn made(&mut self, id: &str, chat: i64, message: &Value) {
        let deliveries = &self.state.deliveries;
        let is_over = |one: &Unsure| one.chat == chat && deliveries.get(&one.delivery).is_none();
        self.state.unsure.retain(|one| !(is_over(one) || one.delivery == id && !id.is_empty()));
        self.heard_of(chat, message);
    }

    /// A message in a chat, whoever wrote it. What others write in a channel cannot be told from what the bot writes there, so nothing is
    /// looked for in one.
    pub fn heard_of(&mut self, chat: i64, message: &Value) {
        if message["chat"]["type"] != "channel"
            && let Some(number) = message["message_id"].as_i64()
        {
            self.learn(chat, number);
        }
    }

    pub fn learn(&mut self, chat: i64, number: i64) {
        let counts = |other: i64| count_of(other) == count_of(chat);
        let is_sent =
            |call: &Call<Purpose>| call.is_under_way() && makes_message(call) && chat_of(call).is_some_and(counts);
        let is_open = |one: &Unsure| one.after > 0 && self.state.deliveries.get(&one.delivery).is_some();
        let is_sending =
            self.state.calls.any(is_sent) || self.state.unsure.iter().any(|one| counts(one.chat) && is_open(one));
        self.state.numbers.learn(chat, number, is_sending);
    }

    /// Someone has pressed a button of this question on this message. If the question is on its way, it has arrived: not to be looked for
    /// any more, for its buttons go now.
    pub fn pressed(&mut self, turn: &mut Turn, chat: i64, number: i64, question: &str) {
        let asks = |delivery: &&Delivery| {
            let place = self.place_of(delivery).filter(|place| place.chat == chat);
            place.is_some()
                && delivery.edited().is_none()
                && delivery.asks_now().is_some_and(|asked| asked.id == question)
        };
        let doubted = self.state.unsure.iter().filter_map(|one| self.state.deliveries.get(&one.delivery));
        let found = self.state.deliveries.under_way().chain(doubted).find(asks).map(|delivery| delivery.id.clone());
        let Some(id) = found else { return };
        let is_after = |after: i64| after > 0 && number > after;
        let is_of = |purpose: &Purpose| match purpose {
            Purpose::Part { delivery, .. } | Purpose::Look { delivery, .. } => *delivery == id,
            _ => false,
        };
        let is_sent = |call: &Call<Purpose>| match &call.purpose {
            Purpose::Part { after: Some(after), .. } => is_of(&call.purpose) && call.is_under_way() && is_after(*after),
            _ => false,
        };
        if !self.state.calls.any(is_sent) && !self.unsure(&id).is_some_and(|one| is_after(one.after)) {
            return;
        }
        self.state.calls.retain(|call| !is_of(&call.purpose));
        self.is_there(turn, &id, chat, number);
    }
}

/// A request that is refused whatever is there, and says what is: to put below a message what the one that is looked for has below it.
fn probe(delivery: &Delivery, chat: i64, number: i64) -> Value {
    let mut body = json!({ "chat_id": chat, "message_id": number });
    if let Some(markup) = delivery.asks_now().and_then(markup) {
        body["reply_markup"] = markup;
    }
    body
}
