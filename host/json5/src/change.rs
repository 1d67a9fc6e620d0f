//! From the values that a text has and the values it shall have to the edits between them.
//! Keeps true: equal values are not touched; the new text is read again and handed out only if it says what it shall. Never: decides what a
//! patch means.

use crate::Patched;
use crate::error::Error;
use crate::layout::{Change, Edit};
use crate::lines;
use crate::merge;
use crate::node::{Entry, Node, Shape};
use crate::path::{self, Step};
use crate::scan;
use crate::write::{self, Item, Style};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The text with other values.
pub fn written(text: &str, node: &Node, old: &Value, new: &Value) -> Result<Patched, Error> {
    let mut walk = Walk { text, edits: Vec::new(), changed: Vec::new(), path: Vec::new() };
    walk.value(node, old, new, &Style::of_document(text, node));
    let Walk { edits, changed, .. } = walk;
    let text = applied(text, edits)?;
    if changed.is_empty() {
        return Ok(Patched { text, changed });
    }
    match scan::document(&text) {
        Ok((_, read)) if read == *new => Ok(Patched { text, changed }),
        Err(error @ Error::TooLong { .. }) => Err(error),
        Ok(_) | Err(_) => Err(Error::NotKept),
    }
}

fn applied(text: &str, mut edits: Vec<Edit>) -> Result<String, Error> {
    // The sort is stable: insertions at one place stay in the order in which they were made, and come before what is removed there.
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut new = String::with_capacity(text.len());
    let mut from = 0;
    for edit in edits {
        new.push_str(text.get(from..edit.range.start).ok_or(Error::NotKept)?);
        new.push_str(&edit.text);
        from = edit.range.end;
    }
    new.push_str(text.get(from..).ok_or(Error::NotKept)?);
    Ok(new)
}

struct Walk<'a> {
    text: &'a str,
    edits: Vec<Edit>,
    changed: Vec<String>,
    path: Vec<Step>,
}

impl Walk<'_> {
    fn value(&mut self, node: &Node, old: &Value, new: &Value, style: &Style) {
        match (old, new) {
            _ if old == new => (),
            (Value::Object(old), Value::Object(new)) if node.shape == Shape::Object => {
                self.object(node, old, new, style)
            }
            (Value::Array(old), Value::Array(new)) if node.shape == Shape::Array => self.array(node, old, new, style),
            _ => self.replace(node, new, style),
        }
    }

    fn replace(&mut self, node: &Node, new: &Value, style: &Style) {
        let mut text = String::new();
        match new {
            Value::String(new) if self.text[node.start..].starts_with('\'') => write::string(&mut text, new, '\''),
            _ => write::value(&mut text, new, style),
        }
        self.edits.push(Edit { range: node.start..node.end, text });
        self.changed.push(path::shown(&self.path));
    }

    fn entry(&mut self, step: Step, entry: &Entry, old: &Value, new: &Value, inside: &Style) {
        if old == new {
            return;
        }
        let mut style = inside.clone();
        if lines::is_first_on_line(self.text, entry.start) {
            style.indent = lines::indent(self.text, entry.start).to_owned();
        }
        self.path.push(step);
        self.value(&entry.value, old, new, &style);
        self.path.pop();
    }

    fn note(&mut self, step: Step) {
        self.path.push(step);
        self.changed.push(path::shown(&self.path));
        self.path.pop();
    }

    fn object(&mut self, node: &Node, old: &Map<String, Value>, new: &Map<String, Value>, style: &Style) {
        let inside = style.inside(self.text, node);
        let names: Vec<&str> =
            node.entries.iter().filter_map(|entry| Some(entry.key.as_ref()?.name.as_str())).collect();
        let counting: HashMap<&str, usize> = names.iter().enumerate().map(|(index, name)| (*name, index)).collect();
        let gone: Vec<bool> = names.iter().map(|name| !new.contains_key(*name)).collect();
        for (index, (entry, name)) in node.entries.iter().zip(names).enumerate() {
            // Of a key that stands twice only the last counts, so only that one is changed; but all of them go.
            if counting.get(name) != Some(&index) {
                continue;
            }
            match (old.get(name), new.get(name)) {
                (Some(old), Some(new)) => self.entry(Step::Key(name.to_owned()), entry, old, new, &inside),
                _ => self.note(Step::Key(name.to_owned())),
            }
        }
        let mut added: Vec<Item> = Vec::new();
        for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            self.note(Step::Key(name.clone()));
            added.push((Some(name), value));
        }
        Change { text: self.text, node, gone: &gone, added: &added }.edits(style, &inside, &mut self.edits);
    }

    fn array(&mut self, node: &Node, old: &[Value], new: &[Value], style: &Style) {
        let inside = style.inside(self.text, node);
        let changed_before = self.changed.len();
        let becomes = pairs(old, new);
        for ((entry, old), index) in node.entries.iter().zip(old).zip(&becomes) {
            if let Some((index, new)) = index.and_then(|index| Some((index, new.get(index)?))) {
                self.entry(Step::Index(index), entry, old, new, &inside);
            }
        }
        let gone: Vec<bool> = becomes.iter().map(Option::is_none).collect();
        let kept = becomes.iter().flatten().count();
        let added: Vec<Item> = new.iter().skip(kept).map(|value| (None, value)).collect();
        for index in kept..new.len() {
            self.note(Step::Index(index));
        }
        if gone.contains(&true) {
            // The entries after one that goes have other indices than before: only the array itself can be named.
            self.changed.truncate(changed_before);
            self.changed.push(path::shown(&self.path));
        }
        Change { text: self.text, node, gone: &gone, added: &added }.edits(style, &inside, &mut self.edits);
    }
}

/// For each old entry the index of the new one that it becomes; the new ones after these are appended.
/// Either entries go and the rest stays in order, or each becomes the one at its index: whichever leaves more as they are.
fn pairs(old: &[Value], new: &[Value]) -> Vec<Option<usize>> {
    let mut kept = 0;
    let in_order: Vec<Option<usize>> = old
        .iter()
        .map(|entry| {
            let index = new.get(kept).is_some_and(|new| is_same(entry, new)).then_some(kept);
            kept += usize::from(index.is_some());
            index
        })
        .collect();
    let in_place = old.iter().zip(new).filter(|(old, new)| is_same(old, new)).count();
    if kept > in_place { in_order } else { (0..old.len()).map(|index| (index < new.len()).then_some(index)).collect() }
}

fn is_same(old: &Value, new: &Value) -> bool {
    match (merge::id(old), merge::id(new)) {
        (Some(old), Some(new)) => old == new,
        _ => old == new,
    }
}
