//! More seeds of the simulated disk than the suite has time for, in release.
//! The simulation itself is a test of `host/storage`; this chooses its seeds and passes its figures on.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::cargo::cargo;

/// The test binary of the simulation, for any cargo command.
pub const PACKAGE: [&str; 6] = ["--package", "chela-storage", "--features", "simulation", "--test", "simulation"];

/// Prints `{seeds, log_seeds, crashes, acknowledged, lost, seconds}` as one line of JSON; progress goes to stderr.
pub fn run(seeds: u64, from: u64) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release"]).args(PACKAGE);
    command.args(["no_seed_breaks_a_promise", "--", "--exact", "--nocapture"]);
    command.env_remove("CHELA_SEED").env("CHELA_SEEDS", seeds.to_string()).env("CHELA_FROM", from.to_string());
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(figures) = text.lines().find(|line| line.starts_with("{\"seeds\"")) {
        println!("{figures}");
    }
    if !output.status.success() {
        bail!("the simulation did not pass:\n{text}");
    }
    Ok(())
}

/// The seeds of jobs alone, and the mistakes that must be caught: `sim_seeds`, `sim_violations`, `mutants`, `mutants_caught`.
pub fn jobs(seeds: u64) -> Result<Map<String, Value>> {
    let mut command = cargo();
    command.args(["test", "--release"]).args(PACKAGE);
    command.args(["--", "--nocapture", "no_seed_breaks_a_promise", "mistakes_of_the_one_who_drives_jobs"]);
    command.env_remove("CHELA_SEED").env("CHELA_SEEDS", seeds.to_string()).env("CHELA_PART", "jobs");
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let caught = text.lines().filter(|line| line.contains(" is caught at seed ")).count();
    let violations = text.lines().find(|line| line.starts_with("{\"seeds\""));
    let violations = violations.and_then(|line| serde_json::from_str::<Value>(line).ok());
    let violations = violations.map_or(Value::Null, |figures| figures["lost"].clone());
    if !output.status.success() {
        bail!("the simulation of jobs did not pass:\n{text}");
    }
    let figures = json!({ "sim_seeds": seeds, "sim_violations": violations, "mutants": 3, "mutants_caught": caught });
    Ok(figures.as_object().cloned().unwrap_or_default())
}
