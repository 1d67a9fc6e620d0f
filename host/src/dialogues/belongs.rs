//! Which tasks a run works for.

use std::sync::Arc;

use super::Handle;
use crate::id::AgentId;
use crate::session_key::SessionKey;
use crate::sessions::{Accepted, Part};
use crate::tasks::View;

/// A task that a run is about, and where its agent works on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub agent: AgentId,
    pub session: SessionKey,
    pub work_session: Option<String>,
}

impl Handle {
    /// The task that a run is about first, by its message.
    pub fn task_of(&self, agent: &AgentId, message: &Accepted) -> Option<Task> {
        let session = SessionKey::parse(&message.session).unwrap_or_else(|_| SessionKey::main(agent.clone()));
        let sender = message.origin.source_session_key.as_deref().and_then(|key| SessionKey::parse(key).ok());
        self.task_in(&session, message.part.as_ref(), sender.as_ref())
    }

    /// The task of the conversation that a run belongs to: of the agent that sent its message, else the one the conversation is for; else
    /// the task that the agent itself works on.
    pub fn task_in(&self, session: &SessionKey, part: Option<&Part>, sender: Option<&SessionKey>) -> Option<Task> {
        let tasks = &self.0.options.tasks;
        let agent = &session.agent;
        let told = |view: Arc<View>| {
            let of_sender = sender.filter(|sender| sender.agent == view.agent && !sender.is_subagent());
            let own = Some(session).filter(|session| session.agent == view.agent);
            let session = of_sender.or(own).cloned().unwrap_or_else(|| view.session_key());
            let work_session = view.task.work_session.clone();
            Task { id: view.id.clone(), agent: view.agent.clone(), session, work_session }
        };
        let named = part.and_then(|part| tasks.open(part.task_id.as_deref()?));
        let of_sender = || {
            let (part, sender) = (part?, sender.filter(|sender| sender.agent != *agent)?);
            let is_here = |view: &Arc<View>| view.task.work_session.as_deref() == Some(&*part.work_session_id);
            tasks.current(&sender.agent).filter(is_here)
        };
        let others = named.clone().filter(|view| view.agent != *agent);
        others.or_else(of_sender).or(named).or_else(|| tasks.current(agent)).map(told)
    }

    /// Every task that a run is about when it begins.
    pub fn about(&self, agent: &AgentId, message: &Accepted) -> Vec<String> {
        let tasks = &self.0.options.tasks;
        let part = message.part.as_ref();
        let named = part.and_then(|part| part.task_id.clone());
        let belongs = |view: &Arc<View>| match part {
            Some(part) => view.task.work_session.as_deref() == Some(&*part.work_session_id),
            None => true,
        };
        let own = tasks.current(agent).filter(belongs).map(|view| view.id.clone());
        let mut about: Vec<String> = self.task_of(agent, message).map(|task| task.id).into_iter().collect();
        for id in named.into_iter().chain(own) {
            if !about.contains(&id) {
                about.push(id);
            }
        }
        about
    }
}
