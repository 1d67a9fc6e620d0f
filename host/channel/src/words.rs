//! What an adapter is told and what it answers, as the WIT package `chela:channel` has it. Inputs are read from JSON and outputs written as
//! JSON where people try an adapter by hand; `plain` says how texts look there.

use serde::{Deserialize, Serialize};

use crate::plain;

/// How a secret is written where it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Encoding {
    Raw,
    Json,
    Url,
    Base64,
}

/// A part of what is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Signed {
    Literal(String),
    Secret {
        name: String,
        encoding: Encoding,
    },
    /// The body that the signature travels with.
    Body,
}

/// A part of a text. Typed, so that no message can spell a secret's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Literal(String),
    Secret { name: String, encoding: Encoding },
    Hmac { key: String, hex: bool, over: Vec<Signed> },
}

pub type Text = Vec<Piece>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    pub name: String,
    #[serde(serialize_with = "plain::text")]
    pub value: Text,
}

/// A question to people that a message carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub id: String,
    #[serde(default)]
    pub choices: Vec<String>,
}

/// A message for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outbound {
    /// The same on every try.
    pub id: String,
    /// `channel:ID`, `channel:ID:thread:ID` or `direct:ID`.
    pub target: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reply_to: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    pub target: String,
    pub typing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Response {
    pub id: String,
    #[serde(default)]
    pub status: u16,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    #[serde(default, deserialize_with = "plain::bytes")]
    pub body: Vec<u8>,
    #[serde(default)]
    pub error: String,
    #[serde(default)]
    pub refused: bool,
    /// It left, or a part of it did: it may have been done. So it was where somebody writes an answer down.
    #[serde(default = "left")]
    pub sent: bool,
}

fn left() -> bool {
    true
}

impl Response {
    /// A request that never left.
    pub fn unsent(id: String, error: String, refused: bool) -> Self {
        Self { id, status: 0, headers: Vec::new(), body: Vec::new(), error, refused, sent: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WebhookRequest {
    pub id: String,
    pub method: String,
    pub path: String,
    #[serde(default)]
    pub query: String,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    #[serde(default, deserialize_with = "plain::bytes")]
    pub body: Vec<u8>,
    #[serde(default)]
    pub verified: bool,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Input {
    Started {
        #[serde(default)]
        restored: bool,
    },
    Opened {
        connection: String,
    },
    Text {
        connection: String,
        data: String,
    },
    Binary {
        connection: String,
        #[serde(deserialize_with = "plain::bytes")]
        data: Vec<u8>,
    },
    Closed {
        connection: String,
        #[serde(default)]
        code: u16,
        #[serde(default)]
        reason: String,
        #[serde(default)]
        refused: bool,
    },
    KeepaliveSent {
        connection: String,
    },
    Timer {
        name: String,
    },
    Response(Response),
    Deliver(Outbound),
    Webhook(WebhookRequest),
    Presence(Presence),
    Stopping,
}

impl Input {
    /// What it takes of a call, in bytes.
    pub fn bytes(&self) -> usize {
        const HEAD: usize = 64;
        HEAD + match self {
            Self::Text { data, .. } => data.len(),
            Self::Binary { data, .. } => data.len(),
            Self::Response(response) => response.body.len() + response.headers.len() * HEAD,
            Self::Deliver(outbound) => outbound.text.len(),
            Self::Webhook(request) => request.body.len() + request.headers.len() * HEAD,
            _ => 0,
        }
    }
}

/// How the frames of a socket are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    None,
    ZlibStream,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Open {
    pub connection: String,
    #[serde(serialize_with = "plain::text")]
    pub url: Text,
    pub headers: Vec<Header>,
    pub compression: Compression,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Keepalive {
    pub connection: String,
    pub first_ms: u64,
    pub interval_ms: u64,
    #[serde(serialize_with = "plain::text")]
    pub frame: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub id: String,
    pub method: String,
    #[serde(serialize_with = "plain::text")]
    pub url: Text,
    pub headers: Vec<Header>,
    #[serde(serialize_with = "plain::text")]
    pub body: Text,
    pub timeout_ms: u32,
}

/// A command of the gateway that a person gave by the network's own means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub name: String,
    pub arguments: Vec<(String, String)>,
}

/// What a person wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wants {
    Message,
    /// To answer the question of this id.
    Answer(String),
    Command(Command),
}

/// A message from a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inbound {
    pub id: String,
    pub wants: Wants,
    pub target: String,
    pub session: String,
    pub direct: bool,
    pub space: String,
    pub sender_id: String,
    pub sender_name: String,
    pub sender_is_bot: bool,
    pub addressed: bool,
    pub agent: String,
    pub text: String,
    pub reply_to: String,
}

/// How a delivery went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivered {
    pub id: String,
    pub message_ids: Vec<String>,
    pub error: String,
    pub retry: bool,
    pub retry_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookResponse {
    pub id: String,
    pub status: u16,
    pub headers: Vec<Header>,
    #[serde(serialize_with = "plain::text")]
    pub body: Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    Connecting,
    Ready,
    Degraded,
    NeedsAuth,
    Failed,
}

/// What the host is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Output {
    Open(Open),
    Send {
        connection: String,
        #[serde(serialize_with = "plain::text")]
        data: Text,
    },
    Close {
        connection: String,
        code: u16,
    },
    Keepalive(Keepalive),
    SetTimer {
        name: String,
        after_ms: u64,
    },
    CancelTimer {
        name: String,
    },
    Request(Request),
    Inbound(Inbound),
    Delivered(Delivered),
    WebhookResponse(WebhookResponse),
    Status {
        health: Health,
        detail: String,
    },
    Presence(Presence),
    Checkpoint,
}

/// An adapter's own state, which only it can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub schema: String,
    pub bytes: Vec<u8>,
}

/// Whether a text says where people are: `channel:ID`, `channel:ID:thread:ID` or `direct:ID`.
pub fn is_target(text: &str) -> bool {
    const ID_CHARS_MAX: usize = 64;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+' | '#');
    let is_id = |id: &str| !id.is_empty() && id.chars().count() <= ID_CHARS_MAX && id.chars().all(plain);
    match text.split(':').collect::<Vec<_>>().as_slice() {
        ["channel" | "direct" | "group", id] => is_id(id),
        ["channel" | "group", id, "thread", thread] => is_id(id) && is_id(thread),
        _ => false,
    }
}
