//! From a request of HTTP to a WebSocket: the checks and the answer that all sockets share.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::params::bad;
use super::{Context, Refusal};

/// Whether a request asks for a WebSocket.
pub(super) fn is_asked(request: &Request) -> bool {
    has(request, header::UPGRADE, "websocket")
}

/// The answer that turns the connection into a WebSocket.
pub(super) fn accept(request: &Request) -> Result<Response, Refusal> {
    let headers = request.headers();
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let version = headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = key.filter(|_| has(request, header::CONNECTION, "upgrade") && is_asked(request) && version);
    let key = key.ok_or_else(|| bad("Upgrade", "this path speaks WebSocket (version 13) alone".into()))?;
    let accept =
        HeaderValue::from_str(&derive_accept_key(key)).map_err(|_| bad("Sec-WebSocket-Key", "not a key".into()))?;
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// Sockets hold a connection each although their request is over.
pub(super) fn within_limit(context: &Context) -> Result<(), Refusal> {
    let sockets_max = context.settings.current().config.limits.connections;
    if context.sockets.len() < sockets_max {
        return Ok(());
    }
    let said = format!("{sockets_max} are connected already, which is as many as may (`limits.connections`)");
    Err(Refusal::Unavailable { said })
}

fn has(request: &Request, name: header::HeaderName, word: &str) -> bool {
    let value = request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
}
