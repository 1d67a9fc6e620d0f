//! What the threads of the room share: the slots, and every way to tell what happened in them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::About;
use super::adapters::Adapters;
use super::ask::{Asked, Lane};
use super::failure::Failure;
use super::generation::{Generation, Identity};
use super::instance::{Line, Surroundings};
use super::record::{Decision, Recorder};
use super::slots::{Slot, SlotName};
use super::threads::Threads;
use super::worlds::Call;
use crate::bus::{Bus, data};
use crate::clock::{Clock, Timestamp};
use crate::config::Switch;
use crate::event::Kind;
use crate::layout::StateDir;
use crate::metrics::{Metrics, PluginCall, Word};
use crate::settings;

/// Of answers that nobody is likely to ask about, every so many are told as events.
const SAMPLE: u64 = 64;
/// However many there are, not more often than this.
const SAMPLE_EVERY_MS: u64 = 100;

pub(super) struct Room {
    pub(super) dir: StateDir,
    pub(super) clock: Clock,
    pub(super) bus: Bus,
    pub(super) metrics: Metrics,
    pub(super) settings: settings::Handle,
    pub(super) slots: RwLock<Vec<Arc<Slot>>>,
    pub(super) threads: Threads,
    /// Beside them, for what is asked in bulk.
    pub(super) bulk: Threads,
    pub(super) recorder: Arc<Recorder>,
    pub(super) sampled: AtomicU64,
    pub(super) sampled_ms: AtomicU64,
    /// Set once nothing new is to be begun.
    pub(super) stopping: Arc<AtomicBool>,
    /// Where the adapters of channels run, and who is asked before one takes over from another.
    pub(super) adapters: Adapters,
}

impl Room {
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn slot(&self, name: &SlotName) -> Option<Arc<Slot>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.iter().find(|slot| slot.name == *name).cloned()
    }

    pub(super) fn publish(&self, slots: Vec<Arc<Slot>>) {
        *self.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
    }

    pub(super) fn surroundings(&self, digest: &str) -> Surroundings {
        self.surroundings_at(self.clock.now(), digest)
    }

    pub(super) fn surroundings_at(&self, now: Timestamp, digest: &str) -> Surroundings {
        let deployment = &self.settings.current().config.deployment;
        Surroundings {
            now_ms: now.0,
            // The same input has the same chance, when it is replayed too.
            seed: u64::from_str_radix(digest, 16).unwrap_or(0),
            deployment: deployment.name.clone(),
            locale: deployment.locale.as_str(),
        }
    }

    pub(super) fn record_lines(&self, generation: &Generation, lines: &[Line]) {
        if !lines.is_empty() {
            self.recorder.log(&generation.slot, &generation.identity, self.clock.now(), lines);
        }
    }

    pub(super) fn tell(&self, kind: Kind, slot: &Slot, facts: Value) {
        self.bus.tell(kind, bus_data(&slot.name.to_string(), facts));
    }

    pub(super) fn count(&self, slot: &Slot, outcome: &'static str) {
        let label = PluginCall { slot: slot.name.to_string(), outcome: Word(outcome) };
        self.metrics.plugin_calls.get_or_create(&label).inc();
    }

    pub(super) fn note_failure(&self, slot: &Slot, plugin: &Identity, export: &str, failure: &Failure) {
        slot.stats.lock().unwrap_or_else(PoisonError::into_inner).failed(failure);
        self.count(slot, failure.kind());
        let facts = json!({ "plugin": plugin, "export": export, "reason": failure.to_string() });
        match failure {
            Failure::Limit { limit, .. } => {
                let mut facts = data(facts);
                facts.insert("limit".into(), json!(limit));
                self.tell(Kind::PluginLimit, slot, Value::Object(facts));
            }
            Failure::Trapped { .. } => self.tell(Kind::PluginTrapped, slot, facts),
            // Told with the fallback that follows.
            Failure::Declined { .. } | Failure::Invalid { .. } | Failure::Busy { .. } | Failure::Stopping => {}
        }
    }

    pub(super) fn fell_back(&self, slot: &Slot, export: &str, why: &str, told: bool) {
        slot.stats.lock().unwrap_or_else(PoisonError::into_inner).fell_back();
        self.count(slot, "fallback");
        if !told {
            return;
        }
        if let Some(count) = slot.fell_back(self.clock.elapsed()) {
            self.tell(Kind::PluginFallback, slot, json!({ "export": export, "reason": why, "count": count }));
        }
    }

    /// Writes a decision down, and tells of it if somebody may ask about it.
    pub(super) fn decided<C: Call>(
        &self,
        slot: &Slot,
        by: &Arc<Generation>,
        asked: Asked,
        output: &C::Output,
        took: Duration,
        about: &About,
    ) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let settings = self.settings.current();
        let decisions = &settings.config.decisions;
        let notable = C::is_notable(output, about.is_named());
        let sampled = self.is_sampled();
        if notable || sampled {
            let facts = json!({
                "export": C::EXPORT, "plugin": by.identity, "digest": asked.digest, "answer": output, "micros": micros,
                "taskId": about.task, "jobId": about.job, "workSessionId": about.work_session, "agent": about.agent,
                "layer": about.layer,
            });
            let facts = bus_data(&slot.name.to_string(), facts);
            match notable {
                // In the log before anybody acts on it.
                true => self.bus.tell(Kind::PolicyDecided, facts),
                false => self.recorder.tell(facts),
            }
        }
        // A log read anew must not push what was asked lately out of the record.
        if decisions.record == Switch::On && (asked.lane == Lane::Now || sampled) {
            self.recorder.decision(Decision {
                ts: self.clock.now(),
                export: C::EXPORT,
                digest: asked.digest,
                by: by.clone(),
                micros,
                input: asked.input,
                output: serde_json::to_vec(output).expect("an answer is plain JSON"),
                megabytes: decisions.megabytes,
            });
        }
    }

    /// Tells what the host decided in place of a component, and why.
    pub(super) fn decided_itself(&self, slot: &SlotName, export: &str, answer: &Value, why: &str, about: &About) {
        let facts = json!({
            "export": export, "plugin": null, "answer": answer, "reason": why,
            "taskId": about.task, "jobId": about.job, "workSessionId": about.work_session, "agent": about.agent,
            "layer": about.layer,
        });
        self.bus.tell(Kind::PolicyDecided, bus_data(&slot.to_string(), facts));
    }

    /// Every so many of the answers that nobody is likely to ask about, and a few a second at most.
    pub(super) fn is_sampled(&self) -> bool {
        if !self.sampled.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLE) {
            return false;
        }
        let now = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.sampled_ms.load(Ordering::Relaxed);
        // Two threads at once tell two: that is no harm.
        let due = last == 0 || now >= last + SAMPLE_EVERY_MS;
        if due {
            self.sampled_ms.store(now.max(1), Ordering::Relaxed);
        }
        due
    }
}

/// Facts of an event about a slot.
pub(super) fn bus_data(slot: &str, facts: Value) -> Map<String, Value> {
    let mut map = data(json!({ "slot": slot }));
    // What a decision is not about is left out, not told as nothing.
    map.extend(data(facts).into_iter().filter(|(_, value)| !value.is_null()));
    map
}
