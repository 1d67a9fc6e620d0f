//! What could serve a slot, best first: what its file holds now, else what it held when it last served well.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::error::Error;
use super::super::generation::Generation;
use super::super::records::{Bound, version_key};
use super::super::slots::{Slot, SlotName};
use super::super::source::{Material, Source};
use super::super::stage::Wanted;
use super::load::{Report, Why};
use super::{Loader, bound_of};
use crate::config::{Binding, PluginLimits};

/// One thing that could serve.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) wanted: Wanted,
    /// Bound over the configuration, not by it.
    pub(super) overrides: bool,
    /// The file of `plugins/` that it becomes once it serves.
    pub(super) install_as: Option<String>,
    /// A channel is not to go on from what the version before knew.
    pub(super) fresh: bool,
}

impl Candidate {
    /// Tells it from other versions of the slot.
    pub(super) fn key(&self) -> String {
        version_key(&self.wanted.material.hash, &self.wanted.config_text())
    }

    /// Tells one attempt to load it from another: what was refused for want of a signature is tried again when that comes.
    pub(super) fn attempt(&self) -> String {
        let signature = self.wanted.material.signature.as_deref().unwrap_or_default();
        format!("{}:{}", self.key(), &blake3::hash(signature).to_hex()[..16])
    }
}

impl Loader {
    /// Puts the best candidate of a slot in service; what serves already is left alone.
    pub(super) fn bring(&mut self, slot: &Arc<Slot>) -> Result<Report, Error> {
        let fresh = self.fresh(slot);
        let (fresh_key, attempt) = match &fresh {
            Ok(candidate) => (candidate.key(), candidate.attempt()),
            Err(error) => (error.to_string(), error.to_string()),
        };
        let record = self.records.slots.get(&slot.name.to_string());
        // Whoever changes the binding in the configuration speaks last, also of what was rolled back before.
        let refused = record
            .filter(|record| self.is_valid(&slot.name, &record.over))
            .is_some_and(|record| record.refused.contains(&fresh_key));
        let tried = self.failed.get(&slot.name) == Some(&attempt);
        let failure = match fresh {
            _ if tried => return self.unchanged(slot),
            _ if refused && slot.bound().is_some() => {
                if slot.problem().is_none() {
                    slot.refuse(Error::RolledBack { slot: slot.name.to_string() }.to_string());
                }
                return self.unchanged(slot);
            }
            Ok(candidate) if !refused => {
                if slot.bound().is_some_and(|bound| is_version(&bound, &candidate)) {
                    if self.failed.remove(&slot.name).is_some() {
                        slot.forget_problem();
                    }
                    return self.unchanged(slot);
                }
                match self.load(slot, &candidate, Why::Binding) {
                    Ok(report) => return Ok(report),
                    Err(error) => error,
                }
            }
            Ok(_) => {
                let error = Error::RolledBack { slot: slot.name.to_string() };
                slot.refuse(error.to_string());
                error
            }
            Err(error) => {
                self.reject(slot, &slot.name.to_string(), &error);
                error
            }
        };
        self.failed.insert(slot.name.clone(), attempt);
        match self.proven(slot).or_else(|| self.plain_default(slot)) {
            // Nothing serves, so what last served well does.
            Some(candidate) if slot.bound().is_none() => {
                let problem = slot.problem();
                let report = self.load(slot, &candidate, Why::Restore)?;
                slot.refuse(problem.unwrap_or_else(|| failure.to_string()));
                Ok(report)
            }
            _ => Err(failure),
        }
    }

    /// What the configuration, or who has bound something over it, asks for: the file as it is now.
    fn fresh(&self, slot: &Slot) -> Result<Candidate, Error> {
        let record = self.records.slots.get(&slot.name.to_string());
        let record = record.filter(|record| self.is_valid(&slot.name, &record.over));
        let overriding = record.and_then(|record| Some((record, record.current.as_ref()?)));
        let binding = self.binding_of(&slot.name);
        match (overriding, binding) {
            (Some((record, bound)), _) => {
                let found = self.of_bound(slot, bound)?;
                let anew = self.configured_anew(&slot.name);
                // A file that was rolled back does not come back because the configuration is another one.
                let hash = &found.wanted.material.hash;
                let was_refused = *hash != bound.hash && record.refused.iter().any(|version| version.starts_with(hash));
                let mut candidate = match was_refused && (anew.is_some() || !record.refused.contains(&found.key())) {
                    true => self.bound_as(slot, bound, self.read_kept(bound)?),
                    false => found,
                };
                if let Some(config) = anew {
                    candidate.wanted.config = config;
                }
                Ok(candidate)
            }
            (None, Some(binding)) => self.of_binding(slot, &binding),
            (None, None) => Err(Error::Unbound { slot: slot.name.to_string() }),
        }
    }

    /// Whether a record was written under the configuration's binding of today.
    fn is_valid(&self, name: &SlotName, over: &str) -> bool {
        self.binding_of(name).as_ref().map(super::digest).unwrap_or_default() == over
    }

    /// Tells one `config` of a channel from another, as long as the configuration leaves it to others what serves there.
    pub(super) fn under(&self, name: &SlotName) -> Option<String> {
        let config = self.channel_config(name).filter(|_| self.binding_of(name).is_none())?;
        let mut sorted = Value::Object(config.clone());
        sorted.sort_all_objects();
        Some(super::digest(&sorted))
    }

    /// The `config` of a channel that was changed after somebody last said what serves there.
    pub(super) fn configured_anew(&self, name: &SlotName) -> Option<Map<String, Value>> {
        let was = self.records.slots.get(&name.to_string())?.under.as_ref()?;
        let is = self.under(name)?;
        self.channel_config(name).filter(|_| *was != is).cloned()
    }

    fn channel_config(&self, name: &SlotName) -> Option<&Map<String, Value>> {
        match name {
            SlotName::Channel(channel) => self.config.channels.get(channel).map(|channel| &channel.config),
            _ => None,
        }
    }

    /// What the configuration's binding asks for, with the rules or the script that stand in for a default.
    pub(super) fn of_binding(&self, slot: &Slot, binding: &Binding) -> Result<Candidate, Error> {
        let (source, config) = self.filled(&slot.name, binding)?;
        let material = self.read(&source)?;
        let mut wanted = self.wanted(slot, source, material, config);
        wanted.sha256 = binding.sha256.clone();
        Ok(Candidate { wanted, overrides: false, install_as: None, fresh: false })
    }

    /// What was bound, from its own file if that is still there, else from the copy.
    fn of_bound(&self, slot: &Slot, bound: &Bound) -> Result<Candidate, Error> {
        let dropped = self.of_dropped(&slot.name, bound)?;
        let bound = dropped.as_ref().unwrap_or(bound);
        let material = self.read(&bound.source).or_else(|_| self.read_kept(bound))?;
        Ok(self.bound_as(slot, bound, material))
    }

    fn bound_as(&self, slot: &Slot, bound: &Bound, material: Material) -> Candidate {
        let mut wanted = self.wanted(slot, bound.source.clone(), material, bound.config.clone());
        // What the configuration requires of a file it requires of every version of it.
        let binding = self.binding_of(&slot.name).filter(|binding| binding.source == bound.source);
        wanted.sha256 = binding.and_then(|binding| binding.sha256);
        Candidate { wanted, overrides: true, install_as: None, fresh: false }
    }

    /// What last served well here, from its copy.
    fn proven(&self, slot: &Slot) -> Option<Candidate> {
        let record = self.records.slots.get(&slot.name.to_string())?;
        let record = Some(record).filter(|record| self.is_valid(&slot.name, &record.over))?;
        let candidate = self.of_kept(slot, record.served.as_ref()?).ok()?;
        Some(Candidate { overrides: record.current.is_some(), ..candidate })
    }

    /// A version as it was bound, whatever its file holds by now.
    pub(super) fn of_kept(&self, slot: &Slot, bound: &Bound) -> Result<Candidate, Error> {
        let mut candidate = self.bound_as(slot, bound, self.read_kept(bound)?);
        // A category that has left the deployment since is answered no more; the rest of it is as good as it was.
        candidate.wanted.categories = None;
        Ok(candidate)
    }

    pub(super) fn wanted(&self, slot: &Slot, label: String, material: Material, config: Map<String, Value>) -> Wanted {
        Wanted {
            slot: slot.name.to_string(),
            world: Some(slot.name.world()),
            label,
            material,
            sha256: None,
            signatures: self.config.plugins.signatures.clone(),
            config,
            config_of: None,
            categories: Some(self.config.categories.iter().map(|category| category.key.clone()).collect()),
            limits: self.limits_of(&slot.name),
        }
    }

    fn limits_of(&self, name: &SlotName) -> PluginLimits {
        let of_channel = match name {
            SlotName::Channel(channel) => self.config.channels.get(channel).map(|channel| channel.limits.into()),
            _ => None,
        };
        self.binding_of(name).map(|binding| binding.limits).or(of_channel).unwrap_or_else(|| name.limits())
    }

    pub(super) fn read(&self, source: &str) -> Result<Material, Error> {
        let source = Source::parse(source, &self.room.dir.plugins());
        Ok(Material::read(&source, self.config.plugins.file_bytes)?)
    }

    fn read_kept(&self, bound: &Bound) -> Result<Material, Error> {
        bound.read_kept(&self.room.dir)
    }

    /// Whether the slot is served well by this very version.
    pub(super) fn is_serving(&self, slot: &Slot, candidate: &Candidate) -> bool {
        slot.component().is_ok_and(|serving| is_version(&serving, candidate))
    }

    /// The configuration that a component gets which came without one: the one in use, if it is the same plugin.
    pub(super) fn config_in_use(&self, slot: &Slot) -> (Map<String, Value>, Option<String>) {
        match (self.configured_anew(&slot.name), slot.bound()) {
            (Some(config), _) => (config, None),
            (None, Some(serving)) => (bound_of(&serving).config, Some(serving.identity.name.clone())),
            (None, None) => (self.channel_config(&slot.name).cloned().unwrap_or_default(), None),
        }
    }
}

fn is_version(generation: &Generation, candidate: &Candidate) -> bool {
    let wanted = &candidate.wanted;
    let same_config = wanted.config_of.is_some() || generation.config == wanted.config_text();
    generation.identity.hash == wanted.material.hash && same_config && generation.limits.allowed == wanted.limits
}
