//! What a reading leaves behind beside its result: what was not taken, and what must be mended. Both have an end.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::schema::Problem;

/// Nobody reads more, and a hostile file could make them endless.
const IGNORED_MAX: usize = 500;
const PROBLEMS_MAX: usize = 32;
/// Of a key that a path shows.
const KEY_CHARS_MAX: usize = 60;

/// Something that was not taken over, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ignored {
    pub path: String,
    pub reason: String,
}

#[derive(Default)]
pub(super) struct Notes {
    ignored: Vec<Ignored>,
    ignored_more: usize,
    problems: Vec<Problem>,
    problems_more: bool,
}

impl Notes {
    pub(super) fn ignore(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        match self.ignored.len() < IGNORED_MAX {
            true => self.ignored.push(Ignored { path: path.into(), reason: reason.into() }),
            false => self.ignored_more += 1,
        }
    }

    pub(super) fn wrong(&mut self, path: impl Into<String>, message: impl Into<String>) {
        match self.problems.len() < PROBLEMS_MAX {
            true => self.problems.push(Problem::new(path, message)),
            false => self.problems_more = true,
        }
    }

    pub(super) fn end(mut self) -> (Vec<Ignored>, Vec<Problem>) {
        if self.ignored_more > 0 {
            let reason = format!("{} more, of which each has its reason", self.ignored_more);
            self.ignored.push(Ignored { path: "…".into(), reason });
        }
        if self.problems_more {
            self.problems.push(Problem::new("", "there is more; mend these first"));
        }
        (self.ignored, self.problems)
    }

    /// A text that stands for itself. The old system puts the environment's variables into texts, and nobody does that here.
    pub(super) fn text(&mut self, value: &Value, path: &str) -> Option<String> {
        match value {
            Value::Null => None,
            Value::String(text) if text.contains("${") => {
                self.ignore(path, "names a variable of the environment; write the text itself into chela.json");
                None
            }
            Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            other => {
                self.wrong(path, format!("must be a text, not {}", kind(other)));
                None
            }
        }
    }
}

/// The members of an object; none of what is not there. A file that it includes is not read, and must not be missing in silence.
pub(super) fn object<'a>(notes: &mut Notes, value: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    let members = match value {
        Value::Null => return None,
        Value::Object(members) => members,
        other => {
            notes.wrong(path, format!("must be an object, not {}", kind(other)));
            return None;
        }
    };
    if members.contains_key("$include") {
        notes.wrong(below(path, "$include"), "files that are included are not read; write what they say in its place");
    }
    Some(members)
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a yes or no",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The path of a member. A key that is no plain name is shown in quotes, cut, and without what would steer a terminal or end a comment.
pub(super) fn below(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    if !key.is_empty() && key.len() <= KEY_CHARS_MAX && key.chars().all(plain) {
        return if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    }
    let shown: String = key.chars().map(|c| if is_odd(c) { ' ' } else { c }).take(KEY_CHARS_MAX).collect();
    let cut = if key.chars().nth(KEY_CHARS_MAX).is_some() { "…" } else { "" };
    format!("{path}[\"{shown}{cut}\"]")
}

fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
