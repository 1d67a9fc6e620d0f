//! Lines, blanks and comments around a place of a text.
//! Keeps true: every answer is a character boundary. Never: looks inside a value, so a place must stand between the words of the text.

/// Lines that are indented further are no work of a person; repeating it for each new entry would fill the memory.
const INDENT_CHARS_MAX: usize = 128;

/// What ends a line, and with it a `//` comment.
pub fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// White space that does not end a line.
pub fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\u{b}' | '\u{c}' | ' ' | '\u{a0}' | '\u{feff}')
        || matches!(c, '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

pub fn is_space(c: char) -> bool {
    is_blank(c) || is_line_end(c)
}

pub fn has_line_end(text: &str) -> bool {
    text.contains(is_line_end)
}

/// The end of the comment that begins at `at`; nothing if none does or if it is never closed.
pub fn comment_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with("//") {
        Some(rest.find(is_line_end).map_or(text.len(), |length| at + length))
    } else if let Some(body) = rest.strip_prefix("/*") {
        body.find("*/").map(|length| at + length + 4)
    } else {
        None
    }
}

pub fn blanks_end(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches(is_blank).len()
}

pub fn blanks_start(text: &str, at: usize) -> usize {
    text[..at].trim_end_matches(is_blank).len()
}

/// Only blanks stand before `at` on its line.
pub fn is_first_on_line(text: &str, at: usize) -> bool {
    text[..blanks_start(text, at)].chars().next_back().is_none_or(is_line_end)
}

/// The spaces and tabs before what is first on its line, as far as they are worth repeating on many lines.
pub fn indent(text: &str, at: usize) -> &str {
    let start = text[..at].trim_end_matches([' ', '\t']).len();
    &text[start.max(at.saturating_sub(INDENT_CHARS_MAX))..at]
}

/// The end of the line, if only blanks and comments that end on it follow `at`.
pub fn rest_of_line(text: &str, at: usize) -> Option<usize> {
    let mut place = blanks_end(text, at);
    while let Some(end) = comment_end(text, place) {
        if has_line_end(&text[place..end]) {
            return None;
        }
        place = blanks_end(text, end);
    }
    text[place..].chars().next().is_none_or(is_line_end).then_some(place)
}

/// The end of the last comment of those that follow `at` on its line, or `at`.
pub fn comments_end(text: &str, at: usize) -> usize {
    let mut place = at;
    while let Some(end) = comment_end(text, blanks_end(text, place)) {
        if has_line_end(&text[place..end]) {
            break;
        }
        place = end;
    }
    place
}

/// The start of the line after the one that ends at `at`.
pub fn next_line(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    if rest.starts_with("\r\n") { at + 2 } else { at + rest.chars().next().map_or(0, char::len_utf8) }
}

/// The line end that the text uses.
pub fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Line and column of a place, both from one, the column in characters.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let (mut line, mut column, mut before) = (1, 1, ' ');
    for c in text[..at].chars() {
        if c == '\n' && before == '\r' {
            // The two are one line end, counted at the first.
        } else if is_line_end(c) {
            (line, column) = (line + 1, 1);
        } else {
            column += 1;
        }
        before = c;
    }
    (line, column)
}
