//! Slack's own markup: what people wrote as plain words, and markdown as Slack shows it.
//! Keeps true: a message of ours never mentions anybody, whatever its text says, since what could do so is escaped; code stays as it is.

use chela_sdk::channel::Limit;

use crate::names::Names;

/// A block of text takes three thousand characters, escapes counted.
pub const LIMIT: Limit = Limit {
    max: 3_000,
    cost: |c| match c {
        '&' => 5,
        '<' | '>' => 4,
        _ => 1,
    },
};

/// Longer marks are none.
const MARK_MAX: usize = 2_100;

/// What people wrote, with names for marks. A mark of the bot at the start is left out: it only says whom the text is for.
pub fn plain(text: &str, names: &Names, me: &str) -> String {
    let mut read = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        read.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let mark = after.find('>').filter(|end| *end <= MARK_MAX).map(|end| &after[..end]);
        match mark.and_then(|mark| name_of(mark, names).map(|name| (mark, name))) {
            Some((mark, name)) => {
                let is_call = read.trim().is_empty() && mark.strip_prefix('@').is_some_and(|id| before_bar(id) == me);
                if !is_call {
                    read.push_str(&name);
                }
                rest = &after[mark.len() + 1..];
            }
            None => {
                read.push('<');
                rest = after;
            }
        }
    }
    read.push_str(rest);
    read.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").trim().to_owned()
}

fn before_bar(mark: &str) -> &str {
    mark.split('|').next().unwrap_or_default()
}

/// Everybody that a text marks, at most so many.
pub fn marked(text: &str, max: usize) -> Vec<String> {
    let ids = text.split("<@").skip(1).filter_map(|rest| rest.split(['>', '|']).next());
    ids.filter_map(crate::place::id).take(max).collect()
}

/// What stands between `<` and `>`, in words; none when it is no mark of Slack.
fn name_of(mark: &str, names: &Names) -> Option<String> {
    let (what, label) = mark.split_once('|').map_or((mark, None), |(what, label)| (what, Some(label)));
    let label = label.filter(|label| !label.is_empty());
    if let Some(person) = what.strip_prefix('@') {
        let person = crate::place::id(person)?;
        return Some(format!("@{}", names.of(&person).or(label).unwrap_or(&person)));
    }
    if let Some(channel) = what.strip_prefix('#') {
        let channel = crate::place::id(channel)?;
        return Some(format!("#{}", label.unwrap_or(&channel)));
    }
    if let Some(special) = what.strip_prefix('!') {
        let word = label.map_or_else(|| format!("@{}", special.split('^').next().unwrap_or_default()), str::to_owned);
        return Some(word);
    }
    let is_address = ["https://", "http://"].iter().any(|scheme| what.starts_with(scheme));
    if is_address && !what.contains(char::is_whitespace) {
        return Some(match label.filter(|label| *label != what) {
            Some(label) => format!("[{label}]({what})"),
            None => what.to_owned(),
        });
    }
    let mail = what.strip_prefix("mailto:").or_else(|| what.strip_prefix("tel:"))?;
    Some(label.unwrap_or(mail).to_owned())
}

/// Characters that Slack reads as marks, as it wants them written.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Markdown as Slack shows it. Never longer than [`LIMIT`] counts.
pub fn from_markdown(markdown: &str) -> String {
    let mut written = String::with_capacity(markdown.len());
    let mut fence: Option<usize> = None;
    for line in markdown.split_inclusive('\n') {
        let body = line.trim();
        let ticks = body.bytes().take_while(|byte| *byte == b'`').count();
        let is_fence = ticks >= 3 && !body[ticks..].contains('`');
        match fence {
            Some(open) if is_fence && ticks >= open && body.len() == ticks => {
                fence = None;
                written.push_str(&escaped(line));
            }
            Some(_) => written.push_str(&escaped(line)),
            None if is_fence => {
                fence = Some(ticks);
                // Slack shows the language as the first line of the code.
                written.push_str(&"`".repeat(ticks));
                written.push_str(if line.ends_with('\n') { "\n" } else { "" });
            }
            None => prose(&mut written, line),
        }
    }
    written
}

fn prose(written: &mut String, line: &str) {
    let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
    let signs = body.bytes().take_while(|byte| *byte == b'#').count();
    let title = body.get(signs..).and_then(|rest| rest.strip_prefix(' ')).map(str::trim);
    match title.filter(|title| (1..=6).contains(&signs) && !title.is_empty() && !title.contains(['*', '`', '['])) {
        Some(title) => written.push_str(&format!("*{}*", escaped(title))),
        None => {
            let indent = body.len() - body.trim_start().len();
            // A star that begins a line of a list would begin bold words.
            match body[indent..].strip_prefix("* ") {
                Some(rest) => {
                    written.push_str(&body[..indent]);
                    written.push_str("• ");
                    inline(written, rest);
                }
                None => inline(written, body),
            }
        }
    }
    written.push_str(end);
}

/// Code, bold, struck and links within a line.
fn inline(written: &mut String, line: &str) {
    let mut rest = line;
    while let Some(at) = rest.find(['`', '*', '~', '[']) {
        let (before, from) = rest.split_at(at);
        written.push_str(&escaped(before));
        rest = match spanned(from) {
            Some((text, after)) => {
                written.push_str(&text);
                after
            }
            None => {
                written.push_str(&from[..1]);
                &from[1..]
            }
        };
    }
    written.push_str(&escaped(rest));
}

fn spanned(from: &str) -> Option<(String, &str)> {
    let between = |sign: &str| {
        let inner = from.strip_prefix(sign)?;
        let ends = inner.find(sign)?;
        let text = &inner[..ends];
        let tight = !text.is_empty() && !text.starts_with(char::is_whitespace) && !text.ends_with(char::is_whitespace);
        tight.then(|| (text, &inner[ends + sign.len()..]))
    };
    if let Some((text, after)) = between("**") {
        return Some((format!("*{}*", escaped(text)), after));
    }
    if let Some((text, after)) = between("~~") {
        return Some((format!("~{}~", escaped(text)), after));
    }
    if from.starts_with('`') {
        return between("`").map(|(text, after)| (format!("`{}`", escaped(text)), after));
    }
    let inner = from.strip_prefix('[')?;
    let (title, inner) = inner.split_once("](")?;
    let (url, after) = inner.split_once(')')?;
    let is_address = url.starts_with("https://") || url.starts_with("http://");
    let is_plain = url.chars().all(|c| c.is_ascii_graphic() && c != '|');
    let good = is_address && is_plain && !title.is_empty() && !title.contains(['[', ']', '|', '`']);
    good.then(|| (format!("<{}|{}>", escaped(url), escaped(title)), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, expected: &str) {
        let mut names = Names::default();
        names.keep("U7", "Eden");
        names.keep("U1", "chela");
        assert_eq!(plain(text, &names, "U1"), expected, "{text}");
    }

    #[test]
    fn marks_become_names() {
        read("<@U7> and <@U8|seum>", "@Eden and @seum");
        read("in <#C10|general>, <#C11>", "in #general, #C11");
        read("<!here> <!subteam^S1|@crew> <!date^1^{date}|today>", "@here @crew today");
        read(
            "see <https://x.example/a?b=1&amp;c|the page> <https://x.example>",
            "see [the page](https://x.example/a?b=1&c) https://x.example",
        );
        read("<mailto:a@b.example|a@b.example> &lt;b&gt; &amp;amp;", "a@b.example <b> &amp;");
        read("hello <@U1>, you", "hello @chela, you");
    }

    #[test]
    fn a_mark_of_the_bot_at_the_start_is_left_out() {
        read("<@U1> what is new?", "what is new?");
        read(" <@U1|chela>\nhi", "hi");
    }

    #[test]
    fn what_is_no_mark_stays() {
        read("a < b > c <> <@> <@7", "a < b > c <> <@> <@7");
        assert_eq!(marked("<@U7> <@u8|x> <#C1> <@>", 5), ["U7", "U8"]);
    }

    #[test]
    fn markdown_is_shown_as_slack_shows_it() {
        let check = |markdown: &str, expected: &str| assert_eq!(from_markdown(markdown), expected);
        check("a **b** `c` ~~d~~", "a *b* `c` ~d~");
        check("# Title\n* one\n  * two", "*Title*\n• one\n  • two");
        check("[the page](https://x.example/?a=1&b)", "<https://x.example/?a=1&amp;b|the page>");
        check("```rust\nif a < b && c {}\n```\nafter", "```\nif a &lt; b &amp;&amp; c {}\n```\nafter");
        check("2 * 3 * 4 and [x](javascript:1)", "2 * 3 * 4 and [x](javascript:1)");
    }

    #[test]
    fn nobody_is_mentioned_by_what_a_text_says() {
        for text in [
            "<!channel>",
            "<@U7>",
            "`<!here>`",
            "**<@U7>**",
            "```\n<!everyone>\n```",
            "[<@U7>](https://x)",
            "# <!here>",
        ] {
            let written = from_markdown(text);
            assert!(!written.contains("<!") && !written.contains("<@"), "{written}");
        }
    }

    #[test]
    fn any_text_stays_within_what_was_counted_and_mentions_nobody() {
        let parts = [
            "**",
            "`",
            "```",
            "```rust",
            "\n",
            " ",
            "한",
            "&",
            "<",
            ">",
            "<@U7>",
            "[a](https://x&)",
            "[",
            "](",
            ")",
            "# ",
            "* ",
            "~~",
            "w",
        ];
        for seed in 0..5_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let markdown: String = (0..random.usize(0..60)).map(|_| parts[random.usize(0..parts.len())]).collect();
            let written = from_markdown(&markdown);
            assert!(written.chars().count() <= LIMIT.of(&markdown), "{markdown:?} became {written:?}");
            assert!(!written.contains("<@") && !written.contains("<!"), "{markdown:?} became {written:?}");
            plain(&markdown, &Names::default(), "U1");
        }
    }
}
