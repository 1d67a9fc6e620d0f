//! What this Telegram knows: its chats, its updates, what was sent, and which faults are switched on.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::api::refused;
use super::{BOT, CROWD, FEW, FORUM, GROUP, OTHER_PERSON, PERSON};
use crate::net::{Answer, Asked};

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub polls: usize,
    /// Polls that were refused because of another one or of a webhook.
    pub conflicts: usize,
    /// Requests that were too many.
    pub limited: usize,
    pub commands_set: usize,
}

/// A message of the bot, as it is now.
#[derive(Clone, Debug)]
pub struct Sent {
    pub number: i64,
    pub chat: i64,
    pub topic: Option<i64>,
    pub text: String,
    /// What it was asked for with.
    pub body: Value,
    /// What stands below it now.
    pub markup: Value,
    pub edits: usize,
    pub deleted: bool,
}

#[derive(Default)]
pub(super) struct Faults {
    pub(super) failing: (usize, u16),
    pub(super) conflicts: usize,
    pub(super) losing: usize,
    pub(super) losing_polls: usize,
    pub(super) losing_sends: usize,
    pub(super) dropping: usize,
    pub(super) repeats: usize,
    pub(super) delay: Duration,
    pub(super) late: Duration,
}

#[derive(Default)]
pub(super) struct State {
    last_update: i64,
    /// The last number of each supergroup, and under 0 that of all private chats and basic groups.
    last_messages: HashMap<i64, i64>,
    last_press: u64,
    /// Not confirmed yet, by their numbers.
    pub(super) updates: BTreeMap<i64, Value>,
    /// The last that were confirmed.
    confirmed: VecDeque<Value>,
    /// Counts polls; only the latest is answered with updates.
    pub(super) poll: u64,
    pub(super) sent: Vec<Sent>,
    /// Messages of people: their chats and numbers.
    pub(super) people: HashSet<(i64, i64)>,
    /// Presses, and what was shown for each.
    pub(super) presses: HashMap<String, Option<String>>,
    pub(super) typed: Vec<i64>,
    pub(super) asked: Vec<Asked>,
    pub(super) counts: Counts,
    pub(super) faults: Faults,
    pub(super) webhook: bool,
    pub(super) blocked: Vec<i64>,
    pub(super) moved: HashMap<i64, i64>,
    pub(super) limit: Option<usize>,
    windows: HashMap<i64, (Option<Instant>, usize)>,
}

impl State {
    /// The next number: a supergroup counts by itself, private chats and basic groups of a bot are counted together.
    pub(super) fn next_message(&mut self, to: i64) -> i64 {
        let counted = if chat(to)["type"] == "supergroup" { to } else { 0 };
        let last = self.last_messages.entry(counted).or_insert(1_000);
        *last += 1;
        *last
    }

    pub(super) fn update(&mut self, kind: &str, value: Value) {
        self.last_update += 1;
        let number = 5_000 + self.last_update;
        self.updates.insert(number, json!({ "update_id": number, kind: value }));
    }

    pub(super) fn say(&mut self, mut message: Value) -> i64 {
        let chat = message["chat"]["id"].as_i64().expect("a chat");
        let number = self.next_message(chat);
        message["message_id"] = json!(number);
        self.people.insert((chat, number));
        self.update("message", message);
        number
    }

    pub(super) fn edit(&mut self, number: i64, mut message: Value) {
        (message["message_id"], message["edit_date"]) = (json!(number), json!(1_700_000_100));
        self.update("edited_message", message);
    }

    pub(super) fn press(&mut self, message: &Sent, data: &Value) -> String {
        self.last_press += 1;
        let id = format!("9000{}", self.last_press);
        self.presses.insert(id.clone(), None);
        let mut shown = json!({ "message_id": message.number, "chat": chat(message.chat), "text": message.text,
            "reply_markup": message.markup });
        if let Some(topic) = message.topic {
            (shown["message_thread_id"], shown["is_topic_message"]) = (json!(topic), json!(true));
        }
        let from = json!({ "id": PERSON, "is_bot": false, "first_name": "Eden" });
        self.update("callback_query", json!({ "id": id, "from": from, "message": shown, "data": data }));
        id
    }

    /// A poll comes: those before it are over, and what it confirms is gone. The refusal, if it is one.
    pub(super) fn begin_poll(&mut self, body: &Value) -> Option<Answer> {
        self.counts.polls += 1;
        if self.webhook {
            self.counts.conflicts += 1;
            let said = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first";
            return Some(refused(409, said));
        }
        if self.faults.conflicts > 0 {
            self.faults.conflicts -= 1;
            self.counts.conflicts += 1;
            return Some(refused(409, TAKEN_OVER));
        }
        let limit = body["limit"].as_i64().unwrap_or(100);
        if !(1..=100).contains(&limit) {
            return Some(refused(400, "Bad Request: limit must be between 1 and 100"));
        }
        self.poll += 1;
        if let Some(offset) = body["offset"].as_i64() {
            let left = self.updates.split_off(&offset);
            self.confirmed.extend(std::mem::replace(&mut self.updates, left).into_values());
            while self.confirmed.len() > 3 {
                self.confirmed.pop_front();
            }
        }
        None
    }

    /// What a poll is answered with by now; none when it waits on.
    pub(super) fn polled(&mut self, number: u64, body: &Value) -> Option<Answer> {
        if number != self.poll {
            self.counts.conflicts += 1;
            return Some(refused(409, TAKEN_OVER));
        }
        let wanted: Vec<&str> =
            body["allowed_updates"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let is_wanted = |update: &Value| wanted.is_empty() || wanted.iter().any(|kind| !update[kind].is_null());
        self.updates.retain(|_, update| is_wanted(update));
        let limit = body["limit"].as_u64().unwrap_or(100) as usize;
        let mut given: Vec<Value> = self.updates.values().take(limit).cloned().collect();
        if given.is_empty() {
            return None;
        }
        if self.faults.repeats > 0 {
            self.faults.repeats -= 1;
            given.extend(self.confirmed.iter().cloned());
            given.reverse();
        }
        Some(Answer::new(200, json!({ "ok": true, "result": given })))
    }

    /// Counts a message to a chat; how many seconds to wait when it is one too many.
    pub(super) fn is_limited(&mut self, chat: i64) -> Option<u64> {
        let most = self.limit?;
        let window = self.windows.entry(chat).or_default();
        if window.0.is_none_or(|since| since.elapsed() >= Duration::from_secs(1)) {
            *window = (Some(Instant::now()), 0);
        }
        window.1 += 1;
        if window.1 <= most {
            return None;
        }
        self.counts.limited += 1;
        Some(1)
    }
}

const TAKEN_OVER: &str =
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";

/// A chat as Telegram shows it; null when the bot does not know it.
pub(super) fn chat(id: i64) -> Value {
    match id {
        GROUP => json!({ "id": id, "type": "supergroup", "title": "Crew" }),
        FORUM => json!({ "id": id, "type": "supergroup", "title": "Forum", "is_forum": true }),
        FEW => json!({ "id": id, "type": "group", "title": "Few" }),
        PERSON | OTHER_PERSON | CROWD..30_000 => json!({ "id": id, "type": "private", "first_name": "Eden" }),
        _ => Value::Null,
    }
}

pub(super) fn me() -> Value {
    json!({ "id": BOT, "is_bot": true, "first_name": "chela", "username": "chela_bot", "can_join_groups": true })
}
