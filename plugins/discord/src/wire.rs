//! Reading Discord's JSON. Nothing here trusts a shape: what is missing or of another type is absent.

use serde_json::Value;

/// An id, which Discord writes as digits in a string.
pub fn id(value: &Value) -> Option<u64> {
    value.as_str().and_then(|text| text.parse().ok()).filter(|id| *id > 0)
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The elements of a list, at most this many.
pub fn list(value: &Value, max: usize) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(max)
}

/// Text without control characters but for line breaks and tabs, at most this many characters.
pub fn clean(text: &str, characters_max: usize) -> String {
    let kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(kept).take(characters_max).collect()
}

/// A name on one line.
pub fn name(text: &str) -> String {
    const NAME_MAX: usize = 100;
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(NAME_MAX).collect();
    line.trim().to_owned()
}

/// A number of seconds with a fraction, as milliseconds rounded up; at most a day.
pub fn seconds_as_ms(seconds: f64) -> u64 {
    const DAY_MS: f64 = 86_400_000.0;
    let ms = (seconds * 1_000.0).ceil();
    // A float that is no number becomes nothing, one that is too large the most.
    if ms.is_nan() { 0 } else { ms.clamp(0.0, DAY_MS) as u64 }
}
