//! The words of a task, as values.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A word of a closed list, or another's word kept as it was written.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($variant,)*
            /// A word of another system.
            Other(String),
        }

        impl $name {
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            pub fn parse(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// Where a task is in its life.
    Status {
        Pending "pending",
        InProgress "in_progress",
        Blocked "blocked",
        Backlog "backlog",
        PendingApproval "pending_approval",
        Completed "completed",
        Cancelled "cancelled",
        Abandoned "abandoned",
        Failed "failed",
    }
}

words! {
    Priority {
        Urgent "urgent",
        High "high",
        Medium "medium",
        Low "low",
    }
}

impl Status {
    /// Nothing follows.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Abandoned | Self::Failed)
    }
}

impl Priority {
    /// Lower goes first; another's word counts as medium.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Urgent => 0,
            Self::High => 1,
            Self::Medium | Self::Other(_) => 2,
            Self::Low => 3,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    #[default]
    Pending,
    InProgress,
    Done,
    Skipped,
}

impl StepStatus {
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Skipped => "skipped",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::InProgress, Self::Done, Self::Skipped].into_iter().find(|status| status.as_str() == word)
    }

    pub(crate) fn marker(self) -> char {
        match self {
            Self::Pending => ' ',
            Self::InProgress => '>',
            Self::Done => 'x',
            Self::Skipped => '-',
        }
    }

    pub(crate) fn of_marker(marker: &str) -> Option<Self> {
        Some(match marker {
            " " | "" => Self::Pending,
            ">" => Self::InProgress,
            "x" | "X" => Self::Done,
            "-" => Self::Skipped,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `s1`, `s2`, …; empty where a person wrote a step without one.
    pub id: String,
    pub content: String,
    pub status: StepStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    pub reason: String,
    /// `input`, `dependency`, `external`, `error`, `limit` or `other`.
    pub kind: String,
    pub unblocked_by: Vec<String>,
    pub action: String,
    pub requests: u32,
    /// `none`, `requested`, `escalated` or `failed`.
    pub escalation: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub kind: String,
    pub summary: String,
    pub reason: String,
}

/// A task as its file says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub status: Status,
    pub priority: Priority,
    /// As written: another system's times need not be ours.
    pub created: String,
    pub work_session: Option<String>,
    pub previous_work_session: Option<String>,
    pub created_by: Option<String>,
    pub assignee: Option<String>,
    pub depends_on: Vec<String>,
    pub effort: Option<String>,
    pub start: Option<String>,
    pub due: Option<String>,
    pub source: Option<String>,
    pub milestone_item: Option<String>,
    pub description: String,
    pub context: Option<String>,
    pub steps: Vec<Step>,
    pub progress: Vec<String>,
    pub blocked: Option<Blocked>,
    pub outcome: Option<Outcome>,
    pub last_activity: String,
}

/// How many steps are where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepsProgress {
    pub total: usize,
    pub done: usize,
    pub in_progress: usize,
    pub pending: usize,
    pub skipped: usize,
}

impl Task {
    pub fn new(id: impl Into<String>, description: impl Into<String>, now: impl Into<String>) -> Self {
        let now = now.into();
        Self {
            id: id.into(),
            status: Status::Pending,
            priority: Priority::Medium,
            created: now.clone(),
            work_session: None,
            previous_work_session: None,
            created_by: None,
            assignee: None,
            depends_on: Vec::new(),
            effort: None,
            start: None,
            due: None,
            source: None,
            milestone_item: None,
            description: description.into(),
            context: None,
            steps: Vec::new(),
            progress: Vec::new(),
            blocked: None,
            outcome: None,
            last_activity: now,
        }
    }

    /// None for a task without steps.
    pub fn steps_progress(&self) -> Option<StepsProgress> {
        let count = |status| self.steps.iter().filter(|step| step.status == status).count();
        (!self.steps.is_empty()).then(|| StepsProgress {
            total: self.steps.len(),
            done: count(StepStatus::Done),
            in_progress: count(StepStatus::InProgress),
            pending: count(StepStatus::Pending),
            skipped: count(StepStatus::Skipped),
        })
    }

    pub fn open_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.status.is_open())
    }

    pub fn current_step(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.status == StepStatus::InProgress)
    }

    /// As the monitor's interface shows it; what a task does not have is absent.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| drop(fields.insert(key.into(), value));
        put("id", json!(self.id));
        put("status", json!(self.status));
        put("priority", json!(self.priority));
        put("description", json!(self.description));
        put("created", json!(self.created));
        put("lastActivity", json!(self.last_activity));
        put("progress", json!(self.progress));
        let texts = [
            ("context", &self.context),
            ("source", &self.source),
            ("workSessionId", &self.work_session),
            ("previousWorkSessionId", &self.previous_work_session),
            ("createdBy", &self.created_by),
            ("assignee", &self.assignee),
            ("estimatedEffort", &self.effort),
            ("startDate", &self.start),
            ("dueDate", &self.due),
            ("milestoneItemId", &self.milestone_item),
        ];
        for (key, value) in texts {
            if let Some(value) = value {
                put(key, json!(value));
            }
        }
        if !self.depends_on.is_empty() {
            put("dependsOn", json!(self.depends_on));
        }
        if let Some(blocked) = &self.blocked {
            put("blockedReason", json!(blocked.reason));
            let texts = [
                ("blockedKind", &blocked.kind),
                ("unblockedAction", &blocked.action),
                ("escalationState", &blocked.escalation),
            ];
            for (key, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
                put(key, json!(value));
            }
            if !blocked.unblocked_by.is_empty() {
                put("unblockedBy", json!(blocked.unblocked_by));
            }
            put("unblockRequestCount", json!(blocked.requests));
        }
        if let Some(outcome) = &self.outcome {
            let said = [("kind", &outcome.kind), ("summary", &outcome.summary), ("reason", &outcome.reason)];
            let said = said.into_iter().filter(|(_, value)| !value.is_empty());
            put("outcome", said.map(|(key, value)| (key.to_owned(), json!(value))).collect());
        }
        if let Some(progress) = self.steps_progress() {
            let step = |(step, order): (&Step, usize)| json!({ "id": step.id, "content": step.content, "status": step.status, "order": order });
            put("steps", self.steps.iter().zip(1..).map(step).collect());
            put("stepsProgress", json!(progress));
        }
        fields
    }
}

/// Whether a text can be the id of a task, which is part of its file's name.
pub fn is_good_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.strip_prefix("task_").is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain)) && id.len() <= 128
}

/// A text on one line, for places where a line is what can be kept.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
