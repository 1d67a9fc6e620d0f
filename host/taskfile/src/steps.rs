//! What may happen to a task's steps.

use crate::task::{Step, StepStatus, Task};

const STEPS_MAX: usize = 200;
const CONTENT_CHARS_MAX: usize = 1_000;

/// One change of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another list in place of what is there.
    Set(Vec<(String, Option<StepStatus>)>),
    Add(String),
    /// The one in progress if none is named.
    Complete(Option<String>),
    Start(String),
    Skip(Option<String>),
    /// All ids in another order.
    Reorder(Vec<String>),
}

/// What a change was, as events say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    StepsSet,
    StepAdded,
    StepCompleted,
    StepStarted,
    StepSkipped,
    StepsReordered,
}

impl Moved {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StepsSet => "steps_set",
            Self::StepAdded => "step_added",
            Self::StepCompleted => "step_completed",
            Self::StepStarted => "step_started",
            Self::StepSkipped => "step_skipped",
            Self::StepsReordered => "steps_reordered",
        }
    }
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub moved: Moved,
    pub step: Option<String>,
    /// The step that began by itself because of it.
    pub started: Option<String>,
    /// It was so already: nothing changed.
    pub unchanged: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error("steps must hold at least one step")]
    NoSteps,
    #[error("a task has at most {STEPS_MAX} steps; split the task")]
    TooMany,
    #[error("a step needs a content")]
    Empty,
    #[error("a step's content has {chars} characters; at most {CONTENT_CHARS_MAX} are kept on its line")]
    TooLong { chars: usize },
    #[error("a step's content must be one line; use one step for each line")]
    ManyLines,
    #[error("a step's content must not begin with a marker such as `- [x]`; give `status` instead")]
    Marker,
    #[error("there is no step {id:?}; the task has {}", known(ids))]
    Unknown { id: String, ids: Vec<String> },
    #[error("no step is in progress; name one by step_id (the task has {})", known(ids))]
    NoneInProgress { ids: Vec<String> },
    #[error("step {id} is done; a done step cannot be skipped")]
    Done { id: String },
    #[error("steps_order must name every step once: {said}; the task has {}", known(ids))]
    NotAPermutation { said: String, ids: Vec<String> },
}

fn known(ids: &[String]) -> String {
    if ids.is_empty() { "no steps".into() } else { ids.join(", ") }
}

impl Change {
    /// Changes the task's steps, or says why not and changes nothing.
    pub fn apply(&self, task: &mut Task) -> Result<Told, StepError> {
        let steps = &mut task.steps;
        match self {
            Self::Set(wanted) => set(steps, wanted),
            Self::Add(content) => add(steps, content),
            Self::Complete(id) => end(steps, id.as_deref(), StepStatus::Done),
            Self::Skip(id) => end(steps, id.as_deref(), StepStatus::Skipped),
            Self::Start(id) => start(steps, id),
            Self::Reorder(order) => reorder(steps, order),
        }
    }
}

/// Gives an id to every step that a person wrote without one.
pub fn name_all(steps: &mut [Step]) {
    let next = next_number(steps);
    for (step, n) in steps.iter_mut().filter(|step| step.id.is_empty()).zip(next..) {
        step.id = format!("s{n}");
    }
}

fn next_number(steps: &[Step]) -> u64 {
    let numbers = steps.iter().filter_map(|step| step.id.strip_prefix('s')?.parse::<u32>().ok());
    u64::from(numbers.max().unwrap_or(0)) + 1
}

fn checked(content: &str) -> Result<String, StepError> {
    let content = content.trim();
    let chars = content.chars().count();
    match () {
        () if content.is_empty() => Err(StepError::Empty),
        () if content.contains(['\n', '\r']) => Err(StepError::ManyLines),
        () if chars > CONTENT_CHARS_MAX => Err(StepError::TooLong { chars }),
        () if begins_with_marker(content) => Err(StepError::Marker),
        () => Ok(content.to_owned()),
    }
}

fn begins_with_marker(content: &str) -> bool {
    let rest = content.trim_start_matches(['-', '*', '+']).trim_start();
    let marker = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    marker.is_some_and(|(marker, after)| StepStatus::of_marker(marker).is_some() && !after.starts_with('('))
}

fn told(moved: Moved, step: Option<&str>) -> Told {
    Told { moved, step: step.map(str::to_owned), started: None, unchanged: None }
}

fn ids(steps: &[Step]) -> Vec<String> {
    steps.iter().map(|step| step.id.clone()).collect()
}

fn position(steps: &[Step], id: &str) -> Result<usize, StepError> {
    let at = steps.iter().position(|step| step.id == id);
    at.ok_or_else(|| StepError::Unknown { id: id.chars().take(64).collect(), ids: ids(steps) })
}

fn current(steps: &[Step]) -> Option<usize> {
    steps.iter().position(|step| step.status == StepStatus::InProgress)
}

/// Starts the first pending step from `from` on, else the first of all, unless one is in progress.
fn start_next(steps: &mut [Step], from: usize) -> Option<String> {
    if current(steps).is_some() {
        return None;
    }
    let pending = |step: &Step| step.status == StepStatus::Pending;
    let after = steps.iter().skip(from).position(pending).map(|at| at + from);
    let step = &mut steps[after.or_else(|| steps.iter().position(pending))?];
    step.status = StepStatus::InProgress;
    Some(step.id.clone())
}

fn set(steps: &mut Vec<Step>, wanted: &[(String, Option<StepStatus>)]) -> Result<Told, StepError> {
    if wanted.is_empty() {
        return Err(StepError::NoSteps);
    }
    if wanted.len() > STEPS_MAX {
        return Err(StepError::TooMany);
    }
    let mut new = Vec::new();
    for ((content, status), n) in wanted.iter().zip(1..) {
        let mut status = status.unwrap_or_default();
        if status == StepStatus::InProgress && current(&new).is_some() {
            status = StepStatus::Pending;
        }
        new.push(Step { id: format!("s{n}"), content: checked(content)?, status });
    }
    *steps = new;
    let started = start_next(steps, 0);
    Ok(Told { started, ..told(Moved::StepsSet, None) })
}

fn add(steps: &mut Vec<Step>, content: &str) -> Result<Told, StepError> {
    let content = checked(content)?;
    if steps.len() >= STEPS_MAX {
        return Err(StepError::TooMany);
    }
    let id = format!("s{}", next_number(steps));
    steps.push(Step { id: id.clone(), content, status: StepStatus::Pending });
    let started = start_next(steps, 0);
    Ok(Told { started, ..told(Moved::StepAdded, Some(&id)) })
}

fn end(steps: &mut [Step], id: Option<&str>, to: StepStatus) -> Result<Told, StepError> {
    let moved = if to == StepStatus::Done { Moved::StepCompleted } else { Moved::StepSkipped };
    let at = match id {
        Some(id) => position(steps, id)?,
        None => current(steps).ok_or_else(|| StepError::NoneInProgress { ids: ids(steps) })?,
    };
    let step = &mut steps[at];
    let id = step.id.clone();
    if step.status == to {
        let unchanged = Some(format!("step {id} is {} already; nothing changed", to.as_str()));
        return Ok(Told { unchanged, ..told(moved, Some(&id)) });
    }
    if step.status == StepStatus::Done {
        return Err(StepError::Done { id });
    }
    step.status = to;
    let started = start_next(steps, at);
    Ok(Told { started, ..told(moved, Some(&id)) })
}

fn start(steps: &mut [Step], id: &str) -> Result<Told, StepError> {
    let at = position(steps, id)?;
    if steps[at].status == StepStatus::InProgress {
        let unchanged = Some(format!("step {id} is in progress already; nothing changed"));
        return Ok(Told { unchanged, ..told(Moved::StepStarted, Some(id)) });
    }
    for step in steps.iter_mut().filter(|step| step.status == StepStatus::InProgress) {
        step.status = StepStatus::Pending;
    }
    steps[at].status = StepStatus::InProgress;
    Ok(told(Moved::StepStarted, Some(id)))
}

fn reorder(steps: &mut Vec<Step>, order: &[String]) -> Result<Told, StepError> {
    let refuse = |said: String| Err(StepError::NotAPermutation { said, ids: ids(steps) });
    let mut left: Vec<Option<&Step>> = steps.iter().map(Some).collect();
    let mut new = Vec::new();
    for id in order {
        let at = left.iter().position(|step| step.is_some_and(|step| step.id == *id));
        match at.and_then(|at| left[at].take()) {
            Some(step) => new.push(step.clone()),
            None if steps.iter().any(|step| step.id == *id) => return refuse(format!("{id} is there twice")),
            None => return refuse(format!("{:?} is none of them", id.chars().take(64).collect::<String>())),
        }
    }
    if let Some(missing) = left.into_iter().flatten().next() {
        return refuse(format!("{} is missing", missing.id));
    }
    *steps = new;
    Ok(told(Moved::StepsReordered, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x> -` is a list of four steps by their markers.
    fn task(markers: &str) -> Task {
        let mut task = Task::new("task_x", "x", "now");
        let step = |(marker, n): (char, usize)| Step {
            id: format!("s{n}"),
            content: format!("step {n}"),
            status: StepStatus::of_marker(&marker.to_string()).expect("a marker"),
        };
        task.steps = markers.chars().zip(1..).map(step).collect();
        task
    }

    fn shown(task: &Task) -> String {
        task.steps.iter().map(|step| format!("{}{}", step.id, step.status.marker())).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(markers: &str, change: Change, expected: &str) -> Told {
        let mut task = task(markers);
        let told = change.apply(&mut task).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(shown(&task), expected);
        told
    }

    #[track_caller]
    fn refuse(markers: &str, change: Change, said: &str) {
        let mut changed = task(markers);
        let error = change.apply(&mut changed).expect_err("refused").to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(changed, task(markers), "nothing changed");
    }

    fn named(id: &str) -> Option<String> {
        Some(id.into())
    }

    #[test]
    fn set_steps_replaces_the_list_and_starts_the_first() {
        let plain = |content: &str| (content.to_owned(), None);
        check("x>", Change::Set(vec![plain("a"), plain("b")]), "s1> s2 ");
        let given = vec![
            ("a".into(), Some(StepStatus::Done)),
            ("b".into(), Some(StepStatus::InProgress)),
            ("c".into(), Some(StepStatus::InProgress)),
        ];
        check("", Change::Set(given), "s1x s2> s3 ");
        let told = check("", Change::Set(vec![("a".into(), Some(StepStatus::Done)), plain("b")]), "s1x s2>");
        assert_eq!(told.started, named("s2"));
        check("", Change::Set(vec![("a".into(), Some(StepStatus::Done))]), "s1x");
    }

    #[test]
    fn add_step_takes_the_next_number_and_starts_only_if_none_is_in_progress() {
        check("x>", Change::Add("c".into()), "s1x s2> s3 ");
        check("xx", Change::Add(" c ".into()), "s1x s2x s3>");
        check("", Change::Add("c".into()), "s1>");
    }

    #[test]
    fn complete_step_starts_the_next_pending_one() {
        assert_eq!(check("x>  ", Change::Complete(named("s2")), "s1x s2x s3> s4 ").started, named("s3"));
        check("x> ", Change::Complete(None), "s1x s2x s3>");
        check("> ", Change::Complete(named("s2")), "s1> s2x");
        check("  >", Change::Complete(named("s3")), "s1> s2  s3x");
        check(" -x>", Change::Complete(named("s4")), "s1> s2- s3x s4x");
        assert!(check("x>", Change::Complete(named("s1")), "s1x s2>").unchanged.is_some());
        check("->", Change::Complete(named("s1")), "s1x s2>");
    }

    #[test]
    fn start_step_sends_the_current_one_back() {
        check("> ", Change::Start("s2".into()), "s1  s2>");
        check("x>", Change::Start("s1".into()), "s1> s2 ");
        assert!(check("> ", Change::Start("s1".into()), "s1> s2 ").unchanged.is_some());
    }

    #[test]
    fn skip_step_starts_the_next_when_the_current_one_is_skipped() {
        check("> ", Change::Skip(None), "s1- s2>");
        check("> ", Change::Skip(named("s2")), "s1> s2-");
        assert!(check("->", Change::Skip(named("s1")), "s1- s2>").unchanged.is_some());
        refuse("x>", Change::Skip(named("s1")), "s1 is done");
    }

    #[test]
    fn reorder_steps_takes_a_permutation_and_nothing_else() {
        let order = |ids: &[&str]| Change::Reorder(ids.iter().map(|id| (*id).to_owned()).collect());
        check("x> ", order(&["s1", "s3", "s2"]), "s1x s3  s2>");
        refuse("x> ", order(&["s1", "s2"]), "s3 is missing; the task has s1, s2, s3");
        refuse("x> ", order(&["s1", "s2", "s2"]), "s2 is there twice");
        refuse("x> ", order(&["s1", "s2", "s9"]), "\"s9\" is none of them");
    }

    #[test]
    fn what_cannot_stand_on_a_line_is_refused() {
        for (content, said) in [
            ("", "needs a content"),
            ("  \n ", "needs a content"),
            ("a\nb", "must be one line"),
            ("- [x] a", "must not begin with a marker"),
            ("[ ] a", "must not begin with a marker"),
        ] {
            refuse(">", Change::Add(content.into()), said);
            refuse(">", Change::Set(vec![("fine".into(), None), (content.into(), None)]), said);
        }
        refuse(">", Change::Add("x".repeat(CONTENT_CHARS_MAX + 1)), "1001 characters");
        refuse(">", Change::Set(vec![]), "at least one step");
        refuse(">", Change::Set(vec![("a".into(), None); STEPS_MAX + 1]), "at most 200 steps");
        check(">", Change::Add("[link](x) and (s1)".into()), "s1> s2 ");
    }

    #[test]
    fn an_unknown_step_is_refused_with_those_there_are() {
        refuse("x>", Change::Complete(named("s7")), "there is no step \"s7\"; the task has s1, s2");
        refuse("", Change::Start("s1".into()), "the task has no steps");
        refuse("xx", Change::Complete(None), "no step is in progress");
    }
}
