//! Two hundred who follow, at five hundred events a second, five of whom do not read.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chela::bus;
use chela::event::{Event, Kind};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::gateway::Gateway;
use crate::rounded;

const FOLLOWERS: usize = 200;
const STALLED: usize = 5;
const EVENTS: u64 = 5_000;
const PER_SECOND: u64 = 500;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub fn run(runtime: &Runtime, binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("followers …");
    runtime.block_on(async {
        let gateway = Gateway::start(binary, |config| {
            config["monitor"]["openReads"] = json!(true);
            config["limits"]["requestsPerSecond"] = json!(100_000);
            config["limits"]["requestsBurst"] = json!(100_000);
        })
        .await?;
        let address = gateway.app.addresses().monitor.context("the monitor listens")?;
        while gateway.app.monitor().health().await.indexing_percent.is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut reading = Vec::new();
        for _ in 0..FOLLOWERS - STALLED {
            reading.push(tokio::spawn(read_all(connect(address).await?)));
        }
        let mut stalled = Vec::new();
        for _ in 0..STALLED {
            stalled.push(connect(address).await?);
        }
        let before = resident_mb()?;
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        for n in 0..EVENTS {
            if n % (PER_SECOND / 50) == 0 {
                ticks.tick().await;
            }
            let facts = bus::data(
                json!({ "n": n, "workSessionId": "ws_1", "message": "배포를 부탁해요. Please deploy it.".repeat(6) }),
            );
            let event = Event::of("eden", Kind::A2aSend, gateway_now(), facts);
            gateway.app.bus().emit_event(event)?;
        }
        let (mut missed, mut lags) = (0, Vec::new());
        for reader in reading {
            let (count, lag) = reader.await?;
            missed += EVENTS - count;
            lags.extend(lag);
        }
        let after = resident_mb()?;
        let mut dropped = 0;
        for socket in stalled {
            let reason = tokio::time::timeout(Duration::from_secs(20), closed(socket)).await?;
            ensure!(reason.contains("too slow"), "let go without a reason: {reason:?}");
            dropped += 1;
        }
        figures.insert("followers".into(), json!(FOLLOWERS));
        figures.insert("followers_missed".into(), json!(missed));
        figures.insert("followers_stalled_dropped".into(), json!(dropped));
        figures.insert("followers_lag_p99_ms".into(), json!(rounded(crate::micros(&mut lags, 0.99) / 1e3)));
        figures.insert("followers_memory_mb".into(), json!(rounded(after - before)));
        gateway.stop().await
    })
}

fn gateway_now() -> chela::clock::Timestamp {
    chela::clock::Clock::system().now()
}

async fn connect(address: SocketAddr) -> Result<Socket> {
    let request = format!("ws://{address}/ws").into_client_request()?;
    Ok(tokio_tungstenite::connect_async(request).await?.0)
}

/// How many events came in order, and how late each was.
async fn read_all(mut socket: Socket) -> (u64, Vec<Duration>) {
    let (mut count, mut lags) = (0, Vec::new());
    while count < EVENTS {
        let Ok(Some(Ok(message))) = tokio::time::timeout(Duration::from_secs(20), socket.next()).await else { break };
        let Message::Text(text) = message else { continue };
        let told: Value = serde_json::from_str(&text).unwrap_or_default();
        if told["data"]["type"] == "a2a.send" {
            if told["data"]["data"]["n"] != count {
                break;
            }
            count += 1;
            let now = chela::clock::Clock::system().now().0;
            lags.push(Duration::from_millis(now.saturating_sub(told["data"]["ts"].as_u64().unwrap_or(now))));
        }
    }
    (count, lags)
}

async fn closed(mut socket: Socket) -> String {
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Close(Some(frame)) = message {
            return frame.reason.to_string();
        }
    }
    String::new()
}

fn resident_mb() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("resident memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0 / 1e6)
}
