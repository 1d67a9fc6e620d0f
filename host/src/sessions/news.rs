//! What happens in lanes, for rooms that follow it: messages taken, runs begun and ended. Bounded: who falls behind looks for itself.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::Handle;
use super::lanes::{Lane, Live, State};
use super::record::{Ended, OriginKind, Step};
use crate::clock::Timestamp;
use crate::id::AgentId;
use crate::session_key::SessionKey;

/// News that wait for a follower.
pub(super) const KEPT: usize = 8_192;
/// A call of this name does nothing.
const DESCRIBE: &str = "tool_describe";

#[derive(Clone, Debug)]
pub enum News {
    /// A message is on record. `order` counts all messages.
    Accepted {
        session: SessionKey,
        run: Arc<str>,
        by: OriginKind,
        order: u64,
    },
    Started {
        session: SessionKey,
        run: Arc<str>,
        by: OriginKind,
        order: u64,
        at: Timestamp,
    },
    Ended {
        session: SessionKey,
        run: Arc<str>,
        by: OriginKind,
        ended: Arc<Ended>,
        /// A call of a tool succeeded.
        acted: bool,
        /// It began with summing the conversation up.
        compacted: bool,
    },
}

/// What a follower is told; [`Follow::Missed`] when it fell behind.
#[derive(Clone, Debug)]
pub enum Follow {
    News(News),
    Missed,
    Closed,
}

/// What goes on in the lanes of one agent, its sub-agents' aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupied {
    pub running: usize,
    pub waiting: usize,
    /// The latest message of a person among those that run, and among all.
    pub person_runs: Option<u64>,
    pub person: Option<u64>,
}

impl Occupied {
    fn add(&mut self, lane: &Lane) {
        self.running += usize::from(lane.running.is_some());
        self.waiting += lane.waiting.len();
        let running = lane.running.iter().map(|live| (live, true));
        for (live, runs) in running.chain(lane.waiting.iter().map(|live| (live, false))) {
            let accepted = &live.run.accepted;
            if accepted.origin.kind == OriginKind::ExternalUser {
                self.person = self.person.max(Some(accepted.order));
                self.person_runs = self.person_runs.max(runs.then_some(accepted.order));
            }
        }
    }
}

impl State {
    /// Whether anything of an agent runs or waits, its sub-agents aside.
    pub(super) fn is_occupied(&self, agent: &AgentId) -> bool {
        let of_agent = self.lanes.iter().filter(|(key, _)| key.agent == *agent && !key.is_subagent());
        of_agent.into_iter().any(|(_, lane)| lane.running.is_some() || !lane.waiting.is_empty())
    }
}

impl Handle {
    /// Everything that happens from now on.
    pub fn follow(&self) -> Follower {
        Follower(self.0.news.subscribe())
    }

    /// Messages so far.
    pub fn order(&self) -> u64 {
        self.0.state().order
    }

    /// What goes on in the lanes of every agent that has something going on.
    pub fn occupied(&self) -> std::collections::HashMap<AgentId, Occupied> {
        let state = self.0.state();
        let mut found: std::collections::HashMap<AgentId, Occupied> = std::collections::HashMap::new();
        for (key, lane) in state.lanes.iter().filter(|(key, _)| !key.is_subagent()) {
            found.entry(key.agent.clone()).or_default().add(lane);
        }
        found
    }

    /// What goes on in the lanes of one agent.
    pub fn occupied_by(&self, agent: &AgentId) -> Occupied {
        let state = self.0.state();
        let mut found = Occupied::default();
        let of_agent = |key: &SessionKey| key.agent == *agent && !key.is_subagent();
        state.lanes.iter().filter(|(key, _)| of_agent(key)).for_each(|(_, lane)| found.add(lane));
        found
    }

    /// When each agent's last run ended, sub-agents aside; agents that never ran are not in it.
    pub fn last_ends(&self) -> std::collections::HashMap<AgentId, Timestamp> {
        let state = self.0.state();
        let mut found: std::collections::HashMap<AgentId, Timestamp> = std::collections::HashMap::new();
        for (key, session) in state.sessions.iter().filter(|(key, _)| !key.is_subagent()) {
            if let Some(last) = &session.last_run {
                let at = found.entry(key.agent.clone()).or_insert(last.ended_at);
                *at = (*at).max(last.ended_at);
            }
        }
        found
    }

    /// Runs that have not ended: the session of each, its id, and whose message began it.
    pub fn unfinished(&self) -> Vec<(SessionKey, Arc<str>, OriginKind)> {
        let of = |live: &Arc<Live>| (live.key.clone(), live.id().into(), live.run.accepted.origin.kind);
        self.0.state().all_live().map(of).collect()
    }

    // Nobody may follow, which is no failure.
    pub(super) fn publish_accepted(&self, live: &Live) {
        let accepted = &live.run.accepted;
        let (session, run, by) = (live.key.clone(), accepted.id.as_str().into(), accepted.origin.kind);
        let _ = self.0.news.send(News::Accepted { session, run, by, order: accepted.order });
    }

    pub(super) fn publish_started(&self, live: &Live, at: Timestamp) {
        let accepted = &live.run.accepted;
        let (session, run, by) = (live.key.clone(), accepted.id.as_str().into(), accepted.origin.kind);
        let _ = self.0.news.send(News::Started { session, run, by, order: accepted.order, at });
    }

    pub(super) fn publish_ended(&self, live: &Live, steps: &[Step], ended: &Arc<Ended>) {
        let accepted = &live.run.accepted;
        let (session, run, by) = (live.key.clone(), accepted.id.as_str().into(), accepted.origin.kind);
        let did = |step: &Step| matches!(step, Step::Result { tool, is_error: false, .. } if tool != DESCRIBE);
        let acted = steps.iter().any(did);
        let compacted = steps.iter().any(|step| matches!(step, Step::Compacted { .. }));
        let _ = self.0.news.send(News::Ended { session, run, by, ended: ended.clone(), acted, compacted });
    }
}

pub struct Follower(broadcast::Receiver<News>);

impl Follower {
    pub async fn next(&mut self) -> Follow {
        match self.0.recv().await {
            Ok(news) => Follow::News(news),
            Err(broadcast::error::RecvError::Lagged(_)) => Follow::Missed,
            Err(broadcast::error::RecvError::Closed) => Follow::Closed,
        }
    }

    /// What is there without waiting.
    pub fn ready(&mut self) -> Option<Follow> {
        match self.0.try_recv() {
            Ok(news) => Some(Follow::News(news)),
            Err(broadcast::error::TryRecvError::Lagged(_)) => Some(Follow::Missed),
            Err(broadcast::error::TryRecvError::Empty) => None,
            Err(broadcast::error::TryRecvError::Closed) => Some(Follow::Closed),
        }
    }
}
