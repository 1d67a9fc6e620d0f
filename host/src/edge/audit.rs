//! A line for every change that a client asked for, written before the change is made.
//! Keeps true: no change without its line; a month is closed when the next begins, and goes when it is older than it is kept.
//! Never: writes parameters, which may hold secrets.

use std::io::{BufRead, Read};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use chela_storage::AppendLog;
use serde::Serialize;
use uuid::Uuid;

use super::frame::{ErrorCode, ErrorShape};
use super::{Context, Error};
use crate::clock::Timestamp;
use crate::id;
use crate::layout::StateDir;

/// A line has a few hundred.
const LINE_BYTES_MAX: u64 = 64 * 1024;

pub struct Audit(Mutex<Log>);

struct Log {
    dir: StateDir,
    file: AppendLog,
    /// The month of its lines; none while it has none.
    month: Option<String>,
    keep_days: u32,
}

#[derive(Serialize)]
pub(super) struct Asked {
    id: Uuid,
    ts: Timestamp,
    who: String,
    from: SocketAddr,
    method: String,
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
    pub fn open(dir: &StateDir, keep_days: u32, now: Timestamp) -> Result<Self, Error> {
        let file = open(dir)?;
        let log = Log { dir: dir.clone(), file, month: month_of_file(dir), keep_days };
        log.forget(now);
        Ok(Self(Mutex::new(log)))
    }

    pub(super) fn entry(context: &Context, who: &str, from: SocketAddr, method: &str) -> Asked {
        let ts = context.clock.now();
        Asked { id: id::fresh(ts), ts, who: who.to_owned(), from, method: method.to_owned() }
    }

    /// Writes that a change was asked for; the change may go on only when this returns `Ok`.
    pub(super) fn asked(&self, entry: Asked) -> Result<Uuid, ErrorShape> {
        self.write(&entry, entry.ts).map_err(|error| {
            tracing::error!(%error, "the audit log took no line");
            ErrorShape::unavailable("the audit log cannot be written, so nothing is changed; check the disk")
        })?;
        Ok(entry.id)
    }

    pub(super) fn done(&self, id: Uuid, ts: Timestamp, outcome: Result<(), &ErrorShape>) {
        let line = Done { id, ts, ok: outcome.is_ok(), error: outcome.err().map(|error| error.code) };
        if let Err(error) = self.write(&line, ts) {
            tracing::error!(%error, "the audit log took no line");
        }
    }

    fn write(&self, line: &impl Serialize, at: Timestamp) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(line)?;
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.turn_to(at);
        log.file.append(&bytes)
    }
}

impl Log {
    /// Closes the month that is over. What cannot be closed grows on.
    fn turn_to(&mut self, now: Timestamp) {
        let month = month_of(now);
        let Some(before) = self.month.replace(month.clone()).filter(|before| *before != month) else { return };
        let path = self.dir.audit_log();
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

    /// Removes closed months whose last day is too long ago.
    fn forget(&self, now: Timestamp) {
        let kept_from = Timestamp(now.0.saturating_sub(u64::from(self.keep_days) * 86_400_000));
        let oldest = month_of(kept_from);
        for entry in std::fs::read_dir(self.dir.logs()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let month = name.to_str().and_then(crate::layout::month_of_closed_audit_log);
            if month.is_some_and(|month| month < oldest.as_str())
                && let Err(error) = std::fs::remove_file(entry.path())
            {
                tracing::warn!(%error, "an old audit log cannot be removed");
            }
        }
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
