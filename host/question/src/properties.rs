//! Texts that nobody thought of: what holds for every one of them.

use crate::{QUESTION_CHARS_MAX, QUESTIONS_AT_ONCE, parse_human_query, visible_so_far};

const CASES: u32 = 50_000;

/// Pieces that texts are made of: whole markers, halves of them, code, quotes, and what lies between.
const PIECES: [&str; 34] = [
    "[NEED_HUMAN: which port?]",
    "[NEED_HUMAN:",
    "[NEED_HUMAN",
    "[NEED_H",
    "[NEED_HUMAN: ]",
    "[NEED_HUMAN: a [nested] one]",
    "[NEED_HUMAN: two\nlines]",
    "[NEED_HUMAN: a\n[NEED_HUMAN: b]\n]",
    "[",
    "]",
    "]]",
    "\n",
    "\n\n",
    "\r\n",
    " ",
    "   ",
    "    ",
    "\t",
    "```",
    "```\n",
    "~~~\n",
    "``",
    "`",
    "~",
    "````rust\n",
    "```a`b\n",
    "> ",
    "> [NEED_HUMAN: quoted]\n",
    "- ",
    "word",
    "질문",
    "🦀",
    ":",
    "NEED_HUMAN",
];

fn text(rng: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(..14) {
        match rng.u8(..40) {
            0 => text.push_str(&"x".repeat(rng.usize(1_900..2_100))),
            1 => text.push_str(&"[NEED_HUMAN: q]\n".repeat(rng.usize(1..9))),
            _ => text.push_str(PIECES[rng.usize(..PIECES.len())]),
        }
    }
    // A character lost or doubled somewhere.
    if rng.bool() && !text.is_empty() {
        let mut characters: Vec<char> = text.chars().collect();
        let at = rng.usize(..characters.len());
        match rng.bool() {
            true => characters.insert(at, characters[at]),
            false => _ = characters.remove(at),
        }
        text = characters.into_iter().collect();
    }
    text
}

#[test]
fn what_is_visible_holds_no_marker_and_grows_as_the_text_does() {
    let mut rng = fastrand::Rng::with_seed(0x4e45_4544);
    let (mut asked, mut malformed) = (0, 0);
    for case in 0..CASES {
        let text = text(&mut rng);
        let parsed = parse_human_query(&text);
        asked += usize::from(!parsed.questions.is_empty());
        malformed += usize::from(parsed.malformed.count > 0);
        assert!(parsed.questions.len() <= QUESTIONS_AT_ONCE);
        assert!(parsed.questions.iter().all(|question| {
            (1..=QUESTION_CHARS_MAX).contains(&question.chars().count()) && question.trim() == question
        }));
        let again = parse_human_query(&parsed.visible);
        assert!(again.questions.is_empty(), "case {case}: {text:?} leaves {:?}", parsed.visible);
        if parsed.questions.is_empty() {
            assert_eq!(parsed.visible, text, "case {case}");
        }
        let mut shown = String::new();
        let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        rng.shuffle(&mut ends);
        ends.truncate(12);
        ends.sort_unstable();
        for end in ends.into_iter().chain([text.len()]) {
            let now = visible_so_far(&text[..end]);
            assert!(now.starts_with(&shown), "case {case}: {shown:?} was shown of {:?}, now {now:?}", &text[..end]);
            assert!(parse_human_query(&now).questions.is_empty(), "case {case}: {now:?}");
            shown = now;
        }
        assert!(parsed.visible.starts_with(&shown), "case {case}: {shown:?} of {:?}: {text:?}", parsed.visible);
    }
    assert!(asked > 10_000 && malformed > 10_000, "the cases are of every kind: {asked} {malformed}");
}

#[test]
fn long_texts_of_nothing_but_markers_are_read_quickly() {
    let open = "[NEED_HUMAN: a\n".repeat(30_000);
    let both = format!("{open}{}", "]\n".repeat(30_000));
    for text in [open, both, "[NEED_HUMAN: a]".repeat(30_000), "[".repeat(400_000), "\n[NEED_HUMAN:[".repeat(30_000)] {
        let parsed = parse_human_query(&text);
        assert!(parse_human_query(&parsed.visible).questions.is_empty());
        assert!(parsed.visible.starts_with(&visible_so_far(&text)));
    }
}
