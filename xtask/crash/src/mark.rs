//! What an event of these lives carries, so that the log itself tells what must stand before it.

use serde::{Deserialize, Serialize};

/// Threads that emit at the same time.
pub const LANES: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub life: u32,
    pub lane: usize,
    /// The place among the events of its lane in its life.
    pub n: u64,
    /// How many events of each lane had been acknowledged when this one was made: all of them stand before it.
    pub after: Vec<u64>,
}
