//! What each tool takes: the types whose schemas a model is given.

use chela_taskfile::{Change, StepStatus};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tasks::Refused;
use crate::tasks::milestones::Mark;

/// Arguments are checked against the schemas of these.
macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            #[allow(clippy::empty_structs_with_brackets, reason = "one shape for all")]
            pub(super) struct $name { $($(#[$field_doc])* pub(super) $field: $type,)* }
        )*
    };
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PriorityWord {
    Urgent,
    High,
    Medium,
    Low,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    SetSteps,
    AddStep,
    CompleteStep,
    StartStep,
    SkipStep,
    ReorderSteps,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StepWord {
    Pending,
    InProgress,
    Done,
    Skipped,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BlockKind {
    Input,
    Dependency,
    External,
    Error,
    Limit,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CancelOutcome {
    Cancelled,
    Failed,
}

/// `true`, or the word for it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = "write true or \"true\""))]
pub(super) enum Flag {
    #[allow(dead_code, reason = "a guard looks at it; the host only has to take it")]
    Bool(bool),
    #[allow(dead_code, reason = "likewise")]
    Word(String),
}

arguments! {
    Nothing {}
    NewStep {
        /// What is to be done, on one line.
        content: String,
        #[serde(default)]
        status: Option<StepWord>,
    }
    Start {
        /// What the task is about.
        description: String,
        #[serde(default)]
        priority: Option<PriorityWord>,
        /// What one has to know to do it.
        #[serde(default)]
        context: Option<String>,
        /// Where it came from, such as a channel.
        #[serde(default)]
        source: Option<String>,
        /// Ids of tasks that must be completed first.
        #[serde(default)]
        depends_on: Vec<String>,
        /// `small`, `medium` or `large`.
        #[serde(default)]
        effort: Option<String>,
        #[serde(default)]
        start_date: Option<String>,
        #[serde(default)]
        due_date: Option<String>,
        #[serde(default)]
        milestone_item_id: Option<String>,
        /// The work session it belongs to; else a new one.
        #[serde(default)]
        work_session_id: Option<String>,
        #[serde(default)]
        steps: Vec<NewStep>,
        /// It waits for task_approve.
        #[serde(default)]
        requires_approval: bool,
    }
    Update {
        /// The task in progress if left out.
        #[serde(default)]
        task_id: Option<String>,
        /// A line for the task's progress.
        #[serde(default)]
        progress: Option<String>,
        #[serde(default)]
        action: Option<Action>,
        /// For add_step.
        #[serde(default)]
        step_content: Option<String>,
        /// For complete_step, start_step and skip_step; complete and skip take the one in progress if left out.
        #[serde(default)]
        step_id: Option<String>,
        /// For reorder_steps: every step's id once.
        #[serde(default)]
        steps_order: Option<Vec<String>>,
        /// For set_steps: the whole list.
        #[serde(default)]
        steps: Option<Vec<NewStep>>,
    }
    Complete {
        #[serde(default)]
        task_id: Option<String>,
        /// What was achieved.
        #[serde(default)]
        summary: Option<String>,
        /// Set to 'true' to complete even with open steps. Use sparingly.
        #[serde(default)]
        #[allow(dead_code, reason = "for the guard, which sees the arguments")]
        force_complete: Option<Flag>,
    }
    Cancel {
        #[serde(default)]
        task_id: Option<String>,
        #[serde(default)]
        reason: Option<String>,
        /// `failed` if it was tried and cannot be done.
        #[serde(default)]
        outcome: Option<CancelOutcome>,
    }
    Block {
        #[serde(default)]
        task_id: Option<String>,
        /// What is in the way.
        reason: String,
        #[serde(default)]
        kind: Option<BlockKind>,
        /// Agents who can change it.
        #[serde(default)]
        unblocked_by: Vec<String>,
        /// What they would have to do.
        #[serde(default)]
        unblock_action: Option<String>,
    }
    Resume {
        /// The one that was blocked last if left out.
        #[serde(default)]
        task_id: Option<String>,
        #[serde(default)]
        progress: Option<String>,
    }
    Approve {
        task_id: String,
    }
    List {
        /// One's own if left out; `all` for the team.
        #[serde(default)]
        agent_id: Option<String>,
        #[serde(default)]
        status: Option<String>,
        #[serde(default)]
        limit: Option<usize>,
    }
    One {
        #[serde(default)]
        task_id: Option<String>,
    }
    BacklogAdd {
        description: String,
        #[serde(default)]
        priority: Option<PriorityWord>,
        #[serde(default)]
        context: Option<String>,
        #[serde(default)]
        depends_on: Vec<String>,
        #[serde(default)]
        effort: Option<String>,
        #[serde(default)]
        due_date: Option<String>,
        #[serde(default)]
        milestone_item_id: Option<String>,
        #[serde(default)]
        work_session_id: Option<String>,
        #[serde(default)]
        steps: Vec<NewStep>,
        /// The agent whose backlog it goes to; one's own if left out.
        #[serde(default)]
        assignee: Option<String>,
    }
    BacklogPick {
        #[serde(default)]
        task_id: Option<String>,
    }
    PlanSubmit {
        #[serde(default)]
        task_id: Option<String>,
        /// The plan, as markdown.
        body: String,
    }
    PlanApprove {
        plan_id: String,
    }
    PlanReject {
        plan_id: String,
        reason: String,
    }
    MilestoneCreate {
        title: String,
        #[serde(default)]
        description: Option<String>,
        #[serde(default)]
        due_date: Option<String>,
    }
    MilestoneUpdate {
        milestone_id: String,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        description: Option<String>,
        #[serde(default)]
        status: Option<Mark>,
        #[serde(default)]
        due_date: Option<String>,
    }
    MilestoneDelete {
        milestone_id: String,
    }
    ItemAdd {
        milestone_id: String,
        title: String,
        #[serde(default)]
        task_id: Option<String>,
    }
    ItemSet {
        item_id: String,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        status: Option<Mark>,
        #[serde(default)]
        task_id: Option<String>,
    }
    ItemDelete {
        item_id: String,
    }
    TodoAdd {
        title: String,
    }
    TodoSet {
        todo_id: String,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        status: Option<Mark>,
    }
    TodoDelete {
        todo_id: String,
    }
}

impl BacklogAdd {
    /// What a task needs to begin, and whose backlog it goes to.
    pub(super) fn split(self) -> (Start, Option<String>) {
        let start = Start {
            description: self.description,
            priority: self.priority,
            context: self.context,
            source: None,
            depends_on: self.depends_on,
            effort: self.effort,
            start_date: None,
            due_date: self.due_date,
            milestone_item_id: self.milestone_item_id,
            work_session_id: self.work_session_id,
            steps: self.steps,
            requires_approval: false,
        };
        (start, self.assignee)
    }
}

impl PriorityWord {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

impl BlockKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Dependency => "dependency",
            Self::External => "external",
            Self::Error => "error",
            Self::Limit => "limit",
            Self::Other => "other",
        }
    }
}

impl StepWord {
    pub(super) fn status(self) -> StepStatus {
        match self {
            Self::Pending => StepStatus::Pending,
            Self::InProgress => StepStatus::InProgress,
            Self::Done => StepStatus::Done,
            Self::Skipped => StepStatus::Skipped,
        }
    }
}

pub(super) fn set_steps(steps: Vec<NewStep>) -> Change {
    Change::Set(steps.into_iter().map(|step| (step.content, step.status.map(StepWord::status))).collect())
}

impl Update {
    pub(super) fn change(&mut self) -> Result<Option<Change>, Refused> {
        let needs = |field: &'static str| Refused::Needs { field };
        let Some(action) = self.action else {
            let given = self.step_content.is_some()
                || self.step_id.is_some()
                || self.steps.is_some()
                || self.steps_order.is_some();
            return if given { Err(needs("action")) } else { Ok(None) };
        };
        Ok(Some(match action {
            Action::SetSteps => set_steps(self.steps.take().ok_or_else(|| needs("steps"))?),
            Action::AddStep => Change::Add(self.step_content.take().ok_or_else(|| needs("step_content"))?),
            Action::CompleteStep => Change::Complete(self.step_id.take()),
            Action::SkipStep => Change::Skip(self.step_id.take()),
            Action::StartStep => Change::Start(self.step_id.take().ok_or_else(|| needs("step_id"))?),
            Action::ReorderSteps => Change::Reorder(self.steps_order.take().ok_or_else(|| needs("steps_order"))?),
        }))
    }
}
