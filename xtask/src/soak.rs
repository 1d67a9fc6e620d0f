//! Runs `chela-soak` on a release gateway. Progress goes to standard error.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::cargo::{Profile, build_host, target};

#[derive(clap::Args)]
pub struct Arguments {
    /// How long; growth counts after the first third, at most five minutes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Events a second, over all
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Seconds between two swaps of a component
    #[arg(long, default_value_t = 10)]
    swap_seconds: u64,
    /// Kills while it warms up; there is one more at the end
    #[arg(long, default_value_t = 3)]
    kills: u32,
    /// Decides when each kill falls
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// With the gateway of `cargo build` instead of a release
    #[arg(long)]
    debug: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    // What drives it has little to do, and is built with everything else; the gateway is the one that is shipped.
    let tried = build_host(Profile::Dev)?;
    let soak = tried.with_file_name("chela-soak");
    let binary = if arguments.debug { tried } else { build_host(Profile::Release)? };
    let mut command = Command::new(soak);
    command.arg("--minutes").arg(arguments.minutes.to_string()).arg("--rate").arg(arguments.rate.to_string());
    command.arg("--swap-seconds").arg(arguments.swap_seconds.to_string());
    command.arg("--kills").arg(arguments.kills.to_string()).arg("--seed").arg(arguments.seed.to_string());
    command.arg("--chela").arg(&binary).arg("--components").arg(target().join("components"));
    // Not below a temporary directory, which may be one of memory: there a flush is nothing.
    command.arg("--below").arg(target().join("soak"));
    let output = command.stderr(Stdio::inherit()).output().context("cannot run chela-soak")?;
    let figures: Map<String, Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if arguments.json {
        println!("{}", Value::Object(figures));
    } else {
        figures.iter().for_each(|(name, value)| println!("{name:<28} {value}"));
    }
    if !output.status.success() {
        bail!("something grew or was lost, or it could not be tried; what is said above tells");
    }
    Ok(())
}
