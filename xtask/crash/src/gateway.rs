//! The real binary as a process, and the client that talks to it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use chela::client::Client;
use chela::layout::StateDir;
use chela::run::RunFile;
use serde_json::Value;
use tokio::runtime::Runtime;

const READY_WITHIN: Duration = Duration::from_secs(120);
/// An adapter may have to be compiled, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
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
        let client = Client::new(address, Some(token)).with_patience(PATIENCE);
        Ok(Self { child, address, client, runtime })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn call(&self, method: &str, params: Value) -> Result<Value> {
        Ok(self.runtime.block_on(self.client.call(method, params))?)
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

    /// What of it is in memory.
    pub fn resident_mb(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
        let kb: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kb * 1024.0 / 1e6)
    }
}

/// A gateway that is dropped is one whose story went wrong.
impl Drop for Gateway {
    fn drop(&mut self) {
        // After a kill or a stop there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
