//! The real binary: as a gateway that is signalled and killed, and as a command that is run to its end.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use chela::client::Client;
use chela::layout::StateDir;
use chela::run::RunFile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::dir::assert_no_stray_files;
use crate::{PATIENCE, TestDir, eventually};

/// What a finished command left.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// The binary that `cargo xtask test` (or `cargo build`) has made.
pub fn path() -> PathBuf {
    built("chela")
}

/// A binary of the workspace's default members.
pub fn built(name: &str) -> PathBuf {
    let suite = std::env::current_exe().expect("the suite is a file");
    let folder = suite.parent().and_then(Path::parent).expect("in target/PROFILE/deps");
    let binary = folder.join(name);
    assert!(binary.is_file(), "{} is not built; run `cargo xtask test`, or `cargo build` first", binary.display());
    binary
}

/// The binary, ready for arguments; nothing of the caller's own set-up reaches it.
pub fn chela_command(dir: &StateDir) -> Command {
    let mut command = Command::new(path());
    command.env_remove("CHELA_LOG").env("CHELA_STATE_DIR", dir.path()).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn chela(dir: &StateDir, arguments: &[&str]) -> Finished {
    let output = chela_command(dir).args(arguments).output().expect("the binary runs");
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8 on standard output"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8 on standard error"),
    }
}

/// A serving process; killed if a test drops it.
pub struct Binary {
    child: Child,
    state: StateDir,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Binary {
    /// Starts `chela serve` on free ports and waits until it is ready.
    pub fn serve(dir: &TestDir) -> Self {
        let mut serving = Self::spawn(dir, &["--gateway", "0", "--monitor", "0", "--hub", "0"]);
        serving.wait_until_ready();
        serving
    }

    /// Starts `chela serve` with these arguments and waits for nothing.
    pub fn spawn(dir: &TestDir, arguments: &[&str]) -> Self {
        let mut command = chela_command(&dir.state);
        command.arg("serve").args(arguments);
        Self::spawn_command(dir, command)
    }

    pub fn spawn_command(dir: &TestDir, mut command: Command) -> Self {
        let (stdout, stderr) = (dir.scratch().join("stdout"), dir.scratch().join("stderr"));
        let child = command
            .stdout(File::create(&stdout).expect("a file"))
            .stderr(File::create(&stderr).expect("a file"))
            .spawn()
            .expect("the binary runs");
        Self { child, state: dir.state.clone(), stdout, stderr }
    }

    pub fn wait_until_ready(&mut self) {
        let pid = self.child.id();
        eventually("the gateway is ready", || {
            let run = RunFile::read(&self.state).expect("a whole run file").filter(|run| run.pid == pid);
            if run.is_none()
                && let Some(status) = self.child.try_wait().expect("a child of ours")
            {
                panic!("it ended with {status}:\n{}", self.stderr());
            }
            run
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn run_file(&self) -> RunFile {
        RunFile::read(&self.state).expect("a whole run file").expect("it serves")
    }

    pub fn address(&self) -> SocketAddr {
        self.run_file().addresses.gateway.expect("the gateway listens")
    }

    pub fn client(&self, token: &str) -> Client {
        Client::new(self.address(), Some(token.to_owned())).with_patience(PATIENCE)
    }

    pub fn stdout(&self) -> String {
        said(&self.stdout)
    }

    pub fn stderr(&self) -> String {
        said(&self.stderr)
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("a child of ours");
    }

    /// SIGTERM, and what came of it; a clean stop leaves nothing behind.
    pub fn terminate(mut self) -> Finished {
        self.signal(Signal::TERM);
        let finished = self.finished();
        if finished.code == Some(0) {
            assert_no_stray_files(&self.state);
        }
        finished
    }

    /// SIGKILL: no chance to tidy up.
    pub fn kill(mut self) -> Finished {
        self.signal(Signal::KILL);
        self.finished()
    }

    /// Waits for its own end.
    pub fn finished(&mut self) -> Finished {
        let status: ExitStatus =
            eventually("the gateway has ended", || self.child.try_wait().expect("a child of ours"));
        Finished { code: status.code(), stdout: self.stdout(), stderr: self.stderr() }
    }
}

/// What a process has said so far; the last character may be half there.
fn said(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).expect("readable")).into_owned()
}

impl Drop for Binary {
    fn drop(&mut self) {
        // Already ended in most tests; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
