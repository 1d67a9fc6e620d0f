//! What people do to milestones and todos: the tools of agents do it, and rows are put in another order. What is changed or deleted must
//! still be as its reader saw it.

use axum::extract::{Request, State};
use axum::response::Response;
use chela_page::{Chosen, RowKind};
use serde_json::{Map, Value, json};

use super::sent::{Sent, args_of, called, refusal_of};
use crate::edge::params::{Named, bad};
use crate::edge::table::change;
use crate::edge::{Context, ErrorShape, Refusal, audit};
use crate::id::AgentId;
use crate::tasks;

const MARKS: [&str; 3] = ["todo", "in_progress", "done"];

pub(super) async fn milestones(State(context): State<Context>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = changed_milestones(&context, &sent).await;
    let next = sent.back().to_owned();
    sent.answer(&context, done.map(|()| next)).await
}

pub(super) async fn milestone(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = changed_milestone(&context, &id, &sent).await;
    let next = sent.back().to_owned();
    sent.answer(&context, done.map(|()| next)).await
}

pub(super) async fn todos(State(context): State<Context>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = changed_todos(&context, &sent).await;
    let next = sent.back().to_owned();
    sent.answer(&context, done.map(|()| next)).await
}

/// A word and the row that it is about, as a button says it: `done:ROW`.
fn told(sent: &Sent) -> (String, String) {
    let wanted = sent.form.get("do").unwrap_or_default();
    let (word, row) = wanted.split_once(':').unwrap_or((wanted, ""));
    (word.to_owned(), row.to_owned())
}

/// Whoever people name when they name nobody: the lists are the team's, and a tool is called by somebody.
fn somebody(context: &Context) -> Result<AgentId, Refusal> {
    let settings = context.settings.current();
    let first = settings.config.agents.list.first().map(|agent| agent.id.clone());
    first.ok_or_else(|| Refusal::Unavailable { said: "there is no agent yet; add one to `agents.list`".into() })
}

async fn by_tool(context: &Context, sent: &Sent, tool: &str, args: Value) -> Result<(), Refusal> {
    let mut args: Map<String, Value> = args_of(args);
    args.retain(|_, value| !value.is_null());
    called(context, &sent.caller, tool, args, &somebody(context)?).await
}

/// The row that a form is about, if there is one still.
async fn found(context: &Context, kind: RowKind, id: &str) -> Result<Chosen, Refusal> {
    let found = context.hub.chosen(kind, id).await.map_err(|error| Refusal::Unavailable { said: error.to_string() })?;
    found.ok_or_else(|| Refusal::Gone { said: "it is gone; somebody has deleted it".into() })
}

/// What is deleted is what was looked at, with all that it has.
async fn delete(context: &Context, sent: &Sent, kind: RowKind, id: &str) -> Result<(), Refusal> {
    let (what, tool, name) = match kind {
        RowKind::Milestone => ("the milestone", "milestone_delete", "milestone_id"),
        RowKind::Item => ("the item", "milestone_item_delete", "item_id"),
        RowKind::Todo => ("the todo", "todo_delete", "todo_id"),
    };
    sent.as_seen(what, Some(&found(context, kind, id).await?.whole))?;
    by_tool(context, sent, tool, json!({ name: id })).await
}

async fn moved<F>(context: &Context, sent: &Sent, name: &str, id: &str, work: F) -> Result<(), Refusal>
where
    F: Future<Output = Result<(), tasks::Error>> + Send + 'static,
{
    let work = async move {
        work.await.map_err(|error| match error.is_callers() {
            true => ErrorShape::invalid(error.to_string()),
            false => ErrorShape::unavailable(error.to_string()),
        })
    };
    change(context, &sent.caller, name, audit::of(&json!({ "id": id })), work).await.map_err(refusal_of)
}

async fn changed_milestones(context: &Context, sent: &Sent) -> Result<(), Refusal> {
    let (word, row) = told(sent);
    match word.as_str() {
        "new" => {
            let description = sent.form.written("description");
            let args = json!({
                "title": sent.form.written("title"), "due_date": sent.form.text("due"),
                "description": Some(description).filter(|text| !text.trim().is_empty()),
            });
            by_tool(context, sent, "milestone_create", args).await
        }
        "up" | "down" => {
            let (tasks, id, up) = (context.tasks.clone(), row.clone(), word == "up");
            let work = async move { tasks.move_milestone_item(id, up).await };
            moved(context, sent, "hub.milestones.order", &row, work).await
        }
        "change" => {
            sent.as_seen("the item", Some(&found(context, RowKind::Item, &row).await?.seen))?;
            let mut args = json!({ "item_id": row, "title": sent.form.written("title") });
            if sent.form.has("task") {
                args["task_id"] = json!(sent.form.written("task").trim());
            }
            by_tool(context, sent, "milestone_item_set", args).await
        }
        "delete" => delete(context, sent, RowKind::Item, &row).await,
        mark if MARKS.contains(&mark) => {
            by_tool(context, sent, "milestone_item_set", json!({ "item_id": row, "status": mark })).await
        }
        _ => Err(bad("do", "there is no such change of a milestone".into())),
    }
}

async fn changed_milestone(context: &Context, id: &str, sent: &Sent) -> Result<(), Refusal> {
    let title = sent.form.written("title");
    let (word, _) = told(sent);
    match word.as_str() {
        "item" => {
            let args = json!({ "milestone_id": id, "title": title, "task_id": sent.form.text("task") });
            by_tool(context, sent, "milestone_item_add", args).await
        }
        "change" => {
            let now = found(context, RowKind::Milestone, id).await?;
            sent.as_seen("the milestone", Some(&now.seen))?;
            let mut args = json!({ "milestone_id": id, "title": title });
            // A field of days shows the day alone of what another system wrote with its hour.
            let due = sent.form.written("due");
            let is_as_shown = now.due.as_deref().and_then(|due| due.get(..10)) == Some(due.as_str());
            if sent.form.has("due") && !is_as_shown {
                args["due_date"] = json!(due);
            }
            if sent.form.has("description") {
                args["description"] = json!(sent.form.written("description"));
            }
            by_tool(context, sent, "milestone_update", args).await
        }
        "delete" => delete(context, sent, RowKind::Milestone, id).await,
        "up" | "down" => {
            let (tasks, own, up) = (context.tasks.clone(), id.to_owned(), word == "up");
            moved(context, sent, "hub.milestones.order", id, async move { tasks.move_milestone(own, up).await }).await
        }
        mark if MARKS.contains(&mark) => {
            by_tool(context, sent, "milestone_update", json!({ "milestone_id": id, "status": mark })).await
        }
        _ => Err(bad("do", "there is no such change of a milestone".into())),
    }
}

async fn changed_todos(context: &Context, sent: &Sent) -> Result<(), Refusal> {
    let (word, row) = told(sent);
    match word.as_str() {
        "new" => by_tool(context, sent, "todo_add", json!({ "title": sent.form.written("title") })).await,
        "up" | "down" => {
            let (tasks, id, up) = (context.tasks.clone(), row.clone(), word == "up");
            moved(context, sent, "hub.todos.order", &row, async move { tasks.move_todo(id, up).await }).await
        }
        "change" => {
            sent.as_seen("the todo", Some(&found(context, RowKind::Todo, &row).await?.seen))?;
            by_tool(context, sent, "todo_set", json!({ "todo_id": row, "title": sent.form.written("title") })).await
        }
        "delete" => delete(context, sent, RowKind::Todo, &row).await,
        mark if MARKS.contains(&mark) => {
            by_tool(context, sent, "todo_set", json!({ "todo_id": row, "status": mark })).await
        }
        _ => Err(bad("do", "there is no such change of a todo".into())),
    }
}
