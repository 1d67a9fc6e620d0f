//! The monitor's paths: agents, tasks, events, work sessions, jobs and counts, for people's tools and the hub.

use axum::Json;
use axum::extract::{RawQuery, Request as HttpRequest, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::openapi;
use super::params::{Given, Named, Param, bad, check_category};
use super::table::Caller;
use super::table::change;
use super::{Access, Context, ErrorShape, Refusal, Routes, audit, body, follow, jobs};
use crate::config::{Agent, Category};
use crate::monitor::{EventsQuery, OverrideError, QueryError, SessionsQuery};
use crate::port::Port;
use crate::scope::Scope;

type Answer = Result<Json<Value>, Refusal>;

pub(super) const EVENTS: &[Param] = &[
    Param::Role,
    Param::Type,
    Param::ViewCategory,
    Param::WorkSession,
    Param::Task,
    Param::Job,
    Param::Since,
    Param::EventCursor,
    Param::Limit,
];
pub(super) const SESSIONS: &[Param] = &[
    Param::Role,
    Param::Type,
    Param::Status,
    Param::ThreadState,
    Param::ViewCategory,
    Param::SubTag,
    Param::Text,
    Param::SessionCursor,
    Param::Limit,
];
pub(super) const STATS: &[Param] = &[Param::Days];
pub(super) const JOBS: &[Param] = &[Param::JobStatus, Param::JobCursor, Param::Limit];

pub(super) fn routes(routes: Routes) -> Routes {
    const ALL: &[Port] = &Port::ALL;
    routes
        .get("/api/health", Access::Watching, ALL, health)
        .get("/api/agents", Access::Watching, ALL, agents)
        .get("/api/events", Access::Watching, ALL, events)
        .get("/api/work-sessions", Access::Watching, ALL, sessions)
        .get("/api/work-sessions/{id}", Access::Watching, ALL, session)
        .patch("/api/work-sessions/{id}/category", Access::Needs(Scope::Write), ALL, set_category)
        .get("/api/jobs", Access::Watching, ALL, jobs::page)
        .get("/api/jobs/{id}", Access::Watching, ALL, jobs::one)
        .get("/api/stats", Access::Watching, ALL, stats)
        .get("/api/openapi.json", Access::Watching, ALL, document)
        .get("/ws", Access::Watching, ALL, follow::follow)
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        let said = error.to_string();
        match error {
            QueryError::Indexing { .. } => Self::Indexing { said },
            QueryError::Index(_) | QueryError::Log(_) | QueryError::Stopping => {
                tracing::error!(error = said, "a query was not answered");
                Self::Unavailable { said }
            }
        }
    }
}

async fn document() -> Json<Value> {
    Json(openapi::document())
}

async fn health(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let failing = context.failing();
    let monitor = context.monitor.health().await;
    Ok(Json(json!({
        "ok": failing.is_empty() && monitor.problem.is_none(),
        "failing": failing,
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeMs": context.uptime_ms(),
        "agents": context.settings.current().config.agents.list.len(),
        "monitor": monitor,
    })))
}

async fn events(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    let given = Given::parse(EVENTS, query.as_deref())?;
    events_page(&context, &given).await.map(Json)
}

pub(super) async fn events_page(context: &Context, given: &Given) -> Result<Value, Refusal> {
    let asked = events_query(given, &context.settings.current().config.categories)?;
    let page = context.monitor.events(asked).await?;
    Ok(json!({ "events": page.rows, "nextCursor": page.next }))
}

pub(super) fn events_query(given: &Given, table: &[Category]) -> Result<EventsQuery, Refusal> {
    let subject = match (given.id(Param::Task)?, given.id(Param::Job)?) {
        (Some(_), Some(_)) => return Err(bad("jobId", "ask for a task or for a job, not for both".into())),
        (task, job) => task.map(|id| format!("task:{id}")).or(job.map(|id| format!("job:{id}"))),
    };
    let (since, before) = (given.since()?, given.event_cursor()?);
    if since.is_some() && before.is_some() {
        return Err(bad("cursor", "with `since`, the next page begins at `since=` the page's `nextCursor`".into()));
    }
    Ok(EventsQuery {
        roles: given.roles()?,
        types: given.list(Param::Type)?,
        categories: given.categories(table)?,
        work_session: given.id(Param::WorkSession)?,
        subject,
        since,
        before,
        limit: given.limit()?,
    })
}

async fn sessions(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    let given = Given::parse(SESSIONS, query.as_deref())?;
    sessions_page(&context, &given).await.map(Json)
}

pub(super) async fn sessions_page(context: &Context, given: &Given) -> Result<Value, Refusal> {
    let asked = sessions_query(given, &context.settings.current().config.categories)?;
    let page = context.monitor.sessions(asked).await?;
    Ok(json!({ "workSessions": page.rows, "nextCursor": page.next }))
}

pub(super) fn sessions_query(given: &Given, table: &[Category]) -> Result<SessionsQuery, Refusal> {
    Ok(SessionsQuery {
        roles: given.roles()?,
        types: given.list(Param::Type)?,
        status: given.status()?,
        categories: given.categories(table)?,
        sub_tags: given.list(Param::SubTag)?,
        thread_states: given.thread_states()?,
        participants: Vec::new(),
        text: given.text()?,
        cursor: given.session_cursor()?,
        limit: given.limit()?,
    })
}

async fn session(State(context): State<Context>, Named(id): Named<String>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    session_of(&context, &id).await.map(Json)
}

pub(super) async fn session_of(context: &Context, id: &str) -> Result<Value, Refusal> {
    let found = context.monitor.session(id.to_owned()).await?;
    found.ok_or_else(|| no_such("work session", id))
}

async fn stats(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    let days = Given::parse(STATS, query.as_deref())?.days()?;
    Ok(Json(context.monitor.stats(days).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CategoryChange {
    collab_category: Option<String>,
    updated_by: Option<String>,
}

async fn set_category(State(context): State<Context>, Named(id): Named<String>, request: HttpRequest) -> Answer {
    let caller = Caller::of(&request);
    let bytes = body::read_up_to(&context, request.into_body(), 64 * 1024).await?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| bad("body", format!("not JSON: {error}")))?;
    if value.get("collabCategory").is_none() {
        return Err(bad("collabCategory", "missing; give a category, or null to take the override back".into()));
    }
    let asked: CategoryChange = serde_json::from_value(value).map_err(|error| bad("body", error.to_string()))?;
    if asked.updated_by.as_ref().is_some_and(|by| by.is_empty() || by.chars().count() > 128) {
        return Err(bad("updatedBy", "a name has 1 to 128 characters".into()));
    }
    let by = asked.updated_by.unwrap_or_else(|| caller.name.clone());
    override_as(&context, &caller, id.clone(), asked.collab_category, by).await?;
    session_of(&context, &id).await.map(Json)
}

/// Says which category a work session has, or takes that back; the change is in the audit log before it is made.
pub(super) async fn override_as(
    context: &Context,
    caller: &Caller,
    id: String,
    category: Option<String>,
    by: String,
) -> Result<(), Refusal> {
    if let Some(key) = &category {
        check_category(&context.settings.current().config.categories, "collabCategory", key)?;
    }
    let (monitor, session) = (context.monitor.clone(), id.clone());
    // What was refused, and why, is for the answer; the audit only needs that it was.
    let (told, outcome) = tokio::sync::oneshot::channel();
    let work = async move {
        let done = monitor.override_category(session, category, Some(by)).await;
        let audited = done.as_ref().map(|()| json!({})).map_err(|error| ErrorShape::unavailable(error.to_string()));
        drop(told.send(done));
        audited
    };
    let of = audit::of(&json!({ "id": id }));
    let changed = change(context, caller, "work-sessions.category", of, work).await;
    match (changed, outcome.await) {
        (_, Ok(Err(error))) => Err(override_refused(error, &id)),
        (Err(error), _) => Err(Refusal::Unavailable { said: error.message }),
        (Ok(_), _) => Ok(()),
    }
}

fn override_refused(error: OverrideError, id: &str) -> Refusal {
    let said = error.to_string();
    match error {
        OverrideError::NoSuchSession(_) => no_such("work session", id),
        OverrideError::ReadOnly => Refusal::NotHere { said },
        OverrideError::Read { .. } | OverrideError::Write { .. } | OverrideError::Stopping => {
            Refusal::Unavailable { said }
        }
    }
}

async fn agents(State(context): State<Context>, RawQuery(query): RawQuery) -> Answer {
    Given::parse(&[], query.as_deref())?;
    let settings = context.settings.current();
    let config = &settings.config.agents;
    let rows: Vec<Value> =
        config.list.iter().map(|agent| agent_row(agent, config.default_id() == Some(&agent.id))).collect();
    Ok(Json(json!({ "agents": rows })))
}

fn agent_row(agent: &Agent, is_default: bool) -> Value {
    json!({
        "id": agent.id,
        "name": agent.display_name(),
        "role": agent.role,
        "team": agent.team,
        "isDefault": is_default,
    })
}

/// Files are read where waiting for a disk holds nobody up.
pub(super) async fn read<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let looked = tokio::task::spawn_blocking(look).await;
    looked.map_err(|_| Refusal::Unavailable { said: "the files could not be read; see the gateway's log".into() })
}

pub(super) fn no_such(what: &str, id: &str) -> Refusal {
    Refusal::NoSuch { what: format!("{what} {}", id.chars().take(128).collect::<String>()) }
}
