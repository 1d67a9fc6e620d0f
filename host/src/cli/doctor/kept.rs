//! What `chela doctor` says of the files that a gateway keeps, and the one thing that it mends: a damaged journal.

use std::fs;
use std::path::{Path, PathBuf};

use chela_storage::{DirLock, journal};
use chela_taskfile::Document;
use serde_json::Value;

use super::{Finding, few};
use crate::clock::Clock;
use crate::layout::StateDir;
use crate::settings::Settings;

/// Reads the state journal. With `mends`, what is whole of a damaged one is kept, and the damaged one is set aside.
pub(super) fn journal(dir: &StateDir, mends: bool) -> Finding {
    const CHECK: &str = "state journal";
    let path = dir.journal();
    if DirLock::is_held(&dir.lock()).unwrap_or(false) {
        return Finding::good(CHECK, "in use");
    }
    let damage = match journal::check(&path) {
        Ok(records) => return Finding::good(CHECK, format!("whole, {records} records")),
        Err(error @ journal::Error::Corrupt { .. }) => error,
        Err(error) => return Finding::wrong(CHECK, words(&error), "check its owner and rights, and the disk"),
    };
    if !mends {
        let remedy = "restore a backup, or `chela doctor --fix` keeps what is whole and sets the damaged one aside";
        return Finding::wrong(CHECK, words(&damage), remedy);
    }
    match mend(dir, &path) {
        Ok(kept) => {
            let (records, lost) = (kept.records, kept.lost);
            let detail =
                format!("{damage}; mended: {records} records are kept, {lost} lines could not be read any more");
            Finding::warning(CHECK, detail, format!("the damaged one is in {}", kept.aside.display()))
        }
        Err(error) => Finding::wrong(CHECK, format!("{damage}; it could not be mended: {error:#}"), "check the disk"),
    }
}

fn mend(dir: &StateDir, path: &Path) -> anyhow::Result<journal::Salvaged> {
    // Nobody may serve it meanwhile. A directory that was restored has no place for the lock yet.
    chela_storage::make_private_dir(&dir.run())?;
    let _lock = DirLock::take(&dir.lock())?;
    let aside = path.with_extension(format!("damaged-{}", Clock::system().now().0));
    Ok(journal::salvage(path, &aside)?)
}

fn words(error: &journal::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(" ({source})"));
    format!("{error}{}", source.unwrap_or_default())
}

/// Lists that are one JSON document each.
pub(super) fn lists(dir: &StateDir) -> Vec<Finding> {
    let files = [
        ("milestones", dir.milestones(), "milestones and their tools"),
        ("todos", dir.todos(), "todos and their tools"),
        ("category overrides", dir.category_overrides(), "the monitor, which goes on without them"),
        ("plugin bindings", dir.plugin_bindings(), "what was loaded by hand, which is not taken up again"),
    ];
    let look = |(check, path, concerned): (&'static str, PathBuf, &str)| {
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                let detail = format!("{} cannot be read: {error}", path.display());
                return Some(Finding::wrong(check, detail, "check its owner and rights"));
            }
        };
        let error = serde_json::from_str::<Value>(&text).err()?;
        let detail = format!("{} is not JSON: {error}; it concerns {concerned}", path.display());
        Some(Finding::wrong(check, detail, "mend it by hand, or move it away"))
    };
    files.into_iter().filter_map(look).collect()
}

/// Task files that nobody can work on.
pub(super) fn tasks(dir: &StateDir, settings: &Settings) -> Finding {
    const CHECK: &str = "task files";
    let (mut count, mut bad) = (0, Vec::new());
    for agent in &settings.config.agents.list {
        let folder = dir.path().join(agent.workspace_path()).join("tasks");
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with("task_") || !name.ends_with(".md") || name.contains(".conflict-") {
                continue;
            }
            count += 1;
            if let Some(said) = problem_of(&entry.path()) {
                bad.push(format!("{}: {said}", entry.path().display()));
            }
        }
    }
    if bad.is_empty() {
        return Finding::good(CHECK, format!("{count}, all readable"));
    }
    Finding::wrong(CHECK, few(bad), "mend them by hand; the gateway leaves them alone")
}

fn problem_of(path: &Path) -> Option<String> {
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_file() => {}
        Ok(_) => return Some("it is not a regular file".into()),
        Err(error) => return Some(error.to_string()),
    }
    match fs::read_to_string(path) {
        Ok(text) => {
            Document::parse(&text).problems().first().map(|problem| format!("line {}: {}", problem.line, problem.said))
        }
        Err(error) => Some(error.to_string()),
    }
}
