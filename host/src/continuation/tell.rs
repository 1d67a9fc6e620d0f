//! What is told of continuations: events for whoever watches, notes for whoever asks why.

use std::sync::Arc;

use chela_drive::{Counts, Input, Layer, Why};
use serde_json::{Map, Value, json};

use super::Shared;
use crate::bus::data;
use crate::event::{Event, Kind};
use crate::id::AgentId;
use crate::tasks::View;

impl Shared {
    fn emit(&self, event: Event) {
        if let Err(error) = self.options.bus.emit_event(event) {
            tracing::error!(error = &error as &dyn std::error::Error, "an event of a continuation was not written");
        }
    }

    /// What every event here says of its task.
    fn told(view: Option<&View>, task: &str, more: Value) -> Map<String, Value> {
        let mut facts = data(json!({
            "taskId": task,
            "workSessionId": view.and_then(|view| view.task.work_session.clone()),
            "remainingSteps": view.map(|view| view.task.open_steps().count()),
            "stepsProgress": view.and_then(|view| view.task.steps_progress()),
        }));
        facts.extend(data(more));
        facts.retain(|_, value| !value.is_null());
        facts
    }

    /// A prompt is in its lane. Told again after a crash, under the same id, until the log has it.
    pub(super) fn tell_sent(self: Arc<Self>, agent: &AgentId, task: String, layer: Layer, counts: &Counts) {
        self.options.metrics.continued(layer.as_str());
        let (now, record) = (self.options.clock.now(), format!("{agent}/{task}"));
        let rules = self.rules();
        let view = self.options.tasks.open_for(agent, &task);
        let more = json!({
            "layer": layer.as_str(), "consecutiveCount": counts.in_a_row, "maxConsecutive": rules.in_a_row_max,
            "withoutProgress": counts.without_progress, "count": counts.in_all, "tokens": counts.tokens,
            "runId": format!("continuation:{task}:{}", counts.sent),
        });
        let facts = Self::told(view.as_deref(), &task, more);
        let kind = match layer {
            Layer::SelfDriving => Kind::ContinuationSelfDriving,
            Layer::EventBased | Layer::Polling | Layer::Backlog | Layer::Zombie => Kind::ContinuationSent,
        };
        self.emit(Event::of(agent.as_ref(), kind, now, facts.clone()).caused_by("continuation", &record, counts.sent));
        if layer == Layer::Zombie {
            let event = Event::of(agent.as_ref(), Kind::ZombieDetected, now, facts);
            self.emit(event.caused_by("zombie", &record, counts.sent));
        }
        let (flushed, agent, sent) = (self.options.bus.flushed(), agent.clone(), counts.sent);
        let shared = self.clone();
        self.under_way.spawn(async move {
            if flushed.await.is_ok() {
                shared.give(&agent, Input::Told { task, sent });
            }
        });
    }

    pub(super) fn tell_backoff(&self, agent: &AgentId, task: &str, layer: Layer, ms: u64, reason: &str) {
        let view = self.options.tasks.open_for(agent, task);
        let until = self.options.clock.now().0.saturating_add(ms);
        let more = json!({ "layer": layer.as_str(), "backoffMs": ms, "until": until, "reason": reason });
        let facts = Self::told(view.as_deref(), task, more);
        self.emit(Event::of(agent.as_ref(), Kind::ContinuationBackoff, self.options.clock.now(), facts));
    }

    pub(super) fn tell_abandoned(&self, agent: &AgentId, task: &str, to_backlog: bool, idle_ms: u64) {
        let view = self.options.tasks.open_for(agent, task);
        let to = if to_backlog { "backlog" } else { "abandoned" };
        let facts = Self::told(view.as_deref(), task, json!({ "idleMs": idle_ms, "to": to }));
        self.emit(Event::of(agent.as_ref(), Kind::ZombieAbandoned, self.options.clock.now(), facts));
    }

    /// Why nothing happened, for `chela why`.
    pub(super) fn note(&self, agent: &AgentId, task: &str, layer: Layer, why: Why) {
        if let Some(view) = self.options.tasks.open_for(agent, task) {
            let about = Self::about(agent, &view, layer.as_str());
            self.options.plugins.note_next(agent.as_ref(), &json!({ "action": "skip" }), why.as_str(), &about);
        }
    }
}
