//! Requests as they come: read, answered, or turned into a WebSocket.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{Shared, gateway, rest};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
    pub json: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// An answer: status, headers beside the usual ones, body.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    fn bytes(&self) -> Vec<u8> {
        let body = if self.status == 204 { String::new() } else { self.body.to_string() };
        let mut head = format!("HTTP/1.1 {} Answer\r\ncontent-type: application/json\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.status != 204 {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

/// A body that is larger is not read.
const BODY_MAX: usize = 10 << 20;

/// Answers one request after the other until either side ends it, or becomes a connection of the gateway.
pub(super) async fn converse(stream: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream).await? {
        if let Some(key) = asked.header("sec-websocket-key") {
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {}\r\n\r\n",
                derive_accept_key(key.as_bytes())
            );
            stream.get_mut().write_all(head.as_bytes()).await?;
            let path = asked.path.clone();
            gateway::connection(stream.into_inner(), &path, shared).await;
            return Ok(());
        }
        let late = shared.state().faults.late;
        if !late.is_zero() && asked.path.ends_with("/callback") {
            tokio::time::sleep(late).await;
        }
        let (answer, loses) = {
            let mut state = shared.state();
            state.asked.push(asked.clone());
            let answer = rest::answer(&shared.setup, &mut state, &asked);
            let loses = state.faults.losing > 0;
            state.faults.losing -= usize::from(loses);
            (answer, loses)
        };
        let delay = shared.state().faults.delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if loses {
            return Ok(());
        }
        stream.get_mut().write_all(&answer.bytes()).await?;
        if asked.header("connection") == Some("close") {
            return Ok(());
        }
    }
    Ok(())
}

async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut bytes = vec![0; length.unwrap_or(0).min(BODY_MAX)];
    stream.read_exact(&mut bytes).await?;
    let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Ok(Some(Asked { method, path, headers, bytes, json }))
}
