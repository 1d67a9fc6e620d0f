//! Lines of tasks: their steps, continuations, plans, blockers and questions.

use std::fmt::Write;

use super::{MESSAGE_CHARS_MAX, PREVIEW_CHARS_MAX, Role, Writer, agent, belongs};
use crate::plan::session::{Session, TaskBeat, Title};
use crate::record::{Id, Record};

impl TaskBeat {
    pub fn kind(self) -> &'static str {
        match self {
            Self::Started { .. } => "task.started",
            Self::Updated { .. } | Self::Progress => "task.updated",
            Self::Blocked => "task.blocked",
            Self::Resumed => "task.resumed",
            Self::Completed => "task.completed",
            Self::Cancelled => "task.cancelled",
            Self::Abandoned => "task.abandoned",
            Self::Approved => "task.approved",
            Self::BacklogAdded => "task.backlog_added",
            Self::BacklogPicked => "task.backlog_picked",
            Self::ContinuationSent { .. } => "continuation.sent",
            Self::ContinuationBackoff { .. } => "continuation.backoff",
            Self::SelfDriving { .. } => "continuation.self_driving",
            Self::StopGuard { .. } => "continuation.stop_guard_blocked",
            Self::PlanSubmitted => "plan.submitted",
            Self::PlanApproved => "plan.approved",
            Self::PlanRejected => "plan.rejected",
            Self::UnblockRequested { .. } => "unblock.requested",
            Self::UnblockFailed => "unblock.failed",
            Self::HumanRequested => "human_query.requested",
            Self::HumanAnswered => "human_query.answered",
            Self::ResumedAfterHuman => "task.resumed_after_human_query",
            Self::ZombieDetected => "zombie.detected",
            Self::ZombieAbandoned => "zombie.abandoned",
        }
    }
}

impl Writer {
    pub(super) fn task(&mut self, line: &mut String, session: &mut Session, beat: TaskBeat, ts: u64) {
        let id = self.fresh(ts);
        if matches!(beat, TaskBeat::BacklogAdded | TaskBeat::Started { picked: false }) {
            // 0 means none.
            session.task = self.chance.word() | 1;
        }
        let owner = agent(session.owner);
        let first = session.said == 0;
        let chars_max = if matches!(beat, TaskBeat::Started { .. }) { MESSAGE_CHARS_MAX } else { PREVIEW_CHARS_MAX };
        if speaks(beat) {
            self.say(session, owner, chars_max);
        }
        let mut record = Record::open(line, Some(id), beat.kind(), owner.id, ts);
        belongs(&mut record, session, Role::Orchestration);
        if first && session.title == Title::Label && matches!(beat, TaskBeat::Started { .. }) {
            record.text("label", self.talk.title(session.topic));
        }
        self.detail(&mut record, session, beat);
        record.close();
    }

    fn detail(&mut self, record: &mut Record<'_>, session: &Session, beat: TaskBeat) {
        let said = &self.said;
        match beat {
            TaskBeat::Started { .. } | TaskBeat::BacklogAdded => {
                let priority = self.chance.pick(&["urgent", "high", "medium", "medium", "low"]);
                record.text("description", said).word("priority", priority);
            }
            TaskBeat::Updated { done, total } => {
                if done == 0 {
                    record.word("action", "set_steps");
                } else {
                    let _ = write!(record.word("action", "complete_step").key("stepId"), "\"s{done}\"");
                    record.text("progress", said);
                }
                steps(record, done, total);
            }
            TaskBeat::Progress => {
                record.text("progress", said);
            }
            TaskBeat::Blocked => {
                let kind = self.chance.pick(&["input", "dependency", "external", "error"]);
                record.text("blockedReason", said).word("kind", kind).json("unblockedBy", "[\"eden\"]");
            }
            TaskBeat::Resumed | TaskBeat::ResumedAfterHuman => {
                record.word("status", "in_progress");
            }
            TaskBeat::Completed => {
                record.word("status", "completed").text("summary", said);
            }
            TaskBeat::Cancelled => {
                record.word("status", "cancelled").text("reason", said);
            }
            TaskBeat::Abandoned => {
                record.word("status", "abandoned");
            }
            TaskBeat::Approved => {
                record.word("approvedBy", "operator");
            }
            TaskBeat::BacklogPicked => {
                record.word("status", "pending");
            }
            TaskBeat::ContinuationSent { row } | TaskBeat::SelfDriving { row } => {
                record.word("reason", "open_steps").number("consecutiveCount", u64::from(row));
            }
            TaskBeat::ContinuationBackoff { row } => {
                record.word("reason", "no_progress").number("backoffMs", 60_000 << row);
            }
            TaskBeat::StopGuard { open } => {
                record.word("blocked_by", "stop_guard").number("remainingSteps", u64::from(open));
            }
            TaskBeat::PlanSubmitted => {
                record.id("planId", Id::Short("plan_", session.task)).text("plan", said);
            }
            TaskBeat::PlanApproved => {
                record.id("planId", Id::Short("plan_", session.task)).word("approvedBy", "operator");
            }
            TaskBeat::PlanRejected => {
                record.id("planId", Id::Short("plan_", session.task)).text("reason", said);
            }
            TaskBeat::UnblockRequested { count } => {
                record.word("toAgent", "eden").number("unblockRequestCount", u64::from(count));
                record.word("escalationState", "requested");
            }
            TaskBeat::UnblockFailed => {
                record.word("escalationState", "failed").number("unblockRequestCount", 3);
            }
            TaskBeat::HumanRequested => {
                record.id("queryId", Id::Short("query_", session.task)).text("question", said);
            }
            TaskBeat::HumanAnswered => {
                record.id("queryId", Id::Short("query_", session.task)).text("answer", said);
            }
            TaskBeat::ZombieDetected | TaskBeat::ZombieAbandoned => {
                record.number("inactiveMs", 3_600_000);
            }
        }
    }
}

fn speaks(beat: TaskBeat) -> bool {
    match beat {
        TaskBeat::Started { .. }
        | TaskBeat::BacklogAdded
        | TaskBeat::Progress
        | TaskBeat::Blocked
        | TaskBeat::Completed
        | TaskBeat::Cancelled
        | TaskBeat::PlanSubmitted
        | TaskBeat::PlanRejected
        | TaskBeat::HumanRequested
        | TaskBeat::HumanAnswered => true,
        TaskBeat::Updated { done, .. } => done > 0,
        TaskBeat::Resumed
        | TaskBeat::Abandoned
        | TaskBeat::Approved
        | TaskBeat::BacklogPicked
        | TaskBeat::ContinuationSent { .. }
        | TaskBeat::ContinuationBackoff { .. }
        | TaskBeat::SelfDriving { .. }
        | TaskBeat::StopGuard { .. }
        | TaskBeat::PlanApproved
        | TaskBeat::UnblockRequested { .. }
        | TaskBeat::UnblockFailed
        | TaskBeat::ResumedAfterHuman
        | TaskBeat::ZombieDetected
        | TaskBeat::ZombieAbandoned => false,
    }
}

fn steps(record: &mut Record<'_>, done: u8, total: u8) {
    let running = u8::from(done < total);
    let pending = total - done - running;
    let _ = write!(
        record.key("stepsProgress"),
        "{{\"total\":{total},\"done\":{done},\"inProgress\":{running},\"pending\":{pending},\"skipped\":0}}"
    );
}
