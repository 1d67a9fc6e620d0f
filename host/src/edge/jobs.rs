//! Jobs between agents, for operators: as methods, and as the monitor's paths.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use chela_flow::{Job, Status};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::monitor::{JOBS, no_such, read};
use super::params::{Given, LIMIT, LIMIT_MAX, Named, Param, bad};
use super::table::{Caller, Reply};
use super::{Context, ErrorShape, Methods, Refusal};
use crate::jobs::{Asked, Error, Listed};
use crate::monitor::workspace;
use crate::scope::Scope;

pub(super) fn methods(methods: Methods) -> Methods {
    methods
        .add("jobs.list", Scope::Read, list)
        .add("jobs.get", Scope::Read, get)
        .add_for("jobs.cancel", Scope::Write, cancel)
        .add("jobs.retry", Scope::Write, retry)
}

impl From<Error> for ErrorShape {
    fn from(error: Error) -> Self {
        match error {
            Error::Sessions(error) => error.into(),
            error if error.is_callers() => Self::invalid(error.to_string()),
            error => Self::unavailable(error.to_string()),
        }
    }
}

/// A status, or several.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Words {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct List {
    status: Option<Words>,
    agent_id: Option<String>,
    work_session_id: Option<String>,
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct One {
    #[schemars(length(min = 1, max = 128))]
    id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Retry {
    #[schemars(length(min = 1, max = 128))]
    id: String,
    /// The same key again is the same new job
    #[schemars(length(min = 1, max = 128))]
    idempotency_key: Option<String>,
}

fn shown(listed: &Listed) -> Value {
    let jobs: Vec<&Job> = listed.jobs.iter().map(Arc::as_ref).collect();
    match &listed.next {
        Some(next) => json!({ "jobs": jobs, "nextCursor": next }),
        None => json!({ "jobs": jobs }),
    }
}

fn status_of(word: &str) -> Result<Status, String> {
    let known = || Status::ALL.map(Status::as_str).join(", ");
    Status::parse(word.trim()).ok_or_else(|| format!("there is no status {word:?}; it is one of {}", known()))
}

async fn list(context: Context, asked: List) -> Result<Value, ErrorShape> {
    let words = match asked.status {
        None => Vec::new(),
        Some(Words::One(words)) => words.split(',').map(str::to_owned).collect(),
        Some(Words::Many(words)) => words,
    };
    let status: Result<Vec<Status>, String> = words.iter().map(|word| status_of(word)).collect();
    let status = status.map_err(|said| ErrorShape::invalid(format!("invalid jobs.list params: at status: {said}")))?;
    let asked = Asked {
        status,
        agent: asked.agent_id,
        work_session: asked.work_session_id,
        limit: asked.limit.unwrap_or(LIMIT),
        cursor: asked.cursor,
    };
    Ok(shown(&context.jobs.list(asked).await?))
}

async fn get(context: Context, asked: One) -> Result<Value, ErrorShape> {
    let found = context.jobs.get(&asked.id).await?;
    found.map(|job| json!({ "job": *job })).ok_or_else(|| Error::NoJob(asked.id.chars().take(80).collect()).into())
}

async fn cancel(context: Context, caller: Caller, asked: One) -> Result<Reply, ErrorShape> {
    let job = context.jobs.cancel(&asked.id, &caller.name).await?;
    Ok(json!({ "job": *job }).into())
}

async fn retry(context: Context, asked: Retry) -> Result<Value, ErrorShape> {
    let job = context.jobs.retry(&asked.id, asked.idempotency_key.as_deref()).await?;
    Ok(json!({ "job": *job }))
}

/// `GET /api/jobs`: our own jobs from their records, another's from its files.
pub(super) async fn page(State(context): State<Context>, RawQuery(query): RawQuery) -> Result<Json<Value>, Refusal> {
    let given = Given::parse(JOBS, query.as_deref())?;
    let (wanted, limit) = (given.list(Param::JobStatus)?, given.limit()?);
    if context.is_own() {
        let status: Result<Vec<Status>, String> = wanted.iter().map(|word| status_of(word)).collect();
        let status = status.map_err(|said| bad("status", said))?;
        let cursor = given.id(Param::JobCursor)?;
        let asked = Asked { status, limit, cursor, ..Asked::default() };
        let listed = context.jobs.list(asked).await.map_err(|error| match error {
            Error::BadCursor => bad("cursor", error.to_string()),
            error => Refusal::Unavailable { said: error.to_string() },
        })?;
        return Ok(Json(shown(&listed)));
    }
    let dir = context.watched.jobs();
    let mut rows = read(move || workspace::jobs(&dir)).await?;
    rows.retain(|job| wanted.is_empty() || wanted.iter().any(|status| job["status"] == *status));
    rows.truncate(limit);
    Ok(Json(json!({ "jobs": rows })))
}

/// `GET /api/jobs/{id}`.
pub(super) async fn one(
    State(context): State<Context>,
    Named(id): Named<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Refusal> {
    Given::parse(&[], query.as_deref())?;
    if context.is_own() {
        let found = context.jobs.get(&id).await.map_err(|error| Refusal::Unavailable { said: error.to_string() })?;
        return found.map(|job| Json(json!(*job))).ok_or_else(|| no_such("job", &id));
    }
    let dir = context.watched.jobs();
    let rows = read(move || workspace::jobs(&dir)).await?;
    let found = rows.into_iter().find(|job| job["jobId"] == id);
    found.map(Json).ok_or_else(|| no_such("job", &id))
}
