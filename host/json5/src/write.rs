//! New values as text, in the manner of the place where they go.
//! Keeps true: what is written reads as the same value; only plain ASCII words go without quotes.

use crate::lines;
use crate::node::{Node, Shape};
use serde_json::Value;

/// Arrays of plain values stay on one line up to this many characters.
const LINE_CHARS_MAX: usize = 80;

/// One step of indentation is no wider; it is repeated for every level of a new value.
const UNIT_CHARS_MAX: usize = 8;

/// The manner of a place.
#[derive(Clone, Debug)]
pub struct Style<'a> {
    pub newline: &'static str,
    /// One step of indentation.
    pub unit: &'a str,
    /// The indentation of the line on which the value stands.
    pub indent: String,
    /// Keys go without quotes where they can.
    pub bare: bool,
    /// The last entry of several lines has a comma.
    pub trailing: bool,
    /// Everything stays on one line.
    pub one_line: bool,
    /// Each new entry stays on its line, as the ones before it in an array do.
    pub flat: bool,
}

impl<'a> Style<'a> {
    pub fn of_document(text: &'a str, root: &Node) -> Self {
        let indent_at = |at| if lines::is_first_on_line(text, at) { lines::indent(text, at) } else { "" };
        let indent = indent_at(root.start);
        let first = root.entries.iter().map(|entry| indent_at(entry.start)).find(|indent| !indent.is_empty());
        let usual = if text.contains("\n\t") { "\t" } else { "  " };
        let unit = first.and_then(|first| first.strip_prefix(indent));
        let unit = unit.filter(|unit| (1..=UNIT_CHARS_MAX).contains(&unit.len())).unwrap_or(usual);
        // Double quotes are the default: a text that was plain JSON stays plain JSON.
        Self {
            newline: lines::newline(text),
            unit,
            indent: indent.to_owned(),
            bare: false,
            trailing: false,
            one_line: false,
            flat: false,
        }
    }

    /// The manner of the entries in a container that stands in this manner.
    pub fn inside(&self, text: &str, node: &Node) -> Self {
        let empty = text[node.inner_start()..node.inner_end()].chars().all(lines::is_space);
        let one_line = node.is_one_line(text) && (self.one_line || !empty);
        let sibling = node.entries.iter().rfind(|entry| lines::is_first_on_line(text, entry.start));
        let indent = match sibling {
            Some(entry) => lines::indent(text, entry.start).to_owned(),
            None if one_line => self.indent.clone(),
            None => format!("{}{}", self.indent, self.unit),
        };
        let trailing = node.entries.last().map_or(self.trailing, |entry| entry.comma.is_some());
        let flat = node.shape == Shape::Array
            && node
                .entries
                .iter()
                .rfind(|entry| !entry.value.entries.is_empty())
                .is_some_and(|entry| entry.value.is_one_line(text));
        Self { indent, trailing, one_line, flat, bare: bare_keys(node).unwrap_or(self.bare), ..self.clone() }
    }
}

/// Whether all keys go without quotes; those of an array are the keys of its first object.
fn bare_keys(node: &Node) -> Option<bool> {
    match node.shape {
        Shape::Scalar => None,
        Shape::Array => node.entries.iter().find_map(|entry| match entry.value.shape {
            Shape::Object => bare_keys(&entry.value),
            Shape::Scalar | Shape::Array => None,
        }),
        Shape::Object if node.entries.is_empty() => None,
        Shape::Object => Some(node.entries.iter().all(|entry| entry.key.as_ref().is_some_and(|key| key.bare))),
    }
}

/// A value, after the key of an object's member.
pub type Item<'a> = (Option<&'a str>, &'a Value);

pub fn item(out: &mut String, (key, member): Item, style: &Style) {
    if let Some(key) = key {
        if style.bare && is_word(key) {
            out.push_str(key)
        } else {
            string(out, key, '"')
        }
        out.push_str(": ");
    }
    value(out, member, &Style { one_line: style.one_line || style.flat, flat: false, ..style.clone() });
}

pub fn value(out: &mut String, value: &Value, style: &Style) {
    let (shape, items): (_, Vec<Item>) = match value {
        Value::String(text) => return string(out, text, '"'),
        Value::Array(entries) => (Shape::Array, entries.iter().map(|entry| (None, entry)).collect()),
        Value::Object(members) => {
            (Shape::Object, members.iter().map(|(key, member)| (Some(key.as_str()), member)).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => return out.push_str(&value.to_string()),
    };
    let mut inside = style.clone();
    let plain = shape == Shape::Array && !items.iter().any(|(_, entry)| entry.is_array() || entry.is_object());
    inside.one_line |= plain && value.to_string().chars().count() <= LINE_CHARS_MAX;
    if !inside.one_line {
        inside.indent.push_str(style.unit);
    }
    container(out, shape, &items, &style.indent, &inside);
}

/// A whole object or array whose bracket closes at an indentation and whose entries have their own manner.
pub fn container(out: &mut String, shape: Shape, items: &[Item], indent: &str, inside: &Style) {
    let (open, close) = if shape == Shape::Object { ('{', '}') } else { ('[', ']') };
    out.push(open);
    for (index, one) in items.iter().enumerate() {
        if !inside.one_line {
            out.push_str(inside.newline);
            out.push_str(&inside.indent);
        } else if index > 0 {
            out.push(' ');
        }
        item(out, *one, inside);
        if index + 1 < items.len() || (inside.trailing && !inside.one_line) {
            out.push(',');
        }
    }
    if !inside.one_line && !items.is_empty() {
        out.push_str(inside.newline);
        out.push_str(indent);
    }
    out.push(close);
}

pub fn string(out: &mut String, text: &str, quote: char) {
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0}'..='\u{1f}' | '\u{7f}' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            _ if c == quote => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out.push(quote);
}

fn is_word(key: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    key.starts_with(letter) && key.chars().all(|c| letter(c) || c.is_ascii_digit())
}
