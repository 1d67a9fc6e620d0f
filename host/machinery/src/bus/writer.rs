//! The thread that owns the log: takes what has gathered, writes it, flushes it once for all, then lets the subscribers hear of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chela_storage::{LogError, SegmentLog};
use serde_json::json;

use super::batch::Batch;
use super::subscribers::Delivered;
use super::{Cause, Keeping, Shared, data};
use crate::event::{Event, Kind};

/// Between two tries of a log that takes no lines.
const RETRY: Duration = Duration::from_secs(1);
/// Between two looks for old segments.
const SWEEP_MS: u64 = 3_600_000;
/// So much is written without waiting for the group's time.
const GROUP_BYTES: usize = 1024 * 1024;

pub(super) struct Writer {
    shared: Arc<Shared>,
    log: SegmentLog,
    group: Duration,
    keep: Duration,
    bytes_max: u64,
    /// When old segments are looked for next.
    sweep_at: u64,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, log: SegmentLog, keeping: Keeping) -> Self {
        let Keeping { group, keep, bytes_max, .. } = keeping;
        Self { shared, log, group, keep, bytes_max, sweep_at: 0 }
    }

    pub(super) fn run(mut self) {
        let mut batch = Batch::default();
        self.sweep();
        while self.gather(&mut batch) {
            self.commit(&mut batch);
            self.sweep();
        }
        // What could not be written has nowhere else to go; `close` tells how much that is.
        self.shared.lock().lost = batch.count;
    }

    /// Removes what is older than is kept, or too much, once an hour.
    fn sweep(&mut self) {
        let now = self.shared.clock.now().0;
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now.saturating_add(SWEEP_MS);
        let kept = u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX);
        match self.log.forget(now.saturating_sub(kept), self.bytes_max) {
            Ok(0) => {}
            Ok(removed) => {
                let days = self.keep.as_secs() / 86_400;
                tracing::info!(removed, days, bytes_max = self.bytes_max, "old files of the event log were removed")
            }
            Err(error) => {
                tracing::warn!(%error, "old files of the event log were not removed; check the rights of the directory")
            }
        }
    }

    /// Fills `batch`, after what is left of the last one; false once there is nothing more to do.
    fn gather(&self, batch: &mut Batch) -> bool {
        let mut pending = self.shared.lock();
        let mut first_at = None;
        loop {
            let failing = pending.failing.is_some();
            if pending.closing && (failing || pending.batch.is_empty() && batch.is_empty()) {
                return false;
            }
            let now = Instant::now();
            let due = match (failing, pending.batch.is_empty()) {
                (true, _) => *first_at.get_or_insert(now + RETRY),
                (false, true) => {
                    pending = self.shared.wait(pending, None);
                    continue;
                }
                (false, false) => *first_at.get_or_insert(now + self.group),
            };
            let hurry = !failing && (pending.batch.is_urgent() || pending.batch.lines.len() >= GROUP_BYTES);
            if hurry || pending.closing || now >= due {
                break;
            }
            pending = self.shared.wait(pending, Some(due - now));
        }
        if batch.is_empty() {
            std::mem::swap(&mut pending.batch, batch);
        }
        if batch.is_empty() && pending.failing.is_some() {
            // Nobody left anything to try the log with, and until it takes a line nobody may.
            let facts = data(json!({ "log": "events", "unwritten": pending.refused }));
            let event = Event::system(Kind::LogRepaired, self.shared.clock.now(), facts);
            batch.push(&serde_json::to_vec(&event).expect("an event is plain JSON"), None, None);
            pending.probing = true;
        }
        true
    }

    fn commit(&mut self, batch: &mut Batch) {
        let now = self.shared.clock.now().0;
        let done = match self.log.append(&batch.lines, now) {
            Ok(()) => std::mem::take(batch),
            Err(LogError::Append { written, cause }) => {
                let cause = Cause::Append(cause.to_string());
                // First: who is refused finds that the log is known to fail.
                self.fail(&cause);
                batch.split(written, self.shared.failing_with(&cause))
            }
            Err(LogError::Flush(cause)) => return self.give_up(batch, &cause),
        };
        match self.log.flush() {
            Ok(()) => self.told(done, batch),
            Err(LogError::Flush(cause) | LogError::Append { cause, .. }) => {
                let mut done = done;
                self.give_up(&mut done, &cause);
                self.give_up(batch, &cause);
            }
        }
    }

    /// `done` is on the disk; `left` is what the log did not take.
    fn told(&mut self, mut done: Batch, left: &mut Batch) {
        self.shared.metrics.events.inc_by(done.count);
        let bytes = done.lines.len() as u64;
        let heard = done.take_heard();
        {
            let mut subscribers = self.shared.subscribers();
            for event in heard {
                subscribers.retain(|subscriber| match subscriber.deliver(&event) {
                    Delivered::Yes => true,
                    Delivered::Gone => false,
                    Delivered::Missed => {
                        self.shared.metrics.events_missed.inc();
                        true
                    }
                });
            }
        }
        if bytes > 0 {
            self.shared.grown.send_modify(|total| *total += bytes);
        }
        // Last: who waited for the disk finds that everybody has heard.
        done.settle();
        if left.is_empty() {
            if bytes > 0 {
                self.recovered();
            }
            // The memory is for the next group.
            *left = done;
        }
    }

    /// The log took lines again: says how many events it had to wait for or refuse.
    fn recovered(&self) {
        let mut pending = self.shared.lock();
        if pending.failing.take().is_none() {
            return;
        }
        let refused = std::mem::take(&mut pending.refused);
        let said = std::mem::take(&mut pending.probing);
        drop(pending);
        self.shared.is_failing.store(false, Ordering::Relaxed);
        tracing::warn!(refused, "the event log takes lines again");
        if said {
            return;
        }
        let facts = data(json!({ "log": "events", "unwritten": refused }));
        // The line may wait like any other; if there is no room for it, there is trouble enough in the log.
        let _ = self.shared.push(Event::system(Kind::LogRepaired, self.shared.clock.now(), facts).into(), None);
    }

    fn fail(&self, cause: &Cause) {
        self.shared.is_failing.store(true, Ordering::Relaxed);
        let already = self.shared.lock().failing.replace(cause.clone());
        if already.is_none() {
            tracing::error!(%cause, path = %self.shared.path.display(), "the event log takes no lines; it is tried again every second");
        }
    }

    /// After a flush that failed nobody knows what the disk holds: whoever waits is told, and nothing more is taken.
    fn give_up(&self, batch: &mut Batch, cause: &std::io::Error) {
        let cause = Cause::Flush(cause.to_string());
        self.shared.is_failing.store(true, Ordering::Relaxed);
        let already = self.shared.lock().failing.replace(cause.clone());
        batch.split(0, self.shared.failing_with(&cause));
        if !matches!(already, Some(Cause::Flush(_))) {
            tracing::error!(%cause, path = %self.shared.path.display(), "the event log could not be flushed; the gateway must be started again");
        }
        self.shared.broken.notify_one();
    }
}
