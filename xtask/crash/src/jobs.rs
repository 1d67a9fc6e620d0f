//! Kills a gateway whose agents talk to each other, and cuts its power, and reads what became of every flow.
//! Keeps true: what was acknowledged is what this process's own client heard; what a model was asked is counted by a model server in this
//! process, by the key of each request. Never: takes the gateway's word for either.

mod cut;
mod gateway;
mod model;
mod reading;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use chela::layout::StateDir;
use serde::Serialize;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use model::Model;

/// Agents, so that many lanes are busy.
const AGENTS: usize = 24;
/// How long a life lasts once it serves, in milliseconds.
const LIFE_MS: std::ops::Range<u64> = 5..350;
/// One life in so many lasts until so many flows were acknowledged in it, on a slow machine too; not for ever.
const LONG_ONE_IN: u32 = 3;
const LONG_FLOWS: usize = 10;
const LONG_MAX: Duration = Duration::from_secs(20);
/// How long everything may take to come to its end after the last kill.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct Options {
    pub kills: u32,
    /// Power cuts, where this machine lets us make them.
    pub cuts: u32,
    pub seed: u64,
    /// Flows under way at once.
    pub flows: usize,
    pub chela: PathBuf,
    pub scratch: PathBuf,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub kills: u32,
    pub cuts: u32,
    /// Flows that were acknowledged.
    pub jobs: u64,
    pub lost: u64,
    pub unfinished: u64,
    /// Turns that were asked again though they were not in flight at a kill, or after this process had seen their reply.
    pub turns_run_twice: u64,
    /// Jobs of which the log tells otherwise than their record.
    pub log_disagreements: u64,
    /// Turns that were answered.
    pub turns: u64,
    /// Turns that a kill has interrupted and that were asked again.
    pub repeated: u64,
    pub failed: u64,
    pub seed: u64,
    pub seconds: f64,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.lost + self.unfinished + self.turns_run_twice + self.log_disagreements + self.failed == 0
    }
}

/// What the client knows.
#[derive(Default)]
struct Known {
    /// Every flow by the key of its call; its job once that was acknowledged.
    calls: BTreeMap<String, Option<String>>,
    /// How often a turn was asked when its reply was first seen.
    seen: BTreeMap<String, usize>,
}

impl Known {
    fn acknowledged(&self) -> usize {
        self.calls.values().flatten().count()
    }
}

pub fn run(options: &Options, mut say: impl FnMut(&str)) -> Result<Report> {
    let started = Instant::now();
    let model = Model::start()?;
    let mut chance = fastrand::Rng::with_seed(options.seed);
    let mut report = Report { seed: options.seed, ..Report::default() };
    let mut known = Known::default();
    let dir = StateDir::new(options.scratch.join("state"));
    gateway::configure(&dir, model.address(), AGENTS)?;
    for kill in 1..=options.kills {
        let gateway = Gateway::start(&options.chela, &dir)?;
        let until = Instant::now() + Duration::from_millis(chance.u64(LIFE_MS));
        talk(&gateway, &mut known, &model, &mut chance, options.flows, until);
        if kill % LONG_ONE_IN == 0 {
            let (wanted, last) = (known.acknowledged() + LONG_FLOWS, Instant::now() + LONG_MAX);
            while known.acknowledged() < wanted && Instant::now() < last {
                let until = Instant::now() + Duration::from_millis(200);
                talk(&gateway, &mut known, &model, &mut chance, options.flows, until);
            }
        }
        gateway.kill()?;
        model.note_kill();
        report.kills += 1;
        if kill % 50 == 0 || kill == options.kills {
            let acknowledged = known.acknowledged();
            say(&format!("{kill} kills: {acknowledged} flows, {} requests to the model", model.count()));
        }
    }
    if options.kills > 0 {
        finish(&options.chela, &dir, &mut known, &model, &mut report, &mut say)?;
    }
    if options.cuts > 0 {
        cut::run(options, &model, &mut report, &mut say)?;
    }
    report.seconds = (started.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    Ok(report)
}

/// Begins flows and looks at them until the time is up.
fn talk(gateway: &Gateway, known: &mut Known, model: &Model, chance: &mut fastrand::Rng, flows: usize, until: Instant) {
    let mut open = flows;
    let mut looked = Instant::now();
    while Instant::now() < until {
        if looked.elapsed() > Duration::from_millis(40) || open >= flows {
            looked = Instant::now();
            open = look(gateway, known, model).unwrap_or(open);
        }
        if open >= flows {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        // One that was never answered is asked for again under its key: it must not come to be twice.
        let again = known.calls.iter().find(|(_, job)| job.is_none()).map(|(key, _)| key.clone());
        let key = again.unwrap_or_else(|| format!("flow-{}-{}", known.calls.len(), chance.u32(..)));
        known.calls.entry(key.clone()).or_default();
        // Who sends to whom follows from the key, so that asking again asks for the same.
        let pick = key.bytes().map(usize::from).sum::<usize>();
        let (from, to) = (pick % AGENTS, (pick / 7) % AGENTS);
        let to = if to == from { (to + 1) % AGENTS } else { to };
        // A lane that is full takes it later; the life goes on.
        let Ok(job) = gateway.send(&key, from, to) else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        known.calls.insert(key, Some(job));
        open += 1;
    }
}

/// Notes what is answered, and tells how many flows are under way.
fn look(gateway: &Gateway, known: &mut Known, model: &Model) -> Result<usize> {
    let open = gateway.call("jobs.list", json!({ "status": "PENDING,RUNNING", "limit": 500 }))?;
    let done = gateway.call("jobs.list", json!({ "status": "COMPLETED", "limit": 20 }))?;
    // Also of those that go on: a turn that was answered is not asked again, whatever becomes of the next.
    for job in [&open, &done].into_iter().flat_map(|page| page["jobs"].as_array()).flatten() {
        for turn in answered(job) {
            known.seen.entry(turn.clone()).or_insert_with(|| model.times(&turn).len());
        }
    }
    Ok(open["jobs"].as_array().map_or(0, Vec::len))
}

/// The keys of a job's turns that were answered.
fn answered(job: &Value) -> Vec<String> {
    let turns = job["turns"].as_array().into_iter().flatten();
    turns
        .filter(|turn| turn["state"] == "answered")
        .filter_map(|turn| turn["key"].as_str().map(str::to_owned))
        .collect()
}

/// When a turn was first asked, in any of its tries.
fn first_asked(turn: &Value, model: &Model) -> Option<u64> {
    let tries = turn["attempts"].as_array().into_iter().flatten();
    let keys = tries.chain([turn]).filter_map(|tried| tried["key"].as_str());
    keys.filter_map(|key| model.times(key).first().copied()).min()
}

/// When the turn after one was first asked: by then the one was answered, and that on record.
fn followed(job: &Value, key: &str, model: &Model) -> Option<u64> {
    let turns = job["turns"].as_array()?;
    let at = turns.iter().position(|turn| turn["key"] == key)?;
    first_asked(turns.get(at + 1)?, model)
}

/// Lets everything come to its end and holds it against what is known.
fn finish(
    chela: &std::path::Path,
    dir: &StateDir,
    known: &mut Known,
    model: &Model,
    report: &mut Report,
    say: &mut impl FnMut(&str),
) -> Result<()> {
    let gateway = Gateway::start(chela, dir)?;
    let until = Instant::now() + PATIENCE;
    while look(&gateway, known, model)? > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let jobs = gateway.all_jobs()?;
    for (key, job) in &known.calls {
        let Some(id) = job else { continue };
        report.jobs += 1;
        match jobs.get(id) {
            None => {
                report.lost += 1;
                say(&format!("lost: job {id} of {key}"));
            }
            Some(job) if job["finishedAt"].is_null() => report.unfinished += 1,
            Some(job) if job["status"] != "COMPLETED" => {
                report.failed += 1;
                say(&format!("failed: {job}"));
            }
            Some(_) => {}
        }
    }
    for job in jobs.values() {
        for turn in answered(job) {
            report.turns += 1;
            let times = model.times(&turn);
            let (twice, repeated) = model.repeated(&times, followed(job, &turn, model));
            let late = known.seen.get(&turn).is_some_and(|seen| times.len() > *seen);
            report.repeated += repeated;
            if twice > 0 || late || times.is_empty() {
                report.turns_run_twice += 1;
                say(&format!("turn {turn} was asked {} times", times.len()));
            }
        }
    }
    gateway.stop()?;
    let disagreeing = reading::disagreements(dir, &jobs)?;
    for said in disagreeing.iter().take(5) {
        say(said);
    }
    report.log_disagreements += disagreeing.len() as u64;
    if report.jobs == 0 {
        bail!("no flow was ever acknowledged; the kills prove nothing");
    }
    Ok(())
}

/// A directory for one part of the run.
fn made(path: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}
