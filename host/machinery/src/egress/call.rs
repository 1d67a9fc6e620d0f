//! Requests of one caller under one list of hosts, over connections that are kept for the next. Each new connection is checked.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::fetch::{
    HEAD_BYTES_MAX, HEADERS_MAX, REDIRECTS_MAX, change_for, checked, connect_to, location_of, only_harmless,
};
use super::target::Target;
use super::{Asked, Error, Hosts, Limits, Secured, chain, secured};
use crate::clock::Clock;

/// Connections to one host that are kept open, and for how long.
const IDLE_MAX: usize = 4;
const IDLE_FOR: Duration = Duration::from_secs(30);

/// What came back.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// One who makes many requests under one list.
#[derive(Clone)]
pub struct Caller {
    clock: Clock,
    hosts: Arc<Hosts>,
    client: Client<Secured<Guarded>, Full<Bytes>>,
}

impl Caller {
    pub fn new(clock: Clock, hosts: Arc<Hosts>) -> Result<Self, Error> {
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(IDLE_MAX)
            .pool_idle_timeout(IDLE_FOR)
            .http1_max_headers(HEADERS_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(secured(Guarded(hosts.clone())).map_err(Error::Tls)?);
        Ok(Self { clock, hosts, client })
    }

    /// Makes a request. One that is `bound` is led to no other host: it carries what only its own may know.
    pub async fn request(&self, asked: Asked, limits: Limits, bound: bool) -> Result<Answered, Error> {
        tokio::select! {
            answered = self.follow(asked, limits.bytes, bound) => answered,
            () = self.clock.sleep(limits.time) => Err(Error::Slow { ms: limits.time.as_millis() }),
        }
    }

    async fn follow(&self, mut asked: Asked, bytes_max: usize, bound: bool) -> Result<Answered, Error> {
        let mut target = Target::parse(&asked.url).map_err(|said| Error::Url { url: String::new(), said })?;
        for _ in 0..=REDIRECTS_MAX {
            if !self.hosts.has(&target) {
                return Err(self.hosts.unlisted(&target));
            }
            let response = self.send(&target, &asked).await?;
            let Some(location) = location_of(&response) else { return read(&target, response, bytes_max).await };
            let location: String = location.chars().take(2_000).collect();
            let elsewhere = |said: &str| Error::Location {
                host: target.host_text(),
                location: location.clone(),
                said: said.into(),
            };
            let next = target.follow(&location).map_err(elsewhere)?;
            let leaves = !next.is_same_door(&target);
            if leaves && bound {
                return Err(elsewhere("a request with a secret is led to no other host"));
            }
            change_for(&mut asked, response.status());
            if leaves {
                asked.headers = only_harmless(&asked.headers);
            }
            target = next;
        }
        Err(Error::Redirects)
    }

    async fn send(&self, target: &Target, asked: &Asked) -> Result<Response<Incoming>, Error> {
        let unreachable = |said: String| Error::Unreachable { host: target.host_text(), said };
        let mut request = hyper::Request::builder().method(asked.method.clone()).uri(target.uri.clone());
        if let Some(headers) = request.headers_mut() {
            headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("chela/", env!("CARGO_PKG_VERSION"))));
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            headers.extend(asked.headers.clone());
        }
        let request = request.body(Full::new(asked.body.clone())).map_err(|error| unreachable(error.to_string()))?;
        self.client.request(request).await.map_err(|error| {
            let lost = |said| Error::Broken { host: target.host_text(), said };
            let made = if error.is_connect() { unreachable(chain(&error)) } else { lost(chain(&error)) };
            denied(&error).unwrap_or(made)
        })
    }
}

async fn read(target: &Target, response: Response<Incoming>, bytes_max: usize) -> Result<Answered, Error> {
    let (head, mut body) = response.into_parts();
    let broken = |said: String| Error::Broken { host: target.host_text(), said };
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(chain(&error)))?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() + data.len() > bytes_max {
            return Err(broken(format!("it is larger than {bytes_max} bytes")));
        }
        bytes.extend_from_slice(data);
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    Ok(Answered { status: head.status.as_u16(), headers, body: bytes.into() })
}

/// What the check of a connection said, from within what the client says.
fn denied(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut inner = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<Error>());
    inner.next().cloned()
}

/// Looks a host up, checks every address, and connects to what was checked.
#[derive(Clone)]
struct Guarded(Arc<Hosts>);

impl tower::Service<Uri> for Guarded {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let hosts = self.0.clone();
        Box::pin(async move {
            let refused = |said| io::Error::other(Error::Url { url: String::new(), said });
            let target = Target::parse(&uri.to_string()).map_err(refused)?;
            let addresses = checked(&hosts, &target).await.map_err(io::Error::other)?;
            connect_to(&addresses).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that answers every connection once, with these bytes; how often it was asked is told at the end.
    async fn served(answer: &'static str) -> (u16, Arc<std::sync::atomic::AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (port, asked) = (listener.local_addr().expect("an address").port(), Arc::default());
        let count: Arc<std::sync::atomic::AtomicUsize> = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let mut head = [0; 4_096];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (port, asked)
    }

    async fn ask(caller: &Caller, url: String) -> Result<u16, Error> {
        let asked = Asked { method: hyper::Method::GET, url, headers: hyper::HeaderMap::new(), body: Bytes::new() };
        let limits = Limits { time: Duration::from_secs(10), bytes: 1_000 };
        caller.request(asked, limits, false).await.map(|answered| answered.status)
    }

    const WELL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_name_that_means_an_inner_address_a_moment_later_leads_nowhere() {
        let (port, asked) = served(WELL).await;
        let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
        // Each new connection looks the name up once, and goes to what was checked.
        let answers = [address("127.0.0.1"), address("127.0.0.2"), address("169.254.169.254"), address("127.0.0.1")];
        let (named, own) = (format!("http://chat.example:{port}"), format!("127.0.0.1:{port}"));
        let hosts = Hosts::by_tls([named.as_str(), own.as_str()].into_iter(), "a.list").told(&answers);
        let caller = Caller::new(Clock::system(), Arc::new(hosts)).expect("a caller");
        assert_eq!(ask(&caller, format!("{named}/")).await.expect("answered"), 200);
        for what in ["127.0.0.2, which is loopback", "169.254.169.254, which is link-local"] {
            let said = ask(&caller, format!("{named}/")).await.expect_err("refused");
            assert!(said.is_refusal() && said.to_string().contains(what), "{said}");
        }
        assert_eq!(ask(&caller, format!("{named}/")).await.expect("answered"), 200);
        assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 2, "nobody else was asked");
    }

    #[tokio::test]
    async fn whether_a_request_left_is_told() {
        let (port, asked) = served("").await;
        let (own, gone) = (format!("127.0.0.1:{port}"), "127.0.0.1:1");
        let hosts = Hosts::by_tls([own.as_str(), gone].into_iter(), "a.list");
        let caller = Caller::new(Clock::system(), Arc::new(hosts)).expect("a caller");
        let lost = ask(&caller, format!("http://{own}/")).await.expect_err("nobody answers");
        assert!(lost.may_be_done() && !lost.is_refusal(), "{lost}");
        assert!(asked.load(std::sync::atomic::Ordering::Relaxed) > 0);
        let unreached = ask(&caller, format!("http://{gone}/")).await.expect_err("nobody is there");
        assert!(!unreached.may_be_done() && !unreached.is_refusal(), "{unreached}");
        let refused = ask(&caller, "http://169.254.169.254/".into()).await.expect_err("refused");
        assert!(!refused.may_be_done() && refused.is_refusal(), "{refused}");
    }

    #[tokio::test]
    async fn a_redirect_to_a_metadata_address_is_refused_whatever_the_list_says_of_names() {
        const LEADS: &str = "HTTP/1.1 302 Found\r\nlocation: http://metadata.example/latest\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let (port, _) = served(LEADS).await;
        let own = format!("127.0.0.1:{port}");
        let rules = [own.as_str(), "http://metadata.example"];
        let told = ["169.254.169.254".parse().expect("an address")];
        let hosts = Hosts::by_tls(rules.into_iter(), "a.list").told(&told);
        let caller = Caller::new(Clock::system(), Arc::new(hosts)).expect("a caller");
        let said = ask(&caller, format!("http://{own}/")).await.expect_err("refused");
        assert!(said.is_refusal() && said.to_string().contains("169.254.169.254, which is link-local"), "{said}");
    }
}
