//! Who hears of events: each with a bounded queue of their own, told how many did not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::event::Event;

/// Events that may wait for one subscriber.
pub(super) const QUEUE_MAX: usize = 1024;

pub(super) struct Subscriber {
    prefix: String,
    queue: mpsc::Sender<Delivery>,
    missed: Arc<AtomicU64>,
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

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    Yes,
    Missed,
    Gone,
}

/// Both ends for one subscriber of the types that start with `prefix`; `*` is everything.
pub(super) fn pair(prefix: &str) -> (Subscriber, Subscription) {
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    let missed = Arc::new(AtomicU64::new(0));
    let prefix = prefix.trim_end_matches('*').to_owned();
    (Subscriber { prefix, queue: sender, missed: missed.clone() }, Subscription { queue, missed })
}

impl Subscriber {
    pub(super) fn wants(&self, kind: &str) -> bool {
        kind.starts_with(&self.prefix)
    }

    pub(super) fn deliver(&self, event: &Arc<Event>) -> Delivered {
        if !self.wants(&event.kind) {
            return if self.queue.is_closed() { Delivered::Gone } else { Delivered::Yes };
        }
        // What was missed is told in its place: before the event that follows it.
        let missed = self.missed.swap(0, Ordering::Relaxed);
        let told = if missed == 0 { Ok(()) } else { self.queue.try_send(Delivery::Missed(missed)) };
        match told.and_then(|()| self.queue.try_send(Delivery::Event(event.clone()))) {
            Ok(()) => Delivered::Yes,
            Err(mpsc::error::TrySendError::Closed(_)) => Delivered::Gone,
            Err(mpsc::error::TrySendError::Full(unsent)) => {
                let untold = if matches!(unsent, Delivery::Missed(_)) { missed } else { 0 };
                self.missed.fetch_add(untold + 1, Ordering::Relaxed);
                Delivered::Missed
            }
        }
    }
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
