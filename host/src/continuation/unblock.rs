//! Blocked tasks: whoever can help is asked, some times; then the orchestrator is told to ask a person.

use std::sync::Arc;

use chela_drive::Stage;

use super::Shared;
use crate::id::AgentId;
use crate::journal::Transaction;
use crate::policy::{Action, Blocker, Counters, Layer, NextInput};
use crate::session_key::SessionKey;
use crate::sessions::Asked;
use crate::tasks::{self, Unblock, View};
use crate::tools;

/// Helpers of one task that are asked.
const HELPERS_MAX: usize = 8;
/// Of a task's words no more goes into a prompt of ours.
const WORDS_MAX: usize = 500;

impl Shared {
    pub(super) async fn unblock(self: Arc<Self>, agent: AgentId, task: String, stage: Stage) {
        let Some(view) = self.options.tasks.open_for(&agent, &task) else { return };
        let counted = match stage {
            Stage::Request(nth) => Unblock::Request(nth),
            Stage::Escalate => Unblock::Escalate,
            Stage::Fail => Unblock::Fail,
        };
        // An earlier one took so long that the next look came before it was counted.
        if Unblock::next(&view.task.blocked.clone().unwrap_or_default()) != counted {
            return;
        }
        let prompts = match stage {
            Stage::Request(nth) => self.requests(&agent, &view, nth).await,
            Stage::Escalate => self.escalation(&agent, &view).into_iter().collect(),
            Stage::Fail => Vec::new(),
        };
        if prompts.is_empty() && !matches!(stage, Stage::Fail) {
            tracing::info!(%agent, task, "nobody is asked to unblock a task");
            return;
        }
        // Counted after they are in their lanes: a crash in between asks again under the same keys, which is nothing new.
        if let Err(error) = self.options.sessions.accept_with(&prompts, Transaction::default()).await {
            tracing::warn!(task, error = &error as &dyn std::error::Error, "nobody could be asked to unblock a task");
            return;
        }
        match self.options.tasks.request_unblock(agent, task.clone(), counted).await {
            // Counted, now or by another; or somebody has moved the task meanwhile.
            Ok(()) | Err(tasks::Error::Refused(_)) => {}
            Err(error) => tracing::warn!(
                task,
                error = &error as &dyn std::error::Error,
                "a request to unblock a task is not counted"
            ),
        }
    }

    /// Who can help: those the task names, else who made it, else its orchestrator; never the agent itself.
    fn helpers(&self, agent: &AgentId, view: &View) -> Vec<AgentId> {
        let settings = self.options.settings.current();
        let config = &settings.config;
        let known =
            |name: &str| config.agents.list.iter().map(|known| &known.id).find(|id| id.as_ref() == name).cloned();
        let other = |id: &AgentId| id != agent;
        let blocked = view.task.blocked.as_ref();
        let named: Vec<AgentId> = blocked
            .into_iter()
            .flat_map(|blocked| &blocked.unblocked_by)
            .filter_map(|name| known(name))
            .filter(other)
            .collect();
        if !named.is_empty() {
            return named.into_iter().take(HELPERS_MAX).collect();
        }
        let creator = view.task.created_by.as_deref().and_then(known).filter(other);
        creator.or_else(|| self.orchestrator_of(agent)).into_iter().collect()
    }

    fn orchestrator_of(&self, agent: &AgentId) -> Option<AgentId> {
        let settings = self.options.settings.current();
        let known = settings.config.agents.list.iter().find(|known| known.id == *agent)?;
        settings.config.orchestrator_of(known).cloned()
    }

    fn may_be_prompted(&self, helper: &AgentId) -> bool {
        self.state().agents.get(helper).is_none_or(|known| !known.is_aborted())
    }

    async fn requests(&self, agent: &AgentId, view: &View, nth: u32) -> Vec<Asked> {
        let mut prompts = Vec::new();
        let blocked = view.task.blocked.clone().unwrap_or_default();
        for helper in self.helpers(agent, view) {
            // A person has stopped it: it is not woken for another's sake either.
            if !self.may_be_prompted(&helper) {
                continue;
            }
            let session = SessionKey::main(helper.clone());
            let input = NextInput {
                agent: self.actor(&helper, &session.to_string()),
                layer: Layer::Unblock,
                task: Some(tools::policy_task(view)),
                blocker: Some(Blocker {
                    kind: blocked.kind.clone(),
                    reason: blocked.reason.clone(),
                    action: blocked.action.clone(),
                    owner: agent.to_string(),
                }),
                counters: Counters { requests: nth, requests_max: self.rules().unblock_max, ..Counters::default() },
                ..NextInput::default()
            };
            let about = Self::about(&helper, view, "unblock");
            let (answered, _) = self.options.plugins.next(input, &about).await;
            // No answer of a component is the gateway's own plain prompt: whoever waits for help has waited long enough.
            if let Action::Send { prompt } = answered.answer {
                prompts.push(Self::prompt(format!("{}:{nth}:{helper}", key_of(view)), session, prompt));
            }
        }
        prompts
    }

    /// Tells the orchestrator, or the agent itself where there is none, that a person is needed.
    fn escalation(&self, agent: &AgentId, view: &View) -> Option<Asked> {
        let blocked = view.task.blocked.clone().unwrap_or_default();
        let orchestrator = self.orchestrator_of(agent);
        let session = orchestrator.clone().map_or_else(|| view.session_key(), SessionKey::main);
        if !self.may_be_prompted(&session.agent) {
            return None;
        }
        let short = |text: &str| -> String { text.chars().take(WORDS_MAX).collect() };
        let text = format!(
            "[SYSTEM REMINDER - ESCALATION]\n\nTask \"{}\" ({}) of agent \"{agent}\" is blocked ({}): {}\n\
             {} requests to those who could unblock it did not help. Ask a person: say what is needed and who waits for it.",
            short(&view.task.description),
            view.id,
            blocked.kind,
            short(&blocked.reason),
            blocked.requests,
        );
        Some(Self::prompt(format!("{}:person", key_of(view)), session, text))
    }
}

/// What the keys of a stage's prompts begin with: the same until the stage is counted, and another one when the task is blocked anew.
fn key_of(view: &View) -> String {
    let mark = blake3::hash(view.task.last_activity.as_bytes()).to_hex();
    format!("unblock:{}:{}", view.id, &mark[..8])
}
