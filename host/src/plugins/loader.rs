//! The one thread that changes what serves: it takes the configuration, dropped files and commands, one after the other.
//! Owns `plugins/`. Keeps true: every change is staged first; what it did is in the log, in `bindings.json` and in the answer.

mod load;
mod operator;
mod wanted;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::error::Error;
use super::generation::{Generation, Identity};
use super::inspect;
use super::records::{Bound, Record, Records, kept};
use super::room::{Room, bus_data};
use super::slots::{Slot, SlotName};
use super::source::{self, Source};
use super::stage::{Stage, Wanted};
use crate::config::{Binding, Config, OnFailure};
use crate::event::Kind;
use load::Why;

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

    fn note_rollback(&mut self, name: &SlotName, failed: Identity) {
        let serving = self.room.slot(name).and_then(|slot| slot.bound());
        let record = self.record_of(name);
        record.refuse(failed.hash);
        record.current = serving.map(|generation| bound_of(&generation));
        record.previous = None;
        self.save();
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
