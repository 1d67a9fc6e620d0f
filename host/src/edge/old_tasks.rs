//! `tasks.*` in the shapes that existing clients know.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Context, ErrorShape, Methods};
use crate::clock::Timestamp;
use crate::scope::Scope;
use crate::session_key::SessionKey;
use crate::tasks::View;
use crate::tools::Call;

const LIMIT: usize = 100;
const LIMIT_MAX: usize = 500;

pub(super) fn methods(methods: Methods) -> Methods {
    methods.add("tasks.list", Scope::Read, list).add("tasks.get", Scope::Read, get).add(
        "tasks.cancel",
        Scope::Write,
        cancel,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct List {
    status: Option<Status>,
    agent_id: Option<String>,
    session_key: Option<String>,
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    /// The id after which to go on.
    cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Queued,
    Running,
    Completed,
    Failed,
    Cancelled,
    TimedOut,
}

impl Status {
    /// What a status of ours is called there; unknown ones of foreign files wait.
    fn of(word: &str) -> Self {
        match word {
            "in_progress" => Self::Running,
            "completed" => Self::Completed,
            "cancelled" => Self::Cancelled,
            "failed" | "abandoned" => Self::Failed,
            _ => Self::Queued,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }
}

pub(super) fn row(view: &View) -> Value {
    let task = &view.task;
    let at = |text: &str| Timestamp::parse(text);
    let mut row = json!({
        "id": view.id, "taskId": view.id, "kind": "task", "runtime": "cli",
        "status": Status::of(&task.status.to_string()).as_str(), "title": task.description, "agentId": view.agent,
        "sessionKey": SessionKey::main(view.agent.clone()).to_string(), "createdAt": at(&task.created),
        "updatedAt": at(&task.last_activity), "progressSummary": task.progress.last(),
        "terminalSummary": task.outcome.as_ref().map(|outcome| &outcome.summary),
    });
    if let Some(row) = row.as_object_mut() {
        row.retain(|_, value| !value.is_null());
    }
    row
}

async fn list(context: Context, asked: List) -> Result<Value, ErrorShape> {
    let agent = match (&asked.agent_id, &asked.session_key) {
        (Some(agent), _) => Some(agent.clone()),
        (None, Some(key)) => Some(session_of(key)?.agent.to_string()),
        (None, None) => None,
    };
    let limit = asked.limit.unwrap_or(LIMIT);
    let all = context.tasks.all();
    let after = asked.cursor.as_deref().map(|cursor| {
        let at = all.iter().position(|view| view.id == cursor);
        at.map(|at| at + 1)
            .ok_or_else(|| ErrorShape::invalid("tasks.list: no open task has the id `cursor` any more; begin anew"))
    });
    let mut wanted = all.iter().skip(after.transpose()?.unwrap_or(0)).filter(|view| {
        agent.as_deref().is_none_or(|agent| view.agent.as_ref() == agent)
            && asked.status.is_none_or(|status| Status::of(&view.task.status.to_string()) == status)
    });
    let shown: Vec<_> = wanted.by_ref().take(limit).collect();
    let mut answer = json!({ "tasks": shown.iter().map(|view| row(view)).collect::<Vec<_>>() });
    if let (Some(last), true) = (shown.last(), wanted.next().is_some()) {
        answer["nextCursor"] = json!(last.id);
    }
    Ok(answer)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct One {
    #[schemars(length(min = 1, max = 256))]
    task_id: String,
}

async fn get(context: Context, asked: One) -> Result<Value, ErrorShape> {
    let found = find(&context, asked.task_id.clone()).await?;
    found.map(|view| json!({ "task": row(&view) })).ok_or_else(|| {
        ErrorShape::invalid(format!("no task has the id {:?}; `tasks.list` tells which there are", asked.task_id))
    })
}

/// Also among those that have ended, which lie in files.
pub(super) async fn find(context: &Context, id: String) -> Result<Option<View>, ErrorShape> {
    let tasks = context.tasks.clone();
    let found = tokio::task::spawn_blocking(move || tasks.find(&id)).await;
    found.map_err(|_| ErrorShape::unavailable("the tasks could not be read; see the gateway's log"))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Cancel {
    #[schemars(length(min = 1, max = 256))]
    task_id: String,
    #[schemars(length(max = 2000))]
    reason: Option<String>,
}

async fn cancel(context: Context, asked: Cancel) -> Result<Value, ErrorShape> {
    let Some(view) = context.tasks.open(&asked.task_id) else {
        let ended = find(&context, asked.task_id).await?;
        return Ok(cancelled(false, Some("the task has ended or is not known".into()), ended.as_ref()));
    };
    let reason = asked.reason.unwrap_or_else(|| "cancelled by an operator".into());
    let args: Map<String, Value> =
        [("task_id".to_owned(), json!(view.id)), ("reason".to_owned(), json!(reason))].into_iter().collect();
    let session = SessionKey::main(view.agent.clone());
    let done = context.tools.invoke(Call::of_caller("task_cancel", args, session)).await;
    let done = done.map_err(|error| ErrorShape::invalid(error.to_string()))?;
    let task = find(&context, view.id.clone()).await?;
    Ok(cancelled(done.get("success") == Some(&json!(true)), done.get("error").cloned(), task.as_ref()))
}

fn cancelled(cancelled: bool, reason: Option<Value>, task: Option<&View>) -> Value {
    let mut answer = json!({ "found": task.is_some(), "cancelled": cancelled });
    if let Some(reason) = reason {
        answer["reason"] = reason;
    }
    if let Some(task) = task {
        answer["task"] = row(task);
    }
    answer
}

fn session_of(key: &str) -> Result<SessionKey, ErrorShape> {
    SessionKey::parse(key).map_err(|error| ErrorShape::invalid(error.to_string()))
}
