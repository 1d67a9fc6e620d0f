//! Swaps policies and the channel's adapter again and again, each between two components that differ and decide the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
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

/// The slots and their components.
const SLOTS: [(&str, &str); 4] = [
    ("classifier", "rules"),
    ("guard:stop-guard", "stop-guard"),
    ("continuation", "continuation"),
    ("channel:discord", "discord"),
];

/// A component as it is, and one with a section more that says nothing: another file, and another generation, of the same decisions.
fn pair(options: &Options, name: &str, into: &Path) -> Result<[PathBuf; 2]> {
    let own = options.components.join(format!("{name}.wasm"));
    let mut bytes = std::fs::read(&own).with_context(|| format!("cannot read {}", own.display()))?;
    // A custom section: its number, its length, and a name with its own length.
    bytes.extend_from_slice(b"\0\x05\x04soak");
    let other = into.join(format!("{name}-again.wasm"));
    std::fs::write(&other, bytes).with_context(|| format!("cannot write {}", other.display()))?;
    Ok([other, own])
}

pub fn spawn(options: &Options, into: &Path, mut way: Way, stop: &Stop) -> Result<JoinHandle<Swapped>> {
    let (every, mut stop) = (Duration::from_secs(options.swap_seconds), stop.clone());
    let mut files = Vec::new();
    for (slot, name) in SLOTS {
        files.push((slot, pair(options, name, into)?));
    }
    Ok(tokio::spawn(async move {
        let mut swapped = Swapped::default();
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        // Every slot in turn; in the next round each has its other component.
        for (nth, (slot, pair)) in files.iter().cycle().enumerate() {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.changed() => break,
            }
            let Ok(open) = way.open().await else { break };
            let client = open.client.with_patience(Duration::from_secs(60));
            let source = &pair[(nth / SLOTS.len()) % 2];
            match client.call("plugin.load", json!({ "slot": slot, "source": source })).await {
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
    }))
}
