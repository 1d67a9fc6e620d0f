//! Where entries of one object or array go and come in its text.
//! Keeps true: the edits of a container do not overlap and touch only the space between its entries and the entries that go; no comma stands
//! twice, and the last entry has one if the last one had. Never: removes a comment, but the ones at the end of a line that goes.

use crate::lines;
use crate::node::{Entry, Node};
use crate::write::{self, Item, Style};
use std::ops::Range;

/// Other text in place of a range.
#[derive(Debug)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

/// A container whose entries change.
pub struct Change<'a> {
    pub text: &'a str,
    pub node: &'a Node,
    /// For each entry, whether it goes.
    pub gone: &'a [bool],
    /// What is added after the last entry.
    pub added: &'a [Item<'a>],
}

impl Change<'_> {
    /// The edits, in a container that stands in one manner and whose entries have another.
    pub fn edits(&self, outside: &Style, inside: &Style, edits: &mut Vec<Edit>) {
        let removals = self.removals();
        if removals.is_empty() && self.added.is_empty() {
            return;
        }
        let last = self.node.entries.iter().zip(self.gone).rfind(|(_, gone)| !**gone).map(|(entry, _)| entry);
        if last.is_none() && self.is_blank_without(&removals) {
            let mut text = String::new();
            write::container(&mut text, self.node.shape, self.added, &outside.indent, inside);
            return edits.push(Edit { range: self.node.start..self.node.end, text });
        }
        edits.extend(removals.into_iter().map(|range| Edit { range, text: String::new() }));
        if !self.added.is_empty() {
            self.append(last, inside, edits);
        } else if let Some(comma) = last.and_then(|entry| entry.comma)
            && self.node.entries.last().is_some_and(|entry| entry.comma.is_none())
        {
            edits.push(Edit { range: comma..comma + 1, text: String::new() });
        }
    }

    /// Puts the new entries after the last one that stays, past the comments of its line.
    fn append(&self, last: Option<&Entry>, style: &Style, edits: &mut Vec<Edit>) {
        let after = match last {
            Some(Entry { comma: Some(comma), .. }) => comma + 1,
            Some(entry) => {
                edits.push(Edit { range: entry.value.end..entry.value.end, text: ",".to_owned() });
                entry.value.end
            }
            None => self.node.inner_start(),
        };
        let place = if style.one_line {
            lines::comments_end(self.text, after)
        } else {
            lines::rest_of_line(self.text, after).unwrap_or(after)
        };
        let mut text = String::new();
        for (index, item) in self.added.iter().enumerate() {
            if style.one_line {
                text.push(' ');
            } else {
                text.push_str(style.newline);
                text.push_str(&style.indent);
            }
            write::item(&mut text, *item, style);
            if index + 1 < self.added.len() || style.trailing {
                text.push(',');
            }
        }
        edits.push(Edit { range: place..place, text });
    }

    /// What goes from the text, in its order.
    fn removals(&self) -> Vec<Range<usize>> {
        let mut removals = Vec::new();
        let mut entries =
            self.node.entries.iter().zip(self.gone).filter(|(_, gone)| **gone).map(|(entry, _)| entry).peekable();
        while let Some(first) = entries.next() {
            let mut last = first;
            // Neighbours with nothing but blanks between them go as one, or their shared line would stay behind empty.
            while let Some(next) = entries.next_if(|next| lines::blanks_end(self.text, self.end(last)) == next.start) {
                last = next;
            }
            removals.push(self.removal(first.start, self.end(last)));
            if let Some(comma) = last.comma.filter(|comma| *comma >= self.end(last)) {
                removals.push(comma..comma + 1);
            }
        }
        removals
    }

    /// The end of an entry, with its comma if that is on the same line.
    fn end(&self, entry: &Entry) -> usize {
        match entry.comma {
            Some(comma) if !lines::has_line_end(&self.text[entry.value.end..comma]) => comma + 1,
            _ => entry.value.end,
        }
    }

    /// Whole lines if nothing else stands on them, else the entries and the blanks on one side.
    fn removal(&self, start: usize, end: usize) -> Range<usize> {
        let line_end = lines::rest_of_line(self.text, end);
        if let (Some(line_end), true) = (line_end, lines::is_first_on_line(self.text, start)) {
            return lines::blanks_start(self.text, start)..lines::next_line(self.text, line_end);
        }
        let next = lines::blanks_end(self.text, end);
        if next == self.node.inner_end() || line_end == Some(next) {
            lines::blanks_start(self.text, start)..end
        } else {
            start..next
        }
    }

    fn is_blank_without(&self, removals: &[Range<usize>]) -> bool {
        let mut from = self.node.inner_start();
        let mut blank = true;
        for removal in removals {
            blank &= self.text[from..removal.start].chars().all(lines::is_space);
            from = removal.end;
        }
        blank && self.text[from..self.node.inner_end()].chars().all(lines::is_space)
    }
}
