//! The patterns of all rules as one set, ASCII in what `\w`, `\d`, `\s` and `\b` mean.
//! Keeps true: a pattern means the same in every build, also where another crate turns the Unicode tables of `regex` on.

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

/// What one compiled set may take: 200 patterns of people stay far below.
const BYTES_MAX: usize = 4 << 20;

/// Compiles all patterns; an error says which one is at fault and why.
pub fn compile(patterns: &[String]) -> Result<RegexSet, (usize, String)> {
    let mut plain = Vec::with_capacity(patterns.len());
    for (at, pattern) in patterns.iter().enumerate() {
        plain.push(to_ascii(pattern).map_err(|message| (at, message))?);
    }
    let set = RegexSetBuilder::new(&plain).size_limit(BYTES_MAX).dfa_size_limit(BYTES_MAX).build();
    set.or_else(|error| {
        // Only the error of a pattern by itself tells which one it is.
        for (at, pattern) in plain.iter().enumerate() {
            one(pattern).map_err(|error| (at, last_line(&error)))?;
        }
        Err((plain.len() - 1, last_line(&error)))
    })
}

fn one(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(BYTES_MAX).build()
}

/// The crate draws the pattern over several lines; the last one says what is wrong.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Writes the classes out in ASCII, and letters in lower case as the text is.
fn to_ascii(pattern: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match (chars.next(), in_class) {
                (Some('w'), false) => plain.push_str("[0-9a-z_]"),
                (Some('w'), true) => plain.push_str("0-9a-z_"),
                (Some('W'), false) => plain.push_str("[^0-9a-z_]"),
                (Some('d'), false) => plain.push_str("[0-9]"),
                (Some('d'), true) => plain.push_str("0-9"),
                (Some('D'), false) => plain.push_str("[^0-9]"),
                (Some('s'), false) => plain.push_str("[ \\n]"),
                (Some('s'), true) => plain.push_str(" \\n"),
                (Some('S'), false) => plain.push_str("[^ \\n]"),
                (Some('b'), false) => plain.push_str("(?-u:\\b)"),
                (Some(other), _) if other.is_ascii_alphabetic() && !matches!(other, 'n' | 't') => {
                    return Err(format!("\\{other} is not understood here"));
                }
                (Some(other), _) => plain.extend(['\\', other]),
                (None, _) => return Err("ends with a backslash".into()),
            },
            '(' if !in_class && chars.peek() == Some(&'?') => {
                chars.next();
                if chars.next() != Some(':') {
                    return Err("flags and names of groups are not understood; write (?:...)".into());
                }
                plain.push_str("(?:");
            }
            '[' if in_class => return Err("write \\[ within a class".into()),
            '[' => {
                in_class = true;
                plain.push('[');
                // A bracket right behind the opening one is a member of the class.
                if chars.next_if_eq(&'^').is_some() {
                    plain.push('^');
                }
                if chars.next_if_eq(&']').is_some() {
                    plain.push_str("\\]");
                }
            }
            ']' => {
                in_class = false;
                plain.push(']');
            }
            _ => plain.extend(c.to_lowercase()),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: bool) {
        let set = compile(&[pattern.to_owned()]).expect("compiles");
        assert_eq!(set.is_match(text), expected, "{pattern} in {text}");
    }

    fn check_refused(patterns: &[&str], expected: &str) {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let (at, message) = compile(&patterns).expect_err("refused");
        assert_eq!(format!("{at} {message}"), expected);
    }

    #[test]
    fn classes_are_ascii_and_korean_letters_are_letters() {
        check("error rate (above|over) [0-9]+%", "the error rate over 40% since", true);
        check(r"\d+\s?건 환불", "환불 12 건 환불 처리", true);
        check(r"\btest\b", "latest", false);
        check(r"\btest\b", "test를", true);
        check(r"[\w.-]+@acme\.com", "to a.b@acme.com", true);
        check("[가-힣]+팀 배포", "플랫폼팀 배포", true);
        check("환.{0,4}불", "환 전액 불", true);
        check(r"HTTP [A-Z]+", "http get", true);
        check("[]a]b[^]]", "]bc", true);
    }

    #[test]
    fn a_bad_pattern_is_named() {
        check_refused(&["a", "b(", "c"], "1 unclosed group");
        check_refused(&["a", r"\p{Hangul}"], r"1 \p is not understood here");
        check_refused(&["(?i)a"], "0 flags and names of groups are not understood; write (?:...)");
        check_refused(&[r"[\W]"], r"0 \W is not understood here");
        check_refused(&["a", r"b\"], "1 ends with a backslash");
        check_refused(&["(a{500}){500}"], "0 Compiled regex exceeds size limit of 4194304 bytes.");
    }
}
