//! One request under a list of hosts, with its redirects, within its limits.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::target::{Host, Target};
use super::{Hosts, address, chain, secured};
use crate::clock::Clock;

/// Fetches that are under way at once; more wait within their time.
const FETCHES_MAX: usize = 16;
pub(super) const REDIRECTS_MAX: usize = 5;
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// Of an answer's head.
pub(super) const HEADERS_MAX: usize = 100;
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// What another door may be told of what was meant for the first: nothing that may be a credential.
const HARMLESS: [HeaderName; 4] = [header::ACCEPT, header::ACCEPT_LANGUAGE, header::CONTENT_TYPE, header::USER_AGENT];

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("{url:?} cannot be fetched: {said}")]
    Url { url: String, said: &'static str },
    #[error("{host} is not among the hosts that may be reached; an operator can add {host:?} to `{place}`")]
    NotListed { host: String, place: &'static str },
    #[error(
        "{host} is at {address}, which is {what}; such an address is reached only if `{place}` names it itself, as {named:?}"
    )]
    Inner { host: String, address: String, what: &'static str, place: &'static str, named: String },
    #[error("{host} has no address ({said}); check its name")]
    Unknown { host: String, said: String },
    #[error("{host} cannot be reached: {said}")]
    Unreachable { host: String, said: String },
    #[error("the answer of {host} broke off: {said}")]
    Broken { host: String, said: String },
    #[error("it leads on more than {REDIRECTS_MAX} times; fetch the last address itself")]
    Redirects,
    #[error("{host} leads on to {location:?}, which cannot be fetched: {said}")]
    Location { host: String, location: String, said: String },
    #[error("it took longer than {ms} ms")]
    Slow { ms: u128 },
    #[error("the gateway is stopping")]
    Stopping,
    #[error("{0}")]
    Tls(String),
}

impl Error {
    /// Whether it was not even tried, since it may not be.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Url { .. } | Self::NotListed { .. } | Self::Inner { .. } | Self::Location { .. })
    }

    /// Whether the request may have reached somebody, so that what it asks for may have been done.
    pub fn may_be_done(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Slow { .. } | Self::Redirects | Self::Location { .. })
    }
}

/// What is to be fetched.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub url: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub time: Duration,
    pub bytes: usize,
}

/// What came back.
#[derive(Debug)]
pub struct Fetched {
    /// The last address, after redirects.
    pub url: String,
    pub status: u16,
    pub content_type: Option<String>,
    pub is_encoded: bool,
    /// As its sender says.
    pub length: Option<u64>,
    pub body: Bytes,
    pub truncated: bool,
}

/// The way out; one for all who fetch.
pub struct Gate {
    clock: Clock,
    places: Semaphore,
}

impl Gate {
    pub fn new(clock: Clock) -> Self {
        Self { clock, places: Semaphore::new(FETCHES_MAX) }
    }

    /// Fetches, going only where the list allows.
    pub async fn fetch(&self, hosts: &Hosts, limits: Limits, asked: Asked) -> Result<Fetched, Error> {
        let fetching = async {
            let _place = self.places.acquire().await.map_err(|_| Error::Stopping)?;
            fetch(hosts, limits.bytes, asked).await
        };
        tokio::select! {
            fetched = fetching => fetched,
            () = self.clock.sleep(limits.time) => Err(Error::Slow { ms: limits.time.as_millis() }),
        }
    }
}

async fn fetch(hosts: &Hosts, bytes_max: usize, mut asked: Asked) -> Result<Fetched, Error> {
    let cannot = |said| Error::Url { url: asked.url.chars().take(200).collect(), said };
    let mut target = Target::parse(&asked.url).map_err(cannot)?;
    for _ in 0..=REDIRECTS_MAX {
        let addresses = checked(hosts, &target).await?;
        let response = send(&target, addresses, &asked).await?;
        let Some(location) = location_of(&response) else { return read(&target, response, bytes_max).await };
        let location: String = location.chars().take(2_000).collect();
        let next = target.follow(&location).map_err(|said| Error::Location {
            host: target.host_text(),
            location: location.clone(),
            said: said.to_owned(),
        })?;
        change_for(&mut asked, response.status());
        if !next.is_same_door(&target) {
            asked.headers = only_harmless(&asked.headers);
        }
        target = next;
    }
    Err(Error::Redirects)
}

/// The addresses of a target, each of them one that may be reached.
pub(super) async fn checked(hosts: &Hosts, target: &Target) -> Result<Vec<SocketAddr>, Error> {
    let host = target.host_text();
    if !hosts.has(target) {
        return Err(hosts.unlisted(target));
    }
    let found: Vec<SocketAddr> = match &target.host {
        Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
        Host::Name(name) => {
            let unknown = |said: String| Error::Unknown { host: host.clone(), said };
            hosts.look_up(name, target.port).await.map_err(|error| unknown(error.to_string()))?
        }
    };
    for at in &found {
        if let Some(what) = address::inner(at.ip())
            && !hosts.names(at.ip(), target)
        {
            let (address, named) = (at.ip().to_string(), at.to_string());
            return Err(Error::Inner { host, address, what, place: hosts.place(), named });
        }
    }
    match found.is_empty() {
        true => Err(Error::Unknown { host, said: "none was found".into() }),
        false => Ok(found.into_iter().take(ADDRESSES_MAX).collect()),
    }
}

async fn send(target: &Target, addresses: Vec<SocketAddr>, asked: &Asked) -> Result<Response<Incoming>, Error> {
    let connector = secured(Pinned(addresses.into())).map_err(Error::Tls)?;
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .http1_max_headers(HEADERS_MAX)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .build(connector);
    let unreachable = |said: String| Error::Unreachable { host: target.host_text(), said };
    let mut request = hyper::Request::builder().method(asked.method.clone()).uri(target.uri.clone());
    if let Some(headers) = request.headers_mut() {
        headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("chela/", env!("CARGO_PKG_VERSION"))));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.extend(asked.headers.clone());
    }
    let request = request.body(Full::new(asked.body.clone())).map_err(|error| unreachable(error.to_string()))?;
    client.request(request).await.map_err(|error| unreachable(chain(&error)))
}

pub(super) fn location_of(response: &Response<Incoming>) -> Option<String> {
    let leads_on = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get(header::LOCATION).filter(|_| leads_on)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// After a redirect a body is sent again only where the status says so.
pub(super) fn change_for(asked: &mut Asked, status: StatusCode) {
    let keeps = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if !keeps && asked.method != Method::HEAD {
        asked.method = Method::GET;
        asked.body = Bytes::new();
        asked.headers.remove(header::CONTENT_TYPE);
    }
}

pub(super) fn only_harmless(headers: &HeaderMap) -> HeaderMap {
    headers
        .iter()
        .filter(|(name, _)| HARMLESS.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

async fn read(target: &Target, response: Response<Incoming>, bytes_max: usize) -> Result<Fetched, Error> {
    let (head, mut body) = response.into_parts();
    let text = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut fetched = Fetched {
        url: target.uri.to_string(),
        status: head.status.as_u16(),
        content_type: text(header::CONTENT_TYPE),
        is_encoded: text(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity"),
        length: text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
        body: Bytes::new(),
        truncated: false,
    };
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::Broken { host: target.host_text(), said: chain(&error) })?;
        let Ok(data) = frame.into_data() else { continue };
        let room = bytes_max - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            fetched.truncated = true;
            break;
        }
    }
    fetched.body = bytes.into();
    Ok(fetched)
}

/// Connects to addresses that were checked before, whatever the name may mean by now.
#[derive(Clone)]
pub(super) struct Pinned(pub(super) Arc<[SocketAddr]>);

impl tower::Service<Uri> for Pinned {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let addresses = self.0.clone();
        Box::pin(async move { connect_to(&addresses).await })
    }
}

/// Connects to the first of some checked addresses that answers.
pub(super) async fn connect_to(addresses: &[SocketAddr]) -> io::Result<TokioIo<TcpStream>> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(TokioIo::new(stream));
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::from(io::ErrorKind::TimedOut),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_keeps_a_body_only_where_its_status_says_so() {
        let check = |method: Method, status: u16, expected: (Method, &str)| {
            let mut asked =
                Asked { method, url: String::new(), headers: HeaderMap::new(), body: Bytes::from_static(b"body") };
            change_for(&mut asked, StatusCode::from_u16(status).expect("a status"));
            assert_eq!((asked.method, &*asked.body), (expected.0, expected.1.as_bytes()), "{status}");
        };
        check(Method::POST, 301, (Method::GET, ""));
        check(Method::POST, 302, (Method::GET, ""));
        check(Method::POST, 303, (Method::GET, ""));
        check(Method::POST, 307, (Method::POST, "body"));
        check(Method::POST, 308, (Method::POST, "body"));
        check(Method::HEAD, 302, (Method::HEAD, "body"));
    }

    #[test]
    fn another_door_hears_no_credential() {
        let names = ["accept", "authorization", "cookie", "x-api-key", "content-type", "x-anything"];
        let all: HeaderMap =
            names.iter().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("v"))).collect();
        let kept = only_harmless(&all);
        let kept: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        assert_eq!(kept, ["accept", "content-type"]);
    }
}
