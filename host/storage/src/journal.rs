//! The state journal: records of several kinds, changed by transactions that a power cut keeps whole or not at all.
//! Owns its directory: segments `state.00000012.ndjson` (the highest number is appended to) and `snapshot.00000012.ndjson`, all that lived
//! before the segment of that number. Keeps true: nothing is acknowledged before it was flushed; what a commit refused is not there; a
//! flush that failed is never tried again. Never: holds a name or a body in memory, knows what one means, or runs a thread ([`Committer`] does).

mod checkpoint;
mod committer;
mod files;
mod line;
mod live;
mod read;
mod recover;
mod salvage;
mod transaction;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

pub use checkpoint::{Checkpoint, Written};
pub use committer::{Committer, Report};
pub use read::{Record, Records};
pub use salvage::{Salvaged, check, records, salvage};
pub use transaction::{TRANSACTION_BYTES_MAX, Transaction};

use crate::Digest;
use crate::fs::File;
use files::{Name, ROOM};
use live::{Live, Place};

#[derive(Clone, Debug)]
pub struct Options {
    /// A segment that has grown past this is closed.
    pub segment_bytes: u64,
    /// A checkpoint is not worth its while below this many dead bytes.
    pub dead_bytes_min: u64,
    /// A segment that has grown up to its end is given room for so much more; none with 0. A flush of what lies within the file costs the
    /// disk less than one of a file that grows, and waits for nobody else's changes of names and sizes.
    pub room_bytes: u64,
    /// Takes the bytes of a torn end; they are appended.
    pub aside: PathBuf,
}

impl Options {
    #[must_use]
    pub fn new(aside: PathBuf) -> Self {
        Self { segment_bytes: 16 * 1024 * 1024, dead_bytes_min: 16 * 1024 * 1024, room_bytes: 1024 * 1024, aside }
    }
}

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The last transaction.
    pub seq: u64,
    pub records: usize,
    /// A torn end that was cut off.
    pub cut: Option<Cut>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub path: PathBuf,
    pub offset: u64,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Corrupt { path: PathBuf, offset: u64, what: String },
    #[error("the journal stopped when {} could not be flushed; only opening it again tells what it holds", path.display())]
    Broken { path: PathBuf, source: Arc<io::Error> },
    #[error("nothing was committed: cannot write {}", path.display())]
    NotWritten { path: PathBuf, source: io::Error },
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("kind {kind:?} is not 1 to 32 of a-z, `_` and `-`")]
    Kind { kind: String },
    #[error("the id of a {kind} has {bytes} bytes or a control character; 1 to 256 plain bytes are allowed")]
    Id { kind: String, bytes: usize },
    #[error("the body of {id} is not one JSON value on one line: {what}")]
    Body { id: String, what: String },
    #[error("a transaction of {bytes} bytes is past the limit of {TRANSACTION_BYTES_MAX}; commit it in parts")]
    TooLarge { bytes: usize },
    #[error("a checkpoint is under way")]
    CheckpointRunning,
    #[error("the journal's queue of {max} is full; try again later")]
    QueueFull { max: usize },
    #[error("the journal has been stopped")]
    Stopped,
}

impl Error {
    fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// After a larger group than this there is no room made: what it saves the next flush is less than what it costs.
const ROOM_AFTER_BYTES_MAX: usize = 16 * 1024;

/// The journal of one directory; whoever opens it holds the lock of the state directory.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    options: Options,
    live: Live,
    /// The last transaction.
    seq: u64,
    active: u64,
    file: File,
    /// Where the lines of the active segment end.
    end: u64,
    /// Where the room after them ends.
    room: u64,
    snapshot: Option<u64>,
    /// Bytes of every other file that is in use.
    sizes: BTreeMap<Name, u64>,
    broken: Option<(PathBuf, Arc<io::Error>)>,
    checkpoint: Weak<()>,
}

impl Journal {
    /// Opens or creates the journal in `dir`, whose parent is there already and durable. Damage that no crash can have made is [`Error::Corrupt`], and nothing is changed then.
    pub fn open(dir: &Path, options: Options) -> Result<(Self, Recovery), Error> {
        let (found, file, cut) = recover::recover(dir, &options.aside)?;
        let recovery = Recovery { seq: found.seq, records: found.live.count, cut };
        let mut sizes = found.sizes;
        sizes.remove(&Name::Segment(found.active));
        let journal = Self {
            dir: dir.to_owned(),
            options,
            live: found.live,
            seq: found.seq,
            active: found.active,
            file,
            end: found.end,
            room: found.end,
            snapshot: found.snapshot,
            sizes,
            broken: None,
            checkpoint: Weak::new(),
        };
        Ok((journal, recovery))
    }

    /// Commits transactions in their order, with one write and one flush, and gives their numbers. On [`Error::NotWritten`] none of them
    /// is there; on [`Error::Broken`] only opening again tells.
    pub fn commit(&mut self, group: &[Transaction]) -> Result<Range<u64>, Error> {
        self.check()?;
        let first = self.seq + 1;
        if group.is_empty() {
            return Ok(first..first);
        }
        if self.end >= self.options.segment_bytes {
            match self.rotate() {
                // A longer segment does no harm, and the next commit tries again.
                Ok(()) | Err(Error::Io { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut text = Vec::with_capacity(group.iter().map(Transaction::bytes).sum());
        let mut lines = Vec::with_capacity(group.len());
        for (transaction, seq) in group.iter().zip(first..) {
            let start = text.len();
            let begin = line::write_entry(&mut text, seq, first, &transaction.text);
            lines.push((start as u64, text.len() - start - 1, begin));
        }
        let end = self.end + text.len() as u64;
        if let Err(source) = self.write(&mut text) {
            return Err(self.take_back(source));
        }
        if let Err(source) = self.file.sync_data() {
            return Err(self.stop(Name::Segment(self.active).path(&self.dir), source));
        }
        for ((transaction, seq), (start, len, begin)) in group.iter().zip(first..).zip(lines) {
            self.note(transaction, seq, (self.end + start, u32::try_from(len).unwrap_or(u32::MAX)), begin);
        }
        self.end = end;
        self.seq = first + group.len() as u64 - 1;
        Ok(first..self.seq + 1)
    }

    /// The last transaction.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// How many records live.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.count
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.count == 0
    }

    /// Bytes of all files in use.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end + self.sizes.values().sum::<u64>()
    }

    /// The kinds that have a live record.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.live.kinds()
    }

    /// The record as it is on disk now.
    pub fn get(&self, kind: &str, id: &str) -> Result<Option<Record>, Error> {
        let place = self.live.get(kind, Digest::of(id));
        place.map(|place| read::Reader::new(&self.dir).named(kind, id, &place)).transpose()
    }

    /// The ids of live records of a kind by their digests, read from disk, in the order in which they lie there; where there is none, there
    /// is no id.
    pub fn ids(&self, kind: &str, digests: &[Digest]) -> Result<Vec<String>, Error> {
        let mut reader = read::Reader::new(&self.dir);
        let mut places: Vec<Place> = digests.iter().filter_map(|digest| self.live.get(kind, *digest)).collect();
        // Those of one line follow each other, and it is read once.
        places.sort_unstable_by_key(|place| (place.file(), place.offset));
        places.iter().map(|place| reader.with(place, |_, id, _| id.to_owned())).collect()
    }

    /// The live records of a kind, read from disk one by one, in the order of their last change.
    #[must_use]
    pub fn records(&self, kind: &str) -> Records {
        self.records_after(kind, 0)
    }

    /// Like [`Journal::records`], of those that a transaction after `seq` put.
    #[must_use]
    pub fn records_after(&self, kind: &str, seq: u64) -> Records {
        Records::new(&self.dir, self.live.of_kind(kind, seq))
    }

    fn check(&self) -> Result<(), Error> {
        match &self.broken {
            Some((path, source)) => Err(Error::Broken { path: path.clone(), source: Arc::clone(source) }),
            None => Ok(()),
        }
    }

    /// Writes lines at the end of the active segment, with room for more where that is used up.
    fn write(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let (lines, end) = (text.len(), self.end + text.len() as u64);
        if end > self.room && lines <= ROOM_AFTER_BYTES_MAX {
            let room = end.saturating_add(self.options.room_bytes).min(self.options.segment_bytes);
            text.resize(lines + usize::try_from(room.saturating_sub(end)).unwrap_or(0), ROOM);
        }
        let mut written = self.file.write_all_at(text, self.end);
        if written.is_err() && text.len() > lines {
            // There may be room for the lines, if not for more.
            text.truncate(lines);
            written = self.file.set_len(self.end).and_then(|()| self.file.write_all_at(text, self.end));
            self.room = self.end;
        }
        self.room = self.room.max(self.end + text.len() as u64);
        written
    }

    /// Gives the room back that the active segment has not used.
    fn trim(&mut self) {
        // Where it fails the room stays, which every reader knows.
        if self.room > self.end && self.file.set_len(self.end).is_ok() {
            self.room = self.end;
        }
    }

    /// Closes the active segment, all of which is durable, and begins the next.
    fn rotate(&mut self) -> Result<(), Error> {
        let next = Name::Segment(self.active + 1);
        let path = next.path(&self.dir);
        let file = match files::create_new(&path) {
            Ok(file) => file,
            Err(source) => {
                // With a next segment on disk, a torn end of this one would look like damage in the middle: no more may be written to it.
                let there = !File::open(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
                return Err(if there { self.stop(path, source) } else { Error::io("create", &path, source) });
            }
        };
        match files::sync_dir(&self.dir) {
            Err(Error::Io { path, source, .. }) => return Err(self.stop(path, source)),
            outcome => outcome?,
        }
        self.trim();
        self.sizes.insert(Name::Segment(self.active), self.end);
        (self.active, self.file, self.end, self.room) = (self.active + 1, file, 0, 0);
        Ok(())
    }

    /// Takes back what was written of a group. Flushed as well: a refused transaction must not come back with the next start.
    fn take_back(&mut self, source: io::Error) -> Error {
        let path = Name::Segment(self.active).path(&self.dir);
        match self.file.set_len(self.end).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.room = self.end;
                Error::NotWritten { path, source }
            }
            Err(_) => self.stop(path, source),
        }
    }

    /// The kernel may have forgotten what it could not flush, so nothing can be built on it any more.
    fn stop(&mut self, path: PathBuf, source: io::Error) -> Error {
        let source = Arc::new(source);
        self.broken = Some((path.clone(), Arc::clone(&source)));
        Error::Broken { path, source }
    }

    /// Knows from now on where the records of a transaction are, whose changes begin at `begin` of the line that is at `at`.
    fn note(&mut self, transaction: &Transaction, seq: u64, at: (u64, u32), begin: usize) {
        let file = Name::Segment(self.active);
        for (change, nth) in transaction.changes.iter().zip(0..) {
            let (kind, id) = (&*change.kind, &*change.id);
            match &change.body {
                Some(body) => {
                    let body = begin + body.start..begin + body.end;
                    self.live.put(kind, id, Place::new(file, at, (seq, nth), body));
                }
                None => self.live.drop(kind, id),
            }
        }
    }
}
