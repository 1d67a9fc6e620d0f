//! A secret as the configuration names it: the text itself, or where to find it.
//! Keeps true: neither `Debug` nor serialisation ever shows the text.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// What stands for a secret wherever a configuration is shown.
pub const REDACTED: &str = "[redacted]";

#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = "write the text itself, {file: PATH}, {env: NAME} or {credential: NAME}"))]
pub enum Secret {
    /// The secret itself.
    Text(String),
    /// The first line of a file that only its owner can read.
    File(FromFile),
    /// An environment variable of the gateway.
    Env(FromEnv),
    /// A systemd credential (`LoadCredential=`).
    Credential(FromCredential),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromFile {
    pub file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromEnv {
    pub env: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromCredential {
    pub credential: String,
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(_) => serializer.serialize_str(REDACTED),
            Self::File(source) => source.serialize(serializer),
            Self::Env(source) => source.serialize(serializer),
            Self::Credential(source) => source.serialize(serializer),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str(REDACTED),
            Self::File(source) => source.fmt(f),
            Self::Env(source) => source.fmt(f),
            Self::Credential(source) => source.fmt(f),
        }
    }
}
