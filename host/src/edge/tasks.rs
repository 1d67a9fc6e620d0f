//! The paths of tasks: from memory for the directory that is ours, from the files for another's.

use axum::Json;
use axum::extract::{RawQuery, State};
use serde_json::{Map, Value, json};

use super::monitor::{no_such, read};
use super::params::{Given, Named, Param, bad};
use super::{Access, Context, Refusal, Routes};
use crate::id::AgentId;
use crate::monitor::workspace;
use crate::port::Port;
use crate::tasks;

type Answer = Result<Json<Value>, Refusal>;

pub(super) const TASKS: &[Param] = &[Param::TaskStatus, Param::Agent, Param::Limit];

pub(super) fn routes(routes: Routes) -> Routes {
    const ALL: &[Port] = &Port::ALL;
    routes
        .get("/api/agents/{id}/tasks", Access::Watching, ALL, of_agent)
        .get("/api/agents/{id}/tasks/{taskId}", Access::Watching, ALL, of_agent_one)
        .get("/api/agents/{id}/current", Access::Watching, ALL, current)
        .get("/api/agents/{id}/blocked", Access::Watching, ALL, blocked)
        .get("/api/agents/{id}/history", Access::Watching, ALL, history)
        .get("/api/agents/{id}/plans", Access::Watching, ALL, plans)
        .get("/api/team-state", Access::Watching, ALL, team_state)
        .get("/api/tasks", Access::Watching, ALL, all)
        .get("/api/tasks/{id}", Access::Watching, ALL, one)
        .get("/api/milestones", Access::Watching, ALL, milestones)
        .get("/api/todos", Access::Watching, ALL, todos)
}

impl From<tasks::Error> for Refusal {
    fn from(error: tasks::Error) -> Self {
        let said = error.to_string();
        tracing::error!(error = said, "tasks could not be shown");
        Self::Unavailable { said }
    }
}

/// An agent of the team, by the id in a path.
pub(super) fn agent_of(context: &Context, id: &str) -> Result<AgentId, Refusal> {
    let settings = context.settings.current();
    let known = settings.config.agents.list.iter().find(|agent| agent.id.as_ref() == id);
    known.map(|agent| agent.id.clone()).ok_or_else(|| no_such("agent", id))
}

/// Open tasks of an agent.
async fn open_of(context: &Context, agent: &AgentId) -> Result<Vec<Value>, Refusal> {
    if context.is_own() {
        return Ok(context.tasks.of(agent)?.iter().map(|view| view.to_json()).collect());
    }
    let path = context.workspace(agent);
    read(move || workspace::tasks(&path)).await
}

async fn of_agent(State(context): State<Context>, Named(id): Named<String>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let agent = agent_of(&context, &id)?;
    Ok(Json(json!({ "tasks": open_of(&context, &agent).await? })))
}

async fn blocked(State(context): State<Context>, Named(id): Named<String>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let agent = agent_of(&context, &id)?;
    let mut tasks = open_of(&context, &agent).await?;
    tasks.retain(|task| task["status"] == "blocked");
    Ok(Json(json!({ "tasks": tasks })))
}

async fn current(State(context): State<Context>, Named(id): Named<String>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let agent = agent_of(&context, &id)?;
    let mut answer = json!({ "task": current_of(&context, &agent).await? });
    if context.is_own() {
        answer["continuation"] = context.continuation.shown(&agent);
    }
    Ok(Json(answer))
}

async fn current_of(context: &Context, agent: &AgentId) -> Result<Option<Value>, Refusal> {
    if context.is_own() {
        return Ok(context.tasks.current(agent).map(|view| view.to_json()));
    }
    let path = context.workspace(agent);
    read(move || workspace::current(&path)).await
}

async fn history(State(context): State<Context>, Named(id): Named<String>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let path = context.workspace(&agent_of(&context, &id)?);
    Ok(Json(json!({ "tasks": read(move || workspace::history(&path)).await? })))
}

async fn plans(State(context): State<Context>, Named(id): Named<String>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let path = context.workspace(&agent_of(&context, &id)?);
    Ok(Json(json!({ "plans": read(move || workspace::plans(&path)).await? })))
}

async fn of_agent_one(
    State(context): State<Context>,
    Named((id, task)): Named<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let agent = agent_of(&context, &id)?;
    let found = found(&context, &task, Some(agent)).await?;
    found.map(Json).ok_or_else(|| no_such("task", &task))
}

async fn one(State(context): State<Context>, Named(id): Named<String>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    found(&context, &id, None).await?.map(Json).ok_or_else(|| no_such("task", &id))
}

/// A task by its id, of one agent or of anybody, finished ones too.
async fn found(context: &Context, id: &str, agent: Option<AgentId>) -> Result<Option<Value>, Refusal> {
    let (context, id) = (context.clone(), id.to_owned());
    read(move || {
        let settings = context.settings.current();
        let agents = settings.config.agents.list.iter().map(|known| known.id.clone());
        let mut agents = agents.filter(|known| agent.as_ref().is_none_or(|wanted| wanted == known));
        if context.is_own() {
            let view = context.tasks.find(&id);
            return view
                .filter(|view| agent.as_ref().is_none_or(|wanted| *wanted == view.agent))
                .map(|view| view.to_json());
        }
        agents.find_map(|known| workspace::task(&context.workspace(&known), &id))
    })
    .await
}

async fn all(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    let given = Given::parse(TASKS, query.as_deref())?;
    let (statuses, agents, limit) = (given.list(Param::TaskStatus)?, given.list(Param::Agent)?, given.limit()?);
    let known: Vec<AgentId> =
        context.settings.current().config.agents.list.iter().map(|agent| agent.id.clone()).collect();
    if let Some(unknown) = agents.iter().find(|wanted| !known.iter().any(|id| id.as_ref() == **wanted)) {
        return Err(bad("agentId", format!("no agent has the id {unknown}")));
    }
    let mut rows = Vec::new();
    for agent in known.iter().filter(|id| agents.is_empty() || agents.iter().any(|wanted| id.as_ref() == wanted)) {
        for mut task in open_of(&context, agent).await? {
            if statuses.is_empty() || statuses.iter().any(|status| task["status"] == **status) {
                task["agentId"] = json!(agent);
                rows.push(task);
            }
        }
    }
    let total = rows.len();
    rows.truncate(limit);
    Ok(Json(json!({ "tasks": rows, "total": total })))
}

async fn team_state(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let settings = context.settings.current();
    let mut rows = Vec::new();
    for agent in &settings.config.agents.list {
        let tasks = open_of(&context, &agent.id).await?;
        let (mut counts, mut steps) = (Map::new(), [0, 0]);
        for task in &tasks {
            let status = if task.get("problem").is_some() {
                "unreadable"
            } else {
                task["status"].as_str().unwrap_or("unreadable")
            };
            let count = counts.get(status).and_then(Value::as_u64).unwrap_or(0);
            counts.insert(status.to_owned(), json!(count + 1));
            for (sum, key) in steps.iter_mut().zip(["done", "total"]) {
                *sum += task["stepsProgress"][key].as_u64().unwrap_or(0);
            }
        }
        let current = current_of(&context, &agent.id).await?;
        let mut row = json!({ "agentId": agent.id, "team": agent.team, "current": current, "taskCounts": counts });
        if steps[1] > 0 {
            row["steps"] = json!({ "done": steps[0], "total": steps[1] });
        }
        rows.push(row);
    }
    Ok(Json(json!({ "agents": rows })))
}

async fn milestones(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    Ok(Json(read(move || context.tasks.milestones()).await??))
}

async fn todos(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    Ok(Json(read(move || context.tasks.todos()).await??))
}
