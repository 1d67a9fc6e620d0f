//! Methods that list, find, change and end sessions.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::{agent_of, session_of};
use super::{Context, ErrorShape, Methods, follow};
use crate::config::ModelRef;
use crate::id::{self, AgentId};
use crate::models;
use crate::scope::Scope;
use crate::session_key::SessionKey;
use crate::sessions::{Asked, COMPACT, History, Origin, OriginKind, Patch, Status, text_of};

const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1_000;
const PREVIEWS_MAX: usize = 64;

pub(super) fn methods(methods: Methods) -> Methods {
    methods
        .add("sessions.list", Scope::Read, list)
        .add("sessions.describe", Scope::Read, describe)
        .add("sessions.resolve", Scope::Read, resolve)
        .add("sessions.preview", Scope::Read, preview)
        .add("sessions.subscribe", Scope::Read, subscribe)
        .add("sessions.messages.subscribe", Scope::Read, messages_subscribe)
        .add("sessions.messages.unsubscribe", Scope::Read, messages_unsubscribe)
        .add("sessions.create", Scope::Write, create)
        .add("sessions.patch", Scope::Write, patch)
        .add("sessions.reset", Scope::Admin, reset)
        .add("sessions.delete", Scope::Admin, delete)
        .add("sessions.compact", Scope::Admin, compact)
}

type Unused = Option<Value>;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct List {
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    active_minutes: Option<u64>,
    agent_id: Option<String>,
    label: Option<String>,
    search: Option<String>,
    archived: Option<Value>,
    sort_by: Unused,
    include_global: Unused,
    include_unknown: Unused,
    configured_agents_only: Unused,
    include_derived_titles: Unused,
    include_last_message: Unused,
    spawned_by: Unused,
}

async fn list(context: Context, asked: List) -> Result<Value, ErrorShape> {
    let now = context.clock.now();
    let search = asked.search.as_deref().map(str::to_lowercase);
    let archived = asked.archived.as_ref().unwrap_or(&Value::Bool(false));
    let all = context.sessions.list();
    let wanted: Vec<&SessionKey> = all
        .iter()
        .filter(|(key, session)| {
            let fresh = asked
                .active_minutes
                .is_none_or(|minutes| now.0.saturating_sub(session.updated_at.0) <= minutes * 60_000);
            let found = search.as_ref().is_none_or(|text| {
                session.key.contains(text.as_str())
                    || session.label.as_ref().is_some_and(|label| label.to_lowercase().contains(text))
            });
            fresh
                && found
                && asked.agent_id.as_deref().is_none_or(|agent| key.agent.as_ref() == agent)
                && asked.label.as_ref().is_none_or(|label| session.label.as_ref() == Some(label))
                && archived.as_bool().is_none_or(|archived| session.archived == archived)
        })
        .map(|(key, _)| key)
        .collect();
    let limit = asked.limit.unwrap_or(LIMIT);
    let page: Vec<Value> =
        wanted.iter().skip(asked.offset).take(limit).filter_map(|key| context.sessions.row(key)).collect();
    let next = asked.offset + page.len();
    let more = next < wanted.len();
    Ok(json!({
        "ts": now, "path": context.dir.sessions(), "count": page.len(), "totalCount": wanted.len(), "limitApplied": limit,
        "nextOffset": more.then_some(next), "hasMore": more, "owners": [], "sessions": page,
        "defaults": agent_of(&context, asked.agent_id.as_deref()).ok().map(|agent| defaults(&context, &agent)),
    }))
}

/// The model that a session of an agent has when it names none.
pub(super) fn defaults(context: &Context, agent: &AgentId) -> Value {
    let settings = context.settings.current();
    let agent = settings.config.agents.list.iter().find(|known| known.id == *agent);
    let chosen = agent.and_then(|agent| models::choose(&settings.config, agent, None).ok());
    let first = chosen.as_ref().and_then(|chosen| chosen.first());
    json!({
        "modelProvider": first.map(|model| &model.provider_name), "model": first.map(|model| &model.model.id),
        "contextTokens": first.map(|model| model.model.context_window),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct Key {
    #[schemars(length(min = 1, max = 512))]
    key: String,
    agent_id: Option<String>,
    reason: Unused,
    max_lines: Unused,
    include_derived_titles: Unused,
    include_last_message: Unused,
}

async fn describe(context: Context, asked: Key) -> Result<Value, ErrorShape> {
    let key = session_of(&context, &asked.key, asked.agent_id.as_deref())?;
    Ok(json!({ "session": context.sessions.row(&key) }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct Resolve {
    key: Option<String>,
    session_id: Option<String>,
    label: Option<String>,
    short_id: Option<String>,
    agent_id: Option<String>,
    #[serde(default)]
    allow_missing: bool,
    spawned_by: Unused,
    include_global: Unused,
    include_unknown: Unused,
}

async fn resolve(context: Context, asked: Resolve) -> Result<Value, ErrorShape> {
    let named = [&asked.key, &asked.session_id, &asked.label, &asked.short_id].into_iter().flatten().next();
    let Some(shown) = named else {
        return Err(ErrorShape::invalid(
            "invalid sessions.resolve params: at root: give `key`, `sessionId`, `label` or `shortId`",
        ));
    };
    let key = asked.key.as_deref().map(|key| session_of(&context, key, asked.agent_id.as_deref())).transpose()?;
    let all = context.sessions.list();
    let fits: Vec<_> = all
        .iter()
        .filter(|(known, session)| {
            key.as_ref().is_none_or(|key| known == key)
                && asked.session_id.as_ref().is_none_or(|id| session.id == *id)
                && asked.short_id.as_ref().is_none_or(|id| !id.is_empty() && session.id.starts_with(id.as_str()))
                && asked.label.as_ref().is_none_or(|label| session.label.as_ref() == Some(label))
                && asked.agent_id.as_deref().is_none_or(|agent| known.agent.as_ref() == agent)
        })
        .collect();
    match fits.as_slice() {
        [(key, session)] => Ok(json!({
            "ok": true, "key": session.key, "agentId": key.agent,
            "displayName": session.label.as_deref().unwrap_or(&session.key),
        })),
        [] if asked.allow_missing => Ok(json!({ "ok": false })),
        [] => Err(ErrorShape::invalid(format!("No session found: {}", shown.chars().take(200).collect::<String>()))),
        several => {
            let candidates: Vec<Value> = several
                .iter()
                .take(20)
                .map(|(key, session)| json!({ "key": session.key, "agentId": key.agent }))
                .collect();
            Ok(json!({ "ok": false, "candidates": candidates }))
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Preview {
    #[schemars(length(max = PREVIEWS_MAX))]
    keys: Vec<String>,
    #[schemars(range(min = 1, max = 50))]
    limit: Option<usize>,
    #[schemars(range(min = 20, max = 10_000))]
    max_chars: Option<usize>,
}

async fn preview(context: Context, asked: Preview) -> Result<Value, ErrorShape> {
    let (limit, max) = (asked.limit.unwrap_or(12), asked.max_chars.unwrap_or(240));
    let mut previews = Vec::with_capacity(asked.keys.len());
    for key in &asked.keys {
        let session = session_of(&context, key, None).ok().filter(|session| context.sessions.get(session).is_some());
        let Some(session) = session else {
            previews.push(json!({ "key": key, "status": "missing", "items": [] }));
            continue;
        };
        let found = context.sessions.history(&session, History { limit, offset: 0, before: None }).await?;
        let item = |row: &Value| {
            let text: String = text_of(row).chars().take(max).collect();
            (!text.is_empty()).then(|| json!({ "role": row["role"], "text": text }))
        };
        let items: Vec<Value> = found.rows.iter().filter_map(item).collect();
        previews.push(json!({ "key": key, "status": "ok", "items": items }));
    }
    Ok(json!({ "ts": context.clock.now(), "previews": previews }))
}

/// Everybody who reads hears of every session; this says so.
async fn subscribe(_: Context, _: Value) -> Result<Value, ErrorShape> {
    Ok(json!({ "subscribed": true }))
}

async fn messages_subscribe(context: Context, asked: Key) -> Result<Value, ErrorShape> {
    let key = session_of(&context, &asked.key, asked.agent_id.as_deref())?;
    Ok(json!({ "subscribed": true, "key": key.to_string() }))
}

async fn messages_unsubscribe(context: Context, asked: Key) -> Result<Value, ErrorShape> {
    let key = session_of(&context, &asked.key, asked.agent_id.as_deref())?;
    Ok(json!({ "subscribed": false, "key": key.to_string() }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct Create {
    #[schemars(length(min = 1, max = 512))]
    key: Option<String>,
    agent_id: Option<String>,
    #[schemars(length(max = 512))]
    label: Option<String>,
    model: Option<ModelRef>,
    message: Option<String>,
    task: Option<String>,
    parent_session_key: Option<String>,
    idempotency_key: Option<String>,
    thinking_level: Option<String>,
    succeeds_parent: Unused,
    emit_command_hooks: Unused,
}

async fn create(context: Context, asked: Create) -> Result<Value, ErrorShape> {
    let now = context.clock.now();
    let key = match &asked.key {
        Some(key) => session_of(&context, key, asked.agent_id.as_deref())?,
        None => {
            let agent = agent_of(&context, asked.agent_id.as_deref())?;
            let tail = format!("dashboard:{}", id::fresh(now));
            SessionKey::of(agent, &tail).map_err(|error| ErrorShape::invalid(error.to_string()))?
        }
    };
    check_model(&context, asked.model.as_ref())?;
    let change = Patch {
        label: asked.label.map(Some),
        model: asked.model.map(Some),
        thinking: asked.thinking_level.map(Some),
        parent: asked.parent_session_key.map(Some),
        ..Patch::default()
    };
    let session = context.sessions.patch(&key, change).await?;
    let run = match asked.message.or(asked.task) {
        None => None,
        Some(text) => {
            let run_key = asked.idempotency_key.unwrap_or_else(|| id::fresh(now).to_string());
            let message = Asked::new(run_key, "sessions.create", key.clone(), text);
            Some(context.sessions.accept(message).await?.run)
        }
    };
    let mut answer = json!({
        "ok": true, "key": session.key, "sessionId": session.id, "agentId": key.agent, "entry": *session,
        "runStarted": run.is_some(), "resolved": defaults(&context, &key.agent),
    });
    if let Some(run) = run {
        answer["runId"] = json!(run);
    }
    Ok(answer)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct PatchParams {
    #[schemars(length(min = 1, max = 512))]
    key: String,
    agent_id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    label: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    model: Option<Option<ModelRef>>,
    #[serde(default, deserialize_with = "given")]
    thinking_level: Option<Option<String>>,
    archived: Option<bool>,
    pinned: Option<bool>,
    expected_session_id: Option<String>,
    verbose_level: Unused,
    send_policy: Unused,
    group_activation: Unused,
    fast_mode: Unused,
    reasoning_level: Unused,
    elevated_level: Unused,
    response_usage: Unused,
}

/// Tells `null` from what is not given.
fn given<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

async fn patch(context: Context, asked: PatchParams) -> Result<Value, ErrorShape> {
    let key = session_of(&context, &asked.key, asked.agent_id.as_deref())?;
    expect_id(&context, &key, asked.expected_session_id.as_deref())?;
    check_model(&context, asked.model.as_ref().and_then(Option::as_ref))?;
    let change = Patch {
        label: asked.label,
        model: asked.model,
        thinking: asked.thinking_level,
        archived: asked.archived,
        pinned: asked.pinned,
        parent: None,
    };
    let session = context.sessions.patch(&key, change).await?;
    let mut resolved = defaults(&context, &key.agent);
    if let Some(model) = &session.model {
        let (provider, id) = model.split();
        resolved["modelProvider"] = json!(provider);
        resolved["model"] = json!(id);
    }
    Ok(
        json!({ "ok": true, "path": context.dir.sessions(), "key": session.key, "entry": *session, "resolved": resolved }),
    )
}

/// Whether a model that is asked for has a provider.
pub(super) fn check_model(context: &Context, model: Option<&ModelRef>) -> Result<(), ErrorShape> {
    let provider = model.map(|model| model.split().0);
    match provider.filter(|name| !context.settings.current().config.providers.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(ErrorShape::invalid(format!(
            "no provider is called {name:?}; `models.list` tells which models there are"
        ))),
    }
}

fn expect_id(context: &Context, key: &SessionKey, expected: Option<&str>) -> Result<(), ErrorShape> {
    let found = context.sessions.get(key);
    match expected.is_none_or(|expected| found.is_some_and(|session| session.id == expected)) {
        true => Ok(()),
        false => Err(ErrorShape::invalid(format!("{key} is another session by now; look at it again"))),
    }
}

async fn reset(context: Context, asked: Key) -> Result<Value, ErrorShape> {
    let key = session_of(&context, &asked.key, asked.agent_id.as_deref())?;
    let session = context.sessions.reset(&key).await?;
    Ok(json!({ "ok": true, "key": session.key, "entry": *session, "resolved": defaults(&context, &key.agent) }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct Delete {
    #[schemars(length(min = 1, max = 512))]
    key: String,
    agent_id: Option<String>,
    /// Erase what was said instead of archiving it.
    #[serde(default)]
    delete_transcript: bool,
    expected_session_id: Option<String>,
    emit_lifecycle_hooks: Unused,
}

async fn delete(context: Context, asked: Delete) -> Result<Value, ErrorShape> {
    let key = session_of(&context, &asked.key, asked.agent_id.as_deref())?;
    expect_id(&context, &key, asked.expected_session_id.as_deref())?;
    if context.sessions.get(&key).is_none() && !key.is_main() {
        return Ok(json!({ "ok": true, "key": key.to_string(), "deleted": false, "archived": [] }));
    }
    let archived = context.sessions.delete(&key, asked.delete_transcript).await?;
    Ok(json!({ "ok": true, "key": key.to_string(), "deleted": true, "archived": archived }))
}

/// What a conversation is summed up by, as its transcript shows it.
const COMPACT_TEXT: &str = "/compact";

/// Sums a conversation up, when what runs and waits in it has ended.
async fn compact(context: Context, asked: Key) -> Result<Value, ErrorShape> {
    let key = session_of(&context, &asked.key, asked.agent_id.as_deref())?;
    let told = |compacted: bool, reason: Option<&str>| match reason {
        Some(reason) => json!({ "ok": true, "key": key.to_string(), "compacted": compacted, "reason": reason }),
        None => json!({ "ok": true, "key": key.to_string(), "compacted": compacted }),
    };
    if context.sessions.get(&key).is_none() {
        return Ok(told(false, Some("nothing was said in it yet")));
    }
    let run = id::fresh(context.clock.now()).to_string();
    let origin = Origin { kind: OriginKind::InternalSystem, ..Origin::default() };
    let message = Asked { origin, ..Asked::new(run.clone(), COMPACT, key.clone(), COMPACT_TEXT.into()) };
    context.sessions.accept(message).await?;
    let mut phase = context.phase.clone();
    let ended = tokio::select! {
        ended = context.sessions.ended(&run) => ended?,
        // It is done after the next start.
        () = follow::stopping(&mut phase) => return Err(crate::sessions::Error::Stopping.into()),
    };
    let ended = ended.ok_or_else(|| ErrorShape::unavailable("the end of the run is not known"))?;
    Ok(match (ended.status, ended.steps) {
        (Status::Ok, 0) => told(false, Some(&ended.reply)),
        (Status::Ok, _) => told(true, None),
        _ => return Err(ErrorShape::unavailable(ended.error.clone().unwrap_or_else(|| "the run failed".into()))),
    })
}
