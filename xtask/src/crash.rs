//! Kills a release gateway again and again; what is left is read by `chela-crash`. Progress goes to standard error.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::cargo::{Profile, build_host, cargo, succeed, target};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Area {
    /// The event log and its index, while several threads emit
    Events,
}

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(value_enum)]
    area: Area,
    /// How often
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Decides when each kill falls
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object: kills, acknowledged, lost, doubled, out_of_order, torn, index_differs, seconds and more
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let binary = build_host(Profile::Release)?;
    succeed(cargo().args(["build", "--release", "--package", "chela-crash"]))?;
    let mut command = Command::new(binary.with_file_name("chela-crash"));
    match arguments.area {
        Area::Events => command.arg("events"),
    };
    command.arg("--kills").arg(arguments.kills.to_string()).arg("--seed").arg(arguments.seed.to_string());
    // Not below a temporary directory, which may be one of memory: there a flush is nothing.
    command.arg("--chela").arg(&binary).arg("--below").arg(target().join("crash"));
    let output = command.stderr(Stdio::inherit()).output().context("cannot run chela-crash")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if arguments.json {
        print!("{text}");
    } else {
        let figures: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        figures.iter().for_each(|(name, value)| println!("{name:<28} {value}"));
    }
    if !output.status.success() {
        bail!("the kills did harm, or could not be done; what is said above tells");
    }
    Ok(())
}
