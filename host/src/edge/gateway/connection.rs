//! One connection from the challenge to the close. Its requests run beside each other; what is ready is sent in one go.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use uuid::Uuid;

use super::super::frame::{self, ErrorShape, Request, Response};
use super::super::guard::{Client, token_lost};
use super::super::limiter::{self, WRONG_TOKENS};
use super::super::table::{Caller, Payload, Reply};
use super::super::{Context, api, follow};
use super::handshake::{self, Denied, Facts, Granted};
use super::hello::hello;
use super::io::{Allowance, Metered};
use super::{BEFORE_CONNECT_BYTES_MAX, Connected};
use crate::bus::{Delivery, Subscription};
use crate::feed::{Audience, Heard, Listener};
use crate::id;
use crate::settings::Settings;

/// How long a client may take to say who it is.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// Requests of one client that are under way at once; more wait in the socket.
const REQUESTS_MAX: usize = 512;
/// Frames that are taken in, or told, before what is ready is sent.
const ROUND: usize = 64;
/// How long a close waits for the other side's.
const GOODBYE: Duration = Duration::from_secs(1);
const TOKEN_LOST: &str = "unauthorized: the token of this connection is another one now; connect anew";
const TOO_MUCH: &str = "more than 65536 bytes before connect";
/// The protocol's bound on the reason of a close.
pub(super) const REASON_BYTES_MAX: usize = 123;

type Socket = WebSocketStream<Metered<TokioIo<Upgraded>>>;
type Done = (Option<String>, Result<Reply, ErrorShape>);

/// How a connection ends.
enum End {
    /// The other side is gone.
    Gone,
    /// The other side has said goodbye.
    Closed,
    Close(CloseCode, String),
}

pub(super) async fn serve(context: Context, upgraded: Upgraded, limits: WebSocketConfig, client: Client, page: bool) {
    // The frame's own head comes on top of what it carries.
    let allowance = Allowance::new(BEFORE_CONNECT_BYTES_MAX + 64);
    let stream = Metered { stream: TokioIo::new(upgraded), allowance: allowance.clone() };
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(limits)).await;
    let end = match come_in(&context, &mut socket, &allowance, client, page).await {
        Err(end) => end,
        Ok(Came { id, granted, settings }) => {
            allowance.lift();
            let mut phase = context.phase.clone();
            let holder = granted.holder.clone();
            let served = Connection::new(&context, &mut socket, id, granted, client).serve();
            tokio::select! {
                end = served => end,
                () = token_lost(&context, &settings, Some(&holder)) => End::Close(CloseCode::Policy, TOKEN_LOST.into()),
                () = follow::stopping(&mut phase) => {
                    let stopping = frame::event("shutdown", r#"{"reason":"gateway stopping"}"#, None);
                    // A client that does not take it any more learns it from the close.
                    let _ = tokio::time::timeout(GOODBYE, socket.send(Message::text(stopping))).await;
                    End::Close(CloseCode::Restart, "service restart".into())
                }
            }
        }
    };
    match end {
        End::Close(code, reason) => close(&mut socket, code, &reason).await,
        // Its goodbye is answered.
        End::Closed => drop(tokio::time::timeout(GOODBYE, socket.flush()).await),
        End::Gone => {}
    }
}

async fn close(socket: &mut Socket, code: CloseCode, reason: &str) {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = CloseFrame { code, reason: Utf8Bytes::from(&reason[..end]) };
    let goodbye = async {
        if socket.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_)) = socket.next().await {}
        }
    };
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
}

/// Who has come in, under which number and which settings.
struct Came {
    id: Uuid,
    granted: Granted,
    settings: Arc<Settings>,
}

/// From the challenge to a good `connect`.
async fn come_in(
    context: &Context,
    socket: &mut Socket,
    allowance: &Allowance,
    client: Client,
    page: bool,
) -> Result<Came, End> {
    let now = context.clock.now();
    let nonce = id::fresh(now).to_string();
    let challenge = json!({ "nonce": nonce, "ts": now });
    send(socket, Message::text(frame::event("connect.challenge", &challenge.to_string(), None))).await?;
    let mut phase = context.phase.clone();
    let first = tokio::select! {
        first = first_request(socket, allowance) => first?,
        () = context.clock.sleep(CONNECT_WITHIN) => return Err(End::Close(CloseCode::Policy, "handshake timeout".into())),
        () = follow::stopping(&mut phase) => return Err(End::Close(CloseCode::Restart, "service restart".into())),
    };
    let id = first.id.clone();
    let settings = context.settings.current();
    let (ip, elapsed) = (client.0.ip(), context.clock.elapsed());
    let wrong = &context.limiters.wrong_tokens;
    let locked = if client.is_local() { None } else { wrong.peek(ip, WRONG_TOKENS, elapsed).err() };
    let facts = Facts { tokens: &settings.tokens, nonce: &nonce, now: context.clock.now(), has_page: page, locked };
    match handshake::decide(first, &facts) {
        Ok(granted) => {
            let connection = id::fresh(now);
            let answer = Response::new(id, Ok(hello(context, &granted, connection)));
            send(socket, Message::text(text_of(&answer))).await?;
            Ok(Came { id: connection, granted, settings })
        }
        Err(denied) => {
            if denied.wrong_secret && !client.is_local() {
                // There was room when we looked; if others took it since, the next try is told so.
                let _ = wrong.take(ip, WRONG_TOKENS, elapsed);
            }
            context.metrics.refused("connect");
            let Denied { error, close, .. } = denied;
            let reason = error.message.clone();
            send(socket, Message::text(text_of(&Response::new(id, Err(*error))))).await?;
            Err(End::Close(close, reason))
        }
    }
}

/// The first frame, which must be a request.
async fn first_request(socket: &mut Socket, allowance: &Allowance) -> Result<Request, End> {
    let too_large = || End::Close(CloseCode::Size, TOO_MUCH.into());
    loop {
        let bytes = match socket.next().await {
            Some(Ok(Message::Text(text))) => text.as_bytes().to_vec(),
            Some(Ok(Message::Binary(bytes))) => bytes.to_vec(),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Err(_)) if allowance.is_used_up() => return Err(too_large()),
            Some(Err(tungstenite::Error::Capacity(_))) => return Err(too_large()),
            Some(Ok(Message::Close(_))) => return Err(End::Closed),
            None | Some(Err(_)) => return Err(End::Gone),
        };
        return first_of(&bytes).map_err(|(code, reason)| End::Close(code, reason.into()));
    }
}

/// What the first frame asks for; if it is no request, how the connection ends.
pub(super) fn first_of(bytes: &[u8]) -> Result<Request, (CloseCode, &'static str)> {
    if bytes.len() > BEFORE_CONNECT_BYTES_MAX {
        return Err((CloseCode::Size, TOO_MUCH));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|_| (CloseCode::Normal, ""))?;
    let framed = value["type"] == "req" && value["id"].is_string();
    let request = framed.then(|| api::request_of(value).ok()).flatten();
    request.ok_or((CloseCode::Policy, "invalid request frame"))
}

async fn send(socket: &mut Socket, message: Message) -> Result<(), End> {
    socket.send(message).await.map_err(|_| End::Gone)
}

fn text_of(response: &Response) -> String {
    serde_json::to_string(response).expect("a frame is plain JSON")
}

/// A client that has come in.
struct Connection<'a> {
    context: &'a Context,
    socket: &'a mut Socket,
    caller: Caller,
    connected: Arc<Connected>,
    listener: Listener,
    log: Option<Subscription>,
    /// Requests under way, and second answers that are still to come.
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Events sent so far: each carries its number.
    seq: u64,
    /// It has said something since the last tick.
    alive: bool,
    _present: super::presence::Present,
}

impl<'a> Connection<'a> {
    fn new(context: &'a Context, socket: &'a mut Socket, id: Uuid, granted: Granted, client: Client) -> Self {
        let present = context.presence.come(id, &granted, context.clock.now());
        let connected = Arc::new(Connected::new(granted.connect.caps));
        let caller =
            Caller { name: granted.principal.name, scope: granted.scope, client, connection: Some(connected.clone()) };
        let listener = context.feed.listen();
        Self {
            context,
            socket,
            caller,
            connected,
            listener,
            log: None,
            under_way: FuturesUnordered::new(),
            seq: 0,
            alive: true,
            _present: present,
        }
    }

    async fn serve(mut self) -> End {
        loop {
            if let Err(end) = self.round().await {
                return end;
            }
        }
    }

    /// Waits for something, then does all that is ready and sends it at once.
    async fn round(&mut self) -> Result<(), End> {
        tokio::select! {
            Some(done) = self.under_way.next(), if !self.under_way.is_empty() => self.answer(done).await?,
            heard = self.socket.next(), if self.under_way.len() < REQUESTS_MAX => self.hear(heard).await?,
            told = self.listener.next() => self.tell(told).await?,
            Some(delivery) = next_of(&mut self.log), if self.log.is_some() => self.log_event(delivery).await?,
        }
        for _ in 0..ROUND {
            while let Some(Some(done)) = self.under_way.next().now_or_never() {
                self.answer(done).await?;
            }
            let more = self.under_way.len() < REQUESTS_MAX;
            match more.then(|| self.socket.next().now_or_never()).flatten() {
                Some(heard) => self.hear(heard).await?,
                None => break,
            }
        }
        for _ in 0..ROUND {
            match self.listener.at_hand() {
                Some(told) => self.tell(told).await?,
                None => break,
            }
        }
        self.socket.flush().await.map_err(|_| End::Gone)
    }

    async fn hear(&mut self, heard: Option<Result<Message, tungstenite::Error>>) -> Result<(), End> {
        self.alive = true;
        match heard {
            Some(Ok(Message::Text(text))) => self.take(text.as_bytes()).await,
            Some(Ok(Message::Binary(bytes))) => self.take(&bytes).await,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(()),
            Some(Err(tungstenite::Error::Capacity(error))) => {
                self.context.metrics.refused("frame_size");
                Err(End::Close(CloseCode::Size, format!("{error}; `limits.frameBytes` is the most")))
            }
            Some(Err(tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_))) => {
                Err(End::Close(CloseCode::Protocol, "invalid WebSocket frame".into()))
            }
            Some(Ok(Message::Close(_))) => Err(End::Closed),
            None | Some(Err(_)) => Err(End::Gone),
        }
    }

    /// A frame came in: it is answered, or its request is under way.
    async fn take(&mut self, bytes: &[u8]) -> Result<(), End> {
        let context = self.context;
        let decoded = api::decode(bytes);
        let limits = &context.settings.current().config.limits;
        let quota = limiter::requests_quota(limits);
        let asks = limiter::Asks::new(self.caller.client.0.ip(), Some(self.caller.name.clone()));
        if let Err(wait) = context.limiters.requests.take(asks, quota, context.clock.elapsed()) {
            context.metrics.refused("rate");
            let (id, named) = match decoded {
                Ok(request) => (request.id, shown(&request.method)),
                Err((id, _)) => (id, "a frame that is no request".into()),
            };
            let mut error = ErrorShape::unavailable(format!("rate limit exceeded for {named}"));
            error.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
            self.answer((id, Err(error))).await?;
            self.socket.flush().await.map_err(|_| End::Gone)?;
            // What it sends meanwhile waits in its own socket.
            context.clock.sleep(wait.min(Duration::from_secs(1))).await;
            return Ok(());
        }
        let request = match decoded {
            Ok(request) => request,
            Err((id, error)) => return self.answer((id, Err(*error))).await,
        };
        let id = request.id.clone();
        if request.method == "connect" {
            return self.answer((id, Err(ErrorShape::invalid("connect: this connection is connected already")))).await;
        }
        let (context, caller) = (context.clone(), self.caller.clone());
        let mut call: BoxFuture<'static, Done> =
            Box::pin(async move { (id, context.methods.call(&context, &caller, request).await) });
        // Most requests have their answer at hand, and wait for nobody.
        match (&mut call).now_or_never() {
            Some(done) => self.answer(done).await,
            None => {
                self.under_way.push(call);
                Ok(())
            }
        }
    }

    async fn answer(&mut self, (id, outcome): Done) -> Result<(), End> {
        self.follow();
        let outcome = outcome.map(|reply| {
            if let Some(later) = reply.later {
                let id = id.clone();
                self.under_way.push(Box::pin(async move { (id, later.await.map(Reply::from)) }));
            }
            reply.payload
        });
        let text = match outcome {
            Ok(Payload::Text(payload)) => frame::answer(id.as_deref(), &payload),
            Ok(Payload::Value(payload)) => text_of(&Response::new(id, Ok(payload))),
            Err(error) => text_of(&Response::new(id, Err(error))),
        };
        self.feed(text).await
    }

    /// Listens to the log as it was asked to. Before the answer: who reads that misses nothing.
    fn follow(&mut self) {
        match (self.connected.follows_any(), &self.log) {
            (true, None) => self.log = Some(self.context.bus.subscribe("*")),
            (false, Some(_)) => self.log = None,
            (true, Some(_)) | (false, None) => {}
        }
    }

    async fn tell(&mut self, heard: Heard) -> Result<(), End> {
        let told = match heard {
            Heard::Told(told) => told,
            Heard::Missed(count) => {
                self.context.metrics.refused("slow_client");
                return Err(End::Close(CloseCode::Again, format!("slow consumer: {count} events behind; reconnect")));
            }
            Heard::End => return Err(End::Close(CloseCode::Restart, "service restart".into())),
        };
        let reads = self.caller.scope.is_some();
        let hears = match told.audience {
            Audience::Everyone => true,
            Audience::Readers => reads,
            Audience::ToolWatchers => reads && self.connected.caps.contains("tool-events"),
        };
        if !hears {
            return Ok(());
        }
        if told.event == "tick" {
            // With so much under way nothing is read, its pongs neither.
            let is_read = self.under_way.len() < REQUESTS_MAX;
            if !std::mem::take(&mut self.alive) && is_read {
                return Err(End::Close(CloseCode::Away, "no sign of life".into()));
            }
            self.socket.feed(Message::Ping(Vec::new().into())).await.map_err(|_| End::Gone)?;
        }
        self.event(told.event, &told.payload).await
    }

    async fn log_event(&mut self, delivery: Delivery) -> Result<(), End> {
        let payload = match delivery {
            Delivery::Event(event) if self.connected.follows(&event.kind) => json!({ "event": *event }),
            Delivery::Event(_) => return Ok(()),
            Delivery::Missed(count) => json!({ "missed": count }),
        };
        self.event("log.event", &payload.to_string()).await
    }

    async fn event(&mut self, name: &str, payload: &str) -> Result<(), End> {
        self.seq += 1;
        self.feed(frame::event(name, payload, Some(self.seq))).await
    }

    async fn feed(&mut self, text: String) -> Result<(), End> {
        self.socket.feed(Message::text(text)).await.map_err(|_| End::Gone)
    }
}

async fn next_of(log: &mut Option<Subscription>) -> Option<Delivery> {
    match log {
        Some(log) => log.next().await,
        None => None,
    }
}

/// A method's name as an answer repeats it.
fn shown(method: &str) -> String {
    method.chars().take(128).collect()
}
