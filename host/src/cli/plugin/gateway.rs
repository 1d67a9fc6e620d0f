//! The commands that ask the running gateway.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Map, Value, json};

use super::argument;
use super::compare::change_table;
use super::project::resolved;
use super::read_config;
use super::sign::signature_of;
use crate::cli::ask::{self, encoded};
use crate::cli::exit::WrongArgument;
use crate::cli::output::{plain, table};
use crate::cli::{Output, block_on};
use crate::client::{self, Client};
use crate::layout::StateDir;

/// Compiling a large component takes most of a minute.
const PATIENCE: Duration = Duration::from_secs(120);
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(in crate::cli) struct Load {
    /// `builtin:NAME`, a component or a script
    #[arg(value_name = "FILE", value_parser = argument::source)]
    source: String,
    /// `classifier`, `guard:NAME`, `continuation`, `continuation:AGENT` or `channel:NAME`
    #[arg(long, value_parser = argument::slot)]
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
    #[arg(value_parser = argument::slot)]
    slot: String,
}

#[derive(Args)]
pub(in crate::cli) struct Logs {
    /// `classifier`, `guard:NAME`, `continuation`, `continuation:AGENT` or `channel:NAME`
    #[arg(value_parser = argument::slot)]
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
        let config = self.config.as_deref().map(|path| read_config("--config", path)).transpose()?;
        let answer = load(dir, &self.source, &self.slot, config, How { shadow: self.shadow, fresh: self.fresh })?;
        output.show(&answer, || load_in_words(&answer));
        Ok(())
    }
}

/// How something is put into a slot.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    /// Only to tell what would change.
    pub(super) shadow: bool,
    /// Without what the one before has left.
    pub(super) fresh: bool,
}

/// Puts a component or a script into a slot; the configuration in use stays if none is given.
pub(super) fn load(
    dir: &StateDir,
    source: &str,
    slot: &str,
    config: Option<Map<String, Value>>,
    how: How,
) -> anyhow::Result<Value> {
    let (source, config) = match source.ends_with(".rhai") {
        true => {
            let (source, config) = resolved(source, config.unwrap_or_default(), slot.split(':').next())?;
            (source, Some(config))
        }
        false => (source.to_owned(), config),
    };
    if source.starts_with("builtin:") {
        let How { shadow, fresh } = how;
        let params = json!({ "slot": slot, "source": source, "config": config, "shadow": shadow, "fresh": fresh });
        return call(dir, "plugin.load", params);
    }
    let path = PathBuf::from(&source);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if !name.ends_with(".wasm") {
        let said = format!("{} is neither a .wasm nor a .rhai file; give a component or a script", path.display());
        return Err(WrongArgument { flag: "FILE", said }.into());
    }
    let client = client(dir)?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut body = config.map(|config| Value::Object(config).to_string().into_bytes()).unwrap_or_default();
    let signature = std::fs::read(signature_of(&path)).unwrap_or_default();
    let (config_bytes, signature_bytes) = (body.len(), signature.len());
    let query = format!("slot={}&name={}", encoded(slot), encoded(&name));
    let query = format!("{query}&configBytes={config_bytes}&signatureBytes={signature_bytes}");
    body.extend(signature);
    body.extend(bytes);
    let query = format!("{query}&shadow={}&fresh={}", how.shadow, how.fresh);
    let answer = block_on(client.upload(&format!("/admin/plugins/upload?{query}"), body))?;
    answer.map_err(|error| {
        let too_large = matches!(&error, client::Error::TurnedAway { code, .. } if code == "body_too_large");
        let error = anyhow::Error::from(error);
        match too_large {
            true => error.context(format!(
                "{} is too large for this deployment; make it smaller, or raise `plugins.fileBytes`",
                path.display()
            )),
            false => error,
        }
    })
}

pub(super) fn load_in_words(answer: &Value) -> String {
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
    let changes = shadow["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !changes.is_empty() {
        text.push_str(&format!("\n{}", change_table(changes, ("before", "after"), ("BEFORE", "AFTER"))));
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
