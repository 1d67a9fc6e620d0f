//! Milestones with items that link to tasks, and todos: two files of JSON that the hub and agents keep.
//! Keeps true: a change is whole on the disk before it is told; a completed task's item is marked, at once or at a later try.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use chela_storage::{Mode, replace};
use chela_taskfile::Task;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Error, Handle, blocking};
use crate::clock::Timestamp;
use crate::event::Kind;
use crate::id;
use crate::journal::{self, Transaction};
use crate::results::Key;

/// A task whose milestone item is still to be marked.
const SYNC: &str = "milestone-sync";
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
const ROWS_MAX: usize = 5_000;
const TITLE_CHARS_MAX: usize = 500;
const DESCRIPTION_CHARS_MAX: usize = 20_000;

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("there is no {what} {id}")]
    Unknown { what: &'static str, id: String },
    #[error("`title` needs 1 to {TITLE_CHARS_MAX} characters")]
    Title,
    #[error("`description` takes at most {DESCRIPTION_CHARS_MAX} characters")]
    Description,
    #[error("there are too many already; delete some")]
    Full,
    #[error("{} is not what it should be ({said}); mend the file or set it aside", path.display())]
    Malformed { path: PathBuf, said: String },
}

impl ListError {
    pub(super) fn is_callers(&self) -> bool {
        !matches!(self, Self::Malformed { .. })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mark {
    #[default]
    Todo,
    InProgress,
    Done,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Milestone {
    id: String,
    title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default)]
    status: Mark,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_date: Option<String>,
    #[serde(default)]
    items: Vec<Item>,
    #[serde(default)]
    updated_at: String,
    /// What others keep there stays.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    id: String,
    title: String,
    #[serde(default)]
    status: Mark,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    #[serde(default)]
    updated_at: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Todo {
    id: String,
    title: String,
    #[serde(default)]
    status: Mark,
    #[serde(default)]
    updated_at: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Milestones {
    #[serde(default)]
    milestones: Vec<Milestone>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Todos {
    #[serde(default)]
    todos: Vec<Todo>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A change of the lists.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    Create {
        title: String,
        description: Option<String>,
        due: Option<String>,
    },
    Update {
        id: String,
        title: Option<String>,
        description: Option<String>,
        status: Option<Mark>,
        due: Option<String>,
    },
    Delete {
        id: String,
    },
    AddItem {
        milestone: String,
        title: String,
        task: Option<String>,
    },
    SetItem {
        item: String,
        title: Option<String>,
        status: Option<Mark>,
        task: Option<String>,
    },
    DeleteItem {
        item: String,
    },
    AddTodo {
        title: String,
    },
    SetTodo {
        id: String,
        title: Option<String>,
        status: Option<Mark>,
    },
    DeleteTodo {
        id: String,
    },
    /// A milestone changes places with the one before it, or after it.
    Move {
        id: String,
        up: bool,
    },
    MoveItem {
        id: String,
        up: bool,
    },
    MoveTodo {
        id: String,
        up: bool,
    },
}

/// Moves a row by one place; none if there is no such row. At an end it stays.
fn moved<T: Clone + Serialize>(rows: &mut [T], id: impl Fn(&T) -> bool, up: bool) -> Option<Value> {
    let at = rows.iter().position(id)?;
    let to = if up { at.saturating_sub(1) } else { (at + 1).min(rows.len() - 1) };
    rows.swap(at, to);
    Some(json!(rows[to]))
}

/// Takes a row out; none if there is no such row.
fn deleted<T: Serialize>(rows: &mut Vec<T>, id: impl Fn(&T) -> bool) -> Option<Value> {
    let at = rows.iter().position(id)?;
    Some(json!(rows.remove(at)))
}

/// What a field becomes: what is given, nothing where that is empty, and as it was where nothing is given.
fn given(given: Option<String>, before: &mut Option<String>) {
    if let Some(text) = given {
        *before = Some(text).filter(|text| !text.trim().is_empty());
    }
}

/// The id of a new row. A call with a key gives it the key's own digits: made again, it finds what it made.
pub(super) fn fresh(prefix: &str, now: Timestamp, key: Option<&Key>) -> String {
    let digits = key.map_or_else(|| id::fresh(now).simple().to_string(), Key::digits);
    format!("{prefix}_{digits}")
}

fn titled(title: &str) -> Result<String, ListError> {
    let title = chela_taskfile::one_line(title);
    if title.is_empty() || title.chars().count() > TITLE_CHARS_MAX { Err(ListError::Title) } else { Ok(title) }
}

fn described(description: Option<&String>) -> Result<(), ListError> {
    let is_long = description.is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX);
    if is_long { Err(ListError::Description) } else { Ok(()) }
}

fn unknown(what: &'static str, id: &str) -> ListError {
    ListError::Unknown { what, id: id.chars().take(128).collect() }
}

fn load<T: Default + for<'de> Deserialize<'de>>(path: &Path) -> Result<T, Error> {
    let malformed = |said: String| Error::List(ListError::Malformed { path: path.to_owned(), said });
    match std::fs::metadata(path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(T::default()),
        Ok(facts) if facts.len() > FILE_BYTES_MAX => {
            return Err(malformed(format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        _ => {}
    }
    let bytes = std::fs::read(path).map_err(|cause| Error::file("read", path, cause))?;
    serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))
}

fn save(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(value).expect("lists are plain JSON");
    text.push(b'\n');
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(ListError::Full.into());
    }
    replace(path, &text, Mode::Private).map_err(|cause| Error::file("write", path, cause))
}

impl Milestones {
    fn edit(&mut self, edit: Edit, now: Timestamp, key: Option<&Key>) -> Result<Value, ListError> {
        match edit {
            Edit::Create { title, description, due } => {
                let id = fresh("ms", now, key);
                if let Some(made) = self.milestones.iter().find(|known| known.id == id) {
                    return Ok(json!(made));
                }
                if self.milestones.len() >= ROWS_MAX {
                    return Err(ListError::Full);
                }
                described(description.as_ref())?;
                let new = Milestone {
                    id,
                    title: titled(&title)?,
                    description,
                    status: Mark::Todo,
                    due_date: due,
                    items: Vec::new(),
                    updated_at: now.to_string(),
                    rest: Map::new(),
                };
                let shown = json!(new);
                self.milestones.push(new);
                Ok(shown)
            }
            Edit::Update { id, title, description, status, due } => {
                let known =
                    self.milestones.iter_mut().find(|known| known.id == id).ok_or_else(|| unknown("milestone", &id))?;
                described(description.as_ref())?;
                if let Some(title) = title {
                    known.title = titled(&title)?;
                }
                known.status = status.unwrap_or(known.status);
                given(description, &mut known.description);
                given(due, &mut known.due_date);
                known.updated_at = now.to_string();
                Ok(json!(known))
            }
            Edit::Delete { id } => {
                deleted(&mut self.milestones, |known| known.id == id).ok_or_else(|| unknown("milestone", &id))
            }
            Edit::AddItem { milestone, title, task } => {
                let known = self.milestones.iter_mut().find(|known| known.id == milestone);
                let known = known.ok_or_else(|| unknown("milestone", &milestone))?;
                let id = fresh("mi", now, key);
                if let Some(made) = known.items.iter().find(|item| item.id == id) {
                    return Ok(json!(made));
                }
                if known.items.len() >= ROWS_MAX {
                    return Err(ListError::Full);
                }
                let (title, updated_at) = (titled(&title)?, now.to_string());
                let item = Item { id, title, status: Mark::Todo, task_id: task, updated_at, rest: Map::new() };
                let shown = json!(item);
                known.items.push(item);
                Ok(shown)
            }
            Edit::SetItem { item, title, status, task } => {
                let mut items = self.milestones.iter_mut().flat_map(|known| known.items.iter_mut());
                let known = items.find(|known| known.id == item).ok_or_else(|| unknown("milestone item", &item))?;
                if let Some(title) = title {
                    known.title = titled(&title)?;
                }
                known.status = status.unwrap_or(known.status);
                given(task, &mut known.task_id);
                known.updated_at = now.to_string();
                Ok(json!(known))
            }
            Edit::DeleteItem { item } => {
                let mut all = self.milestones.iter_mut();
                let row = all.find_map(|known| deleted(&mut known.items, |known| known.id == item));
                row.ok_or_else(|| unknown("milestone item", &item))
            }
            Edit::Move { id, up } => {
                moved(&mut self.milestones, |known| known.id == id, up).ok_or_else(|| unknown("milestone", &id))
            }
            Edit::MoveItem { id, up } => {
                let mut all = self.milestones.iter_mut();
                let row = all.find_map(|known| moved(&mut known.items, |item| item.id == id, up));
                row.ok_or_else(|| unknown("milestone item", &id))
            }
            Edit::AddTodo { .. } | Edit::SetTodo { .. } | Edit::DeleteTodo { .. } | Edit::MoveTodo { .. } => {
                unreachable!("edits of todos go to the other file")
            }
        }
    }
}

impl Todos {
    fn add(&mut self, title: &str, now: Timestamp, key: Option<&Key>) -> Result<Value, ListError> {
        let id = fresh("todo", now, key);
        if let Some(made) = self.todos.iter().find(|known| known.id == id) {
            return Ok(json!(made));
        }
        if self.todos.len() >= ROWS_MAX {
            return Err(ListError::Full);
        }
        let (title, updated_at) = (titled(title)?, now.to_string());
        let new = Todo { id, title, status: Mark::Todo, updated_at, rest: Map::new() };
        let row = json!(new);
        self.todos.push(new);
        Ok(row)
    }
}

impl Handle {
    /// The milestones with their items. Reads a file: not for an async thread.
    pub fn milestones(&self) -> Result<Value, Error> {
        let lists: Milestones = load(&self.0.dir.milestones())?;
        Ok(json!({ "milestones": lists.milestones }))
    }

    /// The todos. Reads a file: not for an async thread.
    pub fn todos(&self) -> Result<Value, Error> {
        let lists: Todos = load(&self.0.dir.todos())?;
        Ok(json!({ "todos": lists.todos }))
    }

    pub(super) fn edit_lists(&self, edit: Edit, key: Option<&Key>) -> Result<Map<String, Value>, Error> {
        let _one_at_a_time = self.0.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.0.parts.clock.now();
        let (word, row) = match edit {
            Edit::AddTodo { title } => {
                let mut lists: Todos = load(&self.0.dir.todos())?;
                let row = lists.add(&title, now, key)?;
                save(&self.0.dir.todos(), &lists)?;
                ("todo", row)
            }
            Edit::SetTodo { id, title, status } => {
                let mut lists: Todos = load(&self.0.dir.todos())?;
                let known = lists.todos.iter_mut().find(|known| known.id == id).ok_or_else(|| unknown("todo", &id))?;
                if let Some(title) = title {
                    known.title = titled(&title)?;
                }
                known.status = status.unwrap_or(known.status);
                known.updated_at = now.to_string();
                let row = json!(known);
                save(&self.0.dir.todos(), &lists)?;
                ("todo", row)
            }
            Edit::DeleteTodo { id } => {
                let mut lists: Todos = load(&self.0.dir.todos())?;
                let row = deleted(&mut lists.todos, |known| known.id == id).ok_or_else(|| unknown("todo", &id))?;
                save(&self.0.dir.todos(), &lists)?;
                ("todo", row)
            }
            Edit::MoveTodo { id, up } => {
                let mut lists: Todos = load(&self.0.dir.todos())?;
                let row = moved(&mut lists.todos, |known| known.id == id, up).ok_or_else(|| unknown("todo", &id))?;
                save(&self.0.dir.todos(), &lists)?;
                ("todo", row)
            }
            edit => {
                let of_item = matches!(edit, Edit::AddItem { .. } | Edit::SetItem { .. } | Edit::DeleteItem { .. });
                let word = if of_item { "item" } else { "milestone" };
                let mut lists: Milestones = load(&self.0.dir.milestones())?;
                let row = lists.edit(edit, now, key)?;
                save(&self.0.dir.milestones(), &lists)?;
                (word, row)
            }
        };
        self.0.lists_seen.send_modify(|count| *count += 1);
        Ok(crate::bus::data(json!({ "success": true, word: row })))
    }

    /// Moves a milestone by one place.
    pub async fn move_milestone(&self, id: String, up: bool) -> Result<(), Error> {
        let handle = self.clone();
        blocking(move || handle.edit_lists(Edit::Move { id, up }, None).map(drop)).await
    }

    pub async fn move_milestone_item(&self, id: String, up: bool) -> Result<(), Error> {
        let handle = self.clone();
        blocking(move || handle.edit_lists(Edit::MoveItem { id, up }, None).map(drop)).await
    }

    pub async fn move_todo(&self, id: String, up: bool) -> Result<(), Error> {
        let handle = self.clone();
        blocking(move || handle.edit_lists(Edit::MoveTodo { id, up }, None).map(drop)).await
    }

    /// Changes when a milestone or a todo has changed.
    pub fn lists_seen(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.lists_seen.subscribe()
    }

    /// A task names an item that there is, as far as the list can be read.
    pub(super) fn check_item(&self, task: &Task) -> Result<(), Error> {
        let (Some(item), Ok(lists)) = (&task.milestone_item, load::<Milestones>(&self.0.dir.milestones())) else {
            return Ok(());
        };
        let known = lists.milestones.iter().flat_map(|milestone| &milestone.items).any(|known| known.id == *item);
        if known { Ok(()) } else { Err(unknown("milestone item", item).into()) }
    }

    /// Marks the item of a completed task, now or at a later try.
    pub(super) fn sync_milestone(&self, task: &Task) {
        let Some(item) = &task.milestone_item else { return };
        if let Err(error) = self.mark_item(&task.id, item) {
            if !is_gone(&error) {
                self.0.unsynced.lock().unwrap_or_else(PoisonError::into_inner).insert(task.id.clone(), item.clone());
            }
            let facts = json!({ "taskId": task.id, "milestoneItemId": item, "workSessionId": task.work_session, "error": error.to_string() });
            let mut facts = crate::bus::data(facts);
            facts.retain(|_, value| !value.is_null());
            self.emit(crate::event::SYSTEM, Kind::MilestoneSyncFailed, facts);
        }
    }

    /// Marks an item and forgets that it was to be marked, also where it is gone.
    fn mark_item(&self, task: &str, item: &str) -> Result<(), Error> {
        let done = Edit::SetItem { item: item.to_owned(), title: None, status: Some(Mark::Done), task: None };
        let marked = self.edit_lists(done, None).map(drop);
        if marked.as_ref().is_err_and(|error| !is_gone(error)) {
            return marked;
        }
        let mut transaction = Transaction::new();
        journal::drop_record(&mut transaction, SYNC, task)?;
        self.0.parts.journal.commit(transaction)?;
        marked
    }

    /// Whether items are still to be marked.
    pub(super) fn has_unsynced(&self) -> bool {
        !self.0.unsynced.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) async fn retry_milestones(&self) {
        let handle = self.clone();
        let retried = blocking(move || {
            let waiting = handle.0.unsynced.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (task, item) in waiting {
                if handle.mark_item(&task, &item).is_err_and(|error| !is_gone(&error)) {
                    continue;
                }
                handle.0.unsynced.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
            }
            Ok(())
        });
        if let Err(error) = retried.await {
            tracing::warn!(error = &error as &dyn std::error::Error, "milestones were not kept in step");
        }
    }
}

/// Somebody has deleted the row: there is nothing left to be marked, now or later.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::List(ListError::Unknown { .. }))
}

/// Notes with a task's completion that its item is to be marked.
pub(super) fn put_waiting(transaction: &mut Transaction, task: &str, item: &str) -> Result<(), journal::Error> {
    journal::put(transaction, SYNC, task, &json!({ "item": item }))
}

/// Tasks whose items are still to be marked.
pub(super) fn unsynced(opened: &journal::Opened) -> Result<std::collections::BTreeMap<String, String>, journal::Error> {
    #[derive(Deserialize)]
    struct Waiting {
        item: String,
    }
    let read = |record: &journal::Record| Ok((record.id.clone(), journal::body::<Waiting>(SYNC, record)?.item));
    opened.records(SYNC)?.iter().map(read).collect()
}
