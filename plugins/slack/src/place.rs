//! Where people talk on Slack, in its own ids and in the words of the host.
//! Keeps true: ids are letters and digits as Slack writes them, in capitals; sessions may have them in small letters.

/// A conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A channel, or a thread of one by the time of its first message.
    Channel {
        channel: String,
        thread: Option<String>,
    },
    Person(String),
}

impl Place {
    /// `channel:ID`, `channel:ID:thread:TIME` or `direct:ID`; also with `slack:` before it, and `group` for `channel`.
    pub fn of(target: &str) -> Option<Self> {
        let parts: Vec<&str> = target.strip_prefix("slack:").unwrap_or(target).split(':').collect();
        match parts.as_slice() {
            ["channel" | "group", channel] => Some(Self::Channel { channel: id(channel)?, thread: None }),
            ["channel" | "group", channel, "thread", thread] if is_time(thread) => {
                Some(Self::Channel { channel: id(channel)?, thread: Some((*thread).to_owned()) })
            }
            ["direct", person] => id(person).map(Self::Person),
            _ => None,
        }
    }

    pub fn target(&self) -> String {
        match self {
            Self::Channel { channel, thread: None } => format!("channel:{channel}"),
            Self::Channel { channel, thread: Some(thread) } => format!("channel:{channel}:thread:{thread}"),
            Self::Person(person) => format!("direct:{person}"),
        }
    }
}

/// An id of Slack, in capitals.
pub fn id(text: &str) -> Option<String> {
    let good = (2..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    good.then(|| text.to_ascii_uppercase())
}

/// The time of a message, which is its id within a channel: `1700000000.000100`.
pub fn is_time(text: &str) -> bool {
    let digits = |part: &str| (1..=20).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.').is_some_and(|(seconds, rest)| digits(seconds) && digits(rest))
}

/// A message's name: its channel and its time.
pub fn message_name(channel: &str, time: &str) -> String {
    format!("{channel}.{time}")
}

/// The channel and the time of a message, as its name has them.
pub fn message_of(name: &str) -> Option<(&str, &str)> {
    let (channel, time) = name.split_once('.')?;
    (id(channel).is_some() && is_time(time)).then_some((channel, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_sessions_name_them() {
        let channel = |channel: &str, thread: Option<&str>| {
            Some(Place::Channel { channel: channel.into(), thread: thread.map(str::to_owned) })
        };
        let check = |text: &str, expected: Option<Place>| assert_eq!(Place::of(text), expected, "{text}");
        check("channel:C07AB", channel("C07AB", None));
        check("slack:channel:c07ab:thread:1700000000.000100", channel("C07AB", Some("1700000000.000100")));
        check("group:G1", channel("G1", None));
        check("direct:u9z", Some(Place::Person("U9Z".into())));
        for bad in [
            "",
            "C07AB",
            "channel:",
            "channel:a-b",
            "channel:C1:thread:",
            "channel:C1:thread:17",
            "direct:U1:thread:1.1",
        ] {
            check(bad, None);
        }
        for target in ["channel:C07AB", "channel:C07AB:thread:17.5", "direct:U9Z"] {
            assert_eq!(Place::of(target).expect("a place").target(), target);
        }
    }

    #[test]
    fn messages_are_named_by_channel_and_time() {
        assert_eq!(message_of(&message_name("C07AB", "1700000000.000100")), Some(("C07AB", "1700000000.000100")));
        for bad in ["", "C07AB", "C07AB.17", "command.abc", "C07.x.y", "C.1.2"] {
            assert_eq!(message_of(bad), None, "{bad}");
        }
    }
}
