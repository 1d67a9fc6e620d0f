//! From text to values: what a file says, and what is wrong with it, by line.

use std::collections::HashSet;

use crate::document::{Document, Known};
use crate::labels;
use crate::task::{Blocked, Outcome, Priority, Status, Step, StepStatus, Task};

/// More than tools may add, for those whom people write.
const STEPS_MAX: usize = 500;

/// Something in a file that could not be read as it was probably meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub said: String,
}

impl Document {
    /// What the file says. What it does not say has the value of a task that says nothing.
    pub fn task(&self) -> Task {
        let core = |known| self.section(known).map_or("", |section| section.core());
        let meta = core(Known::Metadata);
        let label = |name: &str| labels::get(meta, name).map(str::to_owned);
        let context = core(Known::Context);
        Task {
            id: self.title().map(|(_, id)| id.to_owned()).unwrap_or_default(),
            status: label("Status").map_or(Status::Pending, |word| Status::parse(&word)),
            priority: label("Priority").map_or(Priority::Medium, |word| Priority::parse(&word)),
            created: label("Created").unwrap_or_default(),
            work_session: label("Work Session"),
            previous_work_session: label("Previous Work Session"),
            created_by: label("Created By"),
            assignee: label("Assignee"),
            depends_on: list(labels::get(meta, "Depends On")),
            effort: label("Effort"),
            start: label("Start"),
            due: label("Due"),
            source: label("Source"),
            milestone_item: label("Milestone Item"),
            description: unescape(core(Known::Description)),
            context: (!context.is_empty()).then(|| unescape(context)),
            steps: steps(core(Known::Steps)),
            progress: items(core(Known::Progress)).into_iter().map(|(_, item)| item).collect(),
            blocked: Some(core(Known::Blocked)).filter(|text| says_something(text)).map(blocked),
            outcome: Some(core(Known::Outcome)).filter(|text| says_something(text)).map(outcome),
            last_activity: core(Known::LastActivity).trim().to_owned(),
        }
    }

    /// Every problem, in the order of lines.
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut add = |line: usize, said: String| found.push(Problem { line, said });
        match self.title() {
            None => add(1, "there is no title; write `# Task: task_…` as the first line".into()),
            Some((line, "")) => add(line, "the title has no id; write `# Task: task_…`".into()),
            Some(_) => {}
        }
        let meta = self.section(Known::Metadata);
        if meta.is_none_or(|section| labels::get(section.core(), "Status").is_none()) {
            let line = meta.map_or(1, |_| self.heading_line(Known::Metadata));
            add(line, "there is no status; write `- **Status:** pending` below `## Metadata`".into());
        }
        let count = self.section(Known::Steps).map_or(0, |section| steps(section.core()).len());
        if count > STEPS_MAX {
            add(self.heading_line(Known::Steps), format!("there are {count} steps; at most {STEPS_MAX} are taken"));
        }
        if let Some(section) = self.section(Known::Steps) {
            let mut ids = HashSet::new();
            for (line, at) in section.body.lines().zip(self.heading_line(Known::Steps) + 1..) {
                match step(line) {
                    Some(Ok(step)) if !step.id.is_empty() && !ids.insert(step.id.clone()) => {
                        add(at, format!("step {} is there twice; give each its own id", step.id));
                    }
                    Some(Err(marker)) => {
                        add(at, format!("the marker [{marker}] means nothing; use [ ], [>], [x] or [-]"));
                    }
                    Some(Ok(_)) | None => {}
                }
            }
        }
        found
    }
}

fn list(text: Option<&str>) -> Vec<String> {
    text.into_iter()
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Lines that would read as a heading carry one backslash more than they mean.
fn unescape(text: &str) -> String {
    let plain = |line: &str| match line.strip_prefix('\\') {
        Some(rest) if rest.trim_start_matches('\\').starts_with('#') => rest.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// A line that is a step; its marker where that means nothing.
pub(crate) fn step(line: &str) -> Option<Result<Step, String>> {
    let (marker, rest) = line.trim().strip_prefix("- [")?.split_once(']')?;
    let status = match StepStatus::of_marker(marker) {
        Some(status) => status,
        // A link is no step.
        None if marker.chars().count() > 1 || rest.starts_with('(') => return None,
        None => return Some(Err(marker.to_owned())),
    };
    let rest = rest.trim();
    let named = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).filter(|(id, _)| is_step_id(id));
    let (id, content) = named.map_or(("", rest), |(id, content)| (id, content.trim()));
    Some(Ok(Step { id: id.to_owned(), content: content.to_owned(), status }))
}

pub(crate) fn is_step_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 32 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn steps(text: &str) -> Vec<Step> {
    text.lines().filter_map(|line| step(line)?.ok()).collect()
}

/// The items of a list, each with the range of its lines; lines indented below one belong to it.
pub(crate) fn items(text: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let mut items: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let rest = line.strip_prefix("  ").map(str::trim_end).filter(|rest| !rest.is_empty());
        if let Some(item) = line.strip_prefix("- ") {
            items.push((at..at + 1, item.trim().to_owned()));
        } else if let (Some(rest), Some((range, item))) = (rest, items.last_mut())
            && range.end == at
        {
            range.end = at + 1;
            item.push('\n');
            item.push_str(rest);
        }
    }
    items.retain(|(_, item)| !item.is_empty());
    items
}

fn says_something(text: &str) -> bool {
    text.lines().any(|line| labels::parts(line).is_some())
}

fn blocked(text: &str) -> Blocked {
    let label = |name: &str| labels::get(text, name).unwrap_or_default().to_owned();
    let action = labels::get(text, "Action").or_else(|| labels::get(text, "Unblock Action"));
    Blocked {
        reason: label("Reason"),
        kind: label("Kind"),
        unblocked_by: list(labels::get(text, "Unblocked By")),
        action: action.unwrap_or_default().to_owned(),
        requests: label("Request Count").parse().unwrap_or(0),
        escalation: label("Escalation"),
    }
}

fn outcome(text: &str) -> Outcome {
    let label = |name: &str| labels::get(text, name).unwrap_or_default().to_owned();
    Outcome { kind: label("Kind"), summary: label("Summary"), reason: label("Reason") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the old system's monitor, byte for byte.
    const WITH_STEPS: &str = "# Task: task_steps_test

## Metadata
- **Status:** in_progress
- **Priority:** high
- **Created:** 2026-02-13T12:00:00.000Z

## Description
OAuth 로그인 구현

## Steps
- [x] (s1) 기존 auth 구조 파악
- [>] (s2) Google OAuth strategy 추가
- [ ] (s3) GitHub OAuth callback 구현
- [-] (s4) 건너뛴 단계

## Progress
- Task started
- [s1] 기존 auth 구조 분석 완료

## Last Activity
2026-02-13T12:30:00.000Z";

    #[test]
    fn the_old_systems_example_has_the_values_it_had_there() {
        let task = Document::parse(WITH_STEPS).task();
        let json = task.to_json();
        assert_eq!(
            json["steps"],
            serde_json::json!([
                { "id": "s1", "content": "기존 auth 구조 파악", "status": "done", "order": 1 },
                { "id": "s2", "content": "Google OAuth strategy 추가", "status": "in_progress", "order": 2 },
                { "id": "s3", "content": "GitHub OAuth callback 구현", "status": "pending", "order": 3 },
                { "id": "s4", "content": "건너뛴 단계", "status": "skipped", "order": 4 },
            ])
        );
        let counts = serde_json::json!({ "total": 4, "done": 1, "inProgress": 1, "pending": 1, "skipped": 1 });
        assert_eq!(json["stepsProgress"], counts);
        assert_eq!((&task.status, &task.priority), (&Status::InProgress, &Priority::High));
        assert_eq!(task.progress, ["Task started", "[s1] 기존 auth 구조 분석 완료"]);
        assert_eq!((&*task.description, &*task.last_activity), ("OAuth 로그인 구현", "2026-02-13T12:30:00.000Z"));
        assert!(Document::parse(WITH_STEPS).problems().is_empty());
    }

    #[test]
    fn a_file_without_steps_has_neither_steps_nor_their_progress() {
        let text = "# Task: task_xxx\n\n## Metadata\n\n- **Status:** in_progress\n- **Priority:** high\n- **Created:** 2026-02-13T12:00:00.000Z\n\n## Description\n\nOAuth 로그인 구현\n\n## Progress\n\n- Task started\n- 기존 auth 구조 분석 완료\n\n## Last Activity\n\n2026-02-13T12:30:00.000Z\n";
        let json = Document::parse(text).task().to_json();
        assert!(!json.contains_key("steps") && !json.contains_key("stepsProgress"));
        assert_eq!(json["progress"], serde_json::json!(["Task started", "기존 auth 구조 분석 완료"]));
        assert_eq!(json["created"], "2026-02-13T12:00:00.000Z");
    }

    #[test]
    fn problems_name_their_line() {
        let check = |text: &str, expected: &[(usize, &str)]| {
            let found = Document::parse(text).problems();
            let found: Vec<(usize, &str)> = found.iter().map(|problem| (problem.line, &*problem.said)).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert_eq!(found.0, expected.0, "{found:?}");
                assert!(found.1.contains(expected.1), "{found:?}");
            }
        };
        let title = "there is no title";
        check("", &[(1, title), (1, "there is no status")]);
        check("# Task: a\n\n## Metadata\n- **Priority:** high\n", &[(3, "there is no status")]);
        let steps = "# Task: a\n## Metadata\n- **Status:** x\n\n## Steps\n\n- [ ] (s1) a\n- [?] (s2) b\n- [x] (s1) c\n- [see](here)\n";
        check(steps, &[(8, "[?] means nothing"), (9, "s1 is there twice")]);
    }

    #[test]
    fn a_step_without_an_id_and_a_capital_marker_are_read() {
        let check = |line: &str, id: &str, content: &str, status: StepStatus| {
            assert_eq!(step(line), Some(Ok(Step { id: id.into(), content: content.into(), status })), "{line}");
        };
        check("- [ ] 새 단계", "", "새 단계", StepStatus::Pending);
        check("- [X] (s2) b", "s2", "b", StepStatus::Done);
        check("- [] c", "", "c", StepStatus::Pending);
        check("  - [>] (not an id) d", "", "(not an id) d", StepStatus::InProgress);
    }
}
