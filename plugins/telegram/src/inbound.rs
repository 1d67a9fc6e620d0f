//! Messages of people: which are taken, from where, and in which words.
//! Keeps true: who is not listed is not heard; the bot's own words and other programs' never come back; what a person writes is text.

use chela_sdk::channel::{Inbound, Kind, Place as Where, Turn, wire};
use serde_json::Value;

use crate::config::{Direct, passes};
use crate::machine::Machine;
use crate::place::{Place, message_name};
use crate::state::Me;

/// More than Telegram lets anyone write.
const TEXT_MAX: usize = 8_000;
const ENTITIES_MAX: usize = 100;
/// An edit of what is older changes nothing any more.
const EDIT_MAX_MS: u64 = 86_400_000;

/// A message that a person has written.
pub struct Message {
    /// The id that the host knows it by.
    pub name: String,
    pub number: i64,
    pub place: Place,
    pub is_direct: bool,
    pub space: String,
    pub sender: i64,
    pub sender_name: String,
    pub addressed: bool,
    pub agent: String,
    pub text: String,
    pub reply_to: String,
}

impl Machine {
    pub fn message(&mut self, turn: &mut Turn, data: &Value, is_edit: bool) {
        if let (Some(from), Some(to)) = (data["chat"]["id"].as_i64(), data["migrate_to_chat_id"].as_i64()) {
            self.state.moves(from, to);
            turn.changed();
        }
        let Some(mut message) = self.read(data) else { return };
        let words = wire::hash(&message.text);
        if is_edit {
            let age_ms = turn.now_ms.saturating_sub(data["date"].as_u64().unwrap_or(0).saturating_mul(1_000));
            if !self.config.edits || age_ms > EDIT_MAX_MS || !self.state.says_anew(&message.name, words) {
                return;
            }
            let edited = data["edit_date"].as_u64().unwrap_or(turn.now_ms / 1_000);
            message.name = format!("{}.{edited}", message.name);
        } else {
            self.state.says_anew(&message.name, words);
        }
        if !self.state.seen.is_new(&message.name) {
            return;
        }
        turn.changed();
        if is_edit {
            message.text = format!("(edited) {}", message.text);
            self.talk(turn, message);
        } else if let Some(rest) = self.command(turn, message) {
            self.talk(turn, rest);
        }
    }

    fn talk(&mut self, turn: &mut Turn, message: Message) {
        let question = self.state.questions.of(&message.reply_to).map(str::to_owned);
        if message.addressed || question.is_some() || self.config.opens(message.place.chat) {
            self.pass_on(turn, message, question.map_or(Kind::Message, Kind::Answer));
        }
    }

    /// What can be read of a message; none when it is not for us to hear.
    fn read(&self, data: &Value) -> Option<Message> {
        let me = self.state.me.as_ref()?;
        let (chat, number) = (data["chat"]["id"].as_i64()?, data["message_id"].as_i64().filter(|number| *number > 0)?);
        let is_direct = data["chat"]["type"] == "private";
        // Who administers a group may write in its name.
        let as_group = data["sender_chat"]["id"].as_i64() == Some(chat);
        let (sender, sender_name) = match as_group {
            true => (chat, wire::name(wire::text(&data["chat"]["title"]))),
            false => (data["from"]["id"].as_i64()?, person(&data["from"])),
        };
        let is_bot = data["from"]["is_bot"] == true && !as_group;
        if sender == me.id || !self.hears(sender, is_bot, chat, is_direct) {
            return None;
        }
        let (text, names_me) = read_text(data, me);
        if text.is_empty() {
            return None;
        }
        let replied = &data["reply_to_message"];
        let is_command = crate::commands::Given::of(&text, &me.username).is_some_and(|given| given.for_us);
        let addressed = is_direct || names_me || replied["from"]["id"].as_i64() == Some(me.id) || is_command;
        // A topic's first message counts as replied to by all of its messages; that is no reply.
        let is_reply = replied["forum_topic_created"].is_null();
        let reply_to = replied["message_id"].as_i64().filter(|_| is_reply).map(|number| message_name(chat, number));
        let topic = data["message_thread_id"].as_i64().filter(|_| data["is_topic_message"] == true && !is_direct);
        Some(Message {
            name: message_name(chat, number),
            number,
            place: Place { chat, topic },
            is_direct,
            space: wire::name(wire::text(&data["chat"]["title"])),
            sender,
            sender_name,
            addressed,
            agent: String::new(),
            text,
            reply_to: reply_to.unwrap_or_default(),
        })
    }

    /// Whether someone is listened to there at all.
    pub fn hears(&self, sender: i64, is_bot: bool, chat: i64, is_direct: bool) -> bool {
        let config = &self.config;
        let known = !is_bot && passes(config.users.as_ref(), sender);
        match (is_direct, config.direct) {
            (false, _) => known && passes(config.chats.as_ref(), chat),
            (true, Direct::Off) => false,
            (true, Direct::Listed) => known,
            (true, Direct::Open) => !is_bot,
        }
    }

    pub fn pass_on(&mut self, turn: &mut Turn, message: Message, kind: Kind) {
        let target = message.place.target(message.is_direct);
        let place = match (message.is_direct, message.place.topic) {
            (true, _) => Where::Direct,
            (false, Some(_)) => Where::Thread,
            (false, None) => Where::Channel,
        };
        turn.inbound(Inbound {
            id: message.name,
            kind,
            session: if message.is_direct { target.clone() } else { format!("telegram:{target}") },
            target,
            place,
            space: message.space,
            sender_id: message.sender.to_string(),
            sender_name: message.sender_name,
            sender_is_bot: false,
            addressed: message.addressed,
            agent: message.agent,
            text: message.text,
            reply_to: message.reply_to,
        });
    }
}

/// What a person is called.
pub fn person(user: &Value) -> String {
    let full = format!("{} {}", wire::text(&user["first_name"]), wire::text(&user["last_name"]));
    let names = [wire::name(&full), wire::name(wire::text(&user["username"]))];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "someone".into())
}

/// The words of a message, what is attached to it in words, and whether it names the bot.
fn read_text(data: &Value, me: &Me) -> (String, bool) {
    let (words, marks) = match data["text"].as_str() {
        Some(words) => (words, &data["entities"]),
        None => (wire::text(&data["caption"]), &data["caption_entities"]),
    };
    let own = format!("@{}", me.username);
    let marked = |mark: &Value| -> Option<bool> {
        let part = part_of(words, mark["offset"].as_u64()?, mark["length"].as_u64()?)?;
        Some(match wire::text(&mark["type"]) {
            "mention" => !me.username.is_empty() && part.eq_ignore_ascii_case(&own),
            "text_mention" => mark["user"]["id"].as_i64() == Some(me.id),
            _ => false,
        })
    };
    let names_me = wire::list(marks, ENTITIES_MAX).any(|mark| marked(mark) == Some(true));
    let mut text = wire::clean(words, TEXT_MAX);
    // A mention of the bot at the start only says whom the text is for.
    let start = text.trim_start();
    let called = names_me && start.get(..own.len()).is_some_and(|start| start.eq_ignore_ascii_case(&own));
    text = if called { start[own.len()..].trim_start_matches([',', ':']) } else { start }.trim().to_owned();
    if data["forward_origin"].is_object() && !text.is_empty() {
        text = text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n");
    }
    for attached in attachments(data) {
        wire::add_line(&mut text, &attached);
    }
    (text, names_me)
}

/// The part of a text between two places that are counted in units of UTF-16.
fn part_of(text: &str, offset: u64, length: u64) -> Option<&str> {
    let end = offset.checked_add(length)?;
    let (mut units, mut from, mut to) = (0_u64, None, None);
    for (at, c) in text.char_indices() {
        if units == offset {
            from = Some(at);
        }
        if units == end {
            to = Some(at);
        }
        units += c.len_utf16() as u64;
    }
    let to = to.or_else(|| (units == end).then_some(text.len()))?;
    text.get(from?..to)
}

/// What is attached, in words: an address of a file at Telegram would have the token in it.
fn attachments(data: &Value) -> Vec<String> {
    let named = |what: &str, name: &str| match wire::name(name).replace(['[', ']'], "_") {
        name if name.is_empty() => format!("[{what}]"),
        name => format!("[{what}: {name}]"),
    };
    let mut found = Vec::new();
    for (field, what) in [("document", "file"), ("audio", "audio"), ("video", "video"), ("animation", "animation")] {
        // An animation is a document as well.
        if data[field].is_object() && !(field == "document" && data["animation"].is_object()) {
            found.push(named(what, wire::text(&data[field]["file_name"])));
        }
    }
    for (field, what) in [("voice", "voice message"), ("video_note", "video message")] {
        if data[field].is_object() {
            found.push(named(what, ""));
        }
    }
    if data["photo"].is_array() {
        found.push("[photo]".into());
    }
    if data["sticker"].is_object() {
        found.push(named("sticker", wire::text(&data["sticker"]["emoji"])));
    }
    if data["contact"].is_object() {
        found.push(named("contact", wire::text(&data["contact"]["first_name"])));
    }
    if let (Some(latitude), Some(longitude)) =
        (data["location"]["latitude"].as_f64(), data["location"]["longitude"].as_f64())
    {
        found.push(format!("[location: {latitude:.5}, {longitude:.5}]"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(data: Value, expected: &str, names_me: bool) {
        let me = Me { id: 1, username: "chela_bot".into() };
        assert_eq!(read_text(&data, &me), (expected.to_owned(), names_me), "{data}");
    }

    #[test]
    fn mentions_are_found_by_their_places_in_utf16() {
        let mention = |offset: u64| json!([{ "type": "mention", "offset": offset, "length": 10 }]);
        check(json!({ "text": "@chela_bot, what is new?", "entities": mention(0) }), "what is new?", true);
        check(json!({ "text": "😀 @Chela_Bot hi", "entities": mention(3) }), "😀 @Chela_Bot hi", true);
        check(json!({ "text": "😀 @chela_bot hi", "entities": mention(2) }), "😀 @chela_bot hi", false);
        check(json!({ "text": "@chela_bot hi" }), "@chela_bot hi", false);
        check(
            json!({ "text": "Eden hi", "entities": [{ "type": "text_mention", "offset": 0, "length": 4, "user": { "id": 1 } }] }),
            "Eden hi",
            true,
        );
        check(
            json!({ "text": "한 @chela_bot", "entities": [{ "type": "mention", "offset": u64::MAX, "length": 2 }] }),
            "한 @chela_bot",
            false,
        );
    }

    #[test]
    fn what_is_attached_is_told_in_words() {
        check(json!({ "caption": "look", "photo": [{}] }), "look\n[photo]", false);
        check(json!({ "document": { "file_name": "a[1].pdf" } }), "[file: a_1_.pdf]", false);
        check(json!({ "animation": {}, "document": {} }), "[animation]", false);
        check(json!({ "sticker": { "emoji": "👍" } }), "[sticker: 👍]", false);
        check(
            json!({ "location": { "latitude": 37.5, "longitude": 127.0 } }),
            "[location: 37.50000, 127.00000]",
            false,
        );
        check(json!({ "text": "a\nb", "forward_origin": {} }), "> a\n> b", false);
        check(json!({ "new_chat_members": [] }), "", false);
    }

    #[test]
    fn people_have_names() {
        assert_eq!(person(&json!({ "first_name": "Eden", "last_name": "Kim" })), "Eden Kim");
        assert_eq!(person(&json!({ "username": "eden_" })), "eden_");
        assert_eq!(person(&json!(7)), "someone");
    }
}
