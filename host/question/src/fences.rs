//! Which parts of a text are code between fences, as Markdown has it. A fence that is never closed goes on to the end.

use std::ops::Range;

/// Spaces that a line may begin with before it is code by that alone.
pub(crate) const INDENT_MAX: usize = 3;

/// A part of a text, whole lines each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Plain(Range<usize>),
    /// Code, the fences included.
    Code(Range<usize>),
}

/// Cuts a text at its fences. `growing`: the last line may not be whole, so a fence there may yet turn out to be none.
pub(crate) fn parts(text: &str, growing: bool) -> (Vec<Part>, bool) {
    let mut parts = Vec::new();
    let (mut begin, mut fence, mut at) = (0, None, 0);
    let mut doubtful = false;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match fence {
            None => {
                if let Some(opened) = opening(line) {
                    doubtful = growing && !line.ends_with('\n');
                    if at > begin {
                        parts.push(Part::Plain(begin..at));
                    }
                    (begin, fence) = (at, Some(opened));
                }
            }
            Some(opened) if closes(line, opened) => {
                parts.push(Part::Code(begin..end));
                (begin, fence) = (end, None);
            }
            Some(_) => {}
        }
        at = end;
    }
    if begin < text.len() {
        parts.push(if fence.is_some() { Part::Code(begin..text.len()) } else { Part::Plain(begin..text.len()) });
    }
    (parts, doubtful)
}

/// The character and the length of a fence that a line opens.
pub(crate) fn opening(line: &str) -> Option<(char, usize)> {
    let (mark, length, rest) = marks(line)?;
    // A word about the code may follow; with a backtick in it, it is code within a line.
    (length >= 3 && !(mark == '`' && rest.contains('`'))).then_some((mark, length))
}

fn closes(line: &str, (mark, length): (char, usize)) -> bool {
    marks(line).is_some_and(|(other, count, rest)| other == mark && count >= length && rest.trim().is_empty())
}

/// The marks that a line begins with, how many, and what follows.
fn marks(line: &str) -> Option<(char, usize, &str)> {
    let inner = line.trim_start_matches(' ');
    let mark = inner.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let count = inner.chars().take_while(|c| *c == mark).count();
    (line.len() - inner.len() <= INDENT_MAX).then(|| (mark, count, &inner[count..]))
}
