//! The log on its way into the index: lines read and taken apart. The first reading of a long log is done by a thread of its own, one chunk ahead
//! of the index; afterwards news are few and read on the spot.
//! Keeps true: chunks come in the order of the log, each once. Never: asks the classifier or touches the index.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::follow::{Chunk, Follower, Next};
use super::index::{Entry, How};
use super::line::Line;
use crate::event::Role;

type Entries<'a> = Vec<Entry<'a>>;

self_cell::self_cell!(
    /// The events of a chunk, borrowed from it.
    pub(super) struct Parsed {
        owner: Chunk,
        #[covariant]
        dependent: Entries,
    }
);

/// What there is after the last chunk.
pub(super) enum Came {
    /// And how much was read of how much there is, in bytes.
    Lines(Parsed, (u64, u64)),
    End,
    /// What was read before is not what lies there now: everything is to be read again.
    Changed,
}

pub(super) enum Intake {
    Here(Follower),
    /// Until the end of the log is reached for the first time.
    Ahead(Reader),
    /// Between the two.
    Moving,
}

/// The thread that reads ahead. Dropped, it has ended: nobody else may find the log still open.
pub(super) struct Reader {
    came: Option<Receiver<io::Result<Came>>>,
    thread: Option<JoinHandle<Follower>>,
}

impl Reader {
    fn next(&self) -> io::Result<Came> {
        // One who is gone without a word has panicked, which joining tells.
        self.came.as_ref().and_then(|came| came.recv().ok()).unwrap_or(Ok(Came::End))
    }

    fn end(&mut self) -> Option<std::thread::Result<Follower>> {
        // Nobody takes what it reads any more.
        self.came = None;
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(Err(_)) = self.end() {
            tracing::error!("the thread that reads the log ahead had died");
        }
    }
}

impl Intake {
    pub(super) fn here(follower: Follower) -> Self {
        Self::Here(follower)
    }

    /// Reads ahead, as far as one chunk.
    pub(super) fn ahead(follower: Follower) -> io::Result<Self> {
        let (send, came) = sync_channel(0);
        let reader = std::thread::Builder::new().name("chela-intake".into());
        let reader = reader.spawn(move || read_ahead(follower, &send))?;
        Ok(Self::Ahead(Reader { came: Some(came), thread: Some(reader) }))
    }

    /// The last of the segments that were removed since they were read.
    pub(super) fn removed(&mut self) -> io::Result<Option<u32>> {
        match self {
            Self::Here(follower) => follower.removed(),
            Self::Ahead(_) | Self::Moving => Ok(None),
        }
    }

    pub(super) fn next(&mut self) -> io::Result<Came> {
        let came = match self {
            Self::Here(follower) => return next_of(follower),
            Self::Ahead(reader) => reader.next()?,
            Self::Moving => return Ok(Came::End),
        };
        if !matches!(came, Came::Lines(..))
            && let Self::Ahead(mut reader) = std::mem::replace(self, Self::Moving)
            && let Some(ended) = reader.end()
        {
            *self = Self::Here(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        Ok(came)
    }
}

/// Until there is nothing more for now, or nobody takes what was read.
fn read_ahead(mut follower: Follower, send: &SyncSender<io::Result<Came>>) -> Follower {
    loop {
        let came = next_of(&mut follower);
        let more = matches!(came, Ok(Came::Lines(..)));
        if send.send(came).is_err() || !more {
            return follower;
        }
    }
}

fn next_of(follower: &mut Follower) -> io::Result<Came> {
    let mut chunk = Chunk::default();
    match follower.read(&mut chunk)? {
        Next::Chunk => Ok(Came::Lines(Parsed::new(chunk, entries_of), follower.progress()?)),
        Next::End => Ok(Came::End),
        Next::Changed => Ok(Came::Changed),
    }
}

fn entries_of(chunk: &Chunk) -> Entries<'_> {
    let lines = chunk.lines.iter().filter_map(|(seq, range)| {
        let bytes = &chunk.buffer[range.clone()];
        let line = Line::parse(bytes)?;
        let given = line.given_role();
        let how = if given.is_some() { How::Given } else { How::Classified };
        Some(Entry { seq: *seq, bytes, line, role: given.unwrap_or(Role::Delegation), how })
    });
    lines.collect()
}
