//! The words of policy: what a deployment's policies are asked and what they answer, in Rust and as JSON.
//! Keeps true: what is here says nothing of how a policy is run. Never: decides anything.

/// A policy sees a step as its file says it.
pub use chela_taskfile::StepStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A kind of policy, and of the component that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    Classifier,
    Guard,
    Continuation,
    /// A chat network.
    Channel,
}

impl World {
    pub const ALL: [Self; 4] = [Self::Classifier, Self::Guard, Self::Continuation, Self::Channel];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Classifier => "classifier",
            Self::Guard => "guard",
            Self::Continuation => "continuation",
            Self::Channel => "channel",
        }
    }
}

/// What is known of one event whose writer did not say its role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct EventFacts {
    #[serde(rename = "type")]
    pub event_type: String,
    pub agent: String,
    pub from_agent: String,
    pub to_agent: String,
    /// The sender's first.
    pub session_keys: Vec<String>,
    pub work_session: String,
}

/// Events whose roles are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RolesInput {
    pub main_agents: Vec<String>,
    pub events: Vec<EventFacts>,
}

/// The first and last messages of a work session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Conversation {
    pub texts: Vec<String>,
    pub participants: Vec<String>,
    pub tags: Vec<String>,
}

/// Conversations whose categories are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CategoriesInput {
    /// The keys of the deployment's table.
    pub categories: Vec<String>,
    pub conversations: Vec<Conversation>,
}

/// How a category was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Rule,
    Heuristic,
    /// No category: nothing claimed one.
    Fallback,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Classification {
    pub primary: Option<String>,
    pub secondary: Vec<String>,
    pub sub_tags: Vec<String>,
    pub confidence: f64,
    pub source: Source,
    pub reason: String,
}

impl Classification {
    /// No category.
    pub fn none(reason: impl Into<String>) -> Self {
        Self {
            primary: None,
            secondary: Vec::new(),
            sub_tags: Vec::new(),
            confidence: 0.0,
            source: Source::Fallback,
            reason: reason.into(),
        }
    }
}

/// An agent as a policy sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Actor {
    pub id: String,
    pub role: String,
    pub session_key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    pub id: String,
    pub content: String,
    pub status: StepStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    pub description: String,
    pub status: String,
    pub steps: Vec<Step>,
}

impl Task {
    pub fn open_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.status.is_open())
    }
}

/// A tool call that is about to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ToolCall {
    pub tool: String,
    pub arguments: Map<String, Value>,
    pub agent: Actor,
    pub task: Option<Task>,
}

/// What a guard says about a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    Allow,
    AllowWith { warning: String },
    Block(Block),
    Rewrite { arguments: Map<String, Value> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    pub reason: String,
    /// Ids of the task's steps that stand in the way.
    pub remaining: Vec<String>,
    pub instructions: Vec<String>,
}

/// An agent that is about to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct InstructionsInput {
    pub agent: Actor,
}

/// What noticed that an agent stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    #[default]
    SelfDriving,
    EventBased,
    Polling,
    Unblock,
    Backlog,
    Zombie,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Counters {
    pub in_a_row: u32,
    pub in_a_row_max: u32,
    pub without_progress: u32,
    pub requests: u32,
    pub requests_max: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Blocker {
    pub kind: String,
    pub reason: String,
    pub action: String,
    pub owner: String,
}

/// An agent that stopped with work left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct NextInput {
    pub agent: Actor,
    pub layer: Layer,
    pub task: Option<Task>,
    pub blocker: Option<Blocker>,
    pub counters: Counters,
    pub idle_ms: u64,
    pub last_error: String,
    pub same_error: u32,
    /// What was answered for this task before.
    pub earlier: String,
    /// What is told beside the fixed fields: `in-all`, `in-all-max`, `today`, `today-max`, `tokens` and `tokens-max` of the task.
    pub attrs: Vec<(String, String)>,
}

/// What to do about an agent that stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    Send { prompt: String },
    Skip { reason: String },
    Backoff { ms: u64 },
}
