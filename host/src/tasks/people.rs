//! Tasks that wait for a person: blocked when something is asked, resumed when it is answered. Both may be done again and then do nothing.

use chela_taskfile::{Blocked, Status, one_line};

use super::machine::Op;
use super::{Error, Handle, blocking};
use crate::id::AgentId;

/// The blocker of a task that waits for a person.
const INPUT: &str = "input";
const SHOWN_CHARS: usize = 300;

impl Handle {
    /// A task waits for the answer to a question; whether it was in progress until now.
    pub async fn wait_for_person(&self, agent: AgentId, task: String, question: &str, id: &str) -> Result<bool, Error> {
        if self.status_of(&agent, &task).is_none_or(|(status, _)| status != Status::InProgress) {
            return Ok(false);
        }
        let blocked = Blocked {
            reason: one_line(&question.chars().take(SHOWN_CHARS).collect::<String>()),
            kind: INPUT.into(),
            action: format!("answer question {id}"),
            escalation: "none".into(),
            ..Blocked::default()
        };
        self.moved(agent, Op::Block { task: Some(task), blocked }).await
    }

    /// A task that waited for a person goes on; whether it did wait.
    pub async fn go_on_answered(&self, agent: AgentId, task: String, answer: &str) -> Result<bool, Error> {
        let waits =
            |(status, kind): (Status, Option<String>)| status == Status::Blocked && kind.as_deref() == Some(INPUT);
        if !self.status_of(&agent, &task).is_some_and(waits) {
            return Ok(false);
        }
        let said = one_line(&answer.chars().take(SHOWN_CHARS).collect::<String>());
        self.moved(agent, Op::Resume { task: Some(task), progress: Some(format!("a person answered: {said}")) }).await
    }

    fn status_of(&self, agent: &AgentId, task: &str) -> Option<(Status, Option<String>)> {
        let views = self.of(agent).ok()?;
        let view = views.iter().find(|view| view.id == task)?;
        Some((view.task.status.clone(), view.task.blocked.as_ref().map(|blocked| blocked.kind.clone())))
    }

    async fn moved(&self, agent: AgentId, op: Op) -> Result<bool, Error> {
        let handle = self.clone();
        match blocking(move || handle.act(&agent, op).map(drop)).await {
            Ok(()) => Ok(true),
            // Somebody moved it meanwhile.
            Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
