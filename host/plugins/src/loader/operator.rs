//! What an operator may ask of the loader, and what becomes of it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::error::Error;
use super::super::records::version_key;
use super::super::slots::{Slot, SlotName};
use super::super::source::Material;
use super::super::stage::instances;
use super::candidates::Candidate;
use super::load::Why;
use super::{From, Load, Loader, Request, bound_of};
use crate::config::OnFailure;
use crate::event::Kind;

impl Loader {
    pub(super) fn obey(&mut self, request: Request) -> Result<Value, Error> {
        match request {
            Request::Load(load) => self.load_for_operator(load),
            Request::Compare { load, export, inputs } => {
                let (slot, candidate) = self.candidate_of(load)?;
                self.compare(&slot, &candidate, export, &inputs).map(|pairs| json!(pairs))
            }
            Request::Unload(name) => self.unload(&name),
            Request::Disable(name) => self.disable(&name),
            Request::Enable(name) => self.enable(&name),
            Request::Accept(name) => self.accept(&name),
            Request::Rollback(name) => self.roll_back(&name),
            Request::Release(name) => self.release(&name),
        }
    }

    /// The slot that a load is for, which may not be there yet, and what is to be put into it.
    fn candidate_of(&mut self, load: Load) -> Result<(Arc<Slot>, Candidate), Error> {
        let existing = self.room.slot(&load.slot);
        let slot = existing.unwrap_or_else(|| Arc::new(Slot::new(load.slot.clone(), OnFailure::Block)));
        let (material, label, install_as) = match load.from {
            From::Source(text) => {
                let material = self.read(&text);
                if let (Err(error), false) = (&material, load.shadow_only) {
                    self.reject(&slot, &text, error);
                }
                (material?, text, None)
            }
            From::Bytes { name, bytes, signature } => (Material::of_bytes(bytes, signature), name.clone(), Some(name)),
        };
        let (config, config_of) = match load.config {
            Some(config) => (config, None),
            None => self.config_in_use(&slot),
        };
        let mut wanted = self.wanted(&slot, label, material, config);
        wanted.config_of = config_of;
        Ok((slot, Candidate { wanted, overrides: true, install_as, fresh: load.fresh }))
    }

    fn load_for_operator(&mut self, load: Load) -> Result<Value, Error> {
        let (is_new, shadow_only) = (self.room.slot(&load.slot).is_none(), load.shadow_only);
        let (slot, candidate) = self.candidate_of(load)?;
        if shadow_only {
            return self.shadow(&slot, &candidate).map(|report| json!(report));
        }
        if self.is_serving(&slot, &candidate) {
            return self.unchanged(&slot).map(|report| json!(report));
        }
        let report = self.load(&slot, &candidate, Why::Operator)?;
        if is_new {
            let mut slots = self.room.slots();
            slots.push(slot);
            self.room.publish(slots);
        }
        Ok(json!(report))
    }

    fn unload(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        if self.record_of(name).current.is_none() {
            return Err(Error::FromConfig { slot: name.to_string() });
        }
        match self.binding_of(name) {
            Some(binding) => {
                let candidate = self.of_binding(&slot, &binding)?;
                let report = self.load(&slot, &candidate, Why::Restore)?;
                self.forget_waiting(&slot);
                Ok(json!(report))
            }
            None => {
                let mut slots = self.room.slots();
                slots.retain(|kept| kept.name != *name);
                self.room.publish(slots);
                self.forget(&slot);
                Ok(json!({ "slot": name.to_string(), "outcome": "unloaded" }))
            }
        }
    }

    fn disable(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        self.record_of(name).disabled = true;
        self.save();
        self.waiting.remove(name);
        let plugin = slot.disable().map(|generation| generation.identity.clone());
        self.tell(Kind::PluginUnloaded, &slot, json!({ "plugin": plugin, "reason": "disabled" }));
        Ok(json!({ "slot": name.to_string(), "outcome": "disabled", "plugin": plugin }))
    }

    fn enable(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        if slot.component().is_err() {
            self.failed.remove(name);
            self.bring(&slot)?;
        }
        Ok(json!(slot.view()))
    }

    fn accept(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        // The very bytes that were looked at, whatever a file holds by now.
        let mut candidate =
            self.waiting.get(name).cloned().ok_or_else(|| Error::NothingWaits { slot: name.to_string() })?;
        if let Some(config) = self.configured_anew(name).filter(|_| candidate.wanted.config_of.is_some()) {
            (candidate.wanted.config, candidate.wanted.config_of) = (config, None);
        }
        Ok(json!(self.load(&slot, &candidate, Why::Accepted)?))
    }

    fn roll_back(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        let previous = self.record_of(name).previous.clone();
        let previous = previous.ok_or_else(|| Error::NothingBefore { slot: name.to_string() })?;
        let candidate = self.of_kept(&slot, &previous)?;
        let failed = slot.bound();
        let report = self.load(&slot, &candidate, Why::Restore)?;
        if let Some(failed) = failed {
            self.record_of(name).refuse(version_key(&failed.identity.hash, &failed.config));
            let facts = json!({ "plugin": report.plugin, "from": failed.identity, "reason": "asked for" });
            self.tell(Kind::PluginRolledBack, &slot, facts);
        }
        let current = self.overriding(name, previous);
        self.record_of(name).current = current;
        self.note_under(name);
        self.save();
        Ok(json!(report))
    }

    fn release(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        if !slot.is_quarantined() {
            return Err(Error::NotQuarantined { slot: name.to_string() });
        }
        // Instances that were lost meanwhile are made again, with all that a load checks; only then is it released.
        if let Some(serving) = slot.bound() {
            let mut candidate = self.of_kept(&slot, &bound_of(&serving))?;
            candidate.wanted.limits = serving.limits.allowed;
            let staged = self.stage.prepare(&candidate.wanted, instances())?;
            slot.swap(staged.generation, None);
        }
        self.tell(Kind::PluginReleased, &slot, json!({}));
        Ok(json!(slot.view()))
    }
}
