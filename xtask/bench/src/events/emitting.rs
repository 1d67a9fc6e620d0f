//! Emitting from several threads against serialising into nothing; waiting for the disk together against one flush each.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use chela::bus::{self, Bus};
use chela::clock::{Clock, Timestamp};
use chela::event::{Event, Kind};
use chela::layout::StateDir;
use chela::metrics::Metrics;
use chela_storage::journal::{Committer, Journal, Options, Transaction};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::rounded;

const THREADS: u64 = 4;
const EVENTS: u64 = 200_000;
const ROUNDS: usize = 5;
const CALLERS: u64 = 64;
const DURABLE_FOR: Duration = Duration::from_secs(3);

pub fn run(runtime: &Runtime, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("emitting …");
    let (mut emit, mut serialise, mut flushed) = (0.0_f64, 0.0_f64, 0.0_f64);
    // Side by side, several times: the machine is not the same from one second to the next.
    for _ in 0..ROUNDS {
        serialise = serialise.max(per_second(THREADS * EVENTS, || threads(|n| drop(serialised(n)))));
        let (emitted, written) = emit_all(runtime)?;
        emit = emit.max(emitted);
        flushed = flushed.max(written);
    }
    figures.insert("emit_per_s".into(), json!(emit.round()));
    figures.insert("emit_flushed_per_s".into(), json!(flushed.round()));
    figures.insert("serialise_per_s".into(), json!(serialise.round()));
    figures.insert("emit_ratio".into(), json!(rounded(emit / serialise)));
    eprintln!("waiting for the disk …");
    let each = one_flush_each()?;
    let durable = together(runtime)?;
    let journal = journal()?;
    figures.insert("fsync_each_per_s".into(), json!(each.round()));
    figures.insert("durable_per_s".into(), json!(durable.round()));
    figures.insert("durable_ratio".into(), json!(rounded(durable / each)));
    figures.insert("journal_per_s".into(), json!(journal.round()));
    figures.insert("journal_ratio".into(), json!(rounded(journal / each)));
    Ok(())
}

fn event(n: u64) -> Event {
    let data = json!({
        "fromAgent": "eden", "toAgent": "seum", "conversationId": "0192f0c1-7e4a-7b3c-9a51-0d7f3b8e2a10", "workSessionId": "ws_0192f0c1",
        "fromSessionType": "main", "toSessionType": "main", "runId": "0192f0c1-7e4a-7b3c-9a51-0d7f3b8e2a11", "turn": n,
        "message": "결제 모듈 배포 전에 회귀 점검을 한 번 더 돌려 주세요. The staging cluster is ready.",
    });
    Event::of("eden", Kind::A2aSend, Timestamp(1_790_000_000_000 + n), bus::data(data))
}

fn serialised(n: u64) -> Vec<u8> {
    serde_json::to_vec(&event(n)).expect("plain JSON")
}

fn threads(work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || (0..EVENTS).for_each(|n| work(thread * EVENTS + n)));
        }
    });
}

fn per_second(count: u64, work: impl FnOnce()) -> f64 {
    let from = Instant::now();
    work();
    count as f64 / from.elapsed().as_secs_f64()
}

fn open() -> Result<(tempfile::TempDir, Bus)> {
    let temp = tempfile::tempdir()?;
    let dir = StateDir::new(temp.path());
    std::fs::create_dir_all(dir.logs())?;
    let bus = Bus::open(
        &dir,
        Clock::system(),
        Metrics::default(),
        bus::Keeping {
            group: Duration::from_millis(5),
            segment_bytes: bus::SEGMENT_BYTES,
            keep: Duration::MAX,
            bytes_max: u64::MAX,
        },
    )?;
    Ok((temp, bus))
}

/// Events a second that emitters could hand over, and that were on the disk in the end.
fn emit_all(runtime: &Runtime) -> Result<(f64, f64)> {
    let (_temp, bus) = open()?;
    let from = Instant::now();
    threads(|n| {
        while let Err(error) = bus.emit_event(event(n)) {
            // As many wait as may: the emitter is told, and here it tries again.
            assert!(matches!(error, bus::Error::Behind { .. }), "{error}");
            std::thread::yield_now();
        }
    });
    let emitted = (THREADS * EVENTS) as f64 / from.elapsed().as_secs_f64();
    runtime.block_on(bus.close())?;
    Ok((emitted, (THREADS * EVENTS) as f64 / from.elapsed().as_secs_f64()))
}

fn one_flush_each() -> Result<f64> {
    let temp = tempfile::tempdir()?;
    let mut file = OpenOptions::new().create(true).append(true).open(temp.path().join("log"))?;
    let (from, mut count) = (Instant::now(), 0_u64);
    while from.elapsed() < DURABLE_FOR {
        let mut line = serialised(count);
        line.push(b'\n');
        file.write_all(&line)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(count as f64 / from.elapsed().as_secs_f64())
}

fn together(runtime: &Runtime) -> Result<f64> {
    let (_temp, bus) = open()?;
    let count = Arc::new(AtomicU64::new(0));
    let from = Instant::now();
    runtime.block_on(async {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (bus, count) = (bus.clone(), count.clone());
                tokio::spawn(async move {
                    while from.elapsed() < DURABLE_FOR {
                        let n = count.fetch_add(1, Ordering::Relaxed);
                        bus.emit_durable(event(n)).await.expect("the disk takes it");
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.expect("a caller ends");
        }
    });
    Ok(count.load(Ordering::Relaxed) as f64 / from.elapsed().as_secs_f64())
}

fn journal() -> Result<f64> {
    let temp = tempfile::tempdir()?;
    let (journal, _) = Journal::open(&temp.path().join("journal"), Options::new(temp.path().join("aside")))?;
    let committer = Committer::start(journal, 4_096, |_| {})?;
    let count = AtomicU64::new(0);
    let from = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while from.elapsed() < DURABLE_FOR {
                    let n = count.fetch_add(1, Ordering::Relaxed);
                    let mut transaction = Transaction::new();
                    transaction.put("job", &format!("job-{}", n % 1_000), &serialised(n)).expect("fits");
                    committer.commit(transaction).expect("the disk takes it");
                }
            });
        }
    });
    let rate = count.load(Ordering::Relaxed) as f64 / from.elapsed().as_secs_f64();
    drop(committer);
    Ok(rate)
}
