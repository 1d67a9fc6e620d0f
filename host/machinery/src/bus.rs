//! Tells every room what happened: each event goes to the log first, then to whoever subscribed.
//! Owns the event log. Keeps true: subscribers and log see one order; a slow subscriber loses events, is told how many, and slows nobody;
//! many emitters share one flush. Never: blocks an emitter, or lets anybody hear of what is not written.

mod batch;
mod subscribers;
mod writer;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use chela_storage::{Catalogue, Month, SegmentLog};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Timestamp};
use crate::event::{Event, Kind, Written};
use crate::layout::{EVENT_LOG_STEM, StateDir};
use crate::metrics::Metrics;
use batch::{Answer, Batch};
use subscribers::Subscriber;

pub use subscribers::{Delivery, Subscription};

/// What may wait for the disk.
const PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A segment is closed when it is so large, unless who starts the gateway says otherwise.
pub const SEGMENT_BYTES: u64 = 10 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the event log {} ({cause}); check its owner and rights, and the disk", path.display())]
    Open { path: PathBuf, cause: io::Error },
    #[error("the event log {} took no line ({cause}); check the disk's space and rights", path.display())]
    Append { path: PathBuf, cause: Cause },
    #[error("{} bytes of events wait for the event log {}, which is as many as may; the disk is too slow or full", PENDING_BYTES_MAX, path.display())]
    Behind { path: PathBuf },
    #[error("the event log is closed")]
    Closed,
    #[error("{count} events never reached the event log {}; check the disk's space and rights", path.display())]
    Lost { path: PathBuf, count: u64 },
}

/// Why the log takes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It may take lines again.
    Append(String),
    /// It must be opened again.
    Flush(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(said) => f.write_str(said),
            Self::Flush(said) => write!(f, "a flush failed: {said}"),
        }
    }
}

/// How the log is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keeping {
    /// Events wait at most so long for others to share their flush.
    pub group: Duration,
    /// A segment of this size is closed.
    pub segment_bytes: u64,
    /// Closed segments whose events are all older are removed.
    pub keep: Duration,
    /// Past so many bytes of all segments the oldest closed ones are removed.
    pub bytes_max: u64,
}

/// The way to the bus; cheap to clone.
#[derive(Clone)]
pub struct Bus(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    pending: Mutex<Pending>,
    wake: Condvar,
    subscribers: Mutex<Vec<Subscriber>>,
    /// Bytes that the log took in this life; whoever follows the log looks when it changes.
    grown: watch::Sender<u64>,
    is_failing: AtomicBool,
    broken: Notify,
    path: PathBuf,
    clock: Clock,
    metrics: Metrics,
}

#[derive(Default)]
struct Pending {
    batch: Batch,
    failing: Option<Cause>,
    /// Events that were refused since the log fails.
    refused: u64,
    /// The log is tried with the line that says that it takes lines again.
    probing: bool,
    closing: bool,
    /// Events that were never written, once the writer has ended.
    lost: u64,
}

impl Bus {
    /// Opens the log of `dir`, mending an end that a crash has torn.
    pub fn open(dir: &StateDir, clock: Clock, metrics: Metrics, keeping: Keeping) -> Result<Self, Error> {
        let path = dir.event_log();
        let opened = |cause| Error::Open { path: path.clone(), cause };
        let catalogue = Catalogue::new(&dir.logs(), EVENT_LOG_STEM, time_of);
        let (log, repair) =
            SegmentLog::open(catalogue, &dir.corrupt_log(), keeping.segment_bytes, month_of).map_err(opened)?;
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            wake: Condvar::new(),
            subscribers: Mutex::default(),
            grown: watch::Sender::new(0),
            is_failing: AtomicBool::new(false),
            broken: Notify::new(),
            path: path.clone(),
            clock,
            metrics,
        });
        let writer = writer::Writer::new(shared.clone(), log, keeping);
        let thread = std::thread::Builder::new().name("chela-events".into());
        let thread = thread.spawn(move || writer.run()).map_err(opened)?;
        let bus = Self(Arc::new(Owner { shared, writer: Mutex::new(Some(thread)) }));
        if let Some(repair) = repair {
            let (offset, bytes) = (repair.offset, repair.bytes);
            tracing::warn!(offset, bytes, "a torn last line of the event log was set aside");
            bus.emit(Kind::LogRepaired, data(json!({ "log": "events", "offset": offset, "bytes": bytes })))?;
        }
        Ok(bus)
    }

    /// Writes an event of the gateway itself within the group's time and then tells the subscribers.
    pub fn emit(&self, kind: Kind, data: Map<String, Value>) -> Result<(), Error> {
        self.emit_event(Event::system(kind, self.0.shared.clock.now(), data))
    }

    /// Writes an event within the group's time and then tells the subscribers.
    pub fn emit_event(&self, event: impl Into<Written>) -> Result<(), Error> {
        self.0.shared.push(event.into(), None)
    }

    /// Writes events one after the other within the group's time, all or none, and tells `then` when they and everything before them are on the
    /// disk, or that nobody knows when they will be. `then` must not wait for anything.
    pub fn emit_all(&self, events: &[Written], then: impl FnOnce(Result<(), Error>) + Send + 'static) {
        match self.0.shared.push_all(events, Box::new(then)) {
            Ok(()) => {}
            Err((error, then)) => then(Err(error)),
        }
    }

    /// Returns once the event is on the disk. Events that wait at the same time share one flush.
    pub async fn emit_durable(&self, event: impl Into<Written>) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        // Whoever asked may have gone.
        self.0.shared.push(event.into(), Some(Box::new(move |outcome| drop(answer.send(outcome)))))?;
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// Returns once everything that was emitted before is on the disk.
    pub fn flushed(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let written = self.written();
        self.hurry();
        written
    }

    /// Whoever waits for the disk waits no longer for others to share the flush.
    pub fn hurry(&self) {
        self.0.shared.lock().batch.hurry();
        self.0.shared.wake.notify_one();
    }

    /// Returns once everything that was emitted before is on the disk, which it is within the group's time.
    pub fn written(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        // Asked for now, awaited whenever: what is emitted meanwhile is not waited for.
        self.emit_all(&[], move |outcome| drop(answer.send(outcome)));
        async move { answered.await.unwrap_or(Err(Error::Closed)) }
    }

    /// Like [`Bus::emit`] for what is true whether or not the log takes it: a failure is logged, counted and shown by readiness.
    pub fn tell(&self, kind: Kind, data: Map<String, Value>) {
        if let Err(error) = self.emit(kind, data) {
            tracing::error!(error = &error as &dyn std::error::Error, kind = kind.as_str(), "an event was not written");
        }
    }

    /// Everything from now on whose type starts with `prefix`; `*` is everything.
    pub fn subscribe(&self, prefix: &str) -> Subscription {
        let (subscriber, subscription) = subscribers::pair(prefix);
        self.0.shared.subscribers().push(subscriber);
        subscription
    }

    /// Changes whenever the log has grown.
    pub fn grown(&self) -> watch::Receiver<u64> {
        self.0.shared.grown.subscribe()
    }

    /// Whether the log takes no lines now.
    pub fn is_failing(&self) -> bool {
        self.0.shared.is_failing.load(Ordering::Relaxed)
    }

    /// Completes when told to, or when the log cannot go on in this process.
    pub async fn watch_over_log(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.0.shared.broken.notified() => {}
        }
    }

    /// Writes what waits, flushes, and takes nothing more.
    pub async fn close(&self) -> Result<(), Error> {
        let owner = self.0.clone();
        // The disk may take its time; this thread has others to serve.
        let closed = tokio::task::spawn_blocking(move || owner.close());
        closed.await.unwrap_or(Err(Error::Closed))
    }
}

impl Owner {
    fn close(&self) -> Result<(), Error> {
        self.shared.lock().closing = true;
        self.shared.wake.notify_all();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the thread of the event log had died");
        }
        // Whoever waits for what was never written is let go.
        let left = std::mem::take(&mut self.shared.lock().batch);
        let count = std::mem::take(&mut self.shared.lock().lost) + left.count;
        match count {
            0 => Ok(()),
            count => Err(Error::Lost { path: self.shared.path.clone(), count }),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(error = &error as &dyn std::error::Error, "the event log was left");
        }
    }
}

impl Shared {
    fn push(&self, written: Written, answer: Option<Answer>) -> Result<(), Error> {
        let heard = self.subscribers().iter().any(|subscriber| subscriber.wants(written.kind()));
        let heard = heard.then(|| Arc::new(written.event()));
        let (line, awaited) = (written.line().as_bytes(), answer.is_some());
        let mut pending = self.lock();
        if let Err(error) = self.may_take(&pending, line.len(), awaited) {
            pending.refused += 1;
            drop(pending);
            self.metrics.events_failed.inc();
            return Err(error);
        }
        let first = pending.batch.is_empty();
        pending.batch.push(line, heard, answer);
        drop(pending);
        // The writer sleeps until there is something, and then until its time or somebody who cannot wait.
        if first || awaited {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn push_all(&self, events: &[Written], then: Answer) -> Result<(), (Error, Answer)> {
        let heard: Vec<Option<Arc<Event>>> = {
            let subscribers = self.subscribers();
            let wanted = |event: &Written| subscribers.iter().any(|subscriber| subscriber.wants(event.kind()));
            events.iter().map(|event| wanted(event).then(|| Arc::new(event.event()))).collect()
        };
        let bytes = events.iter().map(|event| event.line().len()).sum();
        let mut pending = self.lock();
        if let Err(error) = self.may_take(&pending, bytes, false) {
            pending.refused += events.len() as u64;
            drop(pending);
            self.metrics.events_failed.inc_by(events.len() as u64);
            return Err((error, then));
        }
        let first = pending.batch.is_empty();
        for (event, heard) in events.iter().zip(heard) {
            pending.batch.push(event.line().as_bytes(), heard, None);
        }
        // A log that takes no lines now keeps them for later, and nobody waits for it.
        if let Err(error) = self.may_take(&pending, 0, true) {
            return Err((error, then));
        }
        pending.batch.await_all(then);
        drop(pending);
        // The writer sleeps until there is something; then it has its time.
        if first {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn may_take(&self, pending: &Pending, bytes: usize, awaited: bool) -> Result<(), Error> {
        match &pending.failing {
            _ if pending.closing => Err(Error::Closed),
            // Who would wait for the disk is told at once; what nobody waits for may stay until there is room.
            Some(cause @ Cause::Append(_)) if awaited => Err(self.append_error(cause)),
            Some(cause @ Cause::Flush(_)) => Err(self.append_error(cause)),
            Some(cause) if pending.batch.lines.len() + bytes > PENDING_BYTES_MAX => Err(self.append_error(cause)),
            None if pending.batch.lines.len() + bytes > PENDING_BYTES_MAX => {
                Err(Error::Behind { path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    fn append_error(&self, cause: &Cause) -> Error {
        Error::Append { path: self.path.clone(), cause: cause.clone() }
    }

    /// What those who wait are told, and how many of them is counted.
    fn failing_with<'a>(&'a self, cause: &'a Cause) -> impl Fn() -> Error + 'a {
        move || {
            self.lock().refused += 1;
            self.metrics.events_failed.inc();
            self.append_error(cause)
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        // A panic elsewhere leaves the state whole: it is changed by single steps.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<Subscriber>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, pending: MutexGuard<'a, Pending>, at_most: Option<Duration>) -> MutexGuard<'a, Pending> {
        match at_most {
            None => self.wake.wait(pending).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.wake.wait_timeout(pending, time).unwrap_or_else(PoisonError::into_inner).0,
        }
    }
}

/// The time of a line of the event log.
pub fn time_of(line: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Stamp {
        ts: u64,
    }
    serde_json::from_slice::<Stamp>(line).ok().map(|stamp| stamp.ts)
}

/// The month in which a time falls, for the names of closed segments.
fn month_of(ms: u64) -> Month {
    let date = Timestamp(ms).date();
    Month { year: date.year(), month: date.month() }
}

/// The object of a `json!({…})` literal.
pub fn data(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

#[cfg(test)]
mod tests;
