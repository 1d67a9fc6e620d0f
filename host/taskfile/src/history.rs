//! A month of finished tasks: whole files, one after the other.

use std::ops::Range;

use crate::document::Document;

const BETWEEN: &str = "\n---\n\n";

/// The text by which a month grows when a task is archived; `first` if the month is new.
pub fn archived(document: &Document, first: bool) -> String {
    let text = document.to_string();
    let between = if first { "" } else { BETWEEN };
    format!("{between}{}\n", text.trim_end())
}

/// The name of a file of a month: the first is the month's own, a further one is numbered.
pub fn month_file(month: &str, part: u32) -> String {
    if part <= 1 { format!("{month}.md") } else { format!("{month}.{part}.md") }
}

/// The month that a file is of, and its place in it; none for what is no such file.
pub fn month_of(name: &str) -> Option<(&str, u32)> {
    let stem = name.strip_suffix(".md")?;
    let part =
        stem.rsplit_once('.').and_then(|(month, part)| Some((month, part.parse().ok().filter(|part| *part > 1)?)));
    Some(part.unwrap_or((stem, 1)))
}

/// Where each task of a month stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Id and bytes, the oldest first.
    pub tasks: Vec<(String, Range<usize>)>,
}

impl History {
    pub fn of(text: &str) -> Self {
        let mut tasks: Vec<(String, Range<usize>)> = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if let Some(id) = line.strip_prefix("# Task:") {
                if let Some((_, range)) = tasks.last_mut() {
                    range.end = at;
                }
                tasks.push((id.trim().to_owned(), at..text.len()));
            }
            at += line.len();
        }
        for (_, range) in &mut tasks {
            range.end = range.start + without_line(&text[range.clone()]).len();
        }
        Self { tasks }
    }
}

/// The text without the line that parts it from the next.
fn without_line(text: &str) -> &str {
    let trimmed = text.trim_end_matches(['\n', '\r']);
    match trimmed.strip_suffix("\n---") {
        Some(task) => {
            let end = task.trim_end_matches(['\n', '\r']).len();
            &text[..end + usize::from(text[end..].starts_with('\n'))]
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Task;

    #[test]
    fn a_month_has_further_files() {
        for (name, expected) in [
            ("2026-11.md", Some(("2026-11", 1))),
            ("2026-11.2.md", Some(("2026-11", 2))),
            ("2026-11.10.md", Some(("2026-11", 10))),
            ("old.md", Some(("old", 1))),
            ("2026-11.x.md", Some(("2026-11.x", 1))),
            ("2026-11.txt", None),
        ] {
            assert_eq!(month_of(name), expected, "{name}");
        }
        assert_eq!((month_file("2026-11", 1), month_file("2026-11", 3)), ("2026-11.md".into(), "2026-11.3.md".into()));
    }

    #[test]
    fn every_archived_task_is_found_again_whole() {
        let tasks = [
            Task::new("task_a", "one\n---\ntwo\n# Task: not one", "now"),
            Task::new("task_b", "---", "now"),
            Task::new("task_c", "", "now"),
        ];
        let mut month = String::new();
        for task in &tasks {
            month.push_str(&archived(&Document::of(task), month.is_empty()));
        }
        let found = History::of(&month).tasks;
        assert_eq!(found.len(), 3, "{month}");
        for ((id, range), task) in found.iter().zip(&tasks) {
            assert_eq!(id, &task.id);
            assert_eq!(month[range.clone()], Document::of(task).to_string());
        }
        assert_eq!(History::of("free text\n---\n"), History::default());
        let wide = "# Task: task_a\nfoo\u{3000}\n---\n";
        assert_eq!(&wide[History::of(wide).tasks[0].1.clone()], "# Task: task_a\nfoo\u{3000}\n");
    }
}
