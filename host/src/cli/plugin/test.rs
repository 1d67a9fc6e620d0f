//! `chela plugin test`: the author's cases and what every plugin of the world is asked, each on a fresh instance and on one that has
//! answered all the others. Keeps true: a case that is written wrongly is refused before anything runs, with its file and its path.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use chela_kit::{Asked, Case, Expected, Must, World};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::project::Found;
use crate::cli::Output;
use crate::cli::exit::FAILED;
use crate::cli::output::plain;
use crate::config::PluginLimits;
use crate::layout::StateDir;
use crate::plugins::{self, CallError, Failure, Opened, Running, Workbench};

/// Configurations that are kept staged at once; cases of one file usually share one.
const STAGED_MAX: usize = 32;
/// What people know the host's own questions by.
const CONFORMANCE: &str = "conformance";

#[derive(Args)]
pub(in crate::cli) struct Test {
    /// The project's directory
    #[arg(default_value = ".")]
    project: PathBuf,
}

/// What came of one case.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    file: String,
    case: String,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<String>,
}

impl Test {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
        let rows = test(&Found::at(&self.project)?, dir)?;
        let failed = rows.iter().filter(|row| !row.passed).count();
        output.show(&document(&rows), || in_words(&rows));
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

pub(super) fn document(rows: &[Row]) -> Value {
    let failed = rows.iter().filter(|row| !row.passed).count();
    json!({ "passed": rows.len() - failed, "failed": failed, "cases": rows })
}

pub(super) fn in_words(rows: &[Row]) -> String {
    let failed: Vec<&Row> = rows.iter().filter(|row| !row.passed).collect();
    let mut lines: Vec<String> = Vec::new();
    for row in &failed {
        lines.push(format!("FAILED {} {}", row.file, plain(&row.case)));
        lines.push(format!("       {}", plain(row.said.as_deref().unwrap_or_default())));
    }
    let own = rows.iter().filter(|row| row.file != CONFORMANCE).count();
    let (passed, asked) = (rows.len() - failed.len(), rows.len() - own);
    lines.push(format!(
        "{passed} of {} passed: {own} of its own, {asked} that every such plugin is asked; each on a fresh instance and on a used or restored one",
        rows.len()
    ));
    lines.join("\n")
}

/// Runs every case of a project.
pub(super) fn test(found: &Found, dir: &StateDir) -> anyhow::Result<Vec<Row>> {
    let cases = found.cases()?;
    for (file, case) in &cases {
        check(found, case).map_err(|said| anyhow::anyhow!("{file}: {said}"))?;
    }
    let (bench, _temporary) = found.workbench(dir)?;
    let mut stages = Stages { bench: &bench, found, limits: found.limits(), staged: Vec::new() };
    let mut rows = Vec::new();
    for (file, case) in &cases {
        let said = stages.own(case)?;
        rows.push(Row { file: file.clone(), case: case.name.clone(), passed: said.is_none(), said });
    }
    // A plugin that takes no empty configuration is asked under one that it takes.
    let taken = cases.iter().find(|(_, case)| !matches!(case.expected, Expected::Refusal { .. }));
    let config = taken.map(|(_, case)| case.config.clone()).unwrap_or_default();
    for asked in chela_kit::conformance(found.project.world) {
        let said = stages.asked(&asked, &config)?;
        rows.push(Row { file: CONFORMANCE.into(), case: asked.name.into(), passed: said.is_none(), said });
    }
    Ok(rows)
}

/// Whether a case asks something that can be asked.
fn check(found: &Found, case: &Case) -> Result<(), String> {
    let (export, input) = match &case.expected {
        Expected::Answer { export, input, .. } | Expected::Failure { export, input, .. } => (export, input),
        Expected::Refusal { .. } => return Ok(()),
    };
    let known = found.project.world.exports();
    if !known.contains(&export.as_str()) {
        let world = found.project.world.as_str();
        return Err(format!("{}.export: a {world} has no function {export:?}; it has {}", case.path, known.join(", ")));
    }
    plugins::check_input(export, input).map_err(|error| format!("{}.input: {error}", case.path))
}

/// The component, staged once for each configuration, with the instance that answers everything.
struct Stages<'a> {
    bench: &'a Workbench,
    found: &'a Found,
    limits: PluginLimits,
    staged: Vec<(Map<String, Value>, Opened, Running)>,
}

impl Stages<'_> {
    /// What is wrong with the plugin by one of its own cases.
    fn own(&mut self, case: &Case) -> anyhow::Result<Option<String>> {
        match &case.expected {
            Expected::Refusal { said } => self.refusal(&case.config, said),
            Expected::Answer { export, input, answer } => self.both(&case.config, export, input, |found| match found {
                Ok(found) => chela_kit::difference(answer, found),
                Err(error) => Some(error.to_string()),
            }),
            Expected::Failure { export, input, said } => self.both(&case.config, export, input, |found| match found {
                Ok(found) => Some(format!("it answers {found}; expected a failure")),
                Err(error) if error.to_string().contains(said) => None,
                Err(error) => Some(format!("{error}; expected {said:?} in it")),
            }),
        }
    }

    fn asked(&mut self, asked: &Asked, config: &Map<String, Value>) -> anyhow::Result<Option<String>> {
        self.both(config, asked.export, &asked.input, |found| match (found, &asked.must) {
            (Ok(found), Must::Say(expected)) => chela_kit::difference(expected, found),
            (Ok(_), Must::Answer | Must::Survive) => None,
            (Err(CallError::Failed(Failure::Declined { .. })), Must::Survive) => None,
            (Err(error), _) => Some(format!("`{}`: {error}", asked.export)),
        })
    }

    /// Asks a fresh instance and the used one; both must do, and say the same.
    fn both(
        &mut self,
        config: &Map<String, Value>,
        export: &str,
        input: &Value,
        wrong: impl Fn(&Result<Value, CallError>) -> Option<String>,
    ) -> anyhow::Result<Option<String>> {
        let is_adapter = self.found.project.world == World::Channel;
        let (opened, used) = self.staged(config)?;
        let fresh = opened.start()?.call(export, input);
        if let Some(said) = wrong(&fresh) {
            return Ok(Some(said));
        }
        // An adapter has a state: what it was told in other cases is none of this one's, but one that takes over must go on alike.
        let (again, other) = match is_adapter {
            true => (opened.start()?.call_restored(&mut opened.start()?, input), "one that goes on from its state"),
            false => (used.call(export, input), "a used instance"),
        };
        if !used.is_whole() {
            *used = opened.start()?;
        }
        let text = |found: &Result<Value, CallError>| match found {
            Ok(found) => found.to_string(),
            Err(error) => error.to_string(),
        };
        let (first, second) = (text(&fresh), text(&again));
        let cut = |text: &str| text.chars().take(200).collect::<String>();
        Ok((first != second)
            .then(|| format!("{other} answers otherwise: {}; a fresh one: {}", cut(&second), cut(&first))))
    }

    fn refusal(&mut self, config: &Map<String, Value>, said: &str) -> anyhow::Result<Option<String>> {
        let (source, config) = self.found.source(config.clone())?;
        Ok(match self.bench.open(&source, config, self.limits) {
            Ok(_) => Some("it takes this configuration; expected it to refuse it".into()),
            Err(error @ plugins::Error::Config { .. }) if error.to_string().contains(said) => None,
            Err(error) => Some(format!("{error}; expected {said:?} in a refusal")),
        })
    }

    fn staged(&mut self, config: &Map<String, Value>) -> anyhow::Result<(&Opened, &mut Running)> {
        let known = self.staged.iter().position(|(known, ..)| known == config);
        let at = match known {
            Some(at) => at,
            None => {
                if self.staged.len() >= STAGED_MAX {
                    self.staged.remove(0);
                }
                let (source, full) = self.found.source(config.clone())?;
                let opened = self.bench.open(&source, full, self.limits)?;
                let world = self.found.project.world.as_str();
                if !opened.worlds.iter().any(|known| known.as_str() == world) {
                    bail!("the component is no {world}, and plugin.json says it is one; build it again");
                }
                let running = opened.start()?;
                self.staged.push((config.clone(), opened, running));
                self.staged.len() - 1
            }
        };
        let (_, opened, running) = &mut self.staged[at];
        Ok((&*opened, running))
    }
}
