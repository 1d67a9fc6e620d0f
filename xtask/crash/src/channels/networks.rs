//! The other networks under the same stream: Telegram, Slack, and a program with webhooks. Swapped and killed like Discord, counted by
//! what each network knows and what the transcripts say.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use chela::layout::StateDir;
use networks::slack::{self, Slack};
use networks::telegram::{self, Telegram};
use networks::webhook::{KEY, Program, sign};
use serde::Serialize;
use serde_json::{Value, json};

use super::stream::number_in;
use super::{LIFE_MS, Options, PATIENCE, SWAP_EVERY, configure, quantile, reading, ready};
use crate::gateway::Gateway;

/// One life in so many is long enough to get on: a run that six starts in a row find unfinished is given up, and told to be.
const LONG_ONE_IN: u32 = 3;
const LONG_MAX: Duration = Duration::from_secs(10);

/// The names of the networks, which are those of their channels and components.
pub const NAMES: [&str; 3] = ["slack", "telegram", "webhook"];

/// What came of it, on one network.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub swaps: u32,
    pub messages: u64,
    pub lost: u64,
    pub doubled: u64,
    pub swap_p50_ms: f64,
    pub swap_p99_ms: f64,
    pub kills: u32,
    pub kill_messages: u64,
    pub kill_lost: u64,
    pub kill_doubled: u64,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.kill_lost + self.kill_doubled == 0
    }
}

enum Network {
    Slack(Slack),
    Telegram(Telegram),
    /// With the address that its callers know.
    Webhook(Program, Mutex<Option<SocketAddr>>),
}

impl Network {
    fn start(name: &str) -> Result<Self> {
        Ok(match name {
            "slack" => Self::Slack(Slack::start()),
            "telegram" => Self::Telegram(Telegram::start()),
            "webhook" => Self::Webhook(Program::start(), Mutex::new(None)),
            _ => anyhow::bail!("there is no network {name}; there are {NAMES:?}"),
        })
    }

    fn channel(&self) -> Value {
        match self {
            Self::Slack(slack) => slack.channel(&json!({ "requestsPerSecond": 10_000 })),
            Self::Telegram(telegram) => telegram.channel(&json!({ "requestsPerSecond": 10_000 })),
            Self::Webhook(program, _) => {
                program.channel(&json!({ "requestsPerSecond": 10_000, "messagesPerMinute": 20_000 }))
            }
        }
    }

    fn is_reached_at(&self, address: Option<SocketAddr>) {
        if let Self::Webhook(_, known) = self {
            *known.lock().unwrap_or_else(PoisonError::into_inner) = address;
        }
    }

    /// A person says this; false where nobody has taken it, so that it must be said again.
    fn say(&self, number: u64, words: &str, place: u64) -> bool {
        match self {
            Self::Slack(slack) => drop(slack.say(slack::Said::of_crowd(words, place))),
            Self::Telegram(telegram) => drop(telegram.say(telegram::Said::of_crowd(words, place as i64))),
            Self::Webhook(_, known) => {
                let address = *known.lock().unwrap_or_else(PoisonError::into_inner);
                return address.is_some_and(|address| is_taken(address, number, words, place).unwrap_or(false));
            }
        }
        true
    }

    /// Messages that came again under their ids although their answers arrived. The program knows them, so that nobody reads them twice; but
    /// without a kill there is no reason for any. (A gateway that is killed may not have read the answer: then the same id again is right.)
    fn needless(&self) -> u64 {
        match self {
            Self::Webhook(program, _) => program.needless() as u64,
            Self::Slack(_) | Self::Telegram(_) => 0,
        }
    }

    /// Messages that were refused because their time or signature was wrong.
    fn unbelieved(&self) -> u64 {
        match self {
            Self::Webhook(program, _) => (program.stale() + program.unsigned()) as u64,
            Self::Slack(_) | Self::Telegram(_) => 0,
        }
    }

    /// How often each message was answered.
    fn answers(&self) -> BTreeMap<u64, usize> {
        let texts: Vec<String> = match self {
            Self::Slack(slack) => slack.sent().into_iter().map(|sent| sent.text).collect(),
            Self::Telegram(telegram) => telegram.sent().into_iter().map(|sent| sent.text).collect(),
            Self::Webhook(program, _) => {
                program.messages().iter().map(|posted| posted["text"].as_str().unwrap_or_default().to_owned()).collect()
            }
        };
        let mut answers = BTreeMap::new();
        texts.iter().filter_map(|text| number_in(text)).for_each(|number| *answers.entry(number).or_default() += 1);
        answers
    }
}

/// Calls a gateway's hook; whether it has answered with success.
fn is_taken(address: SocketAddr, number: u64, words: &str, place: u64) -> std::io::Result<bool> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let body = json!({ "id": format!("n-{number}"), "at": at, "text": words, "sender": { "id": format!("p{place}") } });
    let body = body.to_string();
    let (signature, length) = (sign(KEY, body.as_bytes()), body.len());
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let head = format!(
        "POST /hooks/webhook/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-chela-signature: sha256={signature}\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    Ok(start.ends_with(b" 202"))
}

/// People who write so many messages a second, each with a number, until it is stopped.
struct Stream {
    ends: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    writing: std::thread::JoinHandle<()>,
}

impl Stream {
    fn start(network: &Arc<Network>, a_second: u32, places: u64) -> Self {
        let (ends, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let writing = std::thread::spawn({
            let (network, ends, count) = (network.clone(), ends.clone(), count.clone());
            move || {
                let started = Instant::now();
                while !ends.load(Ordering::Relaxed) {
                    let number = count.load(Ordering::Relaxed);
                    while !network.say(number, &format!("what of m-{number:08}?"), number % places) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    count.store(number + 1, Ordering::Relaxed);
                    // By the clock, so that a moment without the processor is made up for.
                    let due =
                        started + Duration::from_secs(1) * u32::try_from(number + 1).unwrap_or(u32::MAX) / a_second;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            }
        });
        Self { ends, count, writing }
    }

    /// Ends it; gives how many were said.
    fn stop(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        // Whoever panicked has told so; what was said before still counts.
        let _ = self.writing.join();
        self.count.load(Ordering::Relaxed)
    }
}

pub fn run(name: &str, options: &Options, mut say: impl FnMut(&str)) -> Result<Report> {
    let mut report = Report { swaps: options.swaps, kills: options.kills, ..Report::default() };
    if options.swaps > 0 {
        swap(name, options, &mut report)?;
        say(&format!("{name} swapped: {report:?}"));
    }
    if options.kills > 0 {
        kill(name, options, &mut report)?;
        say(&format!("{name} killed: {report:?}"));
    }
    Ok(report)
}

/// A network, and a directory whose agent answers everybody with what was said.
fn prepare(name: &str, options: &Options, what: &str) -> Result<(Arc<Network>, StateDir)> {
    let network = Arc::new(Network::start(name)?);
    let dir = StateDir::new(options.scratch.join(format!("{name}-{what}")));
    configure(&dir, json!({ name: network.channel() }))?;
    std::fs::write(dir.path().with_extension("script.json5"), "{ rules: [], otherwise: 'heard {{input}}' }")?;
    Ok((network, dir))
}

fn swap(name: &str, options: &Options, report: &mut Report) -> Result<()> {
    let (network, dir) = prepare(name, options, "swapped")?;
    let component = PathBuf::from(network.channel()["source"].as_str().context("a component")?);
    let versions = [component.clone(), super::other_version(&component, &options.scratch)?];
    let gateway = Gateway::start(&options.chela, &dir)?;
    ready(&gateway, name)?;
    let load = |version: &Path| {
        gateway.call("plugin.load", json!({ "slot": format!("channel:{name}"), "source": version })).map(drop)
    };
    // Each is compiled once, which is no part of a swap.
    load(&versions[1])?;
    load(&versions[0])?;
    network.is_reached_at(Some(gateway.address));
    let stream = Stream::start(&network, options.a_second, options.places);
    let mut took = Vec::new();
    for swap in 1..=options.swaps {
        let begun = Instant::now();
        load(&versions[swap as usize % 2]).with_context(|| format!("{name}, swap {swap}"))?;
        took.push(begun.elapsed());
        std::thread::sleep(SWAP_EVERY.saturating_sub(begun.elapsed()));
    }
    let outcome = finish(&network, &dir, gateway, stream)?;
    report.swap_p50_ms = quantile(&mut took, 0.5);
    report.swap_p99_ms = quantile(&mut took, 0.99);
    (report.messages, report.lost) = (outcome.messages, outcome.lost);
    report.doubled = outcome.doubled + network.needless();
    Ok(())
}

fn kill(name: &str, options: &Options, report: &mut Report) -> Result<()> {
    let mut chance = fastrand::Rng::with_seed(options.seed);
    let (network, dir) = prepare(name, options, "killed")?;
    let mut gateway = Gateway::start(&options.chela, &dir)?;
    ready(&gateway, name)?;
    network.is_reached_at(Some(gateway.address));
    let stream = Stream::start(&network, options.a_second, options.places);
    for kill in 1..=options.kills {
        std::thread::sleep(Duration::from_millis(chance.u64(LIFE_MS)));
        if kill % LONG_ONE_IN == 0 {
            get_on(&network, options.places / 4);
        }
        gateway.kill()?;
        network.is_reached_at(None);
        gateway = Gateway::start(&options.chela, &dir)?;
        network.is_reached_at(Some(gateway.address));
    }
    ready(&gateway, name)?;
    let outcome = finish(&network, &dir, gateway, stream)?;
    (report.kill_messages, report.kill_lost, report.kill_doubled) = (outcome.messages, outcome.lost, outcome.doubled);
    Ok(())
}

/// Waits until so many more are answered, on a busy machine not for ever.
fn get_on(network: &Network, more: u64) {
    let (wanted, until) = (network.answers().len() as u64 + more, Instant::now() + LONG_MAX);
    while (network.answers().len() as u64) < wanted && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn finish(network: &Network, dir: &StateDir, gateway: Gateway, stream: Stream) -> Result<reading::Outcome> {
    let said = stream.stop();
    ensure!(said > 0, "nothing was said");
    let until = Instant::now() + PATIENCE;
    while (network.answers().len() as u64) < said && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    // What comes twice comes a little later.
    std::thread::sleep(Duration::from_millis(500));
    gateway.stop()?;
    ensure!(network.unbelieved() == 0, "{} messages had a wrong signature or time", network.unbelieved());
    reading::read(dir, &(0..said).map(|number| (number, number)).collect(), &network.answers())
}
