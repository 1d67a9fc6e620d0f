//! What `chela doctor` says of what a gateway stands on beside its files: the version that wrote them, certificate, secrets, clock, room
//! to grow, and what nobody needs any more. Mends what is safe to mend.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use chela_storage::DirLock;

use super::Finding;
use crate::app::{self, Stamp};
use crate::clock::{Clock, Timestamp};
use crate::config::Secret;
use crate::layout::StateDir;
use crate::settings::{self, Settings};

const DAY_MS: u64 = 86_400_000;
/// A certificate that ends so soon should have been renewed.
const CERTIFICATE_SOON_MS: u64 = 14 * DAY_MS;
/// A clock that is behind what was written by more than this was set back.
const CLOCK_BACK_MS: u64 = 120_000;
/// Files that are looked at to tell how the directory grows.
const FILES_MAX: usize = 200_000;
/// Files that are told of by name.
const NAMED_MAX: usize = 5;

/// Which version wrote the directory.
pub(super) fn version(dir: &StateDir) -> Finding {
    const CHECK: &str = "version";
    let read = Stamp::read(dir).and_then(|stamp| {
        stamp.as_ref().map_or(Ok(()), |stamp| stamp.may_be_read(dir.path()))?;
        Ok(stamp)
    });
    match read {
        Ok(Some(stamp)) => Finding::good(CHECK, format!("served last by {}, layout {}", stamp.version, stamp.layout)),
        Ok(None) => Finding::good(CHECK, "not served by a version that says so"),
        Err(error @ app::Error::Newer { .. }) => {
            let remedy = "this command is too old for it: run the one of the version that it names";
            Finding::wrong(CHECK, error.to_string(), remedy)
        }
        Err(error) => Finding::wrong(CHECK, error.to_string(), "restore a backup, or put state.json right by hand"),
    }
}

/// The certificate of encrypted listeners.
pub(super) fn certificate(dir: &StateDir, settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "certificate";
    let identity = match settings::identity(&settings.config.tls, dir) {
        Ok(None) => return Vec::new(),
        Ok(Some(identity)) => identity,
        Err(problems) => {
            let wrong = |problem: &crate::schema::Problem| {
                Finding::wrong(CHECK, problem.to_string(), "give the gateway a whole certificate with its key")
            };
            return problems.0.iter().map(wrong).collect();
        }
    };
    let now = Clock::system().now().0;
    vec![match identity.until() {
        None => Finding::good(CHECK, "whole; its end cannot be read"),
        Some(until) if until.0 <= now => Finding::wrong(
            CHECK,
            format!("it ended at {until}"),
            "renew it; the gateway takes the new one up by itself",
        ),
        Some(until) if until.0 - now < CERTIFICATE_SOON_MS => Finding::warning(
            CHECK,
            format!("it ends at {until}"),
            "renew it; the gateway takes the new one up by itself",
        ),
        Some(until) => Finding::good(CHECK, format!("good until {until}")),
    }]
}

/// Whether the secrets are there that the configuration names for others than ourselves.
pub(super) fn secrets(dir: &StateDir, settings: &Settings) -> Finding {
    const CHECK: &str = "secrets";
    let config = &settings.config;
    let keys = config
        .providers
        .iter()
        .filter_map(|(name, provider)| provider.key.as_ref().map(|key| (format!("providers.{name}.key"), key.clone())));
    let granted = config.channels.iter().flat_map(|(channel, one)| {
        let of = move |name: &String| format!("channels.{channel}.grants.secrets.{name}");
        one.grants.secrets.iter().map(move |(name, secret)| (of(name), secret.value.clone()))
    });
    let all: Vec<(String, Secret)> = keys.chain(granted).collect();
    let missing: Vec<String> = all
        .iter()
        .filter_map(|(path, secret)| Some(format!("{path}: {}", settings::secret_text(secret, dir).err()?)))
        .collect();
    if missing.is_empty() {
        return Finding::good(CHECK, format!("{} of models and channels, all there", all.len()));
    }
    let remedy = "good if the gateway has what this command has not; else put them where the configuration says";
    Finding::warning(CHECK, few(missing), remedy)
}

/// Whether the clock is behind what was written.
pub(super) fn clock(dir: &StateDir) -> Finding {
    const CHECK: &str = "clock";
    let now = Clock::system().now();
    let written = [dir.event_log(), dir.audit_log(), dir.stamp()];
    let latest = written.iter().filter_map(|path| changed(path)).max().unwrap_or(Timestamp(0));
    if latest.0 > now.0 + CLOCK_BACK_MS {
        let detail = format!("it is {now}, and something was written at {latest}");
        let remedy = "set the clock (`timedatectl`); new events are told with earlier times than old ones, and deadlines of questions are later by as much";
        return Finding::warning(CHECK, detail, remedy);
    }
    Finding::good(CHECK, now.to_string())
}

fn changed(path: &Path) -> Option<Timestamp> {
    let facts = fs::metadata(path).ok()?;
    u64::try_from(facts.mtime()).ok().map(|seconds| Timestamp(seconds * 1_000))
}

/// How large the directory is, what takes the room, and when the disk is full if it goes on so.
pub(super) fn growth(dir: &StateDir) -> Finding {
    const CHECK: &str = "growth";
    let now = Clock::system().now().0;
    let (mut total, mut young, mut left, mut seen) = (0_u64, 0_u64, vec![dir.path().to_owned()], 0);
    let mut parts: Vec<(String, u64)> = Vec::new();
    let mut oldest = now;
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(facts) = entry.metadata() else { continue };
            seen += 1;
            if seen > FILES_MAX {
                return Finding::good(CHECK, format!("more than {FILES_MAX} files; `du` tells more"));
            }
            if facts.is_dir() {
                left.push(entry.path());
                continue;
            }
            let bytes = facts.blocks() * 512;
            let at = u64::try_from(facts.mtime()).unwrap_or_default() * 1_000;
            total += bytes;
            oldest = oldest.min(at.max(1));
            if now.saturating_sub(at) < 7 * DAY_MS {
                young += bytes;
            }
            let path = entry.path();
            let below = path.strip_prefix(dir.path()).unwrap_or(&path);
            let part = below.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
            let part = part.unwrap_or_default();
            match parts.iter_mut().find(|(name, _)| *name == part) {
                Some((_, sum)) => *sum += bytes,
                None => parts.push((part, bytes)),
            }
        }
    }
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let largest: Vec<String> = parts.iter().take(3).map(|(name, bytes)| format!("{name} {} MB", bytes >> 20)).collect();
    let detail = format!("{} MB ({})", total >> 20, largest.join(", "));
    // What a week has written, at most; a directory that is younger has not lived a week yet.
    let days = ((now - oldest) / DAY_MS).clamp(1, 7);
    let a_day = young / days;
    let free = rustix::fs::statvfs(dir.path()).map_or(u64::MAX, |facts| facts.f_bavail.saturating_mul(facts.f_frsize));
    let full_in = free / a_day.max(1);
    match full_in {
        ..30 => {
            let when = Timestamp(now + full_in * DAY_MS).date();
            Finding::warning(
                CHECK,
                format!("{detail}; at this rate the disk is full on {when}"),
                "make room, or keep events for a shorter time (`events.keepDays`)",
            )
        }
        _ => Finding::good(CHECK, format!("{detail}, about {} MB a day", a_day >> 20)),
    }
}

/// The index of the event log, which can always be made again.
pub(super) fn index(dir: &StateDir, mends: bool) -> Finding {
    const CHECK: &str = "index";
    const BEGIN: &[u8] = b"SQLite format 3\0";
    let path = dir.event_index();
    let Ok(mut file) = fs::File::open(&path) else {
        return Finding::good(CHECK, "none yet; the next start makes it from the log");
    };
    let mut begin = [0; BEGIN.len()];
    let size = file.metadata().map_or(0, |facts| facts.len());
    if size == 0 || file.read_exact(&mut begin).is_ok_and(|()| begin == BEGIN) {
        return Finding::good(CHECK, format!("{} kB", size >> 10));
    }
    let said = format!("{} is no index", path.display());
    if !mends || DirLock::is_held(&dir.lock()).unwrap_or(true) {
        let remedy =
            "stop the gateway and run `chela doctor --fix`, which removes it; the next start makes it from the log";
        return Finding::wrong(CHECK, said, remedy);
    }
    match fs::remove_dir_all(dir.index()) {
        Ok(()) => Finding::good(CHECK, format!("{said}; removed, the next start makes it from the log")),
        Err(error) => Finding::wrong(CHECK, format!("{said}: {error}"), "remove the directory `index` by hand"),
    }
}

/// Workspaces and sessions of agents that the configuration does not have.
pub(super) fn orphans(dir: &StateDir, settings: &Settings) -> Option<Finding> {
    let agents = &settings.config.agents.list;
    let named = |folder: &Path, begin: &str| -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
        let name = |entry: &fs::DirEntry| entry.file_name().to_str().map(str::to_owned);
        entries.filter_map(|entry| Some((name(&entry)?.strip_prefix(begin)?.to_owned(), entry.path()))).collect()
    };
    let known = |(id, path): &(String, PathBuf)| {
        agents.iter().any(|agent| agent.id.as_ref() == id.as_str() || dir.path().join(agent.workspace_path()) == *path)
    };
    let all = named(dir.path(), "workspace-").into_iter().chain(named(&dir.sessions(), ""));
    let lost: Vec<String> = all.filter(|one| !known(one)).map(|(_, path)| path.display().to_string()).collect();
    let remedy = "configure the agent again to work on with them, or move them away; nothing reads them meanwhile";
    (!lost.is_empty())
        .then(|| Finding::warning("orphans", format!("of agents that are not configured: {}", few(lost)), remedy))
}

/// Files that nobody needs, and rights that are wider than they must be. With `mends` they are put right.
pub(super) fn leftovers(dir: &StateDir, mends: bool) -> Vec<Finding> {
    const CHECK: &str = "leftovers";
    let mut findings = Vec::new();
    let served = DirLock::is_held(&dir.lock()).unwrap_or(true);
    let unfinished: Vec<PathBuf> = [dir.path().to_owned(), dir.run(), dir.logs(), dir.plugins(), dir.journal()]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| chela_storage::is_unfinished(&name.to_string_lossy())))
        .collect();
    let stale = [dir.run_file(), dir.run_tls()].into_iter().filter(|path| path.exists());
    // While somebody serves, these are at work.
    let gone: Vec<PathBuf> = if served { Vec::new() } else { unfinished.into_iter().chain(stale).collect() };
    if !gone.is_empty() {
        let names = few(gone.iter().map(|path| path.display().to_string()).collect());
        findings.push(match mends {
            true => match gone.iter().try_for_each(fs::remove_file) {
                Ok(()) => Finding::good(CHECK, format!("removed: {names}")),
                Err(error) => Finding::warning(CHECK, format!("{names}: {error}"), "remove them by hand"),
            },
            false => {
                let remedy = "the next `chela serve` removes what is in its way; `chela doctor --fix` removes all";
                Finding::warning(CHECK, format!("left by a kill: {names}"), remedy)
            }
        });
    }
    let aside: Vec<String> = fs::read_dir(dir.path())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("journal.damaged-"))
        .collect();
    if !aside.is_empty() {
        let remedy = "remove them when nothing is missed";
        findings.push(Finding::warning(CHECK, format!("damaged journals that were set aside: {}", few(aside)), remedy));
    }
    let (check, wide): (&'static str, Vec<(PathBuf, u32)>) = ("rights", wide_open(dir));
    if !wide.is_empty() {
        let names = few(wide.iter().map(|(path, _)| path.display().to_string()).collect());
        let mended = mends.then(|| {
            wide.iter().try_for_each(|(path, mode)| fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)))
        });
        findings.push(match mended {
            Some(Ok(())) => Finding::good(check, format!("now for their owner alone: {names}")),
            Some(Err(error)) => Finding::wrong(check, format!("{names}: {error}"), "run `chmod go-rwx` on them"),
            None => {
                let remedy = "run `chmod go-rwx` on them, or `chela doctor --fix`";
                Finding::warning(check, format!("others can read {names}"), remedy)
            }
        });
    }
    findings
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

fn few(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", names.join("; "))
}
