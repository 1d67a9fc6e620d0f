//! Answers from the index. Keeps true: a query looks at what it returns and at a bounded number of rows beside it; a page that was cut short
//! says where to go on. Never: scans the log.

mod events;
mod search;
mod sessions;
mod stats;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use super::fold::{Status, ThreadState};
use super::index::{READER_CACHE_KIB, configure, remove};
use super::lines::Lines;
use crate::event::Role;

pub(super) use events::enriched;
#[cfg(test)]
pub(super) use search::{passage, words};
pub use sessions::{Heard, is_sessions_cursor};

/// Rows that one request may look at beside those it returns.
const SCAN_MAX: usize = 20_000;
/// Connections that are kept open for readers.
const KEPT_MAX: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("the index is being made from the log: {percent} % is read; ask again in a moment")]
    Indexing { percent: u8 },
    #[error("the index could not be read ({0}); remove it, it is made again from the log")]
    Index(#[from] rusqlite::Error),
    #[error("the event log could not be read ({0}); check its rights")]
    Log(#[from] io::Error),
    #[error("the monitor is stopping")]
    Stopping,
}

/// Where a reading of events begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// After this place of the log.
    Seq(i64),
    /// With what happened from this time on, in milliseconds.
    Time(u64),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsQuery {
    pub roles: Vec<Role>,
    pub types: Vec<String>,
    pub categories: Vec<String>,
    pub work_session: Option<String>,
    /// `task:ID` or `job:ID`.
    pub subject: Option<String>,
    /// Oldest first from here; newest first without.
    pub since: Option<Since>,
    /// Newest first: before this place.
    pub before: Option<i64>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionsQuery {
    pub roles: Vec<Role>,
    pub types: Vec<String>,
    pub status: Vec<Status>,
    /// An empty one is for those that have none.
    pub categories: Vec<String>,
    pub sub_tags: Vec<String>,
    pub thread_states: Vec<ThreadState>,
    /// Any of these takes part.
    pub participants: Vec<String>,
    pub text: Option<String>,
    pub cursor: Option<String>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub rows: Vec<Value>,
    /// Where the next page begins; none after the last.
    pub next: Option<String>,
}

/// A place of the log as a cursor: the segment and the offset in it, so that it cannot be taken for a time.
pub fn cursor_of(seq: i64) -> String {
    format!("{}:{}", seq >> 32, seq & 0xffff_ffff)
}

/// The place that a cursor of events stands for.
pub fn seq_of_cursor(text: &str) -> Option<i64> {
    let (segment, offset) = text.split_once(':')?;
    let (segment, offset) = (segment.parse::<u32>().ok()?, offset.parse::<u32>().ok()?);
    (segment <= i32::MAX.unsigned_abs()).then(|| i64::from(segment) << 32 | i64::from(offset))
}

/// Connections that only read, and the log beside them.
pub(super) struct Readers {
    path: PathBuf,
    kept: Mutex<Kept>,
    pub(super) lines: Lines,
}

/// Connections to the file that lies there now.
#[derive(Default)]
struct Kept {
    free: Vec<Connection>,
    /// How often the file was replaced: one that was open before is never used again.
    replaced: u64,
}

impl Readers {
    pub(super) fn new(path: &Path, lines: Lines) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), kept: Mutex::default(), lines })
    }

    /// Reads on one connection, within one state of the index.
    pub(super) fn read<T>(&self, query: impl FnOnce(&Connection) -> Result<T, QueryError>) -> Result<T, QueryError> {
        let (mut db, replaced) = self.take()?;
        let snapshot = db.transaction()?;
        let outcome = query(&snapshot);
        drop(snapshot);
        let mut kept = self.lock();
        if kept.free.len() < KEPT_MAX && kept.replaced == replaced && outcome.is_ok() {
            kept.free.push(db);
        }
        outcome
    }

    /// Under the lock also where one has to be opened: never between two files.
    fn take(&self) -> Result<(Connection, u64), QueryError> {
        let mut kept = self.lock();
        let db = match kept.free.pop() {
            Some(db) => db,
            None => self.open()?,
        };
        Ok((db, kept.replaced))
    }

    /// Puts another index, closed and whole, in the place of the one that was read so far. Queries under way end on the old one.
    pub(super) fn replace(&self, by: &Path) -> io::Result<()> {
        let mut kept = self.lock();
        kept.forget();
        remove(&self.path);
        std::fs::rename(by, &self.path)
    }

    /// The index was replaced by another file.
    pub(super) fn forget(&self) {
        self.lock().forget();
        self.lines.forget();
    }

    fn open(&self) -> Result<Connection, QueryError> {
        // Not opened as read-only: the first reader of a log of changes may have to make its shared memory.
        let db = Connection::open_with_flags(
            &self.path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        configure(&db, READER_CACHE_KIB)?;
        db.pragma_update(None, "query_only", true)?;
        Ok(db)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget(&mut self) {
        self.free.clear();
        self.replaced += 1;
    }
}
