//! `chela plugin bench`: what an author's own cases cost, call by call, on one instance.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use chela_kit::Expected;
use clap::Args;
use serde_json::{Value, json};

use super::project::Found;
use crate::cli::Output;
use crate::cli::output::{table, word};
use crate::layout::StateDir;

#[derive(Args)]
pub(in crate::cli) struct Bench {
    /// The project's directory
    #[arg(default_value = ".")]
    project: PathBuf,
    /// How often each case is asked
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    calls: u32,
}

impl Bench {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let found = Found::at(&self.project)?;
        let mut rows = Vec::new();
        let (bench, _temporary) = found.workbench(dir)?;
        for (file, case) in found.cases()? {
            let Expected::Answer { export, input, .. } = &case.expected else { continue };
            let (source, config) = found.source(case.config.clone())?;
            let opened = bench.open(&source, config, found.limits())?;
            let mut running = opened.start()?;
            let since = Instant::now();
            let first = running.call(export, input).map(|_| since.elapsed());
            let first = first.map_err(|error| anyhow::anyhow!("{file}: {}: {error}", case.name))?;
            let mut took = running.time(export, input, self.calls as usize)?;
            took.sort_unstable();
            rows.push(json!({
                "file": file, "case": case.name, "export": export,
                "madeMs": millis(running.made_in), "firstMs": millis(first),
                "p50Micros": micros(at(&took, 50)), "p99Micros": micros(at(&took, 99)),
                "memoryMb": rounded(running.memory() as f64 / 1e6),
            }));
        }
        if rows.is_empty() {
            bail!(
                "there is no case with `expect` in {}; write one, and it is measured",
                found.dir.join("tests").display()
            );
        }
        let bytes = fs::metadata(found.component()).map_or(0, |found| found.len());
        let size = rounded(bytes as f64 / 1e6);
        output.show(&json!({ "calls": self.calls, "sizeMb": size, "cases": rows }), || in_words(&rows, size));
        Ok(())
    }
}

fn in_words(rows: &[Value], size: f64) -> String {
    let head = ["CASE", "EXPORT", "MADE", "FIRST", "P50", "P99", "MEMORY"].map(str::to_owned).to_vec();
    let row = |row: &Value| {
        vec![
            word(&row["case"]),
            word(&row["export"]),
            format!("{} ms", row["madeMs"]),
            format!("{} ms", row["firstMs"]),
            format!("{} µs", row["p50Micros"]),
            format!("{} µs", row["p99Micros"]),
            format!("{} MB", row["memoryMb"]),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(row)).collect();
    format!(
        "{}\n{size} MB on disk; calls inside a gateway take some 30 µs more, for the way to the thread",
        table(&rows)
    )
}

/// The value that so many of a hundred do not pass.
fn at(sorted: &[Duration], share: usize) -> Duration {
    let index = (sorted.len() * share / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

fn millis(took: Duration) -> f64 {
    rounded(took.as_secs_f64() * 1e3)
}

fn micros(took: Duration) -> f64 {
    rounded(took.as_secs_f64() * 1e6)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
