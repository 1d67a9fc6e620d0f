//! A line for every change that a client asked for, written before the change is made.
//! Keeps true: no change without its line; a line is on the disk a second later; while the disk takes none the gateway is
//! not ready, and a line says afterwards how long that was; a month is closed when the next begins, or when it has grown
//! large, and goes when it is older than it is kept or when there are many.
//! Never: writes parameters, which may hold secrets, but for those that name what is changed.

mod of;

use std::io::{BufRead, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use chela_storage::AppendLog;
use serde::Serialize;
use uuid::Uuid;

use super::frame::{ErrorCode, ErrorShape};
use super::{Context, Error};
use crate::clock::{Clock, Timestamp};
use crate::id;
use crate::layout::StateDir;

pub(super) use of::{Of, of};

/// A line has a few hundred.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// A log that has grown past this is closed.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Closed logs that are kept, however young.
const CLOSED_MAX: usize = 16;
/// Between two flushes: a person's change is not made to wait for a disk. So often a disk that took no line is asked again, too.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

pub struct Audit {
    log: Arc<Mutex<Log>>,
    /// Beside the log: who asks does not wait for a disk.
    failing: Arc<AtomicBool>,
}

struct Log {
    dir: StateDir,
    file: AppendLog,
    file_bytes_max: u64,
    /// Wakes who flushes, and ends it when it is dropped.
    written: SyncSender<()>,
    /// The month of its lines; none while it has none.
    month: Option<String>,
    keep_days: u32,
    /// Since when the disk takes no line, and what was lost by that.
    gap: Option<Gap>,
    failing: Arc<AtomicBool>,
}

/// The first line after some that could not be written.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Gap {
    ts: Timestamp,
    missing_since: Timestamp,
    /// Changes that were not made for want of their line.
    refused: u64,
    /// Changes that were made, and of which nothing says how they ended.
    outcomes: u64,
}

#[derive(Serialize)]
pub(super) struct Asked {
    id: Uuid,
    ts: Timestamp,
    who: String,
    from: SocketAddr,
    method: String,
    #[serde(skip_serializing_if = "Of::is_empty")]
    of: Of,
}

#[derive(Serialize)]
struct Done {
    id: Uuid,
    ts: Timestamp,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorCode>,
}

impl Audit {
    /// Opens the log of `dir`; what is older than `keep_days` goes.
    pub fn open(dir: &StateDir, keep_days: u32, clock: &Clock) -> Result<Self, Error> {
        let file = open(dir)?;
        let (written, writes) = sync_channel(1);
        let (path, month) = (dir.audit_log(), month_of_file(dir));
        let (dir, file_bytes_max, failing) = (dir.clone(), FILE_BYTES_MAX, Arc::<AtomicBool>::default());
        let log = Log { dir, file, file_bytes_max, written, month, keep_days, gap: None, failing: failing.clone() };
        log.forget(clock.now());
        let log = Arc::new(Mutex::new(log));
        let (at, own, clock) = (path.clone(), Arc::downgrade(&log), clock.clone());
        let flusher = std::thread::Builder::new().name("chela-audit".into());
        flusher.spawn(move || flush(&at, &writes, &own, &clock)).map_err(|cause| Error::Audit { path, cause })?;
        Ok(Self { log, failing })
    }

    pub(super) fn entry(context: &Context, who: &str, from: SocketAddr, method: &str, of: Of) -> Asked {
        let ts = context.clock.now();
        Asked { id: id::fresh(ts), ts, who: who.to_owned(), from, method: method.to_owned(), of }
    }

    /// Writes that a change was asked for; the change may go on only when this returns `Ok`.
    pub(super) fn asked(&self, entry: Asked) -> Result<Uuid, ErrorShape> {
        let mut log = lock(&self.log);
        log.write(&entry, entry.ts).map_err(|error| {
            tracing::error!(%error, "the audit log took no line");
            log.missed(entry.ts).refused += 1;
            ErrorShape::unavailable("the audit log cannot be written, so nothing is changed; check the disk")
        })?;
        Ok(entry.id)
    }

    pub(super) fn done(&self, id: Uuid, ts: Timestamp, outcome: Result<(), &ErrorShape>) {
        let line = Done { id, ts, ok: outcome.is_ok(), error: outcome.err().map(|error| error.code) };
        let mut log = lock(&self.log);
        if let Err(error) = log.write(&line, ts) {
            tracing::error!(%error, "the audit log took no line");
            log.missed(ts).outcomes += 1;
        }
    }

    /// The disk takes no line, so nothing can be changed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Flushes the log after lines were written, as long as somebody writes; while the disk takes none, asks it again.
fn flush(path: &Path, writes: &Receiver<()>, log: &Weak<Mutex<Log>>, clock: &Clock) {
    while writes.recv().is_ok() {
        // By a handle of its own: nobody who writes waits for the disk.
        let flushed = std::fs::File::open(path).and_then(|file| file.sync_data());
        if let Err(error) = flushed {
            tracing::error!(%error, "the audit log was not flushed");
        }
        loop {
            std::thread::sleep(FLUSH_EVERY);
            if log.upgrade().is_none_or(|log| lock(&log).go_on(clock.now()).is_ok()) {
                break;
            }
        }
    }
}

impl Log {
    fn write(&mut self, line: &impl Serialize, at: Timestamp) -> std::io::Result<()> {
        self.go_on(at)?;
        self.append(line, at)
    }

    fn append(&mut self, line: &impl Serialize, at: Timestamp) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(line)?;
        self.turn_to(at);
        self.file.append(&bytes)?;
        // Full: it is to be flushed already.
        let _ = self.written.try_send(());
        Ok(())
    }

    /// What the disk does not take from now on.
    fn missed(&mut self, at: Timestamp) -> &mut Gap {
        self.failing.store(true, Ordering::Relaxed);
        // Whoever flushes asks the disk again.
        let _ = self.written.try_send(());
        self.gap.get_or_insert(Gap { ts: at, missing_since: at, refused: 0, outcomes: 0 })
    }

    /// Says what is missing, where something is and the disk takes lines again.
    fn go_on(&mut self, now: Timestamp) -> std::io::Result<()> {
        let Some(gap) = self.gap else { return Ok(()) };
        self.append(&Gap { ts: now, ..gap }, now)?;
        self.gap = None;
        self.failing.store(false, Ordering::Relaxed);
        tracing::info!(refused = gap.refused, "the audit log takes lines again");
        Ok(())
    }

    /// Closes the month that is over, or a log that is large. What cannot be closed grows on.
    fn turn_to(&mut self, now: Timestamp) {
        let month = month_of(now);
        let large = self.file.bytes().is_ok_and(|bytes| bytes > self.file_bytes_max);
        let before = self.month.replace(month.clone()).filter(|before| large || *before != month);
        let Some(before) = before else { return };
        let path = self.dir.audit_log();
        if let Err(error) = self.file.sync() {
            tracing::error!(%error, "the audit log was not flushed");
        }
        let closed = (0..).map(|nth| self.dir.closed_audit_log(&before, nth)).find(|path| !path.exists());
        let turned = closed.ok_or_else(|| std::io::Error::other("no name is free"));
        match turned.and_then(|closed| std::fs::rename(&path, closed)).map_err(|cause| Error::Audit { path, cause }) {
            Ok(()) => match open(&self.dir) {
                Ok(file) => self.file = file,
                // The old one is still open under its new name.
                Err(error) => tracing::error!(%error, "the audit log of a new month cannot be begun"),
            },
            Err(error) => tracing::warn!(%error, "the audit log of a month cannot be closed"),
        }
        self.forget(now);
    }

    /// Removes closed months whose last day is too long ago, and the oldest of too many.
    fn forget(&self, now: Timestamp) {
        let kept_from = Timestamp(now.0.saturating_sub(u64::from(self.keep_days) * 86_400_000));
        let oldest = month_of(kept_from);
        let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(self.dir.logs()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            match name.to_str().and_then(crate::layout::month_of_closed_audit_log) {
                None => {}
                Some(month) if month < oldest.as_str() => remove(&entry.path()),
                Some(_) => {
                    let changed = entry.metadata().and_then(|facts| facts.modified());
                    kept.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), entry.path()));
                }
            }
        }
        kept.sort();
        let many = kept.len().saturating_sub(CLOSED_MAX);
        kept.iter().take(many).for_each(|(_, path)| remove(path));
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(%error, "an old audit log cannot be removed");
    }
}

fn open(dir: &StateDir) -> Result<AppendLog, Error> {
    let path = dir.audit_log();
    let (log, repair) = AppendLog::open(&path, &dir.corrupt_log()).map_err(|cause| Error::Audit { path, cause })?;
    if let Some(repair) = repair {
        tracing::warn!(offset = repair.offset, "a torn last line of the audit log was set aside");
    }
    Ok(log)
}

/// `2026-11`, in UTC.
fn month_of(at: Timestamp) -> String {
    at.to_string()[..7].to_owned()
}

/// The month of the log's first line.
fn month_of_file(dir: &StateDir) -> Option<String> {
    let file =
        std::fs::File::open(dir.audit_log()).ok().filter(|file| file.metadata().is_ok_and(|facts| facts.is_file()))?;
    let mut line = String::new();
    std::io::BufReader::new(file.take(LINE_BYTES_MAX)).read_line(&mut line).ok()?;
    let line: serde_json::Value = serde_json::from_str(&line).ok()?;
    line["ts"].as_u64().map(|ts| month_of(Timestamp(ts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_has_grown_large_is_closed_and_the_oldest_of_many_go() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = StateDir::new(temp.path());
        std::fs::create_dir(dir.logs()).expect("made");
        let (at, id) = (Timestamp(1_700_000_000_000), Uuid::nil());
        let audit = Audit::open(&dir, 365, &Clock::manual(at)).expect("opened");
        lock(&audit.log).file_bytes_max = 200;
        for _ in 0..200 {
            audit.done(id, at, Ok(()));
        }
        let names = || -> Vec<String> {
            let entries = std::fs::read_dir(dir.logs()).expect("readable").flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let names = names();
        assert_eq!(names.len(), CLOSED_MAX + 1, "{names:?}");
        assert!(names.iter().any(|name| name == "audit.2023-11.ndjson"), "{names:?}");
        let sizes = names.iter().map(|name| std::fs::metadata(dir.logs().join(name)).expect("there").len());
        assert!(sizes.max().is_some_and(|bytes| bytes < 400), "{names:?}");
    }
}
