//! Promises about every text and every task, tried on many by seed.

use crate::document::Document;
use crate::history::{History, archived};
use crate::labels;
use crate::merge::merge;
use crate::read::{items, step};
use crate::steps::Change;
use crate::task::{Blocked, Outcome, Priority, Status, Step, StepStatus, Task};

const CASES: u64 = 50_000;

/// Pieces that files are made of, good and bad.
const PIECES: &[&str] = &[
    "# Task: task_a\n",
    "# Task:\n",
    "## Metadata\n",
    "## metadata \r\n",
    "## Description\n",
    "## Steps\n",
    "## Progress\n",
    "## Blocked\n",
    "## Outcome\n",
    "## Last Activity\n",
    "## Context\n",
    "## Notes\n",
    "##\n",
    "## \n",
    "### x\n",
    "- **Status:** in_progress\n",
    "- **Status:** done?\n",
    "- **Status:**\n",
    "- **Priority:** low\n",
    "- **Reviewer:** 소라\n",
    "- **:**\n",
    "- **Depends On:** task_a, , b\n",
    "- [x] (s1) a\n",
    "- [>] (s2) 나\n",
    "- [ ] (s2) twice\n",
    "- [?] (s3) x\n",
    "- [ ] no id\n",
    "  - [-] (s9) in\n",
    "- [](x)\n",
    "- []\n",
    "- Task started\n",
    "  more\n",
    "-\n",
    "- \n",
    "* star\n",
    "free text\n",
    "\n",
    "\r\n",
    "   \n",
    "\\# escaped\n",
    "\\\\## twice\n",
    "---\n",
    "- **Reason:** r\n",
    "- **Request Count:** x\n",
    "- **Kind:** completed\n",
    "end without line end",
    "\u{0}\u{feff}",
    "\u{2028}",
];

fn text(chance: &mut fastrand::Rng) -> String {
    (0..chance.usize(0..24)).map(|_| PIECES[chance.usize(0..PIECES.len())]).collect()
}

fn words(chance: &mut fastrand::Rng) -> String {
    const WORDS: &[&str] =
        &["OAuth", "구현", "## Steps", "- [x]", "#", "\\#", "(s1)", "—", "**b:**", "---", "# Task: x", "a"];
    (0..chance.usize(1..5)).map(|_| WORDS[chance.usize(0..WORDS.len())]).collect::<Vec<_>>().join(" ")
}

fn lines(chance: &mut fastrand::Rng) -> String {
    (0..chance.usize(0..4)).map(|_| words(chance)).collect::<Vec<_>>().join("\n")
}

fn maybe(chance: &mut fastrand::Rng) -> Option<String> {
    chance.bool().then(|| words(chance))
}

fn task(chance: &mut fastrand::Rng) -> Task {
    let mut task = Task::new("task_a", lines(chance), "2026-02-13T12:00:00.000Z");
    task.status = Status::parse(chance.choice(Status::WORDS).expect("some").to_owned());
    task.priority = Priority::parse(chance.choice(Priority::WORDS).expect("some").to_owned());
    for field in [
        &mut task.work_session,
        &mut task.previous_work_session,
        &mut task.created_by,
        &mut task.assignee,
        &mut task.effort,
        &mut task.start,
        &mut task.due,
        &mut task.source,
        &mut task.milestone_item,
        &mut task.context,
    ] {
        *field = maybe(chance);
    }
    task.depends_on = (0..chance.usize(0..3)).map(|n| format!("task_{n}")).collect();
    let statuses = [StepStatus::Pending, StepStatus::InProgress, StepStatus::Done, StepStatus::Skipped];
    task.steps = (0..chance.usize(0..5))
        .map(|n| Step { id: format!("s{}", n + 1), content: words(chance), status: statuses[chance.usize(0..4)] })
        .collect();
    task.progress = (0..chance.usize(0..4))
        .map(|_| words(chance) + chance.choice(["", "\nsecond", "\n  deep"]).expect("some"))
        .collect();
    task.blocked = chance.bool().then(|| Blocked {
        reason: words(chance),
        kind: "input".into(),
        unblocked_by: vec!["eden".into()],
        action: String::new(),
        requests: chance.u32(0..3),
        escalation: "none".into(),
    });
    task.outcome =
        chance.bool().then(|| Outcome { kind: "completed".into(), summary: words(chance), reason: String::new() });
    task
}

fn each_case(name: &str, mut check: impl FnMut(&mut fastrand::Rng)) {
    for seed in 0..CASES {
        let mut chance = fastrand::Rng::with_seed(seed);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&mut chance)));
        assert!(outcome.is_ok(), "{name}: seed {seed}");
    }
}

/// Lines that nothing here reads.
fn unknown(text: &str) -> Vec<String> {
    let document = Document::parse(text);
    let mut found: Vec<String> = document.head.lines().map(str::to_owned).collect();
    let mut seen = Vec::new();
    for section in &document.sections {
        let known = section.known().filter(|known| !seen.contains(known));
        seen.extend(known);
        use crate::document::Known;
        let read: Vec<usize> = items(section.core()).iter().flat_map(|(range, _)| range.clone()).collect();
        for (at, line) in section.core().lines().enumerate() {
            let is_read = match known {
                None => false,
                Some(Known::Description | Known::Context | Known::LastActivity) => true,
                Some(Known::Metadata | Known::Blocked | Known::Outcome) => labels::parts(line).is_some(),
                Some(Known::Steps) => matches!(step(line), Some(Ok(_))),
                Some(Known::Progress) => read.contains(&at),
            };
            if !is_read {
                found.push(line.trim_end().to_owned());
            }
        }
    }
    found.retain(|line| !line.trim().is_empty());
    found.sort();
    found
}

#[test]
fn any_text_comes_back_byte_for_byte() {
    each_case("round trip", |chance| {
        let text = text(chance);
        let document = Document::parse(&text);
        assert_eq!(document.to_string(), text);
        let lines = text.lines().count().max(1);
        assert!(document.problems().iter().all(|problem| (1..=lines).contains(&problem.line)), "{text:?}");
        History::of(&text);
    });
}

#[test]
fn any_task_formats_and_parses_to_itself() {
    each_case("format", |chance| {
        let task = task(chance);
        let document = Document::of(&task);
        assert_eq!(Document::parse(&document.to_string()).task(), task, "{document}");
        assert_eq!(History::of(&archived(&document, true)).tasks.len(), 1);
    });
}

#[test]
fn any_file_can_be_made_to_say_any_task_and_keeps_what_is_unknown() {
    each_case("update", |chance| {
        let text = text(chance);
        let mut wanted = task(chance);
        let mut document = Document::parse(&text);
        wanted.id = document.task().id;
        document.update(&wanted);
        let said = document.to_string();
        assert_eq!(Document::parse(&said).task(), wanted, "{text:?} became {said:?}");
        let kept = unknown(&said);
        for line in unknown(&text) {
            assert!(kept.contains(&line), "{line:?} of {text:?} is not in {said:?}");
        }
    });
}

#[test]
fn a_merge_loses_nothing_that_only_one_side_wrote() {
    each_case("merge", |chance| {
        let base = Document::of(&task(chance));
        let (mut ours, mut theirs) = (base.clone(), base.clone());
        let mut by_host = ours.task();
        let _ = Change::Complete(None).apply(&mut by_host);
        by_host.progress.push("by the host".into());
        by_host.last_activity = "later".into();
        ours.update(&by_host);
        let mut by_hand = theirs.task();
        by_hand.description = lines(chance);
        by_hand.progress.insert(chance.usize(0..=by_hand.progress.len()), "by hand".into());
        theirs.update(&by_hand);
        let merged = merge(&base, &ours, &theirs);
        let said = merged.document.task();
        assert_eq!(merged.conflicts, Vec::<String>::new());
        assert_eq!((&said.description, &said.steps), (&by_hand.description, &by_host.steps));
        for line in ["by the host", "by hand"] {
            assert_eq!(said.progress.iter().filter(|known| *known == line).count(), 1, "{}", merged.document);
        }
        assert_eq!(said.progress.len(), by_host.progress.len() + 1);
        // A merge of what is the same on all sides changes nothing, and any texts can be merged.
        assert_eq!(merge(&base, &base, &base).document.to_string(), base.to_string());
        let any = [0; 3].map(|_| Document::parse(&text(chance)));
        merge(&any[0], &any[1], &any[2]);
    });
}
