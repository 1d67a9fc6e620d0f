//! Writes event logs for measurements and for looking around: `cargo xtask gen-events`.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::path::PathBuf;

use anyhow::{Context, Result};
use chela_generate::{Options, UNTIL_MS, write};

#[derive(clap::Args)]
pub struct Arguments {
    /// How many events
    events: u64,
    /// The same seed gives the same log
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The time of the last event, in milliseconds since 1970
    #[arg(long, value_name = "MS", default_value_t = UNTIL_MS)]
    until: u64,
    /// How many of a hundred lines are of writers before roles and ids
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    legacy: u32,
    /// Where to, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let options = Options {
        until_ms: arguments.until,
        legacy_per_mille: arguments.legacy * 10,
        ..Options::new(arguments.events, arguments.seed)
    };
    let Some(path) = &arguments.out else {
        return match write(&options, BufWriter::new(io::stdout().lock())) {
            // Whoever reads has seen enough, as `head` does.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written.context("writing to standard output"),
        };
    };
    let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
    write(&options, BufWriter::new(file)).with_context(|| format!("writing {}", path.display()))
}
