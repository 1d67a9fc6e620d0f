//! `chela why`: what decided something, as far as it is recorded.

use clap::Args;
use serde_json::{Value, json};

use super::ask::{self, patiently};
use super::output::{fit, share, table, time, word, words};
use super::{Output, block_on};
use crate::clock::{Clock, Timestamp};
use crate::layout::StateDir;

/// Of an answer, as text; `--json` has all of it.
const ANSWER_COLUMNS_MAX: usize = 2_000;

#[derive(Args)]
pub(super) struct Why {
    /// A work session (ws_…, legacy:…), a task (task_…) or a job
    id: String,
}

impl Why {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let client = ask::gateway(dir)?;
        let params = json!({ "id": self.id });
        let answer = block_on(patiently(|| client.call("why", params.clone())))??;
        output.show(&answer, || in_words(&answer, Clock::system().now()));
        Ok(())
    }
}

fn in_words(answer: &Value, now: Timestamp) -> String {
    let session = &answer["workSession"];
    let mut parts = Vec::new();
    if session.is_object() {
        parts.push(format!("{} {}", word(&session["workSessionId"]), word(&session["title"])));
        parts.push(category_in_words(session, now));
    } else {
        let of = answer["workSessionId"].as_str();
        let of = of.map(|of| format!(", of the work session {of} (`chela why {of}`)")).unwrap_or_default();
        parts.push(format!("{} {}{of}", word(&answer["kind"]), word(&answer["id"])));
    }
    let decisions = answer["decisions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if decisions.is_empty() {
        parts.push("No decision that names it is in the event log.".into());
    }
    if answer["more"] == json!(true) {
        parts.push(format!(
            "The newest {} decisions; older ones: `chela events --type policy.decided`.",
            decisions.len()
        ));
    }
    parts.extend(decisions.iter().map(|event| decision_in_words(event, now)));
    parts.join("\n\n")
}

/// What the category is, who said so, and what the classifier said.
fn category_in_words(session: &Value, now: Timestamp) -> String {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let source = word(&session["categorySource"]);
    let mut rows = vec![row("category", session["collabCategory"].as_str().unwrap_or("none").to_owned())];
    match source.as_str() {
        "manual_override" => {
            let by = session["categoryUpdatedBy"].as_str().unwrap_or("somebody");
            let at = word(&session["categoryUpdatedAt"]);
            rows.push(row("because", format!("{by} said so at {at} (manual_override)")));
        }
        "manual" => rows.push(row("because", "whoever wrote the events said so (manual)".into())),
        _ => {}
    }
    let said = &session["classification"];
    if said.is_object() {
        let by = said["version"].as_str().unwrap_or("the gateway itself, since no classifier answered");
        rows.push(row("classifier", by.to_owned()));
        rows.push(row("its answer", said["primary"].as_str().unwrap_or("none").to_owned()));
        let optional = [("secondary", words(&said["secondary"])), ("sub-tags", words(&said["subTags"]))];
        rows.extend(optional.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| row(name, value)));
        rows.push(row("source", word(&said["source"])));
        rows.push(row("confidence", share(&said["confidence"])));
        rows.push(row("reason", word(&said["reason"])));
        rows.push(row("at", time(&said["at"], now)));
    } else {
        rows.push(row(
            "classifier",
            "has not been asked: nobody has said anything, or its turn is still to come".into(),
        ));
    }
    table(&rows)
}

fn decision_in_words(event: &Value, now: Timestamp) -> String {
    let data = &event["data"];
    let plugin = &data["plugin"];
    let by = match plugin.is_object() {
        true => format!("{} {}, {}", word(&plugin["name"]), word(&plugin["version"]), word(&plugin["hash"])),
        false => "the gateway itself".into(),
    };
    let row = |name: &str, value: String| vec![format!("  {name}"), value];
    let mut rows = vec![row("by", by)];
    let optional = [
        ("layer", word(&data["layer"])),
        ("input", word(&data["digest"])),
        ("answer", fit(&word(&data["answer"]), ANSWER_COLUMNS_MAX)),
        ("reason", word(&data["reason"])),
        ("took", data["micros"].as_u64().map(|micros| format!("{micros} µs")).unwrap_or_default()),
    ];
    rows.extend(optional.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| row(name, value)));
    let head = format!("{}  {} {}", time(&event["ts"], now), word(&data["slot"]), word(&data["export"]));
    format!("{head}\n{}", table(&rows))
}
