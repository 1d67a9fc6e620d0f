//! What a life does until it is killed: a whole gateway, and threads that emit as fast as the disk lets them.
//! Keeps true: nothing is said to be acknowledged before it was.

use std::convert::Infallible;
use std::fs::File;
use std::io::{Write, stdout};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use chela::app::{App, Options};
use chela::bus::{self, Bus};
use chela::clock::Clock;
use chela::event::{Event, Kind};
use chela::layout::StateDir;
use chela::port::PerPort;
use serde_json::{Value, json};
use tokio::runtime::{Handle, Runtime};

use crate::mark::{LANES, Mark};

/// Small, so that kills fall around the closing of segments too.
const SEGMENT_BYTES: u64 = 256 * 1024;
/// Work sessions that all lives share.
const SESSIONS: u64 = 48;
/// Events of a lane that belong to one session before the next.
const RUN: u64 = 16;
/// Every so many events a message is longer than a page of memory, so that a kill can fall into the middle of a write.
const LONG_EVERY: u64 = 13;
const MESSAGES: [&str; 6] = [
    "배포 후 장애 대응이 필요합니다. 서버를 재시작하고 롤백하세요.",
    "Please review the pull request of the parser and merge it when the build is green.",
    "이번 분기 캠페인의 전환율을 정리해서 공유해 주세요.",
    "회귀 테스트를 한 번 더 돌려 주세요. Two cases of the checkout failed last night.",
    "What do users say about the new terms of service? Legal wants to know before Friday.",
    "경쟁사 세 곳의 가격표를 조사하고 비교표를 만들어 주세요.",
];

/// What a life is told.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long)]
    state_dir: PathBuf,
    /// Its number, from 1
    #[arg(long)]
    life: u32,
    /// The binary that compiles components
    #[arg(long)]
    chela: PathBuf,
}

struct Emitters {
    life: u32,
    bus: Bus,
    clock: Clock,
    runtime: Handle,
    /// How many events of each lane are certain.
    acknowledged: [AtomicU64; LANES],
    /// Standard output without a buffer: what was said here is in the pipe, whatever comes next.
    said: File,
}

/// Emits until it is killed; returns only if something fails.
pub fn run(arguments: Arguments) -> Result<()> {
    let runtime = Runtime::new().context("cannot start")?;
    let clock = Clock::system();
    let app = runtime.block_on(App::start(Options {
        dir: StateDir::new(arguments.state_dir),
        clock: clock.clone(),
        listen: PerPort::default(),
        compiler: arguments.chela,
        watched: None,
        segment_bytes: SEGMENT_BYTES,
    }))?;
    let emitters = Arc::new(Emitters {
        life: arguments.life,
        bus: app.bus().clone(),
        clock,
        runtime: runtime.handle().clone(),
        acknowledged: Default::default(),
        said: File::from(stdout().as_fd().try_clone_to_owned()?),
    });
    let (failed, failure) = channel();
    for lane in 0..LANES {
        let (emitters, failed) = (emitters.clone(), failed.clone());
        std::thread::spawn(move || {
            let Err(error) = emitters.emit(lane);
            // Another lane may have failed first.
            let _ = failed.send(error);
        });
    }
    let error = failure.recv().context("the lanes have died")?;
    runtime.shutdown_background();
    Err(error)
}

impl Emitters {
    fn emit(&self, lane: usize) -> Result<Infallible> {
        for n in 0.. {
            let after = self.acknowledged.iter().map(|count| count.load(Ordering::Acquire)).collect();
            let event = self.event(Mark { life: self.life, lane, n, after });
            // What nobody waits for goes between what somebody does.
            if n % 4 >= 2 {
                self.bus.emit_event(event)?;
                continue;
            }
            self.runtime.block_on(self.bus.emit_durable(event))?;
            self.acknowledged[lane].store(n + 1, Ordering::Release);
            (&self.said).write_all(format!("{lane} {}\n", n + 1).as_bytes())?;
        }
        unreachable!("nobody emits so many events")
    }

    /// Something of everything that the index adds up: threads, tasks, spawns, ends, and events that name no session.
    fn event(&self, mark: Mark) -> Event {
        let Mark { life, lane, n, .. } = mark;
        let session = (u64::from(life) * 5 + lane as u64 * 7 + n / RUN) % SESSIONS;
        let (task, conversation) = (format!("task_{session}"), format!("c{session}-{}", n % 3));
        let message = MESSAGES[((session + n) % MESSAGES.len() as u64) as usize];
        let message = if n % LONG_EVERY == 0 { message.repeat(100) } else { message.to_owned() };
        let (kind, facts) = match n % 8 {
            0 | 5 => (Kind::A2aSend, json!({ "message": message, "conversationId": conversation })),
            1 => (Kind::A2aResponse, json!({ "message": message, "conversationId": conversation })),
            2 => (Kind::TaskStarted, json!({ "taskId": task, "title": message })),
            3 => (Kind::A2aSpawn, json!({ "message": message, "runId": conversation })),
            4 => (Kind::A2aSpawnResult, json!({ "status": "ok", "runId": conversation })),
            6 => (Kind::TaskUpdated, json!({ "taskId": task, "action": "step" })),
            _ => (Kind::A2aComplete, json!({ "conversationId": conversation })),
        };
        let mut data = bus::data(facts);
        if kind != Kind::TaskUpdated {
            data.insert("workSessionId".into(), json!(format!("ws_{session}")));
        }
        data.insert("fromAgent".into(), json!("eden"));
        data.insert("toAgent".into(), Value::from(["seum", "ieum"][lane % 2]));
        data.insert("mark".into(), json!(mark));
        Event::of("eden", kind, self.clock.now(), data)
    }
}
