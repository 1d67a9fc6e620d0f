//! What a deployment may set, read and checked once.
//! Keeps true: an accepted configuration has a good address or none. Never: has the key in it; that is a secret of the grants, known
//! here by its name.

use chela_sdk::channel::is_secret_name;
use chela_sdk::{ConfigError, parse_config};
use serde::Deserialize;

const SENDERS_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Where messages go; absent when messages only come.
    pub url: Option<String>,
    /// The name of the secret that signs what goes out.
    pub key_secret: String,
    /// The header that carries the signature of what goes out.
    pub signature_header: String,
    /// How old a call may be, and how far in the future.
    pub window_seconds: u64,
    /// Who is heard, by their ids; absent for everybody.
    pub senders: Option<Vec<String>>,
    /// Calls that are taken in a minute.
    pub messages_per_minute: u32,
    /// Whether it is told that an agent works.
    pub typing: bool,
    /// Characters of one message; a longer text becomes several.
    pub characters_max: usize,
    pub chunks_max: usize,
    pub requests_per_second: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: None,
            key_secret: "webhook-key".into(),
            signature_header: "x-chela-signature".into(),
            window_seconds: 300,
            senders: None,
            messages_per_minute: 600,
            typing: false,
            characters_max: 16_000,
            chunks_max: 20,
            requests_per_second: 50,
        }
    }
}

impl Config {
    pub fn read(json: &str) -> Result<Self, ConfigError> {
        let config: Self = parse_config(json)?;
        let refused = |path: &str, advice: &str| Err(ConfigError::at(path, advice));
        if let Some(url) = &config.url {
            let has_host = ["https://", "http://"]
                .iter()
                .any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')));
            let plain = url.len() <= 2_000 && url.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '#' | '@'));
            if !has_host || !plain {
                return refused("url", "write an address that starts with https://");
            }
        }
        if !is_secret_name(&config.key_secret) {
            return refused("keySecret", "write the name of the secret that signs messages");
        }
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let header = &config.signature_header;
        let reserved = ["content-type", "authorization", "host", "connection", "x-chela-id"];
        if header.is_empty() || header.len() > 64 || !header.bytes().all(letter) || reserved.contains(&&**header) {
            return refused("signatureHeader", "write a header's name in lower case, such as x-chela-signature");
        }
        if !(10..=3_600).contains(&config.window_seconds) {
            return refused("windowSeconds", "write a number from 10 to 3600");
        }
        if config.senders.as_ref().is_some_and(|senders| senders.len() > SENDERS_MAX) {
            return refused("senders", "write at most 1000 ids");
        }
        if !(1..=20_000).contains(&config.messages_per_minute) {
            return refused("messagesPerMinute", "write a number from 1 to 20000");
        }
        if !(200..=100_000).contains(&config.characters_max) {
            return refused("charactersMax", "write a number from 200 to 100000");
        }
        if !(1..=100).contains(&config.chunks_max) {
            return refused("chunksMax", "write a number from 1 to 100");
        }
        if !(1..=10_000).contains(&config.requests_per_second) {
            return refused("requestsPerSecond", "write a number from 1 to 10000");
        }
        Ok(config)
    }

    pub fn hears(&self, sender: &str) -> bool {
        self.senders.as_ref().is_none_or(|senders| senders.iter().any(|known| known == sender))
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
    fn everything_is_optional() {
        let config = Config::read("{}").expect("accepted");
        assert!(config.url.is_none() && config.hears("anyone"));
        let listed = Config::read(r#"{"senders": ["ci"], "url": "https://x.example/in?team=1"}"#).expect("accepted");
        assert!(listed.hears("ci") && !listed.hears("anyone"));
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        check(r#"{"uri": "x"}"#, "uri", "unknown field");
        check(r#"{"url": "x.example"}"#, "url", "https://");
        check(r#"{"url": "https:///x"}"#, "url", "https://");
        check(r#"{"url": "https://user@x"}"#, "url", "https://");
        check(r#"{"keySecret": ""}"#, "keySecret", "secret");
        check(r#"{"signatureHeader": "X-Sign"}"#, "signatureHeader", "lower case");
        check(r#"{"signatureHeader": "authorization"}"#, "signatureHeader", "lower case");
        check(r#"{"windowSeconds": 5}"#, "windowSeconds", "from 10 to 3600");
        check(r#"{"messagesPerMinute": 0}"#, "messagesPerMinute", "from 1 to 20000");
        check(r#"{"charactersMax": 10}"#, "charactersMax", "from 200");
        check(r#"{"chunksMax": 0}"#, "chunksMax", "from 1 to 100");
        check(r#"{"requestsPerSecond": 0}"#, "requestsPerSecond", "from 1 to 10000");
        check(r#"{"key": "abc"}"#, "key", "unknown field");
    }

    #[test]
    fn the_schema_names_every_field() {
        let schema: serde_json::Value = serde_json::from_str(include_str!("config.schema.json")).expect("JSON");
        let fields: Vec<&String> = schema["properties"].as_object().into_iter().flat_map(|map| map.keys()).collect();
        let expected = [
            "url",
            "keySecret",
            "signatureHeader",
            "windowSeconds",
            "senders",
            "messagesPerMinute",
            "typing",
            "charactersMax",
            "chunksMax",
            "requestsPerSecond",
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
