//! Kills a release gateway again and again; what is left is read by `chela-crash`. Progress goes to standard error.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::cargo::{Profile, build_host, target};
use crate::simulate;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Area {
    /// The event log and its index, while several threads emit
    Events,
    /// Flows between agents, while two hundred of them are under way; with power cuts and the simulation of the disk
    Jobs,
    /// A chat network whose people talk to an agent, 100 messages a second
    Slack,
    Telegram,
    Webhook,
}

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(value_enum)]
    area: Area,
    /// How often; 200 for events, 500 for jobs and 50 for a network if left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    kills: Option<u32>,
    /// Power cuts, of jobs alone; left out where this machine has no loop devices
    #[arg(long, default_value_t = 20)]
    cuts: u32,
    /// Seeds of the simulated disk, of jobs alone
    #[arg(long, default_value_t = 100_000)]
    seeds: u64,
    /// Decides when each kill falls
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object: kills, lost and more
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let binary = build_host(Profile::Measured)?;
    let mut command = Command::new(binary.with_file_name("chela-crash"));
    let kills = match arguments.area {
        Area::Events => {
            command.arg("events");
            arguments.kills.unwrap_or(200)
        }
        Area::Jobs => {
            command.arg("jobs").arg("--cuts").arg(arguments.cuts.to_string());
            arguments.kills.unwrap_or(500)
        }
        Area::Slack | Area::Telegram | Area::Webhook => {
            let name = arguments.area.to_possible_value().context("every area has a name")?;
            command.arg("network").arg(name.get_name());
            arguments.kills.unwrap_or(50)
        }
    };
    command.arg("--kills").arg(kills.to_string()).arg("--seed").arg(arguments.seed.to_string());
    // Not below a temporary directory, which may be one of memory: there a flush is nothing.
    command.arg("--chela").arg(&binary).arg("--below").arg(target().join("crash"));
    let output = command.stderr(Stdio::inherit()).output().context("cannot run chela-crash")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut figures: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    if arguments.area == Area::Jobs && output.status.success() {
        figures.extend(simulate::jobs(arguments.seeds)?);
    }
    if arguments.json {
        println!("{}", Value::Object(figures));
    } else {
        figures.iter().for_each(|(name, value)| println!("{name:<28} {value}"));
    }
    if !output.status.success() {
        bail!("the kills did harm, or could not be done; what is said above tells");
    }
    Ok(())
}
