//! Who waits and who runs: one lane a session, in the order of acceptance. In memory; rebuilt from records at the start.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use chela_flow::Used;
use chela_storage::{Digest, Table};

use super::record::{DayUsage, Ended, Run, Session, Step};
use crate::clock::Timestamp;
use crate::id::AgentId;
use crate::results::Aged;
use crate::session_key::SessionKey;

/// Results that are kept for one session.
const PAST_OF_SESSION_MAX: usize = 100_000;

/// How a run stands.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Not durable yet: nobody has been told.
    Committing,
    Queued,
    Running {
        started_at: Timestamp,
    },
    Ended(Arc<Ended>),
    /// It could not be kept.
    Lost,
}

/// A run that has not ended.
pub(super) struct Live {
    pub(super) key: SessionKey,
    pub(super) run: Run,
    pub(super) steps: Vec<Step>,
    /// Rows of it that are in the transcript.
    pub(super) rows: usize,
    pub(super) progress: watch::Sender<Progress>,
    /// Cancelled by whoever aborts it.
    pub(super) abort: CancellationToken,
    /// When it last recorded a step in this life of the gateway, in milliseconds.
    pub(super) recorded_ms: AtomicU64,
}

impl Live {
    pub(super) fn new(key: SessionKey, run: Run, steps: Vec<Step>, rows: usize, progress: Progress) -> Arc<Self> {
        let progress = watch::Sender::new(progress);
        let (abort, recorded_ms) = (CancellationToken::new(), AtomicU64::new(0));
        Arc::new(Self { key, run, steps, rows, progress, abort, recorded_ms })
    }

    pub(super) fn id(&self) -> &str {
        &self.run.accepted.id
    }

    fn is_queued(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Queued)
    }
}

#[derive(Default)]
pub(super) struct Lane {
    pub(super) waiting: VecDeque<Arc<Live>>,
    pub(super) running: Option<Arc<Live>>,
}

/// Where a message waits.
#[derive(Clone, Debug)]
pub struct Place {
    pub run: String,
    /// 1 is next.
    pub place: usize,
    pub waiting_ms: u64,
    pub text: String,
}

pub(super) struct State {
    pub(super) sessions: BTreeMap<SessionKey, Arc<Session>>,
    pub(super) lanes: HashMap<SessionKey, Lane>,
    /// Runs that have not ended, by id.
    live: HashMap<String, Arc<Live>>,
    /// Runs that have: session and when; the rest is in the journal.
    pub(super) past: Aged<Arc<SessionKey>>,
    /// Sessions whose lane may go on.
    ready: VecDeque<SessionKey>,
    pub(super) order: u64,
    /// By agent and day.
    pub(super) usage: HashMap<String, DayUsage>,
    /// What chains have taken, and when they were last heard of: there are as many as runs, and each stays for days.
    pub(super) chains: Table<(Used, Timestamp)>,
    /// Agents that answer several conversations at once.
    slots: HashMap<AgentId, Slots>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            sessions: BTreeMap::new(),
            lanes: HashMap::new(),
            live: HashMap::new(),
            past: Aged::new(PAST_OF_SESSION_MAX),
            ready: VecDeque::new(),
            order: 0,
            usage: HashMap::new(),
            chains: Table::default(),
            slots: HashMap::new(),
        }
    }
}

/// Conversations of one agent beside each other.
#[derive(Default)]
struct Slots {
    running: usize,
    /// Lanes that may go on once a slot is free, in the order in which they could have, each once.
    held: VecDeque<SessionKey>,
    is_held: HashSet<SessionKey>,
}

impl State {
    pub(super) fn live(&self, run: &str) -> Option<&Arc<Live>> {
        self.live.get(run)
    }

    pub(super) fn all_live(&self) -> impl Iterator<Item = &Arc<Live>> {
        self.live.values()
    }

    /// Puts a run at the end of its lane.
    pub(super) fn push(&mut self, live: Arc<Live>) {
        let accepted = &live.run.accepted;
        self.count(&accepted.chain.id, 1, 0, accepted.at);
        self.live.insert(live.id().to_owned(), live.clone());
        self.lanes.entry(live.key.clone()).or_default().waiting.push_back(live);
    }

    /// Counts what a chain takes.
    pub(super) fn count(&mut self, chain: &str, messages: u64, tokens: u64, at: Timestamp) {
        let (used, last) = self.chains.get_or_insert(Digest::of(chain), (Used::default(), at));
        used.messages += messages;
        used.tokens += tokens;
        *last = (*last).max(at);
    }

    /// What a chain has taken so far.
    pub(super) fn used_by_chain(&self, chain: &str) -> Used {
        self.chains.get(Digest::of(chain)).map(|(used, _)| *used).unwrap_or_default()
    }

    /// Forgets chains that were not heard of since `before` and, where there are a quarter more than `max`, those that were not for longest;
    /// none that has a run under way.
    pub(super) fn forget_chains(&mut self, before: Timestamp, max: usize) {
        let Self { chains, live, .. } = self;
        let live: HashSet<Digest> = live.values().map(|live| Digest::of(&live.run.accepted.chain.id)).collect();
        chains.retain(|chain, (_, last)| *last > before || live.contains(&chain));
        if chains.len() <= max + max / 4 {
            return;
        }
        let mut ages: Vec<Timestamp> = chains.iter().map(|(_, (_, last))| *last).collect();
        let past = ages.len() - max;
        let (_, oldest, _) = ages.select_nth_unstable(past);
        chains.retain(|chain, (_, last)| *last >= *oldest || live.contains(&chain));
    }

    /// Takes a run out that never ran.
    pub(super) fn remove(&mut self, live: &Live) {
        self.live.remove(live.id());
        if let Some(lane) = self.lanes.get_mut(&live.key) {
            lane.waiting.retain(|other| other.id() != live.id());
        }
        self.tidy(&live.key);
    }

    /// Its lane may go on; whoever begins runs is to look.
    pub(super) fn mark_ready(&mut self, key: &SessionKey) {
        let lane = self.lanes.get(key);
        if lane.is_some_and(|lane| lane.running.is_none() && lane.waiting.front().is_some_and(|live| live.is_queued()))
        {
            self.ready.push_back(key.clone());
        }
    }

    /// Whether a lane may go on.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next run that may begin; it runs from now on. `slots` tells how many conversations an agent answers at once.
    pub(super) fn begin(&mut self, now: Timestamp, slots: impl Fn(&AgentId) -> usize) -> Option<Arc<Live>> {
        while let Some(key) = self.ready.pop_front() {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            let next = lane.waiting.front().is_some_and(|live| live.is_queued());
            if lane.running.is_some() || !next {
                continue;
            }
            if key.is_slot() {
                let taken = self.slots.entry(key.agent.clone()).or_default();
                if taken.running >= slots(&key.agent) {
                    if taken.is_held.insert(key.clone()) {
                        taken.held.push_back(key);
                    }
                    continue;
                }
                taken.running += 1;
            }
            let live = lane.waiting.pop_front()?;
            lane.running = Some(live.clone());
            live.progress.send_replace(Progress::Running { started_at: now });
            return Some(live);
        }
        None
    }

    /// A run has ended: its lane goes on.
    pub(super) fn end(&mut self, live: &Live, ended: Arc<Ended>, slots: usize) {
        self.live.remove(live.id());
        let accepted = &live.run.accepted;
        let usage = &ended.usage;
        let tokens = usage.input + usage.output + usage.cache_read + usage.cache_write;
        self.count(&accepted.chain.id, 0, tokens, ended.at);
        self.past.insert(Digest::of(&accepted.id), ended.at, live.key.clone().into());
        if let Some(lane) = self.lanes.get_mut(&live.key) {
            match &lane.running {
                Some(running) if running.id() == live.id() => {
                    lane.running = None;
                    self.free_slot(&live.key, slots);
                }
                _ => lane.waiting.retain(|other| other.id() != live.id()),
            }
        }
        self.mark_ready(&live.key);
        self.tidy(&live.key);
        live.progress.send_replace(Progress::Ended(ended));
    }

    /// A conversation has made room for the next ones of its agent.
    fn free_slot(&mut self, key: &SessionKey, slots: usize) {
        let Some(taken) = self.slots.get_mut(&key.agent).filter(|_| key.is_slot()) else { return };
        taken.running = taken.running.saturating_sub(1);
        let mut free = slots.saturating_sub(taken.running);
        while free > 0
            && let Some(next) = taken.held.pop_front()
        {
            taken.is_held.remove(&next);
            let lane = self.lanes.get(&next);
            // What waited there may have been stopped meanwhile.
            if lane.is_some_and(|lane| lane.running.is_none() && !lane.waiting.is_empty()) {
                self.ready.push_back(next);
                free -= 1;
            }
        }
        if taken.running == 0 && taken.held.is_empty() {
            self.slots.remove(&key.agent);
        }
    }

    fn tidy(&mut self, key: &SessionKey) {
        if self.lanes.get(key).is_some_and(|lane| lane.running.is_none() && lane.waiting.is_empty()) {
            self.lanes.remove(key);
        }
    }

    /// Who waits in a session.
    pub(super) fn places(&self, key: &SessionKey, now: Timestamp) -> Vec<Place> {
        let waiting = self.lanes.get(key).into_iter().flat_map(|lane| &lane.waiting).enumerate();
        let place = |(at, live): (usize, &Arc<Live>)| Place {
            run: live.id().to_owned(),
            place: at + 1,
            waiting_ms: now.0.saturating_sub(live.run.accepted.at.0),
            text: live.run.accepted.text.chars().take(200).collect(),
        };
        waiting.map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_have_an_end_and_the_latest_stay() {
        let mut state = State::default();
        (0..126).for_each(|n| state.count(&n.to_string(), 1, 1, Timestamp(n)));
        state.forget_chains(Timestamp(0), 100);
        assert_eq!(state.chains.len(), 125, "a quarter more is not worth a look");
        state.count("126", 1, 1, Timestamp(126));
        state.forget_chains(Timestamp(0), 100);
        assert_eq!(state.chains.len(), 100);
        assert!(state.chains.contains(Digest::of("126")) && !state.chains.contains(Digest::of("26")));
        state.forget_chains(Timestamp(120), 100);
        assert_eq!(state.chains.len(), 6);
    }
}
