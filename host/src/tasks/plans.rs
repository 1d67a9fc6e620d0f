//! Plans that agents hand in before they work: `plans/plan_*.md`, submitted, then approved or rejected once.

use std::path::{Path, PathBuf};

use chela_storage::{Mode, create_new, make_private_dir, replace};
use chela_taskfile::{Document, one_line};
use serde_json::{Map, Value, json};

use super::milestones::fresh;
use super::{Error, Handle};
use crate::event::Kind;
use crate::id::AgentId;
use crate::results::Key;

const BODY_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("a plan needs a body that says what is to be done")]
    Empty,
    #[error("a plan has at most {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("there is no plan {0}; `chela task plan list` shows those there are")]
    Unknown(String),
    #[error("plan {id} is {status} already")]
    Decided { id: String, status: String },
}

/// What becomes of a plan.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    Approve,
    Reject { reason: String },
}

fn is_good_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.starts_with("plan_") && id.len() <= 128 && id.chars().all(plain)
}

fn text(id: &str, task: Option<&str>, now: &str, body: &str) -> String {
    let task = task.map(|task| format!("- **Task:** {task}\n")).unwrap_or_default();
    format!(
        "# Plan: {id}\n\n## Metadata\n\n{task}- **Status:** submitted\n- **Submitted:** {now}\n\n## Plan\n\n{}\n",
        body.trim()
    )
}

impl Handle {
    pub(super) fn submit_plan(
        &self,
        agent: &AgentId,
        task: Option<String>,
        body: &str,
        key: Option<&Key>,
    ) -> Result<Map<String, Value>, Error> {
        match body.trim() {
            "" => return Err(PlanError::Empty.into()),
            body if body.len() > BODY_BYTES_MAX => return Err(PlanError::TooLarge.into()),
            _ => {}
        }
        let known = self.agent(agent)?;
        let task = match task {
            Some(id) => Some(self.own_open(agent, &id)?.id.clone()),
            None => self.current(agent).map(|view| view.id.clone()),
        };
        let now = self.0.parts.clock.now();
        let plan = fresh("plan", now, key);
        let folder = known.folder.join("plans");
        make_private_dir(&folder).map_err(|cause| Error::file("make", &folder, cause))?;
        let path = folder.join(format!("{plan}.md"));
        let said = "it waits for plan_approve or plan_reject";
        // Handed in before a crash, by this very call.
        if key.is_some() && path.is_file() {
            return Ok(answer(&plan, "submitted", said));
        }
        let text = text(&plan, task.as_deref(), &now.to_string(), body);
        create_new(&path, text.as_bytes(), Mode::Private).map_err(|cause| Error::file("write", &path, cause))?;
        self.emit(agent.as_ref(), Kind::PlanSubmitted, self.plan_facts(&plan, task.as_deref(), json!({})));
        Ok(answer(&plan, "submitted", said))
    }

    pub(super) fn decide_plan(
        &self,
        plan: &str,
        verdict: Verdict,
        by: &AgentId,
        key: Option<&Key>,
    ) -> Result<Map<String, Value>, Error> {
        let unknown = || PlanError::Unknown(plan.chars().take(128).collect());
        if !is_good_id(plan) {
            return Err(unknown().into());
        }
        let _one_at_a_time = self.0.lists.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (agent, path) = self.place_of_plan(plan).ok_or_else(unknown)?;
        let text = read(&path)?;
        let mut document = Document::parse(&text);
        let status = document.label("Status").unwrap_or("submitted").to_owned();
        let (decision, kind, reason) = match verdict {
            Verdict::Approve => ("approved", Kind::PlanApproved, None),
            Verdict::Reject { reason } => ("rejected", Kind::PlanRejected, Some(one_line(&reason))),
        };
        let told = || answer(plan, decision, &format!("the plan of {agent} is {decision}"));
        if status != "submitted" {
            // The same word of the same agent, by a call that may have been made before a crash.
            let is_own = status == decision && document.label("Decided By") == Some(by.as_ref());
            return match key {
                Some(_) if is_own => Ok(told()),
                _ => Err(PlanError::Decided { id: plan.to_owned(), status }.into()),
            };
        }
        document.set_label("Status", decision);
        document.set_label("Decided By", by.as_ref());
        document.set_label("Decided", &self.0.parts.clock.now().to_string());
        if let Some(reason) = &reason {
            document.set_label("Reason", reason);
        }
        let task = document.label("Task").map(str::to_owned);
        replace(&path, document.to_string().as_bytes(), Mode::Private)
            .map_err(|cause| Error::file("write", &path, cause))?;
        self.emit(agent.as_ref(), kind, self.plan_facts(plan, task.as_deref(), json!({ "by": by, "reason": reason })));
        Ok(told())
    }

    /// Whose plan it is.
    pub(super) fn owner_of_plan(&self, plan: &str) -> Option<AgentId> {
        is_good_id(plan).then(|| self.place_of_plan(plan).map(|(agent, _)| agent)).flatten()
    }

    fn place_of_plan(&self, plan: &str) -> Option<(AgentId, PathBuf)> {
        let place = |(agent, known): (AgentId, std::sync::Arc<super::Agent>)| {
            let path = known.folder.join("plans").join(format!("{plan}.md"));
            path.is_file().then_some((agent, path))
        };
        self.agents().into_iter().find_map(place)
    }

    fn plan_facts(&self, plan: &str, task: Option<&str>, more: Value) -> Map<String, Value> {
        let session = task.and_then(|task| self.open(task)).and_then(|view| view.task.work_session.clone());
        let mut facts = crate::bus::data(json!({ "planId": plan, "taskId": task, "workSessionId": session }));
        facts.extend(crate::bus::data(more));
        facts.retain(|_, value| !value.is_null());
        facts
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|cause| Error::file("read", path, cause))
}

fn answer(plan: &str, status: &str, said: &str) -> Map<String, Value> {
    crate::bus::data(json!({ "success": true, "planId": plan, "status": status, "message": said }))
}
