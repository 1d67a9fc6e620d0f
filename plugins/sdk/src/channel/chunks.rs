//! A text in messages that a network takes, each within its limit, counted as the network counts.
//! Keeps true: the spans joined are the text; a code fence that is cut is closed in one message and opened again in the next.

/// What one message may have.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// At least 200.
    pub max: usize,
    /// What a character takes of it.
    pub cost: fn(char) -> usize,
}

impl Limit {
    /// A limit that counts code points.
    pub const fn characters(max: usize) -> Self {
        Self { max, cost: |_| 1 }
    }

    /// A limit that counts units of UTF-16, as networks do whose clients are written in JavaScript, Java or Swift.
    pub const fn utf16(max: usize) -> Self {
        Self { max, cost: char::len_utf16 }
    }

    /// What a text takes of it.
    pub fn of(&self, text: &str) -> usize {
        text.chars().map(self.cost).sum()
    }

    /// The longest start of a text that takes no more than `room`, in bytes.
    fn fitting(&self, text: &str, room: usize) -> usize {
        let mut taken = 0;
        for (at, c) in text.char_indices() {
            taken += (self.cost)(c);
            if taken > room {
                return at;
            }
        }
        text.len()
    }

    /// A message with `mark` at its end, which says that more was to come; cut so that both fit.
    pub fn marked(&self, message: &str, mark: &str) -> String {
        let end = self.fitting(message, self.max.saturating_sub(self.of(mark)));
        format!("{}{mark}", &message[..end])
    }
}

/// Longer words after a fence are not repeated in the next message.
const INFO_MAX: usize = 32;
const MARKER_MAX: usize = 16;

/// A code fence that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fence {
    marker: String,
    info: String,
}

impl Fence {
    /// The fence that a line opens.
    fn opened_by(line: &str) -> Option<Self> {
        let body = line.trim_start_matches(' ').trim_end();
        let ticks = body.bytes().take_while(|byte| *byte == b'`').count();
        let info = &body[ticks..];
        let fits = (3..=MARKER_MAX).contains(&ticks) && !info.contains('`');
        let info = if info.chars().count() <= INFO_MAX { info.to_owned() } else { String::new() };
        fits.then(|| Self { marker: "`".repeat(ticks), info })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let body = line.trim();
        body.len() >= self.marker.len() && body.bytes().all(|byte| byte == b'`')
    }

    fn head(&self) -> String {
        format!("{}{}\n", self.marker, self.info)
    }

    /// What closing takes at most: a line break and the marker, which cost one each.
    fn tail(&self) -> usize {
        self.marker.len() + 1
    }
}

/// A part of the text, and the fences that are open where it starts and where it ends.
#[derive(Debug)]
pub struct Span<'a> {
    pub text: &'a str,
    before: Option<Fence>,
    after: Option<Fence>,
    is_last: bool,
}

impl Span<'_> {
    /// The part as a message.
    fn message(&self) -> String {
        let mut message = self.before.as_ref().map(Fence::head).unwrap_or_default();
        message.push_str(self.text);
        if let Some(fence) = self.after.as_ref().filter(|_| !self.is_last) {
            if !message.ends_with('\n') {
                message.push('\n');
            }
            message.push_str(&fence.marker);
        }
        message
    }
}

/// The text as messages within the limit, without those that would be blank; past `count_max` the rest is cut, and `mark` says so.
pub fn chunks(text: &str, limit: Limit, count_max: usize, mark: &str) -> Vec<String> {
    let limit = Limit { max: limit.max.max(200), ..limit };
    let messages = spans(text, limit).into_iter().map(|span| span.message());
    let mut messages: Vec<String> = messages.filter(|message| !message.trim().is_empty()).collect();
    if messages.len() > count_max {
        messages.truncate(count_max);
        if let Some(last) = messages.last_mut() {
            *last = limit.marked(last, mark);
        }
    }
    messages
}

/// The text cut into parts that fit, fences included.
pub fn spans(text: &str, limit: Limit) -> Vec<Span<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut open, mut fresh_line) = (text, None::<Fence>, true);
    while !rest.is_empty() {
        let head = open.as_ref().map_or(0, |fence| limit.of(&fence.head()));
        let budget = limit.max.saturating_sub(head);
        if limit.of(rest) <= budget {
            found.push(Span { text: rest, before: open.clone(), after: open, is_last: true });
            break;
        }
        let cut = best_cut(rest, Limit { max: budget, ..limit }, open.as_ref(), fresh_line);
        let (part, after) = rest.split_at(cut.at);
        found.push(Span { text: part, before: open.clone(), after: cut.open.clone(), is_last: false });
        fresh_line = part.ends_with('\n');
        (rest, open) = (after, cut.open);
    }
    found
}

struct Cut {
    at: usize,
    open: Option<Fence>,
}

/// Where to cut: at the end of a paragraph, before a fence that would not fit, at the end of a line, at a space, or anywhere;
/// each only if it leaves a message that is worth sending.
fn best_cut(text: &str, budget: Limit, open: Option<&Fence>, fresh_line: bool) -> Cut {
    let walked = walk(text, budget, open, fresh_line);
    let half = walked.limit / 2;
    let quarter = walked.limit / 4;
    if let Some(at) = walked.before_fence.filter(|at| *at > 0) {
        return Cut { at, open: None };
    }
    if let Some(at) = walked.paragraph.filter(|at| *at >= half) {
        return Cut { at, open: None };
    }
    if let Some((at, open)) = walked.line.filter(|(at, _)| *at >= quarter) {
        return Cut { at, open };
    }
    let hard = &text[..walked.limit];
    let at = hard.rfind(' ').map(|at| at + 1).filter(|at| *at >= quarter).unwrap_or(walked.limit);
    Cut { at, open: walked.open_at_limit }
}

#[derive(Default)]
struct Walked {
    /// The most that fits, in bytes, with room to close a fence that is open there.
    limit: usize,
    open_at_limit: Option<Fence>,
    paragraph: Option<usize>,
    line: Option<(usize, Option<Fence>)>,
    /// The start of a fence that does not end within the limit but would fit into a message of its own.
    before_fence: Option<usize>,
}

fn walk(text: &str, budget: Limit, open: Option<&Fence>, fresh_line: bool) -> Walked {
    let mut walked = Walked::default();
    let mut open = open.cloned();
    let mut fence_start = None;
    let (mut bytes, mut taken, mut was_blank) = (0, 0, false);
    for (nth, line) in text.split_inclusive('\n').enumerate() {
        let before = open.clone();
        if nth > 0 || fresh_line {
            match &open {
                Some(fence) if fence.is_closed_by(line) => open = None,
                Some(_) => {}
                None => open = Fence::opened_by(line),
            }
        }
        if before.is_none() && open.is_some() {
            fence_start = Some(bytes);
        }
        let cost = budget.of(line);
        let reserve = |fence: &Option<Fence>| fence.as_ref().map_or(0, Fence::tail);
        if taken + cost + reserve(&open) > budget.max {
            // Within this line the fence is as it was before it: a closing line counts once it is whole.
            let inside = budget.fitting(line, budget.max.saturating_sub(taken + reserve(&before)));
            // A line that opens a fence is not cut in two: its rest would be read as code.
            let opens = before.is_none() && open.is_some();
            let at = if opens && bytes > 0 { bytes } else { bytes + inside };
            (walked.limit, walked.open_at_limit) = (at, before);
            break;
        }
        bytes += line.len();
        taken += cost;
        let is_blank = line.trim().is_empty();
        if open.is_none() && is_blank && !was_blank {
            walked.paragraph = Some(bytes);
        }
        was_blank = is_blank;
        if line.ends_with('\n') {
            walked.line = Some((bytes, open.clone()));
        }
    }
    if walked.open_at_limit.is_some()
        && let Some(start) = fence_start
        && fits_alone(&text[start..], budget)
    {
        walked.before_fence = Some(start);
    }
    if walked.limit == 0 {
        // Never without progress, whatever the budget.
        walked.limit = text.chars().next().map_or(0, char::len_utf8);
    }
    walked
}

/// Whether the fence that starts the text ends within the budget.
fn fits_alone(text: &str, budget: Limit) -> bool {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next() else { return false };
    let Some(fence) = Fence::opened_by(first) else { return false };
    let mut taken = budget.of(first);
    for line in lines {
        taken += budget.of(line);
        if taken > budget.max {
            return false;
        }
        if fence.is_closed_by(line) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::channel::Turn;

    /// Chance by a seed.
    fn random(seed: u64) -> Turn {
        Turn::new(&Context { now_ms: 0, seed, deployment: String::new(), locale: String::new(), budget_ms: 0 })
    }

    const SMALL: Limit = Limit::characters(200);

    fn check(text: &str, limit: Limit) -> Vec<String> {
        let spans = spans(text, limit);
        assert_eq!(spans.iter().map(|span| span.text).collect::<String>(), text, "nothing is lost");
        let messages: Vec<String> = spans.iter().map(Span::message).collect();
        for message in &messages {
            assert!(limit.of(message) <= limit.max, "{} of {}: {message:?}", limit.of(message), limit.max);
        }
        messages
    }

    #[test]
    fn a_short_text_is_one_message() {
        let count = |text: &str, limit| chunks(text, limit, 100, "").len();
        let (characters, units) = (Limit::characters(2_000), Limit::utf16(4_096));
        assert_eq!(chunks("hello", characters, 100, ""), ["hello"]);
        assert_eq!(count(" \n ", characters), 0);
        assert_eq!((count(&"한".repeat(2_000), characters), count(&"한".repeat(4_096), units)), (1, 1));
        assert_eq!((count(&"😀".repeat(2_001), characters), count(&"😀".repeat(2_048), units)), (2, 1));
        assert_eq!(count(&"😀".repeat(2_049), units), 2);
    }

    #[test]
    fn a_text_of_too_many_messages_is_cut_and_says_so() {
        let messages = chunks(&"word ".repeat(400), SMALL, 3, " (cut)");
        assert_eq!(messages.len(), 3);
        assert!(messages[2].ends_with(" (cut)") && SMALL.of(&messages[2]) <= 200, "{:?}", messages[2]);
        assert!(!messages[1].contains("cut"));
        assert_eq!(SMALL.marked("short", "…"), "short…");
        assert_eq!(Limit::utf16(201).marked(&"😀".repeat(200), "…"), format!("{}…", "😀".repeat(100)));
    }

    #[test]
    fn paragraphs_stay_whole_where_they_can() {
        let text = format!("{}\n\n{}\n\n{}", "a".repeat(120), "b".repeat(60), "c".repeat(60));
        let messages = check(&text, SMALL);
        assert_eq!(messages.len(), 2);
        assert!(messages[0].ends_with("\n\n") && messages[1].starts_with('c'));
    }

    #[test]
    fn a_fence_that_fits_goes_to_the_next_message_as_a_whole() {
        let code = "x = 1\n".repeat(20);
        let text = format!("{}\n```python\n{code}```\nafter", "word ".repeat(30));
        let messages = check(&text, SMALL);
        assert!(messages[1].starts_with("```python\n") && messages[1].contains("\n```\n"), "{messages:#?}");
        assert_eq!(messages[0].matches("```").count(), 0);
    }

    #[test]
    fn a_fence_that_is_cut_is_closed_and_opened_again() {
        let text = format!("```rust\n{}```", "let x = 1;\n".repeat(60));
        let messages = check(&text, SMALL);
        assert!(messages.len() > 3);
        for message in &messages {
            assert!(message.starts_with("```rust\n") && message.ends_with("```"), "{message:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_cut_anywhere() {
        let messages = check(&"x".repeat(450), SMALL);
        assert_eq!(messages.iter().map(String::len).collect::<Vec<_>>(), [200, 200, 50]);
        let fenced = format!("```\n{}\n```", "y".repeat(450));
        assert!(check(&fenced, SMALL).iter().all(|message| message.matches("```").count() == 2));
    }

    #[test]
    fn any_text_is_cut_without_loss_and_within_the_limit() {
        let parts =
            ["```", "```rust", "````", "\n", "\n\n", " ", "한글", "😀", "`", "word", "a longer line of words", "~~~"];
        for seed in 0..5_000 {
            let mut random = random(seed);
            let mut below = |limit: u64| random.chance(limit) as usize;
            let mut text = String::new();
            for _ in 0..below(220) {
                text.push_str(parts[below(parts.len() as u64)]);
                if below(30) == 0 {
                    text.push_str(&"z".repeat(below(400)));
                }
            }
            let max = 200 + below(200);
            check(&text, Limit::characters(max));
            check(&text, Limit::utf16(max));
            check(&text, Limit { max, cost: |c| if c == '&' || c == 'w' { 5 } else { 1 } });
        }
    }
}
