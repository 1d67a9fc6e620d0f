//! What a deployment may set, read and checked once.
//! Keeps true: an accepted configuration names only well-formed ids and addresses. Never: has the token in it; that is a secret of
//! the grants, known here by its name.

use chela_sdk::channel::wire::is_base_address;
use chela_sdk::{ConfigError, parse_config};
use serde::Deserialize;

/// Ids of one list.
const IDS_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The name of the secret that is the bot's token.
    pub token_secret: String,
    /// Servers, channels and people that are listened to; absent for all of them.
    pub guilds: Option<Ids>,
    pub channels: Option<Ids>,
    pub users: Option<Ids>,
    /// Other programs that are listened to.
    pub bots: Ids,
    pub direct: Direct,
    /// Whether a message in a channel must be to the bot; `openChannels` are those where it need not.
    pub require_mention: bool,
    pub open_channels: Ids,
    /// Whether people's words are asked for that are not to the bot; a privilege that the application must have.
    pub message_content: bool,
    /// Whether an answer quotes the message that it answers.
    pub replies: bool,
    pub mentions: Mentions,
    pub typing: bool,
    /// Whether the application's commands are set to ours.
    pub commands: bool,
    /// Messages that one text may become; the rest is cut.
    pub chunks_max: usize,
    /// Requests a second over all routes; Discord gives some bots more than its usual fifty.
    pub requests_per_second: u32,
    pub compress: bool,
    pub api: String,
    pub gateway: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            token_secret: "discord-token".into(),
            guilds: None,
            channels: None,
            users: None,
            bots: Ids::default(),
            direct: Direct::Listed,
            require_mention: true,
            open_channels: Ids::default(),
            message_content: true,
            replies: true,
            mentions: Mentions::default(),
            typing: true,
            commands: true,
            chunks_max: 20,
            requests_per_second: 50,
            compress: false,
            api: "https://discord.com/api/v10".into(),
            gateway: "wss://gateway.discord.gg".into(),
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

/// What a message of ours may ping.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Mentions {
    pub everyone: bool,
    pub roles: bool,
    pub users: bool,
    pub replied_user: bool,
}

impl Default for Mentions {
    fn default() -> Self {
        Self { everyone: false, roles: false, users: true, replied_user: true }
    }
}

/// Ids as Discord writes them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Ids(Vec<u64>);

impl Ids {
    pub fn has(&self, id: u64) -> bool {
        self.0.contains(&id)
    }
}

impl TryFrom<Vec<String>> for Ids {
    type Error = String;

    fn try_from(ids: Vec<String>) -> Result<Self, String> {
        if ids.len() > IDS_MAX {
            return Err(format!("{} ids; write at most {IDS_MAX}", ids.len()));
        }
        let id =
            |text: String| text.parse().map_err(|_| format!("`{text}` is no id of Discord; write its digits as text"));
        ids.into_iter().map(id).collect::<Result<_, _>>().map(Self)
    }
}

/// Whether a list that may be absent lets an id pass.
pub fn passes(list: Option<&Ids>, id: u64) -> bool {
    list.is_none_or(|ids| ids.has(id))
}

impl Config {
    pub fn read(json: &str) -> Result<Self, ConfigError> {
        let config: Self = parse_config(json)?;
        let address = |path: &str, url: &str, schemes: [&str; 2]| {
            let advice = format!("write an address that starts with {}", schemes[0]);
            if is_base_address(url, schemes) { Ok(()) } else { Err(ConfigError::at(path, advice)) }
        };
        address("api", &config.api, ["https://", "http://"])?;
        address("gateway", &config.gateway, ["wss://", "ws://"])?;
        if config.token_secret.is_empty() {
            return Err(ConfigError::at("tokenSecret", "write the name of the secret that is the bot's token"));
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

    /// The events that are asked for, as Discord counts them.
    pub fn intents(&self) -> u64 {
        const GUILDS: u64 = 1;
        const GUILD_MESSAGES: u64 = 1 << 9;
        const DIRECT_MESSAGES: u64 = 1 << 12;
        const MESSAGE_CONTENT: u64 = 1 << 15;
        GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES | if self.message_content { MESSAGE_CONTENT } else { 0 }
    }

    /// Whether a channel's messages need not be to the bot.
    pub fn opens(&self, channel: u64) -> bool {
        !self.require_mention || self.open_channels.has(channel)
    }

    /// Whether there may be such a channel.
    pub fn opens_any(&self) -> bool {
        !self.require_mention || !self.open_channels.0.is_empty()
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
        assert_eq!(config.intents(), 1 | 512 | 4_096 | 32_768);
        assert!(!config.mentions.everyone && passes(config.guilds.as_ref(), 7));
        let listed = Config::read(r#"{"users": ["9"]}"#).expect("accepted");
        assert_eq!(listed.direct, Direct::Listed);
        assert!(passes(listed.users.as_ref(), 9) && !passes(listed.users.as_ref(), 8));
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        check(r#"{"guild": []}"#, "guild", "unknown field");
        check(r#"{"guilds": [12]}"#, "guilds[0]", "expected a string");
        check(r#"{"channels": ["general"]}"#, "channels", "is no id of Discord");
        check(r#"{"api": "discord.com"}"#, "api", "https://");
        check(r#"{"gateway": "wss://x/?v=9"}"#, "gateway", "wss://");
        check(r#"{"tokenSecret": ""}"#, "tokenSecret", "secret");
        check(r#"{"chunksMax": 0}"#, "chunksMax", "from 1 to 100");
        check(r#"{"requestsPerSecond": 0}"#, "requestsPerSecond", "from 1 to 10000");
        check(r#"{"token": "abc"}"#, "token", "unknown field");
        check(r#"{"mentions": {"all": true}}"#, "mentions.all", "unknown field");
    }

    #[test]
    fn the_schema_names_every_field() {
        let schema: serde_json::Value = serde_json::from_str(include_str!("config.schema.json")).expect("JSON");
        let names = |at: &str| -> Vec<&str> {
            let fields = schema.pointer(at).and_then(|value| value.as_object());
            fields.into_iter().flat_map(|map| map.keys().map(String::as_str)).collect()
        };
        let fields = [
            "tokenSecret",
            "guilds",
            "channels",
            "users",
            "bots",
            "direct",
            "requireMention",
            "openChannels",
            "messageContent",
            "replies",
            "mentions",
            "typing",
            "commands",
            "chunksMax",
            "requestsPerSecond",
            "compress",
            "api",
            "gateway",
        ];
        assert_eq!(names("/properties"), fields);
        assert_eq!(names("/properties/mentions/properties"), ["everyone", "roles", "users", "repliedUser"]);
    }

    #[test]
    fn the_example_of_the_readme_is_accepted() {
        let readme = include_str!("../README.md");
        let example = readme.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
        let example: serde_json::Value = serde_json::from_str(example.expect("an example")).expect("JSON");
        Config::read(&example.to_string()).expect("accepted");
    }
}
