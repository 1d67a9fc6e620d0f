//! Milestones, todos, files of workspaces, channels and settings, as their pages show them.

use super::Face;
use crate::assets::mark_of;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListRow {
    pub id: String,
    pub title: String,
    /// `todo`, `in_progress` or `done`.
    pub status: String,
    /// The task that it is done by, and what that is called as far as it is known.
    pub task: Option<String>,
    pub task_title: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MilestoneRow {
    pub row: ListRow,
    pub description: String,
    pub due: Option<String>,
    /// Some of its items, from so many on.
    pub items: Vec<ListRow>,
    pub items_from: usize,
    pub items_total: usize,
    pub items_done: usize,
}

/// Why something cannot be read: what kind of thing that is, and what was said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    Missing(String),
    Refused(String),
    Unreadable(String),
}

impl MilestoneRow {
    /// Tells what a reader saw of it from what it has become.
    pub fn mark(&self) -> String {
        mark_of(&format!("{}\n{}\n{}", self.row.title, self.due.as_deref().unwrap_or_default(), self.description))
    }
}

impl ListRow {
    /// Tells what a reader saw of an item or a todo from what it has become.
    pub fn mark(&self) -> String {
        mark_of(&format!("{}\n{}", self.title, self.task.as_deref().unwrap_or_default()))
    }
}

/// What a row of the lists is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Milestone,
    Item,
    Todo,
}

/// A row that somebody is about to change or to delete.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub kind: RowKind,
    pub row: ListRow,
    /// Of a milestone; so many items go with it.
    pub description: String,
    pub due: Option<String>,
    pub items: usize,
    /// Tells what a form changes from what that becomes.
    pub seen: String,
    /// Tells the row, with all that it has, from what it becomes.
    pub whole: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Milestones {
    pub rows: Vec<MilestoneRow>,
    pub total: usize,
    pub from: usize,
    /// The item that is to be changed.
    pub edited: Option<Chosen>,
    /// The milestone or item that is to be deleted.
    pub deleted: Option<Chosen>,
    /// Why the list cannot be read.
    pub problem: Option<Problem>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Todos {
    pub rows: Vec<ListRow>,
    pub total: usize,
    pub from: usize,
    pub edited: Option<Chosen>,
    pub deleted: Option<Chosen>,
    pub problem: Option<Problem>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileRow {
    pub name: String,
    pub is_folder: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceShown {
    /// The agents whose workspaces there are.
    Agents,
    Folder {
        rows: Vec<FileRow>,
        from: usize,
        total: usize,
        /// There are even more than are counted.
        more: bool,
    },
    File {
        text: String,
        bytes: u64,
        from: u64,
        next: Option<u64>,
    },
    Problem(Problem),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Workspace {
    pub agents: Vec<Face>,
    pub agent: Option<Face>,
    /// Below the workspace; empty for all of it.
    pub path: String,
    pub shown: WorkspaceShown,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChannelRow {
    pub channel: String,
    /// `starting`, `ready`, `degraded`, `needs-auth` or `stopped`.
    pub status: String,
    pub detail: String,
    pub since: u64,
    pub plugin: Option<(String, String)>,
    pub connections: Vec<String>,
    pub undelivered: u64,
    pub received: u64,
    pub delivered: u64,
    pub refused: u64,
    pub restarts: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenRow {
    pub name: String,
    pub scope: String,
    pub is_owner: bool,
}

/// A setting that there is, as the schema has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingRow {
    pub path: String,
    pub kind: String,
    pub said: String,
    /// What is in force; secrets are not shown.
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub path: String,
    /// Tells one state of the file from another.
    pub revision: String,
    pub problems: Vec<String>,
    pub restart_needed: Vec<String>,
    pub tokens: Vec<TokenRow>,
    /// The part of the configuration that is looked at, of all there are.
    pub section: String,
    pub sections: Vec<String>,
    /// What is in force of it, as JSON.
    pub text: String,
    pub rows: Vec<SettingRow>,
}
