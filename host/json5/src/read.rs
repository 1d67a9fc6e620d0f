//! A whole JSON5 text as a value, for those who read and change nothing.
//! Keeps true: no text overflows the stack, since the JSON5 crate leaves depth to its caller. Never: lets a key stand twice, or text follow.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The deepest text that is read.
pub const READ_DEPTH_MAX: usize = 32;

/// Why a text was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {words}")]
pub struct Unread {
    /// ` at line 2 column 5`; empty where the text has no such place.
    pub place: String,
    pub words: String,
}

/// Reads a text of bounded depth.
pub fn read(text: &str) -> Result<Value, Unread> {
    // By way of a type, since only so the crate looks at what follows the value.
    json5::from_str(text).map(|Whole(value)| value).map_err(|error| {
        let place = error.position().map(|at| format!(" at line {} column {}", at.line + 1, at.column + 1));
        let words = error.to_string();
        // The crate appends the position in its own words; ours come first.
        let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
        let words = words.replacen("EOF parsing ", "the text ends within the ", 1);
        let words = words.replacen("trailing characters", "take out what follows the closing brace", 1);
        Unread { place: place.unwrap_or_default(), words }
    })
}

struct Whole(Value);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bounded { depth: 0 }.deserialize(deserializer).map(Self)
    }
}

/// Builds a value while counting depth.
#[derive(Clone, Copy)]
struct Bounded {
    depth: usize,
}

impl Bounded {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth == READ_DEPTH_MAX {
            return Err(E::custom(format!("nested deeper than {READ_DEPTH_MAX} levels")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Bounded {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON5 value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("infinity and NaN are no values here"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let below = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(below)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let below = self.deeper()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` stands twice")));
            }
            object.insert(key, entries.next_value_seed(below)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_said_with_its_place() {
        let check = |text: &str, expected: &str| {
            let unread = read(text).expect_err("unreadable");
            assert_eq!(format!("{}: {}", unread.place, unread.words), expected, "{text}");
        };
        check("{\n  a: {", " at line 2 column 6: the text ends within the object");
        check("", ": the text ends within the value");
        check("{} more", " at line 1 column 4: take out what follows the closing brace");
        check("{ a: 1, a: 2 }", " at line 1 column 1: the key `a` stands twice");
        check("[Infinity]", " at line 1 column 2: infinity and NaN are no values here");
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&deep(READ_DEPTH_MAX)).is_ok());
        let unread = read(&deep(READ_DEPTH_MAX + 1)).expect_err("too deep");
        assert_eq!(unread.words, format!("nested deeper than {READ_DEPTH_MAX} levels"));
        assert!(read(&deep(100_000)).is_err(), "no text overflows the stack");
    }
}
