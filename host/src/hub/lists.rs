//! Milestones, todos, files of workspaces and channels, as pages show them.

use chela_page::{ChannelRow, FileRow, ListRow, MilestoneRow, Milestones, Todos, Workspace, WorkspaceShown};
use serde_json::Value;

use super::{Error, Handle, face, faces};
use crate::channels;
use crate::tools::Look;

const PAGE: usize = 20;
const ITEMS: usize = 60;
const TODOS: usize = 100;
const FILE_BYTES: u64 = 32 * 1024;
const FILES: usize = 400;

impl Handle {
    pub async fn milestones(&self, from: usize) -> Result<Milestones, Error> {
        let tasks = self.0.tasks.clone();
        let read = tokio::task::spawn_blocking(move || tasks.milestones()).await.map_err(|_| Error::Files)?;
        let list = match read {
            Ok(list) => list,
            Err(error) => return Ok(Milestones { problem: Some(error.to_string()), ..Milestones::default() }),
        };
        let all = list["milestones"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows = all.iter().skip(from).take(PAGE).map(milestone).collect();
        Ok(Milestones { rows, total: all.len(), from, problem: None })
    }

    pub async fn todos(&self, from: usize) -> Result<Todos, Error> {
        let tasks = self.0.tasks.clone();
        let read = tokio::task::spawn_blocking(move || tasks.todos()).await.map_err(|_| Error::Files)?;
        let list = match read {
            Ok(list) => list,
            Err(error) => return Ok(Todos { problem: Some(error.to_string()), ..Todos::default() }),
        };
        let all = list["todos"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows = all.iter().skip(from).take(TODOS).map(row).collect();
        Ok(Todos { rows, total: all.len(), from, problem: None })
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
        let folder = self.0.tools.look_into(known, Look::Folder { path: path.clone() }).await;
        let shown = match folder.get("entries").and_then(Value::as_array) {
            Some(entries) => WorkspaceShown::Folder {
                rows: entries.iter().take(FILES).map(file_row).collect(),
                more: entries.len() > FILES || folder.get("more") == Some(&Value::Bool(true)),
            },
            // What is no folder may be a file; what is neither says so itself.
            None => {
                let file = Look::File { path: path.clone(), offset, limit: FILE_BYTES };
                let found = Value::Object(self.0.tools.look_into(known, file).await);
                match found["content"].as_str() {
                    Some(text) => WorkspaceShown::File {
                        text: text.to_owned(),
                        bytes: found["size"].as_u64().unwrap_or_default(),
                        from: offset,
                        next: found["nextOffset"].as_u64(),
                    },
                    None => WorkspaceShown::Problem(found["error"].as_str().unwrap_or_default().to_owned()),
                }
            }
        };
        Ok(Workspace { agents, agent: Some(face(config, id)), path, shown })
    }

    pub fn channels(&self) -> Vec<ChannelRow> {
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
    }
}

fn milestone(value: &Value) -> MilestoneRow {
    let items = value["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    MilestoneRow {
        row: row(value),
        description: text(value, "description"),
        due: value["dueDate"].as_str().map(str::to_owned),
        items: items.iter().take(ITEMS).map(row).collect(),
        items_left: items.len().saturating_sub(ITEMS),
    }
}

fn file_row(entry: &Value) -> FileRow {
    FileRow { name: text(entry, "name"), is_folder: entry["kind"] == "directory" }
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
