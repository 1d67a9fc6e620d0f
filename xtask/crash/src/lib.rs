//! Kills a gateway again and again while it emits, while its agents talk, or while people talk to it, and reads what is left.
//! Keeps true: what counts as lost, doubled or out of order is told by the log and by what the emitters were told, never by the gateway's own
//! word. Never: kills a process that it did not start.

pub mod channels;
pub mod editing;
pub mod gateway;
mod index;
pub mod jobs;
mod life;
mod log;
mod mark;
pub mod work;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chela::app;
use chela::config::Starter;
use chela::layout::StateDir;
use serde::Serialize;

use index::{Compared, Held};
use life::{Life, When};
use log::Reading;

/// One life in so many is ended before its first acknowledgement, while it starts and mends.
const EARLY_ONE_IN: u32 = 6;
/// How long a life lasts after its first acknowledgement, in milliseconds.
const AFTER_MS: Range<u64> = 5..150;
/// One life in so many lasts longer, so that the index takes in news and the classifier is asked while events come.
const LONG_ONE_IN: u32 = 8;
const LONG_AFTER_MS: Range<u64> = 150..600;
/// Of the answers that differ in a reading, so many are said.
const SHOWN_MAX: usize = 5;

/// How to crash.
pub struct Options {
    pub kills: u32,
    /// Decides when each life ends; the machine decides what it is doing then.
    pub seed: u64,
    /// Kills between two readings of everything; there is one after the last in any case.
    pub kills_between_checks: u32,
    /// The binary of this package, which lives the lives.
    pub worker: PathBuf,
    /// The `chela` binary, which compiles components.
    pub chela: PathBuf,
    /// An empty directory for everything that is made.
    pub scratch: PathBuf,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub kills: u32,
    /// Events that an emitter was told are on the disk.
    pub acknowledged: u64,
    /// Events that are not in the log although they, or later ones of the same emitter, were acknowledged or are there.
    pub lost: u64,
    pub doubled: u64,
    pub out_of_order: u64,
    /// Lines that are no events.
    pub torn: u64,
    /// Answers of the monitor that a new index gives otherwise.
    pub index_differs: u64,
    /// Times that a life did not go on with the index it found, which was complete.
    pub index_made_again: u64,
    /// Kills before the first acknowledgement of a life.
    pub early: u32,
    /// Ends of the log that a kill had torn and a start has mended.
    pub mended: u64,
    pub events: u64,
    pub segments: usize,
    pub seed: u64,
    pub seconds: f64,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        let wrong = [self.lost, self.doubled, self.out_of_order, self.torn, self.index_differs, self.index_made_again];
        wrong.iter().sum::<u64>() == 0
    }
}

/// Lives and kills as often as asked. `say` hears how it goes, one line at a time.
pub fn run(options: &Options, mut say: impl FnMut(&str)) -> Result<Report> {
    let started = Instant::now();
    let dir = directory(&options.scratch)?;
    let mut chance = fastrand::Rng::with_seed(options.seed);
    let mut report = Report { kills: options.kills, seed: options.seed, ..Report::default() };
    index::complete(options, &dir)?;
    let (mut lives, mut held) = (Vec::new(), Held::open(&dir.event_index())?);
    let mut start_took = Duration::ZERO;
    for kill in 1..=options.kills {
        let life = Life::run(options, &dir, kill, when(&mut chance, start_took))?;
        start_took = life.first_after.unwrap_or(start_took);
        report.acknowledged += life.acknowledgements;
        report.early += u32::from(life.first_after.is_none());
        report.index_made_again += u64::from(held.is_replaced(&dir.event_index())?);
        lives.push(life.acknowledged);
        if kill % options.kills_between_checks.max(1) == 0 || kill == options.kills {
            check(options, &dir, &lives, &mut report, &mut say)?;
            let Report { acknowledged, lost, doubled, out_of_order, torn, index_differs, index_made_again, .. } =
                &report;
            say(&format!(
                "{kill} kills: {acknowledged} acknowledged, {lost} lost, {doubled} doubled, {out_of_order} out of order, \
                 {torn} torn, {index_differs} answers differ, {index_made_again} indexes made again"
            ));
        }
    }
    report.seconds = (started.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    Ok(report)
}

/// Soon after the first acknowledgement, and now and then before it, however fast this machine starts.
fn when(chance: &mut fastrand::Rng, start_took: Duration) -> When {
    let (early, part) = (chance.u32(0..EARLY_ONE_IN) == 0, chance.f64());
    let after_ms = if chance.u32(0..LONG_ONE_IN) == 0 { LONG_AFTER_MS } else { AFTER_MS };
    let after = Duration::from_millis(chance.u64(after_ms));
    if early && !start_took.is_zero() { When::AfterSpawn(start_took.mul_f64(part)) } else { When::AfterFirst(after) }
}

/// Reads the whole log, and asks the index that was kept beside one made anew.
fn check(
    options: &Options,
    dir: &StateDir,
    lives: &[Vec<u64>],
    report: &mut Report,
    say: &mut impl FnMut(&str),
) -> Result<()> {
    let mut reading = Reading::default();
    reading.read(dir)?;
    let found = reading.end(lives);
    report.lost = found.lost;
    report.doubled = found.doubled;
    report.out_of_order = found.out_of_order;
    report.torn = found.torn;
    report.events = found.events;
    report.mended = found.mended;
    report.segments = found.segments;
    let Compared { differing, made_again } = index::compare(options, dir, found.latest)?;
    report.index_made_again += u64::from(made_again);
    report.index_differs += differing.len() as u64;
    for (kept, fresh) in differing.iter().take(SHOWN_MAX) {
        say(&format!("an answer differs\nkept: {kept}\nnew:  {fresh}"));
    }
    Ok(())
}

/// A state directory whose gateway listens on free ports and answers as often as it is asked.
fn directory(scratch: &Path) -> Result<StateDir> {
    let dir = StateDir::new(scratch.join("state"));
    app::init(&dir, &Starter::default())?;
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.config())?)?;
    for listener in ["gateway", "monitor", "hub"] {
        config[listener]["listen"] = "127.0.0.1:0".into();
    }
    config["limits"]["requestsPerSecond"] = 1_000_000.into();
    config["limits"]["requestsBurst"] = 1_000_000.into();
    std::fs::write(dir.config(), config.to_string()).context("cannot write the configuration")?;
    Ok(dir)
}
