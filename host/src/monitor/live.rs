//! The newest events at hand, for those who follow the log. Each follower keeps its own place and takes what comes after it: a slow one
//! waits for nobody and holds up nobody.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

/// Events that are kept at hand; whoever is further behind reads the log.
const RING_MAX: usize = 1_024;

/// An event that followers are told.
#[derive(Debug)]
pub struct Told {
    pub seq: i64,
    /// As the API shows it.
    pub event: Value,
    frames: OnceLock<Vec<Bytes>>,
}

impl Told {
    pub(super) fn new(seq: i64, event: Value) -> Self {
        Self { seq, event, frames: OnceLock::new() }
    }

    /// What goes over sockets, which the first follower makes for all.
    pub fn frames(&self, make: impl FnOnce(&Self) -> Vec<Bytes>) -> &[Bytes] {
        self.frames.get_or_init(|| make(self))
    }
}

pub(super) struct Live {
    ring: Mutex<Ring>,
    head: watch::Sender<i64>,
    /// How often the log was read to its end from its beginning, or from where the life before left off.
    caught_up: watch::Sender<u64>,
    followers: AtomicUsize,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Arc<Told>>,
    /// Everything after this place is in `events`.
    after: i64,
}

impl Live {
    pub(super) fn new() -> Self {
        let (head, caught_up) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { ring: Mutex::default(), head, caught_up, followers: AtomicUsize::new(0) }
    }

    /// Whether anybody would hear of events.
    pub(super) fn is_followed(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// The log was read to `head`; `told` is what is new, if anybody follows.
    pub(super) fn advance(&self, head: i64, told: Vec<Told>) {
        {
            let mut ring = self.lock();
            if told.is_empty() {
                ring.events.clear();
                ring.after = head;
            }
            for event in told {
                if ring.events.len() >= RING_MAX {
                    let dropped = ring.events.pop_front();
                    ring.after = dropped.map_or(ring.after, |event| event.seq);
                }
                ring.events.push_back(Arc::new(event));
            }
        }
        self.head.send_replace(head);
    }

    /// The log is read from its beginning again.
    pub(super) fn restart(&self) {
        let mut ring = self.lock();
        ring.events.clear();
        ring.after = i64::MAX;
    }

    /// The log was read to its end: questions about it are answered from now on.
    pub(super) fn caught_up(&self) {
        self.caught_up.send_modify(|times| *times += 1);
    }

    /// A new follower from `since`, or from now on.
    pub(super) fn follow(self: &Arc<Self>, since: Option<i64>) -> Place {
        self.followers.fetch_add(1, Ordering::Relaxed);
        let head = self.head.subscribe();
        let seq = since.unwrap_or_else(|| *head.borrow());
        Place { live: self.clone(), head, caught_up: self.caught_up.subscribe(), seq }
    }

    /// What comes after `seq`, if it is all at hand.
    fn after(&self, seq: i64, max: usize) -> Option<Vec<Arc<Told>>> {
        let ring = self.lock();
        if seq < ring.after {
            return None;
        }
        let from = ring.events.partition_point(|event| event.seq <= seq);
        Some(ring.events.range(from..).take(max).cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a follower stands.
pub(super) struct Place {
    live: Arc<Live>,
    head: watch::Receiver<i64>,
    caught_up: watch::Receiver<u64>,
    pub(super) seq: i64,
}

/// What a follower does next.
pub(super) enum After {
    AtHand(Vec<Arc<Told>>),
    /// It is further behind: the log has it.
    InTheLog,
}

impl Place {
    /// Completes when there is something after this place; none once nothing more will come.
    pub(super) async fn next(&mut self, max: usize) -> Option<After> {
        loop {
            let head = *self.head.borrow_and_update();
            if head > self.seq {
                match self.live.after(self.seq, max) {
                    None => return Some(After::InTheLog),
                    Some(events) if events.is_empty() => self.seq = head,
                    Some(events) => {
                        self.seq = events.last().map_or(self.seq, |event| event.seq);
                        return Some(After::AtHand(events));
                    }
                }
            }
            self.head.changed().await.ok()?;
        }
    }

    /// As `next`, for one who goes on from the newest instead of reading the log. It is told that there is much once the log was caught up with.
    pub(super) async fn news(&mut self, max: usize) -> Option<Option<Vec<Arc<Told>>>> {
        let mut caught_up = self.caught_up.clone();
        let after = tokio::select! {
            after = self.next(max) => after?,
            changed = caught_up.changed() => {
                changed.ok()?;
                self.caught_up = caught_up;
                After::InTheLog
            }
        };
        Some(match after {
            After::AtHand(events) => Some(events),
            After::InTheLog => {
                self.seq = *self.head.borrow();
                None
            }
        })
    }

    /// How many events at hand lie between this place and the newest.
    pub(super) fn behind(&self) -> usize {
        let ring = self.live.lock();
        ring.events.len() - ring.events.partition_point(|event| event.seq <= self.seq)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.live.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(seqs: std::ops::RangeInclusive<i64>) -> Vec<Told> {
        seqs.map(|seq| Told::new(seq, json!({ "seq": seq }))).collect()
    }

    async fn news(place: &mut Place) -> Option<Vec<i64>> {
        let news = tokio::time::timeout(std::time::Duration::from_secs(5), place.news(10)).await;
        let news = news.expect("there is news").expect("the log is followed");
        news.map(|told| told.iter().map(|told| told.seq).collect())
    }

    #[tokio::test]
    async fn who_wants_news_alone_is_told_that_there_is_much_and_goes_on_from_the_newest() {
        let live = Arc::new(Live::new());
        live.advance(100, Vec::new());
        let mut place = live.follow(Some(5));
        assert_eq!(news(&mut place).await, None);
        live.advance(102, told(101..=102));
        assert_eq!(news(&mut place).await, Some(vec![101, 102]));
    }

    #[tokio::test]
    async fn a_log_that_was_read_to_its_end_is_news_though_nothing_was_added() {
        let live = Arc::new(Live::new());
        live.restart();
        let mut place = live.follow(Some(500));
        live.advance(480, Vec::new());
        live.caught_up();
        assert_eq!(news(&mut place).await, None);
        live.advance(600, told(600..=600));
        assert_eq!(news(&mut place).await, Some(vec![600]));
    }
}
