//! A log of a million events: what its index costs, and what a query costs at a million and at ten thousand, beside reading the whole log.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chela::client::Client;
use chela::clock::Timestamp;
use chela::layout::{EVENT_LOG_STEM, StateDir};
use chela::run::RunFile;
use chela_storage::{Catalogue, Month, SegmentLog};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::{gateway, micros, rounded};

const MANY: u64 = 1_000_000;
const FEW: u64 = 10_000;
const QUERIES: usize = 1_000;
const SESSIONS: &str = "/api/work-sessions?limit=20";
const EVENTS: &str = "/api/events?role=conversation.main&limit=100";
const SEARCH: &str = "/api/work-sessions?limit=20&q=%EB%B0%B0%ED%8F%AC";

pub fn run(runtime: &Runtime, binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("generating a log of {MANY} events …");
    let many = log_of(MANY)?;
    let few = log_of(FEW)?;
    let bytes: u64 =
        fs::read_dir(many.1.logs())?.map(|entry| Ok(entry?.metadata()?.len())).sum::<std::io::Result<u64>>()?;
    figures.insert("log_mb".into(), json!(rounded(bytes as f64 / 1e6)));

    eprintln!("the first index …");
    let from = Instant::now();
    let serving = Serving::start(binary, &many.1)?;
    serving.wait_until_indexed(runtime)?;
    figures.insert("index_s".into(), json!(rounded(from.elapsed().as_secs_f64())));
    figures.insert("index_peak_mb".into(), json!(rounded(serving.peak_mb()?)));
    let size: u64 =
        fs::read_dir(many.1.index())?.map(|entry| Ok(entry?.metadata()?.len())).sum::<std::io::Result<u64>>()?;
    figures.insert("index_mb".into(), json!(rounded(size as f64 / 1e6)));
    let classified = Instant::now();
    serving.wait_until_classified(runtime)?;
    figures.insert("classify_s".into(), json!(rounded(classified.elapsed().as_secs_f64())));
    figures.insert("peak_mb".into(), json!(rounded(serving.peak_mb()?)));
    serving.stop()?;

    eprintln!("a restart …");
    let from = Instant::now();
    let serving = Serving::start(binary, &many.1)?;
    serving.wait_until_indexed(runtime)?;
    figures.insert("restart_ms".into(), json!(rounded(from.elapsed().as_secs_f64() * 1e3)));

    eprintln!("queries …");
    let small = Serving::start(binary, &few.1)?;
    small.wait_until_indexed(runtime)?;
    small.wait_until_classified(runtime)?;
    for (name, path) in [("query", SESSIONS), ("events_query", EVENTS), ("search", SEARCH)] {
        let (mut at_many, mut at_few) = (f64::INFINITY, f64::INFINITY);
        // By turns, so that both have the same luck with the machine.
        for _ in 0..3 {
            at_many = at_many.min(runtime.block_on(serving.p99_ms(path))?);
            at_few = at_few.min(runtime.block_on(small.p99_ms(path))?);
        }
        figures.insert(format!("{name}_p99_ms_1m"), json!(at_many));
        figures.insert(format!("{name}_p99_ms_10k"), json!(at_few));
        figures.insert(format!("{name}_ratio"), json!(rounded(at_many / at_few)));
    }
    figures.insert("whole_file_ms_1m".into(), json!(rounded(whole_file_ms(&many.1)?)));
    small.stop()?;
    serving.stop()
}

/// A state directory with a generated log, in segments as the bus writes them.
pub fn log_of(events: u64) -> Result<(tempfile::TempDir, StateDir)> {
    let (temp, dir) = gateway::directory(|config| {
        let agents: Vec<Value> =
            chela_generate::agents().iter().map(|agent| json!({ "id": agent.id, "name": agent.name })).collect();
        config["agents"] = json!({ "list": agents });
        config["teams"] = json!([]);
    })?;
    fs::create_dir_all(dir.logs())?;
    let catalogue = Catalogue::new(&dir.logs(), EVENT_LOG_STEM, chela::bus::time_of);
    let month = |ms: u64| {
        let date = Timestamp(ms).date();
        Month { year: date.year(), month: date.month() }
    };
    let (mut log, _) = SegmentLog::open(catalogue, &dir.corrupt_log(), chela::bus::SEGMENT_BYTES, month)?;
    let mut options = chela_generate::Options::new(events, 7);
    options.until_ms = chela::clock::Clock::system().now().0;
    let (mut batch, mut last) = (Vec::new(), 0);
    chela_generate::generate(&options, |line| {
        batch.extend_from_slice(line.text.as_bytes());
        batch.push(b'\n');
        last = last.max(line.ts_ms);
        if batch.len() > 1 << 20 {
            log.append(&batch, last).map_err(|error| anyhow::anyhow!("{error:?}"))?;
            batch.clear();
        }
        anyhow::Ok(())
    })?;
    log.append(&batch, last).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok((temp, dir))
}

/// The old way: every request reads the whole log, takes it apart and groups what it wants.
fn whole_file_ms(dir: &StateDir) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let from = Instant::now();
        let mut sessions: std::collections::HashMap<String, (u64, u64)> = std::collections::HashMap::new();
        for segment in Catalogue::new(&dir.logs(), EVENT_LOG_STEM, chela::bus::time_of).segments()? {
            for line in fs::read(&segment.path)?.split(|byte| *byte == b'\n') {
                let Ok(event) = serde_json::from_slice::<Value>(line) else { continue };
                let Some(id) = event["data"]["workSessionId"].as_str() else { continue };
                let entry = sessions.entry(id.to_owned()).or_default();
                entry.0 += 1;
                entry.1 = entry.1.max(event["ts"].as_u64().unwrap_or(0));
            }
        }
        ensure!(sessions.len() > 1_000, "the log has work sessions");
        best = best.min(from.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// A gateway as a process of its own, so that its memory is its own.
struct Serving {
    child: Child,
    client: Client,
}

impl Serving {
    fn start(binary: &Path, dir: &StateDir) -> Result<Self> {
        let child = Command::new(binary)
            .args(["serve", "--state-dir"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("the gateway starts")?;
        let token = chela::settings::load(dir)?.tokens.owner().to_owned();
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Ok(Some(run)) = RunFile::read(dir)
                && run.pid == child.id()
                && let Some(address) = run.addresses.monitor
            {
                return Ok(Self { child, client: Client::new(address, Some(token)) });
            }
            ensure!(Instant::now() < until, "the gateway was not ready");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn health(&self, runtime: &Runtime) -> Result<Value> {
        Ok(runtime.block_on(self.client.get("/api/health"))?.json()["monitor"].clone())
    }

    fn wait_until_indexed(&self, runtime: &Runtime) -> Result<()> {
        while self.health(runtime)?["indexingPercent"].is_number() {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn wait_until_classified(&self, runtime: &Runtime) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(120);
        std::thread::sleep(Duration::from_millis(500));
        while self.health(runtime)?["leftToClassify"] != 0 {
            ensure!(Instant::now() < until, "the sessions were not classified in two minutes");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    async fn p99_ms(&self, path: &str) -> Result<f64> {
        let mut took = Vec::with_capacity(QUERIES);
        for _ in 0..QUERIES {
            let from = Instant::now();
            let answer = self.client.get(path).await?;
            took.push(from.elapsed());
            ensure!(answer.status == 200, "{path}: {}", answer.status);
        }
        Ok(rounded(micros(&mut took, 0.99) / 1e3))
    }

    fn peak_mb(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("a peak")?;
        let kb: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kb * 1024.0 / 1e6)
    }

    fn stop(mut self) -> Result<()> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Stopped already, most likely.
        let _ = self.child.kill();
    }
}
