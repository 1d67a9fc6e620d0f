//! The one thread that changes what serves: it takes the configuration, dropped files and commands, one after the other.
//! Owns `plugins/`. Keeps true: every change is staged first; what it did is in the log, in `bindings.json` and in the answer.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::error::Error;
use super::generation::{Generation, Identity};
use super::inspect;
use super::records::{Bound, Record, Records, kept};
use super::shadow;
use super::slots::{Slot, SlotName, Waiting};
use super::source::{self, Source};
use super::stage::{Stage, Staged, Wanted, instances};
use super::{Room, bus_data};
use crate::config::{self, Binding, Config, OnFailure, PluginLimits};
use crate::event::Kind;

pub(super) enum Command {
    /// The configuration in force is another one.
    Apply(Box<Config>),
    FilesChanged,
    Do(Request, oneshot::Sender<Result<Value, Error>>),
    /// A call has rolled a slot back.
    RolledBack {
        slot: SlotName,
        failed: Identity,
    },
    Stop,
}

/// What an operator may ask for.
pub(super) enum Request {
    Load(Load),
    Unload(SlotName),
    Disable(SlotName),
    Enable(SlotName),
    Accept(SlotName),
    Rollback(SlotName),
    Release(SlotName),
}

/// A component to put into a slot.
#[derive(Clone, Debug)]
pub struct Load {
    pub slot: SlotName,
    pub from: From,
    /// Its configuration; else the one in use, if it is the same plugin.
    pub config: Option<Map<String, Value>>,
    /// Only tell what would change.
    pub shadow_only: bool,
}

#[derive(Clone, Debug)]
pub enum From {
    /// `builtin:NAME`, a file in `plugins/`, or an absolute path.
    Source(String),
    /// A file that was sent.
    Bytes { name: String, bytes: Vec<u8> },
}

/// What a load did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    slot: String,
    /// `serving`, `unchanged`, or `shadow` when nothing was to be changed.
    outcome: &'static str,
    plugin: Identity,
    summary: String,
    replaced: Option<Identity>,
    grants: Vec<String>,
    shadow: shadow::Report,
    took_ms: u64,
}

/// Who wants a load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Config,
    File,
    /// Back to what the configuration says.
    Unload,
    Operator {
        shadow_only: bool,
        accepted: bool,
    },
}

pub(super) struct Loader {
    room: Arc<Room>,
    stage: Stage,
    records: Records,
    config: Config,
    /// The binding of the configuration that was last taken up, by slot.
    applied: BTreeMap<SlotName, String>,
    waiting: HashMap<SlotName, Wanted>,
    /// What was last refused from a file, by slot, so that it is told once.
    rejected: HashMap<SlotName, String>,
}

impl Loader {
    pub(super) fn new(room: Arc<Room>, stage: Stage, config: Config) -> Self {
        let records = Records::load(&room.dir);
        Self {
            room,
            stage,
            records,
            config,
            applied: BTreeMap::new(),
            waiting: HashMap::new(),
            rejected: HashMap::new(),
        }
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        self.reconcile();
        self.drop_unneeded();
        for command in commands {
            match command {
                Command::Apply(config) => {
                    self.config = *config;
                    self.reconcile();
                }
                Command::FilesChanged => self.take_up_files(),
                Command::Do(request, answer) => {
                    // The asker may have gone: what was done stands all the same.
                    let _ = answer.send(self.obey(request));
                }
                Command::RolledBack { slot, failed } => self.note_rollback(&slot, failed),
                Command::Stop => break,
            }
        }
        self.room.slots().iter().for_each(|slot| drop(slot.empty()));
    }

    /// Brings the slots in line with the configuration and with what was bound over it.
    fn reconcile(&mut self) {
        let desired = desired(&self.config);
        let old = self.room.slots();
        let find = |name: &SlotName| old.iter().find(|slot| slot.name == *name).cloned();
        let own: Vec<SlotName> = self
            .records
            .slots
            .iter()
            .filter(|(_, record)| record.over.is_empty())
            .filter_map(|(name, _)| name.parse().ok())
            .collect();
        let mut slots: Vec<Arc<Slot>> = Vec::new();
        for (name, _, on_failure) in &desired {
            let slot = find(name).unwrap_or_else(|| Arc::new(Slot::new(name.clone(), *on_failure)));
            slot.set_on_failure(*on_failure);
            slots.push(slot);
        }
        for name in own {
            if !slots.iter().any(|slot| slot.name == name) {
                slots.push(find(&name).unwrap_or_else(|| Arc::new(Slot::new(name, OnFailure::Block))));
            }
        }
        // Published before anything is loaded: a call waits for its slot rather than miss it.
        self.room.publish(slots.clone());
        for gone in old.iter().filter(|slot| !slots.iter().any(|kept| kept.name == slot.name)) {
            self.forget(gone);
        }
        for (name, binding, _) in desired {
            let slot = slots.iter().find(|slot| slot.name == name).cloned();
            if let Some(slot) = slot {
                self.take_up_binding(&slot, binding.as_ref());
            }
        }
        for slot in &slots {
            if !self.applied.contains_key(&slot.name) {
                self.take_up_binding(slot, None);
            }
        }
        slots.iter().for_each(|slot| slot.settle());
    }

    fn take_up_binding(&mut self, slot: &Arc<Slot>, binding: Option<&Binding>) {
        let digest = binding.map(digest).unwrap_or_default();
        if self.applied.get(&slot.name) == Some(&digest) {
            return;
        }
        let known = self.records.slots.get(&slot.name.to_string()).filter(|record| record.over == digest).cloned();
        let recorded = known.as_ref().and_then(|record| record.current.clone());
        if known.as_ref().is_some_and(|record| record.disabled) {
            slot.disable();
            self.applied.insert(slot.name.clone(), digest);
            slot.settle();
            return;
        }
        let loaded = match (recorded, binding) {
            (Some(bound), _) => self.load_recorded(slot, &bound),
            (None, Some(binding)) => {
                let wanted = self.wanted(slot, binding);
                wanted.and_then(|wanted| self.load(slot, &wanted, Why::Config)).map(drop)
            }
            (None, None) => {
                if let Some(old) = slot.empty() {
                    self.tell(Kind::PluginUnloaded, slot, json!({ "plugin": old.identity }));
                }
                Ok(())
            }
        };
        // A binding that failed is tried again at the next change of the configuration or the next start.
        if let Err(error) = &loaded
            && slot.bound().is_none()
        {
            slot.refuse(error.to_string());
        }
        self.applied.insert(slot.name.clone(), digest.clone());
        if loaded.is_ok() && known.is_none() {
            // What was bound over another binding is void; what served before it can still be gone back to.
            let record = self.record_of(&slot.name);
            (record.over, record.current) = (digest, None);
            self.save();
        }
    }

    /// What served last, unless its file holds something new by now.
    fn load_recorded(&mut self, slot: &Arc<Slot>, bound: &Bound) -> Result<(), Error> {
        let limits = self.limits_of(&slot.name);
        let from_file = self.file_of(bound).filter(|(hash, _)| {
            let record = self.records.slots.get(&slot.name.to_string());
            *hash != bound.hash && !record.is_some_and(|record| record.refused.contains(hash))
        });
        if let Some((_, source)) = from_file {
            let mut wanted = self.wanted_of(slot, bound, source, limits);
            wanted.sha256 = self.pin_of(&slot.name, bound);
            if self.load(slot, &wanted, Why::File).is_ok() {
                return Ok(());
            }
        }
        let source = match Source::parse(&bound.source, Path::new("")) {
            Source::Builtin(name) => Source::Builtin(name),
            Source::File(_) => Source::File(kept(&self.room.dir, &bound.hash)),
        };
        let wanted = self.wanted_of(slot, bound, source, limits);
        self.load(slot, &wanted, Why::Config).map(drop)
    }

    /// The file that a binding names, with the hash of what is in it now.
    fn file_of(&self, bound: &Bound) -> Option<(String, Source)> {
        let source = Source::parse(&bound.source, &self.room.dir.plugins());
        let Source::File(path) = &source else { return None };
        let bytes = source::read_file(path, self.config.plugins.file_bytes).ok()?;
        Some((inspect::hash(&bytes), source))
    }

    fn take_up_files(&mut self) {
        for slot in self.room.slots() {
            let Some(serving) = slot.bound() else {
                self.try_again(&slot);
                continue;
            };
            let bound = bound_of(&serving);
            let record = self.records.slots.get(&slot.name.to_string()).cloned().unwrap_or_default();
            if let Some((hash, source)) = self.file_of(&bound)
                && hash != bound.hash
                && !record.refused.contains(&hash)
                && self.rejected.get(&slot.name) != Some(&hash)
            {
                let limits = self.limits_of(&slot.name);
                let mut wanted = self.wanted_of(&slot, &bound, source, limits);
                wanted.sha256 = self.pin_of(&slot.name, &bound);
                if self.load(&slot, &wanted, Why::File).is_err() {
                    self.rejected.insert(slot.name.clone(), hash);
                }
            }
            // What was refused has been put back to what serves.
            if self.rejected.contains_key(&slot.name)
                && self.file_of(&bound).is_some_and(|(hash, _)| hash == bound.hash)
            {
                self.rejected.remove(&slot.name);
                slot.forget_problem();
            }
            self.take_up_rules(&slot, &serving);
        }
    }

    /// A slot whose file could not be loaded, once the file is another one.
    fn try_again(&mut self, slot: &Arc<Slot>) {
        let record = self.records.slots.get(&slot.name.to_string()).cloned().unwrap_or_default();
        let Some(binding) = self.binding_of(&slot.name).filter(|_| !record.disabled) else { return };
        let path = match Source::parse(&binding.source, &self.room.dir.plugins()) {
            Source::File(path) => path,
            Source::Builtin(_) if slot.name == SlotName::Classifier => self.room.dir.rules(),
            Source::Builtin(_) => return,
        };
        if self.is_news(&slot.name, &path) {
            self.applied.remove(&slot.name);
            self.take_up_binding(slot, Some(&binding));
        }
    }

    /// Whether a file's content is another than the one that was last seen here without success.
    fn is_news(&mut self, name: &SlotName, path: &Path) -> bool {
        let content = source::read_file(path, self.config.plugins.file_bytes);
        let hash = content.map_or_else(|_| String::new(), |bytes| inspect::hash(&bytes));
        self.rejected.insert(name.clone(), hash.clone()).is_none_or(|before| before != hash)
    }

    /// A changed rule file of the default classifier.
    fn take_up_rules(&mut self, slot: &Arc<Slot>, serving: &Generation) {
        // The file is a part of the configuration's binding: what an operator has bound over that is not its concern.
        let overridden = self.records.slots.get(&slot.name.to_string()).is_some_and(|record| record.current.is_some());
        let ours = slot.name == SlotName::Classifier && serving.identity.source == DEFAULT_CLASSIFIER && !overridden;
        let Some(binding) = self.binding_of(&slot.name).filter(|binding| ours && binding.config.is_empty()) else {
            return;
        };
        if !self.is_news(&slot.name, &self.room.dir.rules()) {
            return;
        }
        let wanted = match self.wanted(slot, &binding) {
            Ok(wanted) => wanted,
            Err(error) => {
                self.reject(slot, DEFAULT_CLASSIFIER, &error);
                return;
            }
        };
        if Value::Object(wanted.config.clone()).to_string() != serving.config {
            // Told where every failure of a load is told.
            let _ = self.load(slot, &wanted, Why::Config);
        } else {
            slot.forget_problem();
        }
    }

    fn obey(&mut self, request: Request) -> Result<Value, Error> {
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

    fn load_for_operator(&mut self, load: Load) -> Result<Value, Error> {
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
    fn config_in_use(&self, slot: &Slot, wanted: &Wanted) -> Map<String, Value> {
        let Some(serving) = slot.bound() else { return Map::new() };
        let described = self.stage.prepare(wanted, 0).map(|staged| staged.generation.identity.name.clone());
        match described {
            Ok(name) if name == serving.identity.name => bound_of(&serving).config,
            _ => Map::new(),
        }
    }

    fn unload(&mut self, name: &SlotName) -> Result<Value, Error> {
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

    fn disable(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        let served = slot.disable();
        self.waiting.remove(name);
        self.record_of(name).disabled = true;
        self.save();
        let plugin = served.map(|generation| generation.identity.clone());
        self.tell(Kind::PluginUnloaded, &slot, json!({ "plugin": plugin, "reason": "disabled" }));
        Ok(json!({ "slot": name.to_string(), "outcome": "disabled", "plugin": plugin }))
    }

    fn enable(&mut self, name: &SlotName) -> Result<Value, Error> {
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

    fn accept(&mut self, name: &SlotName) -> Result<Value, Error> {
        let slot = self.slot(name)?;
        let wanted = self.waiting.get(name).cloned().ok_or_else(|| Error::NothingWaits { slot: name.to_string() })?;
        let report = self.load(&slot, &wanted, Why::Operator { shadow_only: false, accepted: true })?;
        Ok(json!(report))
    }

    fn roll_back(&mut self, name: &SlotName) -> Result<Value, Error> {
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

    fn release(&mut self, name: &SlotName) -> Result<Value, Error> {
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

    fn note_rollback(&mut self, name: &SlotName, failed: Identity) {
        let serving = self.room.slot(name).and_then(|slot| slot.bound());
        let record = self.record_of(name);
        record.refuse(failed.hash);
        record.current = serving.map(|generation| bound_of(&generation));
        record.previous = None;
        self.save();
    }

    /// Stages a component, tries it on recorded inputs, and puts it in service.
    fn load(&mut self, slot: &Arc<Slot>, wanted: &Wanted, why: Why) -> Result<Report, Error> {
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

    fn reject(&self, slot: &Slot, label: &str, error: &Error) {
        tracing::warn!(slot = %slot.name, %error, "a plugin was refused");
        slot.refuse(error.to_string());
        let facts = json!({ "source": label, "stage": error.stage(), "reason": error.to_string() });
        self.tell(Kind::PluginRejected, slot, facts);
    }

    fn try_load(&mut self, slot: &Arc<Slot>, wanted: &Wanted, why: Why) -> Result<Report, Error> {
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
    fn check_grants(&self, slot: &Slot, old: Option<&Generation>, staged: &Staged, why: Why) -> Result<(), Error> {
        let (Some(old), false) = (old, matches!(why, Why::Operator { accepted: true, .. })) else { return Ok(()) };
        let new = &staged.generation;
        let more: Vec<String> = new.grants.iter().filter(|grant| !old.grants.contains(grant)).cloned().collect();
        let same_plugin = old.identity.name == new.identity.name || why == Why::File;
        if more.is_empty() || !same_plugin {
            return Ok(());
        }
        Err(Error::Grants { name: new.identity.name.clone(), slot: slot.name.to_string(), more })
    }

    fn replay(&self, slot: &Slot, old: Option<&Generation>, staged: &Staged) -> Result<shadow::Report, Error> {
        let inputs = self.room.recorder.latest(&slot.name.to_string(), shadow::INPUTS_MAX);
        let around = |recorded: &super::Recorded| self.room.surroundings_at(recorded.ts, &recorded.digest);
        shadow::replay(old, &staged.generation, &inputs, around).map_err(|broke| Error::Shadow {
            name: staged.generation.identity.name.clone(),
            export: broke.export,
            digest: broke.digest,
            said: broke.said,
        })
    }

    /// Writes down what serves and what served before.
    fn remember(&mut self, slot: &Slot, new: &Generation, old: Option<&Generation>, why: Why) {
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
    fn drop_unneeded(&self) {
        let serving = self.room.slots().into_iter().filter_map(|slot| slot.bound());
        let serving = serving.map(|generation| kept(&self.room.dir, &generation.identity.hash));
        let waiting = self.waiting.values().filter_map(|wanted| match &wanted.source {
            Source::File(path) => Some(path.clone()),
            Source::Builtin(_) => None,
        });
        self.records.drop_unneeded(&self.room.dir, serving.chain(waiting));
    }

    fn forget(&mut self, slot: &Slot) {
        self.waiting.remove(&slot.name);
        let served = slot.empty().map(|generation| generation.identity.clone());
        self.applied.remove(&slot.name);
        self.records.slots.remove(&slot.name.to_string());
        self.save();
        self.tell(Kind::PluginUnloaded, slot, json!({ "plugin": served }));
    }

    fn save(&self) {
        if let Err(error) = self.records.save(&self.room.dir) {
            tracing::error!(%error, "what is bound will be forgotten by a restart");
        }
    }

    fn tell(&self, kind: Kind, slot: &Slot, facts: Value) {
        self.room.bus.tell(kind, bus_data(&slot.name.to_string(), facts));
    }

    fn slot(&self, name: &SlotName) -> Result<Arc<Slot>, Error> {
        self.room.slot(name).ok_or_else(|| Error::Unbound { slot: name.to_string() })
    }

    fn record_of(&mut self, name: &SlotName) -> &mut Record {
        let over = self.binding_of(name).as_ref().map(digest).unwrap_or_default();
        self.records.slots.entry(name.to_string()).or_insert_with(|| Record { over, ..Record::default() })
    }

    fn binding_of(&self, name: &SlotName) -> Option<Binding> {
        desired(&self.config).into_iter().find(|(known, ..)| known == name).and_then(|(_, binding, _)| binding)
    }

    /// What the file of a binding must be, if the configuration says so.
    fn pin_of(&self, name: &SlotName, bound: &Bound) -> Option<String> {
        self.binding_of(name).filter(|binding| binding.source == bound.source).and_then(|binding| binding.sha256)
    }

    fn limits_of(&self, name: &SlotName) -> PluginLimits {
        self.binding_of(name).map(|binding| binding.limits).unwrap_or_default()
    }

    /// What the configuration's binding asks for, with the rule file if there is one.
    fn wanted(&self, slot: &Slot, binding: &Binding) -> Result<Wanted, Error> {
        let mut config = binding.config.clone();
        if slot.name == SlotName::Classifier && binding.source == DEFAULT_CLASSIFIER && config.is_empty() {
            config = self.rules_file()?;
        }
        Ok(Wanted {
            slot: slot.name.to_string(),
            world: Some(slot.name.world()),
            source: Source::parse(&binding.source, &self.room.dir.plugins()),
            label: binding.source.clone(),
            sha256: binding.sha256.clone(),
            config,
            limits: binding.limits,
            file_bytes: self.config.plugins.file_bytes,
        })
    }

    fn wanted_of(&self, slot: &Slot, bound: &Bound, source: Source, limits: PluginLimits) -> Wanted {
        Wanted {
            slot: slot.name.to_string(),
            world: Some(slot.name.world()),
            source,
            label: bound.source.clone(),
            sha256: None,
            config: bound.config.clone(),
            limits,
            file_bytes: self.config.plugins.file_bytes,
        }
    }

    /// Rules for the default classifier; none when there is no such file.
    fn rules_file(&self) -> Result<Map<String, Value>, Error> {
        let path = self.room.dir.rules();
        if !path.exists() {
            return Ok(Map::new());
        }
        let bad = |said: String| Error::RulesFile { path: path.clone(), said };
        let bytes = source::read_file(&path, config::BYTES_MAX)?;
        let text = String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8 text".into()))?;
        match config::json5_value(&text).map_err(|problem| bad(problem.to_string()))? {
            Value::Object(map) => Ok(map),
            _ => Err(bad("it must be an object, as `{ rules: [ … ] }`".into())),
        }
    }
}

const DEFAULT_CLASSIFIER: &str = "builtin:rules";

/// What the configuration binds, in order.
fn desired(config: &Config) -> Vec<(SlotName, Option<Binding>, OnFailure)> {
    let plugins = &config.plugins;
    let mut desired = vec![(SlotName::Classifier, plugins.classifier.clone(), OnFailure::Builtin)];
    for guard in &plugins.guards {
        desired.push((SlotName::Guard(guard.name.clone()), Some(guard.binding()), guard.on_failure()));
    }
    desired.push((SlotName::Continuation(None), plugins.continuation.clone(), OnFailure::Builtin));
    for (agent, binding) in &plugins.continuations {
        let name = SlotName::Continuation(Some(agent.to_string()));
        desired.push((name, Some(binding.clone()), OnFailure::Builtin));
    }
    desired
}

fn digest(binding: &Binding) -> String {
    let text = serde_json::to_vec(binding).expect("a binding is plain JSON");
    blake3::hash(&text).to_hex()[..16].to_owned()
}

fn bound_of(generation: &Generation) -> Bound {
    Bound {
        source: generation.identity.source.clone(),
        hash: generation.identity.hash.clone(),
        name: generation.identity.name.clone(),
        version: generation.identity.version.clone(),
        config: serde_json::from_str(&generation.config).unwrap_or_default(),
        grants: generation.grants.clone(),
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
