//! Loading in stages, all or nothing: verify, inspect and compile, link, describe, configure.
//! Keeps true: nothing that serves is touched here; a failure leaves it as it was and says at which stage and why.
//! Never: reads the bytes of a component itself. They are hostile until a child process has looked at them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use wasmtime::Engine;

use super::cache::Cache;
use super::engine::Ticker;
use super::error::Error;
use super::generation::{Generation, Identity, Limits};
use super::inspect::Inspection;
use super::instance::{Line, Template, Unmade};
use super::signature;
use super::source::Material;
use super::threads::cores;
use super::vocabulary::unknown_category;
use crate::config::{PluginLimits, Signatures};
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
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) slot: String,
    pub(super) world: Option<World>,
    /// What people call the source.
    pub(super) label: String,
    pub(super) material: Material,
    pub(super) sha256: Option<String>,
    /// Whose signatures are taken.
    pub(super) signatures: Signatures,
    pub(super) config: Map<String, Value>,
    /// The configuration is meant for a plugin of this name; another one gets none.
    pub(super) config_of: Option<String>,
    /// The deployment's categories, of which a configuration may name no other; none where any will do: outside a deployment, and for
    /// what has served before.
    pub(super) categories: Option<Vec<String>>,
    pub(super) limits: PluginLimits,
}

/// A component that passed every stage.
pub(super) struct Staged {
    pub(super) generation: Arc<Generation>,
    pub(super) inspection: Inspection,
    pub(super) summary: String,
    pub(super) config_schema: String,
    pub(super) lines: Vec<Line>,
}

impl Wanted {
    /// The configuration as the component gets it.
    pub(super) fn config_text(&self) -> String {
        Value::Object(self.config.clone()).to_string()
    }
}

impl Stage {
    /// Everything up to configured instances. Runs guest code and may compile: not for an async thread.
    pub(super) fn prepare(&self, wanted: &Wanted, instances: usize) -> Result<Staged, Error> {
        static GENERATIONS: AtomicU64 = AtomicU64::new(1);
        let label = || wanted.label.clone();
        verify(&wanted.label, &wanted.material, wanted.sha256.as_deref(), &wanted.signatures)?;
        let mapped = self.cache.component(&wanted.material).map_err(|error| error.named(label()))?;
        let inspection = mapped.inspection.clone();
        if let Some(world) = wanted.world.filter(|world| !inspection.worlds.contains(world)) {
            let (worlds, slot) = (inspection.worlds.clone(), wanted.slot.clone());
            return Err(Error::World { source_name: label(), worlds, slot, wanted: world });
        }
        let template = Template::shared(&self.engine, mapped, self.ticker.clone())
            .map_err(|error| Error::Link { source_name: label(), said: super::failure::chain(&error) })?;
        let mut lines = Vec::new();
        let described = template.describe(wanted.limits, &mut lines);
        let described = described.map_err(|failure| Error::Describe { source_name: label(), failure })?;
        let bad = |field, said: &str| Error::Description { source_name: label(), field, said: said.to_owned() };
        if !is_word(&described.name) {
            return Err(bad("name", "letters, digits, `-`, `_` and `.`, at most 64"));
        }
        if !is_word(&described.version.replace('+', ".")) {
            return Err(bad("version", "a version such as 1.2.0, at most 64 letters, digits, `-`, `.` and `+`"));
        }
        let meant = wanted.config_of.as_ref().is_none_or(|name| *name == described.name);
        let config = if meant { wanted.config_text() } else { "{}".to_owned() };
        let identity = Identity {
            name: described.name,
            version: described.version,
            hash: inspection.hash.clone(),
            source: wanted.label.clone(),
        };
        if let (Some(known), true) = (&wanted.categories, meant)
            && let Some(unknown) = unknown_category(&described.config_schema, &wanted.config, known)
        {
            let (name, known) = (identity.name, known.clone());
            return Err(Error::Category { name, path: unknown.path, given: unknown.given, known });
        }
        let id = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        let (slot, grants) = (wanted.slot.clone(), inspection.grants.clone());
        let held = lowered(wanted.limits, &described.attrs).map_err(|said| bad("attrs", &said))?;
        let limits = Limits { allowed: wanted.limits, held };
        let generation = Generation::new(id, slot, identity, template, limits, config, grants);
        make_instances(&generation, instances, &mut lines)?;
        Ok(Staged {
            generation: Arc::new(generation),
            inspection,
            summary: described.summary.chars().filter(|c| !c.is_control()).take(SUMMARY_CHARS_MAX).collect(),
            config_schema: described.config_schema,
            lines,
        })
    }
}

/// The limits that a plugin is held to: those of the deployment, or less where it asks for less. What it says beside that is not for us.
fn lowered(allowed: PluginLimits, attrs: &[(String, String)]) -> Result<PluginLimits, String> {
    let mut held = allowed;
    for (name, value) in attrs {
        let limit = match name.as_str() {
            "limits.cpuMs" => &mut held.cpu_ms,
            "limits.configureMs" => &mut held.configure_ms,
            "limits.memoryMb" => &mut held.memory_mb,
            _ => continue,
        };
        let asked: Option<u32> = value.parse().ok().filter(|asked| *asked > 0);
        *limit = asked.ok_or_else(|| format!("`{name}` is a whole number above 0"))?.min(*limit);
    }
    Ok(held)
}

/// A pinned file must be the very one, and a signed one must be vouched for by whom the deployment trusts.
pub(super) fn verify(
    label: &str,
    material: &Material,
    pinned: Option<&str>,
    signatures: &Signatures,
) -> Result<(), Error> {
    if material.builtin.is_none() {
        signature::verify(&material.bytes, material.signature.as_deref(), signatures)
            .map_err(|refused| Error::Signature { source_name: label.to_owned(), refused })?;
    }
    let Some(expected) = pinned else { return Ok(()) };
    let found: String = Sha256::digest(&material.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    match found == expected {
        true => Ok(()),
        false => Err(Error::Hash { source_name: label.to_owned(), expected: expected.to_owned(), found }),
    }
}

/// What may stand in a list, a log and a file's name.
fn is_word(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.chars().all(good)
}

/// Configured instances, made side by side: each takes its time over its configuration.
fn make_instances(generation: &Generation, count: usize, lines: &mut Vec<Line>) -> Result<(), Error> {
    let name = || generation.identity.name.clone();
    let make = || {
        let mut lines = Vec::new();
        (generation.make(&mut lines), lines)
    };
    let made = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().name("chela-plugin-make".into()).spawn_scoped(scope, make);
        let others: Vec<_> = (1..count).map(spawn).collect::<std::io::Result<_>>()?;
        let mut made: Vec<_> = (count > 0).then(make).into_iter().collect();
        for other in others {
            made.push(other.join().map_err(|_| std::io::Error::other("an instance could not be made"))?);
        }
        Ok(made)
    });
    for (instance, logged) in made.map_err(Error::Threads)? {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expected: Result<PluginLimits, &str>) {
        let held = lowered(PluginLimits::default(), &[(name.into(), value.into())]);
        assert_eq!(held, expected.map_err(str::to_owned), "{name} {value}");
    }

    #[test]
    fn a_plugin_may_ask_for_less_than_it_is_allowed_and_never_for_more() {
        let all = PluginLimits::default();
        check("limits.cpuMs", "5", Ok(PluginLimits { cpu_ms: 5, ..all }));
        check("limits.configureMs", "30", Ok(PluginLimits { configure_ms: 30, ..all }));
        check("limits.memoryMb", "2", Ok(PluginLimits { memory_mb: 2, ..all }));
        check("limits.cpuMs", "4000000000", Ok(all));
        check("limits.later", "none", Ok(all));
        check("homepage", "chela", Ok(all));
        check("limits.cpuMs", "0", Err("`limits.cpuMs` is a whole number above 0"));
        check("limits.memoryMb", "lots", Err("`limits.memoryMb` is a whole number above 0"));
    }
}
