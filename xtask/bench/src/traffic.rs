//! What a gateway's own traffic costs: requests over WebSockets beside a bare echo, idle connections, runs beside bare commits.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use axum::Router;
use axum::extract::ws::{Message as AxumMessage, WebSocketUpgrade};
use axum::routing::get;
use chela::client::Client;
use chela::journal::{self, Transaction};
use chela::layout::StateDir;
use chela::session_key::SessionKey;
use chela::sessions::Asked;
use chela::tls::Wire;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::gateway::{directory, start_in};
use crate::rounded;

const FOR: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;
const IN_FLIGHT: usize = 32;
const CONNECTIONS: usize = 64;
const SESSIONS: usize = 100;
/// Each session sends so often, for so long.
const RUNS: Schedule = Schedule { parties: SESSIONS, every: Duration::from_millis(500), time: Duration::from_secs(15) };

pub fn run(binary: &Path) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(binary))
}

async fn measure(binary: &Path) -> Result<Value> {
    let (_temp, dir) = directory(|config| {
        config["limits"]["requestsPerSecond"] = json!(1_000_000);
        config["limits"]["requestsBurst"] = json!(1_000_000);
        config["limits"]["connections"] = json!(20_000);
    })?;
    let app = start_in(&dir, binary).await?;
    app.plugins().loaded().await;
    let address = app.addresses().gateway.context("the gateway listens")?;
    let token = chela::settings::load(&dir)?.tokens.owner().to_owned();
    let client = Client::new(address, Some(token));
    let echo = start_echo().await?;

    let mut figures = json!({});
    // Side by side and in turns, since machines are noisy.
    for (name, connections, in_flight) in [("1", 1, IN_FLIGHT), ("64", CONNECTIONS, 1)] {
        let (mut rpc, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let size = answer_bytes(&client).await?;
            rpc.push(rate(connections, in_flight, || open_rpc(&client), request_text(), FOR).await?);
            bare.push(rate(connections, in_flight, || open_echo(echo), "x".repeat(size), FOR).await?);
        }
        rpc.sort_by(f64::total_cmp);
        bare.sort_by(f64::total_cmp);
        figures[format!("rpc_per_s_{name}")] = json!(rpc[ROUNDS / 2].round());
        figures[format!("echo_per_s_{name}")] = json!(bare[ROUNDS / 2].round());
        figures[format!("rpc_to_echo_{name}")] = json!(rounded(rpc[ROUNDS / 2] / bare[ROUNDS / 2]));
        eprintln!("requests over {connections} connections: {figures}");
    }

    let mut commits = two_commits(RUNS).await?;
    let mut runs = runs(&app).await?;
    figures["two_commits_p50_ms"] = json!(millis(&mut commits, 0.5));
    figures["two_commits_p99_ms"] = json!(millis(&mut commits, 0.99));
    figures["run_overhead_p50_ms"] = json!(millis(&mut runs, 0.5));
    figures["run_overhead_p99_ms"] = json!(millis(&mut runs, 0.99));
    figures["runs"] = json!(runs.len());
    app.stop().await.map_err(|error| anyhow!("{error}"))?;
    Ok(figures)
}

fn millis(took: &mut [Duration], quantile: f64) -> f64 {
    crate::micros(took, quantile) / 1_000.0
}

fn request_text() -> String {
    json!({ "type": "req", "id": "1", "method": "health", "params": {} }).to_string()
}

async fn answer_bytes(client: &Client) -> Result<usize> {
    let mut socket = client.open().await?;
    let answer = socket.request("health", json!({})).await?;
    socket.close().await;
    Ok(json!({ "type": "res", "id": "1", "ok": true, "payload": answer }).to_string().len())
}

type Stream = WebSocketStream<Wire<TcpStream>>;

async fn start_echo() -> Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new().route(
        "/",
        get(|upgrade: WebSocketUpgrade| async {
            upgrade.on_upgrade(|mut socket| async move {
                while let Some(Ok(message)) = socket.recv().await {
                    if matches!(message, AxumMessage::Text(_)) && socket.send(message).await.is_err() {
                        return;
                    }
                }
            })
        }),
    );
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

async fn open_echo(address: SocketAddr) -> Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(tokio_tungstenite::client_async(format!("ws://{address}/"), Wire::Plain(stream)).await?.0)
}

async fn open_rpc(client: &Client) -> Result<Stream> {
    Ok(client.open().await?.into_stream())
}

/// Round trips a second with so many under way on each connection.
async fn rate<F>(
    connections: usize,
    in_flight: usize,
    open: impl Fn() -> F,
    text: String,
    time: Duration,
) -> Result<f64>
where
    F: Future<Output = Result<Stream>>,
{
    let text = Arc::<str>::from(text);
    let mut streams = Vec::new();
    for _ in 0..connections {
        streams.push(open().await?);
    }
    let started = Instant::now();
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            let text = text.clone();
            tokio::spawn(async move {
                let mut count = 0u64;
                for _ in 0..in_flight {
                    stream.feed(Message::text(text.to_string())).await?;
                }
                stream.flush().await?;
                while started.elapsed() < time {
                    let Some(message) = stream.next().await else { break };
                    if matches!(message?, Message::Text(_)) {
                        count += 1;
                        stream.send(Message::text(text.to_string())).await?;
                    }
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(total as f64 / started.elapsed().as_secs_f64())
}

/// Two commits one after the other, on a schedule.
pub async fn two_commits(schedule: Schedule) -> Result<Vec<Duration>> {
    let temp = tempfile::tempdir()?;
    let dir = StateDir::new(temp.path());
    let journal = journal::Opened::open(&dir)?.start()?;
    let body = json!({ "text": "x".repeat(600) });
    let work = move |nth: usize| {
        let (journal, body) = (journal.clone(), body.clone());
        async move {
            for part in 0..2 {
                let mut transaction = Transaction::default();
                journal::put(&mut transaction, "bench", &format!("{}-{part}", nth % 1_000), &body)?;
                journal.commit_async(transaction).await?;
            }
            anyhow::Ok(())
        }
    };
    schedule.run(work).await
}

/// Messages to a hundred sessions, from their acceptance to their end.
async fn runs(app: &chela::app::App) -> Result<Vec<Duration>> {
    let sessions = app.sessions().clone();
    let work = move |nth: usize| {
        let sessions = sessions.clone();
        async move {
            let agent = "seum".parse().map_err(|error| anyhow!("{error}"))?;
            let session =
                SessionKey::of(agent, &format!("direct:{}", nth % SESSIONS)).map_err(|error| anyhow!("{error}"))?;
            let asked = Asked::new(format!("bench-{nth}"), "bench", session, "good morning".into());
            let receipt = sessions.accept(asked).await.map_err(|error| anyhow!("{error}"))?;
            sessions.ended(&receipt.run).await.map_err(|error| anyhow!("{error}"))?;
            Ok(())
        }
    };
    RUNS.run(work).await
}

/// How often something is done, by how many, for how long.
#[derive(Clone, Copy)]
pub struct Schedule {
    pub parties: usize,
    pub every: Duration,
    pub time: Duration,
}

impl Schedule {
    /// Does something once in every interval for each party, spread evenly, and tells how long each took.
    pub async fn run<F>(self, work: impl Fn(usize) -> F + Clone + Send + 'static) -> Result<Vec<Duration>>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let started = tokio::time::Instant::now();
        let mut tasks = VecDeque::new();
        for party in 0..self.parties {
            let work = work.clone();
            tasks.push_back(tokio::spawn(async move {
                let mut took = Vec::new();
                let mut at = started + self.every.mul_f64(party as f64 / self.parties as f64);
                let mut round = 0;
                while at < started + self.time {
                    tokio::time::sleep_until(at).await;
                    let begun = Instant::now();
                    work(round * self.parties + party).await?;
                    took.push(begun.elapsed());
                    round += 1;
                    at += self.every;
                }
                anyhow::Ok(took)
            }));
        }
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await??);
        }
        Ok(all)
    }
}

/// Opens so many connections to a gateway of its own process and holds them until standard input ends.
pub fn hold(address: &str, token: &str, count: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::new(address.parse()?, Some(token.to_owned()));
        let mut held = Vec::with_capacity(count);
        for _ in 0..count {
            held.push(client.open().await?);
        }
        println!("held {}", held.len());
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
        anyhow::Ok(())
    })
}
