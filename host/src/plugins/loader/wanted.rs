//! What is to be loaded into a slot: by the configuration, by the rule file beside it, or as it was bound before.

use serde_json::{Map, Value};

use super::super::error::Error;
use super::super::records::Bound;
use super::super::slots::{Slot, SlotName};
use super::super::source::{self, Source};
use super::super::stage::Wanted;
use super::{DEFAULT_CLASSIFIER, Loader, desired};
use crate::config::{self, Binding, PluginLimits};

impl Loader {
    pub(super) fn binding_of(&self, name: &SlotName) -> Option<Binding> {
        desired(&self.config).into_iter().find(|(known, ..)| known == name).and_then(|(_, binding, _)| binding)
    }

    /// What the file of a binding must be, if the configuration says so.
    pub(super) fn pin_of(&self, name: &SlotName, bound: &Bound) -> Option<String> {
        self.binding_of(name).filter(|binding| binding.source == bound.source).and_then(|binding| binding.sha256)
    }

    pub(super) fn limits_of(&self, name: &SlotName) -> PluginLimits {
        self.binding_of(name).map(|binding| binding.limits).unwrap_or_default()
    }

    /// What the configuration's binding asks for, with the rule file if there is one.
    pub(super) fn wanted(&self, slot: &Slot, binding: &Binding) -> Result<Wanted, Error> {
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

    pub(super) fn wanted_of(&self, slot: &Slot, bound: &Bound, source: Source, limits: PluginLimits) -> Wanted {
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
    pub(super) fn rules_file(&self) -> Result<Map<String, Value>, Error> {
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
