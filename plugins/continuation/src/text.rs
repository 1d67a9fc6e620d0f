//! Limits of what a prompt quotes.
//! Keeps true: a cut falls between characters and costs no more than what is kept, however long the text. Never:
//! changes a text that is within its limit.

use std::borrow::Cow;

/// A step or an error in a prompt: long enough for a sentence or two, short enough for a list of them.
pub const LINE_CHARS_MAX: usize = 300;
/// A task's description, or why it is blocked.
pub const PARAGRAPH_CHARS_MAX: usize = 500;
/// Ids and names.
pub const NAME_CHARS_MAX: usize = 100;
/// What a deployment may write of its own.
pub const TEXT_CHARS_MAX: usize = 10_000;
/// A whole prompt; the longest built-in one, a hundred long steps, stays below it.
pub const PROMPT_CHARS_MAX: usize = 50_000;

/// The first `chars_max` characters, with `…` where something was left out.
pub fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// `1 hour`, `5 hours`, `less than an hour`.
pub fn count_of(count: u64, unit: &str, less_than_one: &str) -> String {
    match count {
        0 => less_than_one.to_owned(),
        1 => format!("1 {unit}"),
        _ => format!("{count} {unit}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, chars_max: usize, expected: &str) {
        assert_eq!(cut(text, chars_max), expected);
    }

    #[test]
    fn a_text_within_its_limit_stays_as_it_is() {
        check("", 0, "");
        check("abc", 3, "abc");
        check("로그인", 3, "로그인");
    }

    #[test]
    fn a_cut_falls_between_characters() {
        check("abcd", 3, "abc…");
        check("로그인 구현", 3, "로그인…");
        check("🦀🦀🦀", 2, "🦀🦀…");
        check("x", 0, "…");
    }

    #[test]
    fn a_count_has_its_plural() {
        assert_eq!(count_of(0, "hour", "less than an hour"), "less than an hour");
        assert_eq!(count_of(1, "hour", ""), "1 hour");
        assert_eq!(count_of(24, "hour", ""), "24 hours");
    }
}
