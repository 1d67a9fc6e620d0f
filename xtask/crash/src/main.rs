//! `chela-crash events`, `jobs` and `network` drive, `chela-crash work` is one of the lives that the first ends. `cargo xtask crash` calls them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use chela_crash::{Options, channels, jobs, work};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "chela-crash", about = "Kills a gateway again and again and reads what is left")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Kill while events are emitted; prints one JSON object
    Events {
        #[arg(long, default_value_t = 200)]
        kills: u32,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The binary that compiles components
        #[arg(long)]
        chela: PathBuf,
        /// Where everything is made; it stays there when something is wrong
        #[arg(long, value_name = "DIR")]
        below: PathBuf,
    },
    /// Kill while agents talk to each other, and cut the power; prints one JSON object
    Jobs {
        #[arg(long, default_value_t = 500)]
        kills: u32,
        #[arg(long, default_value_t = 20)]
        cuts: u32,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The gateway
        #[arg(long)]
        chela: PathBuf,
        /// Where everything is made; it stays there when something is wrong
        #[arg(long, value_name = "DIR")]
        below: PathBuf,
    },
    /// Kill while people of a chat network talk to agents; prints one JSON object
    Network {
        /// slack, telegram or webhook
        name: String,
        #[arg(long, default_value_t = 50)]
        kills: u32,
        /// Messages a second
        #[arg(long, default_value_t = 100)]
        rate: u32,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The gateway
        #[arg(long)]
        chela: PathBuf,
        /// Where everything is made; it stays there when something is wrong
        #[arg(long, value_name = "DIR")]
        below: PathBuf,
    },
    /// Emit until killed
    Work(work::Arguments),
}

/// A reading of everything takes as long as many lives.
const KILLS_BETWEEN_CHECKS: u32 = 50;

/// Flows under way at once while jobs are killed.
const FLOWS: usize = 200;

/// People who talk at once while a network's gateway is killed.
const PLACES: u64 = 100;

fn main() -> Result<ExitCode> {
    match Arguments::parse().task {
        Task::Work(arguments) => work::run(arguments).map(|()| ExitCode::SUCCESS),
        Task::Events { kills, seed, chela, below } => in_scratch(&below, |scratch| {
            let worker = std::env::current_exe().context("cannot find this program's own file")?;
            let kills_between_checks = KILLS_BETWEEN_CHECKS;
            let options = Options { kills, seed, kills_between_checks, worker, chela, scratch };
            let report = chela_crash::run(&options, |said| eprintln!("{said}"))?;
            Ok((serde_json::to_string(&report)?, report.is_clean()))
        }),
        Task::Jobs { kills, cuts, seed, chela, below } => in_scratch(&below, |scratch| {
            let options = jobs::Options { kills, cuts, seed, flows: FLOWS, chela, scratch };
            let report = jobs::run(&options, |said| eprintln!("{said}"))?;
            Ok((serde_json::to_string(&report)?, report.is_clean()))
        }),
        Task::Network { name, kills, rate, seed, chela, below } => in_scratch(&below, |scratch| {
            let options = channels::Options { swaps: 0, kills, a_second: rate, places: PLACES, seed, chela, scratch };
            let report = channels::networks::run(&name, &options, |said| eprintln!("{said}"))?;
            Ok((serde_json::to_string(&report)?, report.is_clean()))
        }),
    }
}

/// Runs in a directory that goes when all is well. Prints the figures.
fn in_scratch(below: &Path, run: impl FnOnce(PathBuf) -> Result<(String, bool)>) -> Result<ExitCode> {
    std::fs::create_dir_all(below).with_context(|| format!("cannot make {}", below.display()))?;
    let scratch = tempfile::tempdir_in(below)?;
    let outcome = run(scratch.path().to_owned());
    if matches!(outcome, Ok((_, true))) {
        scratch.close().context("cannot remove what was made")?;
    } else {
        eprintln!("what is left lies in {}", scratch.keep().display());
    }
    let (figures, clean) = outcome?;
    println!("{figures}");
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
