//! A connection of the gateway protocol: requests with their answers, and events as they come.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::{Client, Error, SILENCE_MAX};
use crate::edge::{ErrorShape, Request, Response};
use crate::tls::Wire;

/// The largest frame that a gateway sends.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Frames that may come while an answer is waited for.
const HELD_MAX: usize = 65_536;

pub struct Socket {
    stream: WebSocketStream<Wire<TcpStream>>,
    address: SocketAddr,
    patience: Duration,
    asked: u64,
    held: VecDeque<Frame>,
    pub hello: Value,
}

/// What a gateway sends.
#[derive(Clone, Debug)]
pub enum Frame {
    Told {
        name: String,
        payload: Value,
        seq: Option<u64>,
    },
    Answer {
        id: String,
        outcome: Result<Value, ErrorShape>,
    },
    /// The other side has let go, with its reason.
    End {
        code: Option<u16>,
        reason: String,
    },
}

impl Client {
    /// Connects by the protocol, with all that the token holds.
    pub async fn open(&self) -> Result<Socket, Error> {
        let (address, patience) = (self.address, self.patience);
        let opening = async {
            let mut socket = self.dial().await?;
            socket.await_challenge().await?;
            let client = json!({
                "id": "chela", "version": env!("CARGO_PKG_VERSION"), "platform": std::env::consts::OS, "mode": "cli",
            });
            let params = json!({
                "minProtocol": 4, "maxProtocol": 4, "client": client, "caps": ["tool-events"],
                "auth": { "token": self.token },
            });
            socket.hello = socket.request("connect", params).await?;
            Ok(socket)
        };
        tokio::time::timeout(patience, opening).await.map_err(|_| Error::TooSlow { address, patience })?
    }

    /// A WebSocket on which nothing has been said yet.
    pub async fn dial(&self) -> Result<Socket, Error> {
        let address = self.address;
        let broken = |source: tokio_tungstenite::tungstenite::Error| Error::Broken { address, source: source.into() };
        let request = format!("ws://{address}/").into_client_request().map_err(broken)?;
        let stream = self.wire().await?;
        let limits =
            WebSocketConfig::default().max_message_size(Some(FRAME_BYTES_MAX)).max_frame_size(Some(FRAME_BYTES_MAX));
        let (stream, _) =
            tokio_tungstenite::client_async_with_config(request, stream, Some(limits)).await.map_err(broken)?;
        Ok(Socket { stream, address, patience: self.patience, asked: 0, held: VecDeque::new(), hello: Value::Null })
    }
}

impl Socket {
    async fn await_challenge(&mut self) -> Result<(), Error> {
        match self.receive().await? {
            Frame::Told { name, .. } if name == "connect.challenge" => Ok(()),
            _ => Err(Error::NotAGateway { address: self.address }),
        }
    }

    /// Sends a request; its answer comes by [`Socket::answer`].
    pub async fn send(&mut self, method: &str, params: Value) -> Result<String, Error> {
        self.asked += 1;
        let id = self.asked.to_string();
        let frame = Request::new(method, params).with_id(&id);
        self.send_text(serde_json::to_string(&frame).expect("a frame is plain JSON")).await?;
        Ok(id)
    }

    pub async fn send_text(&mut self, text: String) -> Result<(), Error> {
        let address = self.address;
        self.stream.send(Message::text(text)).await.map_err(|error| Error::Broken { address, source: error.into() })
    }

    /// Sends a request and waits for its answer; events that come meanwhile are kept.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        let id = self.send(method, params).await?;
        let (address, patience) = (self.address, self.patience);
        let answer = self.answer(&id);
        tokio::time::timeout(patience, answer).await.map_err(|_| Error::TooSlow { address, patience })?
    }

    /// Waits for the next answer to a request, as long as the gateway gives signs of life.
    pub async fn answer(&mut self, id: &str) -> Result<Value, Error> {
        let held = self.held.iter().position(|frame| matches!(frame, Frame::Answer { id: of, .. } if of == id));
        let mut next = held.and_then(|at| self.held.remove(at));
        loop {
            let frame = match next.take() {
                Some(frame) => frame,
                None => self.receive().await?,
            };
            match frame {
                Frame::Answer { id: of, outcome } if of == id => return outcome.map_err(Error::Refused),
                Frame::End { reason, .. } => {
                    return Err(Error::Broken { address: self.address, source: reason.into() });
                }
                other if self.held.len() < HELD_MAX => self.held.push_back(other),
                _ => return Err(Error::Broken { address: self.address, source: "too much came meanwhile".into() }),
            }
        }
    }

    /// The next frame: one that was kept, or one that comes.
    pub async fn next(&mut self) -> Result<Frame, Error> {
        match self.held.pop_front() {
            Some(frame) => Ok(frame),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Result<Frame, Error> {
        let address = self.address;
        let strange = || Error::NotAGateway { address };
        loop {
            let heard = tokio::time::timeout(SILENCE_MAX, self.stream.next()).await;
            let text = match heard.map_err(|_| Error::TooSlow { address, patience: SILENCE_MAX })? {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(close))) => {
                    let (code, reason) = close
                        .map_or((None, String::new()), |close| (Some(close.code.into()), close.reason.to_string()));
                    return Ok(Frame::End { code, reason });
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(Error::Broken { address, source: error.into() }),
                None => return Ok(Frame::End { code: None, reason: "the connection ended without a word".into() }),
            };
            let value: Value = serde_json::from_str(&text).map_err(|_| strange())?;
            if value["type"] == "event" {
                let name = value["event"].as_str().ok_or_else(strange)?.to_owned();
                return Ok(Frame::Told { name, payload: value["payload"].clone(), seq: value["seq"].as_u64() });
            }
            let response: Response = serde_json::from_value(value).map_err(|_| strange())?;
            let outcome = match response.error {
                Some(error) => Err(error),
                None => Ok(response.payload.unwrap_or(Value::Null)),
            };
            return Ok(Frame::Answer { id: response.id.unwrap_or_default(), outcome });
        }
    }

    /// The WebSocket itself, for those who count frames rather than read them.
    pub fn into_stream(self) -> WebSocketStream<Wire<TcpStream>> {
        self.stream
    }

    /// Says goodbye.
    pub async fn close(mut self) {
        // Gone already is as good.
        let _ = self.stream.close(None).await;
    }
}
