//! Tasks that do not go on: somebody is asked to unblock one, or nobody works on it any more.

use chela_taskfile::{Outcome, Status, one_line};
use serde_json::json;

use super::{Board, Decided, Refused, answer, one, refuse_if, short};
use crate::event::Kind;

/// Requests to whoever can unblock a task, before it is passed on.
const UNBLOCK_REQUESTS_MAX: u32 = 3;

impl Board<'_> {
    pub(super) fn request_unblock(&self, id: &str) -> Result<Decided, Refused> {
        let mut task = self.named(id)?;
        refuse_if(&task, task.status != Status::Blocked, "only a blocked task can be unblocked")?;
        let mut blocked = task.blocked.take().unwrap_or_default();
        let last = blocked.requests >= UNBLOCK_REQUESTS_MAX;
        let (kind, state) = match (last, blocked.escalation.as_str()) {
            (false, _) => (Kind::UnblockRequested, "requested"),
            (true, "escalated" | "failed") => (Kind::UnblockFailed, "failed"),
            (true, _) => (Kind::UnblockRequested, "escalated"),
        };
        blocked.requests += u32::from(!last);
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
