//! Every check of the repository, in the order in which they fail fastest; the last line says what was skipped.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::cargo::{Profile, build_host, cargo, is_on_path, printed, succeed, target};
use crate::guests::{self, Toolchain};
use crate::phases::Phases;

/// Tests note here what they could not do, one a line.
fn skipped_file() -> PathBuf {
    target().join("skipped.txt")
}

pub fn run(toolchain: Toolchain, arguments: &[String]) -> Result<()> {
    let mut phases = Phases::continued();
    // Nothing was skipped yet; a missing file is as good.
    let _ = fs::remove_file(skipped_file());
    let outcome = check(&mut phases, toolchain, arguments);
    phases.print();
    let skipped = fs::read_to_string(skipped_file()).unwrap_or_default();
    let mut names: Vec<&str> = skipped.lines().collect();
    names.sort_unstable();
    names.dedup();
    if let Err(error) = &outcome {
        println!("\nfailed: {error:#}");
    }
    println!("skipped: {}", if names.is_empty() { "nothing".into() } else { names.join(", ") });
    outcome.map_err(|_| anyhow::anyhow!("the tests did not pass"))
}

fn check(phases: &mut Phases, toolchain: Toolchain, arguments: &[String]) -> Result<()> {
    required_tools()?;
    phases.run("format", || cargo_tool("fmt", &["fmt", "--all", "--check"]))?;
    phases.run("components", || guests::build(toolchain, guests::Set::All))?;
    phases.run("build", || build_host(Profile::Dev))?;
    phases.run("tests", || {
        let mut command = cargo();
        // All of it: one run tells everything that is wrong.
        command.args(["test", "--no-fail-fast"]);
        // The plugins are not default members, but their logic is tested like any other.
        for package in [
            "chela",
            "chela-words",
            "chela-machinery",
            "chela-plugins",
            "chela-storage",
            "chela-taskfile",
            "chela-model",
            "chela-json5",
            "chela-flow",
            "chela-kit",
            "chela-question",
            "chela-drive",
            "chela-page",
            "chela-channel",
            "chela-tests",
            "xtask",
            "chela-crash",
            "chela-soak",
            "chela-sdk",
            "continuation",
            "discord",
            "rules",
            "slack",
            "stop-guard",
            "telegram",
            "webhook",
        ] {
            command.args(["--package", package]);
        }
        command.arg("--").args(arguments);
        command.env("CHELA_SKIPPED", skipped_file());
        succeed(&mut command)
    })?;
    // A build of its own: its language wants features of shared crates that would have the whole host built a second time.
    phases.run("scripts", || succeed(cargo().args(["test", "--package", "script", "--"]).args(arguments)))?;
    // A build of its own: the feature that swaps the file system must never reach the host.
    phases.run("simulation", || succeed(cargo().args(["test"]).args(crate::simulate::PACKAGE)))?;
    phases.run("weights", || crate::train::run(true))?;
    phases.run("lints", || {
        cargo_tool("clippy", &["clippy", "--quiet", "--all-targets", "--", "--deny", "warnings"])?;
        let mut simulation = vec!["clippy", "--quiet"];
        simulation.extend(crate::simulate::PACKAGE);
        simulation.extend(["--", "--deny", "warnings"]);
        cargo_tool("clippy", &simulation)
    })
}

/// `CHELA_REQUIRE=node,python,…`: what must be there, so that no test can skip for want of it.
fn required_tools() -> Result<()> {
    let required = std::env::var("CHELA_REQUIRE").unwrap_or_default();
    for tool in required.split(',').filter(|tool| !tool.is_empty()) {
        let there = match tool {
            "python" => is_on_path("python3"),
            // Told by the tests themselves, which know where they look.
            "componentize-js" | "componentize-py" | "wasm-target" | "axe" | "mounts" => true,
            "clippy" | "fmt" => printed(cargo().args([tool, "--version"])).is_some(),
            "root" => printed(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0"),
            program => is_on_path(program),
        };
        if !there {
            bail!("CHELA_REQUIRE names `{tool}`, which is not here");
        }
    }
    Ok(())
}

/// A part of the Rust toolchain that a machine may lack.
fn cargo_tool(tool: &str, arguments: &[&str]) -> Result<()> {
    if printed(cargo().args([tool, "--version"])).is_none() {
        println!("xtask: cargo {tool} is not installed");
        fs::create_dir_all(target())?;
        let mut noted = fs::read_to_string(skipped_file()).unwrap_or_default();
        noted.push_str(&format!("cargo {tool}\n"));
        fs::write(skipped_file(), noted)?;
        return Ok(());
    }
    succeed(cargo().args(arguments))
}
