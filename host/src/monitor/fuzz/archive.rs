//! A log in an index, with readers over it, as the monitor's thread would have made it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::event::Role;
use crate::monitor::category::Overrides;
use crate::monitor::follow::{Chunk, Follower, Next};
use crate::monitor::index::{Entry, How, Index};
use crate::monitor::line::Line;
use crate::monitor::lines::Lines;
use crate::monitor::query::Readers;
use crate::monitor::{EventsQuery, Page, QueryError, SessionsQuery, catalogue};

pub(crate) struct Archive {
    readers: Arc<Readers>,
    now: u64,
    /// Lines that were no events.
    pub(crate) malformed: u64,
    _dir: tempfile::TempDir,
}

impl Archive {
    pub(crate) fn of(log: &[u8], now: u64) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| -> PathBuf { dir.path().join(name) };
        std::fs::write(path("coordination-events.ndjson"), log).expect("written");
        let (mut index, _) = Index::open(&path("events.sqlite")).expect("an index");
        let mut follower = Follower::new(catalogue(dir.path()), Vec::new());
        let (mut chunk, mut malformed) = (Chunk::default(), 0);
        while matches!(follower.read(&mut chunk).expect("readable"), Next::Chunk) {
            let lines = chunk.lines.iter().map(|(seq, range)| (*seq, &chunk.buffer[range.clone()]));
            let entries: Vec<Entry<'_>> = lines.filter_map(|(seq, bytes)| entry(seq, bytes)).collect();
            malformed += chunk.unreadable + (chunk.lines.len() - entries.len()) as u64;
            let marks: Vec<_> = chunk.mark.iter().cloned().collect();
            index.add(&entries, &marks, 0, &Overrides::default(), now).expect("added");
        }
        index.finish(&Overrides::default()).expect("finished");
        let readers = Readers::new(&path("events.sqlite"), Lines::new(catalogue(dir.path())));
        Self { readers, now, malformed, _dir: dir }
    }

    pub(crate) fn events(&self, query: &EventsQuery) -> Result<Page, QueryError> {
        self.readers.events(query)
    }

    pub(crate) fn sessions(&self, query: &SessionsQuery) -> Result<Page, QueryError> {
        self.readers.sessions(query, self.now)
    }

    pub(crate) fn session(&self, key: &str) -> Result<Option<Value>, QueryError> {
        self.readers.session(key, self.now)
    }
}

fn entry(seq: i64, bytes: &[u8]) -> Option<Entry<'_>> {
    let line = Line::parse(bytes)?;
    let given = line.given_role();
    let how = if given.is_some() { How::Given } else { How::Unknown };
    Some(Entry { seq, bytes, role: given.unwrap_or(Role::Delegation), how, line })
}
