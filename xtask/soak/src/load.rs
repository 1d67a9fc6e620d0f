//! The work: agents that do tasks in their runs, ask each other, are spoken to by people, and are looked at by programs. Keeps true: what was
//! acknowledged is noted here, and a call that a kill cut off is made again under its key. The pace follows the events that the gateway counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chela::client::Client;
use discord_server::{Discord, Said, Sent};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::Stop;
use crate::gateway::Way;
use crate::measure::Ended;

const AGENTS: [&str; 3] = ["ruda", "eden", "seum"];
/// Conversations of each agent, so that no transcript gets everything.
const SESSIONS: u64 = 40;
/// What programs ask for all the time.
const LOOKS: [&str; 5] = [
    "/api/tasks?limit=20",
    "/api/events?limit=50",
    "/api/work-sessions?limit=20",
    "/api/agents/eden/current",
    "/api/team-state",
];
/// Between two looks of a program.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the agents do: a whole task in one run, from its start to its end; and now and then they sum up what was said.
pub const SCRIPT: &str = r#"{ rules: [
    { when: "summarise this conversation for yourself", steps: [{ say: "Tasks were done, one after the other; nothing is open." }] },
    { when: "please work", steps: [
        { call: { tool: "task_start", args: { description: "{{input}}: OAuth 로그인 구현", steps: [
            { content: "look" }, { content: "build" }, { content: "check" }, { content: "tell" } ] } } },
        { call: { tool: "task_update", args: { progress: "looked", action: "complete_step" } } },
        { call: { tool: "task_update", args: { progress: "built", action: "complete_step" } } },
        { call: { tool: "task_update", args: { progress: "checked", action: "complete_step" } } },
        { call: { tool: "task_update", args: { progress: "told", action: "complete_step" } } },
        { call: { tool: "task_complete", args: { summary: "done" } } },
        { say: "{{result.taskId}} is done" } ] },
  ], otherwise: "done: {{input}}" }"#;

pub struct Load {
    way: Way,
    discord: Arc<Discord>,
    rate: u32,
    /// Between two messages to one agent, in microseconds.
    pause_us: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
    /// Jobs by the key of their call, once acknowledged.
    flows: Mutex<BTreeMap<String, String>>,
    calls: AtomicU64,
    refused: AtomicU64,
    /// Runs that were acknowledged, each with one task to do, by their key.
    runs: Mutex<BTreeSet<String>>,
    /// Messages of people, by their id.
    said: Mutex<BTreeSet<u64>>,
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
            runs: Mutex::default(),
            said: Mutex::default(),
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
        let (load, stop_looks) = (self.clone(), stop.clone());
        tasks.push(tokio::spawn(async move { load.look(&stop_looks).await }));
        let (load, stop_talk) = (self, stop.clone());
        tasks.push(tokio::spawn(async move { load.talk(&stop_talk).await }));
        tasks
    }

    /// One message after the other, each when the one before it has been answered: an agent works on one task at a time.
    async fn do_tasks(&self, agent: &str, stop: &Stop) {
        for nth in 0_u64.. {
            tokio::time::sleep(Duration::from_micros(self.pause_us.load(Ordering::Relaxed))).await;
            if *stop.borrow() {
                return;
            }
            let key = format!("soak-{agent}-{nth}");
            let send = json!({
                "sessionKey": session(agent, nth % SESSIONS), "message": format!("please work on {key}"), "idempotencyKey": key,
            });
            if self.asked(stop, |client| call(client, "agent", send.clone())).await.is_none() {
                return;
            }
            held(&self.runs).insert(key.clone());
            loop {
                let wait = json!({ "runId": key, "timeoutMs": 5_000 });
                // Not counted: how long a run takes is no measure of the door.
                let Ok(open) = self.way.clone().open().await else { return };
                match open.client.call("agent.wait", wait).await {
                    Ok(ended) if ended.get("endedAt").is_some() => break,
                    _ if *stop.borrow() => return,
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        }
    }

    /// A program that looks at the team again and again.
    async fn look(&self, stop: &Stop) {
        for path in LOOKS.iter().cycle() {
            tokio::time::sleep(LOOK_EVERY).await;
            let looked = self.asked(stop, |client| async move {
                let answer = client.get(path).await?;
                Ok(json!({ "success": answer.status == 200 || answer.json()["error"]["code"] == "indexing" }))
            });
            if *stop.borrow() || looked.await.is_none() {
                return;
            }
        }
    }

    /// Asks until there is an answer; none where the soak ended before.
    async fn asked<F: Future<Output = Result<Value, chela::client::Error>>>(
        &self,
        stop: &Stop,
        ask: impl Fn(Client) -> F,
    ) -> Option<Value> {
        loop {
            let open = self.way.clone().open().await.ok()?;
            let begun = Instant::now();
            match ask(open.client).await {
                Ok(answer) => {
                    held(&self.latencies).push(begun.elapsed());
                    self.calls.fetch_add(1, Ordering::Relaxed);
                    if answer["success"] == json!(false) {
                        self.refuse(&answer.to_string());
                    }
                    return Some(answer);
                }
                Err(chela::client::Error::Refused(error)) => {
                    self.refuse(&error.message);
                    return Some(Value::Null);
                }
                Err(_) if *stop.borrow() => return None,
                // Killed in the middle, or still starting.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn refuse(&self, said: &str) {
        // The first few tell what the rest would.
        if self.refused.fetch_add(1, Ordering::Relaxed) < 5 {
            eprintln!("refused: {said}");
        }
    }

    /// Makes the conversations that flows go to.
    pub async fn open_sessions(&self) -> Result<()> {
        let client = self.way.clone().open().await?.client.with_patience(Duration::from_secs(60));
        for (agent, nth) in AGENTS.iter().flat_map(|agent| (0..SESSIONS).map(move |nth| (agent, nth))) {
            client.call("sessions.create", json!({ "key": session(agent, nth) })).await?;
        }
        Ok(())
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
                "sessionKey": session(to, nth % SESSIONS), "message": format!("what about {key}?"), "timeoutSeconds": 0,
            });
            let body = json!({
                "tool": "sessions_send", "args": args, "sessionKey": format!("agent:{from}"), "idempotencyKey": key,
            });
            let sent = self.asked(stop, |client| {
                let body = body.clone();
                async move { client.invoke_tool(&body).await }
            });
            let Some(answer) = sent.await else { return };
            if let Some(job) = answer["runId"].as_str() {
                held(&self.flows).insert(key, job.to_owned());
            }
        }
    }

    async fn talk(&self, stop: &Stop) {
        while !*stop.borrow() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Nobody who is not there is spoken to: what a network keeps for them is not what is tried here.
            if self.discord.connected() > 0 {
                let id = self.discord.say(Said::to_bot("good morning"));
                held(&self.said).insert(id);
            }
        }
    }

    pub fn take_latencies(&self) -> Vec<Duration> {
        std::mem::take(&mut *held(&self.latencies))
    }

    /// Events a second since it was last asked; goes faster or slower by that.
    pub async fn pace(&self) -> u64 {
        let Ok(open) = self.way.clone().open().await else { return 0 };
        let Ok(total) = counter(&open.client, "chela_events_total").await else { return 0 };
        let mut counted = held(&self.counted);
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
        let (runs, flows, said) = (held(&self.runs).clone(), held(&self.flows).clone(), held(&self.said).clone());
        let mut ended = Ended {
            flows: flows.len() as u64,
            runs: runs.len() as u64,
            calls: self.calls.load(Ordering::Relaxed),
            calls_refused: self.refused.load(Ordering::Relaxed),
            chat_messages: said.len() as u64,
            ..Ended::default()
        };
        let open = self.way.clone().open().await?;
        for key in runs {
            loop {
                let answer = open.client.call("agent.wait", json!({ "runId": key, "timeoutMs": 1_000 })).await;
                let status = answer.as_ref().ok().and_then(|answer| answer["status"].as_str()).unwrap_or("lost");
                match status {
                    "ok" => break,
                    "timeout" if Instant::now() < until => {}
                    other => {
                        ended.runs_lost += 1;
                        if ended.runs_lost <= 5 {
                            eprintln!("{other}: run {key}: {answer:?}");
                        }
                        break;
                    }
                }
            }
        }
        for (key, job) in flows {
            loop {
                let found = open.client.call("jobs.get", json!({ "id": job })).await;
                let Ok(found) = found else {
                    ended.flows_lost += 1;
                    eprintln!("lost: job {job} of {key}");
                    break;
                };
                match found["job"]["status"].as_str().context("a job has a status")? {
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
        // One that was cut off by a kill is answered when the connection is resumed.
        let answered = || -> Vec<u64> { self.discord.sent().iter().filter_map(Sent::answers).collect() };
        let open_messages =
            || said.len() - answered().into_iter().collect::<BTreeSet<u64>>().intersection(&said).count();
        while open_messages() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let answers = answered();
        ended.chat_unanswered = open_messages() as u64;
        ended.chat_answered_twice = (answers.len() - answers.into_iter().collect::<BTreeSet<u64>>().len()) as u64;
        ended.events_refused = counter(&open.client, "chela_events_failed_total").await?;
        Ok(ended)
    }

    /// How many tasks were to be done and are not told as done in the log, or more than once.
    pub fn tasks_missing_in(&self, events: &[Value]) -> u64 {
        // What is told again after a kill has the id that it had.
        let mut seen = BTreeSet::new();
        let once = events.iter().filter(|event| seen.insert(event["id"].as_str().unwrap_or_default()));
        let mut told: BTreeMap<&str, u64> = BTreeMap::new();
        for event in once.filter(|event| event["type"] == "task.completed") {
            *told.entry(event["data"]["taskId"].as_str().unwrap_or_default()).or_default() += 1;
        }
        let (wanted, doubled) =
            (held(&self.runs).len() as u64, told.values().filter(|times| **times > 1).count() as u64);
        wanted.abs_diff(told.len() as u64) + doubled
    }
}

async fn call(client: Client, method: &'static str, params: Value) -> Result<Value, chela::client::Error> {
    client.call(method, params).await
}

fn session(agent: &str, nth: u64) -> String {
    format!("agent:{agent}:direct:{nth}")
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One number of the gateway's own count.
async fn counter(client: &Client, name: &str) -> Result<u64> {
    let page = client.get("/metrics").await?;
    let text = String::from_utf8_lossy(&page.body).into_owned();
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    found.with_context(|| format!("{name} is counted"))
}
