//! One load: staged, tried on recorded inputs, put in service, written down and told; or refused, with what served untouched.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::error::Error;
use super::super::generation::{Generation, Identity};
use super::super::record::Recorded;
use super::super::records::{Bound, Records};
use super::super::shadow;
use super::super::slots::{Slot, SlotName, Waiting};
use super::super::source::signature_of;
use super::super::stage::{Staged, instances};
use super::candidates::Candidate;
use super::{Loader, bound_of};
use crate::config::Switch;
use crate::event::Kind;
use crate::policy::Verdict;

/// What a load did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    slot: String,
    /// `serving`, `unchanged`, or `shadow` when nothing was to be changed.
    outcome: &'static str,
    pub(super) plugin: Identity,
    summary: String,
    replaced: Option<Identity>,
    grants: Vec<String>,
    shadow: shadow::Report,
    took_ms: u64,
}

/// Who wants a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The configuration, or a file that is bound.
    Binding,
    Operator,
    /// An operator, who has seen what it imports.
    Accepted,
    /// Back to what served before, or to what the configuration says: it has proven itself.
    Restore,
}

impl Loader {
    /// Stages a component, tries it on recorded inputs, and puts it in service.
    pub(super) fn load(&mut self, slot: &Arc<Slot>, candidate: &Candidate, why: Why) -> Result<Report, Error> {
        let loaded = self.try_load(slot, candidate, why);
        match &loaded {
            Ok(_) => drop(self.failed.remove(&slot.name)),
            Err(Error::Grants { name, more, .. }) => {
                let source = candidate.wanted.label.clone();
                let facts = json!({ "plugin": name, "source": source, "moreGrants": more, "waits": true });
                slot.set_waiting(Some(Waiting { source, more_grants: more.clone() }));
                self.waiting.insert(slot.name.clone(), candidate.clone());
                self.tell(Kind::PluginDenied, slot, facts);
            }
            Err(Error::Stopping) => {}
            Err(error) => self.reject(slot, &candidate.wanted.label, error),
        }
        loaded
    }

    pub(super) fn reject(&self, slot: &Slot, label: &str, error: &Error) {
        tracing::warn!(slot = %slot.name, %error, "a plugin was refused");
        slot.refuse(error.to_string());
        let facts = json!({ "source": label, "stage": error.stage(), "reason": error.to_string() });
        self.tell(Kind::PluginRejected, slot, facts);
    }

    /// What a load would change. Changes nothing itself.
    pub(super) fn shadow(&self, slot: &Slot, candidate: &Candidate) -> Result<Report, Error> {
        let since = Instant::now();
        let staged = self.stage.prepare(&candidate.wanted, 0)?;
        let serving = slot.bound();
        let shadow = self.replay(slot, serving.as_deref(), &staged)?;
        let replaced = serving.map(|old| old.identity.clone());
        Ok(report(slot, "shadow", &staged.generation, staged.summary, replaced, shadow, since))
    }

    /// What a component would answer to these inputs, beside what serves. Changes nothing.
    pub(super) fn compare(
        &self,
        slot: &Slot,
        candidate: &Candidate,
        export: &str,
        inputs: &[Value],
    ) -> Result<Vec<shadow::Pair>, Error> {
        let staged = self.stage.prepare(&candidate.wanted, 0)?;
        let now = self.room.clock.now();
        let around = |input: &Value| {
            let digest = blake3::hash(input.to_string().as_bytes()).to_hex();
            self.room.surroundings_at(now, &digest[..16])
        };
        shadow::pairs(slot.bound().as_deref(), &staged.generation, export, inputs, around).map_err(|broke| {
            let name = staged.generation.identity.name.clone();
            Error::Shadow { name, export: broke.export, digest: broke.digest, said: broke.said }
        })
    }

    pub(super) fn unchanged(&self, slot: &Slot) -> Result<Report, Error> {
        let serving = slot.bound().ok_or_else(|| Error::Unbound { slot: slot.name.to_string() })?;
        Ok(report(slot, "unchanged", &serving, String::new(), None, shadow::Report::default(), Instant::now()))
    }

    fn try_load(&mut self, slot: &Arc<Slot>, candidate: &Candidate, why: Why) -> Result<Report, Error> {
        let since = Instant::now();
        let is_channel = matches!(slot.name, SlotName::Channel(_));
        // Of an adapter there is one: it has a state.
        let staged = self.stage.prepare(&candidate.wanted, if is_channel { 1 } else { instances() })?;
        self.room.record_lines(&staged.generation, &staged.lines);
        self.check_grants(slot, &staged, why)?;
        let serving = slot.bound();
        // With nothing in service there is nothing to compare with, and refusing would leave nothing.
        let shadow = match (&serving, why) {
            (Some(serving), Why::Binding | Why::Operator | Why::Accepted) => {
                self.replay(slot, Some(serving), &staged)?
            }
            _ => shadow::Report::default(),
        };
        if candidate.wanted.material.builtin.is_none() {
            Records::keep(&self.room.dir, &candidate.wanted.material)?;
        }
        let new = staged.generation.clone();
        self.room.hand_over(&slot.name, &new, candidate.fresh)?;
        // What is replaced is the safety net, so it must be one.
        let on_probation = why != Why::Restore && !slot.is_quarantined();
        let old = slot.swap(new.clone(), on_probation.then(|| self.room.clock.elapsed()));
        // Who took over waits for this before it is called.
        self.room.channels_changed();
        *slot.stats.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
        slot.settle();
        if why != Why::Restore {
            self.forget_waiting(slot);
        }
        // What is only restored leaves a configuration that is not in use as it was: to be taken up.
        if why != Why::Restore {
            self.note_under(&slot.name);
        }
        let record = self.record_of(&slot.name);
        record.forgive(&candidate.key());
        record.disabled = false;
        record.current = candidate.overrides.then(|| bound_of(&new));
        record.served = Some(bound_of(&new));
        record.previous = old.as_deref().map(bound_of).or(record.previous.take());
        self.save();
        self.install(candidate)?;
        let replaced = old.map(|old| old.identity.clone());
        let kind = if replaced.is_some() { Kind::PluginSwapped } else { Kind::PluginLoaded };
        tracing::info!(slot = %slot.name, plugin = new.identity.name, version = new.identity.version, "a plugin serves");
        let (replayed, changed) = (shadow.replayed, shadow.changed);
        let facts = json!({
            "plugin": new.identity, "replaced": replaced, "grants": new.grants,
            "shadow": { "replayed": replayed, "changed": changed },
        });
        self.tell(kind, slot, facts);
        Ok(report(slot, "serving", &new, staged.summary, replaced, shadow, since))
    }

    /// From here on only another `config` of the channel is news. One without an entry has none so far.
    pub(super) fn note_under(&mut self, name: &SlotName) {
        let none = || super::digest(&json!({}));
        let under = self.under(name).unwrap_or_else(none);
        self.record_of(name).under = Some(under);
    }

    /// An update of a plugin may not import more than its earlier version, unless the operator says so.
    fn check_grants(&self, slot: &Slot, staged: &Staged, why: Why) -> Result<(), Error> {
        let record = self.records.slots.get(&slot.name.to_string());
        let serving = slot.bound().map(|serving| bound_of(&serving));
        let Some(old) = serving.or_else(|| record.and_then(|record| record.served.clone())) else { return Ok(()) };
        let new = &staged.generation;
        let more: Vec<String> = new.grants.iter().filter(|grant| !old.grants.contains(grant)).cloned().collect();
        let is_update = match why {
            Why::Binding => old.source == new.identity.source || old.name == new.identity.name,
            Why::Operator => old.name == new.identity.name,
            Why::Accepted | Why::Restore => false,
        };
        match is_update && !more.is_empty() {
            true => Err(Error::Grants { name: new.identity.name.clone(), slot: slot.name.to_string(), more }),
            false => Ok(()),
        }
    }

    fn replay(&self, slot: &Slot, old: Option<&Generation>, staged: &Staged) -> Result<shadow::Report, Error> {
        if self.config.decisions.record == Switch::Off {
            return Ok(shadow::Report::default());
        }
        let mut inputs = self.room.recorder.latest(&slot.name.to_string(), shadow::INPUTS_MAX);
        if inputs.is_empty() && old.is_none() {
            inputs = self.of_other_guards(slot);
        }
        let around = |recorded: &Recorded| self.room.surroundings_at(recorded.ts, &recorded.digest);
        shadow::replay(old, &staged.generation, &inputs, around).map_err(|broke| Error::Shadow {
            name: staged.generation.identity.name.clone(),
            export: broke.export,
            digest: broke.digest,
            said: broke.said,
        })
    }

    /// What other guards were asked, for one that is new: without it every call passes.
    fn of_other_guards(&self, slot: &Slot) -> Vec<Recorded> {
        let is_guard = |slot: &Slot| matches!(slot.name, SlotName::Guard(_));
        if !is_guard(slot) {
            return Vec::new();
        }
        let others = self.room.slots();
        let others = others.iter().filter(|other| is_guard(other) && other.name != slot.name);
        let recorded = others.map(|other| self.room.recorder.latest(&other.name.to_string(), shadow::INPUTS_MAX));
        let mut inputs = recorded.max_by_key(Vec::len).unwrap_or_default();
        inputs.iter_mut().for_each(|recorded| recorded.output = json!(Verdict::Allow));
        inputs
    }

    /// What waited is outdated by another load, or has been let in.
    pub(super) fn forget_waiting(&mut self, slot: &Slot) {
        self.waiting.remove(&slot.name);
        slot.set_waiting(None);
    }

    /// What must be written down for a version to stay: nothing if the configuration binds it anyway, whatever its file holds by now.
    pub(super) fn overriding(&self, name: &SlotName, version: Bound) -> Option<Bound> {
        let own = self.binding_of(name).is_some_and(|binding| {
            binding.source == version.source && (binding.config.is_empty() || binding.config == version.config)
                || self.is_dropped(name, &binding, &version)
        });
        (!own).then_some(version)
    }

    /// A component that was sent becomes a file of `plugins/`, so that people see it where they look.
    fn install(&self, candidate: &Candidate) -> Result<(), Error> {
        let Some(name) = &candidate.install_as else { return Ok(()) };
        let path = self.room.dir.plugins().join(name);
        let material = &candidate.wanted.material;
        // The signature first: the component is looked at as soon as it is there.
        let beside = signature_of(&path);
        let signed = match &material.signature {
            Some(signature) => chela_storage::replace(&beside, signature, chela_storage::Mode::Private),
            // That of an earlier version would be one of another file.
            None if beside.exists() => std::fs::remove_file(&beside),
            None => Ok(()),
        };
        signed.map_err(|cause| Error::Directory { path: beside, cause })?;
        chela_storage::replace(&path, &material.bytes, chela_storage::Mode::Private)
            .map_err(|cause| Error::Directory { path, cause })
    }
}

fn report(
    slot: &Slot,
    outcome: &'static str,
    generation: &Generation,
    summary: String,
    replaced: Option<Identity>,
    shadow: shadow::Report,
    since: Instant,
) -> Report {
    Report {
        slot: slot.name.to_string(),
        outcome,
        plugin: generation.identity.clone(),
        summary,
        replaced,
        grants: generation.grants.clone(),
        shadow,
        took_ms: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}
