//! How agents are kept at their tasks: when they are told to go on, and when that is enough.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens when an agent stops with work left. A 0 means the default: nothing here is without an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Continuation {
    /// Whether agents that stop with work left are told to go on.
    pub enabled: bool,
    pub delays: ContinuationDelays,
    pub caps: ContinuationCaps,
    pub errors: ContinuationErrors,
    pub poll: ContinuationPoll,
}

/// How long after something a stopped agent is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ContinuationDelays {
    /// From the end of a run to the first look.
    #[schemars(range(max = 600_000))]
    pub self_driving_ms: u64,
    /// From the end of a run to the second, where the first could not act.
    #[schemars(range(max = 600_000))]
    pub event_based_ms: u64,
    /// What a run that summed its conversation up adds to the first.
    #[schemars(range(max = 600_000))]
    pub compaction_ms: u64,
    /// A person who typed so lately is let finish.
    #[schemars(range(max = 600_000))]
    pub typing_ms: u64,
    /// After so long without a run or a continuation the row begins anew.
    #[schemars(range(max = 86_400_000))]
    pub cooldown_ms: u64,
}

/// At one of these the task is blocked, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ContinuationCaps {
    /// Continuations one after the other; progress, or a while of quiet, begins the row anew.
    #[schemars(range(max = 1_000))]
    pub in_a_row: u32,
    /// Continuations since the last progress, over all layers.
    #[schemars(range(max = 1_000))]
    pub without_progress: u32,
    /// Continuations of a task.
    #[schemars(range(max = 100_000))]
    pub in_all: u32,
    /// Continuations of a task on a day in UTC.
    #[schemars(range(max = 100_000))]
    pub per_day: u32,
    /// Tokens of the runs that ended while the task was in progress.
    pub tokens: u64,
}

/// What runs that end with an error mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ContinuationErrors {
    /// From so many runs in a row with the same error on, it is waited.
    #[schemars(range(max = 100))]
    pub back_off_from: u32,
    /// With so many the task is blocked.
    #[schemars(range(max = 1_000))]
    pub block_at: u32,
    /// The first wait; it doubles with each further error.
    #[schemars(range(max = 86_400_000))]
    pub backoff_ms: u64,
    /// The longest wait.
    #[schemars(range(max = 86_400_000))]
    pub backoff_max_ms: u64,
}

/// The regular look, which is the last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ContinuationPoll {
    /// Between two looks at every agent.
    #[schemars(range(max = 86_400_000))]
    pub every_ms: u64,
    /// How long an agent is idle before it is asked about.
    #[schemars(range(max = 86_400_000))]
    pub idle_ms: u64,
    /// Between two requests to unblock a task.
    #[schemars(range(max = 10_080))]
    pub unblock_minutes: u64,
    /// A task in progress without any activity for so long counts as dead.
    #[schemars(range(max = 8_760))]
    pub zombie_hours: u64,
    /// What becomes of a dead task.
    pub zombies: Zombies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Zombies {
    Abandon,
    Backlog,
}

impl Default for Continuation {
    fn default() -> Self {
        Self {
            enabled: true,
            delays: ContinuationDelays::default(),
            caps: ContinuationCaps::default(),
            errors: ContinuationErrors::default(),
            poll: ContinuationPoll::default(),
        }
    }
}

impl Default for ContinuationDelays {
    fn default() -> Self {
        Self {
            self_driving_ms: 500,
            event_based_ms: 2_000,
            compaction_ms: 5_000,
            typing_ms: 10_000,
            cooldown_ms: 60_000,
        }
    }
}

impl Default for ContinuationCaps {
    fn default() -> Self {
        Self { in_a_row: 20, without_progress: 30, in_all: 200, per_day: 100, tokens: 2_000_000 }
    }
}

impl Default for ContinuationErrors {
    fn default() -> Self {
        Self { back_off_from: 3, block_at: 6, backoff_ms: 60_000, backoff_max_ms: 1_800_000 }
    }
}

impl Default for ContinuationPoll {
    fn default() -> Self {
        Self { every_ms: 120_000, idle_ms: 180_000, unblock_minutes: 30, zombie_hours: 24, zombies: Zombies::Abandon }
    }
}
