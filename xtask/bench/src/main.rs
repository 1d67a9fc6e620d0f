//! Measures rooms of the host from inside, in a release build. `cargo xtask bench` calls it; progress goes to standard error.

#[allow(dead_code, reason = "tests use more of it than measurements do")]
#[path = "../../../tests/support/browser.rs"]
mod browser;
mod channels;
mod continuation;
mod events;
mod gateway;
mod hub;
mod jobs;
mod languages;
mod plugins;
mod tasks;
mod traffic;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (area, binary) = (arguments.next(), arguments.next().map(PathBuf::from));
    let binary = binary.context("usage: chela-bench AREA BINARY [GUESTS [PART]]")?;
    let guests = arguments.next().map(PathBuf::from);
    let figures = match area.as_deref() {
        Some("plugins") => plugins::run(&binary, guests.as_deref())?,
        Some("events") => events::run(&binary)?,
        Some("tasks") => tasks::run(&binary)?,
        Some("hub") => hub::run(&binary)?,
        Some("jobs") => jobs::run(&binary)?,
        Some("continuation") => continuation::run(&binary)?,
        Some("channels") => channels::run(&binary, guests.as_deref(), arguments.next().as_deref())?,
        Some("traffic") => traffic::run(&binary)?,
        // Here the third argument is a file that names what was built.
        Some("languages") => languages::run(&binary, &guests.context("usage: chela-bench languages BINARY PROJECTS")?)?,
        // Here the second argument is an address.
        Some("hold") => {
            let (token, count) = (guests.context("a token")?, arguments.next().context("a count")?);
            return traffic::hold(&binary.to_string_lossy(), &token.to_string_lossy(), count.parse()?);
        }
        other => bail!("there is no area {other:?}"),
    };
    println!("{figures}");
    Ok(())
}

/// A quantile of durations, in microseconds.
fn micros(took: &mut [std::time::Duration], quantile: f64) -> f64 {
    took.sort_unstable();
    let at = ((took.len() as f64 - 1.0) * quantile).round() as usize;
    rounded(took.get(at).copied().unwrap_or_default().as_secs_f64() * 1e6)
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
