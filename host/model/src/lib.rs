//! What a model is asked and what it answers, in the wire formats of providers.
//! Keeps true: the same bytes give the same answer however they are cut; no input panics; everything that is gathered has a bound; a
//! message never repeats a key. Never: opens a socket, knows the time, retries, or remembers one request while it serves the next.

mod request;
mod tokens;
mod failure;
mod secrets;
mod refusal;
mod conversation;
mod wire;
mod anthropic;
mod openai;
mod sse;
mod gathered;
mod decoder;
pub mod script;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod properties;

pub use decoder::{Decoder, Delta};
pub use failure::{Failure, FailureKind};
pub use refusal::refused;
pub use request::{Answer, Request, Stop, ToolCall, ToolResult, ToolSpec, Turn, Usage};
pub use script::{Script, ScriptError, Scripted};
pub use tokens::estimate_tokens;
pub use wire::Wire;
