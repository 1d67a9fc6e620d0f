//! Chela: a gateway for teams of AI agents whose policies are WebAssembly components.
//!
//! The rooms in reading order, from plain words up to the door. Each uses only rooms before it; `tests/tidy.rs` holds them to it.

// 1 words: plain types, a crate of their own
pub use chela_words::{clock, config, event, id, layout, lineage, policy, port, schema, scope, session_key};

// 2 machinery, and the one room that knows WebAssembly
pub use chela_machinery::{
    bus, egress, feed, journal, logs, metrics, models, results, run, settings, supervisor, tls, traces, watch,
};
pub use chela_plugins as plugins;

// 3 flows
pub mod monitor;
pub mod tasks;
pub mod sessions;
pub mod jobs;
pub mod dialogues;
pub mod humans;
pub mod tools;
pub mod agents;
pub mod continuation;
pub mod channels;

// 4 edges
pub mod hub;
pub mod edge;
pub mod client;
pub mod app;
pub mod cli;

#[cfg(test)]
mod fuzz;
