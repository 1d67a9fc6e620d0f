//! A small chat network: JSON frames with an `op` over a WebSocket, and a door for requests. It remembers all that it heard.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

pub struct Chat {
    pub sockets: SocketAddr,
    pub requests: SocketAddr,
    log: Arc<Mutex<Log>>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Log {
    frames: Vec<Value>,
    /// The `authorization` of each socket that was opened.
    opened: Vec<String>,
    asked: Vec<(String, String)>,
    /// What requests are answered with, in this order; then 200.
    answers: VecDeque<(u16, String)>,
    /// Results of deliveries, in this order; then that it was well.
    results: VecDeque<Value>,
    beat: Option<u64>,
    /// So many messages were written; who says hello is told those that it has not seen.
    written: u64,
    current: Option<mpsc::UnboundedSender<Option<String>>>,
}

impl Chat {
    pub fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let log = Arc::new(Mutex::new(Log::default()));
        let bind = || async { TcpListener::bind("127.0.0.1:0").await.expect("a port") };
        let (sockets, requests) = runtime.block_on(async { (bind().await, bind().await) });
        let at = |listener: &TcpListener| listener.local_addr().expect("an address");
        let chat = Self { sockets: at(&sockets), requests: at(&requests), log: log.clone(), _runtime: runtime };
        let of_requests = log.clone();
        chat._runtime.spawn(async move {
            while let Ok((stream, _)) = sockets.accept().await {
                tokio::spawn(talk(stream, log.clone()));
            }
        });
        chat._runtime.spawn(async move {
            while let Ok((stream, _)) = requests.accept().await {
                tokio::spawn(answer(stream, of_requests.clone()));
            }
        });
        chat
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn url(&self) -> String {
        format!("ws://{}/", self.sockets)
    }

    /// Tells whoever connects to send a sign of life so often.
    pub fn wants_beats(&self, ms: u64) {
        self.log().beat = Some(ms);
    }

    pub fn send(&self, frame: Value) {
        let current = self.log().current.clone();
        current.expect("somebody is connected").send(Some(frame.to_string())).expect("it reads");
    }

    pub fn message(&self, seq: u64, text: &str) {
        self.send(json!({ "op": "message", "id": format!("m{seq}"), "seq": seq, "text": text }));
    }

    /// So many messages are written, whoever is there to hear them.
    pub fn writes(&self, count: u64) {
        self.log().written = count;
    }

    /// Ends the connection without a word.
    pub fn cut(&self) {
        if let Some(current) = self.log().current.take() {
            // One that is gone is cut already.
            let _ = current.send(None);
        }
    }

    /// What was heard with this `op`.
    pub fn heard(&self, op: &str) -> Vec<Value> {
        self.log().frames.iter().filter(|frame| frame["op"] == op).cloned().collect()
    }

    /// All that was heard.
    pub fn frames(&self) -> Vec<Value> {
        self.log().frames.clone()
    }

    pub fn opened(&self) -> Vec<String> {
        self.log().opened.clone()
    }

    /// Requests, as their head and body.
    pub fn asked(&self) -> Vec<(String, String)> {
        self.log().asked.clone()
    }

    /// The next request is answered so.
    pub fn answers(&self, status: u16, more: &str) {
        self.log().answers.push_back((status, more.to_owned()));
    }

    /// The next delivery ends so.
    pub fn results(&self, result: Value) {
        self.log().results.push_back(result);
    }

    /// The texts that people got.
    pub fn delivered(&self) -> Vec<String> {
        self.heard("deliver").iter().map(|frame| frame["text"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

async fn talk(stream: TcpStream, log: Arc<Mutex<Log>>) {
    let (out, mut frames) = mpsc::unbounded_channel();
    let (seen, current) = (log.clone(), out.clone());
    #[allow(clippy::result_large_err, reason = "the library's own type")]
    let look = move |request: &Request, response: Response| {
        let token = request.headers().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut log = seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Together: who sees that it is open may send.
        log.opened.push(token.to_owned());
        log.current = Some(current.clone());
        Ok(response)
    };
    let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, look).await else { return };
    let (mut write, mut read) = socket.split();
    loop {
        tokio::select! {
            frame = frames.recv() => match frame.flatten() {
                Some(text) => if write.send(Message::text(text)).await.is_err() { return },
                None => return,
            },
            heard = read.next() => match heard {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(text.as_str()).expect("an adapter speaks JSON");
                    for answer in reaction(&log, frame) {
                        // To itself: it waits its turn behind what was sent before.
                        let _ = out.send(Some(answer.to_string()));
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}

fn reaction(log: &Mutex<Log>, frame: Value) -> Vec<Value> {
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = match frame["op"].as_str().unwrap_or_default() {
        "hello" => {
            let seen = frame["seq"].as_u64().unwrap_or(0);
            let message = |seq: u64| json!({ "op": "message", "id": format!("m{seq}"), "seq": seq, "text": "hello" });
            let ready = json!({ "op": "ready", "beat": log.beat });
            std::iter::once(ready).chain((seen + 1..=log.written).map(message)).collect()
        }
        "deliver" | "edit" => {
            let mut result = log.results.pop_front().unwrap_or_else(|| json!({ "message": "1" }));
            (result["op"], result["id"]) = (json!("result"), frame["id"].clone());
            vec![result]
        }
        // Also what adapters of other networks say, which have no `op`.
        _ => Vec::new(),
    };
    log.frames.push(frame);
    answer
}

/// One request after the other on a connection, as HTTP/1.1 has it.
async fn answer(stream: TcpStream, log: Arc<Mutex<Log>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let (status, more) = {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.asked.push((head, String::from_utf8_lossy(&body).into_owned()));
            log.answers.pop_front().unwrap_or((200, String::new()))
        };
        let (headers, body) = more.split_once("\n\n").unwrap_or(("", &more));
        let headers = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
        let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The channel `relay` of a configuration: the adapter of `tests/guests/relay` at this network, with grants that suffice.
pub fn relay(chat: &Chat, config: Value) -> Value {
    let mut own = json!({ "url": chat.url(), "label": "a" });
    own.as_object_mut().expect("an object").extend(config.as_object().expect("an object").clone());
    let hosts = json!([chat.sockets.to_string(), chat.requests.to_string()]);
    json!({
        "source": crate::path_of(&crate::guest("relay")), "config": own,
        "grants": {
            "hosts": hosts, "secrets": { "token": { "value": SECRET, "hosts": hosts } }, "rates": { "frames": 100_000 },
        },
    })
}

/// What nobody but the network may see.
pub const SECRET: &str = "tok\"en-4711/hush";

impl crate::TestHost {
    /// A gateway with the channel `relay`, once that is ready.
    pub fn with_relay(chat: &Chat, script: &str, config: Value) -> Self {
        let host = Self::scripted_with(script, |file| file["channels"]["relay"] = relay(chat, config));
        host.channel_is("relay", "ready");
        host
    }

    pub fn channel(&self, name: &str) -> Value {
        let list = self.call("channel.list", json!({})).expect("a list");
        let found = list["channels"].as_array().expect("channels").iter().find(|view| view["channel"] == name);
        found.cloned().unwrap_or_default()
    }

    /// Waits until a channel has this status.
    pub fn channel_is(&self, name: &str, status: &str) -> Value {
        let mut last = Value::Null;
        let found = self.eventually_or("a channel is as it should be", || {
            last = self.channel(name);
            (last["status"] == status).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("{name} is not {status}: {last:#}"))
    }

    fn eventually_or<T>(&self, _what: &str, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let until = Instant::now() + crate::PATIENCE;
        while Instant::now() < until {
            self.advance_in_step(Duration::from_millis(20));
            if let Some(found) = look() {
                return Some(found);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Loads the adapter again, with another configuration.
    pub fn swap_relay(&self, chat: &Chat, config: Value, fresh: bool) -> Result<Value, String> {
        let config = relay(chat, config)["config"].as_object().expect("an object").clone();
        let from = chela::plugins::From::Source(crate::path_of(&crate::guest("relay")));
        let slot = "channel:relay".parse().expect("a slot");
        let load = chela::plugins::Load { slot, from, config: Some(config), shadow_only: false, fresh };
        self.block_on(self.plugins().load(load)).map_err(|error| error.to_string())
    }
}
