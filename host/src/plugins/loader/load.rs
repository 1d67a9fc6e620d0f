//! One load: staged, tried on recorded inputs, put in service, written down and told; or refused, with what served untouched.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::error::Error;
use super::super::generation::{Generation, Identity};
use super::super::record::Recorded;
use super::super::records::{Records, kept};
use super::super::shadow;
use super::super::slots::{Slot, Waiting};
use super::super::source::Source;
use super::super::stage::{Stage, Staged, Wanted, instances};
use super::{Loader, bound_of, digest};
use crate::event::Kind;

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
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Config,
    File,
    /// Back to what the configuration says.
    Unload,
    Operator {
        shadow_only: bool,
        accepted: bool,
    },
}

impl Loader {
    /// Stages a component, tries it on recorded inputs, and puts it in service.
    pub(super) fn load(&mut self, slot: &Arc<Slot>, wanted: &Wanted, why: Why) -> Result<Report, Error> {
        let loaded = self.try_load(slot, wanted, why);
        match &loaded {
            Ok(_) => drop(self.rejected.remove(&slot.name)),
            Err(Error::Grants { name, more, .. }) => {
                slot.set_waiting(Waiting { source: wanted.label.clone(), more_grants: more.clone() });
                self.waiting.insert(slot.name.clone(), wanted.clone());
                let facts = json!({ "plugin": name, "source": wanted.label, "moreGrants": more, "waits": true });
                self.tell(Kind::PluginDenied, slot, facts);
            }
            Err(error) => self.reject(slot, &wanted.label, error),
        }
        loaded
    }

    pub(super) fn reject(&self, slot: &Slot, label: &str, error: &Error) {
        tracing::warn!(slot = %slot.name, %error, "a plugin was refused");
        slot.refuse(error.to_string());
        let facts = json!({ "source": label, "stage": error.stage(), "reason": error.to_string() });
        self.tell(Kind::PluginRejected, slot, facts);
    }

    pub(super) fn try_load(&mut self, slot: &Arc<Slot>, wanted: &Wanted, why: Why) -> Result<Report, Error> {
        let since = Instant::now();
        let serving = slot.bound();
        if let (Some(serving), Ok((_, inspection))) = (&serving, Stage::look(wanted)) {
            let same = serving.identity.hash == inspection.hash
                && serving.config == Value::Object(wanted.config.clone()).to_string()
                && serving.limits == wanted.limits;
            if same && slot.component().is_ok() {
                return Ok(report(slot, "unchanged", serving, String::new(), None, shadow::Report::default(), since));
            }
        }
        let staged = self.stage.prepare(wanted, instances())?;
        self.room.record_lines(&staged.generation, &staged.lines);
        self.check_grants(slot, serving.as_deref(), &staged, why)?;
        let shadow = self.replay(slot, serving.as_deref(), &staged)?;
        if why == (Why::Operator { shadow_only: true, accepted: false }) {
            let replaced = serving.map(|old| old.identity.clone());
            staged.generation.retire();
            return Ok(report(slot, "shadow", &staged.generation, staged.summary, replaced, shadow, since));
        }
        if let Source::File(_) = wanted.source {
            Records::keep(&self.room.dir, &staged.inspection.hash, &staged.bytes)?;
        }
        let new = staged.generation.clone();
        let probation_from = (why != Why::Unload).then(|| self.room.clock.elapsed());
        let old = slot.swap(new.clone(), probation_from);
        self.waiting.remove(&slot.name);
        *slot.stats.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
        slot.settle();
        self.remember(slot, &new, old.as_deref(), why);
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

    /// An update of a plugin may not import more than its earlier version, unless the operator says so.
    pub(super) fn check_grants(
        &self,
        slot: &Slot,
        old: Option<&Generation>,
        staged: &Staged,
        why: Why,
    ) -> Result<(), Error> {
        let (Some(old), false) = (old, matches!(why, Why::Operator { accepted: true, .. })) else { return Ok(()) };
        let new = &staged.generation;
        let more: Vec<String> = new.grants.iter().filter(|grant| !old.grants.contains(grant)).cloned().collect();
        let same_plugin = old.identity.name == new.identity.name || why == Why::File;
        if more.is_empty() || !same_plugin {
            return Ok(());
        }
        Err(Error::Grants { name: new.identity.name.clone(), slot: slot.name.to_string(), more })
    }

    pub(super) fn replay(
        &self,
        slot: &Slot,
        old: Option<&Generation>,
        staged: &Staged,
    ) -> Result<shadow::Report, Error> {
        let inputs = self.room.recorder.latest(&slot.name.to_string(), shadow::INPUTS_MAX);
        let around = |recorded: &Recorded| self.room.surroundings_at(recorded.ts, &recorded.digest);
        shadow::replay(old, &staged.generation, &inputs, around).map_err(|broke| Error::Shadow {
            name: staged.generation.identity.name.clone(),
            export: broke.export,
            digest: broke.digest,
            said: broke.said,
        })
    }

    /// Writes down what serves and what served before.
    pub(super) fn remember(&mut self, slot: &Slot, new: &Generation, old: Option<&Generation>, why: Why) {
        let over = self.binding_of(&slot.name).as_ref().map(digest).unwrap_or_default();
        let record = self.record_of(&slot.name);
        record.disabled = false;
        record.over = over;
        record.previous = old.map(bound_of).or(record.previous.take());
        if !matches!(why, Why::Config | Why::Unload) {
            record.current = Some(bound_of(new));
        }
        self.save();
        self.drop_unneeded();
    }

    /// Keeps what serves and what waits as well: a release, a rollback or an acceptance needs it again.
    pub(super) fn drop_unneeded(&self) {
        let serving = self.room.slots().into_iter().filter_map(|slot| slot.bound());
        let serving = serving.map(|generation| kept(&self.room.dir, &generation.identity.hash));
        let waiting = self.waiting.values().filter_map(|wanted| match &wanted.source {
            Source::File(path) => Some(path.clone()),
            Source::Builtin(_) => None,
        });
        self.records.drop_unneeded(&self.room.dir, serving.chain(waiting));
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
