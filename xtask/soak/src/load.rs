//! The work: agents that do tasks, ask each other, and are spoken to by people. Keeps true: what was acknowledged is noted here, and a call
//! that a kill cut off is made again under its key. The pace follows the events that the gateway counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use discord_server::{Discord, Said};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::Stop;
use crate::gateway::Way;
use crate::measure::Ended;

const AGENTS: [&str; 3] = ["ruda", "eden", "seum"];
/// Sessions that flows go to, so that no transcript gets all of them.
const SESSIONS: u64 = 40;
const STEPS: usize = 4;

pub struct Load {
    way: Way,
    discord: Arc<Discord>,
    rate: u32,
    /// Between two calls of one agent, in microseconds.
    pause_us: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
    /// Jobs by the key of their call, once acknowledged.
    flows: Mutex<BTreeMap<String, String>>,
    calls: AtomicU64,
    refused: AtomicU64,
    tasks: AtomicU64,
    said: AtomicU64,
    counted: Mutex<Option<(Instant, u64)>>,
}

impl Load {
    pub fn new(way: Way, discord: Arc<Discord>, rate: u32) -> Self {
        Self {
            way,
            discord,
            rate,
            pause_us: AtomicU64::new(40_000),
            latencies: Mutex::default(),
            flows: Mutex::default(),
            calls: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            tasks: AtomicU64::new(0),
            said: AtomicU64::new(0),
            counted: Mutex::default(),
        }
    }

    pub fn spawn(self: Arc<Self>, stop: &Stop) -> Vec<JoinHandle<()>> {
        let mut tasks: Vec<JoinHandle<()>> = AGENTS
            .iter()
            .map(|agent| {
                let (load, stop) = (self.clone(), stop.clone());
                tokio::spawn(async move { load.do_tasks(agent, &stop).await })
            })
            .collect();
        let (load, stop_flows) = (self.clone(), stop.clone());
        tasks.push(tokio::spawn(async move { load.begin_flows(&stop_flows).await }));
        let (load, stop_talk) = (self, stop.clone());
        tasks.push(tokio::spawn(async move { load.talk(&stop_talk).await }));
        tasks
    }

    async fn do_tasks(&self, agent: &str, stop: &Stop) {
        for nth in 0_u64.. {
            if *stop.borrow() {
                return;
            }
            let steps: Vec<Value> = (0..STEPS).map(|step| json!({ "content": format!("step {step}") })).collect();
            let key = |what: &str| format!("soak-{agent}-{nth}-{what}");
            let begin = json!({ "description": format!("soak {nth}: OAuth 로그인 구현"), "steps": steps });
            let Some(begun) = self.call(agent, "task_start", begin, &key("start"), stop).await else { return };
            let task = begun["taskId"].clone();
            for step in 0..STEPS {
                let note = json!({ "task_id": task, "progress": format!("at step {step}") });
                self.call(agent, "task_update", note, &key(&format!("note-{step}")), stop).await;
                let done = json!({ "task_id": task, "action": "complete_step" });
                self.call(agent, "task_update", done, &key(&format!("step-{step}")), stop).await;
            }
            let end = json!({ "task_id": task, "summary": "done", "force_complete": "true" });
            if self.call(agent, "task_complete", end, &key("end"), stop).await.is_some() {
                self.tasks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Calls a tool until it is answered; none where the soak ended before.
    async fn call(&self, agent: &str, tool: &str, args: Value, key: &str, stop: &Stop) -> Option<Value> {
        let body = json!({ "tool": tool, "args": args, "sessionKey": format!("agent:{agent}"), "idempotencyKey": key });
        tokio::time::sleep(Duration::from_micros(self.pause_us.load(Ordering::Relaxed))).await;
        loop {
            let open = self.way.clone().open().await.ok()?;
            let begun = Instant::now();
            match open.client.invoke_tool(&body).await {
                Ok(answer) => {
                    self.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(begun.elapsed());
                    self.calls.fetch_add(1, Ordering::Relaxed);
                    if answer["success"] == json!(false) {
                        self.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    return Some(answer);
                }
                Err(_) if *stop.borrow() => return None,
                // Killed in the middle, or still starting.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn begin_flows(&self, stop: &Stop) {
        for nth in 0_u64.. {
            if *stop.borrow() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (from, to) = (AGENTS[nth as usize % 3], AGENTS[(nth as usize + 1) % 3]);
            let key = format!("soak-flow-{nth}");
            let args = json!({
                "sessionKey": format!("agent:{to}:direct:{}", nth % SESSIONS), "message": format!("please do {key}"),
                "timeoutSeconds": 0,
            });
            let Some(answer) = self.call(from, "sessions_send", args, &key, stop).await else { return };
            if let Some(job) = answer["runId"].as_str() {
                let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
                flows.insert(key, job.to_owned());
            }
        }
    }

    async fn talk(&self, stop: &Stop) {
        while !*stop.borrow() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Nobody who is not there is spoken to: what a network keeps for them is not what is tried here.
            if self.discord.connected() > 0 {
                self.discord.say(Said::to_bot("good morning"));
                self.said.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub fn take_latencies(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.latencies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Events a second since it was last asked; goes faster or slower by that.
    pub async fn pace(&self) -> u64 {
        let Ok(open) = self.way.clone().open().await else { return 0 };
        let Ok(page) = open.client.get("/metrics").await else { return 0 };
        let text = String::from_utf8_lossy(&page.body).into_owned();
        let total = text.lines().find_map(|line| line.strip_prefix("chela_events_total ")?.parse::<u64>().ok());
        let Some(total) = total else { return 0 };
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let before = counted.replace((Instant::now(), total)).filter(|(_, before)| *before <= total);
        let Some((since, before)) = before else { return 0 };
        let rate = (total - before) as f64 / since.elapsed().as_secs_f64();
        let factor = (rate / f64::from(self.rate)).clamp(0.8, 1.25);
        let pause = self.pause_us.load(Ordering::Relaxed) as f64 * factor;
        self.pause_us.store(pause.clamp(100.0, 1_000_000.0) as u64, Ordering::Relaxed);
        rate.round() as u64
    }

    /// Waits until all that was begun has ended, and tells what became of it.
    pub async fn finish(&self, patience: Duration) -> Result<Ended> {
        let until = Instant::now() + patience;
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let said = self.said.load(Ordering::Relaxed);
        let mut ended = Ended {
            flows: flows.len() as u64,
            tasks: self.tasks.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
            calls_refused: self.refused.load(Ordering::Relaxed),
            chat_messages: said,
            ..Ended::default()
        };
        let open = self.way.clone().open().await?;
        for (key, job) in flows {
            loop {
                let found = open.client.call("jobs.get", json!({ "id": job })).await;
                let Ok(found) = found else {
                    ended.flows_lost += 1;
                    eprintln!("lost: job {job} of {key}");
                    break;
                };
                match found["status"].as_str().context("a status")? {
                    "COMPLETED" => break,
                    "PENDING" | "RUNNING" if Instant::now() < until => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    "PENDING" | "RUNNING" => {
                        ended.flows_unfinished += 1;
                        break;
                    }
                    other => {
                        ended.flows_failed += 1;
                        eprintln!("{other}: job {job} of {key}: {found}");
                        break;
                    }
                }
            }
        }
        while (self.discord.sent().len() as u64) < said && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ended.chat_answers = self.discord.sent().len() as u64;
        Ok(ended)
    }
}
