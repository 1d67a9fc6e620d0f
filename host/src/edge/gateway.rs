//! The gateway protocol over WebSocket: challenge, connect, then requests, answers and events until either side ends it.
//! Keeps true: nothing is answered before a good `connect`; one client's work, flood or silence is on nobody else's path.

mod announcer;
mod connection;
mod device;
#[cfg(test)]
mod fuzz;
mod handshake;
mod hello;
mod io;
mod presence;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::extract::{Request as HttpRequest, State};
use axum::http::header;
use axum::response::Response;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::guard::client_of;
use super::{Context, Refusal, upgrade};

pub use announcer::announce;
pub use presence::Presence;

/// Before it has said who it is, a client may send this much.
const BEFORE_CONNECT_BYTES_MAX: usize = 64 * 1024;
/// Between any two of these signs of life a client must have said something, a pong at least.
const TICK_MS: u64 = 25_000;
/// What clients are told: they give up after twice this without a word.
const TICK_TOLD_MS: u64 = 30_000;
const BUFFERED_BYTES_MAX: usize = 52_428_800;

/// A connection that has come in, as its methods see it.
pub(super) struct Connected {
    pub(super) caps: BTreeSet<String>,
    /// Prefixes of the types of events that it follows in the log.
    follows: Mutex<Vec<String>>,
}

impl Connected {
    fn new(caps: Vec<String>) -> Self {
        Self { caps: caps.into_iter().collect(), follows: Mutex::default() }
    }

    pub(super) fn follow(&self, prefixes: Vec<String>) {
        *self.prefixes() = prefixes;
    }

    fn follows_any(&self) -> bool {
        !self.prefixes().is_empty()
    }

    fn follows(&self, kind: &str) -> bool {
        self.prefixes().iter().any(|prefix| kind.starts_with(prefix.trim_end_matches('*')))
    }

    fn prefixes(&self) -> MutexGuard<'_, Vec<String>> {
        self.follows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns a request into a connection of the protocol. Name, page and rate were checked on the way here; the token comes with `connect`.
pub(super) async fn open(State(context): State<Context>, mut request: HttpRequest) -> Result<Response, Refusal> {
    let accepted = upgrade::accept(&request)?;
    let settings = context.settings.current();
    upgrade::within_limit(&context)?;
    // Pages of other origins were turned away before; whoever is not a page has none.
    let from_page = request.headers().contains_key(header::ORIGIN);
    let client = client_of(&request);
    let payload_max = settings.config.limits.frame_bytes;
    let upgraded = hyper::upgrade::on(&mut request);
    let sockets = context.sockets.clone();
    sockets.spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        // Small buffers: thousands of clients may be connected and silent.
        let limits = WebSocketConfig::default()
            .read_buffer_size(4 * 1024)
            .write_buffer_size(16 * 1024)
            .max_write_buffer_size(BUFFERED_BYTES_MAX)
            .max_message_size(Some(payload_max))
            .max_frame_size(Some(payload_max));
        connection::serve(context, upgraded, limits, client, from_page).await;
    });
    Ok(accepted)
}
