//! What the networks of the tests are made of: a port of their own, requests read whole, answers, and WebSockets.
//! Keeps true: a network that is dropped has left no thread and no open port behind.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

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

    /// The fields of a body that is a form.
    pub fn form(&self) -> Vec<(String, String)> {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// An answer: status, headers beside the usual ones, body.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Value,
}

impl Answer {
    pub fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
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

/// What a network does with what comes.
pub trait Network: Send + Sync + 'static {
    /// The answer to a request; none to break the connection instead.
    fn answer(self: Arc<Self>, asked: Asked) -> impl Future<Output = Option<Answer>> + Send;

    /// A WebSocket at a path, until it ends.
    fn talk(self: Arc<Self>, socket: WebSocketStream<TcpStream>, path: String) -> impl Future<Output = ()> + Send {
        let _ = (socket, path);
        async {}
    }
}

/// A network that serves on a free port until it is dropped.
pub struct Serving {
    pub address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub fn start<N: Network>(make: impl FnOnce(SocketAddr) -> N) -> (Self, Arc<N>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket of tokio");
        let address = listener.local_addr().expect("an address");
        let (network, stop) = (Arc::new(make(address)), Arc::new(Notify::new()));
        let (served, stopped) = (network.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serve(listener, served, stopped));
        });
        (Self { address, stop, thread: Some(thread) }, network)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve<N: Network>(listener: std::net::TcpListener, network: Arc<N>, stop: Arc<Notify>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    let mut talks = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            () = stop.notified() => break,
            Ok((stream, _)) = listener.accept() => {
                let network = network.clone();
                talks.spawn(async move {
                    // A client that goes away in the midst is part of the tests.
                    let _ = converse(stream, network).await;
                });
            }
            Some(_) = talks.join_next() => {}
        }
    }
    talks.shutdown().await;
}

/// Answers one request after the other until either side ends it, or becomes a WebSocket.
async fn converse<N: Network>(stream: TcpStream, network: Arc<N>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream).await? {
        if let Some(key) = asked.header("sec-websocket-key") {
            stream.get_mut().write_all(upgraded(key).as_bytes()).await?;
            let socket = WebSocketStream::from_raw_socket(stream.into_inner(), Role::Server, None).await;
            network.talk(socket, asked.path).await;
            return Ok(());
        }
        let closes = asked.header("connection") == Some("close");
        let Some(answer) = network.clone().answer(asked).await else { return Ok(()) };
        stream.get_mut().write_all(&answer.bytes()).await?;
        if closes {
            return Ok(());
        }
    }
    Ok(())
}

/// The head that turns a connection into a WebSocket.
pub(crate) fn upgraded(key: &str) -> String {
    let accept = derive_accept_key(key.as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
    )
}

/// A body that is larger is not read.
const BODY_MAX: usize = 10 << 20;

pub(crate) async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
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
