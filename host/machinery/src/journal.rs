//! The state journal in the host: opened once, read by every room at the start, then owned by a thread that commits in groups.
//! Keeps true: whoever gets an answer finds the record after a power cut. Never: knows what a record means.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chela_storage::Digest;
use chela_storage::journal::{self, Committer, Options, Report};
pub use chela_storage::journal::{Record, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::layout::StateDir;

/// Commits that may wait.
const QUEUE_MAX: usize = 4_096;
/// How long a reader waits for room in the queue, and between two looks.
const ROOM_WITHIN: Duration = Duration::from_secs(30);
const ROOM_AGAIN: Duration = Duration::from_millis(5);
/// Names that are read back between two groups of commits.
const IDS_AT_ONCE: usize = 64;
/// Whoever waits for a commit looks so long for the answer before it sleeps.
const AWAKE: Duration = Duration::from_micros(250);

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the state journal is damaged and a restart does not help: {cause}; `chela doctor --fix` keeps what is whole and sets the damaged one aside"
    )]
    Damaged { cause: Arc<journal::Error> },
    #[error("the state journal cannot be used: {cause}; check the disk, its free space and the rights of {}", path.display())]
    Unusable { path: PathBuf, cause: Arc<journal::Error> },
    #[error("a {kind} cannot be kept: {cause}")]
    Refused { kind: String, cause: Arc<journal::Error> },
    #[error("a {kind} of the state journal cannot be read ({said}); it was written by another version")]
    Foreign { kind: String, said: String },
}

/// A journal that is being read, before anybody commits.
pub struct Opened {
    journal: journal::Journal,
    path: PathBuf,
}

impl Opened {
    /// Opens the journal of `dir`, mending an end that a crash has torn.
    pub fn open(dir: &StateDir) -> Result<Self, Error> {
        let path = dir.journal();
        let opened = journal::Journal::open(&path, Options::new(dir.corrupt_journal()));
        let (journal, recovery) = opened.map_err(|cause| told(&path, Arc::new(cause)))?;
        if let Some(cut) = recovery.cut {
            tracing::warn!(file = %cut.path.display(), offset = cut.offset, bytes = cut.bytes, "a torn end of the state journal was set aside");
        }
        Ok(Self { journal, path })
    }

    /// Whether nothing was ever committed to it.
    pub fn is_new(&self) -> bool {
        self.journal.seq() == 0
    }

    /// Every live record of a kind, in the order of their last change.
    pub fn records(&self, kind: &str) -> Result<Vec<Record>, Error> {
        let records: Result<Vec<Record>, journal::Error> = self.journal.records(kind).collect();
        records.map_err(|cause| told(&self.path, Arc::new(cause)))
    }

    /// Those of a kind that were put after a transaction.
    pub fn records_after(&self, kind: &str, seq: u64) -> Result<Vec<Record>, Error> {
        let records: Result<Vec<Record>, journal::Error> = self.journal.records_after(kind, seq).collect();
        records.map_err(|cause| told(&self.path, Arc::new(cause)))
    }

    /// The record as it is now.
    pub fn get(&self, kind: &str, id: &str) -> Result<Option<Record>, Error> {
        self.journal.get(kind, id).map_err(|cause| told(&self.path, Arc::new(cause)))
    }

    /// From now on records are committed.
    pub fn start(self) -> Result<Handle, Error> {
        let path = self.path;
        let (failed, failure) = watch::channel(None);
        let at = path.clone();
        let report = move |done| report(done, &failed, &at);
        let committer = Committer::start(self.journal, QUEUE_MAX, report).map_err(|source| {
            let cause = journal::Error::Io { action: "start the thread of", path: path.clone(), source };
            told(&path, Arc::new(cause))
        })?;
        Ok(Handle(Arc::new(Shared { committer, path, awaited: AtomicUsize::new(0), health: Health(failure) })))
    }
}

/// Whether commits are possible at all. Keeps no journal open.
#[derive(Clone)]
pub struct Health(watch::Receiver<Option<Error>>);

impl Health {
    /// Why nothing is committed any more in this process: what a disk could not flush once is not trusted again.
    pub fn failure(&self) -> Option<Error> {
        self.0.borrow().clone()
    }

    /// Completes when told to, or when nothing can be committed any more.
    pub async fn watch_over(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            // An error is the end of the journal's thread, which nobody outlives either.
            _ = self.0.wait_for(Option::is_some) => {}
        }
    }
}

fn report(done: Report, failed: &watch::Sender<Option<Error>>, path: &Path) {
    match done {
        Report::Broken(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the state journal takes nothing more; the gateway ends, and the next start reads what is durable"
            );
            failed.send_replace(Some(told(path, Arc::new(error))));
        }
        Report::Checkpointed { records, bytes } => {
            tracing::debug!(records, bytes, "the state journal was checkpointed")
        }
        Report::CheckpointFailed(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the state journal was not checkpointed; it grows until it is"
            );
        }
    }
}

fn is_full(cause: &journal::Error) -> bool {
    matches!(cause, journal::Error::QueueFull { .. })
}

fn told(path: &Path, cause: Arc<journal::Error>) -> Error {
    match *cause {
        journal::Error::Corrupt { .. } => Error::Damaged { cause },
        _ => Error::Unusable { path: path.to_owned(), cause },
    }
}

/// The way to the journal; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    committer: Committer,
    path: PathBuf,
    /// Commits that async threads wait for.
    awaited: AtomicUsize,
    health: Health,
}

/// A commit that was asked for.
pub struct Asked(std::sync::mpsc::Receiver<Result<u64, Arc<journal::Error>>>, PathBuf);

impl Asked {
    /// Waits until it is durable. Not for an async thread.
    pub fn wait(self) -> Result<u64, Error> {
        // Awake for a moment: whoever flushed something else meanwhile often comes just before the answer.
        let awake = std::time::Instant::now() + AWAKE;
        while std::time::Instant::now() < awake {
            match self.0.try_recv() {
                Ok(answered) => return answered.map_err(|cause| told(&self.1, cause)),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => break,
                Err(std::sync::mpsc::TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
        let answered = self.0.recv().unwrap_or_else(|_| Err(Arc::new(journal::Error::Stopped)));
        answered.map_err(|cause| told(&self.1, cause))
    }
}

/// A commit that was asked for by an async thread.
pub struct Awaited {
    answer: tokio::sync::oneshot::Receiver<Result<u64, Arc<journal::Error>>>,
    shared: Arc<Shared>,
}

impl Awaited {
    /// Waits until it is durable.
    pub async fn done(mut self) -> Result<u64, Error> {
        self.settled().await
    }

    /// The same, for one who may be cut off meanwhile and has somebody else wait on.
    pub async fn settled(&mut self) -> Result<u64, Error> {
        let answered = match self.awake().await {
            Some(answered) => answered,
            None => (&mut self.answer).await.unwrap_or_else(|_| Err(Arc::new(journal::Error::Stopped))),
        };
        answered.map_err(|cause| told(&self.shared.path, cause))
    }

    /// Looks for the answer for a moment, while nobody else waits for one: to be woken takes a thread about as long as a flush does. Others
    /// that have something to do have their turn in between.
    async fn awake(&mut self) -> Option<Result<u64, Arc<journal::Error>>> {
        use tokio::sync::oneshot::error::TryRecvError;
        let awake = std::time::Instant::now() + AWAKE;
        while self.shared.awaited.load(Ordering::Relaxed) == 1 && std::time::Instant::now() < awake {
            match self.answer.try_recv() {
                Ok(answered) => return Some(answered),
                Err(TryRecvError::Closed) => return Some(Err(Arc::new(journal::Error::Stopped))),
                Err(TryRecvError::Empty) => tokio::task::yield_now().await,
            }
        }
        None
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.shared.awaited.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handle {
    /// Tells whether commits are still possible.
    pub fn health(&self) -> Health {
        self.0.health.clone()
    }

    /// Asks for a commit; what else takes time can be done meanwhile.
    pub fn submit(&self, transaction: Transaction) -> Result<Asked, Error> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let asked = self.0.committer.submit(transaction, move |outcome| drop(answer.send(outcome)));
        asked.map_err(|cause| told(&self.0.path, Arc::new(cause)))?;
        Ok(Asked(answered, self.0.path.clone()))
    }

    /// Commits and waits until it is durable. Not for an async thread.
    pub fn commit(&self, transaction: Transaction) -> Result<u64, Error> {
        self.submit(transaction)?.wait()
    }

    /// Asks for a commit, for async threads: what is asked for first is committed first.
    pub fn submit_async(&self, transaction: Transaction) -> Result<Awaited, Error> {
        let (send, answer) = tokio::sync::oneshot::channel();
        self.0.awaited.fetch_add(1, Ordering::Relaxed);
        let awaited = Awaited { answer, shared: self.0.clone() };
        let asked = self.0.committer.submit(transaction, move |outcome| drop(send.send(outcome)));
        asked.map_err(|cause| told(&self.0.path, Arc::new(cause)))?;
        Ok(awaited)
    }

    /// Commits and waits, for async threads.
    pub async fn commit_async(&self, transaction: Transaction) -> Result<u64, Error> {
        self.submit_async(transaction)?.done().await
    }

    /// Nothing is committed from now on until the answer is dropped, or for `at_most`, whatever comes first. Not for an async thread.
    pub fn hold(&self, at_most: Duration) -> Result<Held, Error> {
        let (begun, has_begun) = std::sync::mpsc::sync_channel(1);
        let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
        let asked = self.0.committer.hold(move || {
            // Who asked may have gone; then there is nothing to hold for.
            if begun.send(()).is_ok() {
                let _ = released.recv_timeout(at_most);
            }
        });
        asked.map_err(|cause| told(&self.0.path, Arc::new(cause)))?;
        let stopped = |_| told(&self.0.path, Arc::new(journal::Error::Stopped));
        has_begun.recv().map_err(stopped)?;
        Ok(Held { release, since: std::time::Instant::now(), at_most })
    }

    /// The record as it is now. Not for an async thread.
    pub fn get(&self, kind: &str, id: &str) -> Result<Option<Record>, Error> {
        self.read(|committer| committer.get(kind, id))
    }

    /// Every live record of a kind, of which there are few, as they are now. Not for an async thread.
    pub fn records(&self, kind: &str) -> Result<Vec<Record>, Error> {
        self.read(|committer| committer.records(kind))
    }

    /// The ids of live records by their digests; a digest of none has no id.
    pub async fn ids_async(&self, kind: &'static str, digests: Vec<Digest>) -> Result<Vec<String>, Error> {
        let handle = self.clone();
        let read = move || {
            let some = |part: &[Digest]| handle.read(|committer| committer.ids(kind, part));
            // Commits come in between.
            digests.chunks(IDS_AT_ONCE).map(some).collect::<Result<Vec<_>, _>>().map(|parts| parts.concat())
        };
        let stopped = || told(&self.0.path, Arc::new(journal::Error::Stopped));
        tokio::task::spawn_blocking(read).await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Where as many wait as may, a reader waits for room: what is on record must not look as if it were lost.
    fn read<T>(&self, of: impl Fn(&Committer) -> Result<T, Arc<journal::Error>>) -> Result<T, Error> {
        let until = std::time::Instant::now() + ROOM_WITHIN;
        loop {
            match of(&self.0.committer) {
                Err(cause) if is_full(&cause) && std::time::Instant::now() < until => std::thread::sleep(ROOM_AGAIN),
                read => return read.map_err(|cause| told(&self.0.path, cause)),
            }
        }
    }
}

/// While it is there nothing is committed.
pub struct Held {
    release: std::sync::mpsc::SyncSender<()>,
    since: std::time::Instant,
    at_most: Duration,
}

impl Held {
    /// Lets commits go on; whether they waited until now.
    pub fn release(self) -> bool {
        // The thread looks at its own clock: near the end nobody knows, so that counts as too late.
        let in_time = self.since.elapsed() + Duration::from_millis(100) < self.at_most;
        self.release.send(()).is_ok() && in_time
    }
}

/// A record's body as a value.
pub fn body<T: DeserializeOwned>(kind: &str, record: &Record) -> Result<T, Error> {
    serde_json::from_slice(&record.body)
        .map_err(|error| Error::Foreign { kind: kind.to_owned(), said: error.to_string() })
}

/// Adds a record to a transaction.
pub fn put(transaction: &mut Transaction, kind: &str, id: &str, body: &impl Serialize) -> Result<(), Error> {
    transaction.put_value(kind, id, body).map_err(|cause| refused(kind, cause))
}

/// Takes a record out with a transaction.
pub fn drop_record(transaction: &mut Transaction, kind: &str, id: &str) -> Result<(), Error> {
    transaction.drop(kind, id).map_err(|cause| refused(kind, cause))
}

fn refused(kind: &str, cause: journal::Error) -> Error {
    Error::Refused { kind: kind.to_owned(), cause: Arc::new(cause) }
}
