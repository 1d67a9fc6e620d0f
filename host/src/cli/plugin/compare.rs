//! `chela plugin compare A B`: which recorded decisions would have been others, without a gateway and without changing one.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value, json};

use super::project::resolved;
use super::{argument, read_config, workbench};
use crate::cli::Output;
use crate::cli::output::{fit, plain, table, word};
use crate::config::PluginLimits;
use crate::layout::StateDir;
use crate::plugins::{self, CallError, Opened, Recorded, Running, Workbench};

/// Columns of an answer in the table.
const ANSWER_COLUMNS: usize = 48;

#[derive(Args)]
pub(in crate::cli) struct Compare {
    /// `builtin:NAME`, a component or a script
    #[arg(value_parser = argument::source)]
    a: String,
    /// What A is compared with
    #[arg(value_parser = argument::source)]
    b: String,
    /// Ask both what the gateway of the state directory has recorded for `--slot`
    #[arg(long, required = true)]
    recorded: bool,
    /// Whose recorded decisions: `classifier`, `guard:NAME`, `continuation` or `continuation:AGENT`
    #[arg(long, value_parser = argument::slot)]
    slot: String,
    /// How many of the newest
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    last: u32,
    /// A JSON5 file with A's configuration
    #[arg(long, value_name = "FILE")]
    config_a: Option<PathBuf>,
    /// A JSON5 file with B's configuration
    #[arg(long, value_name = "FILE")]
    config_b: Option<PathBuf>,
    /// Memory that each may use, in MB
    #[arg(long, value_name = "MB", default_value_t = PluginLimits::default().memory_mb)]
    memory: u32,
}

impl Compare {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let slot: plugins::SlotName = self.slot.parse()?;
        let recorded = plugins::recorded(dir, &slot.to_string(), self.last as usize);
        if recorded.is_empty() {
            bail!(
                "nothing is recorded for {slot} in {}; let the gateway decide something first, with `decisions.record` on",
                dir.decisions().display()
            );
        }
        let (bench, _temporary) = workbench(dir)?;
        let config = |flag, path: &Option<PathBuf>| {
            path.as_deref().map(|path| read_config(flag, path)).transpose().map(Option::unwrap_or_default)
        };
        let mut a = Side::new(&bench, self, &self.a, config("--config-a", &self.config_a)?)?;
        let mut b = Side::new(&bench, self, &self.b, config("--config-b", &self.config_b)?)?;
        let (mut changes, mut replayed, mut unreadable) = (Vec::new(), 0, 0);
        for decision in &recorded {
            let (before, after) = (a.ask(decision)?, b.ask(decision)?);
            let (Some(before), Some(after)) = (before, after) else {
                unreadable += 1;
                continue;
            };
            replayed += 1;
            if before != after {
                let (ts, export, digest) = (decision.ts, &decision.export, &decision.digest);
                changes.push(json!({ "ts": ts, "export": export, "digest": digest, "a": before, "b": after }));
            }
        }
        let document = json!({
            "slot": slot.to_string(), "a": a.opened.identity(), "b": b.opened.identity(),
            "replayed": replayed, "unreadable": unreadable, "changed": changes.len(), "changes": changes,
        });
        output.show(&document, || in_words(&document));
        Ok(())
    }
}

fn in_words(document: &Value) -> String {
    let changes = document["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let last = format!("{} of {} recorded inputs are answered otherwise", document["changed"], document["replayed"]);
    if changes.is_empty() {
        return last;
    }
    format!("{}\n\n{last}", change_table(changes, ("a", "b"), ("A", "B")))
}

/// Changed answers side by side.
pub(super) fn change_table(changes: &[Value], fields: (&str, &str), heads: (&str, &str)) -> String {
    let mut rows = vec![["EXPORT", "INPUT", heads.0, heads.1].map(str::to_owned).to_vec()];
    let answer = |value: &Value| fit(&plain(&in_short(value)), ANSWER_COLUMNS);
    for change in changes {
        rows.push(vec![
            word(&change["export"]),
            word(&change["digest"]),
            answer(&change[fields.0]),
            answer(&change[fields.1]),
        ]);
    }
    table(&rows)
}

/// What decides about an answer, before the rest of it.
fn in_short(answer: &Value) -> String {
    let items = match answer {
        Value::Array(items) if items.len() == 1 => return in_short(&items[0]),
        Value::Object(fields) => fields,
        Value::String(text) => return text.clone(),
        other => return other.to_string(),
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let first = ["verdict", "action", "primary", "failed"].iter().find_map(|name| items.get(*name));
    let rest = ["reason", "warning", "prompt", "ms", "arguments"].iter().find_map(|name| items.get(*name));
    match (first, rest) {
        (Some(first), Some(rest)) => format!("{}: {}", text(first), text(rest)),
        (Some(first), None) => text(first),
        (None, _) => answer.to_string(),
    }
}

/// One of the two, with the instance that is asked.
struct Side {
    opened: Opened,
    running: Running,
}

impl Side {
    fn new(bench: &Workbench, of: &Compare, source: &str, config: Map<String, Value>) -> anyhow::Result<Self> {
        let world = of.slot.split(':').next();
        let (source, config) = resolved(source, config, world)?;
        let limits = PluginLimits { memory_mb: of.memory, ..PluginLimits::default() };
        let opened = bench.open(&source, config, limits)?;
        let running = opened.start()?;
        Ok(Self { opened, running })
    }

    /// The answer, or the failure as one; none when another version of the host recorded it.
    fn ask(&mut self, decision: &Recorded) -> anyhow::Result<Option<Value>> {
        let answer = self.running.replay(decision);
        if !self.running.is_whole() {
            self.running = self.opened.start()?;
        }
        Ok(match answer {
            Ok(answer) => Some(answer),
            Err(CallError::Failed(failure)) => Some(json!({ "failed": failure.to_string() })),
            Err(CallError::Input { .. } | CallError::NoSuchExport { .. }) => None,
        })
    }
}
