//! What may happen to an agent's tasks: decided from what they say, without time of its own, files or chance.
//! Keeps true: a task moves only along the transitions below; one task of an agent is in progress; a task whose dependencies are open does
//! not start.

mod stuck;

use std::collections::BTreeMap;
use std::sync::Arc;

use chela_taskfile::{Blocked, Change, Moved, Outcome, Status, StepError, Task, one_line};
use serde_json::{Map, Value, json};

use crate::event::Kind;

pub use stuck::Unblock;

/// A progress line is at most so long, and a task has at most so many.
const PROGRESS_CHARS_MAX: usize = 4_000;

/// What an agent has, and what is known of the tasks of others.
pub(super) struct Board<'a> {
    pub(super) tasks: &'a BTreeMap<String, Arc<Task>>,
    /// Whether a task of the whole team is still to be done; none for an unknown one.
    pub(super) is_open: &'a dyn Fn(&str) -> Option<bool>,
    pub(super) now: String,
}

/// Something that is to happen.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Start(Box<Task>, Approval),
    Update {
        task: Option<String>,
        change: Option<Change>,
        progress: Option<String>,
    },
    Complete {
        task: Option<String>,
        summary: Option<String>,
        warnings: Vec<String>,
    },
    Cancel {
        task: Option<String>,
        reason: Option<String>,
        as_failed: bool,
    },
    Block {
        task: Option<String>,
        blocked: Blocked,
    },
    Resume {
        task: Option<String>,
        progress: Option<String>,
    },
    Approve {
        task: String,
        by: String,
    },
    AddToBacklog(Box<Task>),
    PickFromBacklog {
        task: Option<String>,
    },
    /// A line that the host writes by itself.
    Note {
        task: String,
        line: String,
    },
    /// Somebody was asked to unblock it.
    RequestUnblock {
        task: String,
        stage: Unblock,
    },
    /// Nobody works on it.
    GiveUp {
        task: String,
        reason: String,
        to_backlog: bool,
    },
    /// Another task ended: what waited for it may start.
    Fill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Approval {
    NotNeeded,
    Needed,
}

/// A task as it is to be, and what is told of it.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    pub(super) task: Task,
    pub(super) told: Vec<(Kind, Map<String, Value>)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    pub(super) changed: Vec<Changed>,
    pub(super) answer: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("no task is in progress; begin one with task_start, or name one by task_id")]
    NoActive,
    #[error("there is no task {0}; task_list shows those there are")]
    Unknown(String),
    #[error("task {id} is {status}; {advice}")]
    Status { id: String, status: Status, advice: &'static str },
    #[error("depends_on: there is no task {0}")]
    UnknownDependency(String),
    #[error("the backlog is empty; add to it with task_backlog_add")]
    BacklogEmpty,
    #[error("every task of the backlog waits for another; task_status says for which")]
    BacklogWaits,
    #[error("task {id} waits for {open}; it can start when those are completed")]
    Waits { id: String, open: String },
    #[error("say what changed: give `progress`, or `action` with what it needs")]
    Nothing,
    #[error("the text of `progress` is empty")]
    EmptyProgress,
    #[error("a progress line has {chars} characters; at most {PROGRESS_CHARS_MAX} are kept")]
    LongProgress { chars: usize },
    #[error("`{field}` is missing")]
    Needs { field: &'static str },
    #[error("a description has {chars} characters; at most 20000 are kept")]
    LongDescription { chars: usize },
    #[error("{0:?} is not the id of a task; it begins with task_ and has letters, digits, `_` and `-`")]
    BadId(String),
    #[error(
        "there is no status {0:?}; there are pending, in_progress, blocked, backlog and pending_approval among open tasks"
    )]
    UnknownStatus(String),
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Step(#[from] StepError),
}

impl Board<'_> {
    pub(super) fn decide(&self, op: Op) -> Result<Decided, Refused> {
        match op {
            Op::Start(task, approval) => self.start(*task, approval),
            Op::Update { task, change, progress } => self.update(task, change, progress),
            Op::Complete { task, summary, warnings } => self.complete(task, summary, warnings),
            Op::Cancel { task, reason, as_failed } => self.cancel(task, reason, as_failed),
            Op::Block { task, blocked } => self.block(task, blocked),
            Op::Resume { task, progress } => self.resume(task, progress),
            Op::Approve { task, by } => self.approve(&task, &by),
            Op::AddToBacklog(task) => self.add_to_backlog(*task),
            Op::PickFromBacklog { task } => self.pick(task),
            Op::Note { task, line } => self.note(&task, line),
            Op::RequestUnblock { task, stage } => self.request_unblock(&task, stage),
            Op::GiveUp { task, reason, to_backlog } => self.give_up(&task, &reason, to_backlog),
            Op::Fill => {
                let mut decided = Decided::default();
                self.fill(&mut decided);
                Ok(decided)
            }
        }
    }

    /// Of those in progress, the one with the latest activity.
    pub(super) fn active(&self) -> Option<&Arc<Task>> {
        active_of(self.tasks.values())
    }

    fn named(&self, id: &str) -> Result<Task, Refused> {
        let known = self.tasks.get(id).ok_or_else(|| Refused::Unknown(id.chars().take(128).collect()))?;
        Ok(Task::clone(known))
    }

    fn target(&self, id: Option<String>) -> Result<Task, Refused> {
        match id {
            Some(id) => self.named(&id),
            None => self.active().map(|task| Task::clone(task)).ok_or(Refused::NoActive),
        }
    }

    fn open_dependencies(&self, task: &Task) -> Vec<String> {
        task.depends_on.iter().filter(|id| (self.is_open)(id).unwrap_or(false)).cloned().collect()
    }

    fn check_dependencies(&self, task: &Task) -> Result<(), Refused> {
        let unknown = task.depends_on.iter().find(|id| (self.is_open)(id).is_none());
        unknown.map_or(Ok(()), |id| Err(Refused::UnknownDependency(id.clone())))
    }

    fn start(&self, mut task: Task, approval: Approval) -> Result<Decided, Refused> {
        self.check_dependencies(&task)?;
        let open = self.open_dependencies(&task);
        let (action, said) = match (approval, self.active()) {
            (Approval::Needed, _) => {
                task.status = Status::PendingApproval;
                ("approval_requested", "it waits for task_approve".to_owned())
            }
            (Approval::NotNeeded, _) if !open.is_empty() => {
                task.status = Status::Pending;
                ("queued", format!("it waits for {}", open.join(", ")))
            }
            (Approval::NotNeeded, Some(active)) => {
                task.status = Status::Pending;
                ("queued", format!("task {} is in progress; this one starts when that one ends", active.id))
            }
            (Approval::NotNeeded, None) => {
                task.progress.push("Task started".into());
                task.status = Status::InProgress;
                let answer = answer(&task, "the task is in progress");
                return Ok(one(self.touched(task, Kind::TaskStarted, json!({})), answer));
            }
        };
        task.progress.push(format!("Task created: {said}"));
        let answer = answer(&task, &said);
        Ok(one(self.touched(task, Kind::TaskUpdated, json!({ "action": action })), answer))
    }

    fn update(&self, id: Option<String>, change: Option<Change>, progress: Option<String>) -> Result<Decided, Refused> {
        let mut task = self.target(id)?;
        refuse_if(&task, task.status.is_terminal(), "it is over; begin a new one with task_start")?;
        let progress = progress.map(|text| checked_progress(&text)).transpose()?;
        let Some(change) = change else {
            let text = progress.ok_or(Refused::Nothing)?;
            task.progress.push(text.clone());
            let answer = answer(&task, "progress noted");
            return Ok(one(self.touched(task, Kind::TaskUpdated, json!({ "progress": short(&text) })), answer));
        };
        let told = change.apply(&mut task)?;
        let content =
            |id: &str| task.steps.iter().find(|step| step.id == id).map_or("", |step| &*step.content).to_owned();
        let line = match (&told.step, &progress, told.moved) {
            _ if told.unchanged.is_some() => progress.clone(),
            (Some(step), Some(text), _) => Some(format!("[{step}] {text}")),
            (Some(step), None, Moved::StepCompleted) => Some(format!("[{step}] {} — 완료", content(step))),
            (Some(step), None, Moved::StepSkipped) => Some(format!("[{step}] {} — 건너뜀", content(step))),
            (Some(step), None, Moved::StepStarted) => Some(format!("[{step}] {} — 시작", content(step))),
            (_, text, _) => text.clone(),
        };
        task.progress.extend(line);
        let said = match (&told.unchanged, &told.started) {
            (Some(said), _) => said.clone(),
            (None, Some(next)) => format!("next: ({next}) {}", content(next)),
            (None, None) if task.open_steps().next().is_none() => {
                "every step is done or skipped; call task_complete".to_owned()
            }
            (None, None) => "steps changed".to_owned(),
        };
        let mut answer = answer(&task, &said);
        if let Some(step) = &told.step {
            answer.insert("stepId".into(), json!(step));
        }
        if told.unchanged.is_some() && progress.is_none() {
            return Ok(Decided { changed: Vec::new(), answer });
        }
        let mut facts = json!({ "action": action_of(told.moved), "stepId": told.step, "startedStepId": told.started });
        if told.unchanged.is_some() {
            facts = json!({ "progress": progress.as_deref().map(short) });
        }
        Ok(one(self.touched(task, Kind::TaskUpdated, facts), answer))
    }

    fn complete(&self, id: Option<String>, summary: Option<String>, warnings: Vec<String>) -> Result<Decided, Refused> {
        let mut task = self.target(id)?;
        refuse_if(&task, task.status.is_terminal(), "it is over already")?;
        refuse_if(&task, task.status == Status::Blocked, "resume it with task_resume, or cancel it")?;
        refuse_if(&task, task.status != Status::InProgress, "only a task in progress can be completed")?;
        task.progress.extend(warnings.iter().map(|warning| format!("⚠ {}", one_line(warning))));
        let summary = summary.map(|text| one_line(&text)).unwrap_or_default();
        task.outcome = Some(Outcome { kind: "completed".into(), summary: summary.clone(), reason: String::new() });
        task.status = Status::Completed;
        task.progress.push("Task completed".into());
        let mut answer = answer(&task, "the task is completed");
        if !warnings.is_empty() {
            answer.insert("warning".into(), json!(warnings.join("; ")));
        }
        let facts = json!({ "summary": short(&summary) });
        let mut decided = one(self.touched(task, Kind::TaskCompleted, facts), answer);
        self.fill(&mut decided);
        Ok(decided)
    }

    fn cancel(&self, id: Option<String>, reason: Option<String>, as_failed: bool) -> Result<Decided, Refused> {
        let mut task = self.target(id)?;
        refuse_if(&task, task.status.is_terminal(), "it is over already")?;
        let can_fail = matches!(task.status, Status::InProgress | Status::Blocked);
        refuse_if(
            &task,
            as_failed && !can_fail,
            "only a task in progress or blocked can fail; leave `outcome` out to cancel it",
        )?;
        let (status, kind) =
            if as_failed { (Status::Failed, Kind::TaskFailed) } else { (Status::Cancelled, Kind::TaskCancelled) };
        let reason = reason.map(|text| one_line(&text)).unwrap_or_default();
        task.outcome = Some(Outcome { kind: status.to_string(), summary: String::new(), reason: reason.clone() });
        task.progress.push(format!("Task {status}"));
        task.status = status;
        task.blocked = None;
        let answer = answer(&task, &format!("the task is {}", task.status));
        let mut decided = one(self.touched(task, kind, json!({ "reason": short(&reason) })), answer);
        self.fill(&mut decided);
        Ok(decided)
    }

    fn block(&self, id: Option<String>, blocked: Blocked) -> Result<Decided, Refused> {
        let mut task = self.target(id)?;
        refuse_if(&task, task.status != Status::InProgress, "only a task in progress can be blocked")?;
        task.status = Status::Blocked;
        task.progress.push(format!("Task blocked: {}", blocked.reason));
        let facts = json!({
            "reason": short(&blocked.reason), "kind": blocked.kind, "unblockedBy": blocked.unblocked_by, "action": "block",
            "unblockAction": blocked.action,
        });
        task.blocked = Some(blocked);
        let answer = answer(&task, "the task is blocked; task_resume goes on with it");
        let mut decided = one(self.touched(task, Kind::TaskBlocked, facts), answer);
        self.fill_pending(&mut decided);
        Ok(decided)
    }

    fn resume(&self, id: Option<String>, progress: Option<String>) -> Result<Decided, Refused> {
        let task = match id {
            Some(id) => self.named(&id),
            // The one that was blocked last is meant.
            None => {
                let blocked = self.tasks.values().filter(|task| task.status == Status::Blocked);
                let last = blocked.max_by_key(|task| (task.last_activity.clone(), task.id.clone()));
                last.map(|task| Task::clone(task)).ok_or(Refused::NoActive)
            }
        };
        let mut task = task?;
        let progress = progress.map(|text| checked_progress(&text)).transpose()?;
        let can = matches!(task.status, Status::Blocked | Status::Pending);
        refuse_if(&task, !can, "only a blocked or a pending task can be resumed")?;
        let open = self.open_dependencies(&task);
        if !open.is_empty() {
            return Err(Refused::Waits { id: task.id, open: open.join(", ") });
        }
        task.progress.push(progress.map_or("Task resumed".into(), |text| format!("Task resumed: {text}")));
        task.blocked = None;
        let said = match self.active() {
            Some(active) => {
                task.status = Status::Pending;
                format!("task {} is in progress; this one starts when that one ends", active.id)
            }
            None => {
                task.status = Status::InProgress;
                "the task is in progress".to_owned()
            }
        };
        let answer = answer(&task, &said);
        Ok(one(self.touched(task, Kind::TaskResumed, json!({})), answer))
    }

    fn approve(&self, id: &str, by: &str) -> Result<Decided, Refused> {
        let mut task = self.named(id)?;
        refuse_if(
            &task,
            task.status != Status::PendingApproval,
            "only a task that waits for approval can be approved",
        )?;
        task.status = Status::Pending;
        task.progress.push(format!("Approved by {by}"));
        let approved = self.touched(task, Kind::TaskApproved, json!({ "by": by }));
        Ok(self.begun(approved))
    }

    fn add_to_backlog(&self, mut task: Task) -> Result<Decided, Refused> {
        self.check_dependencies(&task)?;
        task.status = Status::Backlog;
        task.progress.push("Added to backlog".into());
        let answer = answer(&task, "in the backlog; task_backlog_pick takes the next by priority and age");
        Ok(one(self.touched(task, Kind::TaskBacklogAdded, json!({})), answer))
    }

    fn pick(&self, id: Option<String>) -> Result<Decided, Refused> {
        let mut task = match id {
            Some(id) => self.named(&id)?,
            None => match self.next_of_backlog(&[]) {
                Some(task) => Task::clone(task),
                None if self.tasks.values().any(|task| task.status == Status::Backlog) => {
                    return Err(Refused::BacklogWaits);
                }
                None => return Err(Refused::BacklogEmpty),
            },
        };
        refuse_if(&task, task.status != Status::Backlog, "only a task of the backlog can be picked")?;
        let open = self.open_dependencies(&task);
        if !open.is_empty() {
            return Err(Refused::Waits { id: task.id, open: open.join(", ") });
        }
        task.status = Status::Pending;
        task.progress.push("Picked from backlog".into());
        Ok(self.begun(self.touched(task, Kind::TaskBacklogPicked, json!({}))))
    }

    fn note(&self, id: &str, line: String) -> Result<Decided, Refused> {
        let mut task = self.named(id)?;
        refuse_if(&task, task.status.is_terminal(), "it is over")?;
        task.progress.push(line);
        let answer = answer(&task, "noted");
        Ok(one(self.touched(task, Kind::TaskUpdated, json!({ "action": "note" })), answer))
    }

    /// A pending task starts if nothing is in the way.
    fn begun(&self, mut pending: Changed) -> Decided {
        let open = self.open_dependencies(&pending.task);
        let said = match self.active() {
            _ if !open.is_empty() => format!("it waits for {}", open.join(", ")),
            Some(active) => format!("task {} is in progress; this one starts when that one ends", active.id),
            None => {
                self.begin(&mut pending);
                "the task is in progress".to_owned()
            }
        };
        let answer = answer(&pending.task, &said);
        one(pending, answer)
    }

    fn begin(&self, changed: &mut Changed) {
        changed.task.status = Status::InProgress;
        changed.task.progress.push("Task started".into());
        changed.task.last_activity.clone_from(&self.now);
        let facts = facts(&changed.task, json!({}));
        changed.told.push((Kind::TaskStarted, facts));
    }

    /// The oldest pending task starts, else the next of the backlog, once nothing is in progress.
    fn fill(&self, decided: &mut Decided) {
        self.fill_pending(decided);
        let changed: Vec<&str> = decided.changed.iter().map(|changed| &*changed.task.id).collect();
        if self.will_be_busy(decided) {
            return;
        }
        if let Some(next) = self.next_of_backlog(&changed) {
            let mut task = Task::clone(next);
            task.progress.push("Picked from backlog".into());
            let mut picked = self.touched(task, Kind::TaskBacklogPicked, json!({}));
            self.begin(&mut picked);
            decided.started(picked);
        }
    }

    fn fill_pending(&self, decided: &mut Decided) {
        if self.will_be_busy(decided) {
            return;
        }
        let is_changed = |task: &Task| decided.changed.iter().any(|changed| changed.task.id == task.id);
        let ended: Vec<&str> = decided
            .changed
            .iter()
            .filter(|changed| changed.task.status == Status::Completed)
            .map(|changed| &*changed.task.id)
            .collect();
        let waits = |task: &Task| self.open_dependencies(task).iter().any(|id| !ended.contains(&&**id));
        let pending =
            self.tasks.values().filter(|task| task.status == Status::Pending && !is_changed(task) && !waits(task));
        // Whoever waited for an answer and has it comes first.
        let waited = |task: &Task| task.progress.last().is_some_and(|line| line.starts_with("Task resumed"));
        if let Some(next) = pending.min_by_key(|task| (!waited(task), task.created.clone(), task.id.clone())) {
            let mut started = Changed { task: Task::clone(next), told: Vec::new() };
            self.begin(&mut started);
            decided.started(started);
        }
    }

    fn will_be_busy(&self, decided: &Decided) -> bool {
        let now = |task: &Arc<Task>| {
            let changed = decided.changed.iter().find(|changed| changed.task.id == task.id);
            changed.map_or(task.status.clone(), |changed| changed.task.status.clone())
        };
        self.tasks.values().any(|task| now(task) == Status::InProgress)
            || decided.changed.iter().any(|changed| changed.task.status == Status::InProgress)
    }

    fn next_of_backlog(&self, without: &[&str]) -> Option<&Arc<Task>> {
        let free = |task: &&Arc<Task>| {
            task.status == Status::Backlog && !without.contains(&&*task.id) && self.open_dependencies(task).is_empty()
        };
        let key = |task: &&Arc<Task>| (task.priority.rank(), task.created.clone(), task.id.clone());
        self.tasks.values().filter(free).min_by_key(key)
    }

    fn touched(&self, mut task: Task, kind: Kind, more: Value) -> Changed {
        task.last_activity.clone_from(&self.now);
        let facts = facts(&task, more);
        Changed { task, told: vec![(kind, facts)] }
    }
}

impl Decided {
    fn started(&mut self, next: Changed) {
        self.answer.insert("nextTaskId".into(), json!(next.task.id));
        self.changed.push(next);
    }
}

pub(super) fn active_of<'a>(tasks: impl Iterator<Item = &'a Arc<Task>>) -> Option<&'a Arc<Task>> {
    let in_progress = tasks.filter(|task| task.status == Status::InProgress);
    in_progress.max_by_key(|task| (task.last_activity.as_str(), task.id.as_str()))
}

/// What every event about a task says.
pub(super) fn facts(task: &Task, more: Value) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("taskId".into(), json!(task.id));
    facts.insert("title".into(), json!(short(task.description.lines().next().unwrap_or_default())));
    facts.insert("status".into(), json!(task.status));
    facts.insert("priority".into(), json!(task.priority));
    if let Some(session) = &task.work_session {
        facts.insert("workSessionId".into(), json!(session));
    }
    if let Some(session) = &task.previous_work_session {
        facts.insert("previousWorkSessionId".into(), json!(session));
    }
    if let Some(progress) = task.steps_progress() {
        facts.insert("stepsProgress".into(), json!(progress));
    }
    if let Value::Object(more) = more {
        facts.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    }
    facts
}

fn answer(task: &Task, said: &str) -> Map<String, Value> {
    let mut answer = Map::new();
    answer.insert("success".into(), json!(true));
    answer.insert("taskId".into(), json!(task.id));
    answer.insert("status".into(), json!(task.status));
    answer.insert("message".into(), json!(said));
    if let Some(progress) = task.steps_progress() {
        answer.insert("stepsProgress".into(), json!(progress));
    }
    if let Some(step) = task.current_step() {
        answer.insert("currentStep".into(), json!({ "id": step.id, "content": step.content }));
    }
    answer
}

fn one(changed: Changed, answer: Map<String, Value>) -> Decided {
    Decided { changed: vec![changed], answer }
}

fn refuse_if(task: &Task, refused: bool, advice: &'static str) -> Result<(), Refused> {
    if refused { Err(Refused::Status { id: task.id.clone(), status: task.status.clone(), advice }) } else { Ok(()) }
}

fn action_of(moved: Moved) -> &'static str {
    match moved {
        Moved::StepsSet => "set_steps",
        Moved::StepAdded => "add_step",
        Moved::StepCompleted => "complete_step",
        Moved::StepStarted => "start_step",
        Moved::StepSkipped => "skip_step",
        Moved::StepsReordered => "reorder_steps",
    }
}

/// Lines without their blank ones: an item of a list in the file.
fn checked_progress(text: &str) -> Result<String, Refused> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let text = lines.join("\n").trim_start().to_owned();
    let chars = text.chars().count();
    match chars {
        0 => Err(Refused::EmptyProgress),
        1..=PROGRESS_CHARS_MAX => Ok(text),
        _ => Err(Refused::LongProgress { chars }),
    }
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
