//! What a hundred adapters hold in memory that are connected and have nothing to do.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use chela::layout::StateDir;
use chela_crash::channels::{channel, configure, ready};
use chela_crash::gateway::Gateway;
use discord_server::{Discord, Setup};
use serde_json::{Map, Value, json};

use super::scratch;
use crate::rounded;

const ADAPTERS: usize = 100;
/// Until what a start has taken is given back.
const SETTLED: Duration = Duration::from_secs(3);

pub fn run(binary: &Path) -> Result<Map<String, Value>> {
    eprintln!("{ADAPTERS} idle adapters …");
    let none = resident(binary, &[])?;
    let networks: Vec<Discord> = (0..ADAPTERS).map(|_| Discord::with(Setup::default())).collect();
    let all = resident(binary, &networks)?;
    let mut figures = Map::new();
    figures.insert("no_adapter_mb".into(), json!(rounded(none)));
    figures.insert("hundred_mb".into(), json!(rounded(all)));
    figures.insert("hundred_idle_mb".into(), json!(rounded(all - none)));
    Ok(figures)
}

fn resident(binary: &Path, networks: &[Discord]) -> Result<f64> {
    let scratch = scratch(binary)?;
    let dir = StateDir::new(scratch.path().join("state"));
    let name = |nth: usize| format!("discord-{nth}");
    let channels = networks.iter().enumerate().map(|(nth, discord)| (name(nth), channel(discord)));
    configure(&dir, Value::Object(channels.collect()))?;
    let gateway = Gateway::start(binary, &dir)?;
    for nth in 0..networks.len() {
        ready(&gateway, &name(nth))?;
    }
    std::thread::sleep(SETTLED);
    let resident = gateway.resident_mb()?;
    gateway.stop()?;
    Ok(resident)
}
