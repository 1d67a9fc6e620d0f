//! A WebSocket client that says how it was refused.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub struct WebSocket(WebSocketStream<MaybeTlsStream<TcpStream>>, Option<String>);

/// The HTTP answer that came instead of a WebSocket.
#[derive(Debug)]
pub struct WsRefused {
    pub status: u16,
    pub body: String,
}

impl WebSocket {
    /// Asks for a WebSocket with these headers beside the usual ones.
    pub async fn connect(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Self, WsRefused> {
        let mut request = format!("ws://{address}{path}").into_client_request().expect("an address");
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a header's name");
            request.headers_mut().insert(name, HeaderValue::from_str(value).expect("a header's value"));
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((stream, _)) => Ok(Self(stream, None)),
            Err(Error::Http(answer)) => {
                let body = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
                Err(WsRefused { status: answer.status().as_u16(), body })
            }
            Err(error) => panic!("neither a WebSocket nor an HTTP answer: {error}"),
        }
    }

    pub async fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.expect("the other side reads");
    }

    /// Sends bytes as they are, as text where they are some; false once the other side has closed.
    pub async fn send_bytes(&mut self, bytes: Vec<u8>) -> bool {
        let message = match String::from_utf8(bytes) {
            Ok(text) => Message::text(text),
            Err(bytes) => Message::binary(bytes.into_bytes()),
        };
        self.0.send(message).await.is_ok()
    }

    /// Why the other side has closed, if it said so.
    pub fn closed(&self) -> Option<String> {
        self.1.clone()
    }

    /// The next frame as JSON; `None` once the other side has closed.
    pub async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(crate::PATIENCE, self.heard()).await.expect("a frame, or the end")
    }

    async fn heard(&mut self) -> Option<Value> {
        while let Some(message) = self.0.next().await {
            match message.expect("a whole frame") {
                Message::Text(text) => return Some(serde_json::from_str(&text).expect("a frame is JSON")),
                Message::Close(frame) => {
                    self.1 = frame.map(|frame| frame.reason.to_string());
                    return None;
                }
                _ => {}
            }
        }
        None
    }
}
