//! A component on the bench, outside any gateway: to describe it, or to try one call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::cache::Cache;
use super::dispatch;
use super::engine::{Ticker, engine};
use super::error::Error;
use super::failure::{Failure, Limit, chain};
use super::generation::Identity;
use super::inspect::Inspection;
use super::instance::{Instance, Line, Surroundings};
use super::source::{FILE_BYTES_CEILING, Material, Source};
use super::stage::{Stage, Staged, Wanted};
use crate::config::{Config, PluginLimits};
use crate::policy::World;

/// Enough for the engines of JavaScript and Python.
const ROOMY_MB: u32 = 256;

pub struct Workbench {
    pub(super) stage: Stage,
}

#[derive(Debug, thiserror::Error)]
pub enum TryError {
    #[error(transparent)]
    Load(#[from] Error),
    #[error(transparent)]
    Call(#[from] dispatch::Error),
}

impl Workbench {
    /// `cache` is where compiled code is kept, `compiler` the binary that makes it.
    pub fn new(cache: PathBuf, shipped: Option<PathBuf>, compiler: PathBuf) -> Result<Self, Error> {
        let engine = engine().map_err(|error| Error::Engine { said: chain(&error) })?;
        let ticker = Arc::new(Ticker::start(&engine).map_err(Error::Threads)?);
        let cache = Cache::new(engine.clone(), cache, shipped, compiler, Arc::default());
        Ok(Self { stage: Stage { engine, ticker, cache } })
    }

    /// What a file is, from the outside and, if it lets itself be run, from itself.
    pub fn inspect(&self, source: &str) -> Result<Value, Error> {
        let told = self.described(source)?;
        let mut found = json!(told.inspection);
        found["name"] = json!(told.generation.identity.name);
        found["version"] = json!(told.generation.identity.version);
        found["summary"] = json!(told.summary);
        found["limits"] = json!(told.generation.limits.held);
        found["configSchema"] = serde_json::from_str(&told.config_schema).unwrap_or(Value::Null);
        Ok(found)
    }

    /// Who a component says it is, and what it is from the outside.
    pub fn identify(&self, source: &str) -> Result<(Identity, Inspection), Error> {
        let told = self.described(source)?;
        Ok((told.generation.identity.clone(), told.inspection))
    }

    /// What it says about itself; with more memory where a language's engine does not even start in the default.
    fn described(&self, source: &str) -> Result<Staged, Error> {
        let told = |limits| self.stage.prepare(&wanted(source, None, Map::new(), limits)?, 0);
        match told(PluginLimits::default()) {
            Err(Error::Describe { failure: Failure::Limit { limit: Limit::Memory, .. }, .. }) => {
                told(PluginLimits { memory_mb: ROOMY_MB, ..PluginLimits::default() })
            }
            said => said,
        }
    }

    /// One call: JSON in, JSON out. Also tells what the component logged.
    pub fn call(
        &self,
        source: &str,
        export: &str,
        input: Value,
        config: Map<String, Value>,
        limits: PluginLimits,
    ) -> Result<(Value, Vec<String>), TryError> {
        let (mut instance, logged) = self.instance(source, export, config, limits)?;
        let (input, single) = friendly(export, input);
        let answer = dispatch::call(&mut instance, export, &input, &around(&input));
        let lines = logged.into_iter().chain(instance.take_lines());
        let lines = lines.map(|line| format!("{}: {}", line.level, line.text)).collect();
        let mut answer = answer?;
        if single {
            answer = answer.as_array_mut().and_then(|list| list.pop()).unwrap_or(Value::Null);
        }
        Ok((answer, lines))
    }

    /// How long each of `count` calls takes at one instance.
    pub fn time(&self, source: &str, export: &str, input: Value, count: usize) -> Result<Vec<Duration>, TryError> {
        let (mut instance, _) = self.instance(source, export, Map::new(), PluginLimits::default())?;
        let (input, _) = friendly(export, input);
        Ok(dispatch::time(&mut instance, export, &input, &around(&input), count)?)
    }

    fn instance(
        &self,
        source: &str,
        export: &str,
        config: Map<String, Value>,
        limits: PluginLimits,
    ) -> Result<(Instance, Vec<Line>), TryError> {
        let world = dispatch::EXPORTS.iter().find(|(name, _)| *name == export).map(|(_, world)| *world);
        let world = world.ok_or_else(|| dispatch::Error::NoSuchExport { given: export.to_owned() })?;
        let staged = self.stage.prepare(&wanted(source, Some(world), config, limits)?, 1)?;
        let instance = staged.generation.take().expect("one was made");
        Ok((instance, staged.lines))
    }
}

/// The surroundings of a call outside any deployment.
pub(super) fn around(input: &Value) -> Surroundings {
    let digest = blake3::hash(input.to_string().as_bytes());
    let seed = u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("eight of thirty-two bytes"));
    Surroundings { now_ms: 0, seed, deployment: "try".into(), locale: "en" }
}

/// Compiles and runs the smallest component there is, in this process: whether this machine can at all.
pub fn prove() -> Result<(String, String), Error> {
    let refused = |error: wasmtime::Error| Error::Engine { said: chain(&error) };
    let engine = engine().map_err(refused)?;
    let probe = Material::read(&Source::Builtin("probe".into()), FILE_BYTES_CEILING)?;
    let component = wasmtime::component::Component::from_binary(&engine, &probe.bytes).map_err(refused)?;
    let ticker = Arc::new(Ticker::start(&engine).map_err(Error::Threads)?);
    let template = super::instance::Template::new(&engine, &component, ticker).map_err(refused)?;
    let described = template.describe(PluginLimits::default(), &mut Vec::new());
    let described = described.map_err(|failure| Error::Describe { source_name: "builtin:probe".into(), failure })?;
    Ok((described.name, described.version))
}

pub(super) fn wanted(
    source: &str,
    world: Option<World>,
    config: Map<String, Value>,
    limits: PluginLimits,
) -> Result<Wanted, Error> {
    let mut material = Material::read(&Source::parse(source, Path::new("")), FILE_BYTES_CEILING)?;
    // On the bench a component is what it is, whoever has vouched for an earlier build of it.
    material.signature = None;
    let (slot, label) = ("try".to_owned(), source.to_owned());
    Ok(Wanted {
        slot,
        world,
        label,
        material,
        sha256: None,
        signatures: Default::default(),
        config,
        config_of: None,
        categories: None,
        limits,
    })
}

/// One conversation or one event instead of a list; the default table of categories when none is given.
pub(super) fn friendly(export: &str, input: Value) -> (Value, bool) {
    let has = |key: &str| input.get(key).is_some();
    match export {
        "categories" => {
            let table = || json!(Config::default().categories.iter().map(|category| &category.key).collect::<Vec<_>>());
            let (mut request, single) = match has("conversations") {
                true => (input, false),
                false => (json!({ "conversations": [input] }), true),
            };
            if request.get("categories").is_none() {
                request["categories"] = table();
            }
            (request, single)
        }
        "roles" if !has("events") => {
            let agents = input.get("mainAgents").cloned().unwrap_or_else(|| json!([]));
            let mut event = input;
            if let Some(event) = event.as_object_mut() {
                event.remove("mainAgents");
            }
            (json!({ "mainAgents": agents, "events": [event] }), true)
        }
        _ => (input, false),
    }
}
