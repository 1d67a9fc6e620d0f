//! Markdown as Telegram's marks: plain text, and where in it something is bold, code or a link, counted in units of UTF-16.
//! Keeps true: whatever a text is, what comes of it is accepted; what is no markdown stays as it is. Marks instead of a markup language:
//! no text can break a message, and none is refused for a bracket.

use serde_json::{Value, json};

/// Telegram leaves out what is more.
const MARKS_MAX: usize = 100;
const LANGUAGE_MAX: usize = 32;

/// Plain text that grows, and its length as Telegram counts.
#[derive(Default)]
struct Plain {
    text: String,
    units: usize,
    marks: Vec<Value>,
}

impl Plain {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.units += text.encode_utf16().count();
    }

    /// Adds a text under a mark; `more` are further fields of the mark.
    fn mark(&mut self, kind: &str, text: &str, more: Option<(&str, &str)>) {
        let offset = self.units;
        self.push(text);
        if self.units > offset && self.marks.len() < MARKS_MAX {
            let mut mark = json!({ "type": kind, "offset": offset, "length": self.units - offset });
            if let Some((name, value)) = more {
                mark[name] = json!(value);
            }
            self.marks.push(mark);
        }
    }
}

/// The text without markdown, and its marks.
pub fn entities(markdown: &str) -> (String, Vec<Value>) {
    let mut plain = Plain::default();
    let mut rest = markdown;
    while !rest.is_empty() {
        let line_ends = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(line_ends);
        if let Some(fence) = Fence::opened_by(line)
            && let Some((code, after)) = fence.body(after)
        {
            let language = Some(("language", fence.language)).filter(|(_, language)| !language.is_empty());
            plain.mark("pre", code, language);
            rest = after;
            continue;
        }
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        match heading(body) {
            Some(title) => plain.mark("bold", title, None),
            None => inline(&mut plain, body),
        }
        plain.push(end);
        rest = after;
    }
    if plain.text.trim().is_empty() {
        return (markdown.to_owned(), Vec::new());
    }
    (plain.text, plain.marks)
}

struct Fence<'a> {
    ticks: usize,
    language: &'a str,
}

impl<'a> Fence<'a> {
    fn opened_by(line: &'a str) -> Option<Self> {
        let body = line.trim();
        let ticks = body.bytes().take_while(|byte| *byte == b'`').count();
        let info = body[ticks..].trim();
        let language = info.split_whitespace().next().unwrap_or_default();
        let language = if language.chars().count() <= LANGUAGE_MAX { language } else { "" };
        (ticks >= 3 && !info.contains('`')).then_some(Self { ticks, language })
    }

    /// What stands within it, and what follows; none when it is never closed, or nothing stands there.
    fn body<'b>(&self, text: &'b str) -> Option<(&'b str, &'b str)> {
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let body = line.trim();
            if body.len() >= self.ticks && body.bytes().all(|byte| byte == b'`') {
                let code = text[..at].strip_suffix('\n').unwrap_or(&text[..at]);
                // The line break after the fence stays, so that what follows is a line of its own.
                let ends = at + line.len() - usize::from(line.ends_with('\n'));
                return (!code.trim().is_empty()).then_some((code, &text[ends..]));
            }
            at += line.len();
        }
        None
    }
}

fn heading(line: &str) -> Option<&str> {
    let signs = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(signs..)?.strip_prefix(' ')?.trim();
    ((1..=6).contains(&signs) && !title.is_empty()).then_some(title)
}

/// Code, bold, struck and links within a line.
fn inline(plain: &mut Plain, line: &str) {
    let mut rest = line;
    while let Some(at) = rest.find(['`', '*', '~', '[']) {
        let (before, from) = rest.split_at(at);
        plain.push(before);
        rest = match spanned(from) {
            Some((kind, text, more, after)) => {
                plain.mark(kind, text, more);
                after
            }
            None => {
                let first = from.chars().next().map_or(0, char::len_utf8);
                plain.push(&from[..first]);
                &from[first..]
            }
        };
    }
    plain.push(rest);
}

type Spanned<'a> = (&'static str, &'a str, Option<(&'a str, &'a str)>, &'a str);

fn spanned(from: &str) -> Option<Spanned<'_>> {
    let between = |sign: &str| {
        let inner = from.strip_prefix(sign)?;
        let ends = inner.find(sign)?;
        let text = &inner[..ends];
        let tight = !text.is_empty() && !text.starts_with(char::is_whitespace) && !text.ends_with(char::is_whitespace);
        tight.then(|| (text, &inner[ends + sign.len()..]))
    };
    if let Some((text, after)) = between("**") {
        return Some(("bold", text, None, after));
    }
    if let Some((text, after)) = between("~~") {
        return Some(("strikethrough", text, None, after));
    }
    if from.starts_with('`') {
        return between("``").or_else(|| between("`")).map(|(text, after)| ("code", text, None, after));
    }
    let inner = from.strip_prefix('[')?;
    let (title, inner) = inner.split_once("](")?;
    let (url, after) = inner.split_once(')')?;
    let is_address = url.starts_with("https://") || url.starts_with("http://");
    let plain = !title.is_empty() && !title.contains(['[', ']']) && url.chars().all(|c| c.is_ascii_graphic());
    (is_address && plain).then_some(("text_link", title, Some(("url", url)), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each mark as its kind, the text that it covers, and what else it has.
    fn check(markdown: &str, plain: &str, marks: &[(&str, &str, &str)]) {
        let (text, found) = entities(markdown);
        assert_eq!(text, plain, "{markdown}");
        let units: Vec<u16> = text.encode_utf16().collect();
        let covered = |mark: &Value| {
            let from = mark["offset"].as_u64().expect("a place") as usize;
            let to = from + mark["length"].as_u64().expect("a length") as usize;
            let more = mark["url"].as_str().or(mark["language"].as_str()).unwrap_or_default().to_owned();
            (
                mark["type"].as_str().expect("a kind").to_owned(),
                String::from_utf16(&units[from..to]).expect("whole"),
                more,
            )
        };
        let found: Vec<(String, String, String)> = found.iter().map(covered).collect();
        let found: Vec<(&str, &str, &str)> =
            found.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        assert_eq!(found, marks, "{markdown}");
    }

    #[test]
    fn markdown_becomes_marks() {
        check("a **b** `c`", "a b c", &[("bold", "b", ""), ("code", "c", "")]);
        check("😀 **굵게** ~~x~~", "😀 굵게 x", &[("bold", "굵게", ""), ("strikethrough", "x", "")]);
        check(
            "see [the page](https://x.example/a)",
            "see the page",
            &[("text_link", "the page", "https://x.example/a")],
        );
        check("# Title\nwords", "Title\nwords", &[("bold", "Title", "")]);
        check("x\n```rust\nlet a = 1;\n```\ny", "x\nlet a = 1;\ny", &[("pre", "let a = 1;", "rust")]);
        check("```\n**a**\n```", "**a**", &[("pre", "**a**", "")]);
        check("``a`b``", "a`b", &[("code", "a`b", "")]);
    }

    #[test]
    fn what_is_no_markdown_stays() {
        for text in [
            "2 ** 3 ** 4",
            "a * b",
            "snake_case_name",
            "[x](javascript:1)",
            "[a",
            "`",
            "**",
            "#tag",
            "```\nopen",
            "~~ ~~",
            "a[0](b)",
        ] {
            check(text, text, &[]);
        }
        check("``````", "``````", &[]);
        check("```\n\n```", "```\n\n```", &[]);
    }

    #[test]
    fn any_text_gives_marks_within_it() {
        let parts = [
            "**",
            "`",
            "```",
            "```rust",
            "\n",
            " ",
            "한",
            "😀",
            "[a](https://x)",
            "[",
            "](",
            ")",
            "# ",
            "~~",
            "w",
            "*",
        ];
        for seed in 0..5_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let markdown: String = (0..random.usize(0..60)).map(|_| parts[random.usize(0..parts.len())]).collect();
            let (text, marks) = entities(&markdown);
            assert!(text.encode_utf16().count() <= markdown.encode_utf16().count(), "{markdown:?}");
            assert_eq!(text.trim().is_empty(), markdown.trim().is_empty(), "{markdown:?}");
            let units = text.encode_utf16().count() as u64;
            for mark in &marks {
                let (from, length) = (mark["offset"].as_u64().expect("a place"), mark["length"].as_u64().expect("one"));
                assert!(length > 0 && from + length <= units, "{markdown:?}: {mark}");
            }
        }
    }
}
