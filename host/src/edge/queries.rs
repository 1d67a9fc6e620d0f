//! The monitor's questions as methods: the same parameters, words and refusals as its paths; and `why`, which gathers what decided something.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::monitor::{events_page, no_such, session_of, sessions_page};
use super::params::{Given, Param};
use super::{Context, ErrorShape, Methods, Refusal};
use crate::event::Kind;
use crate::monitor::{EventsQuery, seq_of_cursor};
use crate::scope::Scope;

/// Decisions that one answer tells, the newest of them.
const DECISIONS_MAX: usize = 200;
/// Pages that are looked through for them: each is a bounded number of rows of the index.
const PAGES_MAX: usize = 100;

pub(super) fn methods(methods: Methods) -> Methods {
    methods
        .add("events.list", Scope::Read, events_list)
        .add("work-sessions.list", Scope::Read, work_sessions_list)
        .add("work-sessions.get", Scope::Read, work_sessions_get)
        .add("why", Scope::Read, why)
}

/// A list, or its values with commas as in a path.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

/// Milliseconds, or a time or cursor in words.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Place {
    Number(u64),
    Text(String),
}

fn joined(texts: Option<Texts>) -> Option<String> {
    texts.map(|texts| match texts {
        Texts::One(text) => text,
        Texts::Many(texts) => texts.join(","),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct EventsList {
    role: Option<Texts>,
    r#type: Option<Texts>,
    view_category: Option<Texts>,
    work_session_id: Option<String>,
    task_id: Option<String>,
    job_id: Option<String>,
    since: Option<Place>,
    cursor: Option<String>,
    limit: Option<u64>,
}

async fn events_list(context: Context, asked: EventsList) -> Result<Value, ErrorShape> {
    let since = asked.since.map(|since| match since {
        Place::Number(ms) => ms.to_string(),
        Place::Text(text) => text,
    });
    let given = Given::of([
        (Param::Role, joined(asked.role)),
        (Param::Type, joined(asked.r#type)),
        (Param::ViewCategory, joined(asked.view_category)),
        (Param::WorkSession, asked.work_session_id),
        (Param::Task, asked.task_id),
        (Param::Job, asked.job_id),
        (Param::Since, since),
        (Param::EventCursor, asked.cursor),
        (Param::Limit, asked.limit.map(|limit| limit.to_string())),
    ]);
    Ok(events_page(&context, &given).await?)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WorkSessionsList {
    role: Option<Texts>,
    r#type: Option<Texts>,
    status: Option<Texts>,
    thread_state: Option<Texts>,
    view_category: Option<Texts>,
    sub_tag: Option<Texts>,
    q: Option<String>,
    cursor: Option<String>,
    limit: Option<u64>,
}

async fn work_sessions_list(context: Context, asked: WorkSessionsList) -> Result<Value, ErrorShape> {
    let given = Given::of([
        (Param::Role, joined(asked.role)),
        (Param::Type, joined(asked.r#type)),
        (Param::Status, joined(asked.status)),
        (Param::ThreadState, joined(asked.thread_state)),
        (Param::ViewCategory, joined(asked.view_category)),
        (Param::SubTag, joined(asked.sub_tag)),
        (Param::Text, asked.q),
        (Param::SessionCursor, asked.cursor),
        (Param::Limit, asked.limit.map(|limit| limit.to_string())),
    ]);
    Ok(sessions_page(&context, &given).await?)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct OfId {
    #[schemars(length(min = 1, max = 256))]
    id: String,
}

async fn work_sessions_get(context: Context, asked: OfId) -> Result<Value, ErrorShape> {
    Ok(session_of(&context, &asked.id).await?)
}

/// What decided something about a work session, a task or a job, as far as it is recorded: the decisions oldest first.
async fn why(context: Context, OfId { id }: OfId) -> Result<Value, ErrorShape> {
    Ok(reasons(&context, &id).await?)
}

async fn reasons(context: &Context, id: &str) -> Result<Value, Refusal> {
    if let Some(mut session) = context.monitor.session(id.to_owned()).await? {
        let about = EventsQuery { work_session: Some(id.to_owned()), ..EventsQuery::default() };
        let (decisions, more) = decisions(context, about).await?;
        if let Some(fields) = session.as_object_mut() {
            fields.remove("threads");
        }
        return Ok(json!({
            "id": id, "kind": "workSession", "workSession": session, "workSessionId": id, "decisions": decisions, "more": more,
        }));
    }
    if id.starts_with("ws_") || id.starts_with("legacy:") {
        return Err(no_such("work session", id));
    }
    for kind in ["task", "job"] {
        let about = EventsQuery { subject: Some(format!("{kind}:{id}")), ..EventsQuery::default() };
        let newest = context.monitor.events(EventsQuery { limit: 1, ..about.clone() }).await?;
        if let Some(event) = newest.rows.first() {
            let session = event["data"]["workSessionId"].clone();
            let (decisions, more) = decisions(context, about).await?;
            return Ok(json!({
                "id": id, "kind": kind, "workSession": null, "workSessionId": session, "decisions": decisions, "more": more,
            }));
        }
    }
    Err(no_such("work session, and no task or job in the event log, with the id", id))
}

/// The newest decisions about something, oldest first, and whether there are older ones.
async fn decisions(context: &Context, about: EventsQuery) -> Result<(Vec<Value>, bool), Refusal> {
    let types = vec![Kind::PolicyDecided.as_str().to_owned()];
    let mut asked = EventsQuery { types, limit: DECISIONS_MAX, ..about };
    let (mut found, mut more) = (Vec::new(), false);
    for _ in 0..PAGES_MAX {
        let page = context.monitor.events(asked.clone()).await?;
        found.extend(page.rows);
        asked.before = page.next.as_deref().and_then(seq_of_cursor);
        more = asked.before.is_some();
        if !more || found.len() >= DECISIONS_MAX {
            break;
        }
    }
    more |= found.len() > DECISIONS_MAX;
    found.truncate(DECISIONS_MAX);
    found.reverse();
    Ok((found, more))
}
