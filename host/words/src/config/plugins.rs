//! Which component makes which decision, and what each may take.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Config;
use crate::id::AgentId;
use crate::schema::Problem;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Plugins {
    /// Says what events are about and which category conversations belong to; `null` for none.
    pub classifier: Option<Binding>,
    /// Look at every tool call before it runs, in this order.
    pub guards: Vec<Guard>,
    /// Tells agents how to work and what a stopped one hears; `null` for the gateway's one plain prompt.
    pub continuation: Option<Binding>,
    /// Other continuations for some agents, by agent id.
    pub continuations: BTreeMap<AgentId, Binding>,
    /// The largest file that is taken as a plugin.
    #[schemars(range(min = 1_024, max = 268_435_456))]
    pub file_bytes: u64,
    /// Who has to vouch for the files that are taken as plugins; default components are part of the program and need nobody.
    pub signatures: Signatures,
}

/// Signatures of components, as `chela plugin sign` makes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Signatures {
    /// Refuses files without a signature of one of `keys`.
    pub require: bool,
    /// Public keys by the names that people know them by.
    #[schemars(extend("x-advice" = "write the public key that `chela plugin sign --new-key` prints, 44 characters"))]
    pub keys: BTreeMap<String, String>,
    /// Public keys, and SHA-256 of files, that are never taken again.
    pub revoked: Vec<String>,
}

/// A component with what it is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Binding {
    /// `builtin:NAME`, a file in `plugins/`, or an absolute path.
    pub source: String,
    /// What the file must be, as 64 hexadecimal digits; another file is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$", "x-advice" = "write the 64 digits that `sha256sum FILE` prints"))]
    pub sha256: Option<String>,
    /// The component's own configuration; `chela plugin inspect FILE --json` shows its schema.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    #[serde(default)]
    pub limits: PluginLimits,
}

/// A binding with its place among the guards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Guard {
    /// What it is called in events, answers and commands.
    #[schemars(extend("pattern" = "^[a-z0-9][a-z0-9-]{0,39}$", "x-advice" = "use a-z, 0-9 and `-`, at most 40"))]
    pub name: String,
    /// What happens to a tool call when the guard fails; `builtin` for the default stop guard, else `block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// Like `classifier.source`.
    pub source: String,
    /// Like `classifier.sha256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9a-f]{64}$", "x-advice" = "write the 64 digits that `sha256sum FILE` prints"))]
    pub sha256: Option<String>,
    /// Like `classifier.config`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    #[serde(default)]
    pub limits: PluginLimits,
}

/// What happens to a tool call when a guard gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It does not run.
    Block,
    /// It runs unless it completes a task with open steps.
    Builtin,
    /// It runs.
    Allow,
}

/// What one call of a component may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PluginLimits {
    /// CPU time of one call; waiting for the processor does not count, but twenty times this on the clock ends it too.
    #[schemars(range(min = 1, max = 60_000))]
    pub cpu_ms: u32,
    /// CPU time of taking up its configuration.
    #[schemars(range(min = 1, max = 120_000))]
    pub configure_ms: u32,
    /// Memory of one instance; JavaScript and Python need 64 or more.
    #[schemars(range(min = 1, max = 4_096))]
    pub memory_mb: u32,
}

/// The recorded inputs of policies, from which a new version is tried before it serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Decisions {
    /// `off` for deployments whose messages must not be written twice; then nothing is tried before it serves.
    pub record: Switch,
    /// How much is kept for each slot; the oldest goes first.
    #[schemars(range(min = 1, max = 4_096))]
    pub megabytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    On,
    Off,
}

impl Default for Plugins {
    fn default() -> Self {
        let guard = Binding::of("builtin:stop-guard");
        Self {
            classifier: Some(Binding::of("builtin:rules")),
            guards: vec![Guard {
                name: "stop-guard".into(),
                on_failure: None,
                source: guard.source,
                sha256: None,
                config: Map::new(),
                limits: guard.limits,
            }],
            continuation: Some(Binding::of("builtin:continuation")),
            continuations: BTreeMap::new(),
            file_bytes: 64 * 1024 * 1024,
            signatures: Signatures::default(),
        }
    }
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self { cpu_ms: 50, configure_ms: 2_000, memory_mb: 16 }
    }
}

impl Default for Decisions {
    fn default() -> Self {
        Self { record: Switch::On, megabytes: 64 }
    }
}

impl Binding {
    pub fn of(source: &str) -> Self {
        Self { source: source.into(), sha256: None, config: Map::new(), limits: PluginLimits::default() }
    }
}

impl Guard {
    pub fn binding(&self) -> Binding {
        Binding {
            source: self.source.clone(),
            sha256: self.sha256.clone(),
            config: self.config.clone(),
            limits: self.limits,
        }
    }

    pub fn on_failure(&self) -> OnFailure {
        let default = if self.source == "builtin:stop-guard" { OnFailure::Builtin } else { OnFailure::Block };
        self.on_failure.unwrap_or(default)
    }
}

/// What the schema cannot say.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let plugins = &config.plugins;
    let mut problems = Vec::new();
    let mut source = |path: String, source: &str| {
        let said = match source {
            "" | "builtin:" => "name a component: `builtin:NAME`, a file in `plugins/`, or an absolute path",
            _ if source.starts_with("oci://") => "`oci://` is not supported; download the file and name it here",
            _ if source.contains("..") => "a file must be in `plugins/` or named by an absolute path without `..`",
            _ => return,
        };
        problems.push(Problem::new(path, said));
    };
    let single = [("classifier", &plugins.classifier), ("continuation", &plugins.continuation)];
    for (name, binding) in single {
        binding.iter().for_each(|binding| source(format!("plugins.{name}.source"), &binding.source));
    }
    for (agent, binding) in &plugins.continuations {
        source(format!("plugins.continuations.{agent}.source"), &binding.source);
    }
    for (at, guard) in plugins.guards.iter().enumerate() {
        source(format!("plugins.guards[{at}].source"), &guard.source);
    }
    let mut names = HashSet::new();
    for (at, guard) in plugins.guards.iter().enumerate() {
        if !names.insert(&guard.name) {
            let path = format!("plugins.guards[{at}].name");
            problems.push(Problem::new(path, "a guard before it has this name; give each its own"));
        }
    }
    for agent in plugins.continuations.keys() {
        if !config.agents.list.iter().any(|known| &known.id == agent) {
            let path = format!("plugins.continuations.{agent}");
            problems.push(Problem::new(path, format!("no agent has the id `{agent}`")));
        }
    }
    problems
}
