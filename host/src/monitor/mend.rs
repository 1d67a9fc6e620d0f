//! Halves of characters: a writer that counts as JavaScript does may cut an emoji in two and write `\ud83d` alone, which no text can hold.
//! Keeps true: a line keeps its length, so that places in the log stay what they are; a whole character is left alone.

/// As long as what it takes the place of.
const LOST: &[u8; 6] = b"\\ufffd";

/// Puts the mark of a lost character in place of every half one.
pub(super) fn mend(line: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = line.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        at += match (unit(line, at), unit(line, at + LOST.len())) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * LOST.len(),
            (Some(0xd800..=0xdfff), _) => {
                line[at..at + LOST.len()].copy_from_slice(LOST);
                LOST.len()
            }
            // The byte after a backslash belongs to it.
            _ => 2,
        };
    }
}

/// What the escape at `at` stands for, if there is one.
fn unit(line: &[u8], at: usize) -> Option<u16> {
    let digits = line.get(at..at + LOST.len())?.strip_prefix(b"\\u")?;
    let digits = str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_character_is_marked_as_lost_and_a_whole_one_stays() {
        let check = |text: &str, expected: &str| {
            let mut line = text.as_bytes().to_vec();
            mend(&mut line);
            assert_eq!(String::from_utf8_lossy(&line), expected);
        };
        check(r#""\ud83d\ude00 \u0041""#, r#""\ud83d\ude00 \u0041""#);
        check(r#""\ud83d""#, r#""\ufffd""#);
        check(r#""\uDE00\uD83D\uDE00""#, r#""\ufffd\uD83D\uDE00""#);
        check(r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#);
        check(r#""\\ud83d \\\ud83d""#, r#""\\ud83d \\\ufffd""#);
        check(r#""\ud83d\"#, r#""\ufffd\"#);
        check(r#""\u+83d \ud8"#, r#""\u+83d \ud8"#);
        check("", "");
    }
}
