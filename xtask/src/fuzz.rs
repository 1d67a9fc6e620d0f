//! More cases of the property tests than the suite has time for, in release.
//! The cases themselves are tests of the host; this chooses their seeds and passes their figures on.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;

/// What is tried.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Area {
    /// Lines of the event log
    Lines,
    /// Queries of the monitor
    Queries,
    /// Frames of the gateway protocol
    Frames,
}

impl Area {
    fn test(self) -> &'static str {
        match self {
            Self::Lines => "monitor::fuzz::no_line_breaks_a_promise",
            Self::Queries => "edge::fuzz::no_query_breaks_a_promise",
            Self::Frames => "edge::gateway::fuzz::no_frame_breaks_a_promise",
        }
    }
}

/// Prints `{area, cases, seconds, failures}` as one line of JSON; progress goes to stderr.
pub fn run(area: Area, minutes: u64, from: u64) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--package", "chela", "--lib", area.test(), "--", "--exact", "--nocapture"]);
    command.env_remove("CHELA_SEED").env("CHELA_MINUTES", minutes.to_string()).env("CHELA_FROM", from.to_string());
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().find_map(|line| line.find("{\"area\"").map(|at| &line[at..]));
    let Some(figures) = figures else { bail!("no case was run (cargo: {}); see above", output.status) };
    println!("{figures}");
    if !output.status.success() {
        bail!("a promise was broken, see above; with its seed it can be tried again");
    }
    Ok(())
}
