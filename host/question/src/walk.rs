//! Where markers begin and end. A marker within another is a question of its own, and the outer one is read as if it were not there: so what
//! is left when all are cut out holds none.

use std::collections::HashMap;
use std::ops::Range;

use crate::QUESTION_CHARS_MAX;
use crate::fences::{INDENT_MAX, opening};
use crate::marker::Why;

pub(crate) const OPEN: &str = "[NEED_HUMAN";

/// What became of something that begins like a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is one. What is cut out ends here.
    Well {
        end: usize,
    },
    Bad(Why),
    /// What comes next will tell.
    Open,
}

/// A part of a text without code, and what begins like a marker in it.
pub(crate) struct Part<'a> {
    text: &'a str,
    pub(crate) range: Range<usize>,
    /// More of it may come.
    pub(crate) growing: bool,
    found: HashMap<usize, Found>,
}

impl<'a> Part<'a> {
    pub(crate) fn new(text: &'a str, range: Range<usize>, growing: bool) -> Self {
        let mut part = Self { text, range: range.clone(), growing, found: HashMap::new() };
        let starts: Vec<usize> = text[range.clone()]
            .match_indices(OPEN)
            .map(|(at, _)| range.start + at)
            .filter(|at| part.may_begin(*at))
            .collect();
        // From behind, so that what lies within one is known when it is read; never by recursion, since others write the text.
        for start in starts.into_iter().rev() {
            let found = part.read(start, &mut |_| {}, &mut |_| {});
            part.found.insert(start, found);
        }
        part
    }

    /// Whether a marker may begin here: at a line's start, or after something that may be cut out.
    fn may_begin(&self, at: usize) -> bool {
        let before = &self.text.as_bytes()[self.range.start..at];
        let blank = before.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        let (rest, indent) = before.split_at(before.len() - blank);
        match rest.last() {
            None | Some(b'\n') => indent.len() <= INDENT_MAX && indent.iter().all(|byte| *byte == b' '),
            last => last == Some(&b']'),
        }
    }

    /// What begins like a marker at a line's start, or might once more of it has come, and where.
    pub(crate) fn at(&self, line: usize) -> Option<(usize, Found)> {
        let rest = &self.text[line..self.range.end];
        let indent = rest.bytes().take_while(|byte| *byte == b' ').count();
        let start = line + indent;
        if indent > INDENT_MAX {
            return None;
        }
        if self.growing && rest.len() - indent < OPEN.len() && OPEN.starts_with(&rest[indent..]) {
            return Some((start, Found::Open));
        }
        self.found.get(&start).map(|found| (start, *found))
    }

    /// Reads on from the beginning of a marker; `take` gets the characters of its question, `inner` the markers within it.
    pub(crate) fn read(&self, start: usize, take: &mut dyn FnMut(char), inner: &mut dyn FnMut(usize)) -> Found {
        let unfinished = if self.growing { Found::Open } else { Found::Bad(Why::Unclosed) };
        let rest = &self.text[start + OPEN.len()..self.range.end];
        match rest.chars().next() {
            Some(':') => {}
            None if self.growing => return Found::Open,
            _ => return Found::Bad(Why::NoColon),
        }
        let (mut at, mut depth, mut count, mut blank, mut at_line) = (start + OPEN.len() + 1, 1usize, 0, true, false);
        while at < self.range.end {
            if at_line {
                match self.at(at) {
                    Some((within, Found::Well { end })) => {
                        inner(within);
                        at = end;
                        continue;
                    }
                    Some((_, Found::Open)) => return Found::Open,
                    Some((_, Found::Bad(_))) | None => {}
                }
            }
            let Some(c) = self.text[at..].chars().next() else { break };
            at += c.len_utf8();
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return if blank { self.closed(at, Some(Why::Empty)) } else { self.closed(at, None) };
            }
            take(c);
            blank &= c.is_whitespace();
            at_line = c == '\n';
            count += 1;
            if count > QUESTION_CHARS_MAX {
                return Found::Bad(Why::TooLong);
            }
        }
        unfinished
    }

    /// A marker is closed: what follows on its line moves to the line's start, where it must not become a fence.
    fn closed(&self, at: usize, why: Option<Why>) -> Found {
        if let Some(why) = why {
            return Found::Bad(why);
        }
        let rest = &self.text[at..self.range.end];
        let left = rest.trim_start_matches([' ', '\t', '\r']);
        let end = self.range.end - left.len();
        let line = left.split_inclusive('\n').next().unwrap_or_default();
        let marks = line.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        match marks {
            _ if left.is_empty() && self.growing => Found::Open,
            // Whether it is a fence, its whole line tells.
            Some(_) if self.growing && !line.ends_with('\n') => Found::Open,
            Some(_) if opening(line).is_some() => Found::Bad(Why::CodeFollows),
            _ if left.starts_with('\n') => Found::Well { end: end + 1 },
            _ => Found::Well { end },
        }
    }
}
