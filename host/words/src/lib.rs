//! The words of the gateway: plain types that every room speaks in. No async, no sockets, no wasm; only the configuration's schema knows more than values.
//! In reading order: each uses only those before it.

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
