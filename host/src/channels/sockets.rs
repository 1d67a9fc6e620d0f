//! Sockets of adapters: each a task that reads as fast as its adapter takes it, and writes what it is given.
//! Keeps true: a socket whose other side is gone without a word is noticed and ended; what came and is not told yet takes so much memory and no
//! more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chela_channel::{Compression, Event};
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use hyper::header::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as Broken};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::secrets::Secrets;
use super::unpack::{Unpacked, Unpacker};
use crate::egress::{self, Hosts};

/// Frames that wait to be sent; a peer that reads none of so many is let go.
const OUT_MAX: usize = 256;
/// After a close frame the other side has so long to say its own.
const GOODBYE: Duration = Duration::from_secs(3);
/// No code came: the connection broke.
const NO_CODE: u16 = 0;
const TOO_LARGE: u16 = 1009;
const NOT_WHOLE: u16 = 1007;

enum Out {
    Frame(String),
    Ping,
    Close(u16),
}

/// Of a socket from which nothing comes a sign of life is asked for, and then it is let go. Real time: it is the network's.
#[derive(Clone, Copy)]
struct Patience {
    ask_after: Duration,
    end_after: Duration,
}

const PATIENCE: Patience = Patience { ask_after: Duration::from_secs(30), end_after: Duration::from_secs(75) };

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

/// Something that happened, and the room that it takes until the adapter's machine has it.
pub(super) struct Happened {
    pub(super) event: Event,
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl Happened {
    /// What takes no room worth counting, or has an end of another kind.
    pub(super) fn light(event: Event) -> Self {
        Self { event, room: None }
    }
}

/// What all sockets of an adapter may have read and not handed over.
#[derive(Clone)]
pub(super) struct Room {
    bytes: Arc<Semaphore>,
    most: u32,
}

impl Room {
    pub(super) fn of(most: u32) -> Self {
        Self { bytes: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// Waits until there is room for a frame. One that is larger than all of it goes alone.
    async fn take(&self, event: &Event) -> Option<OwnedSemaphorePermit> {
        let bytes = match event {
            Event::Text { data, .. } => data.len(),
            Event::Binary { data, .. } => data.len(),
            _ => 0,
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.most);
        // It is never closed.
        self.bytes.clone().acquire_many_owned(bytes).await.ok()
    }
}

/// What a socket is opened with.
pub(super) struct Opening {
    pub(super) connection: String,
    pub(super) epoch: u64,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) compression: Compression,
    /// The largest message that is taken.
    pub(super) bytes_max: usize,
    pub(super) hosts: Arc<Hosts>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) events: mpsc::Sender<Happened>,
    pub(super) room: Room,
}

impl Socket {
    pub(super) fn open(opening: Opening) -> Self {
        let (out, frames) = mpsc::channel(OUT_MAX);
        let (epoch, url) = (opening.epoch, opening.url.clone());
        let task = tokio::spawn(live(opening, out.clone(), frames, PATIENCE));
        Self { epoch, url, out, task, closing: AtomicBool::new(false) }
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

async fn live(opening: Opening, out: mpsc::Sender<Out>, frames: mpsc::Receiver<Out>, patience: Patience) {
    let Opening { connection, epoch, url, headers, compression, bytes_max, hosts, secrets, events, room } = opening;
    let (code, reason, refused) = match egress::connect(&hosts, &url, headers, bytes_max).await {
        Err(error) => (NO_CODE, secrets.scrub_text(&error.to_string()), error.is_refusal()),
        Ok(socket) => {
            let opened = Event::Opened { connection: connection.clone(), epoch };
            if events.send(Happened::light(opened)).await.is_err() {
                return;
            }
            let (write, read) = socket.split();
            let unpacker = (compression == Compression::ZlibStream).then(|| Unpacker::new(bytes_max));
            let mut hearing =
                Hearing { read, connection: connection.clone(), epoch, unpacker, secrets: &secrets, out, patience };
            let (code, reason) = tokio::select! {
                ended = hearing.run(&events, &room) => ended,
                ended = say(write, frames) => ended,
            };
            (code, secrets.scrub_text(&reason), false)
        }
    };
    // The adapter may be gone; then nobody is to be told.
    let closed = Event::Closed { connection, epoch, code, reason, refused };
    let _ = events.send(Happened::light(closed)).await;
}

/// The reading half of a socket.
struct Hearing<'a> {
    read: SplitStream<egress::Socket>,
    connection: String,
    epoch: u64,
    unpacker: Option<Unpacker>,
    secrets: &'a Secrets,
    out: mpsc::Sender<Out>,
    patience: Patience,
}

impl Hearing<'_> {
    /// Reads until the end. While the adapter takes nothing, nothing is read.
    async fn run(&mut self, events: &mpsc::Sender<Happened>, room: &Room) -> (u16, String) {
        loop {
            let message = match self.next().await {
                Ok(message) => message,
                Err(silence) => return (NO_CODE, format!("nothing was heard for {} s", silence.as_secs())),
            };
            let event = match message {
                None => return (NO_CODE, "the connection ended".into()),
                Some(Err(Broken::Capacity(CapacityError::MessageTooLong { size, max_size }))) => {
                    return (TOO_LARGE, format!("a message of {size} bytes, and {max_size} are taken"));
                }
                Some(Err(error)) => return (NO_CODE, egress::chain(&error)),
                Some(Ok(Message::Text(text))) => self.text(text.as_str()),
                Some(Ok(Message::Binary(bytes))) => match self.binary(bytes.to_vec()) {
                    Ok(Some(event)) => event,
                    Ok(None) => continue,
                    Err(ended) => return ended,
                },
                Some(Ok(Message::Close(frame))) => {
                    let said = frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned()));
                    return said.unwrap_or((1005, String::new()));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            };
            let happened = Happened { room: room.take(&event).await, event };
            if events.send(happened).await.is_err() {
                return (NO_CODE, "nobody listens".into());
            }
        }
    }

    /// What comes next, or how long nothing did. Only while it is read for: a busy adapter is no silence.
    async fn next(&mut self) -> Result<Option<Result<Message, Broken>>, Duration> {
        let Patience { ask_after, end_after } = self.patience;
        let from = tokio::time::Instant::now();
        if let Ok(message) = tokio::time::timeout_at(from + ask_after, self.read.next()).await {
            return Ok(message);
        }
        // Where so much waits to be sent, what is sent asks as well.
        let _ = self.out.try_send(Out::Ping);
        tokio::time::timeout_at(from + end_after, self.read.next()).await.map_err(|_| end_after)
    }

    fn text(&self, text: &str) -> chela_channel::Event {
        let (connection, epoch) = (self.connection.clone(), self.epoch);
        Event::Text { connection, epoch, data: self.secrets.scrub_text(text) }
    }

    fn binary(&mut self, bytes: Vec<u8>) -> Result<Option<Event>, (u16, String)> {
        let (connection, epoch) = (self.connection.clone(), self.epoch);
        let Some(unpacker) = &mut self.unpacker else {
            return Ok(Some(Event::Binary { connection, epoch, data: self.secrets.scrub(bytes) }));
        };
        match unpacker.take(&bytes) {
            Ok(text) => Ok(text.map(|text| self.text(&text))),
            Err(Unpacked::TooLarge) => Err((TOO_LARGE, "a packed message is larger than what is taken".into())),
            Err(Unpacked::Broken) => Err((NOT_WHOLE, "what came is no zlib stream of texts".into())),
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
            Out::Ping => write.send(Message::Ping(Default::default())).await,
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

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: Duration = Duration::from_millis(20);

    /// A socket to a server of one connection, which `serve` plays, while `listen` hears what happens on it; what that gives.
    async fn lived<F: Future<Output = ()> + Send, L: Future>(
        end_after: Duration,
        room: Room,
        listen: impl FnOnce(mpsc::Receiver<Happened>) -> L,
        serve: impl FnOnce(tokio_tungstenite::WebSocketStream<tokio::net::TcpStream>) -> F + Send + 'static,
    ) -> L::Output {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serving = async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            serve(tokio_tungstenite::accept_async(stream).await.expect("a socket")).await;
        };
        let (events, happened) = mpsc::channel(64);
        let opening = Opening {
            connection: "main".into(),
            epoch: 1,
            url: format!("ws://{address}/"),
            headers: HeaderMap::new(),
            compression: Compression::None,
            bytes_max: 1_000,
            hosts: Arc::new(Hosts::new(std::iter::once(address.as_str()), "a.list")),
            secrets: Arc::new(Secrets::default()),
            events,
            room,
        };
        let (out, frames) = mpsc::channel(OUT_MAX);
        let ends = live(opening, out, frames, Patience { ask_after: ASKS, end_after });
        tokio::select! {
            (_, heard) = async { tokio::join!(ends, listen(happened)) } => heard,
            () = serving => panic!("the other side stays"),
        }
    }

    fn large() -> Room {
        Room::of(1 << 20)
    }

    /// All that happens, to the end.
    async fn all(mut happened: mpsc::Receiver<Happened>) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(Happened { event, .. }) = happened.recv().await {
            all.push(event);
        }
        all
    }

    #[tokio::test]
    async fn a_socket_whose_other_side_is_gone_without_a_word_is_ended() {
        let events = lived(Duration::from_millis(100), large(), all, |socket| async move {
            // It is there, and neither reads nor says anything.
            let _held = socket;
            std::future::pending::<()>().await;
        })
        .await;
        let last = events.last().expect("it has ended");
        assert!(
            matches!(last, Event::Closed { code: 0, reason, refused: false, .. } if reason.contains("nothing was heard")),
            "{last:?}"
        );
    }

    #[tokio::test]
    async fn who_answers_pings_is_alive() {
        let events = lived(Duration::from_secs(30), large(), all, |mut socket| async move {
            for _ in 0..5 {
                // A client that asks is answered by reading on.
                let asked = socket.next().await.expect("it stays open").expect("a frame");
                assert!(matches!(asked, Message::Ping(_)), "{asked:?}");
                socket.flush().await.expect("the answer goes out");
            }
            socket.send(Message::text("well")).await.expect("sent");
            socket.close(None).await.expect("closed");
            while let Some(Ok(_)) = socket.next().await {}
            std::future::pending::<()>().await;
        })
        .await;
        let texts: Vec<&Event> = events.iter().filter(|event| matches!(event, Event::Text { .. })).collect();
        assert_eq!(texts.len(), 1, "{events:?}");
        assert!(matches!(events.last(), Some(Event::Closed { code: 1005, .. })), "{events:?}");
    }

    /// Of five frames so many are handed over while none is taken up, and the rest after that.
    async fn check_room(room: u32, at_once: usize) {
        let listen = |mut happened: mpsc::Receiver<Happened>| async move {
            let mut held = Vec::new();
            // Before the frames comes that it is open.
            for _ in 0..=at_once {
                held.push(happened.recv().await.expect("it comes"));
            }
            let further = tokio::time::timeout(Duration::from_millis(100), happened.recv()).await;
            assert!(further.is_err(), "there is no room for more than {at_once}");
            drop(held);
            all(happened).await.iter().filter(|event| matches!(event, Event::Text { .. })).count()
        };
        let serve = |mut socket: tokio_tungstenite::WebSocketStream<tokio::net::TcpStream>| async move {
            for _ in 0..5 {
                socket.send(Message::text("x".repeat(1_000))).await.expect("sent");
            }
            socket.close(None).await.expect("closed");
            while let Some(Ok(_)) = socket.next().await {}
            std::future::pending::<()>().await;
        };
        assert_eq!(lived(Duration::from_secs(30), Room::of(room), listen, serve).await, 5 - at_once);
    }

    #[tokio::test]
    async fn frames_that_nobody_takes_up_hold_back_those_behind_them() {
        check_room(2_500, 2).await;
    }

    #[tokio::test]
    async fn a_frame_that_is_larger_than_all_the_room_goes_alone() {
        check_room(500, 1).await;
    }
}
