//! Where a listener listens: an address, or nowhere.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Listen {
    Off,
    At(SocketAddr),
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no address to listen on; write HOST:PORT such as 127.0.0.1:18789, a port alone, or `off`")]
pub struct BadListen(String);

impl Listen {
    pub fn loopback(port: u16) -> Self {
        Self::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }
}

impl FromStr for Listen {
    type Err = BadListen;

    fn from_str(text: &str) -> Result<Self, BadListen> {
        if text == "off" {
            return Ok(Self::Off);
        }
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::loopback(port));
        }
        let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
        numeric.parse().map(Self::At).map_err(|_| BadListen(text.chars().take(80).collect()))
    }
}

impl TryFrom<String> for Listen {
    type Error = BadListen;

    fn try_from(text: String) -> Result<Self, BadListen> {
        text.parse()
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.to_string()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl JsonSchema for Listen {
    fn schema_name() -> Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["127.0.0.1:18789", "[::1]:0", "off"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_has_an_address_or_is_off() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(text.parse::<Listen>().ok().map(|l| l.to_string()).as_deref(), expected, "{text:?}");
        };
        check("off", Some("off"));
        check("0", Some("127.0.0.1:0"));
        check("localhost:80", Some("127.0.0.1:80"));
        check("[::1]:18789", Some("[::1]:18789"));
        check("example.org:80", None);
        check("127.0.0.1", None);
        check("70000", None);
        check("", None);
    }
}
