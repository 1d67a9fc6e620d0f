//! What a deployment may set, read and checked once.
//! Keeps true: an accepted configuration names only well-formed ids and addresses. Never: has the token in it; that is a secret of
//! the grants, known here by its name.

use chela_sdk::channel::{is_secret_name, wire::is_base_address};
use chela_sdk::{ConfigError, parse_config};
use serde::Deserialize;

/// Ids of one list.
const IDS_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The name of the secret that is the bot's token.
    pub token_secret: String,
    /// Groups and people that are listened to; absent for all of them.
    pub chats: Option<Ids>,
    pub users: Option<Ids>,
    pub direct: Direct,
    /// Whether a message in a group must be to the bot; `openChats` are those where it need not.
    pub require_mention: bool,
    pub open_chats: Ids,
    /// Whether a message that was edited is heard again.
    pub edits: bool,
    /// Whether an answer quotes the message that it answers.
    pub replies: bool,
    /// Whether addresses in the bot's messages are shown with a picture and a title.
    pub link_previews: bool,
    pub typing: bool,
    /// Whether the bot's commands are set to ours.
    pub commands: bool,
    /// Whether a webhook that is set for the bot is taken away, so that it can be polled.
    pub delete_webhook: bool,
    /// Whether a message that may be there, and was looked for in vain or cannot be looked for, is sent again.
    pub repeat_uncertain: bool,
    /// Messages that one text may become; the rest is cut.
    pub chunks_max: usize,
    /// How long Telegram waits for an update before it answers that there is none.
    pub poll_seconds: u32,
    /// Requests a second over all chats; Telegram takes about thirty messages.
    pub requests_per_second: u32,
    pub api: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            token_secret: "telegram-token".into(),
            chats: None,
            users: None,
            direct: Direct::Listed,
            require_mention: true,
            open_chats: Ids::default(),
            edits: true,
            replies: true,
            link_previews: false,
            typing: true,
            commands: true,
            delete_webhook: false,
            repeat_uncertain: true,
            chunks_max: 20,
            poll_seconds: 25,
            requests_per_second: 25,
            api: "https://api.telegram.org".into(),
        }
    }
}

/// Whose direct messages are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direct {
    Off,
    /// Those of `users`.
    Listed,
    Open,
}

/// Ids as Telegram shows them: digits, with a minus before those of groups.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Ids(Vec<i64>);

impl Ids {
    pub fn has(&self, id: i64) -> bool {
        self.0.contains(&id)
    }
}

impl TryFrom<Vec<String>> for Ids {
    type Error = String;

    fn try_from(ids: Vec<String>) -> Result<Self, String> {
        if ids.len() > IDS_MAX {
            return Err(format!("{} ids; write at most {IDS_MAX}", ids.len()));
        }
        let id = |text: String| {
            let said = format!("`{text}` is no id of Telegram; write its digits as text, with the minus of a group");
            text.parse().ok().filter(|id| *id != 0).ok_or(said)
        };
        ids.into_iter().map(id).collect::<Result<_, _>>().map(Self)
    }
}

/// Whether a list that may be absent lets an id pass.
pub fn passes(list: Option<&Ids>, id: i64) -> bool {
    list.is_none_or(|ids| ids.has(id))
}

impl Config {
    pub fn read(json: &str) -> Result<Self, ConfigError> {
        let config: Self = parse_config(json)?;
        if !is_base_address(&config.api, ["https://", "http://"]) {
            return Err(ConfigError::at("api", "write an address that starts with https://"));
        }
        if !is_secret_name(&config.token_secret) {
            return Err(ConfigError::at("tokenSecret", "write the name of the secret that is the bot's token"));
        }
        if !(1..=100).contains(&config.chunks_max) {
            return Err(ConfigError::at("chunksMax", "write a number from 1 to 100"));
        }
        if !(1..=50).contains(&config.poll_seconds) {
            return Err(ConfigError::at("pollSeconds", "write a number from 1 to 50"));
        }
        if !(1..=10_000).contains(&config.requests_per_second) {
            return Err(ConfigError::at("requestsPerSecond", "write a number from 1 to 10000"));
        }
        if config.direct == Direct::Listed && config.users.is_none() {
            // Nobody is listed, so nobody is let in: the safe reading of a short configuration.
            return Ok(Self { direct: Direct::Off, ..config });
        }
        Ok(config)
    }

    /// Whether a group's messages need not be to the bot.
    pub fn opens(&self, chat: i64) -> bool {
        !self.require_mention || self.open_chats.has(chat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, path: &str, message: &str) {
        let error = Config::read(json).expect_err("refused");
        assert_eq!(error.path, path, "{}", error.message);
        assert!(error.message.contains(message), "{}", error.message);
    }

    #[test]
    fn everything_is_optional_and_direct_messages_are_closed() {
        let config = Config::read("{}").expect("accepted");
        assert_eq!(config.direct, Direct::Off);
        assert!(passes(config.chats.as_ref(), -7) && !config.opens(-7));
        let listed = Config::read(r#"{"users": ["9"], "openChats": ["-100123"]}"#).expect("accepted");
        assert_eq!(listed.direct, Direct::Listed);
        assert!(passes(listed.users.as_ref(), 9) && !passes(listed.users.as_ref(), 8) && listed.opens(-100_123));
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        check(r#"{"chat": []}"#, "chat", "unknown field");
        check(r#"{"chats": [12]}"#, "chats[0]", "expected a string");
        check(r#"{"users": ["@eden"]}"#, "users", "is no id of Telegram");
        check(r#"{"api": "api.telegram.org"}"#, "api", "https://");
        check(r#"{"tokenSecret": ""}"#, "tokenSecret", "secret");
        check(r#"{"chunksMax": 0}"#, "chunksMax", "from 1 to 100");
        check(r#"{"pollSeconds": 60}"#, "pollSeconds", "from 1 to 50");
        check(r#"{"requestsPerSecond": 0}"#, "requestsPerSecond", "from 1 to 10000");
        check(r#"{"token": "1:abc"}"#, "token", "unknown field");
        check(r#"{"direct": "all"}"#, "direct", "unknown variant");
    }

    #[test]
    fn the_schema_names_every_field() {
        let schema: serde_json::Value = serde_json::from_str(include_str!("config.schema.json")).expect("JSON");
        let fields: Vec<&String> = schema["properties"].as_object().into_iter().flat_map(|map| map.keys()).collect();
        let expected = [
            "tokenSecret",
            "chats",
            "users",
            "direct",
            "requireMention",
            "openChats",
            "edits",
            "replies",
            "linkPreviews",
            "typing",
            "commands",
            "deleteWebhook",
            "repeatUncertain",
            "chunksMax",
            "pollSeconds",
            "requestsPerSecond",
            "api",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn the_example_of_the_readme_is_accepted() {
        let readme = include_str!("../README.md");
        let example = readme.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
        let example: serde_json::Value = serde_json::from_str(example.expect("an example")).expect("JSON");
        Config::read(&example.to_string()).expect("accepted");
    }
}
