//! One version of one slot's component with its configured instances: made whole before it serves, dropped whole after.
//! Keeps true: an instance is used by one call at a time; one that failed is replaced in the background, never used again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::instance::{Instance, Line, Template, Unmade};
use super::stage::instances;
use crate::config::PluginLimits;

/// Who a component is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    pub name: String,
    pub version: String,
    pub hash: String,
    pub source: String,
}

/// What the deployment allows a plugin, and what it is held to because it asked for less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) allowed: PluginLimits,
    pub(super) held: PluginLimits,
}

pub(super) struct Generation {
    /// Never the same twice within a process.
    pub(super) id: u64,
    pub(super) slot: String,
    pub(super) identity: Identity,
    pub(super) limits: Limits,
    pub(super) config: String,
    pub(super) grants: Vec<String>,
    template: Template,
    spares: Mutex<Spares>,
    memory: AtomicUsize,
}

#[derive(Default)]
struct Spares {
    free: Vec<Instance>,
    /// Why no replacement can be made.
    broken: Option<Failure>,
    retired: bool,
}

impl Generation {
    pub(super) fn new(
        id: u64,
        slot: String,
        identity: Identity,
        template: Template,
        limits: Limits,
        config: String,
        grants: Vec<String>,
    ) -> Self {
        let spares = Mutex::new(Spares::default());
        Self { id, slot, identity, limits, config, grants, template, spares, memory: AtomicUsize::new(0) }
    }

    /// Makes one more instance. Runs guest code.
    pub(super) fn make(&self, lines: &mut Vec<Line>) -> Result<Instance, Unmade> {
        self.template.make(self.limits.held, &self.config, lines)
    }

    /// Makes a replacement and adds it; a failure is kept and told to whoever waits for one.
    pub(super) fn replenish(&self, lines: &mut Vec<Line>) {
        {
            let spares = self.lock();
            // Several calls may have asked for the same one.
            if spares.retired || spares.free.len() >= instances() {
                return;
            }
        }
        match self.make(lines) {
            Ok(instance) => self.give_back(instance),
            Err(Unmade::Failed(failure)) => self.lock().broken = Some(failure),
            Err(Unmade::Config { path, message }) => {
                let said = format!("it no longer takes its configuration: {path} {message}");
                self.lock().broken = Some(Failure::Invalid { said });
            }
        }
    }

    pub(super) fn take(&self) -> Option<Instance> {
        self.lock().free.pop()
    }

    pub(super) fn give_back(&self, instance: Instance) {
        self.memory.fetch_max(instance.memory(), Ordering::Relaxed);
        let mut spares = self.lock();
        if !spares.retired {
            spares.broken = None;
            spares.free.push(instance);
        }
    }

    /// Whether an instance is free, or will never be: who waits for one of a retired version asks the next at once.
    pub(super) fn is_takeable(&self) -> bool {
        let spares = self.lock();
        !spares.free.is_empty() || spares.broken.is_some() || spares.retired
    }

    pub(super) fn broken(&self) -> Option<Failure> {
        self.lock().broken.clone()
    }

    /// Frees its instances: it serves no more. Calls under way finish on the ones they have.
    pub(super) fn retire(&self) {
        let mut spares = self.lock();
        spares.retired = true;
        let freed = std::mem::take(&mut spares.free);
        drop(spares);
        drop(freed);
    }

    /// The largest memory that an instance of it has had, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
