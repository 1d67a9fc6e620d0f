//! `[NEED_HUMAN: …]` in what a model writes: at a line's start, outside code and quotes, brackets balanced, ended by `]`.

use crate::fences::{self, Part as Cut};
use crate::walk::{Found, OPEN, Part};
use crate::{QUESTION_CHARS_MAX, QUESTIONS_AT_ONCE};

/// Why something that looks like a marker is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    NoColon,
    Empty,
    TooLong,
    Unclosed,
    /// A code fence follows on its line.
    CodeFollows,
    NotAtLineStart,
}

impl Why {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoColon => "there is no colon after NEED_HUMAN",
            Self::Empty => "the question is empty",
            Self::TooLong => "the question is longer than 2000 characters",
            Self::Unclosed => "the closing bracket is missing",
            Self::CodeFollows => "code begins on its line",
            Self::NotAtLineStart => "it is not at the start of a line",
        }
    }
}

/// What looks like a marker and stays text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Malformed {
    pub count: usize,
    /// Each reason once.
    pub why: Vec<Why>,
}

impl Malformed {
    fn add(&mut self, why: Why) {
        self.count += 1;
        if !self.why.contains(&why) {
            self.why.push(why);
        }
    }
}

/// What an output asks of people, and what is left to show of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    pub questions: Vec<String>,
    /// Well-formed ones past the first few.
    pub left_out: usize,
    pub malformed: Malformed,
    /// The text without its markers.
    pub visible: String,
}

/// Reads the final text of a run.
pub fn parse_human_query(text: &str) -> Parsed {
    let mut reader = Reader::new(text, false);
    reader.read();
    let mut found = reader.questions;
    found.sort_by_key(|(at, _)| *at);
    let left_out = found.len().saturating_sub(QUESTIONS_AT_ONCE);
    if !found.is_empty() {
        reader.visible.truncate(reader.visible.trim_end().len());
    }
    let questions = found.into_iter().take(QUESTIONS_AT_ONCE).map(|(_, question)| question).collect();
    Parsed { questions, left_out, malformed: reader.malformed, visible: reader.visible }
}

/// What may be shown of a text that still grows: the beginning of what will be visible of the whole, whatever comes.
pub fn visible_so_far(text: &str) -> String {
    let mut reader = Reader::new(text, true);
    reader.read();
    let mut visible = reader.visible;
    visible.truncate(visible.trim_end().len());
    visible
}

struct Reader<'a> {
    text: &'a str,
    growing: bool,
    visible: String,
    questions: Vec<(usize, String)>,
    malformed: Malformed,
    /// Nothing but markers so far: blank lines after them are not shown.
    only_markers: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, growing: bool) -> Self {
        let (visible, questions, malformed) = (String::new(), Vec::new(), Malformed::default());
        Self { text, growing, visible, questions, malformed, only_markers: false }
    }

    fn read(&mut self) {
        let (parts, doubtful) = fences::parts(self.text, self.growing);
        let count = parts.len();
        for (nth, part) in parts.into_iter().enumerate() {
            match part {
                Cut::Code(range) => {
                    self.visible.push_str(&self.text[range]);
                    self.only_markers = false;
                }
                Cut::Plain(range) => {
                    let last = nth + 1 == count || (doubtful && nth + 2 == count);
                    let part = Part::new(self.text, range, self.growing && last);
                    if !self.read_plain(&part) {
                        return;
                    }
                }
            }
        }
    }

    /// Reads a part without code; false where it cannot be told yet how it goes on.
    fn read_plain(&mut self, part: &Part<'_>) -> bool {
        let mut at = part.range.start;
        while at < part.range.end {
            match part.at(at) {
                Some((start, Found::Well { end })) => {
                    self.take(part, start);
                    self.only_markers |= self.visible.is_empty();
                    at = end;
                    continue;
                }
                Some((_, Found::Open)) => return false,
                Some((_, Found::Bad(why))) => self.malformed.add(why),
                None => {}
            }
            let rest = &self.text[at..part.range.end];
            let line = rest.split_inclusive('\n').next().unwrap_or(rest);
            self.note_elsewhere(line);
            if !(self.only_markers && line.trim().is_empty()) {
                self.visible.push_str(line);
                self.only_markers = false;
            }
            at += line.len();
        }
        true
    }

    /// Takes a question and those within it. Without recursion: others decide how deep they lie.
    fn take(&mut self, part: &Part<'_>, start: usize) {
        let mut left = vec![start];
        while let Some(start) = left.pop() {
            let mut question = String::new();
            part.read(start, &mut |c| question.push(c), &mut |within| left.push(within));
            debug_assert!(question.chars().count() <= QUESTION_CHARS_MAX);
            self.questions.push((start, question.trim().to_owned()));
        }
    }

    /// Notes what looks like a marker within a line. What is quoted is nobody's question.
    fn note_elsewhere(&mut self, line: &str) {
        if line.trim_start().starts_with('>') {
            return;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        for (at, _) in line.match_indices(OPEN) {
            if at > indent && !line[..at].ends_with('`') {
                self.malformed.add(Why::NotAtLineStart);
            }
        }
    }
}
