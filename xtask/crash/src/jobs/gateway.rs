//! Agents of a gateway that ask the model server, and what the client asks of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow};
use chela::config::Starter;
use chela::layout::StateDir;
use serde_json::{Value, json};

use crate::gateway::Gateway;

pub fn configure(dir: &StateDir, model: SocketAddr, agents: usize) -> Result<()> {
    chela::app::init(dir, &Starter::default())?;
    let mut config: Value = serde_json::from_slice(&std::fs::read(dir.config())?)?;
    for listener in ["gateway", "monitor", "hub"] {
        config[listener]["listen"] = json!("127.0.0.1:0");
    }
    config["limits"]["requestsPerSecond"] = json!(1_000_000);
    config["limits"]["requestsBurst"] = json!(1_000_000);
    config["providers"] = json!({ "server": { "kind": "openai", "baseUrl": format!("http://{model}/v1") } });
    let agent = |nth: usize| json!({ "id": format!("a{nth}"), "role": "agent" });
    config["agents"] = json!({ "model": "server/m", "list": (0..agents).map(agent).collect::<Vec<_>>() });
    config["session"]["agentToAgent"]["maxPingPongTurns"] = json!(2);
    config["a2a"]["backoffMs"] = json!(50);
    std::fs::write(dir.config(), config.to_string()).context("cannot write the configuration")
}

impl Gateway {
    /// Begins a flow; gives its job once that is acknowledged.
    pub fn send(&self, key: &str, from: usize, to: usize) -> Result<String> {
        let body = json!({
            "tool": "sessions_send", "sessionKey": format!("a{from}"), "idempotencyKey": key,
            "args": { "agentId": format!("a{to}"), "message": format!("please do {key}"), "timeoutSeconds": 0 },
        });
        let answer = self.runtime.block_on(self.client.invoke_tool(&body))?;
        let job = answer["runId"].as_str().filter(|_| answer["status"] == "accepted");
        job.map(str::to_owned).ok_or_else(|| anyhow!("not accepted: {answer}"))
    }

    /// Every job there is, by id.
    pub fn all_jobs(&self) -> Result<BTreeMap<String, Value>> {
        let (mut jobs, mut cursor) = (BTreeMap::new(), Value::Null);
        loop {
            let mut params = json!({ "limit": 500 });
            if cursor.is_string() {
                params["cursor"] = cursor;
            }
            let page = self.call("jobs.list", params)?;
            for job in page["jobs"].as_array().into_iter().flatten() {
                jobs.insert(job["jobId"].as_str().unwrap_or_default().to_owned(), job.clone());
            }
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return Ok(jobs);
            }
        }
    }
}
