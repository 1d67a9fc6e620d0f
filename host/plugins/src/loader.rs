//! The one thread that changes what serves: it takes the configuration, dropped files and commands, one after the other.
//! Owns `plugins/`. Keeps true: every change is staged first; what it did is in the log, in `bindings.json` and in the answer; a fault in
//! one change is an error of that change, never the end of the thread.

mod candidates;
mod dropped;
mod load;
mod operator;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::error::Error;
use super::generation::Generation;
use super::records::{Bound, Record, Records, version_key};
use super::room::{Room, bus_data};
use super::slots::{Slot, SlotName};
use super::stage::Stage;
use crate::config::{Binding, Config, OnFailure};
use crate::event::Kind;
use candidates::Candidate;

pub(super) enum Command {
    /// The configuration in force is another one.
    Apply(Box<Config>),
    FilesChanged,
    Do(Request, oneshot::Sender<Result<Value, Error>>),
    /// A call has rolled a slot back.
    RolledBack {
        slot: SlotName,
        failed: Arc<Generation>,
        to: u64,
    },
    Stop,
}

/// What an operator may ask for.
pub(super) enum Request {
    Load(Load),
    /// Only tell what it would answer.
    Compare {
        load: Load,
        export: &'static str,
        inputs: Vec<Value>,
    },
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
    /// A channel begins anew, without what the version before knew.
    pub fresh: bool,
}

#[derive(Clone, Debug)]
pub enum From {
    /// `builtin:NAME`, a file in `plugins/`, or an absolute path.
    Source(String),
    /// A file that was sent.
    Bytes { name: String, bytes: Bytes, signature: Option<Bytes> },
}

pub(super) struct Loader {
    room: Arc<Room>,
    stage: Stage,
    records: Records,
    config: Config,
    /// The binding of the configuration that each slot stands by, and what a channel without one is configured to.
    applied: BTreeMap<SlotName, (String, Option<String>)>,
    /// Updates that want more than the version they would replace.
    waiting: HashMap<SlotName, Candidate>,
    /// What last failed by itself, by slot, so that it is tried and told once.
    failed: HashMap<SlotName, String>,
}

impl Loader {
    pub(super) fn new(room: Arc<Room>, stage: Stage, config: Config) -> Self {
        let records = Records::load(&room.dir);
        let (applied, waiting, failed) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Self { room, stage, records, config, applied, waiting, failed }
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        self.reconcile();
        self.room.channels_changed();
        while let Ok(command) = commands.recv() {
            let stopping = self.room.is_stopping();
            match command {
                Command::Stop => break,
                // Also while it stops: the next start must not bring back what has failed.
                Command::RolledBack { slot, failed, to } => {
                    self.guarded(|loader| loader.note_rollback(&slot, &failed, to));
                }
                Command::Do(_, answer) if stopping => drop(answer.send(Err(Error::Stopping))),
                _ if stopping => {}
                Command::Apply(config) => {
                    let same = self.config.categories == config.categories;
                    self.config = *config;
                    self.reconcile();
                    if !same {
                        self.try_refused_again();
                    }
                }
                Command::FilesChanged => {
                    self.guarded(Self::look_for_guard);
                    for slot in self.room.slots() {
                        self.guarded(|loader| loader.look_again(&slot));
                    }
                }
                Command::Do(request, answer) => {
                    let done = self.guarded(|loader| loader.obey(request)).unwrap_or(Err(Error::Fault));
                    // The asker may have gone: what was done stands all the same.
                    let _ = answer.send(done);
                }
            }
            self.room.channels_changed();
        }
        self.room.slots().iter().for_each(|slot| drop(slot.empty()));
    }

    /// A fault of ours in one change must not end all later ones; the hook has told of it.
    fn guarded<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(|| change(self))).ok()
    }

    /// Brings the slots in line with the configuration and with what was bound over it.
    fn reconcile(&mut self) {
        for slot in self.lay_out() {
            self.guarded(|loader| loader.take_up_binding(&slot));
            slot.settle();
        }
        self.guarded(Self::look_for_guard);
        self.records.drop_unneeded(&self.room.dir);
    }

    /// Makes the slots, still empty. Published before anything is loaded: a call waits for its slot rather than pass it by.
    pub(super) fn lay_out(&mut self) -> Vec<Arc<Slot>> {
        let desired = desired(&self.config);
        let old = self.room.slots();
        let find = |name: &SlotName, on_failure: OnFailure| {
            let known = old.iter().find(|slot| slot.name == *name).cloned();
            known.unwrap_or_else(|| Arc::new(Slot::new(name.clone(), on_failure)))
        };
        let mut slots: Vec<Arc<Slot>> = Vec::new();
        for (name, _, on_failure) in &desired {
            let slot = find(name, *on_failure);
            slot.set_on_failure(*on_failure);
            slots.push(slot);
        }
        // What operators have added beyond the configuration.
        let added = self.records.slots.iter().filter(|(_, record)| record.over.is_empty() && record.current.is_some());
        for name in added.filter_map(|(name, _)| name.parse::<SlotName>().ok()) {
            if !slots.iter().any(|slot| slot.name == name) {
                slots.push(find(&name, OnFailure::Block));
            }
        }
        self.room.publish(slots.clone());
        for gone in old.iter().filter(|slot| !slots.iter().any(|kept| kept.name == slot.name)) {
            self.forget(gone);
        }
        slots
    }

    /// Loads what should serve a slot, unless the slot stands by the same binding already.
    fn take_up_binding(&mut self, slot: &Arc<Slot>) {
        let binding = self.binding_of(&slot.name);
        let digest = binding.as_ref().map(digest).unwrap_or_default();
        let applied = (digest.clone(), self.under(&slot.name));
        if self.applied.get(&slot.name) == Some(&applied) {
            return;
        }
        self.applied.insert(slot.name.clone(), applied);
        if self.failed.remove(&slot.name).is_some() {
            slot.forget_problem();
        }
        let record = self.records.slots.get(&slot.name.to_string()).filter(|record| record.over == digest);
        if record.is_some_and(|record| record.disabled) {
            slot.disable();
            return;
        }
        if binding.is_none() && record.is_none_or(|record| record.current.is_none()) {
            if let Some(old) = slot.empty() {
                self.tell(Kind::PluginUnloaded, slot, json!({ "plugin": old.identity }));
            }
            return;
        }
        // Each failure has been told where it happened.
        let _ = self.bring(slot);
    }

    /// What was refused may have named a category that is there now.
    fn try_refused_again(&mut self) {
        for slot in self.room.slots() {
            if self.failed.remove(&slot.name).is_some() {
                self.guarded(|loader| loader.look_again(&slot));
            }
        }
    }

    /// Looks whether the files that a slot depends on hold something new.
    fn look_again(&mut self, slot: &Arc<Slot>) {
        let disabled = self.records.slots.get(&slot.name.to_string()).is_some_and(|record| record.disabled);
        let bound = self.binding_of(&slot.name).is_some() || slot.bound().is_some();
        if bound && !disabled {
            let _ = self.bring(slot);
        }
    }

    /// Writes down that a call has rolled a slot back, unless much has happened to the slot since.
    fn note_rollback(&mut self, name: &SlotName, failed: &Generation, to: u64) {
        let Some(record) = self.records.slots.get_mut(&name.to_string()) else { return };
        record.refuse(version_key(&failed.identity.hash, &failed.config));
        let serving = self.room.slot(name).and_then(|slot| slot.bound()).filter(|serving| serving.id == to);
        if let Some(serving) = serving {
            let current = self.overriding(name, bound_of(&serving));
            let record = self.record_of(name);
            (record.current, record.served, record.previous) = (current, Some(bound_of(&serving)), None);
        }
        self.save();
    }

    fn forget(&mut self, slot: &Slot) {
        self.waiting.remove(&slot.name);
        self.applied.remove(&slot.name);
        self.failed.remove(&slot.name);
        let served = slot.empty().map(|generation| generation.identity.clone());
        self.records.slots.remove(&slot.name.to_string());
        self.save();
        self.tell(Kind::PluginUnloaded, slot, json!({ "plugin": served }));
    }

    fn save(&self) {
        if let Err(error) = self.records.save(&self.room.dir) {
            tracing::error!(%error, "what is bound will be forgotten by a restart");
        }
        self.records.drop_unneeded(&self.room.dir);
    }

    fn tell(&self, kind: Kind, slot: &Slot, facts: Value) {
        self.room.bus.tell(kind, bus_data(&slot.name.to_string(), facts));
    }

    fn slot(&self, name: &SlotName) -> Result<Arc<Slot>, Error> {
        self.room.slot(name).ok_or_else(|| Error::Unbound { slot: name.to_string() })
    }

    /// The slot's record, a new one if the configuration's binding has changed since it was written.
    fn record_of(&mut self, name: &SlotName) -> &mut Record {
        let over = self.binding_of(name).as_ref().map(digest).unwrap_or_default();
        let record = self.records.slots.entry(name.to_string()).or_default();
        if record.over != over {
            // What served before the change can still be gone back to.
            *record =
                Record { over, served: record.served.take(), previous: record.previous.take(), ..Record::default() };
        }
        record
    }

    fn binding_of(&self, name: &SlotName) -> Option<Binding> {
        desired(&self.config).into_iter().find(|(known, ..)| known == name).and_then(|(_, binding, _)| binding)
    }
}

/// What the configuration binds, in order.
pub(super) fn desired(config: &Config) -> Vec<(SlotName, Option<Binding>, OnFailure)> {
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
    for (name, channel) in &config.channels {
        desired.push((SlotName::Channel(name.clone()), channel.binding(), OnFailure::Block));
    }
    desired
}

pub(super) fn digest(what: &impl Serialize) -> String {
    let text = serde_json::to_vec(what).expect("it is plain JSON");
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
