//! Loading in stages, all or nothing: read, verify, inspect, compile, link, describe, configure, replay.
//! Keeps true: nothing that serves is touched here; a failure leaves it as it was and says at which stage and why.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};
use wasmtime::Engine;

use super::cache::Cache;
use super::engine::Ticker;
use super::error::Error;
use super::generation::{Generation, Identity};
use super::inspect::{self, Inspection};
use super::instance::{Line, Template, Unmade};
use super::source::{self, Source};
use super::threads::cores;
use crate::config::PluginLimits;
use crate::policy::World;

const NAME_CHARS_MAX: usize = 64;
const SUMMARY_CHARS_MAX: usize = 500;

/// What a stage needs beside the request.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) engine: Engine,
    pub(super) ticker: Arc<Ticker>,
    pub(super) cache: Cache,
}

/// What is to be loaded.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) slot: String,
    pub(super) world: Option<World>,
    pub(super) source: Source,
    /// What people call the source.
    pub(super) label: String,
    pub(super) sha256: Option<String>,
    pub(super) config: Map<String, Value>,
    pub(super) limits: PluginLimits,
    pub(super) file_bytes: u64,
}

/// A component that passed every stage but the replay.
pub(super) struct Staged {
    pub(super) generation: Arc<Generation>,
    pub(super) bytes: std::borrow::Cow<'static, [u8]>,
    pub(super) inspection: Inspection,
    pub(super) summary: String,
    pub(super) config_schema: String,
    pub(super) lines: Vec<Line>,
}

impl Stage {
    /// Reads and checks without running anything.
    pub(super) fn look(wanted: &Wanted) -> Result<(std::borrow::Cow<'static, [u8]>, Inspection), Error> {
        let bytes = source::read(&wanted.source, wanted.file_bytes)?;
        let label = || wanted.label.clone();
        let (inspection, _) =
            inspect::inspect(&bytes).map_err(|refused| Error::Refused { source_name: label(), refused })?;
        if let Some(expected) = wanted.sha256.as_ref().filter(|expected| **expected != inspection.sha256) {
            let (expected, found) = (expected.clone(), inspection.sha256.clone());
            return Err(Error::Hash { source_name: label(), expected, found });
        }
        if let Some(world) = wanted.world.filter(|world| !inspection.worlds.contains(world)) {
            let (worlds, slot) = (inspection.worlds.clone(), wanted.slot.clone());
            return Err(Error::World { source_name: label(), worlds, slot, wanted: world });
        }
        Ok((bytes, inspection))
    }

    /// Everything up to configured instances. Runs guest code and may compile: not for an async thread.
    pub(super) fn prepare(&self, wanted: &Wanted, instances: usize) -> Result<Staged, Error> {
        static GENERATIONS: AtomicU64 = AtomicU64::new(1);
        let label = || wanted.label.clone();
        let (bytes, inspection) = Self::look(wanted)?;
        let component = self
            .cache
            .component(&wanted.source, &bytes)
            .map_err(|cause| Error::Compile { source_name: label(), cause })?;
        let template = Template::new(&self.engine, &component, self.ticker.clone())
            .map_err(|error| Error::Link { source_name: label(), said: super::failure::chain(&error) })?;
        let mut lines = Vec::new();
        let described = template.describe(wanted.limits, &mut lines);
        let described = described.map_err(|failure| Error::Describe { source_name: label(), failure })?;
        let bad = |field, said: &str| Error::Description { source_name: label(), field, said: said.to_owned() };
        let is_name = |name: &str| {
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(good)
        };
        if !is_name(&described.name) {
            return Err(bad("name", "letters, digits, `-`, `_` and `.`, at most 64"));
        }
        if described.version.is_empty() || described.version.len() > NAME_CHARS_MAX {
            return Err(bad("version", "a version such as 1.2.0, at most 64 characters"));
        }
        let identity = Identity {
            name: described.name,
            version: described.version,
            hash: inspection.hash.clone(),
            source: wanted.label.clone(),
        };
        let config = Value::Object(wanted.config.clone()).to_string();
        let id = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        let (slot, grants) = (wanted.slot.clone(), inspection.grants.clone());
        let generation = Generation::new(id, slot, identity, template, wanted.limits, config, grants);
        make_instances(&generation, instances, &mut lines)?;
        Ok(Staged {
            generation: Arc::new(generation),
            bytes,
            inspection,
            summary: described.summary.chars().take(SUMMARY_CHARS_MAX).collect(),
            config_schema: described.config_schema,
            lines,
        })
    }
}

/// Configured instances, made side by side: each takes its time over its configuration.
fn make_instances(generation: &Generation, count: usize, lines: &mut Vec<Line>) -> Result<(), Error> {
    let name = || generation.identity.name.clone();
    let make = || {
        let mut lines = Vec::new();
        (generation.make(&mut lines), lines)
    };
    let made = std::thread::scope(|scope| {
        let others: Vec<_> = (1..count).map(|_| scope.spawn(make)).collect();
        let first = (count > 0).then(make);
        let others = others.into_iter().map(|other| other.join().expect("making an instance does not panic"));
        first.into_iter().chain(others.collect::<Vec<_>>()).collect::<Vec<_>>()
    });
    for (instance, logged) in made {
        lines.extend(logged);
        generation.give_back(instance.map_err(|unmade| match unmade {
            Unmade::Config { path, message } => Error::Config { name: name(), path, message },
            Unmade::Failed(failure) => Error::Configure { name: name(), failure },
        })?);
    }
    Ok(())
}

/// As many as can run at once.
pub(super) fn instances() -> usize {
    cores().max(2)
}
