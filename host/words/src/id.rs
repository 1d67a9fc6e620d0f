//! Names that other things are found by, each checked once where it enters.
//! Keeps true: an `AgentId` is safe as a part of a file name. Never: accepts a client's text as an id unchecked.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Timestamp;

/// The identity of a configured agent: `[a-z0-9][a-z0-9_-]{0,63}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentId(String);

const AGENT_ID_PATTERN: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";
const AGENT_ID_ADVICE: &str = "use 1 to 64 of a-z, 0-9, `_` and `-`, starting with a letter or digit";

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an agent id; {AGENT_ID_ADVICE}")]
pub struct BadAgentId(String);

impl FromStr for AgentId {
    type Err = BadAgentId;

    fn from_str(text: &str) -> Result<Self, BadAgentId> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let starts_well = text.chars().next().is_some_and(plain);
        let goes_on_well = text.chars().all(|c| plain(c) || c == '_' || c == '-');
        if starts_well && goes_on_well && text.len() <= 64 {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadAgentId(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for AgentId {
    type Error = BadAgentId;

    fn try_from(text: String) -> Result<Self, BadAgentId> {
        text.parse()
    }
}

impl From<AgentId> for String {
    fn from(id: AgentId) -> Self {
        id.0
    }
}

impl AsRef<str> for AgentId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for AgentId {
    fn schema_name() -> Cow<'static, str> {
        "AgentId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": AGENT_ID_PATTERN, "x-advice": AGENT_ID_ADVICE })
    }
}

/// A new id of our own, ordered by time, so that files and lines sort by age.
pub fn fresh(now: Timestamp) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(now.0, &chance()).into_uuid()
}

/// An id of which there may be hundreds of thousands: one of our own is nothing but its bytes, any other has its text elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Packed {
    Own(Uuid),
    Other(Box<str>),
}

impl From<&str> for Packed {
    fn from(text: &str) -> Self {
        let own = Uuid::try_parse(text).ok();
        // Upper case and braces are somebody else's: as they are kept they are told.
        let same = |id: &Uuid| *id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text;
        own.filter(same).map_or_else(|| Self::Other(text.into()), Self::Own)
    }
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(id) => id.fmt(f),
            Self::Other(text) => text.fmt(f),
        }
    }
}

/// Bytes that nobody can guess. Each thread asks the system for those of many ids at once: a message makes several.
fn chance() -> [u8; 10] {
    const IDS: usize = 25;
    thread_local! {
        static KEPT: RefCell<Vec<[u8; 10]>> = const { RefCell::new(Vec::new()) };
    }
    KEPT.with_borrow_mut(|kept| {
        if kept.is_empty() {
            kept.resize(IDS, [0; 10]);
            getrandom::fill(kept.as_flattened_mut()).expect("the system has randomness");
        }
        kept.pop().expect("there are some")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_ids_are_short_lower_case_names() {
        let check = |text: &str, good: bool| assert_eq!(text.parse::<AgentId>().is_ok(), good, "{text:?}");
        check("eden", true);
        check("7of9_x-y", true);
        check(&"a".repeat(64), true);
        check(&"a".repeat(65), false);
        check("", false);
        check("-eden", false);
        check("Eden", false);
        check("../eden", false);
        check("이든", false);
    }

    #[test]
    fn an_id_that_is_packed_reads_as_it_did() {
        let own = fresh(Timestamp(1)).to_string();
        for text in [&own, &own.to_uppercase(), &own.replace('-', ""), "", "run-abc123", "이든"] {
            let packed = Packed::from(text);
            assert_eq!((packed.to_string().as_str(), matches!(packed, Packed::Own(_))), (text, *text == own));
        }
        assert!(size_of::<Packed>() <= 24);
    }
}
