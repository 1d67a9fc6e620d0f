//! One life of a gateway: started as a process of its own, heard, killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use chela::layout::StateDir;

use crate::Options;
use crate::mark::LANES;

/// A life that says nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const SIGKILL: i32 = 9;

/// When a life ends.
pub enum When {
    AfterSpawn(Duration),
    AfterFirst(Duration),
}

/// What was heard of it.
#[derive(Default)]
pub struct Life {
    /// From its start to its first acknowledgement; none when it was killed before.
    pub first_after: Option<Duration>,
    pub acknowledgements: u64,
    /// How many events of each lane are certain.
    pub acknowledged: Vec<u64>,
}

impl Life {
    pub fn run(options: &Options, dir: &StateDir, number: u32, when: When) -> Result<Self> {
        let noted = options.scratch.join("stderr");
        let mut command = Command::new(&options.worker);
        command.arg("work").arg("--state-dir").arg(dir.path()).arg("--life").arg(number.to_string());
        command.arg("--chela").arg(&options.chela);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&noted)?);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot run {}", options.worker.display()))?;
        let mut worker = Worker(child);
        let said = worker.0.stdout.take().context("the worker has no standard output")?;
        let (first, first_heard) = channel();
        let hearing = std::thread::spawn(move || listen(said, &first));
        match when {
            When::AfterSpawn(delay) => std::thread::sleep(delay),
            When::AfterFirst(delay) => {
                // One that ends by itself is seen below.
                if first_heard.recv_timeout(PATIENCE).is_ok() {
                    std::thread::sleep(delay);
                }
            }
        }
        worker.0.kill().context("cannot kill the worker")?;
        let status = worker.0.wait()?;
        if status.signal() != Some(SIGKILL) {
            bail!("life {number} ended by itself with {status}:\n{}", fs::read_to_string(&noted).unwrap_or_default());
        }
        let (mut life, first_at) = hearing.join().map_err(|_| anyhow!("the thread that listens has died"))?;
        if first_at.is_none() && matches!(when, When::AfterFirst(_)) {
            bail!("life {number} acknowledged nothing for {} s", PATIENCE.as_secs());
        }
        life.first_after = first_at.map(|at| at - started);
        Ok(life)
    }
}

/// Takes `LANE COUNT` lines until the end; a last one without its end was never said.
fn listen(said: ChildStdout, first: &Sender<()>) -> (Life, Option<Instant>) {
    let mut life = Life { acknowledged: vec![0; LANES], ..Life::default() };
    let (mut said, mut line, mut first_at) = (BufReader::new(said), String::new(), None);
    while said.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
        if first_at.is_none() {
            first_at = Some(Instant::now());
            // Whoever waits for it may have given up.
            let _ = first.send(());
        }
        let parts = line.trim_end().split_once(' ');
        let parts = parts.and_then(|(lane, count)| Some((lane.parse::<usize>().ok()?, count.parse::<u64>().ok()?)));
        if let Some((lane, count)) = parts.filter(|(lane, _)| *lane < LANES) {
            life.acknowledged[lane] = life.acknowledged[lane].max(count);
            life.acknowledgements += 1;
        }
        line.clear();
    }
    (life, first_at)
}

/// Killed, however this ends.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // Mostly it has ended already; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
