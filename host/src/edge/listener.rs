//! Listens, and serves each connection within the limits, until told to stop.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::guard::Client;
use super::{Context, Error, Port, Routes};
use crate::config::Listen;
use crate::metrics;

/// The head of a request: line and headers together.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Connections over the limit that are told so at once; more are closed without a word.
const TURNED_AWAY_MAX: usize = 64;

/// A bound listener, not yet serving.
pub struct Listener {
    port: Port,
    socket: TcpListener,
    address: SocketAddr,
}

/// Binds one listener; `None` when it is off.
pub async fn bind(port: Port, listen: Listen) -> Result<Option<Listener>, Error> {
    let Listen::At(address) = listen else { return Ok(None) };
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AddrInUse => Error::PortInUse { port, address },
        _ => Error::Bind { port, address, source },
    };
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    Ok(Some(Listener { port, socket, address }))
}

impl Listener {
    pub fn port(&self) -> Port {
        self.port
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`; then lets requests under way finish, at most for the configured time.
    pub async fn serve(self, routes: &Routes, context: Context, stop: CancellationToken) {
        let router = routes.router(self.port, &context);
        let connections = TaskTracker::new();
        let abandon = CancellationToken::new();
        let turned_away = Arc::new(AtomicUsize::new(0));
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.socket.accept() => accepted,
            };
            let (stream, client) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: give others the time to close some.
                    tracing::warn!(%error, listener = self.port.as_str(), "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let limits = context.settings.current().config.limits.clone();
            if connections.len() >= limits.connections + turned_away.load(Ordering::Relaxed) {
                context.metrics.refused("connections");
                turn_away(stream, &connections, &turned_away);
                continue;
            }
            let gauge = context
                .metrics
                .connections
                .get_or_create_owned(&metrics::Listener { listener: metrics::Word(self.port.as_str()) });
            gauge.inc();
            // Answers are small and waited for: they must not wait for more to join them.
            let _ = stream.set_nodelay(true);
            let router = router.clone();
            let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
                request.extensions_mut().insert(Client(client));
                router.clone().oneshot(request.map(axum::body::Body::new))
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_millis(limits.head_timeout_ms))
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            let (stop, abandon) = (stop.clone(), abandon.clone());
            connections.spawn(async move {
                let mut connection = pin!(connection);
                let served = tokio::select! {
                    served = connection.as_mut() => served,
                    () = stop.cancelled() => {
                        connection.as_mut().graceful_shutdown();
                        abandon.run_until_cancelled(connection).await.unwrap_or(Ok(()))
                    }
                };
                if let Err(error) = served {
                    tracing::debug!(%error, %client, "a connection broke off");
                }
                gauge.dec();
            });
        }
        drop(self.socket);
        connections.close();
        let patience = Duration::from_millis(context.settings.current().config.limits.drain_timeout_ms);
        tokio::select! {
            () = connections.wait() => {}
            () = context.clock.sleep(patience) => {
                tracing::warn!(listener = self.port.as_str(), left = connections.len(), "requests were cut off by the stop");
            }
        }
        abandon.cancel();
        connections.wait().await;
    }
}

/// Tells a connection over the limit why it is closed.
fn turn_away(mut stream: TcpStream, connections: &TaskTracker, turned_away: &Arc<AtomicUsize>) {
    if turned_away.load(Ordering::Relaxed) >= TURNED_AWAY_MAX {
        return;
    }
    turned_away.fetch_add(1, Ordering::Relaxed);
    let turned_away = turned_away.clone();
    connections.spawn(async move {
        let told = async {
            stream.write_all(too_many_connections().as_bytes()).await?;
            stream.shutdown().await?;
            // Reading what the client still sends keeps the answer from being torn by a reset.
            let mut rest = [0u8; 4096];
            while stream.read(&mut rest).await? > 0 {}
            std::io::Result::Ok(())
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
        turned_away.fetch_sub(1, Ordering::Relaxed);
    });
}

fn too_many_connections() -> String {
    let message = "too many open connections; wait, or raise `limits.connections`";
    let body = serde_json::json!({ "error": { "code": "connections", "message": message } }).to_string();
    let head =
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: application/json";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
