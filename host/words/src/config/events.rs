//! How the event log is kept.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Events {
    /// How long an event may wait for others to share its flush to the disk. Needs a restart.
    #[schemars(range(min = 0, max = 1_000))]
    pub group_ms: u64,
    /// For how many days events are kept, in whole files of the log. Needs a restart.
    #[schemars(range(min = 1, max = 36_500))]
    pub keep_days: u32,
}

impl Default for Events {
    fn default() -> Self {
        Self { group_ms: 5, keep_days: 180 }
    }
}

impl Events {
    pub fn group(&self) -> Duration {
        Duration::from_millis(self.group_ms)
    }

    pub fn keep(&self) -> Duration {
        Duration::from_secs(u64::from(self.keep_days) * 86_400)
    }
}
