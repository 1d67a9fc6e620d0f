//! What a deployment may set, read and checked once.
//! Keeps true: an accepted configuration names only well-formed ids and addresses. Never: has a token in it; those are secrets of the
//! grants, known here by their names.

use chela_sdk::channel::{is_secret_name, wire::is_base_address};
use chela_sdk::{ConfigError, parse_config};
use serde::Deserialize;

use crate::place;

/// Ids of one list.
const IDS_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The names of the secrets: the app's token opens the socket, the bot's does all the rest.
    pub app_token_secret: String,
    pub bot_token_secret: String,
    /// Channels and people that are listened to; absent for all of them.
    pub channels: Option<Ids>,
    pub users: Option<Ids>,
    /// Other programs that are listened to, by the ids of their bots.
    pub bots: Ids,
    pub direct: Direct,
    /// Whether a message in a channel must be to the bot; `openChannels` are those where it need not.
    pub require_mention: bool,
    pub open_channels: Ids,
    /// Whether what is said in a thread that the bot has part in is said to it.
    pub follow_threads: bool,
    /// Whether an answer in a channel opens a thread at the message that it answers.
    pub threads: bool,
    /// Whether addresses in the bot's messages are shown with a picture and a title.
    pub unfurl: bool,
    /// Whether people are called by their names, which are asked for.
    pub names: bool,
    /// Messages that one text may become; the rest is cut.
    pub chunks_max: usize,
    pub requests_per_second: u32,
    pub api: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            app_token_secret: "slack-app-token".into(),
            bot_token_secret: "slack-bot-token".into(),
            channels: None,
            users: None,
            bots: Ids::default(),
            direct: Direct::Listed,
            require_mention: true,
            open_channels: Ids::default(),
            follow_threads: true,
            threads: true,
            unfurl: false,
            names: true,
            chunks_max: 20,
            requests_per_second: 20,
            api: "https://slack.com/api".into(),
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

/// Ids as Slack shows them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Ids(Vec<String>);

impl Ids {
    pub fn has(&self, id: &str) -> bool {
        self.0.iter().any(|known| known == id)
    }
}

impl TryFrom<Vec<String>> for Ids {
    type Error = String;

    fn try_from(ids: Vec<String>) -> Result<Self, String> {
        if ids.len() > IDS_MAX {
            return Err(format!("{} ids; write at most {IDS_MAX}", ids.len()));
        }
        let id = |text: String| {
            let good = place::id(&text).filter(|_| text.starts_with(|c: char| c.is_ascii_alphabetic()));
            good.ok_or_else(|| format!("`{text}` is no id of Slack; write it as Slack shows it, such as C07AB12CD"))
        };
        ids.into_iter().map(id).collect::<Result<_, _>>().map(Self)
    }
}

/// Whether a list that may be absent lets an id pass.
pub fn passes(list: Option<&Ids>, id: &str) -> bool {
    list.is_none_or(|ids| ids.has(id))
}

impl Config {
    pub fn read(json: &str) -> Result<Self, ConfigError> {
        let config: Self = parse_config(json)?;
        if !is_base_address(&config.api, ["https://", "http://"]) {
            return Err(ConfigError::at("api", "write an address that starts with https://"));
        }
        for (path, name) in [("appTokenSecret", &config.app_token_secret), ("botTokenSecret", &config.bot_token_secret)]
        {
            if !is_secret_name(name) {
                return Err(ConfigError::at(path, "write the name of the secret that is this token"));
            }
        }
        if !(1..=100).contains(&config.chunks_max) {
            return Err(ConfigError::at("chunksMax", "write a number from 1 to 100"));
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

    /// Whether a channel's messages need not be to the bot.
    pub fn opens(&self, channel: &str) -> bool {
        !self.require_mention || self.open_channels.has(channel)
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
        assert!(passes(config.channels.as_ref(), "C1") && !config.opens("C1"));
        let listed = Config::read(r#"{"users": ["u9"], "openChannels": ["C07AB"]}"#).expect("accepted");
        assert_eq!(listed.direct, Direct::Listed);
        assert!(passes(listed.users.as_ref(), "U9") && !passes(listed.users.as_ref(), "U8") && listed.opens("C07AB"));
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        check(r#"{"channel": []}"#, "channel", "unknown field");
        check(r#"{"channels": [12]}"#, "channels[0]", "expected a string");
        check(r##"{"channels": ["#general"]}"##, "channels", "is no id of Slack");
        check(r#"{"users": ["eden.kim"]}"#, "users", "is no id of Slack");
        check(r#"{"api": "slack.com"}"#, "api", "https://");
        check(r#"{"appTokenSecret": ""}"#, "appTokenSecret", "secret");
        check(r#"{"botTokenSecret": ""}"#, "botTokenSecret", "secret");
        check(r#"{"chunksMax": 0}"#, "chunksMax", "from 1 to 100");
        check(r#"{"requestsPerSecond": 0}"#, "requestsPerSecond", "from 1 to 10000");
        check(r#"{"token": "xoxb-abc"}"#, "token", "unknown field");
    }

    #[test]
    fn the_schema_names_every_field() {
        let schema: serde_json::Value = serde_json::from_str(include_str!("config.schema.json")).expect("JSON");
        let fields: Vec<&String> = schema["properties"].as_object().into_iter().flat_map(|map| map.keys()).collect();
        let expected = [
            "appTokenSecret",
            "botTokenSecret",
            "channels",
            "users",
            "bots",
            "direct",
            "requireMention",
            "openChannels",
            "followThreads",
            "threads",
            "unfurl",
            "names",
            "chunksMax",
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
