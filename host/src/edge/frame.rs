//! Requests and answers of the protocol, the same over HTTP and WebSocket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Refusal;
use crate::scope::Scope;

/// `{type: "req", id, method, params}`; over HTTP `type` and `id` may be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Request {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RequestKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub id: Option<String>,
    #[schemars(length(min = 1, max = 128))]
    pub method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub traceparent: Option<String>,
    /// Of the old system, which knew several profiles; there is one here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub expected_profile_id: Option<String>,
}

impl Request {
    /// A request without an id, for HTTP, where the answer comes back on the same connection.
    pub fn new(method: impl Into<String>, params: Value) -> Self {
        let (method, params) = (method.into(), Some(params));
        Self { kind: None, id: None, method, params, traceparent: None, expected_profile_id: None }
    }

    /// Named, so that its answers are known among others.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.kind = Some(RequestKind::Req);
        self.id = Some(id.into());
        self
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
