//! How many tokens a text is, about: for bounds and for providers that do not count.
//! Keeps true: more text is never fewer tokens. Never: knows the tokenizer of any model.

/// Errs on the high side and costs one walk over the text: a Korean, Chinese or Japanese character counts as one token, and of
/// everything else 3.5 bytes do, rounded up. English prose is nearer to 4.5 bytes a token, code and JSON nearer to 3.
pub fn estimate_tokens(text: &str) -> usize {
    let mut characters = 0_usize;
    let mut bytes = 0_usize;
    for character in text.chars() {
        if is_east_asian(character) { characters += 1 } else { bytes += character.len_utf8() }
    }
    characters + (bytes * 2).div_ceil(7)
}

fn is_east_asian(character: char) -> bool {
    matches!(u32::from(character),
        0x1100..=0x11FF      // Hangul jamo
        | 0x2E80..=0x9FFF    // radicals, kana, compatibility jamo, ideographs
        | 0xA960..=0xA97F    // Hangul jamo
        | 0xAC00..=0xD7FF    // Hangul syllables
        | 0xF900..=0xFAFF    // compatibility ideographs
        | 0xFE30..=0xFE4F    // vertical forms
        | 0xFF00..=0xFFEF    // full-width forms
        | 0x20000..=0x3FFFF) // ideographs of the higher planes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn korean_counts_by_characters_and_the_rest_by_bytes() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("a"), 1);
        assert_eq!(estimate_tokens("abcdefg"), 2);
        assert_eq!(estimate_tokens("안녕하세요"), 5);
        assert_eq!(estimate_tokens("東京タワー"), 5);
        assert_eq!(estimate_tokens("안녕 abcdef"), 2 + 2);
        assert_eq!(estimate_tokens(&"word ".repeat(700)), 1000);
    }
}
