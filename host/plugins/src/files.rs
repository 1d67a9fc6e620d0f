//! Whether the components that a start would load are there, and are what the configuration requires: without a gateway.
//! Keeps true: the same files, by the same rules as at a start. Never: looks into a component, or changes anything.

use super::error::Error;
use super::loader::{desired, digest};
use super::records::{Bound, Record, Records};
use super::slots::SlotName;
use super::source::{Material, Source};
use super::stage::verify;
use crate::config::{Binding, Config};
use crate::layout::StateDir;

/// The component of a slot, as a start would find it.
pub struct FoundFile {
    pub slot: SlotName,
    /// Whether it can be read and may be taken.
    pub file: Result<(), Error>,
    /// It may not be, and what served last is kept and would serve in its place.
    pub has_stand_in: bool,
}

/// What a start would find for every slot that holds something. Fails where what commands have bound cannot be read.
pub fn look_at_files(dir: &StateDir, config: &Config) -> Result<Vec<FoundFile>, Error> {
    let records = Records::read(dir)?;
    let look = |(slot, binding): (SlotName, Option<Binding>)| {
        let over = binding.as_ref().map(digest).unwrap_or_default();
        let record = records.slots.get(&slot.to_string()).filter(|record| record.over == over);
        let place = Place { dir, config, binding: binding.as_ref(), record };
        let file = place.file()?;
        let has_stand_in = file.is_err() && place.has_stand_in();
        Some(FoundFile { slot, file, has_stand_in })
    };
    Ok(slots(config, &records).into_iter().filter_map(look).collect())
}

/// The slots of the configuration, and those that operators have added.
fn slots(config: &Config, records: &Records) -> Vec<(SlotName, Option<Binding>)> {
    let desired = desired(config).into_iter();
    let mut slots: Vec<(SlotName, Option<Binding>)> = desired.map(|(name, binding, _)| (name, binding)).collect();
    for (name, record) in &records.slots {
        let Ok(name) = name.parse::<SlotName>() else { continue };
        let is_added = record.over.is_empty() && record.current.is_some();
        if is_added && !slots.iter().any(|(known, _)| *known == name) {
            slots.push((name, None));
        }
    }
    slots
}

/// What the configuration says of a slot, and what was bound over it.
struct Place<'a> {
    dir: &'a StateDir,
    config: &'a Config,
    binding: Option<&'a Binding>,
    record: Option<&'a Record>,
}

impl Place<'_> {
    /// None where nothing is to serve.
    fn file(&self) -> Option<Result<(), Error>> {
        if self.record.is_some_and(|record| record.disabled) {
            return None;
        }
        match (self.record.and_then(|record| record.current.as_ref()), self.binding) {
            (Some(bound), _) => Some(self.bound(bound)),
            (None, Some(binding)) => Some(self.configured(binding)),
            (None, None) => None,
        }
    }

    fn configured(&self, binding: &Binding) -> Result<(), Error> {
        let material = self.read(&binding.source)?;
        self.verify(&binding.source, &material)
    }

    fn bound(&self, bound: &Bound) -> Result<(), Error> {
        // Its copy is as good; where there is none, its own file is what is to be put there.
        let material = self.read(&bound.source).or_else(|error| bound.read_kept(self.dir).map_err(|_| error))?;
        self.verify(&bound.source, &material)
    }

    fn has_stand_in(&self) -> bool {
        let served = self.record.and_then(|record| record.served.as_ref());
        served.is_some_and(|served| {
            let kept = served.read_kept(self.dir);
            kept.and_then(|material| self.verify(&served.source, &material)).is_ok()
        })
    }

    fn read(&self, source: &str) -> Result<Material, Error> {
        let source = Source::parse(source, &self.dir.plugins());
        Ok(Material::read(&source, self.config.plugins.file_bytes)?)
    }

    /// What the configuration requires of a file it requires of every version of it.
    fn verify(&self, source: &str, material: &Material) -> Result<(), Error> {
        let pinned = self.binding.filter(|binding| binding.source == source);
        let pinned = pinned.and_then(|binding| binding.sha256.as_deref());
        verify(source, material, pinned, &self.config.plugins.signatures)
    }
}
