//! The commands that ask the running gateway.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};

use super::read_config;
use crate::cli::ask::{self, encoded};
use crate::cli::output::{plain, table};
use crate::cli::{Output, block_on};
use crate::client::Client;
use crate::layout::StateDir;

/// Compiling a large component takes most of a minute.
const PATIENCE: Duration = Duration::from_secs(120);
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(in crate::cli) struct Load {
    /// `builtin:NAME` or a file
    #[arg(value_name = "FILE")]
    source: String,
    /// `classifier`, `guard:NAME`, `continuation`, `continuation:AGENT` or `channel:NAME`
    #[arg(long)]
    slot: String,
    /// Only tell what would change on the recorded inputs; nothing is swapped
    #[arg(long)]
    shadow: bool,
    /// A JSON5 file with the component's configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A channel begins anew, without what the version before knew; its connections are closed first
    #[arg(long)]
    fresh: bool,
}

#[derive(Args)]
pub(in crate::cli) struct OfSlot {
    /// `classifier`, `guard:NAME`, `continuation`, `continuation:AGENT` or `channel:NAME`
    slot: String,
}

#[derive(Args)]
pub(in crate::cli) struct Logs {
    /// `classifier`, `guard:NAME`, `continuation`, `continuation:AGENT` or `channel:NAME`
    slot: String,
    /// How many of the newest lines
    #[arg(long, short = 'n', default_value_t = 100)]
    lines: usize,
    /// Go on with lines as they come
    #[arg(long, short)]
    follow: bool,
}

fn client(dir: &StateDir) -> anyhow::Result<Client> {
    Ok(ask::gateway(dir)?.with_patience(PATIENCE))
}

fn call(dir: &StateDir, method: &str, params: Value) -> anyhow::Result<Value> {
    let client = client(dir)?;
    Ok(block_on(client.call(method, params))??)
}

pub(super) fn list(dir: &StateDir, output: Output) -> anyhow::Result<()> {
    let answer = call(dir, "plugin.slots", json!({}))?;
    output.show(&answer, || list_in_words(&answer));
    Ok(())
}

fn list_in_words(answer: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut rows = vec![
        ["SLOT", "STATE", "PLUGIN", "VERSION", "SOURCE", "CALLS", "P50", "P99", "MEMORY"].map(str::to_owned).to_vec(),
    ];
    let mut notes = Vec::new();
    for slot in answer["slots"].as_array().into_iter().flatten() {
        let plugin = &slot["plugin"];
        let name = |key: &str| plugin[key].as_str().unwrap_or("-").to_owned();
        let stats = &slot["stats"];
        rows.push(vec![
            word(&slot["slot"]),
            word(&slot["state"]),
            name("name"),
            name("version"),
            name("source"),
            word(&stats["calls"]),
            format!("{} µs", stats["p50Micros"]),
            format!("{} µs", stats["p99Micros"]),
            format!("{} kB", slot["memoryBytes"].as_u64().unwrap_or(0) >> 10),
        ]);
        if let Some(problem) = slot["problem"].as_str() {
            notes.push(format!("{}: {problem}", word(&slot["slot"])));
        }
        if !slot["waiting"].is_null() {
            let more: Vec<&str> =
                slot["waiting"]["moreGrants"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            notes.push(format!(
                "{0}: an update waits; it asks for {1}; `chela plugin accept {0}`",
                word(&slot["slot"]),
                more.join(", ")
            ));
        }
    }
    for file in answer["installed"].as_array().into_iter().flatten() {
        notes.push(format!("{}: installed, not bound", word(file)));
    }
    let mut text = table(&rows);
    if !notes.is_empty() {
        text.push_str(&format!("\n\n{}", notes.join("\n")));
    }
    text
}

impl Load {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let config = self.config.as_deref().map(read_config).transpose()?;
        let answer = match self.source.starts_with("builtin:") {
            true => {
                let params = json!({ "slot": self.slot, "source": self.source, "config": config, "shadow": self.shadow, "fresh": self.fresh });
                call(dir, "plugin.load", params)?
            }
            false => self.upload(dir, config.map(Value::Object))?,
        };
        output.show(&answer, || load_in_words(&answer));
        Ok(())
    }

    fn upload(&self, dir: &StateDir, config: Option<Value>) -> anyhow::Result<Value> {
        let path = PathBuf::from(&self.source);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !name.ends_with(".wasm") {
            bail!("{} is not a .wasm file; give a component", path.display());
        }
        let client = client(dir)?;
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut body = config.map(|config| config.to_string().into_bytes()).unwrap_or_default();
        let query = format!("slot={}&name={}&configBytes={}", encoded(&self.slot), encoded(&name), body.len());
        body.extend(bytes);
        let answer = block_on(
            client.upload(&format!("/admin/plugins/upload?{query}&shadow={}&fresh={}", self.shadow, self.fresh), body),
        )??;
        Ok(answer)
    }
}

fn load_in_words(answer: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let plugin = |value: &Value| format!("{} {}", word(&value["name"]), word(&value["version"]));
    let shadow = &answer["shadow"];
    let mut text = match word(&answer["outcome"]).as_str() {
        "unchanged" => format!("{} serves {} already", plugin(&answer["plugin"]), word(&answer["slot"])),
        "shadow" => {
            format!("{} was tried for {}; nothing was changed", plugin(&answer["plugin"]), word(&answer["slot"]))
        }
        _ => format!("{} serves {}", plugin(&answer["plugin"]), word(&answer["slot"])),
    };
    if !answer["replaced"].is_null() {
        text.push_str(&format!(" (before: {})", plugin(&answer["replaced"])));
    }
    text.push_str(&format!("\n{} of {} recorded inputs are answered otherwise", shadow["changed"], shadow["replayed"]));
    for change in shadow["changes"].as_array().into_iter().flatten() {
        let cut = |value: &Value| value.to_string().chars().take(200).collect::<String>();
        text.push_str(&format!(
            "\n  {} {}\n    - {}\n    + {}",
            word(&change["export"]),
            word(&change["digest"]),
            cut(&change["before"]),
            cut(&change["after"])
        ));
    }
    let grants: Vec<&str> = answer["grants"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !grants.is_empty() {
        text.push_str(&format!("\nit imports {} (empty ones, without any access)", grants.join(", ")));
    }
    text
}

impl OfSlot {
    pub(super) fn run(&self, dir: &StateDir, output: Output, verb: &str) -> anyhow::Result<()> {
        let answer = call(dir, &format!("plugin.{verb}"), json!({ "slot": self.slot }))?;
        output.show(&answer, || match answer["shadow"].is_object() {
            true => load_in_words(&answer),
            false => {
                let state = answer["state"].as_str().or(answer["outcome"].as_str()).unwrap_or("done");
                format!("{}: {state}", self.slot)
            }
        });
        Ok(())
    }
}

impl Logs {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let client = client(dir)?;
        let fetch = |lines: usize| -> anyhow::Result<Vec<Value>> {
            let answer = block_on(client.call("plugin.logs", json!({ "slot": self.slot, "lines": lines })))??;
            Ok(answer["lines"].as_array().cloned().unwrap_or_default())
        };
        let mut shown = fetch(self.lines.clamp(1, 1_000))?;
        if !self.follow {
            output.show(&json!({ "slot": self.slot, "lines": shown }), || in_words(&shown));
            return Ok(());
        }
        let mut is_read = output.lines(&shown, in_words);
        while is_read {
            std::thread::sleep(FOLLOW_EVERY);
            let newest = fetch(1_000)?;
            // The lines after the last one that was shown; all of them if the file has turned over.
            let known = shown.last().and_then(|last| newest.iter().rposition(|line| line == last));
            let fresh = newest[known.map_or(0, |at| at + 1)..].to_vec();
            if !fresh.is_empty() {
                is_read = output.lines(&fresh, in_words);
                shown = newest;
            }
        }
        Ok(())
    }
}

fn in_words(lines: &[Value]) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |line: &Value| {
        format!(
            "{} {:5} {} {}: {}",
            line["ts"],
            word(&line["level"]),
            word(&line["plugin"]),
            word(&line["version"]),
            plain(&word(&line["text"]))
        )
    };
    lines.iter().map(row).collect::<Vec<_>>().join("\n")
}
