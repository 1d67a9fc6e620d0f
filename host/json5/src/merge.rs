//! The values that a patch asks for, computed without any text.
//! Keeps true: entries of an array go only if the array is named for it, or its key is deleted. Never: changes the order of what is there.

use crate::error::Error;
use crate::path::{self, Step};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Objects and arrays are nested no deeper than this.
pub fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(entries) => depth > 0 && entries.iter().all(|entry| fits(entry, depth - 1)),
        Value::Object(members) => depth > 0 && members.values().all(|member| fits(member, depth - 1)),
        _ => true,
    }
}

/// What an object is known by in an array.
pub fn id(value: &Value) -> Option<&Value> {
    value.as_object()?.get("id").filter(|id| id.is_string() || id.is_number())
}

/// The old value with the patch applied; entries may go from the arrays that a pattern names.
pub fn merged(old: &Value, patch: &Map<String, Value>, replace: &[Vec<Step>]) -> Result<Value, Error> {
    Merge { replace, path: Vec::new() }.object(Some(old), patch)
}

struct Merge<'a> {
    replace: &'a [Vec<Step>],
    path: Vec<Step>,
}

impl Merge<'_> {
    fn inside(&mut self, step: Step, old: Option<&Value>, patch: &Value) -> Result<Value, Error> {
        self.path.push(step);
        let value = self.value(old, patch);
        self.path.pop();
        value
    }

    fn value(&mut self, old: Option<&Value>, patch: &Value) -> Result<Value, Error> {
        match patch {
            Value::Object(patch) => self.object(old, patch),
            Value::Array(patch) => self.array(old, patch),
            _ => {
                self.refuse_loss(old, &[])?;
                Ok(patch.clone())
            }
        }
    }

    fn object(&mut self, old: Option<&Value>, patch: &Map<String, Value>) -> Result<Value, Error> {
        self.refuse_loss(old, &[])?;
        let nothing = Map::new();
        let old = old.and_then(Value::as_object).unwrap_or(&nothing);
        let mut new = Map::new();
        for (name, value) in old {
            match patch.get(name) {
                Some(Value::Null) => (),
                Some(patch) => {
                    new.insert(name.clone(), self.inside(Step::Key(name.clone()), Some(value), patch)?);
                }
                None => {
                    new.insert(name.clone(), value.clone());
                }
            }
        }
        for (name, patch) in patch.iter().filter(|(name, patch)| !patch.is_null() && !old.contains_key(*name)) {
            new.insert(name.clone(), self.inside(Step::Key(name.clone()), None, patch)?);
        }
        Ok(Value::Object(new))
    }

    fn array(&mut self, old: Option<&Value>, patch: &[Value]) -> Result<Value, Error> {
        let entries = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        // An empty patch says nothing about ids; merging it would silently do nothing where somebody meant to empty the array.
        let by_id = !patch.is_empty() && patch.iter().chain(entries).all(|entry| id(entry).is_some());
        if by_id && !self.may_replace() {
            return self.by_id(entries, patch);
        }
        self.refuse_loss(old, patch)?;
        Ok(Value::Array(patch.to_vec()))
    }

    fn by_id(&mut self, old: &[Value], patch: &[Value]) -> Result<Value, Error> {
        let mut new: Vec<Option<Value>> = old.iter().cloned().map(Some).collect();
        let mut known = HashMap::new();
        for (index, entry) in old.iter().enumerate() {
            known.entry(id(entry)).or_insert(index);
        }
        for patch in patch {
            let index = *known.entry(id(patch)).or_insert(new.len());
            let before = new.get_mut(index).and_then(Option::take);
            let after = Some(self.inside(Step::Index(index), before.as_ref(), patch)?);
            match new.get_mut(index) {
                Some(entry) => *entry = after,
                None => new.push(after),
            }
        }
        Ok(Value::Array(new.into_iter().flatten().collect()))
    }

    /// An array may only lose entries if it is named for it.
    fn refuse_loss(&self, old: Option<&Value>, new: &[Value]) -> Result<(), Error> {
        let Some(Value::Array(old)) = old else { return Ok(()) };
        if loses(old, new) && !self.may_replace() {
            return Err(Error::WouldRemove { path: path::shown(&self.path) });
        }
        Ok(())
    }

    fn may_replace(&self) -> bool {
        self.replace.iter().any(|pattern| path::matches(pattern, &self.path))
    }
}

/// Some entry of the old is not among the new, or fewer times.
fn loses(old: &[Value], new: &[Value]) -> bool {
    let mut left: HashMap<&Value, usize> = HashMap::new();
    for entry in new {
        *left.entry(entry).or_default() += 1;
    }
    !old.iter()
        .all(|entry| left.get_mut(entry).is_some_and(|count| count.checked_sub(1).map(|less| *count = less).is_some()))
}
