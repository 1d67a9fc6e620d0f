//! One conversation as one normalised text: lower case, white space collapsed, messages apart, titles at the end.
//! Keeps true: never longer than `BYTES_MAX`, however much was said.

/// What is looked at of a conversation, in bytes.
pub const BYTES_MAX: usize = 16 * 1024;

/// What is looked at of one message: a pasted log must not crowd out the messages after it.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// What is looked at of all titles.
const TAGS_BYTES_MAX: usize = 2 * 1024;

/// Messages and titles, each ended by a line break, so that no keyword matches across two of them.
#[derive(Debug, Default)]
pub struct Text {
    pub all: String,
    /// Where the titles begin.
    pub tags_at: usize,
}

impl Text {
    pub fn of(texts: &[String], tags: &[String]) -> Self {
        let mut all =
            String::with_capacity(texts.iter().chain(tags).map(|text| text.len() + 1).sum::<usize>().min(BYTES_MAX));
        let words_max = BYTES_MAX - TAGS_BYTES_MAX;
        for text in texts {
            let left = words_max.saturating_sub(all.len());
            push_line(&mut all, text, MESSAGE_BYTES_MAX.min(left));
        }
        let tags_at = all.len();
        for tag in tags {
            let left = (tags_at + TAGS_BYTES_MAX).saturating_sub(all.len());
            push_line(&mut all, tag, left);
        }
        Self { all, tags_at }
    }
}

/// The same form for a keyword or a name.
pub fn normalise(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    push_line(&mut line, text, usize::MAX);
    line.pop();
    line
}

/// Adds at most `bytes_max` bytes, the line break included; nothing when there is no word.
fn push_line(out: &mut String, text: &str, bytes_max: usize) {
    // Room for a space, the longest lower case of a character and the line break.
    let Some(bytes_max) = bytes_max.checked_sub(8) else { return };
    let start = out.len();
    let mut space = false;
    // White space is looked at as well, however little of it is kept.
    let mut rest = &text[..text.floor_char_boundary(bytes_max.saturating_mul(2))];
    while let Some(c) = rest.chars().next() {
        let left = bytes_max.saturating_sub(out.len() - start);
        if left == 0 {
            break;
        }
        if c.is_whitespace() || c.is_control() {
            space = out.len() > start;
            rest = &rest[c.len_utf8()..];
            continue;
        }
        if std::mem::take(&mut space) {
            out.push(' ');
        }
        // What stays as it is goes in one piece: nearly all of a text.
        let same = unchanged(&rest.as_bytes()[..rest.floor_char_boundary(left)]);
        if same > 0 {
            out.push_str(&rest[..same]);
            rest = &rest[same..];
        } else {
            out.extend(c.to_lowercase());
            rest = &rest[c.len_utf8()..];
        }
    }
    if out.len() > start {
        out.push('\n');
    }
}

/// How many bytes at the beginning are small letters, signs and syllables of Korean, with single spaces between them.
fn unchanged(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match bytes.get(at) {
            Some(b'!'..=b'@' | b'['..=b'~') => at += 1,
            Some(b' ') if matches!(bytes.get(at + 1), Some(b'!'..=b'~' | 0xeb..=0xed)) => at += 1,
            // Three bytes from U+AC00 to U+D7FF: Korean, and no capital among them.
            Some(0xeb..=0xed) => at += 3,
            Some(0xea) if bytes.get(at + 1).is_some_and(|second| *second >= 0xb0) => at += 3,
            _ => return at.min(bytes.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&str], tags: &[&str], expected: &str) {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let text = Text::of(&owned(texts), &owned(tags));
        assert_eq!(format!("{}|{}", &text.all[..text.tags_at], &text.all[text.tags_at..]), expected);
    }

    #[test]
    fn case_and_white_space_do_not_count() {
        check(&["  Deploy \n\t NOW ", "배포　후"], &["Release  1"], "deploy now\n배포 후\n|release 1\n");
        check(&["", " \n"], &[], "|");
        assert_eq!(normalise("  Roll   Back*"), "roll back*");
    }

    #[test]
    fn a_long_conversation_is_cut_between_characters() {
        for filler in ["a", "가", "İ", "a ", "가나 "] {
            let long = vec![filler.repeat(20_000); 9];
            let text = Text::of(&long, &long);
            assert!(text.all.len() <= BYTES_MAX, "{} bytes of {filler:?}", text.all.len());
            assert!(text.all.len() > BYTES_MAX - 100, "{} bytes of {filler:?}", text.all.len());
        }
    }

    #[test]
    fn spaces_collapse_whatever_stands_beside_them() {
        check(&["a  b \u{3000} 가\u{a0} Ａ  \u{1}x", "É  é", "ÀB c"], &[], "a b 가 ａ x\né é\nàb c\n|");
        check(&[&format!("{}말", " ".repeat(100_000))], &[], "|");
    }

    #[test]
    fn a_long_message_leaves_room_for_the_next() {
        let text = Text::of(&["x".repeat(100_000), "장애".into()], &["title".into()]);
        assert!(text.all.ends_with("장애\ntitle\n"));
    }
}
