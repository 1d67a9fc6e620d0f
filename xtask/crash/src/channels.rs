//! People of a Discord talk to a gateway without a pause while its adapter is swapped, or while it is killed; then what became of every
//! message. Keeps true: what was said and what was answered is what the network knows; what reached an agent is what the transcripts say.
//! Never: takes the gateway's word for either.

pub mod networks;
mod reading;
mod stream;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chela::config::Starter;
use chela::layout::StateDir;
use discord_server::{Discord, Setup, component};
use serde::Serialize;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use reading::Outcome;
pub use stream::Stream;

/// Between two swaps at least.
const SWAP_EVERY: Duration = Duration::from_millis(100);
/// How long a life lasts once it is connected, in milliseconds.
const LIFE_MS: std::ops::Range<u64> = 5..400;
/// One life in so many is ended while it starts.
const EARLY_ONE_IN: u32 = 6;
/// How long everything may take to be answered after the last word.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Options {
    pub swaps: u32,
    pub kills: u32,
    /// Messages a second, over all places.
    pub a_second: u32,
    pub places: u64,
    /// Decides when each life ends.
    pub seed: u64,
    pub chela: PathBuf,
    /// An empty directory for everything that is made.
    pub scratch: PathBuf,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub swaps: u32,
    /// Messages of people while the adapter was swapped; each is answered.
    pub messages: u64,
    /// Of those: that no agent heard, or that were never answered.
    pub lost: u64,
    /// That an agent heard again, or that were answered again.
    pub doubled: u64,
    pub identifies: usize,
    /// Sockets that were opened.
    pub sockets: usize,
    pub swap_p50_ms: f64,
    pub swap_p99_ms: f64,
    pub answered_p50_ms: f64,
    pub answered_p99_ms: f64,
    pub kills: u32,
    pub kill_messages: u64,
    pub kill_lost: u64,
    pub kill_doubled: u64,
    pub kill_identifies: usize,
    pub kill_resumed: usize,
    /// Of the kills: while the gateway was starting.
    pub kill_early: u32,
    pub seconds: f64,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        let swaps = self.swaps == 0 || (self.identifies, self.sockets) == (1, 1);
        let kills = self.kills == 0 || self.kill_identifies == 1;
        self.lost + self.doubled + self.kill_lost + self.kill_doubled == 0 && swaps && kills
    }
}

pub fn run(options: &Options, mut say: impl FnMut(&str)) -> Result<Report> {
    let started = Instant::now();
    let mut report = Report { swaps: options.swaps, kills: options.kills, ..Report::default() };
    if options.swaps > 0 {
        swap(options, &mut report, &mut say)?;
    }
    if options.kills > 0 {
        kill(options, &mut report, &mut say)?;
    }
    report.seconds = rounded(started.elapsed().as_secs_f64());
    Ok(report)
}

/// A state directory whose only agent answers everybody at once, and whose channels are these.
pub fn configure(dir: &StateDir, channels: Value) -> Result<()> {
    chela::app::init(dir, &Starter::default())?;
    let script = dir.path().with_extension("script.json5");
    std::fs::write(&script, "{ rules: [], otherwise: 'heard' }")?;
    let mut config: Value = serde_json::from_slice(&std::fs::read(dir.config())?)?;
    for listener in ["gateway", "monitor", "hub"] {
        config[listener]["listen"] = json!("127.0.0.1:0");
    }
    config["limits"]["requestsPerSecond"] = json!(1_000_000);
    config["limits"]["requestsBurst"] = json!(1_000_000);
    config["runs"]["queue"] = json!(10_000);
    config["runs"]["concurrency"] = json!(10_000);
    config["providers"] = json!({ "script": { "kind": "scripted", "script": script } });
    config["agents"] = json!({ "model": "script/any", "list": [{ "id": "ruda", "role": "orchestrator" }] });
    config["channels"] = channels;
    std::fs::write(dir.config(), config.to_string()).context("cannot write the configuration")
}

/// The channel `discord`, whose own pace is no limit.
pub fn channel(discord: &Discord) -> Value {
    discord.channel(&json!({ "requestsPerSecond": 10_000 }))
}

/// Waits until a channel works.
pub fn ready(gateway: &Gateway, name: &str) -> Result<()> {
    let mut last = Value::Null;
    let until = Instant::now() + Duration::from_secs(120);
    while Instant::now() < until {
        let list = gateway.call("channel.list", json!({}))?;
        let mut found = list["channels"].as_array().into_iter().flatten();
        last = found.find(|view| view["channel"] == name).cloned().unwrap_or_default();
        if last["status"] == "ready" {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    anyhow::bail!("the channel {name} is not ready: {last}")
}

fn swap(options: &Options, report: &mut Report, say: &mut impl FnMut(&str)) -> Result<()> {
    let discord = Discord::with(Setup::crowded(options.places));
    let dir = StateDir::new(options.scratch.join("swapped"));
    configure(&dir, json!({ "discord": channel(&discord) }))?;
    let versions = [component(), other_version(&component(), &options.scratch)?];
    let gateway = Gateway::start(&options.chela, &dir)?;
    ready(&gateway, "discord")?;
    let load =
        |version: &Path| gateway.call("plugin.load", json!({ "slot": "channel:discord", "source": version })).map(drop);
    // Each is compiled once, which is no part of a swap.
    load(&versions[1])?;
    load(&versions[0])?;
    let stream = Stream::start(&discord, options.a_second, options.places);
    let mut took = Vec::new();
    for swap in 1..=options.swaps {
        let begun = Instant::now();
        load(&versions[swap as usize % 2]).with_context(|| format!("swap {swap}"))?;
        took.push(begun.elapsed());
        std::thread::sleep(SWAP_EVERY.saturating_sub(begun.elapsed()));
        if swap % 50 == 0 {
            say(&format!("{swap} swaps: {} messages", stream.count()));
        }
    }
    let outcome = finish(&discord, &dir, gateway, stream)?;
    report.swap_p50_ms = quantile(&mut took, 0.5);
    report.swap_p99_ms = quantile(&mut took, 0.99);
    let mut waits: Vec<Duration> = discord.waits().into_values().collect();
    report.answered_p50_ms = quantile(&mut waits, 0.5);
    report.answered_p99_ms = quantile(&mut waits, 0.99);
    let counts = discord.counts();
    (report.identifies, report.sockets) = (counts.identifies, counts.connections);
    (report.messages, report.lost, report.doubled) = (outcome.messages, outcome.lost, outcome.doubled);
    say(&format!("swapped: {outcome:?}"));
    Ok(())
}

fn kill(options: &Options, report: &mut Report, say: &mut impl FnMut(&str)) -> Result<()> {
    let mut chance = fastrand::Rng::with_seed(options.seed);
    let discord = Discord::with(Setup::crowded(options.places));
    let dir = StateDir::new(options.scratch.join("killed"));
    configure(&dir, json!({ "discord": channel(&discord) }))?;
    let mut gateway = Gateway::start(&options.chela, &dir)?;
    ready(&gateway, "discord")?;
    let stream = Stream::start(&discord, options.a_second, options.places);
    let mut start_took = Duration::from_millis(100);
    for kill in 1..=options.kills {
        let begun = Instant::now();
        if chance.u32(0..EARLY_ONE_IN) == 0 {
            std::thread::sleep(start_took.mul_f64(chance.f64()));
            report.kill_early += u32::from(discord.connected() == 0);
        } else {
            wait_until("the bot is connected", || discord.connected() > 0)?;
            start_took = begun.elapsed();
            std::thread::sleep(Duration::from_millis(chance.u64(LIFE_MS)));
        }
        gateway.kill()?;
        wait_until("the connection is gone", || discord.connected() == 0)?;
        gateway = Gateway::start(&options.chela, &dir)?;
        if kill % 25 == 0 {
            say(&format!("{kill} kills: {} messages", stream.count()));
        }
    }
    ready(&gateway, "discord")?;
    let outcome = finish(&discord, &dir, gateway, stream)?;
    let counts = discord.counts();
    (report.kill_identifies, report.kill_resumed) = (counts.identifies, counts.resumed);
    (report.kill_messages, report.kill_lost, report.kill_doubled) = (outcome.messages, outcome.lost, outcome.doubled);
    say(&format!("killed: {outcome:?}"));
    Ok(())
}

/// The last words are said; what was is read once all of it is answered, or after a long wait.
fn finish(discord: &Discord, dir: &StateDir, gateway: Gateway, stream: Stream) -> Result<Outcome> {
    let said = stream.stop();
    ensure!(!said.is_empty(), "nothing was said");
    let until = Instant::now() + PATIENCE;
    while discord.answers().len() < said.len() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    // What comes twice comes a little later.
    std::thread::sleep(Duration::from_millis(500));
    gateway.stop()?;
    reading::read(dir, &said, &discord.answers())
}

/// The same component with other bytes: another version, as far as anybody can tell.
fn other_version(component: &Path, scratch: &Path) -> Result<PathBuf> {
    let mut bytes = std::fs::read(component)?;
    // A section that says nothing, by the name `version`.
    let section = b"\x07versionother";
    bytes.extend([0, u8::try_from(section.len()).context("it is short")?]);
    bytes.extend(section);
    let name = component.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = scratch.join(format!("{name}-other.wasm"));
    std::fs::write(&path, bytes)?;
    Ok(path)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        ensure!(Instant::now() < until, "waited two minutes in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A quantile of durations, in milliseconds.
pub fn quantile(took: &mut [Duration], quantile: f64) -> f64 {
    took.sort_unstable();
    let at = (took.len().saturating_sub(1) as f64 * quantile).round() as usize;
    rounded(took.get(at).copied().unwrap_or_default().as_secs_f64() * 1e3)
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
