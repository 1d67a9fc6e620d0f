//! What is seen of an agent, what stands in the way of telling it to go on, and the regular look that is the last resort.

use crate::layers::counts_as_zombie;
use crate::step::{Blocked, Effect, Facts, Layer, Look, Poll, Stage, Step, Stop};
use crate::why::Why;

/// Blocked tasks of one agent that one poll asks about.
const BLOCKED_MAX: usize = 5;

impl Step<'_> {
    /// Takes up what a look tells of tasks. False if the task in progress is being stopped: nothing else is done about it then.
    pub(crate) fn see(&mut self, look: &Look) -> bool {
        self.see_after(look, look.running && !look.by_person)
    }

    /// Like [`Step::see`]; `by_agent`: what is new was done in a run that no person asked for.
    pub(crate) fn see_after(&mut self, look: &Look, by_agent: bool) -> bool {
        let active = look.task.as_ref().map(|task| task.id.as_str());
        for (task, counts) in &mut self.agent.counts {
            if let Some(stopped) = counts.stopped.as_mut().filter(|_| Some(task.as_str()) != active) {
                stopped.seen = true;
            }
        }
        self.agent.seen = look.task.as_ref().map(|task| (task.id.clone(), task.mark));
        let Some(task) = &look.task else { return true };
        let counts = self.counts(task);
        if counts.mark != task.mark {
            counts.mark = task.mark;
            counts.progressed();
        }
        let Some(stopped) = counts.stopped.clone() else { return true };
        if !stopped.seen {
            return false;
        }
        if by_agent {
            // The agent has helped itself past a limit that is not its own to lift.
            self.stop(&task.id, Layer::SelfDriving, stopped.stop, stopped.reason);
            return false;
        }
        self.counts(task).resumed();
        true
    }

    /// What stands in the way.
    pub(crate) fn why_not(&self, look: &Look, layer: Layer) -> Option<Why> {
        let agent = &self.agent;
        let at_once = matches!(layer, Layer::SelfDriving | Layer::EventBased);
        let counts = look.task.as_ref().and_then(|task| agent.counts.get(&task.id).map(|counts| (task, counts)));
        let no_task = || if look.waits_for_person { Why::Person } else { Why::NoTask };
        match () {
            () if !self.rules.enabled => Some(Why::Disabled),
            () if look.running => Some(Why::Runs),
            () if look.waiting > 0 => Some(Why::Waits),
            () if look.subagents > 0 => Some(Why::SubagentRuns),
            () if agent.aborted.is_some() => Some(Why::Aborted),
            () if agent.questions > 0 => Some(Why::Question),
            () if look.task.is_none() && layer != Layer::Backlog => Some(no_task()),
            () if counts.is_some_and(|(_, counts)| counts.held) => Some(Why::Held),
            () if at_once && counts.is_some_and(|(task, counts)| counts_as_zombie(counts, task)) => Some(Why::Zombie),
            () if at_once && look.task.as_ref().is_some_and(|task| task.open_steps == 0) => Some(Why::NoOpenSteps),
            () if agent.typing_until > self.now => Some(Why::Typing),
            () => None,
        }
    }

    pub(crate) fn poll(&mut self, poll: Poll) {
        for task in &poll.gone {
            self.agent.counts.remove(task);
        }
        let may_go_on = self.see(&poll.look);
        if !self.rules.enabled {
            return;
        }
        for blocked in poll.blocked.iter().filter(|blocked| !blocked.by_person && !blocked.failed).take(BLOCKED_MAX) {
            self.unblock(blocked);
        }
        if let (false, Some(task)) = (may_go_on, &poll.look.task) {
            return self.stop_again(task);
        }
        if self.agent.timer.is_some() || self.agent.is_busy() {
            return;
        }
        if !poll.look.running {
            self.cool();
        }
        match (&poll.look.task, &poll.backlog) {
            (Some(task), _) => self.poll_task(task, &poll.look),
            (None, Some(next)) => self.poll_backlog(next, &poll.look),
            (None, None) => {}
        }
    }

    fn poll_task(&mut self, task: &Facts, look: &Look) {
        let (now, rules) = (self.now, self.rules);
        let (dead, counts) = (now.saturating_sub(task.activity_at) >= rules.zombie_ms, self.counts(task));
        let asked_for_life = dead && counts_as_zombie(counts, task);
        if !asked_for_life {
            counts.zombie_at = None;
        }
        let (held, rests) = (counts.held, counts.resting_until > now);
        let layer = if dead { Layer::Zombie } else { Layer::Polling };
        if !self.is_idle(task.activity_at) {
            return;
        }
        match self.why_not(look, layer) {
            Some(Why::Held) if dead && held => {
                let reason = format!("nothing has changed since a run ended with: {}", self.counts(task).last_error);
                self.stop(&task.id, layer, Stop::Error, reason);
            }
            Some(Why::Typing) => {}
            Some(why) => self.note(&task.id, layer, why),
            None if asked_for_life => {
                let idle_ms = now.saturating_sub(task.activity_at);
                let to_backlog = rules.zombie_to_backlog;
                self.counts(task).zombie_at = None;
                self.did(&task.id, layer, "stopped", "no activity".into());
                self.effects.push(Effect::GiveUp { task: task.id.clone(), to_backlog, idle_ms });
            }
            None if rests => {}
            None => self.ask(task, layer),
        }
    }

    fn poll_backlog(&mut self, next: &Facts, look: &Look) {
        let (now, rules) = (self.now, self.rules);
        if !self.is_idle(0) || self.why_not(look, Layer::Backlog).is_some() {
            return;
        }
        let counts = self.counts(next);
        // A task that is not in progress cannot be blocked; it is let lie.
        if counts.resting_until <= now && counts.cap(now, rules).is_none() {
            self.ask(next, Layer::Backlog);
        }
    }

    fn is_idle(&self, activity_at: u64) -> bool {
        let last = self.agent.active_at.max(self.agent.begun_at).max(come(activity_at, self.now));
        self.now.saturating_sub(last) >= self.rules.idle_ms
    }

    /// Whoever can unblock a task is asked, some times; then a person is to be asked; then nobody.
    fn unblock(&mut self, blocked: &Blocked) {
        let (now, rules) = (self.now, self.rules);
        let counts = self.agent.counts.get(&blocked.id);
        // What was stopped here is for a person to resume.
        if counts.is_some_and(|counts| counts.stopped.is_some()) {
            return;
        }
        let (since, wait) = match counts.map_or(0, |counts| counts.requested_at) {
            0 => (come(blocked.activity_at, now), rules.idle_ms),
            at => (at, rules.unblock_ms),
        };
        if now.saturating_sub(since) < wait {
            return;
        }
        self.counts_of(&blocked.id).requested_at = now;
        let stage = match (blocked.requests < rules.unblock_max, blocked.escalated) {
            (true, _) => Stage::Request(blocked.requests + 1),
            (false, false) => Stage::Escalate,
            (false, true) => Stage::Fail,
        };
        self.effects.push(Effect::Unblock { task: blocked.id.clone(), stage });
    }
}

/// A time that has not come was written before somebody set the clock back: it says nothing about how long ago something was.
pub(crate) fn come(at: u64, now: u64) -> u64 {
    if at <= now { at } else { 0 }
}
