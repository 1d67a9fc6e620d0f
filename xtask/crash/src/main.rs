//! `chela-crash events` drives, `chela-crash work` is one of the lives it ends. `cargo xtask crash` calls the first.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use chela_crash::{Options, work};
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
    /// Emit until killed
    Work(work::Arguments),
}

/// A reading of everything takes as long as many lives.
const KILLS_BETWEEN_CHECKS: u32 = 50;

fn main() -> Result<ExitCode> {
    match Arguments::parse().task {
        Task::Work(arguments) => work::run(arguments).map(|()| ExitCode::SUCCESS),
        Task::Events { kills, seed, chela, below } => {
            std::fs::create_dir_all(&below).with_context(|| format!("cannot make {}", below.display()))?;
            let scratch = tempfile::tempdir_in(&below)?;
            let worker = std::env::current_exe().context("cannot find this program's own file")?;
            let options = Options {
                kills,
                seed,
                kills_between_checks: KILLS_BETWEEN_CHECKS,
                worker,
                chela,
                scratch: scratch.path().to_owned(),
            };
            let outcome = chela_crash::run(&options, |said| eprintln!("{said}"));
            if outcome.as_ref().is_ok_and(chela_crash::Report::is_clean) {
                scratch.close().context("cannot remove what was made")?;
            } else {
                eprintln!("what is left lies in {}", scratch.keep().display());
            }
            let report = outcome?;
            println!("{}", serde_json::to_string(&report)?);
            Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}
