//! Calls cargo and the binary it makes, always from the root of the repository.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
    /// A release with what measures and kills it, built in one go: apart, each would build the dependencies with other features.
    Measured,
}

/// What [`Profile::Measured`] builds.
const MEASURED: [&str; 3] = ["chela", "chela-bench", "chela-crash"];

pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a directory of the repository").to_owned()
}

pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root());
    command
}

pub fn git() -> Command {
    let mut command = Command::new("git");
    command.current_dir(root());
    command
}

/// Runs a command to its end; an error names it.
pub fn succeed(command: &mut Command) -> Result<()> {
    let line = shown(command);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// What a command prints, when it succeeds.
pub fn printed(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Builds the host; the components must be there.
pub fn build_host(profile: Profile) -> Result<PathBuf> {
    match profile {
        // All default members at once: then a later `cargo test` finds every dependency built with the same features.
        Profile::Dev => succeed(cargo().arg("build"))?,
        Profile::Release => succeed(cargo().args(["build", "--release", "--package", "chela"]))?,
        Profile::Measured => {
            let packages = MEASURED.iter().flat_map(|package| ["--package", package]);
            succeed(cargo().args(["build", "--release"]).args(packages))?;
        }
    }
    let folder = match profile {
        Profile::Dev => "debug",
        Profile::Release | Profile::Measured => "release",
    };
    let binary = target().join(folder).join("chela");
    ship(&binary)?;
    Ok(binary)
}

/// Compiles the default components beside the binary, so that no start has to.
fn ship(binary: &Path) -> Result<()> {
    let folder = binary.with_file_name("components");
    let compiled = printed(Command::new(binary).args(["plugin", "compile", "--json", "--into"]).arg(&folder));
    let compiled = compiled.context("the default components could not be compiled")?;
    // What an earlier build left is of no use to this one.
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if !compiled.contains(&*path.with_extension("cwasm").to_string_lossy()) {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Sends the demo team something to do, so that there is something to look at. The same key again is the same message.
pub fn greet(chela: &Path, state: &Path) -> Result<()> {
    let asked = |arguments: &[&str]| {
        let mut command = Command::new(chela);
        command.args(arguments).arg("--state-dir").arg(state).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    for _ in 0..120 {
        if asked(&["status"]) {
            asked(&["send", "ruda", "plan the first meetup of the team", "--key", "demo-first-work"]);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Serves a demo team in the foreground. The state is kept below `target` unless said otherwise.
pub fn serve(arguments: &[String]) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let binary = build_host(Profile::Dev)?;
    let mut command = Command::new(&binary);
    command.arg("serve").args(arguments);
    let named = arguments.iter().any(|argument| argument.starts_with("--state-dir"));
    if !named && std::env::var_os("CHELA_STATE_DIR").is_none() {
        let state = target().join("demo");
        command.arg("--state-dir").arg(&state);
        // A process of its own, since this one becomes the gateway; by its path, since the build may have replaced the file of this one.
        let greets = Command::new(target().join("debug/xtask")).arg("greet").arg(&binary).arg(&state).spawn();
        if let Err(error) = greets {
            eprintln!("xtask: the demo team gets no first work: {error}");
        }
    }
    // Becomes the gateway, so that signals reach it directly.
    Err(command.exec()).with_context(|| format!("cannot run {}", binary.display()))
}
