//! Where people talk on Telegram, in its own numbers and in the words of the host.

use serde_json::Value;

/// A conversation: a chat, and a topic of it where it has topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub chat: i64,
    pub topic: Option<i64>,
}

impl Place {
    /// `channel:ID`, `channel:ID:thread:ID` or `direct:ID`; also with `telegram:` before it, and `group` for `channel`.
    pub fn of(target: &str) -> Option<Self> {
        let parts: Vec<&str> = target.strip_prefix("telegram:").unwrap_or(target).split(':').collect();
        let id = |text: &str| text.parse().ok().filter(|id: &i64| *id != 0);
        match parts.as_slice() {
            // A person's id is the id of the chat with that person.
            ["channel" | "group" | "direct", chat] => Some(Self { chat: id(chat)?, topic: None }),
            ["channel" | "group", chat, "thread", topic] => {
                Some(Self { chat: id(chat)?, topic: Some(id(topic).filter(|topic| *topic > 0)?) })
            }
            _ => None,
        }
    }

    pub fn target(self, is_direct: bool) -> String {
        match (is_direct, self.topic) {
            (true, _) => format!("direct:{}", self.chat),
            (false, None) => format!("channel:{}", self.chat),
            (false, Some(topic)) => format!("channel:{}:thread:{topic}", self.chat),
        }
    }

    /// Says in a request where it goes to.
    pub fn put_into(self, body: &mut Value) {
        body["chat_id"] = self.chat.into();
        if let Some(topic) = self.topic {
            body["message_thread_id"] = topic.into();
        }
    }
}

/// A message's id is one of its chat, so the chat is part of its name.
pub fn message_name(chat: i64, message: i64) -> String {
    format!("{chat}.{message}")
}

/// The chat of a message and its number there: `CHAT.MESSAGE`, or `CHAT.MESSAGE.TIME` for one that was edited then.
pub fn message_of(name: &str) -> Option<(i64, i64)> {
    let mut parts = name.split('.');
    let (chat, message) = (parts.next()?, parts.next()?);
    chat.parse().ok().zip(message.parse().ok().filter(|number| *number > 0))
}

pub fn message_number(name: &str) -> Option<i64> {
    message_of(name).map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_sessions_name_them() {
        let check =
            |text: &str, chat: i64, topic: Option<i64>| assert_eq!(Place::of(text), Some(Place { chat, topic }));
        check("channel:-100123", -100_123, None);
        check("channel:-100123:thread:7", -100_123, Some(7));
        check("telegram:channel:-5:thread:7", -5, Some(7));
        check("group:-5", -5, None);
        check("direct:9", 9, None);
        for bad in
            ["", "9", "channel:", "channel:x", "channel:0", "channel:1:thread:0", "direct:9:thread:1", "channel:../2"]
        {
            assert_eq!(Place::of(bad), None, "{bad}");
        }
        for target in ["channel:-100123", "channel:-100123:thread:7"] {
            assert_eq!(Place::of(target).expect("a place").target(false), target);
        }
        assert_eq!(Place::of("direct:9").expect("a place").target(true), "direct:9");
    }

    #[test]
    fn messages_have_their_chat_in_their_names() {
        assert_eq!(message_number(&message_name(-100_123, 55)), Some(55));
        assert_eq!(message_number("-100123.55.1700000000"), Some(55));
        for bad in ["", "55", "callback.7x", "a.5", "5.0", "5.-1", "callback.55"] {
            assert_eq!(message_number(bad), None, "{bad}");
        }
    }
}
