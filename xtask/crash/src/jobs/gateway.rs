//! The real binary with agents that ask the model server, and the client that talks to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use chela::client::Client;
use chela::config::Starter;
use chela::layout::StateDir;
use chela::run::RunFile;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const READY_WITHIN: Duration = Duration::from_secs(60);

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

pub struct Gateway {
    child: Child,
    client: Client,
    runtime: Runtime,
}

impl Gateway {
    /// Starts and waits until it serves.
    pub fn start(chela: &Path, dir: &StateDir) -> Result<Self> {
        let noted = File::options().create(true).append(true).open(dir.path().with_extension("stderr"))?;
        let mut command = Command::new(chela);
        command.arg("serve").arg("--state-dir").arg(dir.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(noted).spawn()?;
        let until = Instant::now() + READY_WITHIN;
        let address = loop {
            // What a killed one left names another process.
            let run = RunFile::read(dir)?.filter(|run| run.pid == child.id());
            if let Some(address) = run.and_then(|run| run.addresses.gateway) {
                break address;
            }
            if let Some(status) = child.try_wait()? {
                bail!("the gateway ended by itself ({status}); see {}", dir.path().with_extension("stderr").display());
            }
            if Instant::now() > until {
                child.kill()?;
                bail!("the gateway was not ready within {} s", READY_WITHIN.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let config: Value = serde_json::from_slice(&std::fs::read(dir.config())?)?;
        let token = config["gateway"]["auth"]["token"].as_str().context("a token")?.to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { child, client: Client::new(address, Some(token)), runtime })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn call(&self, method: &str, params: Value) -> Result<Value> {
        Ok(self.runtime.block_on(self.client.call(method, params))?)
    }

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

    pub fn kill(mut self) -> Result<()> {
        self.child.kill().context("cannot kill the gateway")?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it in order.
    pub fn stop(mut self) -> Result<()> {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status()?;
        anyhow::ensure!(asked.success(), "cannot ask the gateway to stop");
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the gateway did not stop cleanly: {status}");
        Ok(())
    }
}
