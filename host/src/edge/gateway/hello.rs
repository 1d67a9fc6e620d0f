//! What a client that has come in is told first.

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::Context;
use super::handshake::{Granted, PROTOCOL};
use super::{BUFFERED_BYTES_MAX, TICK_TOLD_MS};

/// The events that clients may hear.
pub(super) const EVENTS: [&str; 11] = [
    "tick",
    "health",
    "presence",
    "shutdown",
    "agent",
    "chat",
    "sessions.changed",
    "session.message",
    "task",
    "config.changed",
    "log.event",
];

/// What clients look for before they use a part of the protocol.
const CAPABILITIES: [&str; 1] = ["published-model-catalog"];

pub(super) fn hello(context: &Context, granted: &Granted, id: Uuid) -> Value {
    let settings = context.settings.current();
    let agents = &settings.config.agents;
    let default = agents.default_id().map_or("main", |id| id.as_ref());
    let methods: Vec<&str> = context.methods.list().map(|(name, _)| name).collect();
    let mut auth = json!({ "role": "operator", "scopes": granted.scopes });
    if let Some(token) = &granted.device_token {
        auth["deviceToken"] = json!(token);
        auth["issuedAtMs"] = json!(context.clock.now());
    }
    json!({
        "type": "hello-ok",
        "protocol": PROTOCOL,
        "server": { "version": env!("CARGO_PKG_VERSION"), "connId": id },
        "features": { "methods": methods, "events": EVENTS, "capabilities": CAPABILITIES },
        "snapshot": {
            "presence": context.presence.told(),
            "health": {},
            "stateVersion": { "presence": context.presence.version(), "health": 0 },
            "uptimeMs": context.uptime_ms(),
            "configPath": context.dir.config(),
            "stateDir": context.dir.path(),
            "authMode": "token",
            "sessionDefaults": {
                "defaultAgentId": default, "mainKey": "main",
                "mainSessionKey": format!("agent:{default}:main"), "scope": "per-sender",
            },
        },
        "auth": auth,
        "policy": {
            "maxPayload": settings.config.limits.frame_bytes, "maxBufferedBytes": BUFFERED_BYTES_MAX,
            "tickIntervalMs": TICK_TOLD_MS,
        },
    })
}
