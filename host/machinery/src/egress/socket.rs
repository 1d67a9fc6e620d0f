//! WebSockets out of this machine, under the same checks as every request.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderMap;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tower::Service;

use super::fetch::{Pinned, checked};
use super::target::Target;
use super::{Error, Hosts, chain, secured};
use crate::tls::MaybeHttpsStream;

/// From the look-up of the name to an open socket.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// Held by each socket all the time: most are quiet.
const BUFFER_BYTES: usize = 8 * 1024;

pub type Socket = WebSocketStream<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>>;

/// Opens a socket where the list allows it; messages larger than `bytes_max` end it.
pub async fn connect(hosts: &Hosts, url: &str, headers: HeaderMap, bytes_max: usize) -> Result<Socket, Error> {
    let cannot = |said| Error::Url { url: String::new(), said };
    let as_web = match url.split_once("://") {
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(("ws", rest)) => format!("http://{rest}"),
        _ => return Err(cannot("a socket is at wss://HOST/PATH or ws://HOST/PATH")),
    };
    let target = Target::parse(&as_web).map_err(cannot)?;
    let unreachable = |said: String| Error::Unreachable { host: target.host_text(), said };
    let mut request = url.into_client_request().map_err(|_| cannot("it is no web address"))?;
    request.headers_mut().extend(headers);
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(Some(bytes_max))
        .max_frame_size(Some(bytes_max));
    let opening = async {
        let addresses = checked(hosts, &target).await?;
        let mut connector = secured(Pinned(Arc::from(addresses))).map_err(Error::Tls)?;
        let connected = connector.call(target.uri.clone()).await;
        let stream = connected.map_err(|error| unreachable(chain(&*error)))?;
        let opened = tokio_tungstenite::client_async_with_config(request, TokioIo::new(stream), Some(config)).await;
        opened.map(|(socket, _)| socket).map_err(|error| unreachable(chain(&error)))
    };
    // Real time: a peer that says nothing must not hold a place.
    let opened = tokio::time::timeout(OPEN_WITHIN, opening).await;
    opened.unwrap_or(Err(Error::Slow { ms: OPEN_WITHIN.as_millis() }))
}
