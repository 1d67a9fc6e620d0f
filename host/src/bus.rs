//! Tells every room what happened: each event goes to the log first, then to whoever subscribed.
//! Owns the event log. Keeps true: subscribers and log see one order; a slow subscriber loses events, is told how many, and slows nobody.
//! Never: blocks an emitter on a subscriber.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chela_storage::AppendLog;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::event::{Event, Kind};
use crate::layout::StateDir;
use crate::metrics::Metrics;

/// Events that may wait for one subscriber.
const QUEUE_MAX: usize = 1024;
/// Between two tries of a log that takes no lines.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the event log {} ({cause}); check its owner and rights, and the disk", path.display())]
    Open { path: PathBuf, cause: io::Error },
    #[error("the event log {} took no line ({cause}); check the disk's space and rights", path.display())]
    Append { path: PathBuf, cause: io::Error },
}

#[derive(Clone)]
pub struct Bus(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Events that the log has not taken since it last took one.
    unwritten: AtomicU64,
    failed: Notify,
    path: PathBuf,
    clock: Clock,
    metrics: Metrics,
}

struct State {
    log: AppendLog,
    subscribers: Vec<Subscriber>,
}

struct Subscriber {
    prefix: String,
    queue: mpsc::Sender<Delivery>,
    missed: Arc<AtomicU64>,
}

impl Bus {
    /// Opens the log of `dir`, mending an end that a crash has torn.
    pub fn open(dir: &StateDir, clock: Clock, metrics: Metrics) -> Result<Self, Error> {
        let path = dir.event_log();
        let (log, repair) =
            AppendLog::open(&path, &dir.corrupt_log()).map_err(|cause| Error::Open { path: path.clone(), cause })?;
        let state = Mutex::new(State { log, subscribers: Vec::new() });
        let bus =
            Self(Arc::new(Inner { state, unwritten: AtomicU64::new(0), failed: Notify::new(), path, clock, metrics }));
        if let Some(repair) = repair {
            tracing::warn!(
                offset = repair.offset,
                bytes = repair.bytes,
                "a torn last line of the event log was set aside"
            );
            bus.emit(
                Kind::LogRepaired,
                data(json!({ "log": "events", "offset": repair.offset, "bytes": repair.bytes })),
            )?;
        }
        Ok(bus)
    }

    /// Writes an event of the gateway itself and tells the subscribers.
    pub fn emit(&self, kind: Kind, data: Map<String, Value>) -> Result<(), Error> {
        self.append(kind, data).inspect_err(|_| {
            self.0.unwritten.fetch_add(1, Ordering::Relaxed);
            self.0.metrics.events_failed.inc();
            self.0.failed.notify_one();
        })
    }

    fn append(&self, kind: Kind, data: Map<String, Value>) -> Result<(), Error> {
        let event = Arc::new(Event::system(kind, self.0.clock.now(), data));
        let line = serde_json::to_vec(&*event).expect("an event is plain JSON");
        let mut state = self.lock();
        state.log.append(&line).map_err(|cause| Error::Append { path: self.0.path.clone(), cause })?;
        self.0.metrics.events.inc();
        state.subscribers.retain(|subscriber| self.deliver(subscriber, &event));
        Ok(())
    }

    /// Like [`Bus::emit`] for what is true whether or not the log takes it: a failure is logged, counted and shown by readiness.
    pub fn tell(&self, kind: Kind, data: Map<String, Value>) {
        if let Err(error) = self.emit(kind, data) {
            tracing::error!(error = &error as &dyn std::error::Error, kind = kind.as_str(), "an event was not written");
        }
    }

    /// Everything from now on whose type starts with `prefix`; `*` is everything.
    pub fn subscribe(&self, prefix: &str) -> Subscription {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let missed = Arc::new(AtomicU64::new(0));
        let prefix = prefix.trim_end_matches('*').to_owned();
        self.lock().subscribers.push(Subscriber { prefix, queue: sender, missed: missed.clone() });
        Subscription { queue, missed }
    }

    /// Whether events could not be written and the log has not recovered since.
    pub fn is_failing(&self) -> bool {
        self.0.unwritten.load(Ordering::Relaxed) > 0
    }

    /// Whenever the log fails, tries it again until it takes lines, and writes down how many events it did not take.
    pub async fn watch_over_log(self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.0.failed.notified()).await.is_some() {
            while self.is_failing() {
                if stop.run_until_cancelled(self.0.clock.sleep(RETRY)).await.is_none() {
                    return;
                }
                self.try_to_recover();
            }
        }
    }

    fn try_to_recover(&self) {
        let unwritten = self.0.unwritten.load(Ordering::Relaxed);
        if self.append(Kind::LogRepaired, data(json!({ "log": "events", "unwritten": unwritten }))).is_ok() {
            self.0.unwritten.fetch_sub(unwritten, Ordering::Relaxed);
            tracing::warn!(unwritten, "the event log takes lines again");
        }
    }

    /// Flushes the log to the device.
    pub fn sync(&self) -> Result<(), Error> {
        self.lock().log.sync().map_err(|cause| Error::Append { path: self.0.path.clone(), cause })
    }

    /// False once the subscriber is gone.
    fn deliver(&self, subscriber: &Subscriber, event: &Arc<Event>) -> bool {
        if !event.kind.starts_with(&subscriber.prefix) {
            return !subscriber.queue.is_closed();
        }
        // What was missed is told in its place: before the event that follows it.
        let missed = subscriber.missed.swap(0, Ordering::Relaxed);
        let told = if missed == 0 { Ok(()) } else { subscriber.queue.try_send(Delivery::Missed(missed)) };
        match told.and_then(|()| subscriber.queue.try_send(Delivery::Event(event.clone()))) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(unsent)) => {
                let untold = if matches!(unsent, Delivery::Missed(_)) { missed } else { 0 };
                subscriber.missed.fetch_add(untold + 1, Ordering::Relaxed);
                self.0.metrics.events_missed.inc();
                true
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state whole: it is changed by single steps.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Subscription {
    queue: mpsc::Receiver<Delivery>,
    missed: Arc<AtomicU64>,
}

#[derive(Debug, PartialEq)]
pub enum Delivery {
    Event(Arc<Event>),
    /// So many events did not fit between the one before and the one after.
    Missed(u64),
}

impl Subscription {
    /// The next event; `None` once the bus is gone.
    pub async fn next(&mut self) -> Option<Delivery> {
        if let Ok(waiting) = self.queue.try_recv() {
            return Some(waiting);
        }
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => self.queue.recv().await,
            missed => Some(Delivery::Missed(missed)),
        }
    }
}

/// The object of a `json!({…})` literal.
pub fn data(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    fn bus() -> (tempfile::TempDir, StateDir, Bus) {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let dir = StateDir::new(temp.path());
        std::fs::create_dir_all(dir.logs()).expect("a place for logs");
        let bus = Bus::open(&dir, Clock::manual(Timestamp(7)), Metrics::default()).expect("a new log");
        (temp, dir, bus)
    }

    fn emit(bus: &Bus, kind: Kind, n: usize) {
        bus.emit(kind, data(json!({ "n": n }))).expect("the log takes it");
    }

    async fn numbers(subscription: &mut Subscription, count: usize) -> Vec<String> {
        let mut seen = Vec::new();
        for _ in 0..count {
            seen.push(match subscription.next().await.expect("the bus lives") {
                Delivery::Event(event) => event.data["n"].to_string(),
                Delivery::Missed(count) => format!("missed {count}"),
            });
        }
        seen
    }

    #[tokio::test]
    async fn subscribers_by_prefix_and_the_log_see_one_order() {
        let (_temp, dir, bus) = bus();
        let (mut all, mut config) = (bus.subscribe("*"), bus.subscribe("config."));
        emit(&bus, Kind::ConfigApplied, 1);
        emit(&bus, Kind::GatewayStarted, 2);
        emit(&bus, Kind::ConfigRefused, 3);
        assert_eq!(numbers(&mut all, 3).await, ["1", "2", "3"]);
        assert_eq!(numbers(&mut config, 2).await, ["1", "3"]);
        let log = std::fs::read_to_string(dir.event_log()).expect("readable");
        let types: Vec<Event> = log.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        assert_eq!(
            types.iter().map(|e| e.kind.as_str()).collect::<Vec<_>>(),
            ["config.applied", "gateway.started", "config.refused"]
        );
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_told_in_its_place_how_many_it_missed() {
        let (_temp, _dir, bus) = bus();
        let mut slow = bus.subscribe("*");
        (0..QUEUE_MAX + 3).for_each(|n| emit(&bus, Kind::ConfigApplied, n));
        let kept = numbers(&mut slow, 2).await;
        assert_eq!(kept, ["0", "1"]);
        emit(&bus, Kind::ConfigApplied, 9_999);
        let rest = numbers(&mut slow, QUEUE_MAX).await;
        assert_eq!(rest[QUEUE_MAX - 2..], ["missed 3", "9999"]);
    }

    #[tokio::test]
    async fn what_was_missed_is_told_even_if_nothing_follows() {
        let (_temp, _dir, bus) = bus();
        let mut slow = bus.subscribe("*");
        (0..QUEUE_MAX + 2).for_each(|n| emit(&bus, Kind::ConfigApplied, n));
        assert_eq!(numbers(&mut slow, QUEUE_MAX + 1).await[QUEUE_MAX], "missed 2");
    }

    #[test]
    fn a_torn_line_is_set_aside_and_said() {
        let (temp, dir, bus) = bus();
        emit(&bus, Kind::ConfigApplied, 1);
        drop(bus);
        let mut log = std::fs::read(dir.event_log()).expect("readable");
        log.extend_from_slice(b"{\"type\":\"conf");
        std::fs::write(dir.event_log(), log).expect("torn");
        let _bus =
            Bus::open(&StateDir::new(temp.path()), Clock::manual(Timestamp(8)), Metrics::default()).expect("mended");
        let log = std::fs::read_to_string(dir.event_log()).expect("readable");
        assert!(log.lines().last().expect("a line").contains("log.repaired"), "{log}");
        assert_eq!(std::fs::read_to_string(dir.corrupt_log()).expect("readable"), "{\"type\":\"conf\n");
    }
}
