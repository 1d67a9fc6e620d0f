//! Policies: the figures of `chela-bench`, how good the classifier is, and what a large component leaves in memory.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::gateway::Serving;
use super::rounded;
use crate::cargo::{printed, succeed, target};
use crate::{accuracy, corpus};

const ROUNDS: usize = 10;

pub fn run(binary: &Path) -> Result<Value> {
    let mut figures = inside(binary, "plugins")?;
    let held_out = accuracy::measure("{}", None)?;
    let alone = accuracy::measure(r#"{"learned": false}"#, None)?;
    figures.insert("rules_items".into(), json!(held_out.items));
    figures.insert("rules_accuracy".into(), json!(held_out.accuracy));
    figures.insert("rules_precision".into(), json!(held_out.precision));
    figures.insert("rules_coverage".into(), json!(held_out.coverage));
    figures.insert("rules_accuracy_without_learned".into(), json!(alone.accuracy));
    in_memory(binary, &corpus::unpacked("classifier-js")?, &mut figures)?;
    Ok(Value::Object(figures))
}

/// What is measured inside a process of its own, in a release build.
pub fn inside(binary: &Path, area: &str) -> Result<Map<String, Value>> {
    inside_with(binary, area, &target().join("guests"))
}

/// The same, with what the area is given besides.
pub fn inside_with(binary: &Path, area: &str, given: &Path) -> Result<Map<String, Value>> {
    let mut command = Command::new(binary.with_file_name("chela-bench"));
    command.arg(area).arg(binary).arg(given);
    command.stderr(std::process::Stdio::inherit());
    let figures = printed(&mut command).context("chela-bench failed")?;
    serde_json::from_str(&figures).context("chela-bench printed no object")
}

/// The gateway's memory after a large component came and went many times.
fn in_memory(binary: &Path, component: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("memory after {ROUNDS} rounds with a JavaScript component …");
    let dir = tempfile::tempdir()?;
    Serving::start(binary, dir.path())?.stop()?;
    let path = dir.path().join("chela.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
    config["plugins"]["classifier"]["limits"]["memoryMb"] = json!(128);
    fs::write(&path, config.to_string())?;
    let serving = Serving::start(binary, dir.path())?;
    let plugin = |arguments: &[&str]| {
        let mut command = Command::new(binary);
        command.arg("plugin").args(arguments).arg("--state-dir").arg(dir.path()).stdout(std::process::Stdio::null());
        succeed(&mut command)
    };
    let before = serving.resident_mb()?;
    let component = component.display().to_string();
    let mut loaded = 0.0_f64;
    for _ in 0..ROUNDS {
        plugin(&["load", &component, "--slot", "classifier"])?;
        loaded = loaded.max(serving.resident_mb()?);
        plugin(&["load", "builtin:rules", "--slot", "classifier"])?;
        plugin(&["load", &component, "--slot", "classifier"])?;
        plugin(&["unload", "classifier"])?;
    }
    std::thread::sleep(Duration::from_secs(2));
    figures.insert("js_mb".into(), json!(rounded(fs::metadata(&component)?.len() as f64 / 1e6)));
    figures.insert("idle_mb_before".into(), json!(rounded(before)));
    figures.insert("js_loaded_mb".into(), json!(rounded(loaded)));
    figures.insert("js_idle_mb".into(), json!(rounded(serving.resident_mb()?)));
    serving.stop()
}
