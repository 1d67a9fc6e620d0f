//! Reading a network's JSON and headers. Nothing here trusts a shape: what is missing or of another type is absent.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An object with these fields alone: what a network sends besides is passed over, which costs a tenth of reading it.
pub fn pick(json: &str, fields: &'static [&'static str]) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let picked = Fields(fields).deserialize(&mut reader)?;
    reader.end()?;
    Ok(picked)
}

struct Fields(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Fields {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut picked = Map::with_capacity(self.0.len());
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match self.0.iter().any(|field| *field == name) {
                true => drop(picked.insert(name.into_owned(), map.next_value()?)),
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(picked))
    }
}

/// A value as JSON, in one go; its `to_string` goes piece by piece, which takes three times as long.
pub fn written(value: &Value) -> String {
    serde_json::to_string(value).expect("a value is JSON")
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

/// At most this many characters, with a sign that there were more.
pub fn shortened(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let start: String = text.chars().take(characters_max.saturating_sub(1)).collect();
    format!("{start}…")
}

/// A number of seconds with a fraction, as milliseconds rounded up; at most a day.
pub fn seconds_as_ms(seconds: f64) -> u64 {
    const DAY_MS: f64 = 86_400_000.0;
    let ms = (seconds * 1_000.0).ceil();
    // A float that is no number becomes nothing, one that is too large the most.
    if ms.is_nan() { 0 } else { ms.clamp(0.0, DAY_MS) as u64 }
}

/// A received header; names are the same in any case.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The number of seconds in a header, as milliseconds. A date is not understood: it is taken for absent.
pub fn retry_after_ms(headers: &[(String, String)]) -> Option<u64> {
    let seconds: f64 = header(headers, "retry-after")?.trim().parse().ok()?;
    Some(seconds_as_ms(seconds))
}

/// Adds a line to a text, unless it is empty.
pub fn add_line(text: &mut String, line: &str) {
    if line.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// An attachment as a link; none when its address is not one.
pub fn link(title: &str, url: &str) -> Option<String> {
    let is_plain =
        url.len() <= 2_000 && url.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '(' | ')' | '<' | '>'));
    let is_address = url.starts_with("https://") || url.starts_with("http://");
    let title = name(title).replace(['[', ']', '\\'], "_");
    let title = if title.is_empty() { "attachment".into() } else { title };
    (is_plain && is_address).then(|| format!("[{title}]({url})"))
}

/// FNV-1a: short, and the same in every version.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether a text can be an id within a target: what the host takes, and no colon.
pub fn is_id(text: &str) -> bool {
    const ID_MAX: usize = 64;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+' | '#');
    !text.is_empty() && text.chars().count() <= ID_MAX && text.chars().all(plain)
}

/// Whether a text says where people are, as the host takes it: `channel:ID`, `channel:ID:thread:ID` or `direct:ID`.
pub fn is_target(text: &str) -> bool {
    match text.split(':').collect::<Vec<_>>().as_slice() {
        ["channel" | "direct", id] => is_id(id),
        ["channel", id, "thread", thread] => is_id(id) && is_id(thread),
        _ => false,
    }
}

/// Whether a text is an address with one of these schemes and no query, which a path may be added to.
pub fn is_base_address(url: &str, schemes: [&str; 2]) -> bool {
    let good = schemes.iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    let plain = url.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '@'));
    good && plain && !url.ends_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_milliseconds_whatever_they_say() {
        let after = |value: &str| retry_after_ms(&[("Retry-After".to_owned(), value.to_owned())]);
        assert_eq!(after("1.25"), Some(1_250));
        assert_eq!(after("-3"), Some(0));
        assert_eq!(after("1e300"), Some(86_400_000));
        assert_eq!(after("NaN"), Some(0));
        assert_eq!(after("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(retry_after_ms(&[]), None);
    }

    #[test]
    fn what_is_not_asked_for_is_passed_over() {
        let picked = pick(r#"{"a": [1, {"b": 2}], "x": {"a": 3}, "\u0063": null, "a": 4}"#, &["a", "c"]);
        assert_eq!(picked.expect("an object"), serde_json::json!({ "a": 4, "c": null }));
        for bad in ["", "[1]", "7", "{", r#"{"a": }"#, r#"{"x": [}"#, r#"{"a": 1} 2"#] {
            assert!(pick(bad, &["a"]).is_err(), "{bad}");
        }
    }

    #[test]
    fn links_are_addresses_and_nothing_else() {
        assert_eq!(link("a[1].png", "https://x.example/a").as_deref(), Some("[a_1_.png](https://x.example/a)"));
        assert_eq!(link("", "http://x/a").as_deref(), Some("[attachment](http://x/a)"));
        for bad in ["javascript:alert(1)", "https://x/a b", "https://x/(a)", "", "ftp://x"] {
            assert_eq!(link("a", bad), None, "{bad}");
        }
    }

    #[test]
    fn base_addresses_have_a_scheme_and_no_query() {
        let good = |url: &str| is_base_address(url, ["https://", "http://"]);
        assert!(good("https://api.example/v1") && good("http://127.0.0.1:80"));
        for bad in ["api.example", "https://", "https://x/", "https://x?a", "https://a@b", "wss://x", "https://x y"] {
            assert!(!good(bad), "{bad}");
        }
    }

    #[test]
    fn targets_are_those_that_the_host_takes() {
        for good in ["channel:7", "channel:C07.x:thread:17.5", "direct:eden@x", "channel:-100123"] {
            assert!(is_target(good), "{good}");
        }
        for bad in [
            "",
            "channel",
            "channel:",
            "channel:a b",
            "direct:1:thread:2",
            "channel:1:thread:",
            "group:1",
            "channel:a/b",
        ] {
            assert!(!is_target(bad), "{bad}");
        }
        assert!(is_id(&"x".repeat(64)) && !is_id(&"x".repeat(65)));
    }

    #[test]
    fn long_texts_are_cut_with_a_sign() {
        assert_eq!(shortened("한국어", 3), "한국어");
        assert_eq!(shortened("한국어다", 3), "한국…");
        assert_eq!(clean("a\u{0}b\u{1b}\n\tc", 4), "ab\n\t");
        assert_eq!(name(" a\nb "), "a b");
    }
}
