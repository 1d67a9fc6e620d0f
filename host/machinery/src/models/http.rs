//! One request to a provider and its answer as it streams in.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use chela_model::{Answer, Decoder, Delta, Failure, FailureKind, Request, Wire, refused};
use http_body_util::{BodyExt, Full, Limited};
use hyper::header;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::clock::Clock;
use crate::config::Provider;
use crate::egress::{self, Secured, chain};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Of a refusal no more than this is read.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

type Requests = Client<Secured<HttpConnector>, Full<Bytes>>;

/// Connections that are kept for the next request; made at the first.
pub(super) struct Http(LazyLock<Result<Requests, String>>);

impl Default for Http {
    fn default() -> Self {
        Self(LazyLock::new(|| {
            let mut plain = HttpConnector::new();
            plain.enforce_http(false);
            plain.set_connect_timeout(Some(CONNECT_WITHIN));
            plain.set_nodelay(true);
            Ok(Client::builder(TokioExecutor::new()).build(egress::secured(plain)?))
        }))
    }
}

impl Http {
    pub(super) async fn ask(
        &self,
        clock: &Clock,
        provider: &Provider,
        wire: Wire,
        keys: (&str, &str),
        request: &Request,
        hear: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Failure> {
        let client = self.0.as_ref().map_err(|said| Failure::new(FailureKind::Invalid, said))?;
        let begin = Duration::from_millis(provider.begin_timeout_ms);
        let silence = Duration::from_millis(provider.silence_timeout_ms);
        let sent = client.request(http_request(provider, wire, keys, request)?);
        let response = within(clock, begin, "begin its answer", sent).await?.map_err(|error| {
            Failure::new(FailureKind::Broken, format!("the provider cannot be reached: {}", chain(&error)))
        })?;
        let (head, mut body) = response.into_parts();
        if !head.status.is_success() {
            let after = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let read = Limited::new(body, REFUSAL_BYTES_MAX).collect();
            let text = within(clock, silence, "tell why it refused", read).await.ok().and_then(Result::ok);
            let bytes = text.map(|text| text.to_bytes()).unwrap_or_default();
            return Err(refused(wire, head.status.as_u16(), after.as_deref(), &bytes));
        }
        let mut decoder = Decoder::new(wire);
        while let Some(frame) = within(clock, silence, "go on with its answer", body.frame()).await? {
            let frame = frame.map_err(|error| {
                Failure::new(FailureKind::Broken, format!("the answer broke off: {}", chain(&error)))
            })?;
            if let Ok(data) = frame.into_data() {
                decoder.feed(&data)?.into_iter().for_each(&mut *hear);
            }
        }
        decoder.end()
    }
}

fn http_request(
    provider: &Provider,
    wire: Wire,
    (key, question): (&str, &str),
    request: &Request,
) -> Result<hyper::Request<Full<Bytes>>, Failure> {
    let base = provider.base_url.as_deref().unwrap_or(match wire {
        Wire::Anthropic => "https://api.anthropic.com",
        Wire::OpenAi => "https://api.openai.com/v1",
    });
    let mut http = hyper::Request::post(format!("{}{}", base.trim_end_matches('/'), wire.path()));
    for (name, value) in wire.headers(key) {
        http = http.header(name, value);
    }
    // Providers that know it answer a repeated question once.
    if let Ok(question) = header::HeaderValue::from_str(question) {
        http = http.header("idempotency-key", question);
    }
    // Neither the address nor the key belongs into what is said of it.
    http.body(Full::new(Bytes::from(wire.body(request))))
        .map_err(|_| Failure::new(FailureKind::Invalid, "the provider's baseUrl or key cannot be put into a request"))
}

async fn within<T>(clock: &Clock, limit: Duration, what: &str, work: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::select! {
        done = work => Ok(done),
        () = clock.sleep(limit) => {
            Err(Failure::new(FailureKind::Timeout, format!("the provider did not {what} within {} ms", limit.as_millis())))
        }
    }
}
