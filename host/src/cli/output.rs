//! What a command prints: text for people, or one JSON document for programs.

use std::io::Write;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

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

    /// Lines of something that goes on: text, or a JSON document each.
    pub(super) fn lines(self, lines: &[Value], text: impl FnOnce(&[Value]) -> String) {
        let text = match self.json {
            true => lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"),
            false => text(lines),
        };
        let mut out = std::io::stdout().lock();
        if !text.is_empty() {
            let _ = writeln!(out, "{text}").and_then(|()| out.flush());
        }
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

/// Rows in columns, aligned as a terminal shows them: a Korean syllable is two columns wide.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.width())));
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
}
