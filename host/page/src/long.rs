//! Texts that may be long: the beginning of one with a way to all of it, and all of it a part at a time.
//! Keeps true: what a text takes of a page is bounded by what it becomes as HTML, not by its own length; nothing that somebody wrote is out of reach.

use maud::{Markup, PreEscaped, html};

use crate::layout::Shell;

/// What a part of a text that is asked for whole may take, as HTML.
pub(crate) const WHOLE: usize = 30_000;
/// Marks may add this much to a text before less of it is shown.
const SLACK: usize = 64;
/// How much of each text a list shows: the most that keeps it small.
const EACH: [usize; 6] = [2_400, 1_200, 600, 300, 120, 40];

/// A text that a page shows by its beginning.
pub(crate) struct Long<'a> {
    /// Tells it from others of its page, behind `full`.
    pub(crate) id: &'a str,
    pub(crate) text: &'a str,
    /// What the beginning may take.
    pub(crate) bytes: usize,
    /// Bytes of it that were not read for this page.
    pub(crate) unread: usize,
}

/// As much of a text as becomes at most so many bytes, and where that ends.
pub(crate) fn fitted(text: &str, bytes: usize, written: &dyn Fn(&str) -> Markup) -> (Markup, usize) {
    let most = bytes + bytes / 8 + SLACK;
    let mut end = text.floor_char_boundary(bytes);
    loop {
        let shown = written(&text[..end]);
        if shown.0.len() <= most || end == 0 {
            return (shown, end);
        }
        // At least one character, so that whoever goes on comes to an end.
        let next = text.floor_char_boundary(end * bytes / shown.0.len().max(1));
        end = if next == 0 || next >= end { text.floor_char_boundary(end / 2) } else { next };
        if end == 0 {
            end = text.chars().next().map_or(0, char::len_utf8);
            return (written(&text[..end]), end);
        }
    }
}

/// The beginning of a text with a way to the rest, or a part of it where it is asked for whole.
pub(crate) fn long(shell: &Shell, one: &Long<'_>, written: &dyn Fn(&str) -> Markup) -> Markup {
    let words = shell.words();
    if shell.asked("full").as_deref() == Some(one.id) {
        return whole(shell, one.id, one.text, written);
    }
    let (shown, end) = fitted(one.text, one.bytes, written);
    let left = one.text.len() - end + one.unread;
    if left == 0 {
        return shown;
    }
    let (shown, _) = fitted(&one.text[..end], one.bytes, &|text| written(&format!("{}…", text.trim_end())));
    let path = shell.with_all(&[("full", one.id), ("at", "")]);
    html! {
        (shown)
        p.small id=(anchor(one.id)) { (words.cut) " (" (left) " B) " a href=(format!("{path}#{}", anchor(one.id))) { (words.show_whole) } }
    }
}

/// All of a text, a part at a time.
fn whole(shell: &Shell, id: &str, text: &str, written: &dyn Fn(&str) -> Markup) -> Markup {
    let words = shell.words();
    let less = shell.with_all(&[("full", ""), ("at", "")]);
    html! {
        div id=(anchor(id)) { (parts(shell, text, WHOLE, anchor(id).as_str(), written)) }
        p.small { a href=(less) { (words.show_less) } }
    }
}

/// The part of a text that the address asks for, with ways on and back.
pub(crate) fn parts(shell: &Shell, text: &str, bytes: usize, anchor: &str, written: &dyn Fn(&str) -> Markup) -> Markup {
    let words = shell.words();
    let from = shell.asked("at").and_then(|at| at.parse::<usize>().ok()).unwrap_or(0);
    let from = text.floor_char_boundary(if from < text.len() { from } else { 0 });
    let (shown, end) = fitted(&text[from..], bytes, written);
    let end = from + end;
    let to = |at: usize| {
        let at = if at == 0 { String::new() } else { at.to_string() };
        format!("{}#{anchor}", shell.with("at", &at))
    };
    html! {
        (shown)
        @if from > 0 || end < text.len() {
            p.pages {
                span.small { (from) "–" (end) " / " (text.len()) " B " }
                @if from > 0 { a.button href=(to(0)) { (words.to_first) } }
                @if end < text.len() { " " a.button href=(to(end)) { (words.next_part) } }
            }
        }
    }
}

fn anchor(id: &str) -> String {
    format!("long-{id}")
}

/// What the label of a button tells of the text that it is about.
pub(crate) fn label_bytes(each: usize) -> usize {
    (each / 2).min(60)
}

/// A list of texts, with as much of each as keeps all of it small.
pub(crate) fn fitting(bytes: usize, written: impl Fn(usize) -> Markup) -> Markup {
    let mut shown = html! {};
    for each in EACH {
        shown = written(each);
        if shown.0.len() <= bytes {
            break;
        }
    }
    shown
}

/// A text as a field for long texts holds it: there, nothing but these two is read as anything else.
pub(crate) fn in_field(text: &str) -> Markup {
    // A line end at the very beginning would be swallowed.
    let begin = if text.starts_with('\n') { "\n" } else { "" };
    PreEscaped(format!("{begin}{}", text.replace('&', "&amp;").replace('<', "&lt;")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::shell;
    use crate::markdown::markdown;
    use crate::words::Lang;

    fn plain(text: &str) -> Markup {
        html! { (text) }
    }

    #[test]
    fn a_text_takes_what_it_may_however_it_is_written() {
        for text in ["a".repeat(9_000), "가".repeat(9_000), "\"".repeat(9_000), "`a`".repeat(9_000), "|a".repeat(9_000)]
        {
            let (shown, end) = fitted(&text, 1_000, &|text| markdown(text, &|_| String::new()));
            assert!(
                shown.0.len() <= 1_200 && end > 0 && text.is_char_boundary(end),
                "{} of {:.9}",
                shown.0.len(),
                text
            );
        }
        assert_eq!(fitted("short", 1_000, &plain).1, 5);
        assert_eq!(fitted("", 1_000, &plain).1, 0);
    }

    #[test]
    fn all_of_a_text_is_reached_part_by_part() {
        let text: String = (0..30_000).map(|n| format!("{n}\"<&가 ")).collect();
        let one = Long { id: "note", text: &text, bytes: 400, unread: 0 };
        let cut = long(&shell(Lang::En, "/tasks/1?tab=x"), &one, &plain).into_string();
        assert!(cut.contains("href=\"/tasks/1?tab=x&amp;full=note#long-note\"") && cut.len() < 1_000, "{cut}");
        let (mut path, mut seen, mut rounds) = ("/tasks/1?full=note".to_owned(), String::new(), 0);
        loop {
            let shown = long(&shell(Lang::En, &path), &one, &plain).into_string();
            assert!(shown.len() < WHOLE * 5 / 4, "{}", shown.len());
            let inner = shown.split_once('>').map_or("", |(_, rest)| rest);
            seen.push_str(inner.split("<p").next().unwrap_or_default().trim_end_matches("</div>"));
            rounds += 1;
            let Some((_, next)) = shown.rsplit_once("at=") else { break };
            let next: String = next.chars().take_while(char::is_ascii_digit).collect();
            assert!(rounds < 100, "it comes to an end");
            if !shown.contains(Lang::En.words().next_part) {
                break;
            }
            path = format!("/tasks/1?full=note&at={next}");
        }
        assert_eq!(seen, plain(&text).into_string());
        assert!(rounds > 10);
    }

    #[test]
    fn a_list_shows_less_of_each_text_where_there_are_many() {
        let list = |many: usize| fitting(10_000, |each| html! { @for _ in 0..many { p { ("x".repeat(each)) } } });
        assert!(list(2).into_string().contains(&"x".repeat(2_400)));
        assert!(list(100).into_string().len() <= 10_000);
    }

    #[test]
    fn a_field_holds_a_text_as_it_is() {
        assert_eq!(in_field("\n</textarea>\"&amp;").into_string(), "\n\n&lt;/textarea>\"&amp;amp;");
    }
}
