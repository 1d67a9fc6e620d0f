//! One adapter as it stands: what it is told next, its connections, timers and requests, and what waits to be delivered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use crate::check::Bounds;
use crate::outbox::Outbox;
use crate::rates::{Bucket, Rates};
use crate::seen::Seen;
use crate::words::{Health, Input, Text};

/// What may wait to be told; past it sockets are not read.
const INBOX_MAX: usize = 1_024;
const INBOX_BYTES_MAX: usize = 4 << 20;
/// What one call is told at most.
const CALL_INPUTS_MAX: usize = 256;
const CALL_BYTES_MAX: usize = 1 << 20;

/// How often a minute an adapter may say how it is: each is told to people.
pub(crate) const STATUSES: u32 = 600;

/// The word for how an adapter is, the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    Starting,
    Ready,
    Degraded,
    NeedsAuth,
    Stopped,
}

impl Standing {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::NeedsAuth => "needs-auth",
            Self::Stopped => "stopped",
        }
    }
}

impl From<Health> for Standing {
    fn from(health: Health) -> Self {
        match health {
            Health::Connecting => Self::Starting,
            Health::Ready => Self::Ready,
            Health::Degraded => Self::Degraded,
            Health::NeedsAuth => Self::NeedsAuth,
            Health::Failed => Self::Stopped,
        }
    }
}

/// How an adapter is, with a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub standing: Standing,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was begun yet.
    Idle,
    /// Its instance is being made.
    Making,
    Live,
    /// A call is under way.
    Calling,
    /// It failed, and is made again then.
    Resting {
        until: u64,
    },
    /// It waits for an operator.
    Held,
    Ended,
}

/// A socket that the adapter has a name for.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Tells it from others of the same name.
    pub epoch: u64,
    pub open: bool,
    pub(crate) keepalive: Option<Alive>,
}

#[derive(Clone, Debug)]
pub(crate) struct Alive {
    pub(crate) frame: Text,
    pub(crate) interval_ms: u64,
    /// None until the socket is open.
    pub(crate) next: Option<u64>,
    pub(crate) first_ms: u64,
}

/// An adapter, moved by [`crate::step`] alone.
#[derive(Clone, Debug)]
pub struct Adapter {
    pub(crate) bounds: Bounds,
    pub(crate) rates: Rates,
    pub(crate) phase: Phase,
    pub(crate) status: Status,
    pub(crate) inbox: VecDeque<Input>,
    pub(crate) inbox_bytes: usize,
    /// What the call under way was told.
    pub(crate) given: Vec<Input>,
    pub(crate) timers: BTreeMap<String, u64>,
    pub(crate) connections: BTreeMap<String, Connection>,
    pub(crate) requests: BTreeSet<String>,
    /// Webhook calls that wait for their answers, and until when their callers do.
    pub(crate) webhooks: BTreeMap<String, u64>,
    pub(crate) outbox: Outbox,
    pub(crate) seen: Seen,
    pub(crate) frames: Bucket,
    pub(crate) asked: Bucket,
    pub(crate) messages: Bucket,
    pub(crate) statuses: Bucket,
    /// In a row.
    pub(crate) failures: u32,
    pub(crate) made_at: u64,
    pub(crate) epoch: u64,
    /// What is to be done once the call under way has ended.
    pub(crate) then: Option<Then>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Stop,
    Restart,
}

impl Adapter {
    pub fn new(bounds: Bounds, rates: Rates, now: u64) -> Self {
        Self {
            bounds,
            rates,
            phase: Phase::Idle,
            status: Status { standing: Standing::Starting, detail: String::new() },
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            given: Vec::new(),
            timers: BTreeMap::new(),
            connections: BTreeMap::new(),
            requests: BTreeSet::new(),
            webhooks: BTreeMap::new(),
            outbox: Outbox::default(),
            seen: Seen::default(),
            frames: Bucket::full(rates.frames, now),
            asked: Bucket::full(rates.requests, now),
            messages: Bucket::full(rates.messages, now),
            statuses: Bucket::full(STATUSES, now),
            failures: 0,
            made_at: now,
            epoch: 0,
            then: None,
        }
    }

    /// These messages could not be put on record: the network gives them again, and then they are new. Where that is not the adapter's own fault,
    /// what it had to deliver is not counted as what broke it.
    pub fn not_recorded(&mut self, messages: &[String], own: bool) {
        messages.iter().for_each(|id| self.seen.forget(id));
        if !own {
            self.outbox.broke(false);
        }
    }

    /// From now on it may do so much a minute. Other rates than before begin with a minute's worth.
    pub fn allow(&mut self, rates: Rates, now: u64) {
        if rates == self.rates {
            return;
        }
        self.rates = rates;
        self.frames = Bucket::full(rates.frames, now);
        self.asked = Bucket::full(rates.requests, now);
        self.messages = Bucket::full(rates.messages, now);
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn status(&self) -> &Status {
        &self.status
    }

    pub fn connections(&self) -> &BTreeMap<String, Connection> {
        &self.connections
    }

    /// Messages that are not delivered yet.
    pub fn undelivered(&self) -> usize {
        self.outbox.len()
    }

    /// Whether it takes more to be told; while not, sockets are left unread.
    pub fn has_room(&self) -> bool {
        self.inbox.len() < INBOX_MAX && self.inbox_bytes < INBOX_BYTES_MAX
    }

    /// Whether messages are handed to it.
    pub(crate) fn delivers(&self) -> bool {
        let well = matches!(self.status.standing, Standing::Ready | Standing::Degraded);
        well && matches!(self.phase, Phase::Live | Phase::Calling) && self.then.is_none()
    }

    /// When something is to be done next, if nothing happens before.
    pub fn next_due(&self) -> Option<u64> {
        let resting = if let Phase::Resting { until } = self.phase { Some(until) } else { None };
        let alive = self.connections.values().filter_map(|connection| connection.keepalive.as_ref()?.next);
        let own = self.timers.values().chain(self.webhooks.values()).copied().chain(alive).chain(resting);
        // During a call nothing is handed over; what is due then is when the call has ended.
        let gives = self.phase == Phase::Live && self.delivers() && self.has_room();
        own.chain(self.outbox.next_due(gives)).min()
    }

    pub(crate) fn push(&mut self, input: Input) {
        self.inbox_bytes += input.bytes();
        self.inbox.push_back(input);
    }

    /// As much as one call is told.
    pub(crate) fn take_inputs(&mut self) -> Vec<Input> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.inbox.front() {
            bytes += next.bytes();
            if !taken.is_empty() && (taken.len() >= CALL_INPUTS_MAX || bytes > CALL_BYTES_MAX) {
                break;
            }
            self.inbox_bytes -= next.bytes();
            taken.extend(self.inbox.pop_front());
        }
        taken
    }

    /// Whether a socket's event is of the one that has the name now.
    pub(crate) fn is_current(&self, connection: &str, epoch: u64) -> bool {
        self.connections.get(connection).is_some_and(|known| known.epoch == epoch)
    }
}
