//! Messages to people: cut, given Telegram's marks, sent one part after the other, and told of when the last one is there.
//! Keeps true: a delivery is done once, however often it is asked for; what was sent stays sent when the rest must wait. Telegram knows no
//! key by which it could tell that a message comes again: one whose answer was lost is looked for before it is sent again.

use chela_sdk::channel::{Delivery, Limit, Outbound, Turn, Wanted, chunks};
use serde_json::{Value, json};

use crate::bot::{Purpose, SEND, Said};
use crate::entities::entities;
use crate::look::METHOD as LOOK;
use crate::machine::Machine;
use crate::place::{Place, message_name, message_number, message_of};
use crate::questions::markup;

/// Telegram counts characters after its marks are taken out; units of UTF-16 are never fewer.
const LIMIT: Limit = Limit::utf16(4_096);
const CUT: &str = "\n(the rest was cut)";

impl Machine {
    pub fn deliver(&mut self, turn: &mut Turn, outbound: Outbound) {
        match self.state.deliveries.wanted(turn, outbound) {
            Wanted::Nothing => {}
            Wanted::GoOn(id) => self.advance(turn, &id),
            Wanted::New(outbound) => {
                let id = outbound.id.clone();
                let parts = chunks(&outbound.text, LIMIT, self.config.chunks_max, CUT);
                let Some(place) = Place::of(&outbound.target) else {
                    let error = "this is no place of Telegram; write channel:ID, channel:ID:thread:ID or direct:ID";
                    return self.state.deliveries.refuse(turn, &id, error);
                };
                if parts.is_empty() {
                    return self.state.deliveries.refuse(turn, &id, "the message is empty");
                }
                if let Some((chat, number)) = message_of(&outbound.reply_to).filter(|(chat, _)| *chat == place.chat) {
                    self.learn(chat, number);
                }
                self.state.deliveries.begin(turn, Delivery::new(outbound, parts));
                self.advance(turn, &id);
            }
        }
    }

    pub fn place_of(&self, delivery: &Delivery) -> Option<Place> {
        let place = Place::of(&delivery.target)?;
        Some(Place { chat: self.state.current(place.chat), ..place })
    }

    /// The next request of a delivery, or its end.
    pub fn advance(&mut self, turn: &mut Turn, id: &str) {
        let Some(delivery) = self.state.deliveries.get(id) else { return };
        let Some(place) = self.place_of(delivery) else { return };
        if !delivery.is_over() {
            let (purpose, method, body) = self.look(id, place.chat).map_or_else(
                || {
                    let (method, body) = self.next_part(delivery, place);
                    (Purpose::Part { delivery: id.to_owned(), after: None }, method, body)
                },
                |(purpose, body)| (purpose, LOOK, body),
            );
            if !self.ask(turn, purpose, place.chat, method, &body) {
                self.state.deliveries.park(turn, id, "too many requests wait", 5_000);
            }
            return;
        }
        let Some(delivery) = self.state.deliveries.finish(turn, id) else { return };
        for left in delivery.edits.iter().skip(delivery.parts.len()).filter_map(|name| message_number(name)) {
            let body = json!({ "chat_id": place.chat, "message_id": left });
            self.ask(turn, Purpose::Tidy, place.chat, "deleteMessage", &body);
        }
    }

    pub fn next_part(&self, delivery: &Delivery, place: Place) -> (&'static str, Value) {
        let nth = delivery.nth();
        let (text, marks) = entities(&delivery.parts[nth]);
        let mut body = json!({ "text": text });
        if !marks.is_empty() {
            body["entities"] = json!(marks);
        }
        if !self.config.link_previews {
            body["link_preview_options"] = json!({ "is_disabled": true });
        }
        let markup = delivery.asks_now().and_then(markup);
        if let Some(number) = delivery.edited().and_then(message_number) {
            body["chat_id"] = json!(place.chat);
            body["message_id"] = json!(number);
            body["reply_markup"] = markup.unwrap_or_else(|| json!({ "inline_keyboard": [] }));
            return ("editMessageText", body);
        }
        place.put_into(&mut body);
        if let Some(markup) = markup {
            body["reply_markup"] = markup;
        }
        let answers = message_number(&delivery.reply_to).filter(|_| nth == 0 && self.config.replies);
        if let Some(number) = answers {
            body["reply_parameters"] = json!({ "message_id": number, "allow_sending_without_reply": true });
        }
        (SEND, body)
    }

    /// The part that was sent is there, under this name.
    pub fn part_is_there(&mut self, turn: &mut Turn, id: &str, name: String) {
        let is_parked = !self.state.deliveries.under_way().any(|delivery| delivery.id == id);
        let Some(delivery) = self.state.deliveries.get_mut(id) else { return };
        if let Some(asked) = &delivery.question {
            self.state.questions.remember(&name, &asked.id);
        }
        delivery.sent.push(name);
        turn.changed();
        // What the host asks for again later goes on then.
        if !is_parked {
            self.advance(turn, id);
        }
    }

    pub fn part_answered(&mut self, turn: &mut Turn, id: &str, said: Said) {
        let Some(place) = self.state.deliveries.get(id).and_then(|delivery| self.place_of(delivery)) else { return };
        let Some(delivery) = self.state.deliveries.get_mut(id) else { return };
        let edited = delivery.edited().map(str::to_owned);
        match said {
            Said::Done(message) => {
                // An edit is answered with the message, or with true where that is not ours to see.
                let number = message["message_id"].as_i64().map(|number| message_name(place.chat, number));
                if edited.is_none() {
                    self.made(id, place.chat, &message);
                }
                let name = number.or(edited).unwrap_or_else(|| message_name(place.chat, 0));
                self.part_is_there(turn, id, name);
            }
            Said::Refused { said, .. } if edited.is_some() && said.contains("message is not modified") => {
                delivery.sent.extend(edited);
                self.advance(turn, id);
            }
            Said::Refused { status: 400, .. } if edited.is_some() => {
                // Someone has deleted it, or it is too old to be changed: new messages, then.
                let nth = delivery.nth();
                delivery.edits.truncate(nth);
                self.advance(turn, id);
            }
            Said::Refused { moved: Some(moved), .. } => {
                self.state.moves(place.chat, moved);
                self.advance(turn, id);
            }
            Said::Refused { status, said, .. } => {
                self.state.deliveries.refuse(turn, id, format!("Telegram refused the message: {said} ({status})"));
            }
            Said::Uncertain(error) => {
                let error =
                    format!("it is not known whether Telegram has the message, and it is not sent again: {error}");
                self.state.deliveries.refuse(turn, id, error);
            }
            Said::Wait { ms } => self.state.deliveries.park(turn, id, "Telegram asks to wait", ms),
            Said::Nothing(error) => self.state.deliveries.park(turn, id, &error, 0),
            Said::Unreachable(error) => self.state.deliveries.park(turn, id, &error, 60_000),
        }
    }
}
