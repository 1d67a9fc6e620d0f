//! What `chela doctor` says of the components that are bound: by the gateway's word where one serves, else by their files.

use serde_json::{Value, json};

use super::super::{ask, block_on};
use super::Finding;
use crate::layout::StateDir;
use crate::plugins::{self, FoundFile};
use crate::settings::Settings;

const CHECK: &str = "plugins";

/// Slots whose component does not serve. A gateway that does not tell is no reason to be silent.
pub(super) fn serving(dir: &StateDir, settings: Option<&Settings>) -> Vec<Finding> {
    let asked = ask::gateway(dir).and_then(|client| Ok(block_on(client.call("plugin.slots", json!({})))??));
    match asked {
        Ok(answer) => slots(&answer),
        Err(error) => {
            let detail = format!("the gateway could not be asked about its slots: {error:#}");
            let remedy = "run this where the gateway's own listener is on and its token can be read, or see its log";
            let mut findings = vec![Finding::warning(CHECK, detail, remedy)];
            findings.extend(settings.into_iter().flat_map(|settings| files(dir, settings)));
            findings
        }
    }
}

fn slots(answer: &Value) -> Vec<Finding> {
    let views = answer["slots"].as_array().cloned().unwrap_or_default();
    let bad = |view: &Value| matches!(view["state"].as_str(), Some("failed" | "quarantined"));
    let told: Vec<Finding> = views
        .iter()
        .filter(|view| bad(view))
        .map(|view| {
            let slot = view["slot"].as_str().unwrap_or_default();
            let why = view["problem"].as_str().unwrap_or("its component does not serve");
            let detail = format!("{slot} is {}: {why}", view["state"].as_str().unwrap_or_default());
            let remedy = match view["state"].as_str() {
                Some("quarantined") => format!(
                    "`chela plugin logs {slot}` says why; then `chela plugin release {slot}` lets it serve again, or `chela plugin rollback {slot}` takes the one before"
                ),
                _ => format!("mend the component, then `chela plugin load FILE --slot {slot}`; or do without it: `chela plugin unload {slot}`"),
            };
            Finding::wrong(CHECK, detail, remedy)
        })
        .collect();
    if told.is_empty() { vec![Finding::good(CHECK, format!("{} slots serve", views.len()))] } else { told }
}

/// Files that the next start would not find, or would not take.
pub(super) fn files(dir: &StateDir, settings: &Settings) -> Vec<Finding> {
    let found = match plugins::look_at_files(dir, &settings.config) {
        Ok(found) => found,
        Err(error) => {
            let remedy = "take it out of a backup, or remove it: then what chela.json binds serves, and nothing else";
            return vec![Finding::wrong(CHECK, error.to_string(), remedy)];
        }
    };
    let bad: Vec<Finding> = found.iter().filter_map(file).collect();
    match bad.is_empty() {
        true => vec![Finding::good(CHECK, format!("{} components are there to be loaded", found.len()))],
        false => bad,
    }
}

fn file(found: &FoundFile) -> Option<Finding> {
    let error = found.file.as_ref().err()?;
    let slot = &found.slot;
    let mend = match error.stage() {
        "verify" => "install the right file, signed if that is required, or change what chela.json requires of it",
        _ => "put the file there, readable for the gateway's user, or name another in chela.json",
    };
    let remedy = format!("{mend}; `chela plugin load FILE --slot {slot}` binds another while the gateway serves");
    Some(match found.has_stand_in {
        true => Finding::warning(CHECK, format!("{slot}: {error}; what served last would serve on"), remedy),
        false => Finding::wrong(CHECK, format!("{slot}: {error}"), remedy),
    })
}
