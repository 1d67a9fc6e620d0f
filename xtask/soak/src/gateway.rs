//! The real binary: started, looked at from outside, killed, and found again by all who talk to it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use chela::client::Client;
use chela::config::Starter;
use chela::layout::StateDir;
use chela::run::{Addresses, RunFile};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::measure::{Kept, Sample, rounded};

const READY_WITHIN: Duration = Duration::from_secs(120);
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the gateway is now; none while it is down.
#[derive(Clone)]
pub struct Way(watch::Receiver<Option<Open>>);

#[derive(Clone)]
pub struct Open {
    pub client: Client,
    pub addresses: Addresses,
    pub token: String,
}

impl Way {
    /// The gateway, as soon as it serves.
    pub async fn open(&mut self) -> Result<Open> {
        let open = self.0.wait_for(Option::is_some).await.context("it is over")?;
        open.clone().context("it serves")
    }
}

pub struct Gateway {
    chela: PathBuf,
    dir: StateDir,
    child: Option<Child>,
    open: watch::Sender<Option<Open>>,
}

impl Gateway {
    pub fn new(chela: &Path, state: PathBuf) -> Self {
        let (open, _) = watch::channel(None);
        Self { chela: chela.to_owned(), dir: StateDir::new(state), child: None, open }
    }

    pub fn way(&self) -> Way {
        Way(self.open.subscribe())
    }

    /// The demo team on free ports, with a script of ours.
    pub fn configure(&self, script: &str, edit: impl FnOnce(&mut Value)) -> Result<()> {
        chela::app::init(&self.dir, &Starter::default())?;
        std::fs::write(self.dir.path().join("soak.json5"), script)?;
        let mut config: Value = serde_json::from_slice(&std::fs::read(self.dir.config())?)?;
        for listener in ["gateway", "monitor", "hub"] {
            config[listener]["listen"] = json!("127.0.0.1:0");
        }
        config["limits"]["requestsPerSecond"] = json!(1_000_000);
        config["limits"]["requestsBurst"] = json!(1_000_000);
        // Half an hour of this is more than a day of any team.
        config["runs"]["limits"]["tokensPerDay"] = json!(1_000_000_000_000_u64);
        config["providers"]["demo"]["script"] = json!("soak.json5");
        // Filled within the warm-up: from then on conversations are summed up again and again, as they are in the course of months.
        config["providers"]["demo"]["models"][0]["contextWindow"] = json!(32_000);
        config["session"]["agentToAgent"]["maxPingPongTurns"] = json!(1);
        edit(&mut config);
        std::fs::write(self.dir.config(), config.to_string()).context("cannot write the configuration")
    }

    pub async fn start(&mut self) -> Result<()> {
        let noted = self.dir.path().with_extension("stderr");
        let noted_file = File::options().create(true).append(true).open(&noted)?;
        let mut command = Command::new(&self.chela);
        command.arg("serve").arg("--state-dir").arg(self.dir.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(noted_file).spawn()?;
        let until = Instant::now() + READY_WITHIN;
        let run = loop {
            if let Some(run) = RunFile::read(&self.dir)?.filter(|run| run.pid == child.id()) {
                break run;
            }
            if let Some(status) = child.try_wait()? {
                bail!("the gateway ended by itself ({status}); see {}", noted.display());
            }
            if Instant::now() > until {
                child.kill()?;
                bail!("the gateway was not ready within {} s", READY_WITHIN.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        self.child = Some(child);
        let token = chela::settings::load(&self.dir)?.tokens.owner().to_owned();
        let address = run.addresses.gateway.context("the gateway listens")?;
        let client = Client::new(address, Some(token.clone())).with_patience(PATIENCE);
        self.open.send_replace(Some(Open { client, addresses: run.addresses, token }));
        Ok(())
    }

    pub async fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it serves")?;
        self.open.send_replace(None);
        child.kill().context("cannot kill the gateway")?;
        child.wait()?;
        Ok(())
    }

    pub async fn stop(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it serves")?;
        self.open.send_replace(None);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a pid")?;
        kill_process(pid, Signal::TERM)?;
        let status = child.wait()?;
        anyhow::ensure!(status.success(), "the gateway did not stop cleanly: {status}");
        Ok(())
    }

    /// What the process looks like from outside.
    pub fn sample(&self, at: Duration, took: Vec<Duration>, events_per_s: u64) -> Result<Sample> {
        let pid = self.child.as_ref().context("it serves")?.id();
        let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).context("the gateway is gone")?;
        let pages: u64 = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).context("resident pages")?;
        let open_files = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
        let resident_mb = (pages * rustix::param::page_size() as u64) as f64 / 1e6;
        Ok(Sample { at, resident_mb, open_files, events_per_s, took })
    }

    /// Every event that the log has.
    pub fn events(&self) -> Result<Vec<Value>> {
        let mut events = Vec::new();
        for entry in std::fs::read_dir(self.dir.logs())? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("coordination-events")) {
                let text = std::fs::read_to_string(&path)?;
                events.extend(text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
            }
        }
        Ok(events)
    }

    /// What lies in the state directory.
    pub fn kept(&self) -> Result<Kept> {
        let (mut kept, mut left) = (Kept::default(), vec![self.dir.path().to_owned()]);
        while let Some(folder) = left.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let (path, facts) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
                if facts.is_dir() {
                    left.push(path);
                    continue;
                }
                let megabytes = facts.len() as f64 / 1e6;
                kept.state_files += 1;
                kept.state_mb += megabytes;
                if path.starts_with(self.dir.journal()) {
                    kept.journal_mb += megabytes;
                }
            }
        }
        Ok(Kept { state_mb: rounded(kept.state_mb), journal_mb: rounded(kept.journal_mb), ..kept })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Whatever went wrong, nothing is left running.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
