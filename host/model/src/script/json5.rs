//! JSON5 of bounded depth as a value.
//! Keeps true: no text overflows the stack, since the JSON5 crate leaves depth to its caller. Never: lets a key be given twice.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::ScriptError;

/// The arguments of a call may have 16 levels, and stand 6 below the top.
const DEPTH_MAX: usize = 24;

pub(super) fn value(text: &str) -> Result<Value, ScriptError> {
    // By way of a type, since only so the crate looks at what follows the value.
    json5::from_str(text).map(|Top(value)| value).map_err(|error| {
        let place = error.position().map(|at| format!(" at line {} column {}", at.line + 1, at.column + 1));
        let words = error.to_string();
        // The crate appends the position in its own words; ours come first.
        let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
        let problem = words.replacen("EOF parsing ", "the text ends within the ", 1);
        let problem = problem.replacen("trailing characters", "take out what follows the closing brace", 1);
        ScriptError::Syntax { place: place.unwrap_or_default(), problem }
    })
}

struct Top(Value);

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bounded { depth: 0 }.deserialize(deserializer).map(Self)
    }
}

#[derive(Clone, Copy)]
struct Bounded {
    depth: usize,
}

impl Bounded {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX {
            return Err(E::custom(format!("nested deeper than {DEPTH_MAX} levels")));
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
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // JSON5 has NaN and Infinity; the JSON that a tool gets has not.
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("write a number that JSON has too"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(deeper)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` is given twice; keep one")));
            }
            let value = entries.next_value_seed(deeper)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
