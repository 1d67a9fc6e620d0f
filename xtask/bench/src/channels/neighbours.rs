//! What people of one channel notice of another whose adapter misbehaves: how long their messages wait for an answer, beside the same alone.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use chela::layout::StateDir;
use chela_crash::channels::{Stream, channel, configure, quantile, ready};
use chela_crash::gateway::Gateway;
use discord_server::{Discord, Setup};
use serde_json::{Map, Value, json};

use super::scratch;
use crate::rounded;

const A_SECOND: u32 = 100;
const PLACES: u64 = 50;
const TALK_FOR: Duration = Duration::from_secs(8);
const WARM_FOR: Duration = Duration::from_secs(2);

pub fn run(binary: &Path, wild: &Path) -> Result<Map<String, Value>> {
    ensure!(wild.is_file(), "{} is not built; run `cargo xtask guests`", wild.display());
    let mut figures = Map::new();
    // The better of two, as below: one hiccup of the machine is eight of the eight hundred waits.
    let alone = p99(binary, None)?.min(p99(binary, None)?);
    figures.insert("alone_p99_ms".into(), json!(alone));
    let mut worst = 0.0_f64;
    for deed in ["loop", "trap", "flood", "stream", "elsewhere"] {
        let bad = json!({
            "source": wild, "config": { "deed": deed },
            "grants": { "hosts": ["chat.example"] }, "routing": { "agent": "ruda" },
        });
        let beside = p99(binary, Some(bad.clone()))?.min(p99(binary, Some(bad))?);
        eprintln!("beside one that does `{deed}`: {beside} ms, alone {alone} ms");
        figures.insert(format!("beside_{deed}_p99_ms"), json!(beside));
        worst = worst.max(beside / alone);
    }
    figures.insert("neighbour_p99_ratio".into(), json!(rounded(worst)));
    Ok(figures)
}

/// How long messages wait for their answers, beside another channel or alone.
fn p99(binary: &Path, bad: Option<Value>) -> Result<f64> {
    let scratch = scratch(binary)?;
    let dir = StateDir::new(scratch.path().join("state"));
    let discord = Discord::with(Setup::crowded(PLACES));
    let mut channels = json!({ "discord": channel(&discord) });
    if let Some(bad) = bad {
        channels["wild"] = bad;
    }
    configure(&dir, channels)?;
    let gateway = Gateway::start(binary, &dir)?;
    ready(&gateway, "discord")?;
    let stream = Stream::start(&discord, A_SECOND, PLACES);
    std::thread::sleep(WARM_FOR);
    let warm = discord.answers().keys().next_back().copied().unwrap_or(0);
    std::thread::sleep(TALK_FOR);
    let said = stream.stop();
    // Those on their way arrive; one that does not is not measured, and is missed here.
    std::thread::sleep(Duration::from_secs(2));
    let waits = discord.waits();
    gateway.stop()?;
    ensure!(said.keys().all(|id| waits.contains_key(id)), "{} of {} were answered", waits.len(), said.len());
    let mut waits: Vec<Duration> = waits.range(warm + 1..).map(|(_, wait)| *wait).collect();
    Ok(quantile(&mut waits, 0.99))
}
