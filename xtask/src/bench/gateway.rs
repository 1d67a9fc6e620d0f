//! Measures a release binary as a process: what it takes to start, to sit idle, and on disk.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::plugins::inside;
use super::rounded;

const STARTS: usize = 21;
const TURNS: usize = 100;
const CONNECTIONS: usize = 5_000;
const PATIENCE: Duration = Duration::from_secs(20);

pub fn run(binary: &Path) -> Result<Value> {
    let dir = tempfile::tempdir()?;
    // The first start writes the configuration; what follows are starts as a service sees them.
    Serving::start(binary, dir.path())?.stop()?;
    let mut ready_ms = Vec::new();
    for _ in 0..STARTS {
        let (serving, ready) = Serving::start_timed(binary, dir.path())?;
        ready_ms.push(ready.as_secs_f64() * 1000.0);
        serving.stop()?;
    }
    ready_ms.sort_by(f64::total_cmp);

    let serving = Serving::start(binary, dir.path())?;
    std::thread::sleep(Duration::from_secs(2));
    let idle_mb = serving.resident_mb()?;
    serving.stop()?;
    let binary_mb = fs::metadata(binary)?.len() as f64 / 1e6;
    let mut figures = json!({
        "ready_ms": rounded(ready_ms[STARTS / 2]),
        "ready_ms_worst": rounded(ready_ms[STARTS - 1]),
        "idle_mb": rounded(idle_mb),
        "binary_mb": rounded(binary_mb),
    });
    let traffic = inside(binary, "traffic")?;
    figures.as_object_mut().into_iter().for_each(|figures| figures.extend(traffic.clone()));
    turns(binary, dir.path(), &mut figures)?;
    connections(binary, &mut figures)?;
    hello(binary, &mut figures)?;
    Ok(figures)
}

/// Memory after a hundred turns.
fn turns(binary: &Path, dir: &Path, figures: &mut Value) -> Result<()> {
    eprintln!("memory after {TURNS} turns …");
    let serving = Serving::start(binary, dir)?;
    for turn in 0..TURNS {
        let text = format!("good morning for the {turn}th time");
        let sent = Command::new(binary).args(["send", "seum", &text, "--wait", "--state-dir"]).arg(dir).output()?;
        if !sent.status.success() {
            bail!("a turn failed: {}", String::from_utf8_lossy(&sent.stderr));
        }
    }
    figures["mb_after_100_turns"] = json!(rounded(serving.resident_mb()?));
    serving.stop()
}

/// Memory with thousands connected who say nothing.
fn connections(binary: &Path, figures: &mut Value) -> Result<()> {
    eprintln!("{CONNECTIONS} idle connections …");
    let dir = tempfile::tempdir()?;
    Serving::start(binary, dir.path())?.stop()?;
    edit(dir.path(), |config| {
        for (key, most) in
            [("connections", CONNECTIONS + 100), ("requestsPerSecond", 1_000_000), ("requestsBurst", 1_000_000)]
        {
            config["limits"][key] = json!(most);
        }
    })?;
    let serving = Serving::start(binary, dir.path())?;
    let token = crate::cargo::printed(Command::new(binary).arg("token").arg("--state-dir").arg(dir.path()))
        .context("no token")?;
    let address = address_of(dir.path()).context("it serves")?;
    let mut holder = Command::new(binary.with_file_name("chela-bench"))
        .args(["hold", &address, token.trim(), &CONNECTIONS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut held = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.take().context("piped")?), &mut held)?;
    figures["idle_connections"] = json!(held.trim().trim_start_matches("held ").parse::<u64>().unwrap_or(0));
    figures["idle_connections_mb"] = json!(rounded(serving.resident_mb()?));
    drop(holder.stdin.take());
    holder.wait()?;
    serving.stop()
}

/// The request that a model gets for "hello", counted where it arrives.
fn hello(binary: &Path, figures: &mut Value) -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let dir = tempfile::tempdir()?;
    Serving::start(binary, dir.path())?.stop()?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    edit(dir.path(), |config| {
        config["providers"]["counted"] = json!({ "kind": "openai", "baseUrl": url, "retries": 0 });
        config["agents"]["model"] = json!("counted/any");
    })?;
    let serving = Serving::start(binary, dir.path())?;
    let counted = std::thread::spawn(move || -> Result<usize> {
        let (mut stream, _) = listener.accept()?;
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).context("a length")?;
        let length: usize = length.trim().parse()?;
        stream.read_exact(&mut vec![0; length])?;
        write!(stream, "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")?;
        Ok(length - "hello".len())
    });
    Command::new(binary).args(["send", "ruda", "hello", "--wait", "--state-dir"]).arg(dir.path()).output()?;
    figures["hello_request_bytes"] = json!(counted.join().map_err(|_| anyhow::anyhow!("nobody asked"))??);
    serving.stop()
}

fn edit(dir: &Path, edit: impl FnOnce(&mut Value)) -> Result<()> {
    let path = dir.join("chela.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
    edit(&mut config);
    fs::write(&path, config.to_string())?;
    Ok(())
}

/// A gateway process; killed if it is dropped unstopped.
pub struct Serving(Child);

impl Serving {
    pub fn start(binary: &Path, dir: &Path) -> Result<Self> {
        Ok(Self::start_timed(binary, dir)?.0)
    }

    /// From the start of the process to the answer `200` of `/readyz`.
    fn start_timed(binary: &Path, dir: &Path) -> Result<(Self, Duration)> {
        let started = Instant::now();
        let any = "127.0.0.1:0";
        let child = Command::new(binary)
            .args(["serve", "--gateway", any, "--monitor", any, "--hub", any, "--state-dir"])
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))?;
        let mut serving = Self(child);
        loop {
            if let Some(address) = address_of(dir)
                && is_ready(&address)
            {
                return Ok((serving, started.elapsed()));
            }
            if let Some(status) = serving.0.try_wait()? {
                bail!("the gateway ended with {status} before it was ready");
            }
            if started.elapsed() > PATIENCE {
                bail!("the gateway was not ready within {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn resident_mb(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
        let kb: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kb * 1024.0 / 1e6)
    }

    pub fn stop(mut self) -> Result<()> {
        let pid = self.0.id().to_string();
        crate::cargo::succeed(Command::new("kill").args(["-TERM", &pid]))?;
        let status = self.0.wait()?;
        if !status.success() {
            bail!("the gateway ended with {status} after SIGTERM");
        }
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After a clean stop there is nothing left to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn address_of(dir: &Path) -> Option<String> {
    let text = fs::read(dir.join("run/gateway.json")).ok()?;
    let value: Value = serde_json::from_slice(&text).ok()?;
    Some(value["gateway"].as_str()?.to_owned())
}

fn is_ready(address: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
