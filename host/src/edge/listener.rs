//! Listens, and serves each connection within the limits, until told to stop.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::guard::Client;
use super::{Context, Error, Routes};
use crate::config::Listen;
use crate::metrics::{self, Gauge, Metrics, Word};
use crate::port::Port;
use crate::settings::Settings;
use crate::tls::{Identity, Wire};

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
        _ => Error::Bind { port, address, cause: source },
    };
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    Ok(Some(Listener { port, socket, address }))
}

/// How many connections each of so many listeners may hold, when the process may open so many files.
pub fn connections_share(open_max: Option<u64>, listeners: usize) -> usize {
    // For logs and files of our own, and for those who are told that there is no room.
    let reserved = 128 + listeners * TURNED_AWAY_MAX;
    let open_max = open_max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    (open_max.saturating_sub(reserved) / listeners.max(1)).max(1)
}

impl Listener {
    pub fn port(&self) -> Port {
        self.port
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`; then lets requests under way finish, at most for the configured time. `share` is how many
    /// connections the process has descriptors for here, whatever the configuration allows.
    pub async fn serve(self, routes: &Routes, context: Context, share: usize, stop: CancellationToken) {
        let server = Server {
            port: self.port,
            router: routes.router(self.port, &context),
            context,
            share,
            stop,
            cut_off: CancellationToken::new(),
            held: TaskTracker::new(),
            turned_away: TaskTracker::new(),
        };
        let mut refused = false;
        while let Some(accepted) = server.stop.run_until_cancelled(self.socket.accept()).await {
            match accepted {
                Ok((stream, client)) => {
                    if std::mem::take(&mut refused) {
                        tracing::info!(listener = self.port.as_str(), "connections are accepted again");
                    }
                    server.take(stream, client);
                }
                Err(error) => {
                    // Out of descriptors, most likely: give others the time to close some. Said once, since it may last.
                    if !std::mem::replace(&mut refused, true) {
                        tracing::warn!(%error, listener = self.port.as_str(), "cannot accept a connection; those that come wait");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.socket);
        server.drain().await;
    }
}

struct Server {
    port: Port,
    router: Router,
    context: Context,
    share: usize,
    stop: CancellationToken,
    /// Ends what a stop has waited for long enough.
    cut_off: CancellationToken,
    held: TaskTracker,
    turned_away: TaskTracker,
}

impl Server {
    fn take(&self, stream: TcpStream, client: SocketAddr) {
        let settings = self.context.settings.current();
        let limits = &settings.config.limits;
        if self.held.len() < limits.connections.min(self.share) {
            self.held.spawn(self.hold(stream, client, &settings));
            return;
        }
        self.context.metrics.refused("connections");
        if self.turned_away.len() < TURNED_AWAY_MAX {
            let encrypted = settings.identity_of(self.port).is_some();
            // Without a greeting nothing can be said over TLS, and greeting costs more than a refusal may.
            self.turned_away.spawn(async move {
                if !encrypted {
                    turn_away(stream, &too_many_connections()).await;
                }
            });
        }
    }

    /// One connection, to its end.
    fn hold(&self, stream: TcpStream, client: SocketAddr, settings: &Settings) -> impl Future<Output = ()> + use<> {
        let counted = Counted::new(&self.context.metrics, self.port);
        // Answers are small and waited for: they must not wait for more to join them.
        let _ = stream.set_nodelay(true);
        let limits = &settings.config.limits;
        let head_timeout = Duration::from_millis(limits.head_timeout_ms);
        let write_timeout = Duration::from_millis(limits.write_timeout_ms);
        let identity = settings.identity_of(self.port).cloned();
        let (router, port) = (self.router.clone(), self.port);
        let (stop, cut_off) = (self.stop.clone(), self.cut_off.clone());
        async move {
            let _counted = counted;
            let greeting = greeted(stream, identity.as_ref(), head_timeout, write_timeout);
            let stream = match stop.run_until_cancelled(greeting).await {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => return tracing::debug!(%error, %client, "a connection was not opened"),
                None => return,
            };
            let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
                request.extensions_mut().insert(Client(client));
                if port == Port::Hub {
                    alias(&mut request);
                }
                router.clone().oneshot(request.map(axum::body::Body::new))
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(head_timeout)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            let mut connection = pin!(connection);
            let served = tokio::select! {
                served = connection.as_mut() => served,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    cut_off.run_until_cancelled(connection).await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, %client, "a connection broke off");
            }
        }
    }

    async fn drain(self) {
        self.held.close();
        self.turned_away.close();
        let patience = Duration::from_millis(self.context.settings.current().config.limits.drain_timeout_ms);
        tokio::select! {
            () = self.held.wait() => {}
            () = self.context.clock.sleep(patience) => {
                tracing::warn!(listener = self.port.as_str(), left = self.held.len(), "requests were cut off by the stop");
            }
        }
        self.cut_off.cancel();
        self.held.wait().await;
        self.turned_away.wait().await;
    }
}

/// A connection that lets go of a client that does not read.
type Timed = Pin<Box<TimeoutStream<TcpStream>>>;

/// Encrypts a connection where that is asked for. Who speaks plainly to an encrypted listener is told so.
async fn greeted(
    stream: TcpStream,
    identity: Option<&Identity>,
    patience: Duration,
    write_timeout: Duration,
) -> std::io::Result<Wire<Timed>> {
    let timed = |stream| {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(write_timeout));
        Box::pin(stream)
    };
    let Some(identity) = identity else { return Ok(Wire::Plain(timed(stream))) };
    let mut first = [0];
    let peeked = tokio::time::timeout(patience, stream.peek(&mut first)).await;
    peeked.map_err(|_| std::io::ErrorKind::TimedOut)??;
    // The first byte of TLS is no letter; that of a request is.
    if first[0].is_ascii_alphabetic() {
        turn_away(stream, &speak_tls()).await;
        return Err(std::io::Error::other("it speaks plainly where TLS is spoken"));
    }
    identity.accept(timed(stream), patience).await
}

/// `/api/proxy/…` of the old hub is `/api/…`.
fn alias<B>(request: &mut hyper::Request<B>) {
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    let own = path.strip_prefix("/api/proxy/").and_then(|rest| format!("/api/{rest}").parse().ok());
    if let Some(own) = own {
        *request.uri_mut() = own;
    }
}

/// Counts a connection as open for as long as it lives, however it ends.
struct Counted(Gauge);

impl Counted {
    fn new(metrics: &Metrics, port: Port) -> Self {
        let listener = metrics::Listener { listener: Word(port.as_str()) };
        let gauge = metrics.connections.get_or_create_owned(&listener);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Tells a connection why it is closed.
async fn turn_away(mut stream: TcpStream, answer: &str) {
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Reading what the client still sends keeps the answer from being torn by a reset.
        let mut rest = [0u8; 4096];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whether it was heard or not, the connection is closed.
    let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
}

fn too_many_connections() -> String {
    let message = "too many open connections; wait, or raise `limits.connections`";
    bare_answer("503 Service Unavailable\r\nRetry-After: 1", "connections", message)
}

fn speak_tls() -> String {
    bare_answer("400 Bad Request", "tls", "this listener speaks TLS; ask with https:// or wss://")
}

/// An answer from before there is a request.
fn bare_answer(status: &str, code: &str, message: &str) -> String {
    let body = serde_json::json!({ "error": { "code": code, "message": message } }).to_string();
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json");
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
