//! Channels: the Discord adapter swapped and killed under a stream of messages, what a message costs in it, what a hundred of them hold, and
//! what others notice of an adapter that misbehaves. The network is the Discord of the tests.

mod cost;
mod idle;
mod neighbours;

use std::path::Path;

use anyhow::{Context, Result, bail};
use chela_crash::channels::{self, Options, networks};
use serde_json::{Map, Value, json};

const SWAPS: u32 = 200;
const KILLS: u32 = 100;
const A_SECOND: u32 = 200;
const PLACES: u64 = 100;

/// All figures, or those of one part: swaps, kills, networks, cost, idle, neighbours.
pub fn run(binary: &Path, guests: Option<&Path>, part: Option<&str>) -> Result<Value> {
    let mut figures = Map::new();
    let wants = |name: &str| part.is_none_or(|part| part == name);
    if wants("swaps") {
        let report = crash(binary, SWAPS, 0)?;
        let names = ["swaps", "messages", "lost", "doubled", "identifies", "sockets", "swap_p50_ms", "swap_p99_ms"];
        take(&mut figures, &report, &names);
        take(&mut figures, &report, &["answered_p50_ms", "answered_p99_ms"]);
    }
    if wants("kills") {
        let report = crash(binary, 0, KILLS)?;
        let names = ["kills", "kill_messages", "kill_lost", "kill_doubled", "kill_identifies", "kill_resumed"];
        take(&mut figures, &report, &names);
    }
    if wants("cost") {
        figures.extend(cost::run(binary)?);
    }
    if wants("idle") {
        figures.extend(idle::run(binary)?);
    }
    if wants("networks") {
        figures.insert("networks".into(), of_networks(binary)?);
    }
    if wants("neighbours") {
        let guests = guests.context("a folder of guests")?;
        figures.extend(neighbours::run(binary, &guests.join("wild.wasm"))?);
    }
    if figures.is_empty() {
        bail!("there is no part {part:?} of channels");
    }
    Ok(Value::Object(figures))
}

/// The other networks under half of that, each swapped and killed as often as is promised.
fn of_networks(binary: &Path) -> Result<Value> {
    let mut figures = Map::new();
    for name in networks::NAMES {
        let scratch = scratch(binary)?;
        let options = Options {
            swaps: SWAPS / 2,
            kills: KILLS / 2,
            a_second: A_SECOND / 2,
            places: PLACES,
            seed: 1,
            chela: binary.to_owned(),
            scratch: scratch.path().to_owned(),
        };
        let report = networks::run(name, &options, |said| eprintln!("{said}"))?;
        if !report.is_clean() {
            eprintln!("{name} is not clean, see {}: {report:#?}", scratch.keep().display());
        }
        figures.insert(name.to_owned(), json!(report));
    }
    Ok(Value::Object(figures))
}

fn crash(binary: &Path, swaps: u32, kills: u32) -> Result<Value> {
    let scratch = scratch(binary)?;
    let options = Options {
        swaps,
        kills,
        a_second: A_SECOND,
        places: PLACES,
        seed: 1,
        chela: binary.to_owned(),
        scratch: scratch.path().to_owned(),
    };
    let report = channels::run(&options, |said| eprintln!("{said}"))?;
    if !report.is_clean() {
        eprintln!("not clean, see {}: {report:#?}", scratch.keep().display());
    }
    Ok(json!(report))
}

/// Beside the binary: a temporary directory may be one of memory, where a flush is nothing.
fn scratch(binary: &Path) -> Result<tempfile::TempDir> {
    let folder = binary.with_file_name("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(tempfile::tempdir_in(folder)?)
}

fn take(figures: &mut Map<String, Value>, report: &Value, names: &[&str]) {
    figures.extend(names.iter().map(|name| ((*name).to_owned(), report[*name].clone())));
}
