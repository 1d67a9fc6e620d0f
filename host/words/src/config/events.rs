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
    /// How large the log may grow in all; past that its oldest files go before their days are over. 0 is without a bound. Needs a restart.
    #[schemars(range(max = 100_000_000))]
    pub keep_megabytes: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self { group_ms: 5, keep_days: 180, keep_megabytes: 20_000 }
    }
}

impl Events {
    pub fn group(&self) -> Duration {
        Duration::from_millis(self.group_ms)
    }

    pub fn bytes_max(&self) -> u64 {
        match self.keep_megabytes {
            0 => u64::MAX,
            megabytes => megabytes.saturating_mul(1_000_000),
        }
    }

    pub fn keep(&self) -> Duration {
        Duration::from_secs(u64::from(self.keep_days) * 86_400)
    }
}
