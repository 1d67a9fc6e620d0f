//! All that the next instance must know, as JSON under the name `webhook/1`.
//! Keeps true: every list has its limit; a snapshot of an earlier version is read, one of another kind is refused.

use chela_sdk::channel::keep::{self, Seen};
use chela_sdk::channel::{Calls, Deliveries, State as Snapshot};
use serde::{Deserialize, Serialize};

use crate::outgoing::Purpose;

pub const SCHEMA: &str = "webhook/1";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct State {
    /// Calls that were taken lately. What falls out is known to the host by its id.
    pub seen: Seen,
    /// The minute that calls are counted in, and how many came.
    pub minute_ms: u64,
    pub minute_count: u32,
    pub calls: Calls<Purpose>,
    pub deliveries: Deliveries,
    /// Requests in a row that came to nothing.
    pub failures: u32,
    /// The receiver refused the signature: nothing more is sent before an operator has changed something.
    pub halted: bool,
}

impl State {
    pub fn snapshot(&self) -> Snapshot {
        keep::snapshot(SCHEMA, self)
    }

    pub fn restored(snapshot: &Snapshot) -> Result<Self, String> {
        let mut state: Self = keep::restored(SCHEMA, snapshot)?;
        state.deliveries.trim();
        Ok(state)
    }
}
