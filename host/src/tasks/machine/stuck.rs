//! Tasks that do not go on: somebody is asked to unblock one, or nobody works on it any more.

use chela_taskfile::{Blocked, Outcome, Status, one_line};
use serde_json::json;

use super::{Board, Decided, Refused, answer, one, refuse_if, short};
use crate::event::Kind;

/// Requests to whoever can unblock a task, before it is passed on.
const UNBLOCK_REQUESTS_MAX: u32 = 3;

/// How far the requests to unblock a task are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// Whoever can is asked, for the so manyth time.
    Request(u32),
    /// A person is to be asked.
    Escalate,
    /// Nothing has helped.
    Fail,
}

impl Unblock {
    /// What comes next for a blocked task.
    pub fn next(blocked: &Blocked) -> Self {
        match (blocked.requests >= UNBLOCK_REQUESTS_MAX, blocked.escalation.as_str()) {
            (false, _) => Self::Request(blocked.requests + 1),
            (true, "escalated" | "failed") => Self::Fail,
            (true, _) => Self::Escalate,
        }
    }
}

impl Board<'_> {
    pub(super) fn request_unblock(&self, id: &str, stage: Unblock) -> Result<Decided, Refused> {
        let mut task = self.named(id)?;
        refuse_if(&task, task.status != Status::Blocked, "only a blocked task can be unblocked")?;
        let mut blocked = task.blocked.clone().unwrap_or_default();
        // Counted once, however long it took to ask.
        refuse_if(&task, Unblock::next(&blocked) != stage, "this request to unblock it is counted already")?;
        let (kind, state) = match stage {
            Unblock::Request(_) => (Kind::UnblockRequested, "requested"),
            Unblock::Escalate => (Kind::UnblockRequested, "escalated"),
            Unblock::Fail => (Kind::UnblockFailed, "failed"),
        };
        blocked.requests += u32::from(matches!(stage, Unblock::Request(_)));
        blocked.escalation = state.into();
        let facts = json!({
            "requests": blocked.requests, "escalationState": state, "unblockedBy": blocked.unblocked_by,
            "reason": short(&blocked.reason),
        });
        task.blocked = Some(blocked);
        let answer = answer(&task, state);
        Ok(one(self.touched(task, kind, facts), answer))
    }

    pub(super) fn give_up(&self, id: &str, reason: &str, to_backlog: bool) -> Result<Decided, Refused> {
        let mut task = self.named(id)?;
        refuse_if(&task, task.status != Status::InProgress, "only a task in progress can be given up")?;
        let said = one_line(reason);
        task.progress.push(format!("Given up: {said}"));
        let facts = json!({ "reason": short(&said) });
        let kind = if to_backlog {
            task.status = Status::Backlog;
            Kind::TaskBacklogAdded
        } else {
            task.status = Status::Abandoned;
            task.outcome = Some(Outcome { kind: "abandoned".into(), summary: String::new(), reason: said });
            Kind::TaskAbandoned
        };
        let answer = answer(&task, "given up");
        let mut decided = one(self.touched(task, kind, facts), answer);
        self.fill_pending(&mut decided);
        Ok(decided)
    }
}
