//! Texts of messages on their way to a page: without marks that only machines read, and no longer than a page can bear.

use chela_page::Bubble;

use super::BUBBLE_BYTES;

/// How the other side says that it could not answer.
const OUTCOME: &str = "[outcome]";
/// Names of tools that one bubble has.
const TOOLS_MAX: usize = 24;
const TAGS: [&str; 4] = ["[NO_REPLY_NEEDED]", "[NOTIFICATION]", "REPLY_SKIP", "ANNOUNCE_SKIP"];

/// A text as people read it, and whether it tells of a failure.
pub(super) fn readable(text: &str) -> (String, bool) {
    let mut text = text.trim();
    let mut failed = false;
    if let Some(rest) = text.strip_prefix(OUTCOME) {
        let rest = rest.trim_start();
        failed = rest.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("blocked"));
        text = rest.split_once(':').map_or(rest, |(_, said)| said.trim_start());
    }
    // What stands behind it is the goal all the same.
    let text = text.strip_prefix("[Goal]").map_or(text, str::trim_start);
    let text = TAGS.iter().fold(text.to_owned(), |text, tag| text.replace(tag, ""));
    (text.trim().to_owned(), failed)
}

/// Puts a text into a bubble: its beginning, or all of it if it is the one that is asked for whole.
pub(super) fn fill(bubble: &mut Bubble, text: &str, full: Option<&str>) {
    let (said, failed) = readable(text);
    let bytes_max = if full == Some(bubble.id.as_str()) { said.len() } else { BUBBLE_BYTES };
    let end = said.floor_char_boundary(bytes_max);
    bubble.cut = said.len() - end;
    bubble.text = said[..end].to_owned();
    bubble.failed |= failed;
}

/// Uses of tools without a word, one after the other, are one bubble.
pub(super) fn joined(bubbles: impl Iterator<Item = Bubble>) -> Vec<Bubble> {
    let is_silent = |one: &Bubble| one.text.is_empty() && one.question.is_none() && !one.failed;
    let mut shown: Vec<Bubble> = Vec::new();
    for one in bubbles {
        match shown.last_mut() {
            Some(last) if is_silent(last) && is_silent(&one) && last.from.id == one.from.id => {
                last.tools.extend(one.tools);
                last.tools.truncate(TOOLS_MAX);
            }
            _ => shown.push(one),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_machines_are_not_shown() {
        let check = |text: &str, shown: &str, failed: bool| assert_eq!(readable(text), (shown.to_owned(), failed));
        check("[outcome] blocked: the model is gone", "the model is gone", true);
        check("[outcome] BLOCKED: a: b", "a: b", true);
        check("[outcome] done: well", "well", false);
        check("[NO_REPLY_NEEDED] thanks", "thanks", false);
        check("plain: text", "plain: text", false);
        check("[Goal] Fix it\nPlease.", "Fix it\nPlease.", false);
    }

    #[test]
    fn silent_uses_of_tools_are_told_together() {
        let one = |text: &str, tool: &str| Bubble { text: text.into(), tools: vec![tool.into()], ..Bubble::default() };
        let shown = joined([one("", "a"), one("", "b"), one("so", "c"), one("", "d")].into_iter());
        assert_eq!(shown.iter().map(|one| one.tools.join("+")).collect::<Vec<_>>(), ["a+b", "c", "d"]);
    }

    #[test]
    fn a_long_text_is_cut_unless_it_is_asked_for() {
        let mut bubble = Bubble { id: "7".into(), ..Bubble::default() };
        fill(&mut bubble, &"가".repeat(2_000), None);
        assert!(bubble.text.len() <= BUBBLE_BYTES + 3 && bubble.cut == 6_000 - BUBBLE_BYTES);
        fill(&mut bubble, &"가".repeat(2_000), Some("7"));
        assert_eq!((bubble.text.len(), bubble.cut), (6_000, 0));
    }
}
