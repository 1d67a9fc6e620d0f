//! Requests and answers of the protocol, the same over HTTP and WebSocket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Refusal;
use crate::scope::Scope;

pub(super) const ID_CHARS_MAX: usize = 256;
const NAME_CHARS_MAX: usize = 128;

/// `{type: "req", id, method, params}`; over HTTP `type` and `id` may be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Request {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RequestKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = ID_CHARS_MAX))]
    pub id: Option<String>,
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    pub method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = NAME_CHARS_MAX))]
    pub traceparent: Option<String>,
    /// Of the old system, which knew several profiles; there is one here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    pub expected_profile_id: Option<String>,
}

impl Request {
    /// A request without an id, for HTTP, where the answer comes back on the same connection.
    pub fn new(method: impl Into<String>, params: Value) -> Self {
        let (method, params) = (method.into(), Some(params));
        Self { kind: None, id: None, method, params, traceparent: None, expected_profile_id: None }
    }

    /// A frame as clients write it, read in one go. None for one that is odd or wrong: the schema decides about it, and says what to change.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.first() != Some(&b'{') {
            return None;
        }
        let plain: Plain<'_> = serde_json::from_slice(bytes).ok()?;
        plain.is_within_bounds().then(|| Self {
            kind: plain.kind.map(|_| RequestKind::Req),
            id: plain.id.map(str::to_owned),
            method: plain.method.to_owned(),
            params: plain.params,
            traceparent: plain.traceparent.map(str::to_owned),
            expected_profile_id: plain.expected_profile_id.map(str::to_owned),
        })
    }

    /// Named, so that its answers are known among others.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.kind = Some(RequestKind::Req);
        self.id = Some(id.into());
        self
    }
}

/// A request whose texts need no copy to be looked at.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Plain<'a> {
    #[serde(rename = "type", default)]
    kind: Option<&'a str>,
    #[serde(default)]
    id: Option<&'a str>,
    method: &'a str,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    traceparent: Option<&'a str>,
    #[serde(default)]
    expected_profile_id: Option<&'a str>,
}

impl Plain<'_> {
    /// In bytes, of which a text has at least as many as characters: the schema counts those.
    fn is_within_bounds(&self) -> bool {
        let within =
            |text: Option<&str>, min: usize, max: usize| text.is_none_or(|text| text.len() >= min && text.len() <= max);
        self.kind.is_none_or(|kind| kind == "req")
            && within(self.id, 1, ID_CHARS_MAX)
            && within(Some(self.method), 1, NAME_CHARS_MAX)
            && within(self.traceparent, 0, NAME_CHARS_MAX)
            && within(self.expected_profile_id, 1, NAME_CHARS_MAX)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    Req,
}

/// `{type: "res", id, ok, payload | error}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    #[serde(rename = "type")]
    pub kind: ResponseKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorShape>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseKind {
    Res,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorShape {
    pub code: ErrorCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    InvalidRequest,
    Forbidden,
    NotPaired,
    Unavailable,
}

impl ErrorShape {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retryable: None, retry_after_ms: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { retryable: Some(true), ..Self::new(ErrorCode::Unavailable, message) }
    }

    pub fn missing_scope(needed: Scope) -> Self {
        let details = serde_json::json!({
            "code": "MISSING_SCOPE", "missingScope": needed, "requiredScopes": [needed],
        });
        Self::new(ErrorCode::Forbidden, format!("missing scope: {needed}")).with_details(details)
    }

    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// What a path would refuse, a method refuses with the same words; the path's code goes into the details.
impl From<Refusal> for ErrorShape {
    fn from(refusal: Refusal) -> Self {
        let mut details = serde_json::json!({ "code": refusal.code() });
        let shape = match &refusal {
            Refusal::Parameter { field, .. } => {
                details["field"] = field.as_str().into();
                Self::invalid(refusal.to_string())
            }
            Refusal::NoSuch { .. } => Self::invalid(refusal.to_string()),
            _ => Self::unavailable(refusal.to_string()),
        };
        shape.with_details(details)
    }
}

impl Response {
    pub fn new(id: Option<String>, outcome: Result<Value, ErrorShape>) -> Self {
        let (payload, error) = match outcome {
            Ok(payload) => (Some(payload), None),
            Err(error) => (None, Some(error)),
        };
        Self { kind: ResponseKind::Res, id, ok: error.is_none(), payload, error }
    }
}

/// The head of an event frame; the payload is text that was written once for all who hear it.
pub(super) fn event(name: &str, payload: &str, seq: Option<u64>) -> String {
    let mut frame = String::with_capacity(payload.len() + name.len() + 64);
    frame.push_str(r#"{"type":"event","event":""#);
    frame.push_str(name);
    frame.push_str(r#"","payload":"#);
    frame.push_str(payload);
    if let Some(seq) = seq {
        frame.push_str(r#","seq":"#);
        frame.push_str(&seq.to_string());
    }
    frame.push('}');
    frame
}

/// A good answer whose payload is text that was written before.
pub(super) fn answer(id: Option<&str>, payload: &str) -> String {
    let id = serde_json::to_string(&id).expect("a text is plain JSON");
    format!(r#"{{"type":"res","id":{id},"ok":true,"payload":{payload}}}"#)
}
