//! Questions of agents to people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Human {
    /// How long a person may take to answer unless the question says otherwise; 0 is as long as it takes.
    #[schemars(range(max = 525_600))]
    pub deadline_minutes: u64,
    /// What happens then to a question without an answer for that case.
    pub on_deadline: OnDeadline,
    /// How long answered questions are kept.
    #[schemars(range(min = 1, max = 3_650))]
    pub keep_days: u32,
    /// How many of those are kept at most; the oldest go first.
    #[schemars(range(min = 100, max = 10_000_000))]
    pub keep_questions: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDeadline {
    /// It is told once, and the question stays open.
    #[default]
    Escalate,
    /// Whoever asked goes on without an answer.
    Expire,
}

impl Default for Human {
    fn default() -> Self {
        Self { deadline_minutes: 0, on_deadline: OnDeadline::default(), keep_days: 30, keep_questions: 10_000 }
    }
}
