//! What is decided is done: the policy is asked, prompts go into their lanes, tasks are blocked or given up.

use std::sync::Arc;

use chela_drive::{Answer, Ask, Input, Layer, Send, Stop};
use serde_json::json;

use super::{Shared, store};
use crate::id::AgentId;
use crate::journal::Transaction;
use crate::plugins::About;
use crate::policy::{self, Action, Actor, Counters, NextInput};
use crate::session_key::SessionKey;
use crate::sessions::{self, Asked, Origin, OriginKind};
use crate::tasks::{self, View};
use crate::tools;

/// By which prompts of this room are accepted.
pub(super) const METHOD: &str = "continuation";

impl Shared {
    pub(super) fn actor(&self, agent: &AgentId, session: &str) -> Actor {
        let settings = self.options.settings.current();
        let known = settings.config.agents.list.iter().find(|known| known.id == *agent);
        Actor {
            id: agent.to_string(),
            role: known.map_or("agent", |known| known.role.as_str()).into(),
            session_key: session.to_owned(),
        }
    }

    pub(super) fn about(agent: &AgentId, view: &View, layer: &'static str) -> About {
        About {
            task: Some(view.id.clone()),
            work_session: view.task.work_session.clone(),
            agent: Some(agent.to_string()),
            layer: Some(layer),
            ..About::default()
        }
    }

    pub(super) async fn ask(self: Arc<Self>, agent: AgentId, ask: Ask) {
        // Never closed while somebody asks.
        let Ok(_place) = self.asking.acquire().await else { return };
        let round = ask.round;
        let answer = match self.options.tasks.open_for(&agent, &ask.task) {
            Some(view) => self.answer(&agent, &view, ask).await,
            None => Answer::Skip("the task is over".into()),
        };
        self.look_for_questions(&agent);
        let look = self.look(&agent);
        self.give(&agent, Input::Answered { round, answer, look });
    }

    async fn answer(&self, agent: &AgentId, view: &View, ask: Ask) -> Answer {
        let rules = self.rules();
        let attrs = [
            ("in-all", u64::from(ask.counters.in_all)),
            ("in-all-max", rules.in_all_max.into()),
            ("today", ask.counters.today.into()),
            ("today-max", rules.per_day_max.into()),
            ("tokens", ask.counters.tokens),
            ("tokens-max", rules.tokens_max),
        ];
        let input = NextInput {
            agent: self.actor(agent, &ask.session),
            layer: layer_of(ask.layer),
            task: Some(tools::policy_task(view)),
            blocker: None,
            counters: Counters {
                in_a_row: ask.counters.in_a_row,
                in_a_row_max: ask.counters.in_a_row_max,
                without_progress: ask.counters.without_progress,
                ..Counters::default()
            },
            idle_ms: ask.idle_ms,
            last_error: ask.last_error,
            same_error: ask.same_error,
            earlier: ask.earlier,
            attrs: attrs.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect(),
        };
        let about = Self::about(agent, view, ask.layer.as_str());
        let (answered, failed) = self.options.plugins.next(input, &about).await;
        match (failed, answered.answer) {
            (None, Action::Send { prompt }) => Answer::Send(prompt),
            (None, Action::Skip { reason }) => Answer::Skip(reason),
            (None, Action::Backoff { ms }) => Answer::Backoff(ms),
            (Some(why), Action::Send { prompt }) => Answer::Failed { why, plain: Some(prompt) },
            (Some(why), Action::Skip { .. } | Action::Backoff { .. }) => Answer::Failed { why, plain: None },
        }
    }

    /// A message of the gateway to a session.
    pub(super) fn prompt(key: String, session: SessionKey, text: String) -> Asked {
        let origin = Origin { kind: OriginKind::InternalSystem, source_tool: Some(METHOD.into()), ..Origin::default() };
        Asked { origin, ..Asked::new(key, METHOD, session, text) }
    }

    pub(super) async fn send(self: Arc<Self>, agent: AgentId, send: Send) {
        let round = send.round;
        let input = match self.put_prompt(&agent, send).await {
            Ok(()) => Input::Sent { round },
            // It is sent, or not, as if the gateway had been killed; the next start looks.
            Err(Unsent::Sessions(sessions::Error::Stopping)) => return,
            Err(Unsent::Sessions(sessions::Error::Occupied { .. })) => {
                Input::Refused { round, busy: true, why: String::new() }
            }
            Err(unsent) => {
                let why = unsent.to_string();
                tracing::warn!(%agent, why, "an agent could not be told to go on");
                Input::Refused { round, busy: false, why }
            }
        };
        self.give(&agent, input);
    }

    /// The counters and the message in one transaction: a crash doubles nothing and forgets nothing.
    async fn put_prompt(&self, agent: &AgentId, send: Send) -> Result<(), Unsent> {
        if send.layer == Layer::Backlog {
            self.options.tasks.pick(agent.clone(), send.task.clone()).await?;
        }
        let session = SessionKey::parse(&send.session).unwrap_or_else(|_| SessionKey::main(agent.clone()));
        let asked = Asked { only_if_idle: true, ..Self::prompt(send.key, session, send.prompt) };
        let mut records = Transaction::default();
        store::put(&mut records, agent, &send.task, &send.counts).map_err(sessions::Error::from)?;
        self.options.sessions.accept_with(&[asked], records).await?;
        Ok(())
    }

    pub(super) async fn withdraw(self: Arc<Self>, session: &str, key: &str) {
        let Ok(session) = SessionKey::parse(session) else { return };
        if let Err(error) = self.options.sessions.abort(&session, Some(key)).await {
            tracing::warn!(run = key, error = &error as &dyn std::error::Error, "a prompt was not taken back");
        }
    }

    pub(super) async fn stop(self: Arc<Self>, agent: AgentId, task: String, stop: Stop, reason: String) {
        let view = self.options.tasks.open_for(&agent, &task);
        match self.options.tasks.block(agent.clone(), task.clone(), stop.as_str(), reason.clone()).await {
            Ok(()) => {
                self.options.metrics.continuation_blocked(stop.as_str());
                if let Some(view) = view {
                    let answer = json!({ "action": "block", "kind": stop.as_str() });
                    let about = About { layer: None, ..Self::about(&agent, &view, "") };
                    self.options.plugins.note_next(agent.as_ref(), &answer, &reason, &about);
                }
            }
            // Somebody was faster: it is out of progress, and that was wanted.
            Err(tasks::Error::Refused(_)) => {}
            Err(error) => {
                tracing::error!(
                    task,
                    error = &error as &dyn std::error::Error,
                    "a task that gets nowhere is not blocked yet"
                );
                return;
            }
        }
        self.give(&agent, Input::Stopped { task });
    }

    pub(super) async fn give_up(self: Arc<Self>, agent: AgentId, task: String, to_backlog: bool, idle_ms: u64) {
        let reason = format!("no activity for {} hours, and none after it was asked for", idle_ms / 3_600_000);
        self.tell_abandoned(&agent, &task, to_backlog, idle_ms);
        if let Err(error) = self.options.tasks.give_up(agent, task.clone(), reason, to_backlog).await {
            tracing::warn!(task, error = &error as &dyn std::error::Error, "a task that nobody works on stays");
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Unsent {
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    #[error(transparent)]
    Tasks(#[from] tasks::Error),
}

pub(super) fn layer_of(layer: Layer) -> policy::Layer {
    match layer {
        Layer::SelfDriving => policy::Layer::SelfDriving,
        Layer::EventBased => policy::Layer::EventBased,
        Layer::Polling => policy::Layer::Polling,
        Layer::Backlog => policy::Layer::Backlog,
        Layer::Zombie => policy::Layer::Zombie,
    }
}
