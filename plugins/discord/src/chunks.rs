//! A text in messages that Discord takes: at most 2,000 characters each, counted as Discord counts, by code points.
//! Keeps true: the spans joined are the text; a code fence that is cut is closed in one message and opened again in the next.

/// What one message may have.
pub const CHARACTERS_MAX: usize = 2_000;
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

    /// What closing takes at most: a line break and the marker.
    fn tail_characters(&self) -> usize {
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

/// The text as messages of at most `max` characters, without those that would be blank. `max` is at least 200.
pub fn chunks(text: &str, max: usize) -> Vec<String> {
    let messages = spans(text, max.max(200)).into_iter().map(|span| span.message());
    messages.filter(|message| !message.trim().is_empty()).collect()
}

/// The text cut into parts that fit, fences included.
pub fn spans(text: &str, max: usize) -> Vec<Span<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut open, mut fresh_line) = (text, None::<Fence>, true);
    while !rest.is_empty() {
        let head = open.as_ref().map_or(0, |fence| fence.head().chars().count());
        let budget = max - head;
        if rest.chars().count() <= budget {
            found.push(Span { text: rest, before: open.clone(), after: open, is_last: true });
            break;
        }
        let cut = best_cut(rest, budget, open.as_ref(), fresh_line);
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
fn best_cut(text: &str, budget: usize, open: Option<&Fence>, fresh_line: bool) -> Cut {
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

fn walk(text: &str, budget: usize, open: Option<&Fence>, fresh_line: bool) -> Walked {
    let mut walked = Walked::default();
    let mut open = open.cloned();
    let mut fence_start = None;
    let (mut bytes, mut characters, mut was_blank) = (0, 0, false);
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
        let count = line.chars().count();
        let reserve = |fence: &Option<Fence>| fence.as_ref().map_or(0, Fence::tail_characters);
        if characters + count + reserve(&open) > budget {
            // Within this line the fence is as it was before it: a closing line counts once it is whole.
            let room = budget.saturating_sub(characters + reserve(&before));
            let inside = line.char_indices().nth(room).map_or(line.len(), |(at, _)| at);
            // A line that opens a fence is not cut in two: its rest would be read as code.
            let opens = before.is_none() && open.is_some();
            let at = if opens && bytes > 0 { bytes } else { bytes + inside };
            (walked.limit, walked.open_at_limit) = (at, before);
            break;
        }
        bytes += line.len();
        characters += count;
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
fn fits_alone(text: &str, budget: usize) -> bool {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next() else { return false };
    let Some(fence) = Fence::opened_by(first) else { return false };
    let mut characters = first.chars().count();
    for line in lines {
        characters += line.chars().count();
        if characters > budget {
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

    fn check(text: &str, max: usize) -> Vec<String> {
        let spans = spans(text, max);
        assert_eq!(spans.iter().map(|span| span.text).collect::<String>(), text, "nothing is lost");
        let messages: Vec<String> = spans.iter().map(Span::message).collect();
        for message in &messages {
            assert!(message.chars().count() <= max, "{} characters: {message:?}", message.chars().count());
        }
        messages
    }

    #[test]
    fn a_short_text_is_one_message() {
        assert_eq!(chunks("hello", CHARACTERS_MAX), ["hello"]);
        assert_eq!(chunks(" \n ", CHARACTERS_MAX), Vec::<String>::new());
        assert_eq!(chunks(&"한".repeat(2_000), CHARACTERS_MAX).len(), 1);
        assert_eq!(chunks(&"😀".repeat(2_001), CHARACTERS_MAX).len(), 2);
    }

    #[test]
    fn paragraphs_stay_whole_where_they_can() {
        let text = format!("{}\n\n{}\n\n{}", "a".repeat(120), "b".repeat(60), "c".repeat(60));
        let messages = check(&text, 200);
        assert_eq!(messages.len(), 2);
        assert!(messages[0].ends_with("\n\n") && messages[1].starts_with('c'));
    }

    #[test]
    fn a_fence_that_fits_goes_to_the_next_message_as_a_whole() {
        let code = "x = 1\n".repeat(20);
        let text = format!("{}\n```python\n{code}```\nafter", "word ".repeat(30));
        let messages = check(&text, 200);
        assert!(messages[1].starts_with("```python\n") && messages[1].contains("\n```\n"), "{messages:#?}");
        assert_eq!(messages[0].matches("```").count(), 0);
    }

    #[test]
    fn a_fence_that_is_cut_is_closed_and_opened_again() {
        let text = format!("```rust\n{}```", "let x = 1;\n".repeat(60));
        let messages = check(&text, 200);
        assert!(messages.len() > 3);
        for message in &messages {
            assert!(message.starts_with("```rust\n") && message.ends_with("```"), "{message:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_cut_anywhere() {
        let messages = check(&"x".repeat(450), 200);
        assert_eq!(messages.iter().map(String::len).collect::<Vec<_>>(), [200, 200, 50]);
        let fenced = format!("```\n{}\n```", "y".repeat(450));
        assert!(check(&fenced, 200).iter().all(|message| message.matches("```").count() == 2));
    }

    #[test]
    fn any_text_is_cut_without_loss_and_within_the_limit() {
        let parts =
            ["```", "```rust", "````", "\n", "\n\n", " ", "한글", "😀", "`", "word", "a longer line of words", "~~~"];
        for seed in 0..5_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut text = String::new();
            for _ in 0..random.usize(0..220) {
                text.push_str(parts[random.usize(0..parts.len())]);
                if random.u8(0..30) == 0 {
                    text.push_str(&"z".repeat(random.usize(0..400)));
                }
            }
            check(&text, random.usize(200..400));
        }
    }
}
