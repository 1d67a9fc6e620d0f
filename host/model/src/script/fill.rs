//! Placeholders of a script: `{{input}}`, `{{result}}`, `{{result.KEY}}`, `{{agent}}` and `{{turn}}`.
//! Keeps true: what is put in is not looked at again, so nobody's words become a placeholder; all texts of one answer together stay
//! within a bound. Never: fails; what is not there is put in as nothing.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Run;
use crate::Turn;

const INSERTED_CHARS_MAX: usize = 500;
/// A script of a mebibyte could name the input a hundred thousand times.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

pub(super) struct Fill<'a> {
    agent: &'a str,
    input: &'a str,
    turn: usize,
    result: &'a str,
    /// The keys of this run's results, each from the last that has it.
    keys: Map<String, Value>,
    bytes_left: usize,
}

/// A part of a text with placeholders.
enum Part<'t> {
    Text(&'t str),
    Placeholder(&'t str),
}

impl<'a> Fill<'a> {
    pub fn new(agent: &'a str, run: &Run<'a>, turns: &'a [Turn]) -> Self {
        let begin = turns.iter().rposition(|turn| matches!(turn, Turn::User { .. })).unwrap_or(0);
        let results = turns[begin..].iter().flat_map(|turn| match turn {
            Turn::Results(results) => results.as_slice(),
            Turn::User { .. } | Turn::Assistant { .. } => &[],
        });
        let (mut result, mut keys) = ("", Map::new());
        for one in results {
            result = &one.text;
            keys.extend(serde_json::from_str::<Map<String, Value>>(result).unwrap_or_default());
        }
        Self { agent, input: run.input, turn: run.turn, result, keys, bytes_left: ANSWER_BYTES_MAX }
    }

    pub fn text(&mut self, text: &str) -> String {
        let mut filled = String::new();
        for part in parts(text) {
            if self.bytes_left == 0 {
                break;
            }
            let value = match part {
                Part::Text(text) => Cow::Borrowed(text),
                Part::Placeholder(name) => self.value(name),
            };
            let fits = value.floor_char_boundary(self.bytes_left.min(value.len()));
            filled.push_str(&value[..fits]);
            self.bytes_left -= fits;
        }
        filled
    }

    pub fn object(&mut self, object: &Map<String, Value>) -> Map<String, Value> {
        object.iter().map(|(key, value)| (key.clone(), self.json(value))).collect()
    }

    fn json(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(object) => Value::Object(self.object(object)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn value(&self, name: &str) -> Cow<'_, str> {
        match name {
            "input" => Cow::Borrowed(head(self.input)),
            "result" => Cow::Borrowed(head(self.result)),
            "agent" => Cow::Borrowed(head(self.agent)),
            "turn" => Cow::Owned(self.turn.to_string()),
            _ => match name.strip_prefix("result.").and_then(|key| self.keys.get(key)) {
                Some(Value::String(text)) => Cow::Borrowed(head(text)),
                Some(value) => Cow::Owned(head(&value.to_string()).to_owned()),
                None => Cow::Borrowed(""),
            },
        }
    }
}

/// The first placeholder of a text that nothing is known to put in for.
pub(super) fn unknown_placeholder(text: &str) -> Option<&str> {
    let is_known = |name: &str| {
        matches!(name, "input" | "result" | "agent" | "turn")
            || name.strip_prefix("result.").is_some_and(|key| !key.is_empty())
    };
    parts(text).into_iter().find_map(|part| match part {
        Part::Placeholder(name) if !is_known(name) => Some(name),
        Part::Placeholder(_) | Part::Text(_) => None,
    })
}

/// Braces that are never closed are text.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else { break };
        parts.push(Part::Text(before));
        parts.push(Part::Placeholder(name.trim()));
        rest = behind;
    }
    parts.push(Part::Text(rest));
    parts
}

fn head(text: &str) -> &str {
    text.char_indices().nth(INSERTED_CHARS_MAX).map_or(text, |(at, _)| &text[..at])
}
