//! The formats that providers speak, and what a request is in each of them.
//! Never: knows the address of a provider, or sends anything.

use serde_json::{Value, json};

use crate::{Request, anthropic, openai};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Messages API of Anthropic.
    Anthropic,
    /// Chat completions of OpenAI and of the many servers that imitate them.
    OpenAi,
}

impl Wire {
    /// To be put behind the base URL, which for OpenAI usually ends in `/v1` and for Anthropic is the bare host.
    pub fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAi => "/chat/completions",
        }
    }

    /// Every header that the request needs; an empty key is not sent, for servers that want none.
    pub fn headers(self, key: &str) -> Vec<(&'static str, String)> {
        let mut headers =
            vec![("content-type", "application/json".to_owned()), ("accept", "text/event-stream".to_owned())];
        if self == Self::Anthropic {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        // A key read from a file brings a line end along, which no header may hold.
        let key = key.trim();
        match self {
            _ if key.is_empty() => {}
            Self::Anthropic => headers.push(("x-api-key", key.to_owned())),
            Self::OpenAi => headers.push(("authorization", format!("Bearer {key}"))),
        }
        headers
    }

    /// The body of a request that asks for a streamed answer, as JSON.
    pub fn body(self, request: &Request) -> Vec<u8> {
        let body = match self {
            Self::Anthropic => anthropic::body(request),
            Self::OpenAi => openai::body(request),
        };
        serde_json::to_vec(&body).expect("a value has only strings for keys, so it is always written")
    }
}

/// A schema as providers want it: an object that says that it describes one.
pub(crate) fn object_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(keys) if keys.contains_key("type") => schema.clone(),
        Value::Object(keys) => {
            let mut keys = keys.clone();
            keys.insert("type".to_owned(), json!("object"));
            Value::Object(keys)
        }
        _ => json!({"type": "object", "properties": {}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_where_the_vendor_looks_for_it() {
        let named = |wire: Wire, key: &str, name: &str| {
            wire.headers(key).into_iter().find(|(header, _)| *header == name).map(|(_, value)| value)
        };
        assert_eq!(named(Wire::Anthropic, "k1\n", "x-api-key"), Some("k1".into()));
        assert_eq!(named(Wire::Anthropic, "k1", "anthropic-version"), Some("2023-06-01".into()));
        assert_eq!(named(Wire::OpenAi, "k1", "authorization"), Some("Bearer k1".into()));
        assert_eq!(named(Wire::OpenAi, " ", "authorization"), None);
        assert_eq!(named(Wire::Anthropic, "", "x-api-key"), None);
        assert_eq!((Wire::Anthropic.path(), Wire::OpenAi.path()), ("/v1/messages", "/chat/completions"));
    }

    #[test]
    fn a_schema_always_describes_an_object() {
        assert_eq!(object_schema(&Value::Null), json!({"type": "object", "properties": {}}));
        assert_eq!(object_schema(&json!({"required": ["a"]})), json!({"required": ["a"], "type": "object"}));
        assert_eq!(object_schema(&json!({"type": "object"})), json!({"type": "object"}));
    }
}
