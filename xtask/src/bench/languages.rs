//! What a language costs: the same guard, made, built, tested, loaded and asked as its author would, in each of them.
//! Where the tools of JavaScript or Python cannot be had, a guard of the corpus is asked instead, and nothing is said of building.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::gateway::Serving;
use super::plugins::inside_with;
use super::rounded;
use crate::cargo::target;
use crate::corpus;

/// What the engines of JavaScript and Python take.
const MEMORY_MB: u32 = 96;

/// A language, and the component of the corpus that stands in for it.
const LANGUAGES: [(&str, Option<&str>); 4] =
    [("rust", None), ("script", None), ("js", Some("guard-js")), ("python", Some("guard-python"))];

pub fn run(binary: &Path) -> Result<Value> {
    let room = target().join("bench-languages");
    // What an earlier measurement left would be found instead of built.
    let _ = fs::remove_dir_all(&room);
    let state = room.join("state");
    fs::create_dir_all(&state)?;
    Serving::start(binary, &state)?.stop()?;
    allow(&state)?;
    let serving = Serving::start(binary, &state)?;
    let mut figures = Map::new();
    let mut components = Map::new();
    for (language, stand_in) in LANGUAGES {
        eprintln!("bench: {language}");
        let author = Author { binary, room: &room, language };
        let (built, component) = match (author.measure(), stand_in) {
            (Ok(built), _) => (built, author.component()),
            (Err(error), None) => return Err(error),
            (Err(error), Some(name)) => {
                eprintln!(
                    "bench: a guard in {language} cannot be built here, so that of the corpus is asked ({error:#})"
                );
                let component = corpus::unpacked(name)?;
                let size = hundredths(fs::metadata(&component)?.len() as f64 / 1e6);
                (Map::from_iter([("size_mb".into(), json!(size)), ("of_corpus".into(), json!(true))]), component)
            }
        };
        figures.insert(language.into(), Value::Object(built));
        components.insert(language.into(), json!(component));
    }
    serving.stop()?;
    let list = room.join("components.json");
    fs::write(&list, Value::Object(components).to_string())?;
    for (language, asked) in inside_with(binary, "languages", &list)? {
        let of_language = figures.get_mut(&language).and_then(Value::as_object_mut);
        of_language.context("a language that was measured")?.extend(asked.as_object().cloned().unwrap_or_default());
    }
    Ok(Value::Object(figures))
}

/// Slots whose plugins may take as much memory as an engine needs.
fn allow(state: &Path) -> Result<()> {
    let path = state.join("chela.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
    let slot = |(language, _): (&str, _)| json!({ "name": format!("bench-{language}"), "source": "builtin:stop-guard", "limits": { "memoryMb": MEMORY_MB } });
    config["plugins"]["guards"] = json!(LANGUAGES.map(slot));
    Ok(fs::write(&path, config.to_string())?)
}

/// Somebody who writes a guard in one language.
struct Author<'a> {
    binary: &'a Path,
    room: &'a Path,
    language: &'a str,
}

impl Author<'_> {
    /// From nothing to serving, step by step; then what a change of the source takes.
    fn measure(&self) -> Result<Map<String, Value>> {
        let (name, path) = (self.name(), self.project().display().to_string());
        let component = self.component().display().to_string();
        let slot = format!("guard:{name}");
        let mut figures = Map::new();
        let since = Instant::now();
        for (step, arguments) in [
            ("new_s", &["new", &name, "--world", "guard", "--lang", self.language, "--into", &path][..]),
            // With this come crates and packages; an author waits for the later ones, after each change.
            ("first_build_s", &["build", &path]),
            ("test_s", &["test", &path]),
            ("load_s", &["load", &component, "--slot", &slot]),
        ] {
            figures.insert(step.into(), json!(hundredths(self.timed(arguments)?)));
        }
        figures.insert("serving_s".into(), json!(rounded(since.elapsed().as_secs_f64())));
        self.change()?;
        figures.insert("build_s".into(), json!(hundredths(self.timed(&["build", &path])?)));
        let size = fs::metadata(self.component())?.len() as f64 / 1e6;
        figures.insert("size_mb".into(), json!((size * 1e4).round() / 1e4));
        Ok(figures)
    }

    fn name(&self) -> String {
        format!("bench-{}", self.language)
    }

    fn project(&self) -> PathBuf {
        self.room.join(self.language)
    }

    fn component(&self) -> PathBuf {
        match self.language {
            "script" => self.project().join(format!("{}.rhai", self.name())),
            _ => self.project().join(format!("build/{}.wasm", self.name())),
        }
    }

    /// Runs `chela plugin …`; gives how many seconds it took.
    fn timed(&self, arguments: &[&str]) -> Result<f64> {
        let mut command = Command::new(self.binary);
        command.arg("plugin").args(arguments).arg("--json");
        // Of its own, whatever else was built on this machine.
        command.env("CHELA_STATE_DIR", self.room.join("state")).env_remove("CARGO_TARGET_DIR");
        let since = Instant::now();
        let output = command.output().context("cannot run chela")?;
        let took = since.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "chela plugin {}: {}", arguments.join(" "), said.trim());
        Ok(took)
    }

    /// Changes the source, so that there is something to build.
    fn change(&self) -> Result<()> {
        let (source, comment) = match self.language {
            "rust" => (self.project().join("src/lib.rs"), "//"),
            "js" => (self.project().join("plugin.js"), "//"),
            "python" => (self.project().join("plugin.py"), "#"),
            _ => (self.component(), "//"),
        };
        let text = fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
        Ok(fs::write(&source, format!("{text}{comment} changed\n"))?)
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
