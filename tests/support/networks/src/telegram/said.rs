//! What people write, as Telegram tells a bot of it.

use serde_json::{Value, json};

use super::world;
use super::{BOT, CROWD, FEW, FORUM, GROUP, PERSON, TOPIC};

/// What a person writes, where, and how.
#[derive(Clone, Debug)]
pub struct Said {
    text: String,
    chat: Value,
    from: i64,
    mentions: bool,
    reply_to: Option<i64>,
    topic: Option<i64>,
}

impl Said {
    /// Words of a person in the group.
    pub fn here(text: &str) -> Self {
        let (chat, text) = (world::chat(GROUP), text.to_owned());
        Self { text, chat, from: PERSON, mentions: false, reply_to: None, topic: None }
    }

    /// Words to the bot, by a mention.
    pub fn to_bot(text: &str) -> Self {
        Self { mentions: true, ..Self::here(&format!("@chela_bot {text}")) }
    }

    /// Words to the bot alone.
    pub fn direct(text: &str) -> Self {
        Self { chat: world::chat(PERSON), ..Self::here(text) }
    }

    /// Words to the bot in the basic group.
    pub fn among_few(text: &str) -> Self {
        Self { chat: world::chat(FEW), ..Self::to_bot(text) }
    }

    /// In the topic of the group that has topics.
    pub fn in_topic(self) -> Self {
        Self { chat: world::chat(FORUM), topic: Some(TOPIC), ..self }
    }

    pub fn by(self, from: i64) -> Self {
        Self { from, ..self }
    }

    /// Words of one of the crowd to the bot alone.
    pub fn of_crowd(text: &str, nth: i64) -> Self {
        Self { chat: world::chat(CROWD + nth), from: CROWD + nth, ..Self::here(text) }
    }

    pub fn replying(self, message: i64) -> Self {
        Self { reply_to: Some(message), ..self }
    }

    pub(super) fn message(self) -> Value {
        let from = json!({ "id": self.from, "is_bot": false, "first_name": "Eden", "username": "eden_" });
        let mut message = json!({ "date": 1_700_000_000, "chat": self.chat, "from": from, "text": self.text });
        if self.mentions {
            message["entities"] = json!([{ "type": "mention", "offset": 0, "length": 10 }]);
        }
        if let Some(topic) = self.topic {
            (message["message_thread_id"], message["is_topic_message"]) = (json!(topic), json!(true));
            message["reply_to_message"] = json!({ "message_id": topic, "forum_topic_created": { "name": "plans" } });
        }
        if let Some(to) = self.reply_to {
            let bot = json!({ "id": BOT, "is_bot": true, "first_name": "chela", "username": "chela_bot" });
            message["reply_to_message"] = json!({ "message_id": to, "from": bot, "chat": message["chat"] });
        }
        message
    }
}
