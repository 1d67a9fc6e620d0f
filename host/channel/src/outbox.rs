//! Messages on their way to people: in order within a place, tried again with growing patience, delivered or refused for good.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::words::{Delivered, Outbound};

/// Messages that may wait for one adapter before further ones are refused.
pub const DELIVERIES_MAX: usize = 10_000;
/// Handed to the adapter at once.
const GIVEN_MAX: usize = 32;
/// Without a result it is handed over again.
const RESULT_WITHIN_MS: u64 = 600_000;
const BACKOFF_MS: u64 = 1_000;
const BACKOFF_MS_MAX: u64 = 600_000;
/// What could not be delivered for so long is refused.
pub const AGE_MS_MAX: u64 = 24 * 3_600_000;
const TOO_OLD: &str = "it could not be delivered for a day";
/// A message at which the adapter broke so often is what breaks it.
const BROKEN_MAX: u32 = 5;

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub id: String,
    pub target: String,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Delivered { message_ids: Vec<String> },
    Refused { said: String },
}

#[derive(Clone, Debug)]
struct Delivery {
    outbound: Outbound,
    since: u64,
    tries: u32,
    /// Times that the adapter failed while it had this.
    broken: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits { until: u64 },
    Given { until: u64 },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    /// By place, in order.
    places: BTreeMap<String, VecDeque<Delivery>>,
    /// The place of each.
    known: HashMap<String, String>,
    given: usize,
}

impl Delivery {
    /// When it is too old to be handed over.
    fn over_at(&self) -> u64 {
        self.since.saturating_add(AGE_MS_MAX + 1)
    }
}

impl Outbox {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Takes a message in; false where it is known, or no more fit. Those that were taken while others were are a few more.
    pub(crate) fn add(&mut self, outbound: Outbound, since: u64) -> bool {
        if self.known.len() >= 2 * DELIVERIES_MAX || self.known.contains_key(&outbound.id) {
            return false;
        }
        self.known.insert(outbound.id.clone(), outbound.target.clone());
        let state = State::Waits { until: 0 };
        let delivery = Delivery { since, tries: 0, broken: 0, state, outbound };
        self.places.entry(delivery.outbound.target.clone()).or_default().push_back(delivery);
        true
    }

    /// Those to be handed over now: the first of each place.
    pub(crate) fn due(&mut self, now: u64) -> Vec<Outbound> {
        let mut due = Vec::new();
        for queue in self.places.values_mut() {
            if self.given >= GIVEN_MAX {
                break;
            }
            let Some(first) = queue.front_mut() else { continue };
            if matches!(first.state, State::Waits { until } if until <= now) && now < first.over_at() {
                first.state = State::Given { until: now + RESULT_WITHIN_MS };
                self.given += 1;
                due.push(first.outbound.clone());
            }
        }
        due
    }

    /// What is overdue waits again; gives what is too old, whether anything is handed over or not.
    pub(crate) fn expire(&mut self, now: u64) -> Vec<Done> {
        let mut done = Vec::new();
        loop {
            let mut over = Vec::new();
            for first in self.places.values_mut().filter_map(VecDeque::front_mut) {
                if matches!(first.state, State::Given { until } if until <= now) {
                    first.state = State::Waits { until: now };
                    first.tries += 1;
                    self.given -= 1;
                }
                if matches!(first.state, State::Waits { .. }) && first.over_at() <= now {
                    over.push(first.outbound.id.clone());
                }
            }
            if over.is_empty() {
                return done;
            }
            let refused = || Outcome::Refused { said: TOO_OLD.to_owned() };
            done.extend(over.into_iter().filter_map(|id| self.end(&id, refused())));
        }
    }

    /// The adapter's word on one; gives its end, if it is one.
    pub(crate) fn result(&mut self, result: Delivered, seed: u64, now: u64) -> Option<Done> {
        if result.error.is_empty() {
            return self.end(&result.id, Outcome::Delivered { message_ids: result.message_ids });
        }
        if !result.retry {
            return self.end(&result.id, Outcome::Refused { said: result.error });
        }
        let first = self.places.get_mut(self.known.get(&result.id)?)?.front_mut()?;
        if first.outbound.id != result.id || !matches!(first.state, State::Given { .. }) {
            return None;
        }
        self.given -= 1;
        let wait = backoff(first.tries, BACKOFF_MS, BACKOFF_MS_MAX, seed).max(result.retry_ms.min(AGE_MS_MAX));
        first.tries += 1;
        first.state = State::Waits { until: now.saturating_add(wait) };
        None
    }

    /// The adapter failed: what it had is handed over again, unless that is what breaks it.
    pub(crate) fn broke(&mut self, failed: bool) -> Vec<Done> {
        let mut over = Vec::new();
        for first in self.places.values_mut().filter_map(VecDeque::front_mut) {
            if matches!(first.state, State::Given { .. }) {
                first.state = State::Waits { until: 0 };
                first.broken += u32::from(failed);
                if first.broken >= BROKEN_MAX {
                    over.push(first.outbound.id.clone());
                }
            }
        }
        self.given = 0;
        let said = || format!("the adapter failed {BROKEN_MAX} times while it had this message");
        over.into_iter().filter_map(|id| self.end(&id, Outcome::Refused { said: said() })).collect()
    }

    fn end(&mut self, id: &str, outcome: Outcome) -> Option<Done> {
        let target = self.known.get(id)?.clone();
        let queue = self.places.get_mut(&target)?;
        // Only what is at its turn can end: the rest was never handed over.
        let first = queue.front().filter(|first| first.outbound.id == id)?;
        if matches!(first.state, State::Given { .. }) {
            self.given -= 1;
        }
        queue.pop_front();
        if queue.is_empty() {
            self.places.remove(&target);
        }
        self.known.remove(id);
        Some(Done { id: id.to_owned(), target, outcome })
    }

    /// When something is to be done next.
    pub(crate) fn next_due(&self, gives: bool) -> Option<u64> {
        let firsts = self.places.values().filter_map(VecDeque::front);
        firsts
            .map(|first| match first.state {
                State::Given { until } => until,
                State::Waits { until } if gives && self.given < GIVEN_MAX => until.min(first.over_at()),
                State::Waits { .. } => first.over_at(),
            })
            .min()
    }
}

/// Twice as long each time, and by chance a little less, so that many do not come back at once.
pub(crate) fn backoff(tries: u32, first_ms: u64, most_ms: u64, seed: u64) -> u64 {
    let wait = first_ms.saturating_mul(1_u64 << tries.min(20)).min(most_ms);
    wait - (seed % 1_000) * (wait / 4) / 1_000
}
