//! Policies: the figures of `chela-bench`, how good the classifier is, and what a large component leaves in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::gateway::Serving;
use super::rounded;
use crate::accuracy;
use crate::cargo::{cargo, is_on_path, printed, root, succeed, target};

const ROUNDS: usize = 10;
/// A version that is known to build components without imports.
const COMPONENTIZE: &str = "@bytecodealliance/componentize-js@0.23";

pub fn run(binary: &Path) -> Result<Value> {
    let mut figures = inside(binary, "plugins")?;
    let held_out = accuracy::measure("{}", None)?;
    let alone = accuracy::measure(r#"{"learned": false}"#, None)?;
    figures.insert("rules_items".into(), json!(held_out.items));
    figures.insert("rules_accuracy".into(), json!(held_out.accuracy));
    figures.insert("rules_precision".into(), json!(held_out.precision));
    figures.insert("rules_coverage".into(), json!(held_out.coverage));
    figures.insert("rules_accuracy_without_learned".into(), json!(alone.accuracy));
    match javascript() {
        Ok(component) => in_memory(binary, &component, &mut figures)?,
        Err(error) => {
            eprintln!("no JavaScript component, so its memory is left out: {error:#}");
            figures.insert("js_idle_mb".into(), Value::Null);
        }
    }
    Ok(Value::Object(figures))
}

/// What is measured inside a process of its own, in a release build.
pub fn inside(binary: &Path, area: &str) -> Result<Map<String, Value>> {
    succeed(cargo().args(["build", "--release", "--package", "chela-bench"]))?;
    let mut command = Command::new(binary.with_file_name("chela-bench"));
    command.arg(area).arg(binary).arg(target().join("guests"));
    command.stderr(std::process::Stdio::inherit());
    let figures = printed(&mut command).context("chela-bench failed")?;
    serde_json::from_str(&figures).context("chela-bench printed no object")
}

/// A classifier in JavaScript, built with npm's packages below `target`.
fn javascript() -> Result<PathBuf> {
    let component = target().join("guests/words-js.wasm");
    if component.is_file() {
        return Ok(component);
    }
    anyhow::ensure!(is_on_path("npm"), "npm is not here");
    let folder = target().join("js");
    fs::create_dir_all(&folder)?;
    eprintln!("building a component of JavaScript, which takes a minute …");
    succeed(
        Command::new("npm").args(["install", "--silent", "--no-fund", "--no-audit", COMPONENTIZE]).current_dir(&folder),
    )?;
    // Beside its packages: that is where node looks for them.
    fs::copy(root().join("tests/js/build.mjs"), folder.join("build.mjs"))?;
    let mut command = Command::new("node");
    command
        .arg("build.mjs")
        .arg(root().join("tests/js/classifier.js"))
        .arg(root().join("wit/policy"))
        .arg("classifier");
    succeed(command.arg(&component).current_dir(&folder))?;
    Ok(component)
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
