//! A new version on recorded inputs, beside the one that serves: what would it have decided?

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::dispatch;
use super::generation::Generation;
use super::instance::{Instance, Surroundings, Unmade};
use super::record::Recorded;

/// Recorded inputs that are replayed.
pub(super) const INPUTS_MAX: usize = 200;
/// Changes that are told one by one.
const CHANGES_TOLD_MAX: usize = 20;
/// All of it together; what is left then is left out.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Inputs that both versions were given.
    pub replayed: usize,
    /// How many of them the new version answers otherwise.
    pub changed: usize,
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub export: String,
    pub digest: String,
    pub before: Value,
    pub after: Value,
}

/// The new version failed on an input that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broke {
    pub(super) export: String,
    pub(super) digest: String,
    pub(super) said: String,
}

/// Replays `inputs` on both. Runs guest code.
pub(super) fn replay(
    old: Option<&Generation>,
    new: &Generation,
    inputs: &[Recorded],
    around: impl Fn(&Recorded) -> Surroundings,
) -> Result<Report, Broke> {
    let mut report = Report::default();
    if inputs.is_empty() {
        // Instances are not made for nothing: taking up a configuration takes its time.
        return Ok(report);
    }
    let since = Instant::now();
    let mut before = old.and_then(|old| make(old).ok());
    let mut after = make(new).map_err(|said| Broke { export: "configure".into(), digest: String::new(), said })?;
    for recorded in inputs.iter().take_while(|_| since.elapsed() < PATIENCE) {
        let around = around(recorded);
        let answer = dispatch::call(&mut after, &recorded.export, &recorded.input, &around);
        let answer = match answer {
            Ok(answer) => answer,
            // Recorded by another version of the host: says nothing about the component.
            Err(dispatch::Error::Input { .. } | dispatch::Error::NoSuchExport { .. }) => continue,
            Err(dispatch::Error::Failed(failure)) => {
                let (export, digest) = (recorded.export.clone(), recorded.digest.clone());
                return Err(Broke { export, digest, said: failure.to_string() });
            }
        };
        report.replayed += 1;
        let served = before
            .as_mut()
            .and_then(|instance| dispatch::call(instance, &recorded.export, &recorded.input, &around).ok());
        if before.as_ref().is_some_and(|instance| !instance.is_whole()) {
            before = old.and_then(|old| make(old).ok());
        }
        let served = served.unwrap_or_else(|| recorded.output.clone());
        if served != answer {
            report.changed += 1;
            if report.changes.len() < CHANGES_TOLD_MAX {
                let (export, digest) = (recorded.export.clone(), recorded.digest.clone());
                report.changes.push(Change { export, digest, before: served, after: answer });
            }
        }
    }
    Ok(report)
}

/// What both answer to one input; none where one of them fails, or none serves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    pub before: Option<Value>,
    pub after: Option<Value>,
    /// Why the new one has no answer.
    pub failed: Option<String>,
}

/// Asks both the same. An input on which one fails leaves the others alone. Runs guest code.
pub(super) fn pairs(
    old: Option<&Generation>,
    new: &Generation,
    export: &str,
    inputs: &[Value],
    around: impl Fn(&Value) -> Surroundings,
) -> Result<Vec<Pair>, Broke> {
    let since = Instant::now();
    let fresh = || make(new).map_err(|said| Broke { export: "configure".into(), digest: String::new(), said });
    let mut before = old.and_then(|old| make(old).ok());
    let mut after = fresh()?;
    let mut pairs = Vec::new();
    for input in inputs.iter().take_while(|_| since.elapsed() < PATIENCE) {
        let around = around(input);
        let answered = dispatch::call(&mut after, export, input, &around);
        if !after.is_whole() {
            after = fresh()?;
        }
        let served = before.as_mut().and_then(|instance| dispatch::call(instance, export, input, &around).ok());
        if before.as_ref().is_some_and(|instance| !instance.is_whole()) {
            before = old.and_then(|old| make(old).ok());
        }
        let (after, failed) = match answered {
            Ok(answer) => (Some(answer), None),
            Err(error) => (None, Some(error.to_string())),
        };
        pairs.push(Pair { before: served, after, failed });
    }
    Ok(pairs)
}

fn make(generation: &Generation) -> Result<Instance, String> {
    generation.make(&mut Vec::new()).map_err(|unmade| match unmade {
        Unmade::Failed(failure) => failure.to_string(),
        Unmade::Config { path, message } => format!("{path}: {message}"),
    })
}
