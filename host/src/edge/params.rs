//! Parameters of the monitor's paths: one table says what each may be, checks what comes in, and describes it for programs.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Refusal;
use crate::clock::Timestamp;
use crate::config::Category;
use crate::event::Role;
use crate::monitor::{Since, Status, ThreadState, is_sessions_cursor, seq_of_cursor};
use crate::tools::{PART_BYTES_MAX, PART_BYTES_MIN};

/// How many rows a page has.
pub(super) const LIMIT: usize = 50;
pub(super) const LIMIT_MAX: usize = 500;
/// Values of one list, and how long each may be.
const VALUES_MAX: usize = 32;
const VALUE_CHARS_MAX: usize = 128;
const TEXT_CHARS_MAX: usize = 200;
const DAYS: u32 = 30;
const DAYS_MAX: u32 = 3_660;

/// A parameter of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    Role,
    Type,
    Status,
    ThreadState,
    ViewCategory,
    SubTag,
    WorkSession,
    Task,
    Job,
    Text,
    Since,
    EventCursor,
    SessionCursor,
    JobCursor,
    Limit,
    Days,
    JobStatus,
    TaskStatus,
    Agent,
    QuestionState,
    TaskOfQuestion,
    Run,
    Offset,
    Bytes,
}

impl Param {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Type => "type",
            Self::Status | Self::JobStatus | Self::TaskStatus => "status",
            Self::Agent => "agentId",
            Self::ThreadState => "threadState",
            Self::ViewCategory => "viewCategory",
            Self::SubTag => "subTag",
            Self::WorkSession => "workSessionId",
            Self::Task | Self::TaskOfQuestion => "taskId",
            Self::QuestionState => "state",
            Self::Run => "runId",
            Self::Job => "jobId",
            Self::Text => "q",
            Self::Since => "since",
            Self::EventCursor | Self::SessionCursor | Self::JobCursor => "cursor",
            Self::Limit | Self::Bytes => "limit",
            Self::Days => "days",
            Self::Offset => "offset",
        }
    }

    fn words(self) -> Vec<&'static str> {
        match self {
            Self::Role => Role::ALL.iter().map(|role| role.as_str()).collect(),
            Self::Status => Status::ALL.iter().map(|status| status.as_str()).collect(),
            Self::ThreadState => ThreadState::ALL.iter().map(|state| state.as_str()).collect(),
            Self::QuestionState => chela_question::State::ALL.iter().map(|state| state.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn describe(self) -> Value {
        let about = match self {
            Self::Role => "Roles of events, comma-separated.",
            Self::Type => "Types of events, comma-separated.",
            Self::Status => "Status of work sessions, comma-separated.",
            Self::JobStatus => "Status of jobs, comma-separated.",
            Self::TaskStatus => "Status of tasks, comma-separated.",
            Self::Agent => "Ids of agents, comma-separated.",
            Self::ThreadState => "Work sessions with a thread in one of these states, comma-separated.",
            Self::ViewCategory => "Keys of the deployment's table of categories, comma-separated.",
            Self::SubTag => "Sub-tags of the classification, comma-separated.",
            Self::WorkSession => "Events of this work session.",
            Self::Task => "Events that name this task.",
            Self::Job => "Events that name this job.",
            Self::QuestionState => "How questions stand, comma-separated; else those that are open.",
            Self::TaskOfQuestion => "Questions that this task waits for.",
            Self::Run => "A run that has a part in it: it only narrows.",
            Self::Text => "Words of messages, each by its beginning, all in one message; the newest match first.",
            Self::Since => {
                "Milliseconds since 1970, an ISO time, or a `nextCursor`: what comes from there on, oldest first."
            }
            Self::EventCursor | Self::SessionCursor | Self::JobCursor => "`nextCursor` of the page before.",
            Self::Limit => "How many rows at most. A page may be shorter although more follows: `nextCursor` tells.",
            Self::Days => "How many days, up to today.",
            Self::Offset => "Where in a file to begin, in bytes: 0, or a `nextOffset`.",
            Self::Bytes => "How many bytes of a file at most; characters stay whole.",
        };
        let words = self.words();
        let list = |items: Value| json!({ "type": "array", "maxItems": VALUES_MAX, "items": items });
        let text = json!({ "type": "string", "minLength": 1, "maxLength": VALUE_CHARS_MAX });
        let schema = match self {
            Self::Role | Self::Status | Self::ThreadState | Self::QuestionState => {
                list(json!({ "type": "string", "enum": words }))
            }
            Self::Type | Self::ViewCategory | Self::SubTag | Self::JobStatus | Self::TaskStatus | Self::Agent => {
                list(text)
            }
            Self::WorkSession | Self::Task | Self::Job | Self::TaskOfQuestion | Self::Run => {
                json!({ "type": "string", "minLength": 1, "maxLength": 256 })
            }
            Self::Text => json!({ "type": "string", "minLength": 1, "maxLength": TEXT_CHARS_MAX }),
            Self::Since | Self::EventCursor | Self::SessionCursor | Self::JobCursor => json!({ "type": "string" }),
            Self::Limit => json!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT }),
            Self::Days => json!({ "type": "integer", "minimum": 1, "maximum": DAYS_MAX, "default": DAYS }),
            Self::Offset => json!({ "type": "integer", "minimum": 0, "default": 0 }),
            Self::Bytes => {
                json!({ "type": "integer", "minimum": PART_BYTES_MIN, "maximum": PART_BYTES_MAX, "default": PART_BYTES_MAX })
            }
        };
        json!({ "name": self.name(), "in": "query", "description": about, "style": "form", "explode": false, "schema": schema })
    }
}

/// Parameters as they came, each known and given once.
pub(super) struct Given(Vec<(Param, String)>);

impl Given {
    /// Decodes a query string; `known` is what the path takes.
    pub(super) fn parse(known: &[Param], query: Option<&str>) -> Result<Self, Refusal> {
        let mut given = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let Some(param) = known.iter().find(|param| param.name() == name) else {
                let names: Vec<&str> = known.iter().map(|param| param.name()).collect();
                let said = match names.as_slice() {
                    [] => "this path takes no parameters".to_owned(),
                    names => format!("this path does not take it; there is {}", names.join(", ")),
                };
                return Err(bad(&name.chars().take(64).collect::<String>(), said));
            };
            if given.iter().any(|(before, _)| before == param) {
                return Err(bad(param.name(), "given twice; write a list with commas".into()));
            }
            given.push((*param, value.into_owned()));
        }
        Ok(Self(given))
    }

    /// Parameters that came by name already.
    pub(super) fn of(given: impl IntoIterator<Item = (Param, Option<String>)>) -> Self {
        Self(given.into_iter().filter_map(|(param, value)| Some((param, value?))).collect())
    }

    fn get(&self, param: Param) -> Option<&str> {
        self.0.iter().find(|(given, _)| *given == param).map(|(_, value)| value.as_str())
    }

    /// The values of a list.
    pub(super) fn list(&self, param: Param) -> Result<Vec<String>, Refusal> {
        let Some(text) = self.get(param) else { return Ok(Vec::new()) };
        let values: Vec<String> = text.split(',').map(|value| value.trim().to_owned()).collect();
        if values.len() > VALUES_MAX {
            return Err(bad(param.name(), format!("at most {VALUES_MAX} values")));
        }
        let words = param.words();
        for value in &values {
            if value.is_empty() || value.chars().count() > VALUE_CHARS_MAX {
                return Err(bad(param.name(), format!("a value has 1 to {VALUE_CHARS_MAX} characters")));
            }
            if !words.is_empty() && !words.contains(&value.as_str()) {
                return Err(bad(param.name(), format!("{value:?} is none of {}", words.join(", "))));
            }
        }
        Ok(values)
    }

    pub(super) fn roles(&self) -> Result<Vec<Role>, Refusal> {
        Ok(self.list(Param::Role)?.iter().filter_map(|word| Role::parse(word)).collect())
    }

    pub(super) fn status(&self) -> Result<Vec<Status>, Refusal> {
        let words = self.list(Param::Status)?;
        Ok(Status::ALL.into_iter().filter(|status| words.iter().any(|word| word == status.as_str())).collect())
    }

    pub(super) fn thread_states(&self) -> Result<Vec<ThreadState>, Refusal> {
        let words = self.list(Param::ThreadState)?;
        Ok(ThreadState::ALL.into_iter().filter(|state| words.iter().any(|word| word == state.as_str())).collect())
    }

    /// Keys of the deployment's table.
    pub(super) fn categories(&self, table: &[Category]) -> Result<Vec<String>, Refusal> {
        let keys = self.list(Param::ViewCategory)?;
        keys.iter().try_for_each(|key| check_category(table, Param::ViewCategory.name(), key))?;
        Ok(keys)
    }

    pub(super) fn id(&self, param: Param) -> Result<Option<String>, Refusal> {
        match self.get(param) {
            Some(text) if text.is_empty() || text.len() > 256 => {
                Err(bad(param.name(), "an id has 1 to 256 bytes".into()))
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    pub(super) fn text(&self) -> Result<Option<String>, Refusal> {
        match self.get(Param::Text) {
            Some(text) if text.trim().is_empty() => Err(bad("q", "there is nothing to look for".into())),
            Some(text) if text.chars().count() > TEXT_CHARS_MAX => {
                Err(bad("q", format!("at most {TEXT_CHARS_MAX} characters")))
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    pub(super) fn since(&self) -> Result<Option<Since>, Refusal> {
        self.get(Param::Since).map(since).transpose()
    }

    pub(super) fn event_cursor(&self) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.get(Param::EventCursor) else { return Ok(None) };
        let seq = seq_of_cursor(text).ok_or_else(|| bad("cursor", "not a `nextCursor` of this path".into()))?;
        Ok(Some(seq))
    }

    pub(super) fn session_cursor(&self) -> Result<Option<String>, Refusal> {
        let searching = self.get(Param::Text).is_some();
        match self.get(Param::SessionCursor) {
            Some(text) if !is_sessions_cursor(text, searching) => {
                let said = "not a `nextCursor` of this list; ask for the next page with the same `q`";
                Err(bad("cursor", said.into()))
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        self.number(Param::Limit, LIMIT, 1..=LIMIT_MAX)
    }

    /// Which part of a file: where it begins, and its bytes at most.
    pub(super) fn part(&self) -> Result<(u64, u64), Refusal> {
        let offset = self.number(Param::Offset, 0, 0..=u64::MAX)?;
        Ok((offset, self.number(Param::Bytes, PART_BYTES_MAX, PART_BYTES_MIN..=PART_BYTES_MAX)?))
    }

    pub(super) fn days(&self) -> Result<u32, Refusal> {
        self.number(Param::Days, DAYS, 1..=DAYS_MAX)
    }

    fn number<N>(&self, param: Param, default: N, range: RangeInclusive<N>) -> Result<N, Refusal>
    where
        N: Copy + PartialOrd + Display + FromStr,
    {
        let Some(text) = self.get(param) else { return Ok(default) };
        match text.parse::<N>() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => {
                let said = format!("must be a whole number from {} to {}", range.start(), range.end());
                Err(bad(param.name(), said))
            }
        }
    }
}

/// The names in a path.
pub(super) struct Named<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(_) => Err(bad("path", "a name in it is no text; encode it as UTF-8".into())),
        }
    }
}

/// Where a reading of events begins.
pub(super) fn since(text: &str) -> Result<Since, Refusal> {
    let place = seq_of_cursor(text).map(Since::Seq);
    let time = || text.parse().ok().or_else(|| Timestamp::parse(text).map(|time| time.0)).map(Since::Time);
    place.or_else(time).ok_or_else(|| {
        let said = "must be milliseconds since 1970, an ISO time such as 2026-11-16T09:00:00Z, or a `nextCursor`";
        bad("since", said.into())
    })
}

pub(super) fn check_category(table: &[Category], field: &str, key: &str) -> Result<(), Refusal> {
    let keys: Vec<&str> = table.iter().map(|category| category.key.as_str()).collect();
    match keys.contains(&key) {
        true => Ok(()),
        false => Err(bad(field, format!("{key:?} is no category of this deployment; there is {}", keys.join(", ")))),
    }
}

pub(super) fn bad(field: &str, said: String) -> Refusal {
    Refusal::Parameter { field: field.to_owned(), said }
}
