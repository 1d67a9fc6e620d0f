//! What `chela doctor` says of what nobody needs or reads any more, and of rights and owners that are not as they should be. Mends what is
//! safe to mend.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use chela_storage::{DirLock, journal};

use super::growth::FILES_MAX;
use super::{Finding, few};
use crate::cli::{backup, restore};
use crate::layout::StateDir;
use crate::sessions;
use crate::settings::Settings;

/// Folders below the directory that are looked into for unfinished files.
const DEPTH_MAX: usize = 4;

/// Workspaces and sessions of agents that the configuration does not have, and transcripts of no session.
pub(super) fn orphans(dir: &StateDir, settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "orphans";
    let agents = &settings.config.agents.list;
    let named = |folder: &Path, begin: &str| -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
        let name = |entry: &fs::DirEntry| entry.file_name().to_str().map(str::to_owned);
        entries.filter_map(|entry| Some((name(&entry)?.strip_prefix(begin)?.to_owned(), entry.path()))).collect()
    };
    let known = |(id, path): &(String, PathBuf)| {
        agents.iter().any(|agent| agent.id.as_ref() == id.as_str() || dir.path().join(agent.workspace_path()) == *path)
    };
    let of_agents = named(&dir.sessions(), "");
    let all = named(dir.path(), "workspace-").into_iter().chain(of_agents.clone());
    let lost: Vec<String> = all.filter(|one| !known(one)).map(|(_, path)| path.display().to_string()).collect();
    let mut findings = Vec::new();
    if !lost.is_empty() {
        let remedy = "configure the agent again to work on with them, or move them away; nothing reads them meanwhile";
        findings.push(Finding::warning(CHECK, format!("of agents that are not configured: {}", few(lost)), remedy));
    }
    let unread = transcripts_of_none(dir, of_agents.iter().filter(|one| known(one)).map(|(_, path)| path.as_path()));
    if !unread.is_empty() {
        let remedy = "nothing reads them: move them into `archive` beside them, or remove them";
        findings.push(Finding::warning(CHECK, format!("transcripts of no session: {}", few(unread)), remedy));
    }
    findings
}

/// Transcripts whose session is not on record. While somebody serves, sessions come and go, and it is not looked.
fn transcripts_of_none<'a>(dir: &StateDir, folders: impl Iterator<Item = &'a Path>) -> Vec<String> {
    if DirLock::is_held(&dir.lock()).unwrap_or(true) {
        return Vec::new();
    }
    // A journal that cannot be read is told of elsewhere.
    let Ok(records) = journal::records(&dir.journal(), sessions::SESSION) else { return Vec::new() };
    let known: HashSet<String> = records.iter().filter_map(sessions::transcript_name).collect();
    let entries = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let is_lost = |path: &PathBuf| {
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        path.extension().is_some_and(|ending| ending == "jsonl") && path.is_file() && !known.contains(name)
    };
    entries.map(|entry| entry.path()).filter(is_lost).map(|path| path.display().to_string()).collect()
}

/// Files that nobody needs, and rights that are wider than they must be. With `mends` they are put right.
pub(super) fn leftovers(dir: &StateDir, mends: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(unfinished(dir, mends));
    findings.extend(set_aside(dir));
    findings.extend(rights(dir, mends));
    findings.extend(owners(dir));
    findings
}

fn unfinished(dir: &StateDir, mends: bool) -> Option<Finding> {
    const CHECK: &str = "leftovers";
    // While somebody serves, these are at work.
    if DirLock::is_held(&dir.lock()).unwrap_or(true) {
        return None;
    }
    let stale = [dir.run_file(), dir.run_tls()].into_iter().filter(|path| path.exists());
    let gone: Vec<PathBuf> = half_written(dir.path()).into_iter().chain(stale).collect();
    if gone.is_empty() {
        return None;
    }
    let names = few(gone.iter().map(|path| path.display().to_string()).collect());
    Some(match mends {
        true => match gone.iter().try_for_each(fs::remove_file) {
            Ok(()) => Finding::good(CHECK, format!("removed: {names}")),
            Err(error) => Finding::warning(CHECK, format!("{names}: {error}"), "remove them by hand"),
        },
        false => {
            let remedy = "the next `chela serve` removes what is in its way; `chela doctor --fix` removes all";
            Finding::warning(CHECK, format!("left by a kill: {names}"), remedy)
        }
    })
}

/// Files that a killed writer left.
fn half_written(dir: &Path) -> Vec<PathBuf> {
    let (mut left, mut found, mut seen) = (vec![(dir.to_owned(), 0)], Vec::new(), 0);
    while let Some((folder, depth)) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < DEPTH_MAX && seen < FILES_MAX => left.push((path, depth + 1)),
                Ok(kind) if kind.is_file() && is_half_written(&name) => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn is_half_written(name: &str) -> bool {
    let of_job = name.starts_with(".job-") && name.ends_with(".json.tmp");
    chela_storage::is_unfinished(name) || of_job
}

/// What was kept for a person to look at, and what a restore or a backup that was killed left.
fn set_aside(dir: &StateDir) -> Option<Finding> {
    let names = |folder: &Path| -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
    };
    let drafts = |name: &str| name.starts_with(restore::DRAFT) || name.starts_with(backup::DRAFT);
    let is_within =
        |name: &str| name.starts_with("journal.damaged-") || name.starts_with(restore::ASIDE) || drafts(name);
    // systemd's are links: what was set aside lies where they lead to.
    let place = dir.path().canonicalize().unwrap_or_else(|_| dir.path().to_owned());
    let own = place.file_name().map(|name| format!("{}.before-", name.to_string_lossy()));
    let is_beside = |name: &str| own.as_ref().is_some_and(|own| name.starts_with(own)) || drafts(name);
    let within = names(dir.path()).into_iter().filter(|(name, _)| is_within(name));
    let beside = place.parent().map(names).unwrap_or_default().into_iter().filter(|(name, _)| is_beside(name));
    let found: Vec<String> = within.chain(beside).map(|(_, path)| path.display().to_string()).collect();
    let remedy = "remove it when nothing is missed, and no backup or restore is under way";
    (!found.is_empty()).then(|| Finding::warning("leftovers", format!("set aside or left: {}", few(found)), remedy))
}

fn rights(dir: &StateDir, mends: bool) -> Option<Finding> {
    const CHECK: &str = "rights";
    let wide = wide_open(dir);
    if wide.is_empty() {
        return None;
    }
    let names = few(wide.iter().map(|(path, _)| path.display().to_string()).collect());
    let mended = mends.then(|| {
        wide.iter().try_for_each(|(path, mode)| fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)))
    });
    Some(match mended {
        Some(Ok(())) => Finding::good(CHECK, format!("now for their owner alone: {names}")),
        Some(Err(error)) => Finding::wrong(CHECK, format!("{names}: {error}"), "run `chmod go-rwx` on them"),
        None => {
            let remedy = "run `chmod go-rwx` on them, or `chela doctor --fix`";
            Finding::warning(CHECK, format!("others can read {names}"), remedy)
        }
    })
}

/// What holds secrets or all that was said, and more than its owner may read it.
fn wide_open(dir: &StateDir) -> Vec<(PathBuf, u32)> {
    let private = [dir.config(), dir.sessions(), dir.journal(), dir.decisions(), dir.plugin_cache(), dir.audit_log()];
    // Behind a directory that nobody else may enter it does not matter.
    let entered = fs::metadata(dir.path()).is_ok_and(|facts| facts.mode() & 0o011 != 0);
    let mode = |path: PathBuf| fs::metadata(&path).ok().map(|facts| (path, facts.mode() & 0o777));
    private
        .into_iter()
        .filter_map(mode)
        .filter(|(path, mode)| mode & 0o077 != 0 && (entered || *path == dir.config()))
        .collect()
}

/// What the owner of the directory may not be able to read, since it is somebody else's: root leaves such files. Only told: who gives files
/// away in a directory of others can be led elsewhere.
fn owners(dir: &StateDir) -> Option<Finding> {
    let owner = fs::metadata(dir.path()).ok()?.uid();
    let mut foreign = Vec::new();
    let (mut left, mut seen) = (vec![dir.path().to_owned()], 0);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(facts)) = (entry.path(), entry.metadata()) else { continue };
            seen += 1;
            if facts.uid() != owner && !facts.is_symlink() && facts.mode() & 0o004 == 0 {
                foreign.push(path.display().to_string());
            }
            if facts.is_dir() && seen < FILES_MAX {
                left.push(path);
            }
        }
    }
    let detail = || format!("of another user than {}, who may not be able to read it: ", dir.path().display());
    let remedy = || format!("stop the gateway and run `chown -R --reference={0} {0}` as root", dir.path().display());
    (!foreign.is_empty()).then(|| Finding::warning("owners", detail() + &few(foreign), remedy()))
}
