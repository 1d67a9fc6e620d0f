//! Who follows: programs on `/ws` that count what they are told, and pages that hear on `/live` what is stale and fetch it.

use std::time::Duration;

use anyhow::{Context, Result};
use chela::client::{Client, Heard};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::Stop;
use crate::gateway::{Open, Way};

/// What a page shows, by its address.
const PAGES: [(&str, &str); 3] = [("/", "activity"), ("/tasks", "board"), ("/conversations", "list")];

#[derive(Default)]
pub struct Followed {
    pub told: u64,
    pub out_of_order: u64,
}

impl Followed {
    pub fn add(&mut self, other: &Self) {
        self.told += other.told;
        self.out_of_order += other.out_of_order;
    }
}

/// Half of them programs, half of them pages.
pub fn spawn(count: usize, way: Way, stop: &Stop) -> Vec<JoinHandle<Followed>> {
    (0..count)
        .map(|nth| {
            let (way, stop) = (way.clone(), stop.clone());
            tokio::spawn(async move {
                match nth % 2 {
                    0 => follow(way, stop).await,
                    _ => look(way, stop, PAGES[nth % PAGES.len()]).await,
                }
            })
        })
        .collect()
}

/// Follows the log over every restart, from where it was.
async fn follow(mut way: Way, mut stop: Stop) -> Followed {
    let (mut followed, mut since) = (Followed::default(), None);
    while !*stop.borrow() {
        let Ok(open) = way.open().await else { break };
        let Ok(mut following) = open.client.follow(since).await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        loop {
            let heard = tokio::select! {
                heard = following.next() => heard,
                _ = stop.changed() => return followed,
            };
            let Ok(Heard::Envelope(envelope)) = heard else { break };
            let Some(seq) = envelope["seq"].as_i64() else { continue };
            followed.told += 1;
            if since.is_some_and(|since| seq < since) {
                followed.out_of_order += 1;
            }
            since = Some(seq);
        }
    }
    followed
}

/// A page: hears what is stale and fetches it again, as its script does.
async fn look(mut way: Way, mut stop: Stop, page: (&str, &str)) -> Followed {
    let mut followed = Followed::default();
    while !*stop.borrow() {
        let Ok(open) = way.open().await else { break };
        tokio::select! {
            looked = hear(&open, page, &mut followed) => {
                if looked.is_err() {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
            _ = stop.changed() => return followed,
        }
    }
    followed
}

async fn hear(open: &Open, (path, fragment): (&str, &str), followed: &mut Followed) -> Result<()> {
    let address = open.addresses.hub.context("the hub listens")?;
    let mut request = format!("ws://{address}/live").into_client_request()?;
    request.headers_mut().insert("authorization", format!("Bearer {}", open.token).parse()?);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await?;
    let hub = Client::new(address, Some(open.token.clone()));
    let mut tag = String::new();
    hub.get(path).await?;
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message? else { continue };
        let told: Value = serde_json::from_str(&text)?;
        if told["stale"].is_null() {
            continue;
        }
        followed.told += 1;
        let headers = [("chela-fragments", fragment), ("if-none-match", tag.as_str())];
        let answer = hub.send("GET".parse()?, path, &headers, Vec::new()).await?;
        if let Some(new) = answer.headers.get("etag") {
            tag = new.to_str()?.to_owned();
        }
    }
    Ok(())
}
