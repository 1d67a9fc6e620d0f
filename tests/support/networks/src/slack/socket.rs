//! One socket of Socket Mode: a ticket, a greeting, then envelopes until each is acknowledged.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::Shared;

/// Frames that may wait for a client that does not read.
const PUSHES_MAX: usize = 20_000;
/// What is not acknowledged within this comes again.
const AGAIN: Duration = Duration::from_secs(3);
/// How often that is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// What comes again at once.
const AGAIN_MAX: usize = 20;

/// What a socket is told by the rest of the server.
pub(super) enum Push {
    Frame(Value),
    /// Ends without a word.
    Cut,
}

pub(super) async fn connection(mut socket: WebSocketStream<TcpStream>, path: &str, shared: &Shared) {
    let ticket = path.split_once("ticket=").and_then(|(_, rest)| rest.split('&').next()?.parse::<u64>().ok());
    let (sender, mut pushes) = mpsc::channel(PUSHES_MAX);
    let link = {
        let mut state = shared.state();
        let known = state.tickets.iter().position(|known| Some(*known) == ticket);
        known.map(|at| {
            state.tickets.remove(at);
            state.last_link += 1;
            state.counts.sockets += 1;
            state.last_link
        })
    };
    let Some(link) = link else {
        // A ticket is good once.
        let frame = CloseFrame { code: 4_001.into(), reason: "invalid ticket".into() };
        let _ = socket.close(Some(frame)).await;
        return;
    };
    let hello = json!({ "type": "hello", "num_connections": 1, "connection_info": { "app_id": "A1" }, "debug_info": { "host": "test" } });
    if socket.send(Message::text(hello.to_string())).await.is_err() {
        return;
    }
    // What nobody has acknowledged comes to the newest socket.
    let waiting: Vec<Value> = {
        let mut state = shared.state();
        state.links.insert(link, sender);
        state.send_again(Duration::ZERO, usize::MAX)
    };
    let alive = talk(&mut socket, waiting, &mut pushes, shared).await;
    shared.state().links.remove(&link);
    if alive {
        let _ = socket.close(None).await;
    }
}

/// Sends and hears until the end; false when it is to break without a word.
async fn talk(
    socket: &mut WebSocketStream<TcpStream>,
    waiting: Vec<Value>,
    pushes: &mut mpsc::Receiver<Push>,
    shared: &Shared,
) -> bool {
    for frame in waiting {
        if socket.send(Message::text(frame.to_string())).await.is_err() {
            return false;
        }
    }
    let mut again = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            biased;
            push = pushes.recv() => match push {
                Some(Push::Frame(frame)) => {
                    if socket.send(Message::text(frame.to_string())).await.is_err() {
                        return false;
                    }
                }
                Some(Push::Cut) | None => return false,
            },
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(text.as_str()).unwrap_or(Value::Null);
                    shared.state().acknowledge(&frame);
                }
                Some(Ok(Message::Close(_))) => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return false,
            },
            _ = again.tick() => {
                let frames = shared.state().send_again(AGAIN, AGAIN_MAX);
                for frame in frames {
                    if socket.send(Message::text(frame.to_string())).await.is_err() {
                        return false;
                    }
                }
            }
        }
    }
}
