//! Flows between agents: one asks, the other answers, they go back and forth a little, and somebody is told what came of it.
//! Each flow is a [`Job`], moved only by [`step`]. Keeps true: a finished job never changes; a recorded turn is never sent again; every
//! flow ends. Never: touches a disk, reads a clock, asks a model.

mod chain;
mod create;
mod job;
mod step;
mod tell;
mod words;

pub use chain::{Chain, Limits, Refused, Used};
pub use create::{New, again, create, told_as_begun};
pub use job::{Announce, AnnounceState, Announced, Attempt, Delivery, DeliveryState, Job, Kind, Phase, Place, Status};
pub use step::{BACKOFF_MS_MAX, Effect, Input, Message, Next, WaitStatus, step};
pub use tell::{Happened, What, late};
pub use words::{Language, agent_of, is_subagent};

/// What a deployment says about flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub language: Language,
    /// How long a run of the other side may take before nobody waits for it.
    pub wait_ms: u64,
    /// Before the first further try; it doubles with each.
    pub backoff_ms: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { language: Language::Ko, wait_ms: 300_000, backoff_ms: 2_000 }
    }
}

#[cfg(test)]
mod tests;
