//! Reading Discord's JSON: what all adapters share, and its ids.

use serde_json::Value;

pub use chela_sdk::channel::wire::{
    add_line, clean, hash, header, link, list, name, pick, seconds_as_ms, shortened, text, written,
};

/// An id, which Discord writes as digits in a string.
pub fn id(value: &Value) -> Option<u64> {
    value.as_str().and_then(|text| text.parse().ok()).filter(|id| *id > 0)
}
