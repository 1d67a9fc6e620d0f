//! Sends spans to the collector that the configuration names, a batch at a time. Keeps true: a collector that is slow or gone costs spans,
//! and is said once; it costs nobody time.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio_util::sync::CancellationToken;

use super::{DROPPED, ON, QUEUE, Span, otlp};
use crate::egress::{self, Secured, chain};
use crate::layout::StateDir;
use crate::settings::{self, Settings, secret_text};

/// Between two batches.
const EVERY: Duration = Duration::from_secs(2);
const BATCH_MAX: usize = 1_024;
/// How long a collector may take for one.
const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

type Requests = Client<Secured<HttpConnector>, Full<Bytes>>;

pub struct Options {
    pub dir: StateDir,
    pub settings: settings::Handle,
}

/// Sends until told to stop, and then what is left.
pub async fn export(options: Options, stop: CancellationToken) {
    let client = client();
    let mut silent = false;
    loop {
        let settings = options.settings.current();
        ON.store(settings.config.traces.endpoint.is_some(), Ordering::Relaxed);
        // Real time: whoever collects lives by it.
        let stopping = stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none();
        loop {
            let spans = next_batch();
            if spans.is_empty() {
                break;
            }
            match send(&client, &options.dir, &settings, &spans).await {
                Ok(()) => silent = false,
                Err(said) => {
                    DROPPED.fetch_add(spans.len() as u64, Ordering::Relaxed);
                    if !silent {
                        tracing::warn!(said, "the collector of traces takes nothing; spans are dropped until it does");
                    }
                    silent = true;
                    break;
                }
            }
        }
        if stopping {
            ON.store(false, Ordering::Relaxed);
            return;
        }
    }
}

fn client() -> Result<Requests, String> {
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_connect_timeout(Some(PATIENCE));
    Ok(Client::builder(TokioExecutor::new()).build(egress::secured(plain)?))
}

fn next_batch() -> Vec<Span> {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    let count = queue.len().min(BATCH_MAX);
    queue.drain(..count).collect()
}

async fn send(
    client: &Result<Requests, String>,
    dir: &StateDir,
    settings: &Settings,
    spans: &[Span],
) -> Result<(), String> {
    let client = client.as_ref().map_err(Clone::clone)?;
    let traces = &settings.config.traces;
    let Some(endpoint) = &traces.endpoint else { return Ok(()) };
    let body = otlp::request(spans, &settings.config.deployment.name).to_string();
    let address = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    let mut request =
        hyper::Request::builder().method(Method::POST).uri(address).header(header::CONTENT_TYPE, "application/json");
    for (name, secret) in &traces.headers {
        request = request.header(name, secret_text(secret, dir)?);
    }
    let request =
        request.body(Full::new(Bytes::from(body))).map_err(|_| "its address or a header is none".to_owned())?;
    let exchange = async {
        let response = client.request(request).await.map_err(|error| chain(&error))?;
        let status = response.status();
        // Read, so that the connection can be used again.
        let _ = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err("it does not answer".to_owned()))
}
