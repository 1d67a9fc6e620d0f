//! Tasks as a graph of who works for whom, and along time.

use super::{Face, TaskCard, TasksFilter};

/// An agent with the tasks that it has, as the graph shows them.
#[derive(Clone, Debug, PartialEq)]
pub struct CanvasAgent {
    pub face: Face,
    pub role: String,
    /// The orchestrator that it works for.
    pub works_for: Option<String>,
    pub tasks: Vec<TaskCard>,
    /// Tasks that are not shown.
    pub left: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Canvas {
    pub filter: TasksFilter,
    pub agents: Vec<Face>,
    pub nodes: Vec<CanvasAgent>,
    /// Agents that are not shown.
    pub left: usize,
}

/// A task along time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub card: TaskCard,
    pub from: u64,
    /// When it is due, or until now where nobody has said.
    pub to: u64,
    pub is_due: bool,
    pub depends_on: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub filter: TasksFilter,
    pub agents: Vec<Face>,
    pub bars: Vec<Bar>,
    pub total: usize,
    pub now: u64,
}
