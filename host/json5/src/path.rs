//! Dotted paths such as `agents.list[2].name`, and what stands at them in values.
//! Keeps true: what `shown` writes, `parse` reads as the same steps; keys with dots, brackets or quotes are written `["a.b"]`.

use crate::error::Error;
use crate::lines;
use crate::node::{DEPTH_MAX, Node};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
    /// Every index; only in patterns.
    Every,
}

/// The steps of a path; the empty path has none.
pub fn parse(path: &str) -> Result<Vec<Step>, Error> {
    let steps = pattern(path)?;
    match path.find("[]") {
        Some(at) if steps.contains(&Step::Every) => Err(bad(path, at, "give an index between the brackets")),
        _ => Ok(steps),
    }
}

/// The steps of a path in which `[]` stands for every index.
pub fn pattern(path: &str) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    let mut at = 0;
    while at < path.len() {
        let rest = &path[at..];
        let (step, length) = if rest.starts_with('[') {
            bracket(rest).ok_or_else(|| bad(path, at, "write an index such as [2], or a key such as [\"a.b\"]"))?
        } else {
            let dot = usize::from(!steps.is_empty() && rest.starts_with('.'));
            if dot == 0 && !steps.is_empty() {
                return Err(bad(path, at, "put a `.` before the next key"));
            }
            let name = &rest[dot..];
            let length = name.find(is_special).unwrap_or(name.len());
            if length == 0 {
                return Err(bad(path, at, "a key is missing here; write [\"\"] for an empty one"));
            }
            (Step::Key(name[..length].to_owned()), dot + length)
        };
        steps.push(step);
        at += length;
        if steps.len() > DEPTH_MAX {
            return Err(bad(path, at, "the path has too many steps; at most 64 are read"));
        }
    }
    Ok(steps)
}

/// The step in brackets at the start of this, and how long it is.
fn bracket(rest: &str) -> Option<(Step, usize)> {
    let inner = rest.strip_prefix('[')?;
    if inner.starts_with(']') {
        return Some((Step::Every, 2));
    }
    if inner.starts_with('"') {
        let mut values = serde_json::Deserializer::from_str(inner).into_iter::<String>();
        let name = values.next()?.ok()?;
        let length = values.byte_offset();
        return inner[length..].starts_with(']').then_some((Step::Key(name), length + 2));
    }
    let length = inner.find(']')?;
    let digits = &inner[..length];
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten().map(|index| (Step::Index(index), length + 2))
}

fn bad(path: &str, at: usize, what: &'static str) -> Error {
    Error::BadPath { path: path.to_owned(), column: path[..at].chars().count() + 1, what }
}

fn is_special(c: char) -> bool {
    matches!(c, '.' | '[' | ']' | '"')
}

pub fn shown(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(name) if name.is_empty() || name.contains(is_special) => {
                path.push_str(&format!("[{}]", Value::from(name.as_str())));
            }
            Step::Key(name) => {
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(name);
            }
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Every => path.push_str("[]"),
        }
    }
    path
}

pub fn matches(pattern: &[Step], steps: &[Step]) -> bool {
    let same =
        |(wanted, step): (&Step, &Step)| wanted == step || (*wanted == Step::Every && matches!(step, Step::Index(_)));
    pattern.len() == steps.len() && pattern.iter().zip(steps).all(same)
}

pub fn find<'a>(value: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(name) => value.as_object()?.get(name),
        Step::Index(index) => value.as_array()?.get(*index),
        Step::Every => None,
    })
}

/// Why a value cannot be put, after how many steps.
pub struct Refusal {
    steps: usize,
    why: Why,
}

enum Why {
    NotAnObject,
    NotAnArray,
    NoSuchEntry { entries: usize },
}

impl Refusal {
    pub fn at(self, text: &str, node: &Node, steps: &[Step]) -> Error {
        let steps = &steps[..self.steps];
        let (path, (line, column)) = (shown(steps), lines::position(text, node.nearest(steps).start));
        match self.why {
            Why::NotAnObject => Error::NotAnObject { path, line, column },
            Why::NotAnArray => Error::NotAnArray { path, line, column },
            Why::NoSuchEntry { entries } => Error::NoSuchEntry { path, entries, line, column },
        }
    }
}

/// Puts a value at the end of the steps; what is missing or null on the way becomes an object.
pub fn put(root: &mut Value, steps: &[Step], value: Value) -> Result<(), Refusal> {
    let mut place = root;
    for (taken, step) in steps.iter().enumerate() {
        let refusal = |why| Refusal { steps: taken, why };
        place = match step {
            Step::Key(name) => {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                let members = place.as_object_mut().ok_or_else(|| refusal(Why::NotAnObject))?;
                members.entry(name.as_str()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                let entries = place.as_array_mut().ok_or_else(|| refusal(Why::NotAnArray))?;
                let length = entries.len();
                if *index == length {
                    entries.push(Value::Null);
                }
                entries.get_mut(*index).ok_or_else(|| refusal(Why::NoSuchEntry { entries: length }))?
            }
            Step::Every => return Err(refusal(Why::NotAnArray)),
        };
    }
    *place = value;
    Ok(())
}

/// Removes what is at the end of the steps, if anything is.
pub fn remove(root: &mut Value, steps: &[Step]) -> Result<(), Error> {
    let Some((last, way)) = steps.split_last() else { return Err(Error::RootRemoved) };
    let parent = way.iter().try_fold(root, |value, step| match step {
        Step::Key(name) => value.as_object_mut()?.get_mut(name),
        Step::Index(index) => value.as_array_mut()?.get_mut(*index),
        Step::Every => None,
    });
    match (parent, last) {
        (Some(Value::Object(members)), Step::Key(name)) => {
            members.shift_remove(name);
        }
        (Some(Value::Array(entries)), Step::Index(index)) if *index < entries.len() => {
            entries.remove(*index);
        }
        _ => (),
    }
    Ok(())
}
