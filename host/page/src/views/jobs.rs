//! Jobs between agents, as their pages show them.

use super::{Face, Indexed, JobRow, Why};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobsFilter {
    pub status: Option<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub cursor: Option<String>,
}

/// A job with what there is to know of its course.
#[derive(Clone, Debug, PartialEq)]
pub struct JobCard {
    pub row: JobRow,
    pub turns_max: u32,
    pub tries: u32,
    pub tries_max: u32,
    /// How often it was taken up after a restart.
    pub resumed: u32,
    pub phase: String,
    pub made: u64,
    pub next_try: Option<u64>,
    pub label: String,
    pub task: Option<String>,
    /// The one that it tries again.
    pub retry_of: Option<String>,
    pub may_cancel: bool,
    pub may_retry: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Jobs {
    pub filter: JobsFilter,
    pub agents: Vec<Face>,
    /// How many stand how, in the order of a job's life.
    pub counts: Vec<(String, usize)>,
    pub jobs: Vec<JobCard>,
    pub next: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TurnRow {
    pub turn: u32,
    pub who: Face,
    /// As the record says it.
    pub state: String,
    pub at: Option<u64>,
    pub reply: String,
    pub error: String,
    pub tries: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    pub card: JobCard,
    pub message: String,
    pub turns: Vec<TurnRow>,
    /// Turns that are not here.
    pub turns_left: usize,
    pub why: Indexed<Why>,
}
