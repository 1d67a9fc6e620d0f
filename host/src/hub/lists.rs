//! Milestones, todos, files of workspaces and channels, as pages show them.

use chela_page::caps::{FILES, ITEMS, MILESTONES, TODOS};
use chela_page::{
    ChannelRow, Chosen, FileRow, ListRow, MilestoneRow, Milestones, Problem, RowKind, Todos, Workspace, WorkspaceShown,
    mark_of, title_of,
};
use serde_json::Value;

use super::{Error, Handle, face, faces};
use crate::channels;
use crate::tools::{PART_BYTES_MAX, Seen, Unseen, look};

/// What is asked for of a list: from which row on, and the rows that are to be changed or deleted.
#[derive(Clone, Debug, Default)]
pub struct ListAsked {
    pub from: usize,
    pub edit: Option<String>,
    pub delete: Option<String>,
    /// The milestone whose items are wanted, and from which on.
    pub open: Option<String>,
    pub item: usize,
}

impl Handle {
    pub async fn milestones(&self, asked: ListAsked) -> Result<Milestones, Error> {
        let tasks = self.0.tasks.clone();
        let read = tokio::task::spawn_blocking(move || tasks.milestones()).await.map_err(|_| Error::Files)?;
        let list = match read {
            Ok(list) => list,
            Err(error) => {
                let problem = Some(Problem::Unreadable(error.to_string()));
                return Ok(Milestones { problem, ..Milestones::default() });
            }
        };
        let all = list["milestones"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut rows: Vec<MilestoneRow> = Vec::new();
        let mut room = ITEMS;
        for value in all.iter().skip(asked.from).take(MILESTONES) {
            let (from, most) = match &asked.open {
                Some(open) if value["id"] == **open => (asked.item, ITEMS),
                Some(_) => (0, 0),
                None => (0, room),
            };
            let mut row = milestone(value, from, most);
            room = room.saturating_sub(row.items.len());
            row.items.iter_mut().for_each(|item| item.task_title = self.title_of_open(item.task.as_deref()));
            rows.push(row);
        }
        let found = |id: Option<String>| {
            let id = id?;
            chosen(&list, RowKind::Milestone, &id).or_else(|| chosen(&list, RowKind::Item, &id))
        };
        let (edited, deleted) = (found(asked.edit), found(asked.delete));
        Ok(Milestones { rows, total: all.len(), from: asked.from, edited, deleted, problem: None })
    }

    /// How a row stands, by which it is told from what it becomes; none where there is none of this id.
    pub async fn chosen(&self, kind: RowKind, id: &str) -> Result<Option<Chosen>, Error> {
        let tasks = self.0.tasks.clone();
        let read = move || if kind == RowKind::Todo { tasks.todos() } else { tasks.milestones() };
        let read = tokio::task::spawn_blocking(read).await.map_err(|_| Error::Files)?;
        Ok(chosen(&read.map_err(|_| Error::Files)?, kind, id))
    }

    pub async fn todos(&self, asked: ListAsked) -> Result<Todos, Error> {
        let tasks = self.0.tasks.clone();
        let read = tokio::task::spawn_blocking(move || tasks.todos()).await.map_err(|_| Error::Files)?;
        let list = match read {
            Ok(list) => list,
            Err(error) => {
                let problem = Some(Problem::Unreadable(error.to_string()));
                return Ok(Todos { problem, ..Todos::default() });
            }
        };
        let all = list["todos"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows = all.iter().skip(asked.from).take(TODOS).map(row).collect();
        let found = |id: Option<String>| chosen(&list, RowKind::Todo, &id?);
        let (edited, deleted) = (found(asked.edit), found(asked.delete));
        Ok(Todos { rows, total: all.len(), from: asked.from, edited, deleted, problem: None })
    }

    /// What an open task is called.
    fn title_of_open(&self, task: Option<&str>) -> Option<String> {
        Some(title_of(&self.0.tasks.open(task?)?.task.description))
    }

    /// A folder or a file of an agent's workspace; without an agent, whose there are.
    pub async fn workspace(&self, agent: Option<&str>, path: &str, offset: u64) -> Result<Workspace, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let agents = faces(config);
        let Some(id) = agent else {
            return Ok(Workspace { agents, agent: None, path: String::new(), shown: WorkspaceShown::Agents });
        };
        let known = config.agents.list.iter().find(|known| known.id.as_ref() == id);
        let known = known.ok_or_else(|| Error::unknown("agent", id))?;
        let path = path.trim_matches('/').to_owned();
        let (home, wanted) = (self.0.dir.path().join(known.workspace_path()), path.clone());
        let seen = tokio::task::spawn_blocking(move || look(&home, &wanted, offset, PART_BYTES_MAX)).await;
        let shown = match seen.map_err(|_| Error::Files)? {
            Ok(Seen::Folder { entries, more }) => {
                let total = entries.len();
                let from = usize::try_from(offset).ok().filter(|from| *from < total).unwrap_or(0);
                let rows = entries.into_iter().skip(from).take(FILES).map(file_row).collect();
                WorkspaceShown::Folder { rows, from, total, more }
            }
            Ok(Seen::File { text, bytes, next }) => WorkspaceShown::File { text, bytes, from: offset, next },
            Err(unseen) => WorkspaceShown::Problem(match unseen {
                Unseen::Missing(path) => Problem::Missing(path),
                Unseen::Refused(said) => Problem::Refused(said),
                Unseen::Unreadable(said) => Problem::Unreadable(said),
            }),
        };
        Ok(Workspace { agents, agent: Some(face(config, id)), path, shown })
    }

    pub fn channels(&self) -> Vec<ChannelRow> {
        self.look_at_counters();
        self.0.channels.list().into_iter().map(channel).collect()
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn row(value: &Value) -> ListRow {
    ListRow {
        id: text(value, "id"),
        title: text(value, "title"),
        status: text(value, "status"),
        task: value["taskId"].as_str().map(str::to_owned),
        task_title: None,
    }
}

fn chosen(lists: &Value, kind: RowKind, id: &str) -> Option<Chosen> {
    let rows = |value: &'_ Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let mut all = match kind {
        RowKind::Milestone => rows(lists, "milestones"),
        RowKind::Item => rows(lists, "milestones").iter().flat_map(|milestone| rows(milestone, "items")).collect(),
        RowKind::Todo => rows(lists, "todos"),
    };
    let value = all.swap_remove(all.iter().position(|row| row["id"] == id)?);
    let whole = milestone(&value, 0, 0);
    Some(Chosen {
        kind,
        seen: if kind == RowKind::Milestone { whole.mark() } else { whole.row.mark() },
        items: whole.items_total,
        row: whole.row,
        description: whole.description,
        due: whole.due,
        whole: mark_of(&value.to_string()),
    })
}

/// A milestone with so many of its items at most, from one on.
fn milestone(value: &Value, from: usize, most: usize) -> MilestoneRow {
    let items = value["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let from = if from < items.len() { from } else { 0 };
    MilestoneRow {
        row: row(value),
        description: text(value, "description"),
        due: value["dueDate"].as_str().map(str::to_owned),
        items: items.iter().skip(from).take(most).map(row).collect(),
        items_from: from,
        items_total: items.len(),
        items_done: items.iter().filter(|item| item["status"] == "done").count(),
    }
}

fn file_row((name, kind): (String, String)) -> FileRow {
    FileRow { is_folder: kind == "directory", name }
}

fn channel(view: channels::View) -> ChannelRow {
    ChannelRow {
        channel: view.channel,
        status: view.status.as_str().to_owned(),
        detail: view.detail,
        since: view.since.0,
        plugin: view.plugin.map(|plugin| (plugin.name, plugin.version)),
        connections: view.connections,
        undelivered: view.undelivered as u64,
        received: view.received,
        delivered: view.delivered,
        refused: view.refused,
        restarts: view.restarts,
    }
}
