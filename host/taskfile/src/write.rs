//! From values to text: only the lines of what differs are changed.

use std::collections::HashMap;

use crate::document::{Document, Known, Section};
use crate::labels;
use crate::read::{items, step};
use crate::task::{Blocked, Outcome, Step, Task};

impl Document {
    /// A new file.
    pub fn of(task: &Task) -> Self {
        let mut document = Self::parse(&format!("# Task: {}\n", task.id));
        document.section_mut(Known::Metadata);
        let now = document.task();
        document.set_metadata(&now, task);
        // There also when they say nothing: people see where to write.
        document.section_mut(Known::Description);
        document.section_mut(Known::Progress);
        document.update(task);
        if let Some(last) = document.sections.last_mut() {
            last.body.truncate(last.body.trim_end().len());
            last.body.push('\n');
        }
        document
    }

    /// Makes the file say `task`; its title stays, and so does every line that does not differ.
    pub fn update(&mut self, task: &Task) {
        let now = self.task();
        self.set_metadata(&now, task);
        if now.description != task.description {
            self.section_mut(Known::Description).set_core(&escape(&task.description));
        }
        match &task.context {
            context if *context == now.context => {}
            Some(context) => self.section_mut(Known::Context).set_core(&escape(context)),
            None => self.remove(Known::Context),
        }
        if now.steps != task.steps {
            let section = self.section_mut(Known::Steps);
            let text = with_steps(section.core(), &task.steps);
            section.set_core(&text);
        }
        if now.progress != task.progress {
            let section = self.section_mut(Known::Progress);
            let text = match task.progress.strip_prefix(&*now.progress) {
                // The usual case, without a look at every line: more at the end of a list that nothing follows.
                Some(more) if ends_in_item(section.core()) => with_more(section.core(), more),
                _ => with_items(section.core(), &task.progress),
            };
            section.set_core(&text);
        }
        if now.blocked != task.blocked {
            self.set_labels(Known::Blocked, task.blocked.as_ref().map(blocked_labels));
        }
        if now.outcome != task.outcome {
            self.set_labels(Known::Outcome, task.outcome.as_ref().map(outcome_labels));
        }
        if now.last_activity != task.last_activity {
            self.section_mut(Known::LastActivity).set_core(&task.last_activity);
        }
    }

    /// The value of a line below `Metadata`.
    pub fn label(&self, name: &str) -> Option<&str> {
        labels::get(self.section(Known::Metadata)?.core(), name)
    }

    /// Sets the value of a line below `Metadata`.
    pub fn set_label(&mut self, name: &str, value: &str) {
        let section = self.section_mut(Known::Metadata);
        let text = labels::set(section.core(), name, Some(value));
        section.set_core(&text);
    }

    fn set_metadata(&mut self, now: &Task, task: &Task) {
        let list = |items: &[String]| (!items.is_empty()).then(|| items.join(", "));
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let pairs = [
            ("Status", text(now.status.as_str()), text(task.status.as_str())),
            ("Priority", text(now.priority.as_str()), text(task.priority.as_str())),
            ("Created", text(&now.created), text(&task.created)),
            ("Work Session", now.work_session.clone(), task.work_session.clone()),
            ("Previous Work Session", now.previous_work_session.clone(), task.previous_work_session.clone()),
            ("Created By", now.created_by.clone(), task.created_by.clone()),
            ("Assignee", now.assignee.clone(), task.assignee.clone()),
            ("Depends On", list(&now.depends_on), list(&task.depends_on)),
            ("Effort", now.effort.clone(), task.effort.clone()),
            ("Start", now.start.clone(), task.start.clone()),
            ("Due", now.due.clone(), task.due.clone()),
            ("Source", now.source.clone(), task.source.clone()),
            ("Milestone Item", now.milestone_item.clone(), task.milestone_item.clone()),
        ];
        for (label, now, wanted) in pairs {
            // A file that does not say its status or priority says it from the first change on.
            let unsaid =
                || self.section(Known::Metadata).is_none_or(|section| labels::get(section.core(), label).is_none());
            if now != wanted || (matches!(label, "Status" | "Priority") && unsaid()) {
                let section = self.section_mut(Known::Metadata);
                let text = labels::set(section.core(), label, wanted.as_deref());
                section.set_core(&text);
            }
        }
    }

    fn set_labels(&mut self, known: Known, wanted: Option<Vec<(&'static str, String)>>) {
        if let Some(wanted) = wanted {
            let section = self.section_mut(known);
            for (label, value) in wanted {
                let text = labels::set(section.core(), label, (!value.is_empty()).then_some(&*value));
                section.set_core(&text);
            }
            return;
        }
        let Some(section) = self.section(known) else { return };
        let ours = |line: &str| {
            let labels = if known == Known::Blocked { &BLOCKED[..] } else { &OUTCOME };
            labels::parts(line).is_some_and(|(name, _)| labels.iter().any(|label| label.eq_ignore_ascii_case(name)))
        };
        let others: Vec<&str> = section.core().lines().filter(|line| !ours(line)).collect();
        let others = others.join("\n").trim_matches(['\n', '\r']).to_owned();
        self.remove(known);
        if !others.is_empty() {
            // Somebody's words stay, under a name that means nothing here.
            let heading = format!("## Notes ({})\n", if known == Known::Blocked { "blocked" } else { "outcome" });
            self.insert(self.sections.len(), Section { heading, body: format!("\n{others}\n") });
        }
    }
}

/// Labels that are read below `Blocked`, and below `Outcome`.
const BLOCKED: [&str; 7] =
    ["Reason", "Kind", "Unblocked By", "Action", "Unblock Action", "Request Count", "Escalation"];
const OUTCOME: [&str; 3] = ["Kind", "Summary", "Reason"];

fn blocked_labels(blocked: &Blocked) -> Vec<(&'static str, String)> {
    vec![
        ("Reason", blocked.reason.clone()),
        ("Kind", blocked.kind.clone()),
        ("Unblocked By", blocked.unblocked_by.join(", ")),
        ("Action", blocked.action.clone()),
        ("Request Count", blocked.requests.to_string()),
        ("Escalation", blocked.escalation.clone()),
    ]
}

fn outcome_labels(outcome: &Outcome) -> Vec<(&'static str, String)> {
    vec![("Kind", outcome.kind.clone()), ("Summary", outcome.summary.clone()), ("Reason", outcome.reason.clone())]
}

fn escape(text: &str) -> String {
    let plain =
        |line: &str| if line.trim_start_matches('\\').starts_with('#') { format!("\\{line}") } else { line.to_owned() };
    text.trim().lines().map(plain).collect::<Vec<_>>().join("\n")
}

pub(crate) fn step_line(step: &Step) -> String {
    let marker = step.status.marker();
    match &*step.id {
        "" => format!("- [{marker}] {}", step.content),
        id => format!("- [{marker}] ({id}) {}", step.content),
    }
}

/// The text with these steps: each in its own line, new ones after them; in another order, the whole list where the first one stood.
fn with_steps(text: &str, wanted: &[Step]) -> String {
    let there: Vec<(usize, Step)> =
        text.lines().enumerate().filter_map(|(at, line)| Some((at, step(line)?.ok()?))).collect();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // One that a person wrote has its number now.
    let is_same = |now: &Step, wanted: &Step| now.id == wanted.id || now.id.is_empty() && now.content == wanted.content;
    if there.len() <= wanted.len() && there.iter().zip(wanted).all(|((_, now), wanted)| is_same(now, wanted)) {
        for ((at, _), wanted) in there.iter().zip(wanted).filter(|((_, now), wanted)| now != *wanted) {
            let indent = lines[*at].len() - lines[*at].trim_start().len();
            lines[*at] = format!("{}{}", " ".repeat(indent), step_line(wanted));
        }
        let after = there.last().map_or(lines.len(), |(at, _)| at + 1);
        lines.splice(after..after, wanted[there.len()..].iter().map(step_line));
        return lines.join("\n");
    }
    // Lines that do not change are kept as they were written.
    let as_written: HashMap<&str, (&Step, &String)> =
        there.iter().map(|(at, step)| (&*step.id, (step, &lines[*at]))).collect();
    let written = |wanted: &Step| match as_written.get(&*wanted.id) {
        Some((step, line)) if *step == wanted => (*line).clone(),
        _ => step_line(wanted),
    };
    let list: Vec<String> = wanted.iter().map(written).collect();
    let first = there.first().map_or(lines.len(), |(at, _)| *at);
    let is_step = |at: &usize| there.iter().any(|(known, _)| known == at);
    let before = lines[..first].to_vec();
    let after = (first..lines.len()).filter(|at| !is_step(at)).map(|at| lines[at].clone());
    before.into_iter().chain(list).chain(after).collect::<Vec<_>>().join("\n")
}

fn ends_in_item(text: &str) -> bool {
    let mut last = text.lines().rev().skip_while(|line| line.starts_with("  ") && !line.trim().is_empty());
    last.next().is_some_and(|line| line.strip_prefix("- ").is_some_and(|item| !item.trim().is_empty()))
}

fn with_more(text: &str, more: &[String]) -> String {
    let mut text = text.to_owned();
    for item in more {
        text.push_str("\n- ");
        text.push_str(&item.replace('\n', "\n  "));
    }
    text
}

/// The text with these items: added at the end where the list has grown, else the whole list where the first one stood.
fn with_items(text: &str, wanted: &[String]) -> String {
    let written = |item: &String| format!("- {}", item.replace('\n', "\n  "));
    let there = items(text);
    let lines: Vec<&str> = text.lines().collect();
    let grown = wanted.len() >= there.len() && there.iter().zip(wanted).all(|((_, now), wanted)| now == wanted);
    let (kept, list) = if grown { (there.len(), &wanted[there.len()..]) } else { (0, wanted) };
    let first = match kept.checked_sub(1) {
        Some(last) => there[last].0.end,
        None => there.first().map_or(lines.len(), |(range, _)| range.start),
    };
    let dropped = |at: &usize| !grown && there.iter().any(|(range, _)| range.contains(at));
    let before = lines[..first].iter().map(|line| (*line).to_owned());
    let after = (first..lines.len()).filter(|at| !dropped(at)).map(|at| lines[at].to_owned());
    before.chain(list.iter().map(written)).chain(after).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Status, StepStatus};

    const FOREIGN: &str = "# Task: task_x\nfree text\n\n## Metadata\n- **Status:** in_progress\n- **Reviewer:** 소라\n\n## Description\nOne\n\n## Notes\n\nmine\n\n## Steps\nintro\n- [x] (s1) a\n  note below a\n- [>] (s2) b\n\n## Progress\n- Task started\n";

    #[test]
    fn a_change_touches_its_own_lines_alone() {
        let mut document = Document::parse(FOREIGN);
        let mut task = document.task();
        document.update(&task);
        assert_eq!(document.to_string(), FOREIGN.replace("소라\n", "소라\n- **Priority:** medium\n"));
        task.steps[1].status = StepStatus::Done;
        task.steps.push(Step { id: "s3".into(), content: "c".into(), status: StepStatus::InProgress });
        task.progress.push("[s2] b — 완료\nwith a second line".into());
        task.status = Status::Blocked;
        document.update(&task);
        let expected = "# Task: task_x\nfree text\n\n## Metadata\n- **Status:** blocked\n- **Reviewer:** 소라\n- **Priority:** medium\n\n## Description\nOne\n\n## Notes\n\nmine\n\n## Steps\nintro\n- [x] (s1) a\n  note below a\n- [x] (s2) b\n- [>] (s3) c\n\n## Progress\n- Task started\n- [s2] b — 완료\n  with a second line\n";
        assert_eq!(document.to_string(), expected);
        assert_eq!(document.task(), task);
    }

    #[test]
    fn a_new_file_looks_as_in_the_old_system() {
        let mut task = Task::new("task_xxx", "OAuth 로그인 구현", "2026-02-13T12:00:00.000Z");
        task.status = Status::InProgress;
        task.progress.push("Task started".into());
        let expected = "# Task: task_xxx\n\n## Metadata\n\n- **Status:** in_progress\n- **Priority:** medium\n- **Created:** 2026-02-13T12:00:00.000Z\n\n## Description\n\nOAuth 로그인 구현\n\n## Progress\n\n- Task started\n\n## Last Activity\n\n2026-02-13T12:00:00.000Z\n";
        assert_eq!(Document::of(&task).to_string(), expected);
    }

    #[test]
    fn text_that_looks_like_a_heading_stays_text() {
        let task = Task::new("task_x", "one\n## Steps\n- [ ] (s9) not a step\n\\# two\n# Task: other", "now");
        let document = Document::of(&task);
        assert_eq!(Document::parse(&document.to_string()).task(), task);
    }

    #[test]
    fn what_is_over_is_taken_out_and_others_words_below_it_stay() {
        let mut document = Document::parse(
            "# Task: task_x\n## Metadata\n- **Status:** blocked\n- **Priority:** low\n## Blocked\n- **Reason:** a\ncall 소라\n",
        );
        let mut task = document.task();
        task.blocked = None;
        document.update(&task);
        let expected = "# Task: task_x\n## Metadata\n- **Status:** blocked\n- **Priority:** low\n\n## Notes (blocked)\n\ncall 소라\n";
        assert_eq!(document.to_string(), expected);
    }
}
