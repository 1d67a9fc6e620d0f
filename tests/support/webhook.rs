//! Calls of a gateway's webhook, signed and unsigned, beside the program that they are said to come from.

use serde_json::{Value, json};

use crate::TestHost;

pub use networks::webhook::{KEY, Program, sign};

/// A message of the program, of this moment of the gateway's clock.
pub fn message(host: &TestHost, id: &str, text: &str) -> Value {
    json!({ "id": id, "at": host.clock.now().0, "text": text, "target": "channel:build", "sender": { "id": "ci", "name": "CI" } })
}

/// Calls the gateway's hook with a signature over these bytes; the status and the answer.
pub fn call(host: &TestHost, body: &Value) -> (u16, Value) {
    let bytes = body.to_string().into_bytes();
    call_signed(host, &bytes, &format!("sha256={}", sign(KEY, &bytes)))
}

pub fn call_signed(host: &TestHost, bytes: &[u8], signature: &str) -> (u16, Value) {
    let headers = [("authorization", ""), ("x-chela-signature", signature)];
    let answer = host.request("POST", "/hooks/webhook/messages", &headers, bytes);
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}
