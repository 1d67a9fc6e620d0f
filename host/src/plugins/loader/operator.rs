//! What an operator may ask of the loader, and what becomes of it.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::error::Error;
use super::super::inspect;
use super::super::records::{Record, Records, kept};
use super::super::slots::{Slot, SlotName};
use super::super::source::Source;
use super::super::stage::{Wanted, instances};
use super::load::Why;
use super::{From, Load, Loader, Request, bound_of, digest};
use crate::config::OnFailure;
use crate::event::Kind;

impl Loader {
    pub(super) fn obey(&mut self, request: Request) -> Result<Value, Error> {
        match request {
            Request::Load(load) => self.load_for_operator(load),
            Request::Unload(name) => self.unload(&name),
            Request::Disable(name) => self.disable(&name),
            Request::Enable(name) => self.enable(&name),
            Request::Accept(name) => self.accept(&name),
            Request::Rollback(name) => self.roll_back(&name),
            Request::Release(name) => self.release(&name),
        }
    }

    pub(super) fn load_for_operator(&mut self, load: Load) -> Result<Value, Error> {
        let existing = self.room.slot(&load.slot);
        let slot = existing.clone().unwrap_or_else(|| Arc::new(Slot::new(load.slot.clone(), OnFailure::Block)));
        let (source, label, sent) = match load.from {
            From::Source(text) => (Source::parse(&text, &self.room.dir.plugins()), text, None),
            From::Bytes { name, bytes } => {
                let hash = inspect::hash(&bytes);
                Records::keep(&self.room.dir, &hash, &bytes)?;
                (Source::File(kept(&self.room.dir, &hash)), name.clone(), Some((name, bytes)))
            }
        };
        let mut wanted = Wanted {
            slot: slot.name.to_string(),
            world: Some(slot.name.world()),
            source,
            label,
            sha256: None,
            config: load.config.clone().unwrap_or_default(),
            limits: self.limits_of(&slot.name),
            file_bytes: self.config.plugins.file_bytes,
        };
        if load.config.is_none() {
            wanted.config = self.config_in_use(&slot, &wanted);
        }
        let why = Why::Operator { shadow_only: load.shadow_only, accepted: false };
        let loaded = self.load(&slot, &wanted, why);
        let served = loaded.is_ok() && !load.shadow_only;
        if let (true, Some((name, bytes))) = (served, sent) {
            let path = self.room.dir.plugins().join(name);
            chela_storage::replace(&path, &bytes, chela_storage::Mode::Private)
                .map_err(|cause| Error::Directory { path, cause })?;
        }
        if served && existing.is_none() {
            let mut slots = self.room.slots();
            slot.settle();
            slots.push(slot.clone());
            self.room.publish(slots);
        }
        self.drop_unneeded();
        loaded.map(|report| json!(report))
    }

    /// The configuration that serves, if it is the same plugin's.
    pub(super) fn config_in_use(&self, slot: &Slot, wanted: &Wanted) -> Map<String, Value> {
        let Some(serving) = slot.bound() else { return Map::new() };
        let described = self.stage.prepare(wanted, 0).map(|staged| staged.generation.identity.name.clone());
        match described {
            Ok(name) if name == serving.identity.name => bound_of(&serving).config,
            _ => Map::new(),
        }
    }

    pub(super) fn unload(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        let key = name.to_string();
        let record = self.records.slots.get(&key).cloned().unwrap_or_default();
        if record.current.is_none() {
            return Err(Error::FromConfig { slot: key });
        }
        match self.binding_of(name) {
            Some(binding) => {
                let wanted = self.wanted(&slot, &binding)?;
                let report = self.load(&slot, &wanted, Why::Unload)?;
                self.records.slots.insert(key, Record { over: digest(&binding), ..Record::default() });
                self.save();
                Ok(json!(report))
            }
            None => {
                let mut slots = self.room.slots();
                slots.retain(|kept| kept.name != *name);
                self.room.publish(slots);
                self.forget(&slot);
                Ok(json!({ "slot": key, "outcome": "unloaded" }))
            }
        }
    }

    pub(super) fn disable(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        let served = slot.disable();
        self.waiting.remove(name);
        self.record_of(name).disabled = true;
        self.save();
        let plugin = served.map(|generation| generation.identity.clone());
        self.tell(Kind::PluginUnloaded, &slot, json!({ "plugin": plugin, "reason": "disabled" }));
        Ok(json!({ "slot": name.to_string(), "outcome": "disabled", "plugin": plugin }))
    }

    pub(super) fn enable(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        if slot.component().is_ok() {
            return Ok(json!(slot.view()));
        }
        self.record_of(name).disabled = false;
        let bound = self.record_of(name).current.clone();
        let _ = slot.empty();
        match (bound, self.binding_of(name)) {
            (Some(bound), _) => self.load_recorded(&slot, &bound)?,
            (None, Some(binding)) => {
                let wanted = self.wanted(&slot, &binding)?;
                self.load(&slot, &wanted, Why::Config)?;
            }
            (None, None) => return Err(Error::Unbound { slot: name.to_string() }),
        }
        self.save();
        Ok(json!(slot.view()))
    }

    pub(super) fn accept(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        let wanted = self.waiting.get(name).cloned().ok_or_else(|| Error::NothingWaits { slot: name.to_string() })?;
        let report = self.load(&slot, &wanted, Why::Operator { shadow_only: false, accepted: true })?;
        Ok(json!(report))
    }

    pub(super) fn roll_back(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        let previous = self.record_of(name).previous.clone();
        let previous = previous.ok_or_else(|| Error::NothingBefore { slot: name.to_string() })?;
        let source = match Source::parse(&previous.source, Path::new("")) {
            Source::Builtin(name) => Source::Builtin(name),
            Source::File(_) => Source::File(kept(&self.room.dir, &previous.hash)),
        };
        let failed = slot.bound().map(|generation| generation.identity.clone());
        let limits = self.limits_of(name);
        let wanted = self.wanted_of(&slot, &previous, source, limits);
        let report = self.load(&slot, &wanted, Why::Operator { shadow_only: false, accepted: true })?;
        if let Some(failed) = failed {
            self.record_of(name).refuse(failed.hash.clone());
            self.save();
            let facts = json!({ "plugin": report.plugin, "from": failed, "reason": "asked for" });
            self.tell(Kind::PluginRolledBack, &slot, facts);
        }
        Ok(json!(report))
    }

    pub(super) fn release(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        if !slot.is_quarantined() {
            return Err(Error::NotQuarantined { slot: name.to_string() });
        }
        // Instances that were lost meanwhile are made again, with all that a load checks; only then is it released.
        if let Some(serving) = slot.bound() {
            let bound = bound_of(&serving);
            let source = match Source::parse(&bound.source, Path::new("")) {
                Source::Builtin(name) => Source::Builtin(name),
                Source::File(_) => Source::File(kept(&self.room.dir, &bound.hash)),
            };
            let wanted = self.wanted_of(&slot, &bound, source, serving.limits);
            let staged = self.stage.prepare(&wanted, instances())?;
            slot.swap(staged.generation, None);
        }
        self.tell(Kind::PluginReleased, &slot, json!({}));
        Ok(json!(slot.view()))
    }
}
