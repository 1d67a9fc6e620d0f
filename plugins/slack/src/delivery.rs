//! Messages to people: cut, written as Slack shows them, sent one part after the other, and told of when the last one is there.
//! Keeps true: a delivery is done once, however often it is asked for. Slack takes no key for a message, but shows the note that goes with
//! it: a part whose answer was lost is looked for in the channel by that note, and sent again only where it is not there.

use chela_sdk::channel::{Call, Delivery, Outbound, Turn, Wanted, chunks, wire};
use chela_sdk::log;
use serde_json::{Value, json};

use crate::commands::Pending;
use crate::interactions::blocks;
use crate::machine::Machine;
use crate::mrkdwn::{LIMIT, from_markdown};
use crate::place::{Place, message_name, message_of};
use crate::private::Way;
use crate::web::{Purpose, Said};

const CUT: &str = "\n(the rest was cut)";
/// The kind of note that a message of ours carries.
const NOTE: &str = "chela_delivery";
/// Looked at before the time at which a message was asked for: clocks differ.
const BEFORE_S: u64 = 120;
const LOOKED_AT: u64 = 200;

/// A refusal that says that a message to be changed is not there or not to be changed.
fn is_gone(word: &str) -> bool {
    matches!(word, "message_not_found" | "cant_update_message" | "edit_window_closed")
}

impl Machine {
    pub fn deliver(&mut self, turn: &mut Turn, outbound: Outbound) {
        match self.state.deliveries.wanted(turn, outbound) {
            Wanted::Nothing => {}
            Wanted::GoOn(id) => self.advance(turn, &id),
            Wanted::New(outbound) => {
                let id = outbound.id.clone();
                let parts = chunks(&outbound.text, LIMIT, self.config.chunks_max, CUT);
                if Place::of(&outbound.target).is_none() {
                    let error = "this is no place of Slack; write channel:ID, channel:ID:thread:TIME or direct:ID";
                    return self.state.deliveries.refuse(turn, &id, error);
                }
                if parts.is_empty() {
                    return self.state.deliveries.refuse(turn, &id, "the message is empty");
                }
                self.state.deliveries.begin(turn, Delivery::new(outbound, parts));
                self.advance(turn, &id);
            }
        }
    }

    /// Where a delivery goes: the channel, and the thread within it. None while the channel of a person is not known.
    fn spot_of(&self, delivery: &Delivery) -> Option<(String, Option<String>)> {
        match Place::of(&delivery.target)? {
            Place::Channel { channel, thread } => Some((channel, thread)),
            Place::Person(person) => self.state.direct.get(&person).map(|channel| (channel.clone(), None)),
        }
    }

    /// The next request of a delivery, or its end.
    fn advance(&mut self, turn: &mut Turn, id: &str) {
        if !self.keep_private(turn, id) {
            return;
        }
        let Some(delivery) = self.state.deliveries.get(id) else { return };
        let Some((channel, thread)) = self.spot_of(delivery) else { return self.open_direct(turn, id) };
        if !delivery.is_over() {
            let (purpose, method, body) = match self.state.unsure.get(id).copied() {
                Some(at_ms) => {
                    let (method, body) = look(&channel, thread.as_deref(), at_ms);
                    (Purpose::Look { delivery: id.to_owned(), at_ms }, method.to_owned(), body)
                }
                None => {
                    let (method, body) = self.next_part(delivery, &channel, thread.as_deref(), turn.now_ms);
                    (Purpose::Part { delivery: id.to_owned(), at_ms: turn.now_ms }, method, body.to_string())
                }
            };
            if !self.ask(turn, purpose, &channel, &method, body) {
                self.state.deliveries.park(turn, id, "too many requests wait", 5_000);
            }
            return;
        }
        let Some(delivery) = self.state.deliveries.finish(turn, id) else { return };
        self.state.unsure.remove(id);
        self.end_private(id);
        for (_, time) in delivery.edits.iter().skip(delivery.parts.len()).filter_map(|name| message_of(name)) {
            let body = json!({ "channel": channel, "ts": time });
            self.ask(turn, Purpose::Tidy, &channel, "chat.delete", body.to_string());
        }
    }

    fn next_part(&self, delivery: &Delivery, channel: &str, thread: Option<&str>, now_ms: u64) -> (String, Value) {
        let text = from_markdown(&delivery.parts[delivery.nth()]);
        let mut body = json!({ "channel": channel, "text": text });
        if let Some(asked) = delivery.asks_now() {
            body["blocks"] = blocks(&text, asked);
        }
        if let Some((place, time)) = delivery.edited().and_then(message_of) {
            // Where it is: what is private may be elsewhere than where it was asked for.
            (body["channel"], body["ts"]) = (json!(place), json!(time));
            if body["blocks"].is_null() {
                // Without them the buttons of before would stay.
                body["blocks"] = json!([{ "type": "section", "text": { "type": "mrkdwn", "text": text } }]);
            }
            return ("chat.update".into(), body);
        }
        let pending = self.pending(&delivery.reply_to, now_ms);
        if let Some(pending) = pending.filter(|pending| self.goes_by_address(delivery, pending)) {
            let kind = if pending.private { "ephemeral" } else { "in_channel" };
            let mut reply = json!({ "response_type": kind, "replace_original": false, "text": text });
            if !body["blocks"].is_null() {
                reply["blocks"] = body["blocks"].take();
            }
            if pending.private && delivery.parts.len() > 1 {
                // Nobody else is to read the rest of a private reply in the channel.
                reply["text"] = json!(LIMIT.marked(&text, CUT));
            }
            return (pending.url.clone(), reply);
        }
        if let Some(thread) = thread {
            body["thread_ts"] = json!(thread);
        }
        (body["unfurl_links"], body["unfurl_media"]) = (json!(self.config.unfurl), json!(self.config.unfurl));
        body["metadata"] = json!({ "event_type": NOTE, "event_payload": { "key": delivery.key() } });
        ("chat.postMessage".into(), body)
    }

    /// Whether the next part goes by the address of its command. An address gives a message no name, by which a question could be closed later;
    /// what one person alone reads has no other way.
    fn goes_by_address(&self, delivery: &Delivery, pending: &Pending) -> bool {
        let goes_elsewhere = matches!(self.way_of(&delivery.id), Some(Way::Direct | Way::Note));
        !goes_elsewhere && delivery.nth() == 0 && (pending.private || delivery.question.is_none())
    }

    /// No message could be made of a question, such as where the bot is no member: its words alone go by the address of the command, without
    /// a button that would stay. False where there is none.
    fn say_by_address(&mut self, id: &str, now_ms: u64) -> bool {
        let Some(delivery) = self.state.deliveries.get(id) else { return false };
        let is_first = delivery.nth() == 0 && delivery.edited().is_none() && self.way_of(id).is_none();
        let may = is_first && delivery.question.is_some() && self.pending(&delivery.reply_to, now_ms).is_some();
        if let Some(delivery) = self.state.deliveries.get_mut(id).filter(|_| may) {
            delivery.question = None;
        }
        may
    }

    pub fn part_answered(&mut self, turn: &mut Turn, id: &str, at_ms: u64, said: Said) {
        let Some(delivery) = self.state.deliveries.get(id) else { return };
        let Some((channel, _)) = self.spot_of(delivery) else { return };
        let way = self.way_of(id);
        let edited = delivery.edited().map(str::to_owned);
        let reply_to = delivery.reply_to.clone();
        // Its time may be up by now: it was good when the part was asked for.
        let pending = self.state.pending.iter().find(|pending| pending.name == reply_to);
        let pending = pending.filter(|pending| edited.is_none() && self.goes_by_address(delivery, pending)).cloned();
        match said {
            Said::Done(message) => {
                let time = wire::text(&message["ts"]);
                let named = Some(message_name(&channel, time)).filter(|_| !time.is_empty());
                let name = named.or(edited).unwrap_or_else(|| reply_to.clone());
                if let Some(pending) = pending {
                    self.forget_pending(&pending.name);
                    if pending.private
                        && let Some(delivery) = self.state.deliveries.get_mut(id)
                    {
                        delivery.parts.truncate(1);
                    }
                }
                self.part_is_there(turn, id, &name);
            }
            Said::Refused(word) if edited.is_some() && is_gone(&word) => {
                // Someone has deleted it: new messages, then.
                if let Some(delivery) = self.state.deliveries.get_mut(id) {
                    let nth = delivery.nth();
                    delivery.edits.truncate(nth);
                }
                self.advance(turn, id);
            }
            Said::Refused(_) if pending.is_some() => {
                // The address for the reply is over; the channel is still there, and for what is private the person.
                self.forget_pending(&reply_to);
                self.advance(turn, id);
            }
            Said::Refused(_) if way == Some(Way::Direct) => {
                self.state.unsure.remove(id);
                if self.only_note(turn, id) {
                    self.advance(turn, id);
                }
            }
            Said::Refused(word) => {
                self.state.unsure.remove(id);
                if self.say_by_address(id, turn.now_ms) {
                    return self.advance(turn, id);
                }
                self.end_private(id);
                self.state.deliveries.refuse(turn, id, format!("Slack refused the message: {word}"));
            }
            Said::Wait { ms } => self.state.deliveries.park(turn, id, "Slack asks to wait", ms),
            Said::Nothing(error) => {
                if edited.is_none() && pending.is_none_or(|pending| !pending.private) {
                    self.state.unsure.entry(id.to_owned()).or_insert(at_ms);
                }
                self.state.deliveries.park(turn, id, &error, 0);
            }
            Said::Unreachable(error) => self.state.deliveries.park(turn, id, &error, 60_000),
        }
    }

    fn part_is_there(&mut self, turn: &mut Turn, id: &str, name: &str) {
        self.state.unsure.remove(id);
        let Some(delivery) = self.state.deliveries.get_mut(id) else { return };
        delivery.sent.push(name.to_owned());
        let (question, target) = (delivery.question.as_ref().map(|asked| asked.id.clone()), delivery.target.clone());
        if let Some(question) = question {
            self.state.questions.remember(name, &question);
        }
        self.note_private(id, name);
        if let Some(Place::Channel { channel, thread: Some(thread) }) = Place::of(&target) {
            self.state.joins(&message_name(&channel, &thread));
        }
        self.advance(turn, id);
    }

    /// Turns a request that makes a message, and may have made it, into a look whether it is there. Gives the delivery's id, and since when
    /// the message may be there. What one person alone sees cannot be looked for.
    pub fn make_a_look(&self, call: &mut Call<Purpose>) -> Option<(String, u64)> {
        let Purpose::Part { delivery, at_ms } = call.purpose.clone() else { return None };
        let is_reply = || self.state.pending.iter().any(|pending| pending.url == call.what && !pending.private);
        if call.what != "chat.postMessage" && !is_reply() {
            return None;
        }
        let (channel, thread) = self.state.deliveries.get(&delivery).and_then(|delivery| self.spot_of(delivery))?;
        let (method, body) = look(&channel, thread.as_deref(), at_ms);
        (call.what, call.body) = (method.to_owned(), body);
        call.purpose = Purpose::Look { delivery: delivery.clone(), at_ms };
        Some((delivery, at_ms))
    }

    /// Whether a message of a channel is the next part of a delivery: by its note, or, where it replies to a command, by its words, since an
    /// address for replies takes no note.
    fn is_next_part(&self, delivery: &Delivery, message: &Value) -> bool {
        if message["metadata"]["event_payload"]["key"] == *delivery.key() {
            return true;
        }
        let is_reply = |pending: &Pending| pending.name == delivery.reply_to && !pending.private;
        let is_first = delivery.nth() == 0 && self.state.pending.iter().any(is_reply);
        let is_ours = || self.state.me.as_ref().is_some_and(|me| message["bot_id"] == *me.bot);
        is_first && is_ours() && delivery.parts.first().is_some_and(|part| message["text"] == *from_markdown(part))
    }

    /// What the channel shows of a part of which no answer came.
    pub fn looked(&mut self, turn: &mut Turn, id: &str, at_ms: u64, said: Said) {
        let Some(delivery) = self.state.deliveries.get(id) else { return };
        let Some((channel, _)) = self.spot_of(delivery) else { return };
        let reply_to = delivery.reply_to.clone();
        match said {
            Said::Done(found) => {
                let is_it = |message: &&Value| self.is_next_part(delivery, message);
                let time =
                    wire::list(&found["messages"], LOOKED_AT as usize).find(is_it).map(|it| wire::text(&it["ts"]));
                // Its address may have been used; what is sent from here on carries a note.
                self.forget_pending(&reply_to);
                match time.filter(|time| !time.is_empty()) {
                    Some(time) => self.part_is_there(turn, id, &message_name(&channel, time)),
                    None => {
                        self.state.unsure.remove(id);
                        self.advance(turn, id);
                    }
                }
            }
            Said::Refused(word) => {
                // Without the right to look, once more is better than not at all.
                log::warn(&format!("whether a message is there cannot be seen ({word}); it is sent again"));
                self.forget_pending(&reply_to);
                self.state.unsure.remove(id);
                self.advance(turn, id);
            }
            Said::Wait { ms } => self.state.deliveries.park(turn, id, "Slack asks to wait", ms),
            Said::Nothing(error) => {
                self.state.unsure.entry(id.to_owned()).or_insert(at_ms);
                self.state.deliveries.park(turn, id, &error, 0);
            }
            Said::Unreachable(error) => self.state.deliveries.park(turn, id, &error, 60_000),
        }
    }

    fn open_direct(&mut self, turn: &mut Turn, id: &str) {
        let target = self.state.deliveries.get(id).map(|delivery| delivery.target.clone()).unwrap_or_default();
        let Some(Place::Person(person)) = Place::of(&target) else { return };
        let purpose = Purpose::Direct { person: person.clone() };
        if self.state.calls.any(|call| call.purpose == purpose) {
            return;
        }
        let body = json!({ "users": person }).to_string();
        if !self.ask(turn, purpose, &format!("open:{person}"), "conversations.open", body) {
            self.state.deliveries.park(turn, id, "too many requests wait", 5_000);
        }
    }

    pub fn direct_opened(&mut self, turn: &mut Turn, person: &str, said: Said) {
        let is_theirs = |delivery: &&Delivery| Place::of(&delivery.target) == Some(Place::Person(person.to_owned()));
        let waiting: Vec<String> =
            self.state.deliveries.under_way().filter(is_theirs).map(|delivery| delivery.id.clone()).collect();
        if let Said::Done(opened) = &said
            && let Some(channel) = crate::place::id(wire::text(&opened["channel"]["id"]))
        {
            self.state.remember_direct(person, &channel);
            return waiting.iter().for_each(|id| self.advance(turn, id));
        }
        for id in waiting {
            if matches!(said, Said::Done(_) | Said::Refused(_)) && self.way_of(&id) == Some(Way::Direct) {
                if self.only_note(turn, &id) {
                    self.advance(turn, &id);
                }
                continue;
            }
            let deliveries = &mut self.state.deliveries;
            match &said {
                Said::Done(_) => deliveries.refuse(turn, &id, "Slack named no channel for this person"),
                Said::Refused(word) => {
                    deliveries.refuse(turn, &id, format!("Slack opens no conversation with this person: {word}"));
                }
                Said::Wait { ms } => deliveries.park(turn, &id, "Slack asks to wait", *ms),
                Said::Nothing(error) => deliveries.park(turn, &id, error, 0),
                Said::Unreachable(error) => deliveries.park(turn, &id, error, 60_000),
            }
        }
    }
}

/// The request that shows what was said in a channel or a thread since then.
fn look(channel: &str, thread: Option<&str>, at_ms: u64) -> (&'static str, String) {
    let oldest = (at_ms / 1_000).saturating_sub(BEFORE_S);
    let common = format!("channel={channel}&oldest={oldest}.000000&limit={LOOKED_AT}&include_all_metadata=true");
    match thread {
        Some(thread) => ("conversations.replies", format!("{common}&ts={thread}")),
        None => ("conversations.history", common),
    }
}
