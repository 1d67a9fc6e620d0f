//! Swaps a policy again and again, between two components that decide the same.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;

use crate::Options;
use crate::Stop;
use crate::gateway::Way;

#[derive(Default)]
pub struct Swapped {
    pub done: u64,
    pub refused: u64,
}

pub fn spawn(options: &Options, mut way: Way, stop: &Stop) -> JoinHandle<Swapped> {
    let (every, mut stop) = (Duration::from_secs(options.swap_seconds), stop.clone());
    // Each in turn by its own file: a load into a filled slot is a swap. That of the channel goes on with its connection.
    let files = [
        ("classifier", "rules"),
        ("guard:stop-guard", "stop-guard"),
        ("continuation", "continuation"),
        ("channel:discord", "discord"),
    ];
    let files = files.map(|(slot, name)| (slot, options.components.join(format!("{name}.wasm"))));
    tokio::spawn(async move {
        let mut swapped = Swapped::default();
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        for (slot, file) in files.iter().cycle() {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.changed() => break,
            }
            let Ok(open) = way.open().await else { break };
            let client = open.client.with_patience(Duration::from_secs(60));
            match client.call("plugin.load", json!({ "slot": slot, "source": file })).await {
                Ok(_) => swapped.done += 1,
                Err(chela::client::Error::Refused(error)) => {
                    swapped.refused += 1;
                    eprintln!("a swap of {slot} was refused: {}", error.message);
                }
                // Killed in the middle; the next one comes.
                Err(_) => {}
            }
        }
        swapped
    })
}
