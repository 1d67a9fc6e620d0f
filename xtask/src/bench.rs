//! Measures: each area prints one JSON object, or a table for people; progress goes to standard error.

mod gateway;
mod languages;
mod plugins;

use anyhow::Result;
use clap::ValueEnum;

use crate::cargo::{Profile, build_host};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Area {
    /// Start, idle memory and size of the binary
    Gateway,
    /// What a policy costs, how good the classifier is, what swaps and loops do to others
    Plugins,
    /// What an emit costs, what the index costs and gives, and how many may follow
    Events,
    /// What a flow between agents costs: made, taken up after a restart, turn by turn
    Jobs,
    /// How far from its time an agent that stopped with work left is told to go on
    Continuation,
    /// The Discord adapter swapped and killed under a stream of messages, what a message costs in it, and what bad adapters do to others
    Channels,
    /// What the same guard costs in each language: to build, to start, to ask
    Languages,
    /// What the hub's pages cost with much behind them, and how soon an event is on the screen; needs Chromium
    Hub,
    /// What a change of a task costs, ten thousand of them, and edits from all sides
    Tasks,
}

pub fn run(area: Area, json: bool) -> Result<()> {
    let binary = build_host(Profile::Measured)?;
    let figures = match area {
        Area::Gateway => gateway::run(&binary)?,
        Area::Plugins => plugins::run(&binary)?,
        Area::Events => plugins::inside(&binary, "events")?.into(),
        Area::Jobs => plugins::inside(&binary, "jobs")?.into(),
        Area::Continuation => plugins::inside(&binary, "continuation")?.into(),
        Area::Channels => channels(&binary)?,
        Area::Languages => languages::run(&binary)?,
        Area::Hub => plugins::inside(&binary, "hub")?.into(),
        Area::Tasks => plugins::inside(&binary, "tasks")?.into(),
    };
    if json {
        println!("{figures}");
    } else {
        for (name, value) in figures.as_object().into_iter().flatten() {
            match value.as_object() {
                Some(of) => of.iter().for_each(|(inner, value)| println!("{:<28} {value}", format!("{name}.{inner}"))),
                None => println!("{name:<28} {value}"),
            }
        }
    }
    Ok(())
}

/// With the components that it loads, which the binary does not carry.
fn channels(binary: &std::path::Path) -> Result<serde_json::Value> {
    crate::guests::build(crate::guests::Toolchain::Auto, crate::guests::Set::All)?;
    Ok(plugins::inside(binary, "channels")?.into())
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
