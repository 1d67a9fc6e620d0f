//! Flows between agents, as a test sees them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::TestHost;

impl TestHost {
    /// Sends from one agent to another without waiting; gives the job's id.
    pub fn send_job(&self, from: &str, to: &str, message: &str) -> String {
        let args = json!({ "agentId": to, "message": message, "timeoutSeconds": 0 });
        let answer = self.tool(from, "sessions_send", args);
        assert_eq!(answer["status"], "accepted", "{answer}");
        answer["runId"].as_str().expect("a job").to_owned()
    }

    pub fn job(&self, id: &str) -> Value {
        self.call("jobs.get", json!({ "id": id })).expect("a job")["job"].clone()
    }

    /// Waits until a job has ended, moving the clock.
    pub fn job_ended(&self, id: &str) -> Value {
        self.eventually("a job has ended", || {
            self.clock.advance(Duration::from_millis(500));
            Some(self.job(id)).filter(|job| !job["finishedAt"].is_null())
        })
    }

    /// What is told of a job, in short: the type, and for responses the turn, who answers, and whether it was blocked.
    pub fn told_of(&self, id: &str) -> Vec<String> {
        let of_job = |event: &Value| event["data"]["jobId"] == id && event["type"] != "a2a.delivery";
        let word = |event: &Value| {
            let (kind, data) = (event["type"].as_str().expect("a type"), &event["data"]);
            let late = if data["late"] == json!(true) { " late" } else { "" };
            let outcome = data["outcome"].as_str().map(|outcome| format!(" {outcome}")).unwrap_or_default();
            match kind {
                "a2a.response" => {
                    format!("{kind} {} {}{outcome}{late}", data["turn"], data["fromAgent"].as_str().unwrap_or_default())
                }
                _ => format!("{kind}{outcome}"),
            }
        };
        // What may not have reached the log before a stop is told again under its id, and is one event all the same.
        let mut seen = std::collections::HashSet::new();
        let events = self.events();
        let once = events.iter().filter(|event| of_job(event) && seen.insert(event["id"].to_string()));
        once.map(word).collect()
    }
}
