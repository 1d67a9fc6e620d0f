//! What a flow between agents costs: made, taken up after a restart, and turn by turn, beside what the disk alone takes.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use chela::app::App;
use chela::jobs::Send;
use chela::session_key::SessionKey;
use chela_flow::DeliveryState;
use serde_json::{Value, json};

use crate::gateway::{directory, start_in};
use crate::traffic::{Schedule, two_commits};
use crate::{micros, rounded};

const FOR: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// Jobs that a restart finds unfinished.
const UNFINISHED: usize = 10_000;
/// Agents whose model takes its time, for jobs that are to stay open.
const SLOW: usize = 40;
/// Pairs that talk in parallel, and how often each begins a flow.
const PAIRS: usize = 200;
const EVERY: Duration = Duration::from_secs(6);
const TALK_FOR: Duration = Duration::from_secs(24);
const TURNS: u32 = 6;

pub fn run(binary: &Path) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = json!({});
    runtime.block_on(async {
        made(binary, &mut figures).await?;
        turns(binary, &mut figures).await
    })?;
    Ok(figures)
}

fn team(config: &mut Value, ids: impl Iterator<Item = String>, script: &Path) {
    config["limits"]["drainTimeoutMs"] = json!(0);
    config["runs"]["queue"] = json!(10_000);
    config["runs"]["concurrency"] = json!(10_000);
    config["providers"] = json!({ "script": { "kind": "scripted", "script": script } });
    let agents: Vec<Value> = ids.map(|id| json!({ "id": id, "role": "agent" })).collect();
    config["agents"] = json!({ "model": "script/any", "list": agents });
}

fn main_of(id: &str) -> Result<SessionKey> {
    SessionKey::parse(id).map_err(|error| anyhow!("{error}"))
}

async fn send(app: &App, from: &str, to: &str) -> Result<String> {
    let asked = Send {
        from: main_of(from)?,
        key: None,
        cause: None,
        target: main_of(to)?,
        to_agent: true,
        message: "please look at the deployment and tell what is open ".repeat(8),
        wait: Duration::ZERO,
        conversation_id: None,
        parent_conversation_id: None,
        work_session_id: None,
    };
    Ok(app.jobs().send(asked).await?.job.job_id.clone())
}

/// What this process has taken of all processors, threads that write behind included.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// A kilobyte appended and flushed, one after the other.
fn flushes(dir: &Path) -> Result<f64> {
    let mut file = std::fs::File::create(dir.join("flushes"))?;
    let (started, mut count) = (Instant::now(), 0u32);
    while started.elapsed() < FOR {
        file.write_all(&[b'x'; 1024])?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

async fn made(binary: &Path, figures: &mut Value) -> Result<()> {
    let scripts = tempfile::tempdir()?;
    let script = scripts.path().join("slow.json5");
    std::fs::write(&script, "{ rules: [{ steps: [{ say: 'late', delayMs: 300000 }] }] }")?;
    let ids = || (0..SLOW).map(|nth| format!("s{nth}"));
    let (_temp, dir) = directory(|config| team(config, ids(), &script))?;
    let (_empty, empty) = directory(|config| team(config, ids(), &script))?;
    let (mut single, mut many, mut bare, mut p99) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut busy, mut busy_for) = (Duration::ZERO, 0_u32);
    let mut made = Vec::new();
    let app = Arc::new(start_in(&dir, binary).await?);
    app.plugins().loaded().await;
    for _ in 0..ROUNDS {
        bare.push(flushes(dir.path())?);
        for (callers, rates) in [(1, &mut single), (16, &mut many)] {
            // No more than the restart below is to find.
            let left = (UNFINISHED - made.len()) / 2 / (ROUNDS);
            let before = processor_time();
            let (rate, mut took, ids) = create(&app, callers, left.min(if callers == 1 { 700 } else { 1_400 })).await?;
            made.extend(ids);
            rates.push(rate);
            if callers == 16 {
                busy += processor_time() - before;
                busy_for += u32::try_from(took.len())?;
                p99.push(micros(&mut took, 0.99) / 1_000.0);
            }
        }
    }
    for list in [&mut single, &mut many, &mut bare, &mut p99] {
        list.sort_by(f64::total_cmp);
    }
    let (single, many, bare) = (single[ROUNDS / 2], many[ROUNDS / 2], bare[ROUNDS / 2]);
    figures["create_per_s_1"] = json!(single.round());
    figures["create_per_s_16"] = json!(many.round());
    figures["fdatasync_per_s"] = json!(bare.round());
    figures["create_to_fdatasync_1"] = json!(rounded(single / bare));
    figures["create_to_fdatasync_16"] = json!(rounded(many / bare));
    figures["create_processor_us_16"] = json!(rounded((busy / busy_for.max(1)).as_secs_f64() * 1e6));
    figures["create_p99_ms_16"] = json!(rounded(p99[ROUNDS / 2]));
    eprintln!("made: {figures}");
    made.extend(create(&app, 16, UNFINISHED - made.len()).await?.2);
    let app = Arc::into_inner(app).context("nobody else holds it")?;
    app.stop().await.map_err(|error| anyhow!("{error}"))?;

    let begun = Instant::now();
    let nothing = start_in(&empty, binary).await?;
    let empty_ms = begun.elapsed().as_secs_f64() * 1e3;
    nothing.stop().await.map_err(|error| anyhow!("{error}"))?;
    let begun = Instant::now();
    let app = start_in(&dir, binary).await?;
    let start_ms = begun.elapsed().as_secs_f64() * 1e3;
    let listening = Instant::now();
    let in_lanes = queued(&app, ids())?;
    ensure!(in_lanes == UNFINISHED, "{in_lanes} of {UNFINISHED} are in their lanes when the listener is up");
    // Every job is driven on, which its record says.
    for id in &made {
        while app.jobs().get(id).await?.is_none_or(|job| job.resume_count != 1) {
            ensure!(listening.elapsed() < Duration::from_secs(60), "job {id} does not go on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    figures["unfinished"] = json!(UNFINISHED);
    figures["start_empty_ms"] = json!(rounded(empty_ms));
    figures["recover_ms"] = json!(rounded((start_ms - empty_ms).max(0.0)));
    figures["resume_10k_ms"] = json!(rounded(listening.elapsed().as_secs_f64() * 1e3));
    eprintln!("taken up: {figures}");
    app.stop().await.map_err(|error| anyhow!("{error}"))
}

/// Messages that run or wait in the lanes of agents, each lane in the order of acceptance.
fn queued(app: &App, agents: impl Iterator<Item = String>) -> Result<usize> {
    let mut count = 0;
    for agent in agents {
        let key = main_of(&agent)?;
        let waiting = app.sessions().waiting(&key);
        ensure!(waiting.is_sorted_by(|a, b| a.waiting_ms >= b.waiting_ms), "the lane of {agent} is out of order");
        count += waiting.len() + usize::from(app.sessions().running(&key).is_some());
    }
    Ok(count)
}

/// Makes so many jobs by so many callers; how many a second, how long each took, and their ids.
async fn create(app: &Arc<App>, callers: usize, count: usize) -> Result<(f64, Vec<Duration>, Vec<String>)> {
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (app, next) = (app.clone(), next.clone());
            tokio::spawn(async move {
                let (mut took, mut ids) = (Vec::new(), Vec::new());
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= count {
                        return anyhow::Ok((took, ids));
                    }
                    let begun = Instant::now();
                    // Each with each, and nobody with itself.
                    let other = (nth + 1 + nth / SLOW % (SLOW - 1)) % SLOW;
                    ids.push(send(&app, &format!("s{}", nth % SLOW), &format!("s{other}")).await?);
                    took.push(begun.elapsed());
                }
            })
        })
        .collect();
    let (mut all, mut ids) = (Vec::new(), Vec::new());
    for task in tasks {
        let (took, made) = task.await??;
        all.extend(took);
        ids.extend(made);
    }
    Ok((all.len() as f64 / started.elapsed().as_secs_f64(), all, ids))
}

async fn turns(binary: &Path, figures: &mut Value) -> Result<()> {
    let scripts = tempfile::tempdir()?;
    let script = scripts.path().join("quick.json5");
    std::fs::write(&script, "{ otherwise: 'go on' }")?;
    let ids = (0..PAIRS).flat_map(|nth| [format!("a{nth}"), format!("b{nth}")]);
    let (_temp, dir) = directory(|config| team(config, ids, &script))?;
    let schedule = Schedule { parties: PAIRS, every: EVERY, time: TALK_FOR };
    // The same number of turns as below, as two bare commits each.
    let bare = Schedule { every: EVERY / TURNS, ..schedule };
    let mut commits = two_commits(bare).await?;
    let app = Arc::new(start_in(&dir, binary).await?);
    app.plugins().loaded().await;
    let (talking, took) = (app.clone(), Arc::new(Mutex::new(Vec::new())));
    let taken = took.clone();
    let flows = schedule
        .run(move |nth| {
            let (app, taken) = (talking.clone(), taken.clone());
            async move {
                let (from, to) = (format!("a{}", nth % PAIRS), format!("b{}", nth % PAIRS));
                let begun = Instant::now();
                let id = send(&app, &from, &to).await?;
                let turns = turns_of(&app, &id, begun).await?;
                ensure!(turns.len() == TURNS as usize, "{} turns", turns.len());
                taken.lock().map_err(|_| anyhow!("another flow has failed"))?.extend(turns);
                Ok(())
            }
        })
        .await?;
    let mut turns = std::mem::take(&mut *took.lock().map_err(|_| anyhow!("a flow has failed"))?);
    figures["turn_overhead_p50_ms"] = json!(rounded(micros(&mut turns, 0.5) / 1e3));
    figures["turn_overhead_p99_ms"] = json!(rounded(micros(&mut turns, 0.99) / 1e3));
    figures["two_commits_p50_ms"] = json!(rounded(micros(&mut commits, 0.5) / 1e3));
    figures["two_commits_p99_ms"] = json!(rounded(micros(&mut commits, 0.99) / 1e3));
    figures["flows"] = json!(flows.len());
    let app = Arc::into_inner(app).context("nobody else holds it")?;
    app.stop().await.map_err(|error| anyhow!("{error}"))
}

/// How long each turn of a flow took: from the answer before, or the beginning, to its own; the last one to the end of the job.
async fn turns_of(app: &App, id: &str, begun: Instant) -> Result<Vec<Duration>> {
    let (mut took, mut last) = (Vec::new(), begun);
    // One that was over before anybody looked is known as a whole.
    let Some(mut job) = app.jobs().watch(id) else { return Ok(vec![begun.elapsed() / TURNS; TURNS as usize]) };
    loop {
        let (answered, is_over) = {
            let job = job.borrow_and_update();
            let answered = job.turns.iter().filter(|turn| turn.state == DeliveryState::Answered).count();
            (answered, job.status.is_terminal())
        };
        if answered > took.len() || is_over {
            let (now, is_end) = (Instant::now(), answered == took.len());
            match took.last_mut() {
                Some(turn) if is_end => *turn += now - last,
                // Steps that were seen as one took that long each, at the most.
                _ => took.resize(answered, now - last),
            }
            last = now;
        }
        if is_over {
            return Ok(took);
        }
        job.changed().await?;
    }
}
