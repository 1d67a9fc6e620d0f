//! Speaks to a serving gateway, for the command line and the tests.
//! Keeps true: every call ends in bounded time and memory. Never: puts a token into a URL or an error.

mod socket;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::edge::{ErrorShape, Request, Response};
use crate::tls::{Pinned, Wire};

pub use socket::{Frame, Socket};

const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(10);
/// A line of the log has at most a megabyte, and is told with what the index knows of it.
const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A gateway gives a sign of life twice a minute.
const SILENCE_MAX: Duration = Duration::from_secs(90);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no gateway answers at {address}")]
    Unreachable { address: SocketAddr, source: std::io::Error },
    #[error("the gateway at {address} did not answer within {} s", patience.as_secs())]
    TooSlow { address: SocketAddr, patience: Duration },
    #[error("the connection to {address} broke off")]
    Broken { address: SocketAddr, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the gateway refused the token of this state directory; restart the gateway, or check --state-dir")]
    Unauthorised,
    #[error("what answers at {address} is not a gateway")]
    NotAGateway { address: SocketAddr },
    /// At the door, before any method.
    #[error("the gateway at {address} refused: {message}")]
    TurnedAway { address: SocketAddr, code: String, message: String },
    #[error("{}", .0.message)]
    Refused(ErrorShape),
    /// By a path that answers with JSON.
    #[error("{message}")]
    Declined { status: u16, code: String, message: String, field: Option<String> },
}

/// An answer over HTTP, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: header::HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON; `Null` when it is not.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    token: Option<String>,
    patience: Duration,
    secured: Option<Pinned>,
}

impl Client {
    pub fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token, patience: PATIENCE, secured: None }
    }

    /// Over TLS, and only to who shows the certificate that is pinned; plainly without one.
    pub fn over(mut self, secured: Option<Pinned>) -> Self {
        self.secured = secured;
        self
    }

    /// For requests that take their time, such as compiling a component.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Calls a method of the gateway.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, Error> {
        let frame = Request::new(method, params);
        let body = serde_json::to_vec(&frame).expect("a frame is plain JSON");
        let answer = self.send(Method::POST, "/rpc", &[], body).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            return Err(Error::Unauthorised);
        }
        let response: Response = serde_json::from_slice(&answer.body).map_err(|_| self.not_a_frame(&answer))?;
        match response.error {
            Some(error) => Err(Error::Refused(error)),
            None => Ok(response.payload.unwrap_or(Value::Null)),
        }
    }

    /// Sends a file to a path that answers with JSON.
    pub async fn upload(&self, path: &str, body: Vec<u8>) -> Result<Value, Error> {
        let kind = [("content-type", "application/octet-stream")];
        let answer = self.send(Method::POST, path, &kind, body).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            return Err(Error::Unauthorised);
        }
        let document = answer.json();
        match serde_json::from_value(document["error"].clone()) {
            Ok(error) => Err(Error::Refused(error)),
            Err(_) if answer.status == StatusCode::OK => Ok(document),
            Err(_) => Err(self.not_a_frame(&answer)),
        }
    }

    /// Asks a path below `/api`.
    pub async fn api(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let headers: &[(&str, &str)] = if body.is_some() { &[("content-type", "application/json")] } else { &[] };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let answer = self.send(method, path, headers, body).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            return Err(Error::Unauthorised);
        }
        let document: Value =
            serde_json::from_slice(&answer.body).map_err(|_| Error::NotAGateway { address: self.address })?;
        let text = |field: &str| document["error"][field].as_str().map(str::to_owned);
        match (text("code"), text("message")) {
            (Some(code), Some(message)) => {
                Err(Error::Declined { status: answer.status, code, message, field: text("field") })
            }
            _ if answer.status == StatusCode::OK => Ok(document),
            _ => Err(Error::NotAGateway { address: self.address }),
        }
    }

    /// Calls a tool; what the tool itself refuses is an answer.
    pub async fn invoke_tool(&self, body: &Value) -> Result<Value, Error> {
        let kind = [("content-type", "application/json")];
        let answer = self.send(Method::POST, "/tools/invoke", &kind, body.to_string().into_bytes()).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            return Err(Error::Unauthorised);
        }
        let document = answer.json();
        let text = |field: &str| document["error"][field].as_str().map(str::to_owned);
        match (&document["result"]["details"], text("type").or(text("code")), text("message")) {
            (details @ Value::Object(_), _, _) => Ok(details.clone()),
            (_, Some(code), Some(message)) => {
                Err(Error::Declined { status: answer.status, code, message, field: None })
            }
            _ => Err(Error::NotAGateway { address: self.address }),
        }
    }

    /// Follows the event log from after `since`, or from now on.
    pub async fn follow(&self, since: Option<i64>) -> Result<Following, Error> {
        let (address, patience) = (self.address, self.patience);
        let connecting = self.connect(since);
        tokio::time::timeout(patience, connecting).await.map_err(|_| Error::TooSlow { address, patience })?
    }

    async fn connect(&self, since: Option<i64>) -> Result<Following, Error> {
        let address = self.address;
        let query = since.map(|since| format!("?since={since}")).unwrap_or_default();
        let broken = |source: tungstenite::Error| Error::Broken { address, source: source.into() };
        let mut request = format!("ws://{address}/ws{query}").into_client_request().map_err(broken)?;
        if let Some(token) = &self.token {
            let value = header::HeaderValue::from_str(&format!("Bearer {token}"));
            let value = value.map_err(|error| Error::Broken { address, source: error.into() })?;
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        let stream = self.wire().await?;
        let limits = WebSocketConfig::default().max_message_size(Some(EVENT_BYTES_MAX));
        match tokio_tungstenite::client_async_with_config(request, stream, Some(limits)).await {
            Ok((socket, _)) => Ok(Following { socket, address }),
            Err(tungstenite::Error::Http(answer)) if answer.status() == StatusCode::UNAUTHORIZED => {
                Err(Error::Unauthorised)
            }
            Err(tungstenite::Error::Http(_)) => Err(Error::NotAGateway { address }),
            Err(error) => Err(broken(error)),
        }
    }

    /// A connection on which nothing has been said yet.
    async fn wire(&self) -> Result<Wire<TcpStream>, Error> {
        let address = self.address;
        let unreachable = |source| Error::Unreachable { address, source };
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        // Requests are small and waited for: they must not wait for more to join them.
        let _ = stream.set_nodelay(true);
        match &self.secured {
            Some(pinned) => pinned.connect(stream).await.map_err(unreachable),
            None => Ok(Wire::Plain(stream)),
        }
    }

    fn not_a_frame(&self, answer: &Answer) -> Error {
        let error = &answer.json()["error"];
        match (error["code"].as_str(), error["message"].as_str()) {
            (Some(code), Some(message)) => {
                Error::TurnedAway { address: self.address, code: code.into(), message: message.into() }
            }
            _ => Error::NotAGateway { address: self.address },
        }
    }

    pub async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.send(Method::GET, path, &[], Vec::new()).await
    }

    /// One request on a connection of its own; `headers` win over the ones that are always sent.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, Error> {
        let exchange = self.exchange(method, path, headers, body);
        let (address, patience) = (self.address, self.patience);
        tokio::time::timeout(patience, exchange).await.map_err(|_| Error::TooSlow { address, patience })?
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, Error> {
        let address = self.address;
        let broken = |source: Box<dyn std::error::Error + Send + Sync>| Error::Broken { address, source };
        let mut request = hyper::Request::builder().method(method).uri(path);
        let given = |name: &str| headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
        if !given("host") {
            request = request.header(header::HOST, address.to_string());
        }
        if let Some(token) = self.token.as_deref().filter(|_| !given("authorization")) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| broken(error.into()))?;

        let stream = self.wire().await?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| broken(error.into()))?;
        let exchange = async {
            let response = sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
            // Without its sender the connection below comes to its end.
            drop(sender);
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
        };
        let (answer, _) = tokio::join!(exchange, connection);
        answer.map_err(broken)
    }
}

/// Somebody who is told of events as they come.
pub struct Following {
    socket: WebSocketStream<Wire<TcpStream>>,
    address: SocketAddr,
}

/// What a follower hears.
pub enum Heard {
    /// `{type, agentId?, taskId?, timestamp, seq, data}`.
    Envelope(Value),
    /// The other side has let go, with its reason.
    End(String),
}

impl Following {
    pub async fn next(&mut self) -> Result<Heard, Error> {
        let address = self.address;
        loop {
            let heard = tokio::time::timeout(SILENCE_MAX, self.socket.next()).await;
            match heard.map_err(|_| Error::TooSlow { address, patience: SILENCE_MAX })? {
                Some(Ok(Message::Text(text))) => {
                    let envelope = serde_json::from_str(&text).map_err(|_| Error::NotAGateway { address })?;
                    return Ok(Heard::Envelope(envelope));
                }
                Some(Ok(Message::Close(close))) => {
                    let reason = close.map(|close| close.reason.to_string()).filter(|reason| !reason.is_empty());
                    return Ok(Heard::End(reason.unwrap_or_else(|| "the gateway closed the connection".into())));
                }
                // Signs of life are answered by the socket itself.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(Error::Broken { address, source: error.into() }),
                None => return Ok(Heard::End("the connection ended without a word".into())),
            }
        }
    }
}
