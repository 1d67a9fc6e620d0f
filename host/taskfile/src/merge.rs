//! A hand edit and what the host wrote meanwhile, made one.
//! Keeps true: what only one side changed is taken from that side; where both did, status, step markers, what blocks and the outcome are the
//! host's, progress has the lines of both, and for all else the file stays as it was and says that the edit did not fit.

use std::collections::{BTreeSet, HashMap};

use crate::document::Document;
use crate::labels;
use crate::read::{items, step};
use crate::steps::name_all;
use crate::task::{Status, Step, StepStatus, Task};

/// What a merge gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub document: Document,
    /// Parts that both sides changed, each in its own way: their text of the edit is not in the document.
    pub conflicts: Vec<String>,
}

/// How many lines two texts do not share.
pub fn distance(one: &str, other: &str) -> usize {
    let mut counts: HashMap<&str, i64> = HashMap::new();
    one.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    other.lines().for_each(|line| *counts.entry(line).or_default() -= 1);
    counts.values().map(|count| usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)).sum()
}

/// Merges what a person saved (`theirs`), having begun from `base`, into what the file says now (`ours`).
pub fn merge(base: &Document, ours: &Document, theirs: &Document) -> Merged {
    let mut merge = Merge { conflicts: Vec::new() };
    let [was, now, edited] = [base, ours, theirs].map(Document::task);
    // The host writes this line with every change and people leave it alone: an older one tells that they began from something older still.
    let began_earlier = was.last_activity != edited.last_activity && edited.last_activity < now.last_activity;
    // Lines of an earlier edit that stand within the host's sections have no place in a layout that does not know them.
    let (known, known_then, known_there) = (loose_lines(ours), loose_lines(base), loose_lines(theirs));
    let would_lose = known.iter().any(|line| !known_then.contains(line) && !known_there.contains(line));
    if began_earlier || would_lose {
        return merge.additions([base, ours, theirs], [&was, &now, &edited]);
    }
    // The layout is the person's: what they see is what they saved, with what the host knows better.
    let mut document = theirs.clone();
    merge.free_text(base, ours, &mut document);
    merge.free_labels(base, ours, &mut document);
    document.update(&merge.task(&was, &now, &edited));
    Merged { document, conflicts: merge.conflicts }
}

struct Merge {
    conflicts: Vec<String>,
}

impl Merge {
    /// A value that is people's: if both changed it, the file's stays and the edit is told.
    fn theirs<T: Clone + PartialEq>(&mut self, what: &str, was: &T, now: &T, edited: &T) -> T {
        if now == was || edited == now {
            return edited.clone();
        }
        if edited != was {
            self.conflicts.push(what.to_owned());
        }
        now.clone()
    }

    /// What the person began from is not known: what they added is taken up, what else differs is told, and nothing is taken out.
    fn additions(mut self, [base, ours, theirs]: [&Document; 3], [was, now, edited]: [&Task; 3]) -> Merged {
        let mut document = ours.clone();
        let mut task = now.clone();
        task.progress = union(&now.progress, &now.progress, &edited.progress);
        let is_there = |step: &Step| now.steps.iter().any(|known| known.content == step.content);
        task.steps.extend(edited.steps.iter().filter(|step| step.id.is_empty() && !is_there(step)).cloned());
        name_all(&mut task.steps);
        task.description = self.added("Description", &now.description, &edited.description);
        let [context, theirs_context] = [now, edited].map(|task| task.context.clone().unwrap_or_default());
        task.context = Some(self.added("Context", &context, &theirs_context)).filter(|text| !text.is_empty());
        self.left_out(was, now, edited);
        if theirs.head != base.head && theirs.head != ours.head {
            self.conflicts.push("the text above the sections".to_owned());
        }
        let held = loose_lines(ours);
        if loose_lines(theirs).iter().any(|line| !held.contains(line)) {
            self.conflicts.push("lines within sections".to_owned());
        }
        let mine = free(ours);
        for (key, at) in free(theirs) {
            let section = &theirs.sections[at];
            match mine.iter().find(|(name, _)| *name == key) {
                None => document.insert(document.sections.len(), section.clone()),
                // What is new stands after them, so their places are still the same.
                Some((_, at)) => {
                    let known = ours.sections[*at].core();
                    let text = self.added(&format!("## {}", section.title()), known, section.core());
                    if text != known {
                        document.sections[*at].set_core(&text);
                    }
                }
            }
        }
        let labels = |document: &Document| {
            let text = document.section(crate::document::Known::Metadata).map_or("", |section| section.core());
            text.lines()
                .filter_map(labels::parts)
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect::<Vec<_>>()
        };
        for (name, value) in labels(theirs) {
            match document.label(&name) {
                Some(known) if known == value || name.eq_ignore_ascii_case("Status") => {}
                Some(_) => self.conflicts.push(name),
                None if value.is_empty() => {}
                None => document.set_label(&name, &value),
            }
        }
        let mut said = document.task();
        (said.progress, said.steps) = (task.progress, task.steps);
        (said.description, said.context) = (task.description, task.context);
        document.update(&said);
        Merged { document, conflicts: self.conflicts }
    }

    /// Tells what of an edit is further than the file, and not taken up.
    fn left_out(&mut self, was: &Task, now: &Task, edited: &Task) {
        let rank = |status: StepStatus| match status {
            StepStatus::Pending => 0,
            StepStatus::InProgress => 1,
            StepStatus::Done | StepStatus::Skipped => 2,
        };
        for step in edited.steps.iter().filter(|step| !step.id.is_empty()) {
            let known = now.steps.iter().find(|known| known.id == step.id);
            if known.is_none_or(|known| known.content != step.content || rank(step.status) > rank(known.status)) {
                self.conflicts.push(format!("Steps ({})", step.id));
            }
        }
        let is_theirs = edited.status.is_terminal() || edited.status == Status::Blocked || edited.status != was.status;
        if edited.status != now.status && is_theirs {
            self.conflicts.push("Status".to_owned());
        }
        if edited.outcome.is_some() && edited.outcome != now.outcome {
            self.conflicts.push("Outcome".to_owned());
        }
    }

    /// A text with the lines that the other has more.
    fn added(&mut self, what: &str, now: &str, edited: &str) -> String {
        let [ours, theirs] = [now, edited].map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let new = theirs.iter().filter(|line| !ours.contains(line)).count();
        if new == 0 {
            return now.to_owned();
        }
        // An item of a list can be taken in; a line of a text cannot be told from one that was changed meanwhile.
        if theirs.iter().chain(&ours).all(|line| line.is_empty() || line.starts_with("- ")) {
            return union(&ours, &ours, &theirs).join("\n");
        }
        self.conflicts.push(what.to_owned());
        now.to_owned()
    }

    /// A text of people: lines that both sides added are all kept.
    fn text(&mut self, what: &str, was: &str, now: &str, edited: &str) -> String {
        let [before, ours, theirs] = [was, now, edited].map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        if now != was && edited != was && now != edited && is_within(&before, &ours) && is_within(&before, &theirs) {
            return union(&before, &ours, &theirs).join("\n");
        }
        self.theirs(what, &was.to_owned(), &now.to_owned(), &edited.to_owned())
    }

    fn task(&mut self, was: &Task, now: &Task, edited: &Task) -> Task {
        let context = match (&was.context, &now.context, &edited.context) {
            (Some(was), Some(now), Some(edited)) => Some(self.text("Context", was, now, edited)),
            (was, now, edited) => self.theirs("Context", was, now, edited),
        };
        let mut text =
            |what: &str, field: fn(&Task) -> &Option<String>| self.theirs(what, field(was), field(now), field(edited));
        let work_session = text("Work Session", |task| &task.work_session);
        let previous_work_session = text("Previous Work Session", |task| &task.previous_work_session);
        let created_by = text("Created By", |task| &task.created_by);
        let assignee = text("Assignee", |task| &task.assignee);
        let effort = text("Effort", |task| &task.effort);
        let start = text("Start", |task| &task.start);
        let due = text("Due", |task| &task.due);
        let source = text("Source", |task| &task.source);
        let milestone_item = text("Milestone Item", |task| &task.milestone_item);
        Task {
            id: now.id.clone(),
            status: ours(&was.status, &now.status, &edited.status),
            priority: self.theirs("Priority", &was.priority, &now.priority, &edited.priority),
            created: self.theirs("Created", &was.created, &now.created, &edited.created),
            work_session,
            previous_work_session,
            created_by,
            assignee,
            depends_on: self.theirs("Depends On", &was.depends_on, &now.depends_on, &edited.depends_on),
            effort,
            start,
            due,
            source,
            milestone_item,
            description: self.text("Description", &was.description, &now.description, &edited.description),
            context,
            steps: self.steps(&was.steps, &now.steps, &edited.steps),
            progress: union(&was.progress, &now.progress, &edited.progress),
            blocked: ours(&was.blocked, &now.blocked, &edited.blocked),
            outcome: ours(&was.outcome, &now.outcome, &edited.outcome),
            last_activity: ours(&was.last_activity, &now.last_activity, &edited.last_activity),
        }
    }

    /// Contents are people's and markers the host's, each by the step's id. New steps of a person get an id.
    fn steps(&mut self, was: &[Step], now: &[Step], edited: &[Step]) -> Vec<Step> {
        // Steps without ids are the same where they say the same: those of a file that people made, and those that an editor that is
        // behind shows without the id that they have got meanwhile.
        let mut was = was.to_vec();
        name_all(&mut was);
        let mut now = now.to_vec();
        name_after(&mut now, &was);
        let mut edited = edited.to_vec();
        name_after(&mut edited, &was);
        let fresh: Vec<Step> = now.iter().filter(|step| was.iter().all(|known| known.id != step.id)).cloned().collect();
        name_after(&mut edited, &fresh);
        let (was, now) = (&was[..], &now[..]);
        let order = |steps: &[Step]| steps.iter().map(|step| step.id.clone()).collect::<Vec<_>>();
        let of = |steps: &'_ [Step], id: &str| steps.iter().find(|step| step.id == id).cloned();
        let taken: BTreeSet<String> = order(was).into_iter().chain(order(now)).collect();
        // An id that the host gave to another step meanwhile is not the person's to use.
        let clash = |step: &Step| of(was, &step.id).is_none() && of(now, &step.id).is_some();
        for step in &mut edited {
            if clash(step) && of(now, &step.id).is_some_and(|other| other.content != step.content) {
                step.id = String::new();
            }
        }
        let mut merged: Vec<Step> = Vec::new();
        let keeps_order = order(was) == order(now);
        let lead = if keeps_order { edited.clone() } else { now.to_vec() };
        let rest = if keeps_order { now.to_vec() } else { edited.clone() };
        for step in lead.into_iter().chain(rest) {
            let is_new_of_person = step.id.is_empty();
            if !is_new_of_person && merged.iter().any(|known| known.id == step.id) {
                continue;
            }
            let [before, mine, yours] =
                [was, now, &edited].map(|steps| of(steps, &step.id).filter(|_| !is_new_of_person));
            match (before, mine, yours) {
                (Some(before), Some(mine), Some(yours)) => {
                    let what = format!("Steps ({})", step.id);
                    let content = self.theirs(&what, &before.content, &mine.content, &yours.content);
                    let status = ours(&before.status, &mine.status, &yours.status);
                    merged.push(Step { id: step.id.clone(), content, status });
                }
                // Taken out by one side: that counts unless the other changed it.
                (Some(before), Some(left), None) | (Some(before), None, Some(left)) => {
                    if left != before {
                        merged.push(left);
                    }
                }
                (Some(_), None, None) => {}
                (None, Some(mine), Some(_) | None) => merged.push(mine),
                (None, None, Some(yours)) => merged.push(yours),
                (None, None, None) => merged.push(step),
            }
        }
        let mut named = merged;
        // Numbers that were ever used here are not given again.
        let mut all: Vec<Step> = named.clone();
        all.extend(taken.into_iter().map(|id| Step { id, content: String::new(), status: Default::default() }));
        name_all(&mut all);
        for (step, known) in named.iter_mut().zip(all) {
            step.id = known.id;
        }
        named
    }

    /// Sections and lines before them that mean nothing here.
    fn free_text(&mut self, base: &Document, ours: &Document, document: &mut Document) {
        let head = self.theirs("the text above the sections", &base.head, &ours.head, &document.head);
        document.head = head;
        let (was, edited) = (free(base), free(document));
        for (key, at) in free(ours) {
            let section = &ours.sections[at];
            let place =
                |sections: &[(String, usize)]| sections.iter().find(|(name, _)| *name == key).map(|(_, at)| *at);
            let there = place(&edited);
            let was = place(&was).map(|at| base.sections[at].core().to_owned());
            let edited = there.map(|at| document.sections[at].core().to_owned());
            let now = Some(section.core().to_owned());
            let what = format!("## {}", section.title());
            let wanted = match (&was, &now, &edited) {
                (Some(was), Some(now), Some(edited)) => Some(self.text(&what, was, now, edited)),
                // Both began it: the lines of each.
                (None, Some(now), Some(edited)) => Some(self.text(&what, "", now, edited)),
                (was, now, edited) => self.theirs(&what, was, now, edited),
            };
            match (wanted, there) {
                (wanted, _) if wanted == edited => {}
                (Some(text), Some(at)) => document.sections[at].set_core(&text),
                (Some(_), None) => document.insert(document.sections.len(), section.clone()),
                (None, _) => {}
            }
        }
    }

    /// Labels below `Metadata` that mean nothing here.
    fn free_labels(&mut self, base: &Document, ours: &Document, document: &mut Document) {
        use crate::document::Known::Metadata;
        const KNOWN: [&str; 13] = [
            "Status",
            "Priority",
            "Created",
            "Work Session",
            "Previous Work Session",
            "Created By",
            "Assignee",
            "Depends On",
            "Effort",
            "Start",
            "Due",
            "Source",
            "Milestone Item",
        ];
        let text =
            |document: &Document| document.section(Metadata).map_or(String::new(), |section| section.core().to_owned());
        let (was, now) = (text(base), text(ours));
        let names: Vec<String> = now.lines().filter_map(labels::parts).map(|(name, _)| name.to_owned()).collect();
        for name in names.iter().filter(|name| !KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name))) {
            let edited = text(document);
            let value = |text: &str| labels::get(text, name).map(str::to_owned);
            let wanted = self.theirs(name, &value(&was), &value(&now), &value(&edited));
            if wanted != value(&edited) {
                let changed = labels::set(&edited, name, wanted.as_deref());
                document.section_mut(Metadata).set_core(&changed);
            }
        }
    }
}

/// Steps without an id get that of a known one with the same words, each of them once.
fn name_after(steps: &mut [Step], known: &[Step]) {
    let taken: BTreeSet<String> = steps.iter().map(|step| step.id.clone()).collect();
    let mut left: Vec<&Step> = known.iter().filter(|step| !step.id.is_empty() && !taken.contains(&step.id)).collect();
    for step in steps.iter_mut().filter(|step| step.id.is_empty()) {
        if let Some(at) = left.iter().position(|known| known.content == step.content) {
            step.id.clone_from(&left.remove(at).id);
        }
    }
}

/// The host's value, unless only the person changed it.
fn ours<T: Clone + PartialEq>(was: &T, now: &T, edited: &T) -> T {
    if now == was { edited.clone() } else { now.clone() }
}

/// Lines within the host's sections that mean nothing there.
fn loose_lines(document: &Document) -> BTreeSet<String> {
    use crate::document::Known;
    let mut found = BTreeSet::new();
    for known in [Known::Metadata, Known::Steps, Known::Progress, Known::Blocked, Known::Outcome] {
        let Some(section) = document.section(known) else { continue };
        let items: BTreeSet<usize> = items(section.core()).into_iter().flat_map(|(range, _)| range).collect();
        for (at, line) in section.core().lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let is_read = match known {
                Known::Steps => matches!(step(line), Some(Ok(_))),
                Known::Progress => items.contains(&at),
                _ => labels::parts(line).is_some(),
            };
            if !is_read {
                found.insert(line.trim().to_owned());
            }
        }
    }
    found
}

/// Sections that mean nothing here, by place, each with a name of its own.
fn free(document: &Document) -> Vec<(String, usize)> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for (at, section) in document.sections.iter().enumerate() {
        if section.known().is_some_and(|meant| known.insert(meant)) {
            continue;
        }
        let nth = seen.entry(section.title()).or_default();
        *nth += 1;
        found.push((format!("{} {nth}", section.title()), at));
    }
    found
}

/// Whether `lines` has every one of `some` in this order, so that it only added to them.
fn is_within(some: &[String], lines: &[String]) -> bool {
    let mut left = lines.iter();
    some.iter().all(|wanted| left.any(|line| line == wanted))
}

/// The lines of both: ours in their order, and each new one of the person after the line it was written below.
fn union(was: &[String], now: &[String], edited: &[String]) -> Vec<String> {
    let count = |lines: &'_ [String]| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        lines.iter().for_each(|line| *counts.entry(line.clone()).or_default() += 1);
        counts
    };
    let mut left = count(was);
    // What both sides have more is one line: the same save may be seen twice.
    let mut shared = count(now);
    for (line, known) in &left {
        if let Some(more) = shared.get_mut(line) {
            *more = more.saturating_sub(*known);
        }
    }
    let mut merged = now.to_vec();
    let mut place = 0;
    for line in edited {
        let known =
            [&mut left, &mut shared].into_iter().find_map(|counts| counts.get_mut(line).filter(|count| **count > 0));
        match known {
            Some(count) => {
                *count -= 1;
                if let Some(at) = merged[place.min(merged.len())..].iter().position(|known| known == line) {
                    place += at + 1;
                }
            }
            None => {
                merged.insert(place.min(merged.len()), line.clone());
                place += 1;
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Change;

    const BASE: &str = "# Task: task_x\n\n## Metadata\n\n- **Status:** in_progress\n- **Priority:** medium\n- **Reviewer:** 소라\n\n## Description\n\nOne\n\n## Steps\n\n- [>] (s1) a\n- [ ] (s2) b\n\n## Notes\n\nmine\n\n## Progress\n\n- Task started\n\n## Last Activity\n\nt1\n";

    fn host(text: &str, change: impl FnOnce(&mut Task)) -> Document {
        let mut document = Document::parse(text);
        let mut task = document.task();
        change(&mut task);
        document.update(&task);
        document
    }

    fn merged(ours: &Document, theirs: &str) -> Merged {
        merge(&Document::parse(BASE), ours, &Document::parse(theirs))
    }

    #[test]
    fn an_edit_of_an_old_version_does_not_revert_what_came_after() {
        let ours = host(BASE, |task| {
            Change::Complete(None).apply(task).expect("completed");
            task.progress.push("[s1] a — 완료".into());
            task.last_activity = "t2".into();
        });
        let theirs = BASE
            .replace("One", "One and a half")
            .replace("mine", "mine too")
            .replace("started\n", "started\n- by hand\n");
        let merged = merged(&ours, &theirs);
        let expected = theirs
            .replace("- [>] (s1)", "- [x] (s1)")
            .replace("- [ ] (s2)", "- [>] (s2)")
            .replace("- by hand\n", "- by hand\n- [s1] a — 완료\n")
            .replace("t1", "t2");
        assert_eq!((merged.document.to_string(), merged.conflicts), (expected, vec![]));
    }

    #[test]
    fn a_box_ticked_by_hand_counts_unless_the_host_moved_it() {
        let ours = host(BASE, |task| task.last_activity = "t2".into());
        let theirs =
            BASE.replace("- [>] (s1)", "- [x] (s1)").replace("- [ ] (s2) b\n", "- [ ] (s2) b\n- [ ] new one\n");
        let steps = merged(&ours, &theirs).document.to_string();
        assert!(steps.contains("- [x] (s1) a\n- [ ] (s2) b\n- [ ] (s3) new one\n"), "{steps}");
        let ours = host(BASE, |task| {
            Change::Add("c".into()).apply(task).expect("added");
            Change::Start("s2".into()).apply(task).expect("started");
        });
        let steps = merged(&ours, &theirs).document.to_string();
        assert!(steps.contains("- [ ] (s1) a\n- [>] (s2) b\n- [ ] (s3) c\n- [ ] (s4) new one\n"), "{steps}");
    }

    #[test]
    fn what_both_changed_stays_and_is_told() {
        let ours = Document::parse(&BASE.replace("One", "Two").replace("mine", "yours").replace("소라", "이든"));
        let theirs =
            BASE.replace("One", "Three").replace("mine", "ours").replace("소라", "세움").replace("medium", "high");
        let merged = merged(&ours, &theirs);
        assert_eq!(merged.conflicts, ["## Notes", "Reviewer", "Description"]);
        assert_eq!(merged.document.to_string(), ours.to_string().replace("medium", "high"));
    }

    #[test]
    fn sections_and_labels_of_earlier_edits_are_not_lost_to_a_later_one() {
        let ours = Document::parse(
            &BASE
                .replace("- **Reviewer:** 소라", "- **Reviewer:** 소라\n- **Link:** x")
                .replace("## Progress", "## Ideas\n\ngood\n\n## Progress"),
        );
        let text = merged(&ours, &BASE.replace("One", "Two")).document.to_string();
        assert!(
            text.contains("- **Link:** x") && text.contains("## Ideas\n\ngood\n") && text.contains("Two"),
            "{text}"
        );
    }

    #[test]
    fn an_edit_of_a_version_that_nobody_has_any_more_takes_nothing_out() {
        let base = host(BASE, |task| task.last_activity = "t5".into());
        let ours = host(BASE, |task| {
            Change::Add("c".into()).apply(task).expect("added");
            task.progress.push("by the host".into());
            task.last_activity = "t6".into();
        });
        let theirs = BASE
            .replace("t1", "t0")
            .replace("- Task started\n", "- Task started\n- by hand\n")
            .replace("- [ ] (s2) b\n", "- [ ] (s2) b\n- [ ] new\n")
            .replace("One", "Another")
            .replace("- **Priority:** medium", "- **Priority:** high\n- **Due:** tomorrow");
        let merged = merge(&base, &ours, &Document::parse(&theirs));
        assert_eq!(merged.conflicts, ["Description", "Priority"]);
        let expected = ours
            .to_string()
            .replace("- Task started\n", "- Task started\n- by hand\n")
            .replace("- [ ] (s3) c\n", "- [ ] (s3) c\n- [ ] (s4) new\n")
            .replace("- **Reviewer:** 소라\n", "- **Reviewer:** 소라\n- **Due:** tomorrow\n");
        assert_eq!(merged.document.to_string(), expected);
    }

    #[test]
    fn lines_that_both_added_to_a_text_are_all_kept() {
        let ours = Document::parse(&BASE.replace("mine\n", "mine\none\n"));
        let merged = merged(&ours, &BASE.replace("mine\n", "mine\ntwo\n").replace("One", "One\nmore"));
        let text = merged.document.to_string();
        assert!(text.contains("mine\ntwo\none\n") && text.contains("One\nmore\n"), "{text}");
        assert_eq!(merged.conflicts, Vec::<String>::new());
        let again =
            merge(&Document::parse(BASE), &merged.document, &Document::parse(&BASE.replace("mine\n", "mine\ntwo\n")));
        assert_eq!(again.document.to_string().matches("two").count(), 1, "a save that is seen twice is one");
    }

    #[test]
    fn a_step_that_a_person_takes_out_is_gone_unless_it_moved() {
        let theirs = BASE.replace("- [ ] (s2) b\n", "");
        let text = merged(&host(BASE, |task| task.last_activity = "t2".into()), &theirs).document.to_string();
        assert!(!text.contains("(s2)"), "{text}");
        let ours = host(BASE, |task| drop(Change::Complete(None).apply(task)));
        let text = merged(&ours, &theirs).document.to_string();
        assert!(text.contains("- [>] (s2) b"), "{text}");
    }

    #[test]
    fn what_an_edit_of_an_unknown_version_says_above_the_sections_is_told() {
        let ours = Document::parse(&BASE.replace("- [ ] (s2) b\n", "- [ ] (s2) b\n  a note\n"));
        let theirs = BASE.replace("# Task: task_x\n", "# Task: task_x\n\nmine\n").replace("in_progress", "backlog");
        let merged = merged(&ours, &theirs);
        assert_eq!(merged.conflicts, ["Status", "the text above the sections"]);
        assert_eq!(merged.document.to_string(), ours.to_string());
    }

    #[test]
    fn labels_of_people_stay_when_a_task_is_no_longer_blocked() {
        let blocked = host(BASE, |task| {
            task.blocked = Some(crate::task::Blocked { reason: "no key".into(), ..Default::default() });
        });
        let text =
            blocked.to_string().replace("- **Reason:** no key\n", "- **Reason:** no key\n- **Ticket:** OPS-42\n");
        let text = host(&text, |task| task.blocked = None).to_string();
        assert!(text.contains("- **Ticket:** OPS-42") && !text.contains("no key"), "{text}");
    }

    #[test]
    fn the_nearest_version_shares_the_most_lines() {
        assert_eq!(distance("a\nb\nc", "a\nb\nc"), 0);
        assert_eq!(distance("a\nb\nb", "b\na\nd"), 2);
    }
}
