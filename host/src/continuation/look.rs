//! What is around an agent at this moment, read off the rooms that know it.

use std::collections::HashMap;
use std::sync::Arc;

use chela_drive::{Begun, Blocked, Facts, Input, Look, Poll};
use chela_taskfile::Status;

use super::Shared;
use crate::clock::Timestamp;
use crate::id::AgentId;
use crate::sessions::Occupied;
use crate::tasks::View;

/// Blocked tasks of one agent that one poll is told of.
const BLOCKED_MAX: usize = 100;

/// What all agents do at one moment.
pub(super) struct Surroundings {
    occupied: HashMap<AgentId, Occupied>,
    subagents: HashMap<String, usize>,
}

impl Shared {
    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings { occupied: self.options.sessions.occupied(), subagents: self.options.jobs.subagents() }
    }

    pub(super) fn look(&self, agent: &AgentId) -> Look {
        let subagents = self.options.jobs.subagents_of(agent);
        self.look_at(agent, self.options.sessions.occupied_by(agent), subagents)
    }

    /// Questions that belong to no task, or not yet; a task's own blocks it.
    pub(super) fn look_for_questions(self: &Arc<Self>, agent: &AgentId) {
        let open = self.options.humans.open_without_task(agent);
        self.give(agent, Input::Questions { open });
    }

    pub(super) fn look_in(&self, agent: &AgentId, around: &Surroundings) -> Look {
        let occupied = around.occupied.get(agent).copied().unwrap_or_default();
        self.look_at(agent, occupied, around.subagents.get(agent.as_ref()).copied().unwrap_or(0))
    }

    fn look_at(&self, agent: &AgentId, occupied: Occupied, subagents: usize) -> Look {
        let task = self.options.tasks.current(agent);
        let views = || self.options.tasks.of(agent).unwrap_or_default();
        Look {
            running: occupied.running > 0,
            by_person: occupied.person_runs.is_some(),
            waiting: occupied.waiting,
            subagents,
            waits_for_person: task.is_none() && views().iter().any(|view| waits_for_person(view)),
            task: task.map(|view| self.facts(&view)),
        }
    }

    pub(super) fn begun(&self, agent: &AgentId, around: &Surroundings, ends: &HashMap<AgentId, Timestamp>) -> Begun {
        Begun {
            look: self.look_in(agent, around),
            has_run: ends.contains_key(agent),
            last_run_at: ends.get(agent).map_or(0, |at| self.options.clock.steady_of(*at).0),
            order: self.options.sessions.order(),
            spoke: around.occupied.get(agent).and_then(|occupied| occupied.person),
        }
    }

    pub(super) fn poll_of(&self, agent: &AgentId, around: &Surroundings, counted: &[String]) -> Poll {
        let tasks = &self.options.tasks;
        let views = tasks.of(agent).unwrap_or_default();
        let blocked = views.iter().filter(|view| view.problem.is_none() && view.task.status == Status::Blocked);
        let open = |id: &String| views.iter().any(|view| view.id == *id);
        Poll {
            look: self.look_in(agent, around),
            blocked: blocked.take(BLOCKED_MAX).map(|view| self.blocked(view)).collect(),
            backlog: tasks.next_of_backlog(agent).map(|view| self.facts(&view)),
            gone: counted.iter().filter(|id| !open(id)).cloned().collect(),
        }
    }

    fn facts(&self, view: &View) -> Facts {
        Facts {
            id: view.id.clone(),
            open_steps: view.task.open_steps().count(),
            mark: mark(view),
            activity_at: self.activity(view),
            session: view.session_key().to_string(),
        }
    }

    fn blocked(&self, view: &View) -> Blocked {
        let blocked = view.task.blocked.clone().unwrap_or_default();
        Blocked {
            id: view.id.clone(),
            by_person: waits_for_person(view),
            requests: blocked.requests,
            escalated: blocked.escalation == "escalated",
            failed: blocked.escalation == "failed",
            activity_at: self.activity(view),
        }
    }

    /// A time that cannot be read is now: it is nobody's fault, and no sign of death.
    fn activity(&self, view: &View) -> u64 {
        let clock = &self.options.clock;
        Timestamp::parse(&view.task.last_activity).map_or_else(|| self.now(), |at| clock.steady_of(at).0)
    }
}

fn waits_for_person(view: &View) -> bool {
    view.task.status == Status::Blocked && view.task.blocked.as_ref().is_some_and(|blocked| blocked.kind == "input")
}

/// Another number for every other state of the steps, the same over restarts.
fn mark(view: &View) -> u64 {
    let mut hash = blake3::Hasher::new();
    for step in &view.task.steps {
        for part in [step.id.as_str(), step.content.as_str(), step.status.as_str()] {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
    }
    let first = *hash.finalize().as_bytes().first_chunk::<8>().expect("a hash has 32 bytes");
    u64::from_le_bytes(first)
}
