//! Builds, serves, tests and measures Chela: `cargo xtask --help`.

mod accuracy;
mod bench;
mod crash;
mod dist;
mod fuzz;
mod generate;
mod guests;
mod phases;
mod cargo;
mod corpus;
mod simulate;
mod soak;
mod suite;
mod train;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use cargo::Profile;
use guests::{Set, Toolchain};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Builds, serves, tests and measures Chela")]
struct Arguments {
    /// Where the wasm target comes from
    #[arg(long, global = true, value_enum, default_value = "auto")]
    guests: Toolchain,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the components and a release binary, target/release/chela
    Build,
    /// Build the components alone, those of the tests too
    Guests,
    /// Build what is needed and serve a demo team; what follows goes to `chela serve`
    Serve {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Gives the demo team its first work, once it is there
    #[command(hide = true)]
    Greet { chela: PathBuf, state: PathBuf },
    /// Build what is needed and run every test; what follows goes to the test binaries, such as a name
    Test {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Train the classifier's weights from its training items
    Train {
        /// Write nothing: only tell whether the weights are those that training gives
        #[arg(long)]
        check: bool,
    },
    /// Tell how good the classifier is on conversations that it was not made from
    Accuracy,
    /// Write an event log as a team's gateway would have
    GenEvents(generate::Arguments),
    /// Build the components of frozen worlds that the corpus lacks, one a language
    Corpus,
    /// Install what makes components of JavaScript and Python, and what finds faults of pages, for the tests that need them
    Languages,
    /// Crash the journal and the event log on a simulated disk, seed by seed, in release
    Simulate {
        #[arg(long, default_value_t = 1_000_000)]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Kill a release gateway at random moments and tell what is lost, doubled, out of order or shown otherwise
    Crash(crash::Arguments),
    /// Run a gateway under everything at once, with kills, and tell what grew
    Soak(soak::Arguments),
    /// Make a release: directory, archive, Debian package, checksums and bill of materials, in target/dist
    Dist(dist::Arguments),
    /// Try inputs that nobody thought of, seed by seed, in release
    Fuzz {
        #[arg(value_enum)]
        area: fuzz::Area,
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
        minutes: u64,
        /// The first seed; the suite runs those before the default
        #[arg(long, value_name = "SEED", default_value_t = 50_000)]
        from: u64,
    },
    /// Measure, with a release binary
    Bench {
        #[arg(value_enum)]
        area: bench::Area,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments.task {
        Task::Build => {
            guests::build(arguments.guests, Set::Shipped)?;
            let binary = cargo::build_host(Profile::Release)?;
            println!("built {}", binary.display());
            Ok(())
        }
        Task::Guests => guests::build(arguments.guests, Set::All),
        Task::Serve { arguments: rest } => {
            guests::build(arguments.guests, Set::Shipped)?;
            cargo::serve(&rest)
        }
        Task::Greet { chela, state } => cargo::greet(&chela, &state),
        Task::Test { arguments: rest } => suite::run(arguments.guests, &rest),
        Task::Train { check } => train::run(check),
        Task::Accuracy => accuracy::print(),
        Task::GenEvents(arguments) => generate::run(&arguments),
        Task::Corpus => corpus::run(arguments.guests),
        Task::Languages => corpus::install(),
        Task::Simulate { seeds, from } => simulate::run(seeds, from),
        Task::Crash(given) => {
            guests::build(arguments.guests, Set::Shipped)?;
            crash::run(&given)
        }
        Task::Soak(given) => {
            guests::build(arguments.guests, Set::Shipped)?;
            soak::run(&given)
        }
        Task::Dist(given) => {
            if given.builds() {
                guests::build(arguments.guests, Set::Shipped)?;
            }
            dist::run(&given)
        }
        Task::Fuzz { area, minutes, from } => {
            guests::build(arguments.guests, Set::Shipped)?;
            fuzz::run(area, minutes, from)
        }
        Task::Bench { area, json } => {
            guests::build(arguments.guests, Set::All)?;
            bench::run(area, json)
        }
    }
}
