//! Where everything stands in a text: spans of values, keys and commas.
//! Keeps true: spans are byte ranges of the text that was read; entries are in its order, keys that stand twice included.

use crate::lines;
use crate::path::Step;

/// Longer texts are no configuration; one is read and written several times for each change.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Nesting of objects and arrays; everything here recurses this deep at most.
pub const DEPTH_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Scalar,
    Array,
    Object,
}

#[derive(Debug)]
pub struct Node {
    pub start: usize,
    pub end: usize,
    pub shape: Shape,
    pub entries: Vec<Entry>,
}

/// An entry of an array, or a key of an object with its value.
#[derive(Debug)]
pub struct Entry {
    /// Where the key begins, or the value of an array's entry.
    pub start: usize,
    pub key: Option<Key>,
    pub value: Node,
    pub comma: Option<usize>,
}

#[derive(Debug)]
pub struct Key {
    pub name: String,
    /// Written without quotes.
    pub bare: bool,
}

impl Node {
    /// Where the entries begin, after the bracket.
    pub fn inner_start(&self) -> usize {
        self.start + 1
    }

    /// Where the entries end, before the bracket.
    pub fn inner_end(&self) -> usize {
        self.end - 1
    }

    /// No line ends between the entries; those inside of entries do not count.
    pub fn is_one_line(&self, text: &str) -> bool {
        let mut from = self.inner_start();
        for entry in &self.entries {
            if lines::has_line_end(&text[from..entry.start]) {
                return false;
            }
            from = entry.value.end;
        }
        !lines::has_line_end(&text[from..self.inner_end()])
    }

    /// The node at the end of as many steps as exist.
    pub fn nearest(&self, steps: &[Step]) -> &Node {
        let mut node = self;
        for step in steps {
            let next = match step {
                Step::Key(name) => {
                    node.entries.iter().rfind(|entry| entry.key.as_ref().is_some_and(|key| key.name == *name))
                }
                Step::Index(index) if node.shape == Shape::Array => node.entries.get(*index),
                Step::Index(_) | Step::Every => None,
            };
            let Some(entry) = next else { break };
            node = &entry.value;
        }
        node
    }
}
