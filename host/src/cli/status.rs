//! `chela status`: the gateway that serves a state directory, if one does.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::output::table;
use super::{Output, ask, block_on, exit};
use crate::client::Client;
use crate::layout::StateDir;
use crate::port::Port;
use crate::run::{Encryption, RunFile};
use crate::schema::Problem;
use crate::settings;

pub(super) fn run(dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
    let found = find(dir)?;
    let code = match found {
        Found::Serving(_) => ExitCode::SUCCESS,
        Found::None | Found::Dead(_) => ExitCode::from(exit::UNAVAILABLE),
    };
    let document = match &found {
        Found::Serving(status) => {
            let mut document = json!({ "serving": true });
            document.as_object_mut().expect("an object").extend(status.as_object().cloned().unwrap_or_default());
            document
        }
        Found::None | Found::Dead(_) => json!({ "serving": false, "stateDir": dir.path() }),
    };
    output.show(&document, || text(dir, &found));
    Ok(code)
}

/// What is known of the gateway of a state directory.
pub(super) enum Found {
    None,
    /// The run file names a process that no longer answers.
    Dead(RunFile),
    /// What it says of itself.
    Serving(Value),
}

pub(super) fn find(dir: &StateDir) -> anyhow::Result<Found> {
    let run = RunFile::read(dir).with_context(|| format!("cannot read {}", dir.run_file().display()))?;
    let Some(run) = run else { return Ok(Found::None) };
    if !ask::lives(dir, &run)? {
        return Ok(Found::Dead(run));
    }
    let known = |problems: Vec<Problem>| {
        json!({
            "runtimeVersion": run.version, "pid": run.pid, "addresses": run.addresses,
            "config": { "problems": problems, "restartNeeded": [] },
        })
    };
    match (settings::load(dir), run.addresses.gateway) {
        (Ok(settings), Some(address)) => {
            let way = Encryption::way_to(dir, Port::Gateway);
            let way = way.with_context(|| format!("cannot read {}", dir.run_tls().display()))?;
            let client = Client::new(address, Some(settings.tokens.owner().to_owned())).over(way);
            Ok(Found::Serving(block_on(client.call("status", json!({})))??))
        }
        // With its own listener off there is nobody to ask, and without its token nothing to ask with.
        (Ok(_), None) | (Err(settings::Error::SecretsElsewhere { .. }), _) => Ok(Found::Serving(known(Vec::new()))),
        // The file has no token to ask with, and that is just what is to be told.
        (Err(error), _) => Ok(Found::Serving(known(error.problems()))),
    }
}

fn text(dir: &StateDir, found: &Found) -> String {
    let status = match found {
        Found::None => return format!("no gateway serves {}; start one with `chela serve`", dir.path().display()),
        Found::Dead(run) => {
            return format!(
                "no gateway serves {}: the last one (pid {}) ended without a word; start it again with `chela serve`",
                dir.path().display(),
                run.pid
            );
        }
        Found::Serving(status) => status,
    };
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("version", word(&status["runtimeVersion"])),
        row("pid", word(&status["pid"])),
        row("state", dir.path().display().to_string()),
    ];
    if let Some(ms) = status["uptimeMs"].as_u64() {
        rows.push(row("up", duration(ms / 1000)));
    }
    for name in ["gateway", "monitor", "hub"] {
        let address = &status["addresses"][name];
        let encrypted = status["encrypted"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let scheme = if encrypted { "https" } else { "http" };
        rows.push(row(name, address.as_str().map_or("off".into(), |at| format!("{scheme}://{at}"))));
    }
    if let Some(agents) = status["agents"].as_u64() {
        rows.push(row("agents", agents.to_string()));
    }
    for failing in status["failing"].as_array().into_iter().flatten() {
        rows.push(row("failing", word(failing)));
    }
    let config = &status["config"];
    for problem in config["problems"].as_array().into_iter().flatten() {
        let place = problem["path"].as_str().filter(|path| !path.is_empty()).map(|path| format!("{path}: "));
        rows.push(row("refused", format!("{}{}", place.unwrap_or_default(), word(&problem["message"]))));
    }
    for path in config["restartNeeded"].as_array().into_iter().flatten() {
        rows.push(row("restart", format!("needed for the change of {}", word(path))));
    }
    table(&rows)
}

fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}
