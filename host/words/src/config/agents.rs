//! Agents and teams of the configuration, and what must hold between them.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentA2a, Config, ModelRef, RunLimits, tools};
use crate::id::AgentId;
use crate::layout;
use crate::schema::Problem;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Agents {
    /// The agent that is meant when none is named; else the first.
    pub default: Option<AgentId>,
    /// The model of agents that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Models that are tried in order when that one fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<ModelRef>,
    pub list: Vec<Agent>,
}

/// A configured identity with a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Agent {
    /// Its name in session keys, folders and commands.
    pub id: AgentId,
    /// What people call it; else its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub role: AgentRole,
    /// The id of its team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// For a worker: the orchestrator it works for; else the only one there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// A directory below the state directory; else `workspace-{id}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// `provider/model`; else that of all agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Tried in order when that one fails; else those of all agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<ModelRef>,
    /// A file of its workspace with what it is to be and do; else `AGENTS.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<PathBuf>,
    /// Names of the tools it may call, `*` at the end for all that begin so; else all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Of its runs; what is missing is that of `runs.limits`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: RunLimits,
    /// As the target of other agents.
    #[serde(default, skip_serializing_if = "is_one_by_one")]
    pub a2a: AgentA2a,
}

fn is_one_by_one(a2a: &AgentA2a) -> bool {
    *a2a == AgentA2a::default()
}

fn is_default(limits: &RunLimits) -> bool {
    *limits == RunLimits::default()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentRole {
    /// Gives work to others and alone asks people.
    Orchestrator,
    /// Works for an orchestrator; people reach it through that one.
    Worker,
    /// Stands alone and may talk to people.
    #[default]
    Agent,
}

/// How an agent is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Identity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Team {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A CSS colour such as `#3b82f6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^#[0-9a-fA-F]{6}$"))]
    pub colour: Option<String>,
}

impl AgentRole {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Orchestrator => "orchestrator",
            Self::Worker => "worker",
            Self::Agent => "agent",
        }
    }
}

impl Agents {
    pub fn default_id(&self) -> Option<&AgentId> {
        self.default.as_ref().or_else(|| self.list.first().map(|agent| &agent.id))
    }
}

impl Agent {
    /// The file of its workspace with what it is to be and do.
    pub fn instructions_path(&self) -> PathBuf {
        self.instructions.clone().unwrap_or_else(|| "AGENTS.md".into())
    }

    /// Whether it may call a tool of this name.
    pub fn may_call(&self, tool: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(beginning) => tool.starts_with(beginning),
            None => tool == pattern,
        };
        self.tools.as_ref().is_none_or(|allowed| allowed.iter().any(fits))
    }

    /// Its workspace, relative to the state directory.
    pub fn workspace_path(&self) -> PathBuf {
        self.workspace.clone().unwrap_or_else(|| format!("workspace-{}", self.id).into())
    }

    pub fn display_name(&self) -> &str {
        match &self.name {
            Some(name) => name,
            None => self.identity.as_ref().and_then(|face| face.name.as_deref()).unwrap_or(self.id.as_ref()),
        }
    }
}

impl Config {
    /// Whom a worker works for.
    pub fn orchestrator_of(&self, agent: &Agent) -> Option<&AgentId> {
        let only =
            || self.agents.list.iter().find(|other| other.role == AgentRole::Orchestrator).map(|other| &other.id);
        let named = agent.orchestrator.as_ref();
        let named =
            named.and_then(|named| self.agents.list.iter().find(|other| other.id == *named).map(|other| &other.id));
        named.or_else(only).filter(|orchestrator| **orchestrator != agent.id)
    }
}

/// Whether a path leads below the state directory and to nothing that the gateway keeps there.
pub(super) fn is_free(path: &Path) -> bool {
    let mut parts = path.components();
    let first = parts.next();
    let starts_well = matches!(first, Some(Component::Normal(name)) if !name.to_str().is_none_or(layout::is_taken));
    starts_well && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// What the schema cannot say: that names point at something, once.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let agents = &config.agents;
    let ids: HashSet<&AgentId> = agents.list.iter().map(|agent| &agent.id).collect();
    let orchestrators: Vec<&AgentId> =
        agents.list.iter().filter(|agent| agent.role == AgentRole::Orchestrator).map(|agent| &agent.id).collect();
    let mut problems = Vec::new();

    if let Some(default) = &agents.default
        && !ids.contains(default)
    {
        problems.push(Problem::new("agents.default", format!("no agent has the id `{default}`")));
    }
    let mut seen = HashSet::new();
    for (at, agent) in agents.list.iter().enumerate() {
        let mut add = |key: &str, message: String| {
            problems.push(Problem::new(format!("agents.list[{at}].{key}"), message));
        };
        if !seen.insert(&agent.id) {
            add("id", format!("the id `{}` is taken by an agent before it", agent.id));
        }
        if let Some(team) = &agent.team
            && !config.teams.iter().any(|known| &known.id == team)
        {
            add("team", "no team has this id; add it to `teams`".into());
        }
        match (&agent.orchestrator, agent.role) {
            (Some(named), _) if !orchestrators.contains(&named) => {
                add("orchestrator", format!("`{named}` is not an agent with the role `orchestrator`"));
            }
            (None, AgentRole::Worker) if orchestrators.is_empty() => {
                add("role", "a worker needs an orchestrator; give one agent the role `orchestrator`".into());
            }
            (None, AgentRole::Worker) if orchestrators.len() > 1 => {
                add("orchestrator", "there are several orchestrators; name the one it works for".into());
            }
            _ => {}
        }
        for (nth, name) in agent.tools.iter().flatten().enumerate() {
            if let Some(fault) = tools::name_fault(name) {
                add(&format!("tools[{nth}]"), fault);
            }
        }
        let inside = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        if agent.instructions.as_deref().is_some_and(|path| !inside(path)) {
            add("instructions", "must be a file of the workspace, without `..` or a leading `/`".into());
        }
        if agent.workspace.as_deref().is_some_and(|path| !is_free(path)) {
            add("workspace", "must be a directory below the state directory, of no other use and without `..`".into());
        }
        let mut before = agents.list[..at].iter();
        if let Some(other) =
            before.find(|other| other.workspace_path() == agent.workspace_path() && other.id != agent.id)
        {
            add("workspace", format!("this is the workspace of `{}` too; give each its own", other.id));
        }
    }
    let mut teams = HashSet::new();
    for (at, team) in config.teams.iter().enumerate() {
        if !teams.insert(&team.id) {
            problems.push(Problem::new(format!("teams[{at}].id"), "this id is taken by a team before it"));
        }
    }
    problems
}
