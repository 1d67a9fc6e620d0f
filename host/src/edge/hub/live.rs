//! `/live`: tells a page which of its topics have news, and what an agent is saying, at most twenty times a second however much happens.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::signin::still_signed_in;
use crate::edge::follow::stopping;
use crate::edge::guard::token_lost;
use crate::edge::{Context, Refusal, upgrade};
use crate::feed::{Heard, Listener};
use crate::hub::{Stale, of_event, of_feed};
use crate::monitor::{Followed, News};
use crate::settings::Principal;

/// Between two tellings.
const ROUND: Duration = Duration::from_millis(50);
/// Events that are looked at in one go.
const EVENTS: usize = 256;
/// How long a page may take to read what it is told.
const PATIENCE: Duration = Duration::from_secs(5);
/// A sign of life when nothing happens.
const QUIET: Duration = Duration::from_secs(30);
/// Between two tellings that counters are stale, while somebody looks at some.
const COUNTERS: Duration = Duration::from_secs(5);
/// Pages only listen.
const INBOUND_BYTES_MAX: usize = 4 * 1024;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

pub(super) async fn live(State(context): State<Context>, mut request: Request) -> Result<Response, Refusal> {
    let accepted = upgrade::accept(&request)?;
    upgrade::within_limit(&context)?;
    let upgraded = hyper::upgrade::on(&mut request);
    let headers = request.headers().clone();
    let holder = request.extensions().get::<Principal>().map(|principal| principal.name.clone());
    let settings = context.settings.current();
    let sockets = context.sockets.clone();
    // Before the page hears that it is connected: it looks once more then, and misses nothing after that.
    let ears = Ears::of(&context);
    sockets.spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let limits = WebSocketConfig::default()
            .max_message_size(Some(INBOUND_BYTES_MAX))
            .max_frame_size(Some(INBOUND_BYTES_MAX));
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(limits)).await;
        let end = tokio::select! {
            end = tell(&mut socket, ears, &context, &headers) => end,
            () = token_lost(&context, &settings, holder.as_deref()) => Some((CloseCode::Policy, "signed out")),
        };
        if let Some((code, said)) = end {
            let close = CloseFrame { code, reason: Utf8Bytes::from_static(said) };
            // A page that is gone needs no reason.
            let _ = tokio::time::timeout(Duration::from_secs(1), socket.close(Some(close))).await;
        }
    });
    Ok(accepted)
}

/// All that may have news for a page.
struct Ears {
    followed: Followed,
    feed: Listener,
    lists: watch::Receiver<u64>,
    dialogues: broadcast::Receiver<String>,
    overridden: broadcast::Receiver<String>,
}

impl Ears {
    fn of(context: &Context) -> Self {
        Self {
            followed: context.monitor.follow(None),
            feed: context.feed.listen(),
            lists: context.tasks.lists_seen(),
            dialogues: context.dialogues.news(),
            overridden: context.monitor.overridden(),
        }
    }
}

/// Tells until there is a reason to end; none where the page has ended it.
async fn tell(
    socket: &mut Socket,
    ears: Ears,
    context: &Context,
    headers: &HeaderMap,
) -> Option<(CloseCode, &'static str)> {
    let mut phase = context.phase.clone();
    let Ears { mut followed, mut feed, mut lists, mut dialogues, mut overridden } = ears;
    let mut stale = Stale::default();
    let mut next = Instant::now();
    let mut quiet_until = Instant::now() + QUIET;
    let mut counters = tokio::time::interval(COUNTERS);
    counters.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopping(&mut phase) => return Some((CloseCode::Restart, "the gateway stops")),
            heard = socket.next() => match heard {
                None | Some(Err(_) | Ok(Message::Close(_))) => return None,
                Some(Ok(_)) => {}
            },
            told = followed.news(EVENTS) => match told {
                Some(News::Told(events)) => events.iter().for_each(|told| of_event(&told.event, &mut stale)),
                Some(News::Much) => stale.all = true,
                None => return Some((CloseCode::Restart, "the gateway stops")),
            },
            Ok(()) = lists.changed() => stale.lists(),
            task = dialogues.recv() => match task {
                Ok(task) => stale.dialogue(&task),
                Err(RecvError::Lagged(_)) => stale.all = true,
                Err(RecvError::Closed) => return Some((CloseCode::Restart, "the gateway stops")),
            },
            session = overridden.recv() => match session {
                Ok(session) => stale.category(&session),
                Err(RecvError::Lagged(_)) => stale.all = true,
                Err(RecvError::Closed) => return Some((CloseCode::Restart, "the gateway stops")),
            },
            heard = feed.next() => match heard {
                Heard::Told(told) => of_feed(&told, &mut stale),
                Heard::Missed(_) => stale.all = true,
                Heard::End => return Some((CloseCode::Restart, "the gateway stops")),
            },
            () = tokio::time::sleep_until(next), if !stale.is_empty() => {
                if !still_signed_in(context, headers) {
                    return Some((CloseCode::Policy, "signed out"));
                }
                let told = Message::text(std::mem::take(&mut stale).to_json().to_string());
                next = Instant::now() + ROUND;
                quiet_until = Instant::now() + QUIET;
                if !is_sent(socket, told).await {
                    return None;
                }
            }
            _ = counters.tick() => if context.hub.counters_are_looked_at() {
                stale.counters();
            },
            () = tokio::time::sleep_until(quiet_until) => {
                quiet_until = Instant::now() + QUIET;
                if !is_sent(socket, Message::Ping(Vec::new().into())).await {
                    return None;
                }
            }
        }
    }
}

async fn is_sent(socket: &mut Socket, message: Message) -> bool {
    matches!(tokio::time::timeout(PATIENCE, socket.send(message)).await, Ok(Ok(())))
}
