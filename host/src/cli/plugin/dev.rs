//! `chela plugin dev`: builds, tests and loads a project whenever one of its files is saved.
//! Keeps true: what does not build or pass is not loaded, and what served before serves on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::{Value, json};

use super::project::Found;
use super::{argument, build, gateway, test};
use crate::cli::Output;
use crate::cli::output::plain;
use crate::layout::StateDir;

/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Files that are looked at; a project that has more keeps them elsewhere.
const FILES_MAX: usize = 5_000;
/// What tools make, and what is not the author's.
const NOT_LOOKED_AT: [&str; 5] = ["build", "target", "node_modules", "__pycache__", "vendor"];

#[derive(Args)]
pub(in crate::cli) struct Dev {
    /// The project's directory
    #[arg(default_value = ".")]
    project: PathBuf,
    /// Where it serves; else `guard:NAME`, `classifier` or `continuation`
    #[arg(long, value_parser = argument::slot)]
    slot: Option<String>,
    /// Do it once and end
    #[arg(long)]
    once: bool,
}

impl Dev {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        // A project that is none is an error at once; a mistake in one is told, and mended by the next save.
        Found::at(&self.project)?;
        let mut seen = stamp(&self.project);
        loop {
            let done = self.round(dir);
            let told = match &done {
                Ok(told) => told.clone(),
                Err(error) => json!({ "outcome": "failed", "said": format!("{error:#}") }),
            };
            let is_read = output.lines(&[told], in_words);
            if self.once {
                return done.map(drop);
            }
            if !is_read {
                return Ok(());
            }
            seen = wait_for_change(&self.project, &seen);
        }
    }

    fn round(&self, dir: &StateDir) -> anyhow::Result<Value> {
        let found = Found::at(&self.project)?;
        let built = build::build(&found, dir)?;
        let rows = test::test(&found, dir)?;
        let tested = test::document(&rows);
        if tested["failed"] != 0 {
            anyhow::bail!("{}", test::in_words(&rows));
        }
        let slot = self.slot.clone().unwrap_or_else(|| found.slot());
        let loaded =
            gateway::load(dir, &found.component().display().to_string(), &slot, None, gateway::How::default())?;
        Ok(json!({ "outcome": "loaded", "built": built, "passed": tested["passed"], "loaded": loaded }))
    }
}

fn in_words(told: &[Value]) -> String {
    let line = |told: &Value| match told["outcome"].as_str() {
        Some("loaded") => {
            format!("{} cases passed\n{}", told["passed"], gateway::load_in_words(&told["loaded"]))
        }
        _ => told["said"].as_str().unwrap_or_default().lines().map(plain).collect::<Vec<_>>().join("\n"),
    };
    told.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Waits until the files are other than they were, and stand still.
fn wait_for_change(project: &Path, seen: &[Stamp]) -> Vec<Stamp> {
    let mut latest = seen.to_vec();
    loop {
        std::thread::sleep(LOOK_EVERY);
        let now = stamp(project);
        if now != seen && now == latest {
            return now;
        }
        latest = now;
    }
}

/// A file as it was when it was looked at.
type Stamp = (PathBuf, u64, Option<SystemTime>);

fn stamp(project: &Path) -> Vec<Stamp> {
    let mut found = Vec::new();
    let mut left = vec![project.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(about) = entry.metadata() else { continue };
            let is_looked_at = !name.starts_with('.') && !NOT_LOOKED_AT.contains(&name.as_str());
            match about.is_dir() {
                true if is_looked_at => left.push(entry.path()),
                false if is_looked_at && found.len() < FILES_MAX => {
                    found.push((entry.path(), about.len(), about.modified().ok()));
                }
                true | false => {}
            }
        }
    }
    found.sort();
    found
}
