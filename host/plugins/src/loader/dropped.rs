//! Scripts and rules that people put into `plugins/`: `classifier.rhai`, `guard.rhai`, `continuation.rhai` and `rules.json5`.
//! Keeps true: such a file serves where the slot would hold a default, never over what somebody has chosen; a first script that is bad
//! changes nothing. A guard's script is a guard of its own, `guard:script`, beside the others: it takes nothing away from them.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::error::Error;
use super::super::records::Bound;
use super::super::slots::{Slot, SlotName};
use super::super::source;
use super::Loader;
use super::candidates::Candidate;
use super::load::Why;
use crate::config::{self, Binding, OnFailure};
use crate::policy::World;

const DEFAULT_CLASSIFIER: &str = "builtin:rules";
const DEFAULT_CONTINUATION: &str = "builtin:continuation";
pub(super) const SCRIPT: &str = "builtin:script";
/// The guard that `guard.rhai` is.
const GUARD: &str = "script";

impl Loader {
    /// The source and configuration of a binding, with the file that stands in for a default.
    pub(super) fn filled(&self, slot: &SlotName, binding: &Binding) -> Result<(String, Map<String, Value>), Error> {
        let as_it_is = || Ok((binding.source.clone(), binding.config.clone()));
        if !is_default(slot, binding) {
            return as_it_is();
        }
        if let Some(config) = self.script_of(slot.world())? {
            return Ok((SCRIPT.to_owned(), config));
        }
        match slot {
            SlotName::Classifier => Ok((binding.source.clone(), self.rules_file()?)),
            SlotName::Guard(_) | SlotName::Continuation(_) | SlotName::Channel(_) => as_it_is(),
        }
    }

    /// The default itself, for a start that finds a bad file and nothing that has served before.
    pub(super) fn plain_default(&self, slot: &Slot) -> Option<Candidate> {
        let binding = self.binding_of(&slot.name).filter(|binding| is_default(&slot.name, binding))?;
        let wanted = self.wanted(slot, binding.source.clone(), self.read(&binding.source).ok()?, Map::new());
        Some(Candidate { wanted, overrides: false, install_as: None, fresh: false })
    }

    /// Whether a version is what the file in `plugins/` made of this slot's default, at some time.
    pub(super) fn is_dropped(&self, name: &SlotName, binding: &Binding, version: &Bound) -> bool {
        is_default(name, binding) && is_script(version, name.world())
    }

    /// What was bound from a script's file, as the file is now; none when it was bound otherwise, or the file is gone.
    pub(super) fn of_dropped(&self, slot: &SlotName, bound: &Bound) -> Result<Option<Bound>, Error> {
        if *slot != SlotName::Guard(GUARD.into()) || !is_script(bound, World::Guard) {
            return Ok(None);
        }
        Ok(self.script_of(World::Guard)?.map(|config| Bound { config, ..bound.clone() }))
    }

    /// Makes a guard of `guard.rhai` when it comes, and ends that guard when it goes.
    pub(super) fn look_for_guard(&mut self) {
        let name = SlotName::Guard(GUARD.into());
        if self.binding_of(&name).is_some() {
            return;
        }
        let bound = self.records.slots.get(&name.to_string()).and_then(|record| record.current.clone());
        let is_ours = bound.is_none_or(|bound| is_script(&bound, World::Guard));
        match (self.room.dir.script(World::Guard.as_str()).exists(), self.room.slot(&name)) {
            (true, None) => self.add_guard(name),
            (false, Some(slot)) if is_ours => {
                let mut slots = self.room.slots();
                slots.retain(|kept| kept.name != name);
                self.room.publish(slots);
                self.forget(&slot);
            }
            // The same text is told again when it comes again.
            (false, None) => drop(self.failed.remove(&name)),
            (true | false, Some(_)) => {}
        }
    }

    /// The slot is published once the script serves: a bad one must not block every tool call.
    fn add_guard(&mut self, name: SlotName) {
        let slot = Arc::new(Slot::new(name.clone(), OnFailure::Block));
        let candidate = self.script_of(World::Guard).and_then(|config| {
            let wanted = self.wanted(&slot, SCRIPT.to_owned(), self.read(SCRIPT)?, config.unwrap_or_default());
            Ok(Candidate { wanted, overrides: true, install_as: None, fresh: false })
        });
        let key = candidate.as_ref().map_or_else(ToString::to_string, Candidate::key);
        if self.failed.get(&name) == Some(&key) {
            return;
        }
        let loaded = match candidate {
            Ok(candidate) => self.load(&slot, &candidate, Why::Binding).map(drop),
            Err(error) => {
                self.reject(&slot, SCRIPT, &error);
                Err(error)
            }
        };
        match loaded {
            Ok(()) => {
                let mut slots = self.room.slots();
                slots.push(slot);
                self.room.publish(slots);
            }
            // Told where it happened, once for each text.
            Err(_) => drop(self.failed.insert(name, key)),
        }
    }

    /// The configuration that makes `builtin:script` of the file for a world; none when there is no such file.
    fn script_of(&self, world: World) -> Result<Option<Map<String, Value>>, Error> {
        let path = self.room.dir.script(world.as_str());
        let Some(text) = read_text(&path)? else { return Ok(None) };
        let config = json!({ "script": text, "file": file_of(world), "world": world.as_str() });
        Ok(config.as_object().cloned())
    }

    /// Rules for the default classifier; none when there is no such file.
    fn rules_file(&self) -> Result<Map<String, Value>, Error> {
        let path = self.room.dir.rules();
        let Some(text) = read_text(&path)? else { return Ok(Map::new()) };
        let bad = |said: String| Error::DroppedFile { path: path.clone(), said };
        match config::json5_value(&text).map_err(|problem| bad(problem.to_string()))? {
            Value::Object(map) => Ok(map),
            _ => Err(bad("it must be an object, as `{ rules: [ … ] }`".into())),
        }
    }
}

/// Whether a slot holds what it holds when nobody has said anything about it.
fn is_default(slot: &SlotName, binding: &Binding) -> bool {
    let source = match slot {
        SlotName::Classifier => DEFAULT_CLASSIFIER,
        SlotName::Continuation(None) => DEFAULT_CONTINUATION,
        SlotName::Guard(_) | SlotName::Continuation(Some(_)) | SlotName::Channel(_) => return false,
    };
    binding.source == source && binding.config.is_empty() && binding.sha256.is_none()
}

fn is_script(bound: &Bound, world: World) -> bool {
    let file = bound.config.get("file").and_then(Value::as_str);
    bound.source == SCRIPT && file == Some(file_of(world).as_str())
}

/// What messages call the file; a script that was sent by hand is called otherwise.
fn file_of(world: World) -> String {
    format!("plugins/{}.rhai", world.as_str())
}

fn read_text(path: &Path) -> Result<Option<String>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = source::read_file(path, config::BYTES_MAX)?;
    let bad = |_| Error::DroppedFile { path: path.to_owned(), said: "it is not UTF-8 text".into() };
    String::from_utf8(bytes).map(Some).map_err(bad)
}
