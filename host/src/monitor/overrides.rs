//! What operators say about the categories of work sessions, in a file that people and other tools may edit too.
//! Keeps true: a file that cannot be read is never written over. Never: decides what a category is.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::category::{Override, Overrides};
use crate::clock::Timestamp;

/// A larger file is not read.
const BYTES_MAX: u64 = 8 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    #[error("cannot read {} ({said}); mend it or move it away", path.display())]
    Read { path: PathBuf, said: String },
    #[error("cannot write {} ({cause}); check its owner and rights, and the disk", path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("overrides are not taken here: this monitor only reads; start it with --allow-overrides")]
    ReadOnly,
    #[error("there is no work session {0}")]
    NoSuchSession(String),
    #[error("the monitor is stopping")]
    Stopping,
}

pub(super) struct File {
    path: PathBuf,
    writable: bool,
    stamp: Option<(u64, Timestamp)>,
    pub(super) entries: Overrides,
    /// Why the file as it is cannot be used.
    pub(super) problem: Option<String>,
}

impl File {
    pub(super) fn new(path: PathBuf, writable: bool) -> Self {
        Self { path, writable, stamp: None, entries: Overrides::new(), problem: None }
    }

    /// Reads the file if it has changed; the sessions about which something else is said now.
    pub(super) fn refresh(&mut self) -> Vec<String> {
        let stamp = fs::metadata(&self.path).ok().map(|facts| (facts.len(), changed_at(&facts)));
        if stamp == self.stamp {
            return Vec::new();
        }
        self.stamp = stamp;
        match self.read(stamp.is_none()) {
            Ok(entries) => {
                self.problem = None;
                let before = std::mem::replace(&mut self.entries, entries);
                let keys = before.keys().chain(self.entries.keys());
                let mut changed: Vec<String> =
                    keys.filter(|key| before.get(*key) != self.entries.get(*key)).cloned().collect();
                changed.sort();
                changed.dedup();
                changed
            }
            Err(said) => {
                tracing::warn!(path = %self.path.display(), said, "the overrides of categories cannot be read; the ones before stay");
                self.problem = Some(said);
                Vec::new()
            }
        }
    }

    fn read(&self, missing: bool) -> Result<Overrides, String> {
        if missing {
            return Ok(Overrides::new());
        }
        let facts = fs::metadata(&self.path).map_err(|error| error.to_string())?;
        if facts.len() > BYTES_MAX {
            return Err(format!("it is larger than {BYTES_MAX} bytes"));
        }
        let bytes = fs::read(&self.path).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    }

    /// Says something about a session, or takes it back.
    pub(super) fn set(
        &mut self,
        session: &str,
        category: Option<String>,
        by: Option<String>,
        now: Timestamp,
    ) -> Result<(), OverrideError> {
        if !self.writable {
            return Err(OverrideError::ReadOnly);
        }
        if let Some(said) = &self.problem {
            return Err(OverrideError::Read { path: self.path.clone(), said: said.clone() });
        }
        let mut entries = self.entries.clone();
        match category {
            Some(collab_category) => {
                let entry = Override { collab_category, updated_by: by, updated_at: now.to_string() };
                entries.insert(session.to_owned(), entry);
            }
            None => drop(entries.remove(session)),
        }
        // In the order of names, so that two versions of the file can be compared.
        let sorted: std::collections::BTreeMap<&String, &Override> = entries.iter().collect();
        let mut bytes = serde_json::to_vec_pretty(&sorted).expect("overrides are plain JSON");
        bytes.push(b'\n');
        chela_storage::replace(&self.path, &bytes, chela_storage::Mode::Shared)
            .map_err(|cause| OverrideError::Write { path: self.path.clone(), cause })?;
        self.entries = entries;
        self.stamp = fs::metadata(&self.path).ok().map(|facts| (facts.len(), changed_at(&facts)));
        Ok(())
    }
}

fn changed_at(facts: &fs::Metadata) -> Timestamp {
    use std::os::unix::fs::MetadataExt;
    Timestamp(facts.ctime().unsigned_abs() * 1_000_000_000 + facts.ctime_nsec().unsigned_abs())
}
