//! A line for every change that a client asked for, written before the change is made.
//! Keeps true: no change without its line. Never: writes parameters, which may hold secrets.

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

pub struct Audit(Mutex<AppendLog>);

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
    pub fn open(dir: &StateDir) -> Result<Self, Error> {
        let path = dir.audit_log();
        match AppendLog::open(&path, &dir.corrupt_log()) {
            Ok((log, repair)) => {
                if let Some(repair) = repair {
                    tracing::warn!(offset = repair.offset, "a torn last line of the audit log was set aside");
                }
                Ok(Self(Mutex::new(log)))
            }
            Err(cause) => Err(Error::Audit { path, cause }),
        }
    }

    pub(super) fn entry(context: &Context, who: &str, from: SocketAddr, method: &str) -> Asked {
        let ts = context.clock.now();
        Asked { id: id::fresh(ts), ts, who: who.to_owned(), from, method: method.to_owned() }
    }

    /// Writes that a change was asked for; the change may go on only when this returns `Ok`.
    pub(super) fn asked(&self, entry: Asked) -> Result<Uuid, ErrorShape> {
        self.write(&entry).map_err(|error| {
            tracing::error!(%error, "the audit log took no line");
            ErrorShape::unavailable("the audit log cannot be written, so nothing is changed; check the disk")
        })?;
        Ok(entry.id)
    }

    pub(super) fn done(&self, id: Uuid, ts: Timestamp, outcome: Result<(), &ErrorShape>) {
        let line = Done { id, ts, ok: outcome.is_ok(), error: outcome.err().map(|error| error.code) };
        if let Err(error) = self.write(&line) {
            tracing::error!(%error, "the audit log took no line");
        }
    }

    fn write(&self, line: &impl Serialize) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(line)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(&bytes)
    }
}
