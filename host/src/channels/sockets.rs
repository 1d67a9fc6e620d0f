//! Sockets of adapters: each a task that reads as fast as its adapter takes it, and writes what it is given.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chela_channel::Event;
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use hyper::header::HeaderMap;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as Broken};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::secrets::Secrets;
use crate::egress::{self, Hosts};

/// Frames that wait to be sent; a peer that reads none of so many is let go.
const OUT_MAX: usize = 256;
/// The largest message that is taken.
const IN_BYTES_MAX: usize = 1 << 20;
/// After a close frame the other side has so long to say its own.
const GOODBYE: Duration = Duration::from_secs(3);
/// No code came: the connection broke.
const NO_CODE: u16 = 0;
const TOO_LARGE: u16 = 1009;

enum Out {
    Frame(String),
    Close(u16),
}

/// A socket's task; dropped, the socket is dropped without a close frame.
pub(super) struct Socket {
    pub(super) epoch: u64,
    /// Where it leads: which secrets its frames may carry.
    pub(super) url: String,
    out: mpsc::Sender<Out>,
    task: tokio::task::JoinHandle<()>,
    /// It says goodbye, and then ends by itself.
    closing: AtomicBool,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.closing.load(Ordering::Relaxed) {
            self.task.abort();
        }
    }
}

/// What a socket is opened with.
pub(super) struct Opening {
    pub(super) connection: String,
    pub(super) epoch: u64,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) hosts: Arc<Hosts>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Socket {
    pub(super) fn open(opening: Opening) -> Self {
        let (out, frames) = mpsc::channel(OUT_MAX);
        let (epoch, url) = (opening.epoch, opening.url.clone());
        Self { epoch, url, out, task: tokio::spawn(live(opening, frames)), closing: AtomicBool::new(false) }
    }

    /// False when the other side does not read.
    pub(super) fn send(&self, frame: String) -> bool {
        self.out.try_send(Out::Frame(frame)).is_ok()
    }

    pub(super) fn close(&self, code: u16) -> bool {
        let told = self.out.try_send(Out::Close(code)).is_ok();
        self.closing.fetch_or(told, Ordering::Relaxed);
        told
    }
}

async fn live(opening: Opening, frames: mpsc::Receiver<Out>) {
    let Opening { connection, epoch, url, headers, hosts, secrets, events } = opening;
    let (code, reason, refused) = match egress::connect(&hosts, &url, headers, IN_BYTES_MAX).await {
        Err(error) => (NO_CODE, secrets.scrub_text(&error.to_string()), error.is_refusal()),
        Ok(socket) => {
            if events.send(Event::Opened { connection: connection.clone(), epoch }).await.is_err() {
                return;
            }
            let (write, read) = socket.split();
            let (code, reason) = tokio::select! {
                ended = hear(read, &connection, epoch, &secrets, &events) => ended,
                ended = say(write, frames) => ended,
            };
            (code, secrets.scrub_text(&reason), false)
        }
    };
    // The adapter may be gone; then nobody is to be told.
    let _ = events.send(Event::Closed { connection, epoch, code, reason, refused }).await;
}

/// Reads until the end. While the adapter takes nothing, nothing is read.
async fn hear(
    mut read: SplitStream<egress::Socket>,
    connection: &str,
    epoch: u64,
    secrets: &Secrets,
    events: &mpsc::Sender<Event>,
) -> (u16, String) {
    loop {
        let connection = connection.to_owned();
        let event = match read.next().await {
            None => return (NO_CODE, "the connection ended".into()),
            Some(Err(Broken::Capacity(CapacityError::MessageTooLong { size, max_size }))) => {
                return (TOO_LARGE, format!("a message of {size} bytes, and {max_size} are taken"));
            }
            Some(Err(error)) => return (NO_CODE, egress::chain(&error)),
            Some(Ok(Message::Text(text))) => Event::Text { connection, epoch, data: secrets.scrub_text(text.as_str()) },
            Some(Ok(Message::Binary(bytes))) => {
                Event::Binary { connection, epoch, data: secrets.scrub(bytes.to_vec()) }
            }
            Some(Ok(Message::Close(frame))) => {
                let said = frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned()));
                return said.unwrap_or((1005, String::new()));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
        };
        if events.send(event).await.is_err() {
            return (NO_CODE, "nobody listens".into());
        }
    }
}

async fn say(
    mut write: futures_util::stream::SplitSink<egress::Socket, Message>,
    mut frames: mpsc::Receiver<Out>,
) -> (u16, String) {
    while let Some(out) = frames.recv().await {
        let sent = match out {
            Out::Frame(text) => write.send(Message::text(text)).await,
            Out::Close(code) => {
                let frame = CloseFrame { code: CloseCode::from(code), reason: "".into() };
                let closed = write.send(Message::Close(Some(frame))).await;
                if closed.is_ok() {
                    // The other side's own frame is read meanwhile, and ends this.
                    tokio::time::sleep(GOODBYE).await;
                }
                return (code, String::new());
            }
        };
        if let Err(error) = sent {
            return (NO_CODE, egress::chain(&error));
        }
    }
    std::future::pending().await
}
