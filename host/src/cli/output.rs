//! What a command prints: text for people, or one JSON document for programs.

use std::io::{IsTerminal, Write};

use serde_json::{Value, json};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::clock::Timestamp;
use crate::{app, settings};

#[derive(Clone, Copy)]
pub(super) struct Output {
    pub(super) json: bool,
}

impl Output {
    pub(super) fn show(self, document: &Value, text: impl FnOnce() -> String) {
        let text = if self.json { format!("{document:#}") } else { text() };
        // A reader that has gone, as with `| head`, is no error of ours.
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
    }

    /// Lines of something that goes on: text, or a JSON document each. False when nobody reads them any more.
    #[must_use]
    pub(super) fn lines(self, lines: &[Value], text: impl FnOnce(&[Value]) -> String) -> bool {
        let text = match self.json {
            true => lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"),
            false => text(lines),
        };
        let mut out = std::io::stdout().lock();
        text.is_empty() || writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
    }

    /// Something beside the answer, for people.
    pub(super) fn note(text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    pub(super) fn error(self, error: &anyhow::Error, code: u8) {
        let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
        if self.json {
            let problems = settings_error(error).map(settings::Error::problems);
            let document = json!({
                "error": { "message": error.to_string(), "causes": causes, "exitCode": code, "problems": problems }
            });
            self.show(&document, String::new);
            return;
        }
        let mut text = format!("chela: {error}");
        for cause in causes {
            text.push_str(&format!("\n  because: {cause}"));
        }
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

fn settings_error(error: &anyhow::Error) -> Option<&settings::Error> {
    match error.downcast_ref::<app::Error>() {
        Some(app::Error::Settings(error)) => Some(error),
        _ => error.downcast_ref(),
    }
}

/// Columns of the terminal that reads, `COLUMNS` over it; none when nobody counts them, as in a file or a pipe.
pub(super) fn columns() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let counted = || {
        let out = std::io::stdout();
        let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten();
        size.map(|size| usize::from(size.ws_col))
    };
    said.or_else(counted).filter(|columns| *columns > 0)
}

/// On one line, without what moves a terminal's cursor or turns its writing round.
pub(super) fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c }).collect()
}

/// At most so many columns wide; what was cut off is shown by `…`.
pub(super) fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut kept, mut width) = (String::new(), 0);
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width >= columns {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// Exactly so many columns wide, unless it is wider.
pub(super) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// A text of an answer; empty where there is none.
pub(super) fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

/// A share from 0 to 1, as people read it.
pub(super) fn share(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |share| format!("{share:.2}"))
}

/// The texts of a list.
pub(super) fn words(list: &Value) -> String {
    list.as_array().into_iter().flatten().map(word).collect::<Vec<_>>().join(", ")
}

/// A time in UTC, as `ls` writes one: without the year if it is this one, without the seconds if not.
pub(super) fn time(ms: &Value, now: Timestamp) -> String {
    let text = |time: Timestamp| time.to_string().replace('T', " ");
    let Some(ms) = ms.as_u64() else { return "-".into() };
    let (then, now) = (text(Timestamp(ms)), text(now));
    if then[..4] == now[..4] { then[5..19].to_owned() } else { then[..16].to_owned() }
}

/// Rows in columns, aligned as a terminal shows them: a Korean syllable is two columns wide.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_are_shown() {
        let rows = [["eden", "이든", "worker"], ["ruda", "Ruda", "orchestrator"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_eq!(table(&rows), "eden  이든  worker\nruda  Ruda  orchestrator");
    }

    #[test]
    fn a_text_is_cut_by_what_it_takes_on_the_screen() {
        let check = |text: &str, columns: usize, expected: &str| {
            let cut = fit(text, columns);
            assert_eq!(cut, expected);
            assert!(cut.width() <= columns, "{cut}");
        };
        check("deploy", 6, "deploy");
        check("deploys", 6, "deplo…");
        check("배포를", 6, "배포를");
        check("배포를 했다", 6, "배포…");
        check("배포를 했다", 7, "배포를…");
        check("배포", 1, "…");
        assert_eq!(plain("a\u{1b}[31mb\nc\u{202e}d"), "a [31mb c d");
    }

    #[test]
    fn a_time_has_no_year_when_it_is_this_one() {
        let now = Timestamp::parse("2026-11-16T09:30:00Z").expect("a time");
        assert_eq!(time(&json!(now.0), now), "11-16 09:30:00");
        assert_eq!(time(&json!(0), now), "1970-01-01 00:00");
        assert_eq!(time(&Value::Null, now), "-");
    }
}
