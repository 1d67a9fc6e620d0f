//! What a language costs: the same guard, made, built and asked as its author would, in each of them.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use crate::cargo::{is_on_path, target};

/// Asked so often, one call after the other.
const CALLS: &str = "5000";

/// A language, and the program without which it is left out.
const LANGUAGES: [(&str, Option<&str>); 4] =
    [("rust", Some("cargo")), ("script", None), ("js", Some("npm")), ("python", Some("python3"))];

pub fn run(binary: &Path) -> Result<Value> {
    let mut figures = Map::new();
    for (language, tool) in LANGUAGES {
        if tool.is_some_and(|tool| !is_on_path(tool)) {
            eprintln!("bench: {language} is left out, its tools are not here");
            continue;
        }
        eprintln!("bench: {language}");
        figures.insert(language.into(), measure(binary, language)?);
    }
    Ok(Value::Object(figures))
}

fn measure(binary: &Path, language: &str) -> Result<Value> {
    let room = target().join("bench-languages");
    let project = room.join(language);
    // What an earlier measurement left would be found instead of built.
    let _ = std::fs::remove_dir_all(&project);
    std::fs::create_dir_all(&room)?;
    let name = format!("bench-{language}");
    let chela = |arguments: &[&str]| -> Result<Value> {
        let mut command = Command::new(binary);
        command.args(["plugin"]).args(arguments).arg("--json");
        command.env("CHELA_STATE_DIR", room.join("state")).env("CARGO_TARGET_DIR", room.join("target"));
        let output = command.output().context("cannot run chela")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "chela plugin {}: {said}", arguments.join(" "));
        Ok(serde_json::from_str(&said)?)
    };
    let path = project.display().to_string();
    chela(&["new", &name, "--world", "guard", "--lang", language, "--into", &path])?;
    // The first build brings what it builds with: crates, packages. An author waits for the second, after each change.
    chela(&["build", &path])?;
    touch(&project, language, &name)?;
    let since = Instant::now();
    chela(&["build", &path])?;
    let build_s = since.elapsed().as_secs_f64();
    chela(&["test", &path])?;
    let measured = chela(&["bench", &path, "--calls", CALLS])?;
    let case = &measured["cases"][0];
    Ok(json!({
        "build_s": super::rounded(build_s),
        "size_mb": measured["sizeMb"],
        "made_ms": case["madeMs"],
        "first_call_ms": case["firstMs"],
        "warm_us": case["p50Micros"],
        "warm_p99_us": case["p99Micros"],
        "memory_mb": case["memoryMb"],
    }))
}

/// Changes the source, so that there is something to build.
fn touch(project: &Path, language: &str, name: &str) -> Result<()> {
    let (source, comment) = match language {
        "rust" => (project.join("src/lib.rs"), "//"),
        "js" => (project.join("plugin.js"), "//"),
        "python" => (project.join("plugin.py"), "#"),
        _ => (project.join(format!("{name}.rhai")), "//"),
    };
    let text = std::fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    Ok(std::fs::write(&source, format!("{text}{comment} changed\n"))?)
}
