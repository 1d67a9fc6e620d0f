//! Chela: a gateway for teams of AI agents whose policies are WebAssembly components.
//!
//! The rooms in reading order, from plain words up to the door. Each uses only rooms before it; `tests/tidy.rs` holds them to it.

// 1 words: plain types
pub mod clock;
pub mod id;
pub mod session_key;
pub mod lineage;
pub mod scope;
pub mod port;
pub mod schema;
pub mod layout;
pub mod config;
pub mod event;
pub mod policy;

// 2 machinery
pub mod metrics;
pub mod bus;
pub mod journal;
pub mod results;
pub mod feed;
pub mod logs;
pub mod tls;
pub mod run;
pub mod supervisor;
pub mod watch;
pub mod settings;
pub mod egress;
pub mod traces;
pub mod models;
pub mod plugins;

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
