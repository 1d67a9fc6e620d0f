//! The shapes of work: what a session of each shape consists of.
//! Keeps true: a scene ends what it opens (a send is completed, a spawn has a result, a task ends), except where the old
//! system also left things open.

use super::session::{Beat, Cause, Child, JobBeat, Session, Style, SystemBeat, TaskBeat, Thread};
use crate::chance::Chance;
use crate::record::v4;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
/// The old system's wait for a response, in seed and text alike.
const WAIT_MS: u64 = 300 * SECOND_MS;

/// Adds scenes to one session.
pub struct Stage<'a> {
    pub session: &'a mut Session,
    pub chance: &'a mut Chance,
    pub agents: u8,
}

impl Stage<'_> {
    /// One kind of work from beginning to end.
    pub fn play(&mut self) {
        match self.session.style {
            Style::Housekeeping => return self.housekeeping(),
            Style::Legacy { .. } => return self.legacy(),
            Style::Ours => {}
        }
        match self.chance.below(1_000) {
            0..420 => self.talk(),
            420..510 => self.fan_out(),
            510..590 => self.delegation(),
            590..993 => self.task(),
            _ => self.marathon(),
        }
        if self.chance.per_mille(60) {
            self.add(SECOND_MS, Beat::System(SystemBeat::PolicyDecided));
        }
    }

    fn add(&mut self, mean_ms: u64, beat: Beat) {
        // Nothing answers at once, however short the draw.
        let wait = mean_ms / 8 + self.chance.around(mean_ms - mean_ms / 8);
        self.session.script.push((u32::try_from(wait).unwrap_or(u32::MAX), beat));
    }

    fn add_after(&mut self, ms: u64, beat: Beat) {
        let wait = ms + self.chance.around(SECOND_MS);
        self.session.script.push((u32::try_from(wait).unwrap_or(u32::MAX), beat));
    }

    fn add_task(&mut self, mean_ms: u64, beat: TaskBeat) {
        self.add(mean_ms, Beat::Task(beat));
    }

    fn somebody_but(&mut self, one: u8) -> u8 {
        let other = self.chance.below(u32::from(self.agents) - 1) as u8;
        if other >= one { other + 1 } else { other }
    }

    fn thread(&mut self, from: u8, to: u8) -> u8 {
        let known = self.session.threads.iter().position(|thread| (thread.from, thread.to) == (from, to));
        let index = known.unwrap_or_else(|| {
            let conversation = v4(self.chance.bits());
            self.session.threads.push(Thread { from, to, conversation, run: 0 });
            self.session.threads.len() - 1
        });
        index as u8
    }

    fn talk(&mut self) {
        let owner = self.session.owner;
        let other = self.somebody_but(owner);
        let thread = self.thread(owner, other);
        if self.chance.per_mille(100) {
            self.add(SECOND_MS, Beat::AutoRoute { thread });
        }
        self.ping_pong(thread);
        if self.chance.per_mille(250) {
            self.ping_pong(thread);
        }
    }

    /// A send, its response, up to five turns, and the end.
    fn ping_pong(&mut self, thread: u8) {
        let job = self.chance.per_mille(250);
        if job {
            self.add(20, Beat::Job { thread, revision: 1, kind: JobBeat::Created });
        }
        self.add(10 * SECOND_MS, Beat::Send { thread, of_job: job });
        if self.chance.per_mille(70) {
            return self.no_response(thread, job);
        }
        let mut revision = 2;
        if job && self.chance.per_mille(150) {
            self.add(30 * SECOND_MS, Beat::Job { thread, revision, kind: JobBeat::Retried });
            revision += 1;
        }
        let turns = self.chance.pick(&[0, 0, 0, 1, 1, 2, 2, 3, 4, 5]);
        for turn in 0..=turns {
            self.add(50 * SECOND_MS, Beat::Response { thread, turn });
        }
        let announced = self.chance.per_mille(550);
        if announced {
            let ok = self.chance.per_mille(950);
            self.add(2 * SECOND_MS, Beat::Delivery { thread, ok });
        }
        self.add(5 * SECOND_MS, Beat::Complete { thread, announced });
        if job {
            self.add(20, Beat::Job { thread, revision, kind: JobBeat::Completed });
        }
    }

    fn no_response(&mut self, thread: u8, job: bool) {
        const CAUSES: [Cause; 6] =
            [Cause::Timeout, Cause::Timeout, Cause::NotFound, Cause::Error, Cause::Rejected, Cause::Silent];
        let cause = self.chance.pick(&CAUSES);
        let beat = Beat::Blocked { thread, cause };
        match cause {
            Cause::Timeout => self.add_after(WAIT_MS, beat),
            Cause::NotFound | Cause::Error | Cause::Rejected | Cause::Silent => self.add(20 * SECOND_MS, beat),
        }
        self.add(SECOND_MS, Beat::Complete { thread, announced: false });
        if job {
            self.add(20, Beat::Job { thread, revision: 2, kind: JobBeat::Failed });
        }
        if cause == Cause::Timeout && self.chance.per_mille(300) {
            self.add(5 * MINUTE_MS, Beat::LateResponse { thread });
        }
    }

    /// One asks three at once, hears of each in turn, and tells a fifth, or one of them, what came of it.
    fn fan_out(&mut self) {
        let owner = self.session.owner;
        let mut asked = [owner; 3];
        for index in 0..asked.len() {
            asked[index] = loop {
                let other = self.somebody_but(owner);
                if !asked[..index].contains(&other) {
                    break other;
                }
            };
        }
        let threads = asked.map(|other| self.thread(owner, other));
        for thread in threads {
            self.add(500, Beat::Send { thread, of_job: false });
        }
        let mut open = threads.to_vec();
        while !open.is_empty() {
            let thread = open.swap_remove(self.chance.index(open.len()));
            self.add(60 * SECOND_MS, Beat::Response { thread, turn: 0 });
            if self.chance.per_mille(400) {
                self.add(40 * SECOND_MS, Beat::Response { thread, turn: 1 });
            }
            self.add(5 * SECOND_MS, Beat::Complete { thread, announced: false });
        }
        let told = self.somebody_but(owner);
        let summary = self.thread(owner, told);
        self.ping_pong(summary);
    }

    /// Sub-agents, sometimes with sub-agents of their own.
    fn delegation(&mut self) {
        let owner = self.session.owner;
        let first = self.session.children.len() as u8;
        let count = self.chance.between(1, 4) as u8;
        for _ in 0..count {
            let child = self.child(owner, None, 1);
            self.add(2 * SECOND_MS, Beat::Spawn { child });
        }
        for child in first..first + count {
            for _ in 0..self.chance.below(3) {
                self.add(30 * SECOND_MS, Beat::ChildSend { child });
                self.add(60 * SECOND_MS, Beat::ChildResponse { child });
            }
            if self.chance.per_mille(200) {
                let agent = self.session.children[usize::from(child)].agent;
                let grandchild = self.child(agent, Some(child), 2);
                self.add(20 * SECOND_MS, Beat::Spawn { child: grandchild });
                self.result(grandchild);
            }
            self.result(child);
        }
        if self.chance.per_mille(400) {
            let told = self.somebody_but(owner);
            let thread = self.thread(owner, told);
            self.ping_pong(thread);
        }
    }

    fn child(&mut self, by: u8, parent: Option<u8>, depth: u8) -> u8 {
        // Half of all sub-agents are of the agent itself.
        let agent = if self.chance.per_mille(500) { by } else { self.somebody_but(by) };
        let (session, run) = (v4(self.chance.bits()), v4(self.chance.bits()));
        self.session.children.push(Child { by, agent, session, run, parent, depth });
        (self.session.children.len() - 1) as u8
    }

    fn result(&mut self, child: u8) {
        let ok = self.chance.per_mille(880);
        self.add(2 * MINUTE_MS, Beat::SpawnResult { child, ok });
    }

    fn task(&mut self) {
        let picked = self.chance.per_mille(150);
        if picked {
            self.add_task(SECOND_MS, TaskBeat::BacklogAdded);
            self.add_task(60 * MINUTE_MS, TaskBeat::BacklogPicked);
        }
        self.add_task(SECOND_MS, TaskBeat::Started { picked });
        if self.chance.per_mille(200) {
            self.plan();
        }
        let total = self.chance.between(2, 8) as u8;
        for done in 0..=total {
            self.add_task(4 * MINUTE_MS, TaskBeat::Updated { done, total });
            self.interlude(total - done);
        }
        match self.chance.below(1_000) {
            0..860 => self.add_task(MINUTE_MS, TaskBeat::Completed),
            860..940 => self.add_task(MINUTE_MS, TaskBeat::Cancelled),
            _ => self.zombie(),
        }
        if self.chance.per_mille(20) {
            self.add(SECOND_MS, Beat::System(SystemBeat::MilestoneSyncFailed));
        }
    }

    /// What comes between two steps of a task.
    fn interlude(&mut self, open: u8) {
        match self.chance.below(1_000) {
            0..120 => self.add_task(3 * MINUTE_MS, TaskBeat::Progress),
            120..190 => {
                for row in 1..=self.chance.between(1, 3) as u8 {
                    self.add_task(2 * SECOND_MS, TaskBeat::ContinuationSent { row });
                    self.add_task(2 * MINUTE_MS, TaskBeat::Progress);
                }
            }
            190..220 => {
                self.add_task(2 * SECOND_MS, TaskBeat::ContinuationSent { row: 1 });
                self.add_task(30 * SECOND_MS, TaskBeat::ContinuationBackoff { row: 1 });
            }
            220..250 => self.add_task(SECOND_MS, TaskBeat::SelfDriving { row: 1 }),
            250..270 if open > 0 => self.add_task(SECOND_MS, TaskBeat::StopGuard { open }),
            270..330 => self.blocked(),
            330..360 => self.question(),
            360..500 => {
                let owner = self.session.owner;
                let other = self.somebody_but(owner);
                let thread = self.thread(owner, other);
                self.ping_pong(thread);
            }
            500..520 => self.delegation(),
            520..540 => self.add(SECOND_MS, Beat::System(SystemBeat::PolicyDecided)),
            _ => {}
        }
    }

    fn plan(&mut self) {
        self.add_task(2 * MINUTE_MS, TaskBeat::PlanSubmitted);
        if self.chance.per_mille(250) {
            self.add_task(10 * MINUTE_MS, TaskBeat::PlanRejected);
            self.add_task(5 * MINUTE_MS, TaskBeat::PlanSubmitted);
        }
        self.add_task(10 * MINUTE_MS, TaskBeat::PlanApproved);
        if self.chance.per_mille(300) {
            self.add_task(SECOND_MS, TaskBeat::Approved);
        }
    }

    fn blocked(&mut self) {
        self.add_task(MINUTE_MS, TaskBeat::Blocked);
        let asked = self.chance.below(4) as u8;
        for count in 1..=asked {
            self.add_after(30 * MINUTE_MS, Beat::Task(TaskBeat::UnblockRequested { count }));
        }
        if asked == 3 {
            self.add_after(30 * MINUTE_MS, Beat::Task(TaskBeat::UnblockFailed));
        }
        self.add_task(20 * MINUTE_MS, TaskBeat::Resumed);
    }

    fn question(&mut self) {
        self.add_task(SECOND_MS, TaskBeat::HumanRequested);
        self.add_task(SECOND_MS, TaskBeat::Blocked);
        self.add_task(40 * MINUTE_MS, TaskBeat::HumanAnswered);
        self.add_task(20, TaskBeat::ResumedAfterHuman);
    }

    fn zombie(&mut self) {
        self.add_after(60 * MINUTE_MS, Beat::Task(TaskBeat::ZombieDetected));
        if self.chance.per_mille(500) {
            self.add_after(10 * MINUTE_MS, Beat::Task(TaskBeat::ZombieAbandoned));
            self.add_task(20, TaskBeat::Abandoned);
        } else {
            self.add_task(MINUTE_MS, TaskBeat::Completed);
        }
    }

    /// Days of work in one session: several hundred events.
    fn marathon(&mut self) {
        const LENGTHS: [usize; 4] = [220, 300, 420, 650];
        let enough = self.chance.pick(&LENGTHS);
        // Every child and thread has a number of eight bits.
        while self.session.script.len() < enough && self.session.children.len() < 200 {
            let pause = self.session.script.len();
            match self.chance.below(10) {
                0..3 => self.talk(),
                3..4 => self.fan_out(),
                4..5 => self.delegation(),
                _ => self.task(),
            }
            if let Some((wait, _)) = self.session.script.get_mut(pause) {
                *wait = wait.saturating_add(u32::try_from(self.chance.around(40 * MINUTE_MS)).unwrap_or(u32::MAX));
            }
        }
    }

    fn housekeeping(&mut self) {
        const KINDS: [SystemBeat; 3] =
            [SystemBeat::MilestoneSyncFailed, SystemBeat::PluginLoaded, SystemBeat::ConfigApplied];
        for _ in 0..self.chance.between(1, 2) {
            let kind = self.chance.pick(&KINDS);
            self.add(MINUTE_MS, Beat::System(kind));
        }
    }

    /// What the old system wrote, without jobs, deliveries and questions.
    fn legacy(&mut self) {
        let owner = self.session.owner;
        match self.chance.below(1_000) {
            0..600 => {
                let other = self.somebody_but(owner);
                let thread = self.thread(owner, other);
                self.add(10 * SECOND_MS, Beat::Send { thread, of_job: false });
                for turn in 0..=self.chance.below(4) as u8 {
                    self.add(60 * SECOND_MS, Beat::Response { thread, turn });
                }
                // The old system lost the end of a conversation with every restart.
                if self.chance.per_mille(850) {
                    let announced = self.chance.per_mille(500);
                    self.add(5 * SECOND_MS, Beat::Complete { thread, announced });
                }
            }
            600..750 => {
                let child = self.child(owner, None, 1);
                self.add(2 * SECOND_MS, Beat::Spawn { child });
                self.result(child);
            }
            750..950 => {
                self.add_task(SECOND_MS, TaskBeat::Started { picked: false });
                for _ in 0..self.chance.below(4) {
                    self.add_task(5 * MINUTE_MS, TaskBeat::Progress);
                }
                self.add_task(MINUTE_MS, TaskBeat::Completed);
            }
            _ => self.add(SECOND_MS, Beat::Forgotten),
        }
    }
}
