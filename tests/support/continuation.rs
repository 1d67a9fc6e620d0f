//! Agents that are kept at their tasks, as a test sees it: a clock that moves step by step, prompts, and what is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{TestDir, TestHost, eventually};

/// Numbers messages, so that each has a key of its own.
static SAID: AtomicU64 = AtomicU64::new(0);

/// A team that answers by itself: nobody retries, nobody waits for a stop.
pub fn lonely(config: &mut Value) {
    config["providers"]["demo"]["retries"] = json!(0);
    config["limits"]["drainTimeoutMs"] = json!(0);
    for agent in config["agents"]["list"].as_array_mut().expect("a team") {
        agent["role"] = json!("agent");
    }
}

impl TestHost {
    /// A gateway whose agents answer from a script, with its components loaded.
    pub fn driven(script: &str, edit: impl FnOnce(&mut Value)) -> Self {
        let host = Self::scripted_with(script, |config| {
            lonely(config);
            edit(config);
        });
        host.block_on(host.plugins().loaded());
        host
    }

    /// Sends a person's message and waits for the end of its run, with the clock standing still.
    pub fn say(&self, agent: &str, text: &str) -> Value {
        let key = format!("said-{}", SAID.fetch_add(1, Ordering::Relaxed));
        self.call("agent", json!({ "agentId": agent, "message": text, "idempotencyKey": key })).expect("accepted");
        self.has_ended(&key)
    }

    /// Waits for the end of a run without moving the clock.
    pub fn has_ended(&self, run: &str) -> Value {
        eventually("a run has ended", || {
            let answer = self.call("agent.wait", json!({ "runId": run, "timeoutMs": 0 })).expect("answered");
            answer.get("endedAt").is_some().then_some(answer)
        })
    }

    /// How an agent is kept at its task.
    pub fn kept(&self, agent: &str) -> Value {
        let (status, current) = self.get(&format!("/api/agents/{agent}/current"));
        assert_eq!(status, 200, "{current}");
        current["continuation"].clone()
    }

    /// Waits, with the clock standing still, until something is planned for an agent by a timer; gives its layer and how far off it is.
    pub fn planned(&self, agent: &str) -> (String, u64) {
        eventually("something is planned", || {
            let next = self.kept(agent)["next"].clone();
            let layer = next["layer"].as_str().filter(|layer| *layer != "polling")?.to_owned();
            Some((layer, next["at"].as_u64()?.saturating_sub(self.clock.now().0)))
        })
    }

    /// The task that an agent works on.
    pub fn active(&self, agent: &str) -> Option<String> {
        let (_, current) = self.get(&format!("/api/agents/{agent}/current"));
        current["task"]["id"].as_str().map(str::to_owned)
    }

    /// Types of events about tasks and continuations since the start, each as often as it came.
    pub fn course(&self) -> Vec<String> {
        let is_meant = |kind: &str| {
            ["continuation.", "zombie.", "unblock."].iter().any(|group| kind.starts_with(group))
                || ["task.started", "task.blocked", "task.completed", "task.backlog_picked", "task.abandoned"]
                    .contains(&kind)
        };
        let mut seen = std::collections::HashSet::new();
        let once = self.events().into_iter().filter(|event| seen.insert(event["id"].to_string()));
        let types = once.map(|event| event["type"].as_str().unwrap_or_default().to_owned());
        types.filter(|kind| is_meant(kind)).collect()
    }

    pub fn pass(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    /// The prompts of the gateway to an agent, oldest first.
    pub fn prompts(&self, agent: &str) -> Vec<String> {
        self.dir.prompts(agent)
    }

    /// The runs of these prompts.
    pub fn prompt_runs(&self, agent: &str) -> Vec<String> {
        let run = |row: &Value| {
            let key = row["idempotencyKey"].as_str()?;
            key.strip_suffix(":user").filter(|run| run.starts_with("continuation:")).map(str::to_owned)
        };
        self.dir.transcript_so_far(agent).iter().filter_map(run).collect()
    }

    /// Waits, with the clock standing still, until nothing of an agent runs, waits or is on its way, and what was due has been done.
    pub fn let_be(&self, agent: &str) -> Value {
        let mut calm = 0;
        eventually("an agent is at rest", || {
            let kept = self.kept(agent);
            let occupied = self.app().sessions().occupied().keys().any(|id| id.as_ref() == agent);
            let past = kept["next"]["at"].as_u64().is_some_and(|at| at <= self.clock.now().0);
            // A jump of minutes is made only after a while of calm: news of an end may be on their way.
            let wanted = if kept["next"]["layer"] == "polling" { 30 } else { 3 };
            calm = if occupied || past || kept["busy"] == true { 0 } else { calm + 1 };
            (calm >= wanted).then_some(kept)
        })
    }

    /// Lets time pass to the next thing that is planned for an agent, and what follows from it happen. False if nothing is planned.
    pub fn turn(&self, agent: &str) -> bool {
        let next = self.let_be(agent)["next"].clone();
        let Some(at) = next["at"].as_u64() else { return false };
        self.pass(at.saturating_sub(self.clock.now().0));
        self.let_be(agent);
        true
    }

    /// Lets half seconds pass until `done`, as long as something is planned or a run goes on.
    pub fn drive(&self, what: &str, mut done: impl FnMut() -> bool) {
        eventually(what, || {
            self.pass(500);
            std::thread::sleep(Duration::from_millis(2));
            done().then_some(())
        });
    }

    /// A task's status and why it is blocked.
    pub fn standing(&self, task: &str) -> (String, String, String) {
        let task = self.task(task);
        let word = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
        (word("status"), word("blockedKind"), word("blockedReason"))
    }
}

impl TestDir {
    /// The prompts of the gateway in an agent's transcripts, oldest first.
    pub fn prompts(&self, agent: &str) -> Vec<String> {
        let of_gateway = |row: &Value| row["role"] == "user" && row["provenance"]["kind"] == "internal_system";
        self.transcript_so_far(agent).iter().filter(|row| of_gateway(row)).map(chela::sessions::text_of).collect()
    }
}
