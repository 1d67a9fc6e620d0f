//! Messages to people: cut, sent one part after the other, and told of when the last one is there.
//! Keeps true: a delivery is done once, however often it is asked for; a part that may have been sent is sent again under the same
//! nonce, by which Discord knows it for a few minutes; what was sent stays sent when the rest must wait.

use chela_sdk::channel::keep::push;
use chela_sdk::channel::{DeliveryResult, Limit, Outbound, Question, Turn, chunks};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::interactions::{PRIVATE, buttons};
use crate::machine::Machine;
use crate::mentions::allowed;
use crate::rest::{Ask, Outcome, Purpose};
use crate::state::DONE_MAX;
use crate::wire;

/// Deliveries under way, and those that wait for the host to ask again.
const DELIVERIES_MAX: usize = 64;
/// Discord counts code points.
const LIMIT: Limit = Limit::characters(2_000);
const CUT: &str = "\n-# (the rest was cut)";
/// What is said to all where a private reply reaches nobody.
const NOTE: &str = "A private reply could not be delivered; allow direct messages from this server and ask again.\n비공개 답변을 전달하지 못했습니다. 이 서버에서 오는 DM을 허용하고 다시 물어봐 주세요.";

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A channel or a thread, which Discord addresses alike.
    Place(u64),
    Person(u64),
}

impl Target {
    /// `channel:ID`, `channel:ID:thread:ID` or `direct:ID`; also with `discord:` before it, and `group` for `channel`.
    pub fn of(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.strip_prefix("discord:").unwrap_or(text).split(':').collect();
        let id = |text: &str| text.parse().ok().filter(|id: &u64| *id > 0);
        match parts.as_slice() {
            ["channel" | "group", place] => id(place).map(Self::Place),
            ["channel" | "group", place, "thread", thread] => id(place).and(id(thread)).map(Self::Place),
            ["direct", person] => id(person).map(Self::Person),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    id: String,
    /// The channel, once it is known.
    channel: Option<u64>,
    peer: Option<u64>,
    parts: Vec<String>,
    /// Message ids of the parts that are there.
    sent: Vec<String>,
    /// Messages of before that are changed instead of new ones made.
    edits: Vec<u64>,
    reply_to: Option<u64>,
    question: Option<Asked>,
    /// The host asks again later.
    parked: bool,
    /// It is private and goes to the person: where that is told, without a word of it, if the person cannot be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note_in: Option<u64>,
}

/// A question that goes with the last part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Asked {
    id: String,
    choices: Vec<String>,
}

impl Delivery {
    /// The person cannot be reached: all that is said is that, and where it was asked.
    fn say_note(&mut self) {
        (self.channel, self.peer, self.question) = (self.note_in.take(), None, None);
        (self.parts, self.sent) = (vec![NOTE.to_owned()], Vec::new());
    }
}

/// A delivery that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    id: String,
    messages: Vec<String>,
    error: String,
}

impl Done {
    fn result(&self) -> DeliveryResult {
        let (id, message_ids, error) = (self.id.clone(), self.messages.clone(), self.error.clone());
        DeliveryResult { id, message_ids, error, retry: false, retry_ms: 0 }
    }
}

impl Machine {
    pub fn deliver(&mut self, turn: &mut Turn, outbound: Outbound) {
        if let Some(done) = self.state.done.iter().find(|done| done.id == outbound.id) {
            return turn.delivered(done.result());
        }
        let id = outbound.id.clone();
        if let Some(delivery) = self.state.deliveries.iter_mut().find(|delivery| delivery.id == id) {
            // Under way: its result comes. Parked: it goes on where it stopped.
            if std::mem::take(&mut delivery.parked) {
                self.advance(turn, &id);
            }
            return;
        }
        match self.planned(outbound) {
            Ok(delivery) => {
                self.make_room();
                self.state.deliveries.push_back(delivery);
                turn.changed();
                self.advance(turn, &id);
            }
            Err(error) => self.end(turn, Done { id, messages: Vec::new(), error: error.into() }),
        }
    }

    fn planned(&self, outbound: Outbound) -> Result<Delivery, &'static str> {
        let target =
            Target::of(&outbound.target).ok_or("this is no place of Discord; write channel:ID or direct:ID")?;
        let parts = chunks(&outbound.text, LIMIT, self.config.chunks_max, CUT);
        if parts.is_empty() {
            return Err("the message is empty");
        }
        let (channel, peer) = match target {
            Target::Place(channel) => (Some(channel), None),
            Target::Person(peer) => (None, Some(peer)),
        };
        Ok(Delivery {
            id: outbound.id,
            channel,
            peer,
            parts,
            sent: Vec::new(),
            edits: outbound.edits.iter().filter_map(|id| id.parse().ok()).collect(),
            reply_to: outbound.reply_to.parse().ok().filter(|id| *id > 0),
            question: outbound.question.map(|Question { id, choices }| Asked { id, choices }),
            parked: false,
            note_in: None,
        })
    }

    /// Of too many, the oldest that waits for the host goes: the host has it still.
    fn make_room(&mut self) {
        if self.state.deliveries.len() >= DELIVERIES_MAX
            && let Some(at) = self.state.deliveries.iter().position(|delivery| delivery.parked)
        {
            self.state.deliveries.remove(at);
        }
    }

    /// The next request of a delivery, or its end.
    pub fn advance(&mut self, turn: &mut Turn, id: &str) {
        let Some(at) = self.state.deliveries.iter().position(|delivery| delivery.id == id) else { return };
        self.keep_private(at, turn.now_ms);
        let (known, peer) = (self.state.deliveries[at].channel, self.state.deliveries[at].peer);
        let found = known.or_else(|| peer.and_then(|peer| self.state.direct.get(&peer).copied()));
        let Some(channel) = found else { return self.open_direct(turn, id, peer.unwrap_or_default()) };
        self.state.deliveries[at].channel = Some(channel);
        if self.state.deliveries[at].sent.len() < self.state.deliveries[at].parts.len() {
            let ask = self.next_part(&self.state.deliveries[at], channel, turn.now_ms);
            if !self.ask(turn, Purpose::Part { delivery: id.to_owned() }, ask) {
                self.park(turn, id, "too many requests wait", 5_000);
            }
            return;
        }
        let Some(delivery) = self.state.deliveries.remove(at) else { return };
        for left in delivery.edits.iter().skip(delivery.parts.len()) {
            let path = format!("/messages/{left}");
            self.ask(turn, Purpose::Remove, Ask::channel("DELETE", channel, &path, "/messages/*", Value::Null));
        }
        if let Some(private) = delivery.reply_to.and_then(|id| self.private(id)).map(|pending| pending.id) {
            self.close_pending(private);
        }
        self.end(turn, Done { id: delivery.id, messages: delivery.sent, error: String::new() });
    }

    /// A private reply that its interaction does not take any more goes to the person, never to the channel.
    fn keep_private(&mut self, at: usize, now_ms: u64) {
        let delivery = &self.state.deliveries[at];
        let may_be_seen =
            delivery.edits.is_empty() && delivery.peer.is_none() && delivery.sent.len() < delivery.parts.len();
        let Some(id) = delivery.reply_to.filter(|_| may_be_seen) else { return };
        let Some(sender) = self.private(id).map(|pending| pending.sender) else { return };
        if self.pending(id, now_ms).is_some() && self.state.me.is_some() {
            return;
        }
        let delivery = &mut self.state.deliveries[at];
        delivery.reply_to = None;
        delivery.note_in = delivery.channel.take();
        delivery.peer = Some(sender).filter(|sender| *sender > 0);
        if delivery.peer.is_none() {
            delivery.say_note();
        }
    }

    fn next_part(&self, delivery: &Delivery, channel: u64, now_ms: u64) -> Ask {
        let nth = delivery.sent.len();
        let is_edit = nth < delivery.edits.len();
        let pending = delivery.reply_to.filter(|_| !is_edit).and_then(|id| self.pending(id, now_ms));
        // Nobody else is to read the rest of a private reply; that of another is a message like any.
        let pending = pending.filter(|pending| nth == 0 || pending.private);
        let mut body = json!({ "content": delivery.parts[nth], "allowed_mentions": allowed(&self.config) });
        let is_last = nth + 1 == delivery.parts.len();
        if let Some(asked) = delivery.question.as_ref().filter(|_| is_last) {
            body["components"] = buttons(&Question { id: asked.id.clone(), choices: asked.choices.clone() });
        }
        if let Some(message) = delivery.edits.get(nth) {
            if body["components"].is_null() {
                body["components"] = json!([]);
            }
            return Ask::channel("PATCH", channel, &format!("/messages/{message}"), "/messages/*", body);
        }
        if let (Some(pending), Some(me)) = (pending, &self.state.me) {
            if nth > 0 {
                body["flags"] = json!(PRIVATE);
                let path = format!("/webhooks/{}/{}", me.application, pending.token);
                return Ask::interaction("POST", path, "/webhooks/*/*", pending.id, body);
            }
            let path = format!("/webhooks/{}/{}/messages/@original", me.application, pending.token);
            return Ask::interaction("PATCH", path, "/webhooks/*/*/messages/@original", pending.id, body);
        }
        body["nonce"] = json!(nonce(&delivery.id, nth));
        body["enforce_nonce"] = json!(true);
        if let Some(message) = delivery.reply_to.filter(|_| nth == 0 && self.config.replies) {
            body["message_reference"] = json!({ "message_id": message.to_string(), "fail_if_not_exists": false });
        }
        Ask::channel("POST", channel, "/messages", "/messages", body)
    }

    pub fn part_answered(&mut self, turn: &mut Turn, id: &str, outcome: Outcome) {
        let Some(at) = self.state.deliveries.iter().position(|delivery| delivery.id == id) else { return };
        let nth = self.state.deliveries[at].sent.len();
        let is_edit = nth < self.state.deliveries[at].edits.len();
        let reply_to = self.state.deliveries[at].reply_to.filter(|_| !is_edit);
        let pending = reply_to.and_then(|id| self.state.interactions.iter().find(|pending| pending.id == id).cloned());
        let pending = pending.filter(|pending| nth == 0 || pending.private);
        match outcome {
            Outcome::Done(message) => {
                // The token of a private reply is needed until its last part is there.
                if let Some(pending) = pending.filter(|pending| !pending.private) {
                    self.close_pending(pending.id);
                }
                let message = wire::id(&message["id"]).unwrap_or_default();
                self.state.deliveries[at].sent.push(message.to_string());
                if let Some(question) = self.state.deliveries[at].question.as_ref().map(|asked| asked.id.clone()) {
                    self.remember_question(message, &question);
                }
                self.advance(turn, id);
            }
            Outcome::Refused { status: 404, .. } if is_edit => {
                // Someone has deleted it: new messages, then.
                self.state.deliveries[at].edits.truncate(nth);
                self.advance(turn, id);
            }
            Outcome::Refused { .. } if pending.is_some() => {
                // The interaction is over; the channel is still there, and for what is private the person.
                self.close_pending(reply_to.unwrap_or_default());
                self.advance(turn, id);
            }
            Outcome::Refused { .. } if self.state.deliveries[at].note_in.is_some() => {
                self.state.deliveries[at].say_note();
                self.advance(turn, id);
            }
            Outcome::Refused { status, code, said } => {
                let error = format!("Discord refused the message: {said} ({status}, code {code})");
                self.give_up(turn, id, error);
            }
            Outcome::Failed { said, retry_ms } => self.park(turn, id, &said, retry_ms),
        }
    }

    fn open_direct(&mut self, turn: &mut Turn, id: &str, peer: u64) {
        let is_asked = |call: &crate::rest::Call| call.purpose == Purpose::Direct { peer };
        if self.state.calls.iter().any(is_asked) {
            return;
        }
        let body = json!({ "recipient_id": peer.to_string() });
        let ask = Ask::other("POST", "/users/@me/channels".into(), "/users/@me/channels", body);
        if !self.ask(turn, Purpose::Direct { peer }, ask) {
            self.park(turn, id, "too many requests wait", 5_000);
        }
    }

    pub fn direct_opened(&mut self, turn: &mut Turn, peer: u64, outcome: Outcome) {
        let waits =
            |delivery: &&Delivery| delivery.peer == Some(peer) && delivery.channel.is_none() && !delivery.parked;
        let waiting: Vec<String> = self.state.deliveries.iter().filter(waits).map(|one| one.id.clone()).collect();
        if let Outcome::Done(channel) = &outcome
            && let Some(channel) = wire::id(&channel["id"])
        {
            self.state.remember_direct(peer, channel);
            return waiting.iter().for_each(|id| self.advance(turn, id));
        }
        for id in waiting {
            let is_over = !matches!(outcome, Outcome::Failed { .. });
            let noted = self.state.deliveries.iter_mut().find(|one| is_over && one.id == id && one.note_in.is_some());
            if let Some(delivery) = noted {
                delivery.say_note();
                self.advance(turn, &id);
                continue;
            }
            match &outcome {
                Outcome::Done(_) => self.give_up(turn, &id, "Discord named no channel for this person".into()),
                Outcome::Refused { status, code, said } => {
                    let error =
                        format!("Discord opens no conversation with this person: {said} ({status}, code {code})");
                    self.give_up(turn, &id, error);
                }
                Outcome::Failed { said, retry_ms } => self.park(turn, &id, said, *retry_ms),
            }
        }
    }

    fn park(&mut self, turn: &mut Turn, id: &str, error: &str, retry_ms: u64) {
        if let Some(delivery) = self.state.deliveries.iter_mut().find(|delivery| delivery.id == id) {
            delivery.parked = true;
        }
        let (id, error) = (id.to_owned(), error.to_owned());
        turn.delivered(DeliveryResult { id, message_ids: Vec::new(), error, retry: true, retry_ms });
    }

    fn give_up(&mut self, turn: &mut Turn, id: &str, error: String) {
        self.state.deliveries.retain(|delivery| delivery.id != id);
        self.end(turn, Done { id: id.to_owned(), messages: Vec::new(), error });
    }

    fn end(&mut self, turn: &mut Turn, done: Done) {
        turn.delivered(done.result());
        push(&mut self.state.done, done.into(), DONE_MAX);
    }
}

/// The same for the same part on every try, and of the length that Discord takes.
fn nonce(id: &str, nth: usize) -> String {
    format!("{:016x}-{nth}", wire::hash(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_sessions_name_them() {
        let check = |text: &str, expected: Option<Target>| assert_eq!(Target::of(text), expected, "{text}");
        check("channel:42", Some(Target::Place(42)));
        check("channel:42:thread:7", Some(Target::Place(7)));
        check("discord:channel:42:thread:7", Some(Target::Place(7)));
        check("group:42", Some(Target::Place(42)));
        check("direct:9", Some(Target::Person(9)));
        for bad in ["", "42", "channel:", "channel:x", "channel:0", "channel:1:thread:", "channel:../2", "direct:9:1"] {
            check(bad, None);
        }
    }

    #[test]
    fn a_nonce_is_one_of_its_part() {
        assert_eq!(nonce("a", 0), nonce("a", 0));
        assert_ne!(nonce("a", 0), nonce("a", 1));
        assert_ne!(nonce("a", 0), nonce("b", 0));
        assert!(nonce(&"x".repeat(500), 99).len() <= 25);
    }
}
