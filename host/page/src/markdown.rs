//! Markdown of people and agents as a few safe elements. HTML in it is shown as text; a link leads to the web, or it is text;
//! pictures are links, since a page loads nothing from elsewhere. Nesting and length have an end.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

/// Elements within each other; deeper ones are shown flat.
const DEPTH_MAX: usize = 24;

/// A heading's start and end.
type Heading = (&'static str, &'static str);

/// A text, with mentions such as `<@123>` as names. The page has its own headings; those of the text stand below them.
pub fn markdown(text: &str, name_of: &dyn Fn(&str) -> String) -> Markup {
    written(text, name_of, [("<h4>", "</h4>"), ("<h5>", "</h5>")])
}

/// A text that is all there is on a page but for its title.
pub fn document(text: &str, name_of: &dyn Fn(&str) -> String) -> Markup {
    written(text, name_of, [("<h2>", "</h2>"), ("<h3>", "</h3>")])
}

fn written(text: &str, name_of: &dyn Fn(&str) -> String, headings: [Heading; 2]) -> Markup {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer =
        Writer { html: String::with_capacity(text.len() + text.len() / 4), open: Vec::new(), skipped: 0, headings };
    let mut texts = Texts { name_of, held: String::new(), codes: 0 };
    for event in Parser::new_ext(text, options) {
        texts.next(event, &mut writer);
    }
    texts.say(&mut writer);
    while let Some(end) = writer.open.pop() {
        writer.html.push_str(end);
    }
    PreEscaped(writer.html)
}

/// Text on its way to the page. The parser gives it in pieces and takes some mentions for HTML; here they come together again, and become names
/// unless they stand in code.
struct Texts<'a> {
    name_of: &'a dyn Fn(&str) -> String,
    held: String,
    /// Blocks of code that are open.
    codes: usize,
}

impl Texts<'_> {
    fn next(&mut self, event: Event<'_>, writer: &mut Writer) {
        match &event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) if self.codes == 0 => {
                self.held.push_str(text);
                return;
            }
            Event::Start(Tag::CodeBlock(_)) => self.codes += 1,
            Event::End(TagEnd::CodeBlock) => self.codes = self.codes.saturating_sub(1),
            _ => {}
        }
        self.say(writer);
        writer.write(event);
    }

    fn say(&mut self, writer: &mut Writer) {
        if !self.held.is_empty() {
            escape(&replaced(&std::mem::take(&mut self.held), self.name_of), &mut writer.html);
        }
    }
}

struct Writer {
    html: String,
    /// The ends of what is open.
    open: Vec<&'static str>,
    /// How many are open that are too deep to be shown.
    skipped: usize,
    headings: [Heading; 2],
}

impl Writer {
    fn write(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(end) => self.end(end),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => escape(&text, &mut self.html),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.html.push_str("<code>");
                escape(&text, &mut self.html);
                self.html.push_str("</code>");
            }
            Event::FootnoteReference(name) => escape(&name, &mut self.html),
            Event::SoftBreak | Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(done) => self.html.push_str(if done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        if self.open.len() >= DEPTH_MAX {
            self.skipped += 1;
            return;
        }
        let (start, end) = match tag {
            Tag::Paragraph => ("<p>", "</p>"),
            Tag::Heading { level: HeadingLevel::H1 | HeadingLevel::H2, .. } => self.headings[0],
            Tag::Heading { .. } => self.headings[1],
            Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => {
                ("<pre tabindex=\"0\"><code>", "</code></pre>")
            }
            Tag::List(None) => ("<ul>", "</ul>"),
            Tag::List(Some(first)) => {
                match first {
                    1 => self.html.push_str("<ol>"),
                    first => self.html.push_str(&format!("<ol start=\"{first}\">")),
                }
                self.open.push("</ol>");
                return;
            }
            Tag::Item => ("<li>", "</li>"),
            Tag::Table(_) => ("<div class=\"wide\" tabindex=\"0\"><table>", "</table></div>"),
            Tag::TableHead => ("<thead><tr>", "</tr></thead>"),
            Tag::TableRow => ("<tr>", "</tr>"),
            Tag::TableCell => ("<td>", "</td>"),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<s>", "</s>"),
            Tag::Link { dest_url, link_type, .. } | Tag::Image { dest_url, link_type, .. } => {
                self.link(dest_url, *link_type);
                return;
            }
            Tag::HtmlBlock => ("<p>", "</p>"),
            _ => ("<span>", "</span>"),
        };
        self.html.push_str(start);
        self.open.push(end);
    }

    fn link(&mut self, address: &str, kind: LinkType) {
        let safe = |scheme: &str| address.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
        if kind != LinkType::Email && (safe("https://") || safe("http://")) {
            self.html.push_str("<a rel=\"noopener noreferrer nofollow\" target=\"_blank\" href=\"");
            escape(address, &mut self.html);
            self.html.push_str("\">");
            self.open.push("</a>");
        } else {
            self.html.push_str("<span>");
            self.open.push("</span>");
        }
    }

    fn end(&mut self, _: TagEnd) {
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if let Some(end) = self.open.pop() {
            self.html.push_str(end);
        }
    }
}

/// One line of markdown as it reads, for lists and headings: without marks of emphasis, code and links; HTML stays the text that it is.
pub(crate) fn plain_line(line: &str) -> String {
    // What stands before it keeps a line from being a list, a quote or a heading.
    const BEFORE: char = '\u{200b}';
    let text = format!("{BEFORE}{line}");
    let mut plain = String::with_capacity(line.len());
    for event in Parser::new_ext(&text, Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) | Event::Html(text) => {
                plain.push_str(&text)
            }
            Event::SoftBreak | Event::HardBreak => plain.push(' '),
            _ => {}
        }
    }
    plain.trim_start_matches(BEFORE).to_owned()
}

/// Text as HTML shows it. What turns the direction of what follows stays within its element; marks that cannot be seen are dropped.
fn escape(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '&' => html.push_str("&amp;"),
            '"' => html.push_str("&quot;"),
            '\0' => {}
            c => html.push(c),
        }
    }
}

/// A line that is no markdown, with mentions as names.
pub(crate) fn named(line: &str, name_of: &dyn Fn(&str) -> String) -> String {
    replaced(line, name_of)
}

/// Mentions as networks write them become names: `<@123>`, `<@!123>`, `<@U0AB>` of people, `<@&123>` of roles. A channel, `<#123>`, is none of those;
/// it keeps its number.
fn replaced(text: &str, name_of: &dyn Fn(&str) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        match mention(rest) {
            Some((mark, id, length)) => {
                shown.push(mark);
                shown.push_str(&if mark == '#' { id.to_owned() } else { name_of(id) });
                rest = &rest[length..];
            }
            None => {
                shown.push('<');
                rest = &rest[1..];
            }
        }
    }
    shown.push_str(rest);
    shown
}

fn mention(text: &str) -> Option<(char, &str, usize)> {
    let inner = &text[1..text.find('>').filter(|end| *end <= 32)?];
    let (mark, id) = match inner.as_bytes().first()? {
        b'@' => ('@', inner[1..].trim_start_matches(['!', '&'])),
        b'#' => ('#', &inner[1..]),
        _ => return None,
    };
    is_number_of_a_network(id).then_some((mark, id, inner.len() + 2))
}

/// Digits, or digits and capital letters: what a network gives out, and nobody is called.
fn is_number_of_a_network(id: &str) -> bool {
    let written = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    id.bytes().any(|byte| byte.is_ascii_digit()) && id.bytes().all(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let name_of = |id: &str| if id == "42" { "Eden".to_owned() } else { "member".to_owned() };
        assert_eq!(markdown(text, &name_of).into_string(), expected, "{text:?}");
    }

    #[test]
    fn markdown_becomes_a_few_elements() {
        check("**bold** and `x<y`", "<p><strong>bold</strong> and <code>x&lt;y</code></p>");
        check("- a\n- b", "<ul><li>a</li><li>b</li></ul>");
        check("a\nb", "<p>a<br>b</p>");
        check("3. c\n4. d", "<ol start=\"3\"><li>c</li><li>d</li></ol>");
        check("1. a", "<ol><li>a</li></ol>");
        check("# Title", "<h4>Title</h4>");
        check("```rust\nlet a = 1;\n```", "<pre tabindex=\"0\"><code>let a = 1;\n</code></pre>");
    }

    #[test]
    fn html_is_text_and_links_lead_to_the_web_alone() {
        check("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
        check("a <img src=x onerror=alert(1)> b", "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>");
        check("[x](javascript:alert(1))", "<p><span>x</span></p>");
        check("[x](JaVaScRiPt:alert(1))", "<p><span>x</span></p>");
        check("[x](data:text/html,hi)", "<p><span>x</span></p>");
        check("[x](/logout)", "<p><span>x</span></p>");
        check(
            "[x](https://a.example/\"onmouseover=alert(1))",
            "<p><a rel=\"noopener noreferrer nofollow\" target=\"_blank\" href=\"https://a.example/&quot;onmouseover=alert(1)\">x</a></p>",
        );
        check(
            "![p](http://a.example/p.png)",
            "<p><a rel=\"noopener noreferrer nofollow\" target=\"_blank\" href=\"http://a.example/p.png\">p</a></p>",
        );
    }

    #[test]
    fn a_line_reads_without_its_marks() {
        let check = |line: &str, plain: &str| assert_eq!(plain_line(line), plain);
        check("**Please** ask `cargo` and [us](https://a.example)", "Please ask cargo and us");
        check("- 1. a list stays as it is", "- 1. a list stays as it is");
        check("<script>alert(1)</script> ../../etc task_a_b", "<script>alert(1)</script> ../../etc task_a_b");
        check("<@42> 배포 *지금*", "<@42> 배포 지금");
    }

    #[test]
    fn mentions_are_names() {
        check("<@42> and <@!7> in <#9>", "<p>@Eden and @member in #9</p>");
        check("**<@42>** `<@42>`", "<p><strong>@Eden</strong> <code>&lt;@42&gt;</code></p>");
        check("```\n<@42>\n```", "<pre tabindex=\"0\"><code>&lt;@42&gt;\n</code></pre>");
        check("<@U02AB> <@EDEN>", "<p>@member &lt;@EDEN&gt;</p>");
        check("<@x> <@> 1 < 2", "<p>&lt;@x&gt; &lt;@&gt; 1 &lt; 2</p>");
    }

    #[test]
    fn what_is_nested_without_end_is_shown_flat() {
        let html = markdown(&format!("{}deep", "> ".repeat(5_000)), &|_| String::new()).into_string();
        assert!(html.contains("deep") && html.matches("<blockquote>").count() <= DEPTH_MAX, "{}", html.len());
        assert_eq!(html.matches("<blockquote>").count(), html.matches("</blockquote>").count());
        let html = markdown(&"*".repeat(100_000), &|_| String::new()).into_string();
        assert!(html.len() < 200_000);
    }
}
