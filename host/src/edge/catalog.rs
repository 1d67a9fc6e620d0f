//! What existing clients ask for to show the deployment: models, tools, presence, logs; and lists that are empty here.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::keys::{agent_of, session_of};
use super::methods::Nothing;
use super::table::{Caller, Reply};
use super::{Context, ErrorShape, Methods};
use crate::agents;
use crate::config::{Agent, ProviderKind};
use crate::id::AgentId;
use crate::logs;
use crate::scope::Scope;
use crate::session_key::SessionKey;
use crate::tools::{self, Call};

pub(super) fn methods(methods: Methods) -> Methods {
    methods
        .add("models.list", Scope::Read, models_list)
        .add("tools.catalog", Scope::Read, tools_catalog)
        .add("tools.effective", Scope::Read, tools_effective)
        .add("tools.invoke", Scope::Write, tools_invoke)
        .add("system-presence", Scope::Read, presence)
        .add("last-heartbeat", Scope::Read, last_heartbeat)
        .add("logs.tail", Scope::Read, logs_tail)
        .add_for("events.subscribe", Scope::Read, events_subscribe)
        .add("agent.identity.get", Scope::Read, identity)
        .add("commands.list", Scope::Read, commands_list)
        .add("plugin.approval.list", Scope::Read, approval_list)
        .add("taskSuggestions.list", Scope::Read, suggestions_list)
        .add("device.pair.list", Scope::Admin, pair_list)
        .add("cron.list", Scope::Read, cron_list)
        .add("skills.status", Scope::Read, skills_status)
}

type Unused = Option<Value>;
type Answer = Result<Value, ErrorShape>;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct ModelsList {
    provider: Option<String>,
    agent_id: Unused,
    view: Unused,
    refresh: Unused,
    prepared_only: Unused,
    include_provider_capabilities: Unused,
    include_details: Unused,
    session_key: Unused,
}

async fn models_list(context: Context, asked: ModelsList) -> Answer {
    let settings = context.settings.current();
    let mut rows = Vec::new();
    for (name, provider) in &settings.config.providers {
        if asked.provider.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let needs_key = provider.kind != ProviderKind::Scripted && provider.base_url.is_none();
        let available = !needs_key || provider.key.is_some();
        for model in &provider.models {
            rows.push(json!({
                "id": model.id, "name": model.name.as_deref().unwrap_or(&model.id), "provider": name,
                "contextWindow": model.context_window, "available": available, "supportsTools": true, "input": ["text"],
            }));
        }
    }
    Ok(json!({ "models": rows }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct OfAgent {
    agent_id: Option<String>,
    include_plugins: Unused,
    scope: Unused,
    include_args: Unused,
    provider: Unused,
    session_key: Unused,
}

fn configured(context: &Context, id: &AgentId) -> Option<Agent> {
    context.settings.current().config.agents.list.iter().find(|agent| agent.id == *id).cloned()
}

/// The group that a tool is listed in.
fn group_of(tool: &str) -> (&'static str, &'static str) {
    match tool.split('_').next() {
        Some("files") => ("files", "Files"),
        Some("sessions") => ("sessions", "Sessions"),
        _ => ("tasks", "Tasks"),
    }
}

async fn tools_catalog(context: Context, asked: OfAgent) -> Answer {
    let id = agent_of(&context, asked.agent_id.as_deref())?;
    let mut groups: Vec<(&str, &str, Vec<Value>)> = Vec::new();
    for tool in tools::all() {
        let (group, label) = group_of(tool.name);
        let row = json!({
            "id": tool.name, "label": tool.name, "description": tool.description, "source": "core", "defaultProfiles": ["full"],
        });
        match groups.iter_mut().find(|(known, ..)| *known == group) {
            Some((.., rows)) => rows.push(row),
            None => groups.push((group, label, vec![row])),
        }
    }
    let groups: Vec<Value> = groups
        .into_iter()
        .map(|(id, label, tools)| json!({ "id": id, "label": label, "source": "core", "tools": tools }))
        .collect();
    Ok(json!({ "agentId": id, "profiles": [{ "id": "full", "label": "Full" }], "groups": groups }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Effective {
    session_key: String,
    agent_id: Option<String>,
}

async fn tools_effective(context: Context, asked: Effective) -> Answer {
    let key = session_of(&context, &asked.session_key, asked.agent_id.as_deref())?;
    let agent = configured(&context, &key.agent);
    let shown = agent.as_ref().map(agents::toolbox);
    let names = |name: &str| agent.as_ref().is_some_and(|agent| agent.may_call(name));
    let rows: Vec<Value> = tools::all()
        .filter(|tool| names(tool.name))
        .map(|tool| {
            let on_demand = shown.as_ref().is_some_and(|shown| shown.further.contains(&tool.name));
            json!({
                "id": tool.name, "label": tool.name, "description": tool.description, "rawDescription": tool.description,
                "source": "core", "onDemand": on_demand,
            })
        })
        .collect();
    let group = json!({ "id": "core", "label": "Core", "source": "core", "tools": rows });
    Ok(json!({ "agentId": key.agent, "profile": "full", "groups": [group] }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct Invoke {
    #[schemars(length(min = 1, max = 128))]
    name: String,
    #[serde(default)]
    args: Map<String, Value>,
    session_key: Option<String>,
    agent_id: Option<String>,
    confirm: Unused,
    #[schemars(length(min = 1))]
    idempotency_key: Option<String>,
}

async fn tools_invoke(context: Context, asked: Invoke) -> Answer {
    let session = match &asked.session_key {
        Some(key) => session_of(&context, key, asked.agent_id.as_deref())?,
        None => SessionKey::main(agent_of(&context, asked.agent_id.as_deref())?),
    };
    let name = asked.name.clone();
    let call = Call::of_caller(asked.name, asked.args, session).with_key(asked.idempotency_key);
    let done = context.tools.invoke(call).await;
    Ok(match done {
        Ok(answer) => {
            let text = Value::Object(answer.clone()).to_string();
            let output = json!({ "content": [{ "type": "text", "text": text }], "details": answer });
            json!({ "ok": true, "toolName": name, "source": "core", "output": output })
        }
        Err(tools::Error::Key(error)) => {
            let said = format!("idempotencyKey: {error}");
            return Err(if error.is_callers() { ErrorShape::invalid(said) } else { ErrorShape::unavailable(said) });
        }
        Err(error) => {
            let code = match &error {
                tools::Error::Unknown(_) => "not_found",
                tools::Error::Arguments { .. } | tools::Error::UnknownAgent(_) => "invalid_request",
                tools::Error::Failed(_) | tools::Error::Key(_) => "unavailable",
            };
            json!({ "ok": false, "toolName": name, "error": { "code": code, "message": error.to_string() } })
        }
    })
}

async fn presence(context: Context, _: Nothing) -> Answer {
    Ok(json!(context.presence.list()))
}

async fn last_heartbeat(_: Context, _: Nothing) -> Answer {
    Ok(Value::Null)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Tail {
    cursor: Option<u64>,
    #[schemars(range(min = 1, max = 5_000))]
    limit: Option<usize>,
    #[schemars(range(min = 1, max = 10_000_000))]
    max_bytes: Option<usize>,
}

async fn logs_tail(_: Context, asked: Tail) -> Answer {
    let logs::Tail { lines, cursor, size, truncated, reset } =
        logs::tail(asked.cursor, asked.limit.unwrap_or(500), asked.max_bytes.unwrap_or(1_000_000));
    let file = "(the gateway's latest lines; the whole log is where its standard error goes)";
    Ok(json!({ "file": file, "cursor": cursor, "size": size, "lines": lines, "truncated": truncated, "reset": reset }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Subscribe {
    /// Beginnings of the types that are wanted, such as `task.`; `*` is all; none ends it.
    #[schemars(length(max = 32), inner(length(max = 64)))]
    types: Vec<String>,
}

/// The event log as it grows, as `log.event` events of this connection.
async fn events_subscribe(_: Context, caller: Caller, asked: Subscribe) -> Result<Reply, ErrorShape> {
    let connection = caller.connection.ok_or_else(|| {
        ErrorShape::invalid("events.subscribe needs a connection that stays; over HTTP, ask /api/events or follow /ws")
    })?;
    connection.follow(asked.types.clone());
    Ok(json!({ "subscribed": !asked.types.is_empty(), "types": asked.types }).into())
}

async fn identity(context: Context, asked: OfAgent) -> Answer {
    let id = agent_of(&context, asked.agent_id.as_deref())?;
    let agent = configured(&context, &id);
    let face = agent.as_ref().and_then(|agent| agent.identity.clone()).unwrap_or_default();
    let name = agent.as_ref().map(|agent| agent.display_name().to_owned());
    Ok(json!({ "agentId": id, "name": name, "nameSource": "config", "avatar": face.avatar, "emoji": face.emoji }))
}

async fn commands_list(_: Context, _: OfAgent) -> Answer {
    Ok(json!({ "commands": [] }))
}

/// Lists of existing clients that nothing fills yet: what they may ask with, and what comes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct Listed {
    agent_id: Unused,
    session_key: Unused,
    status: Unused,
    include_disabled: Unused,
    limit: Option<u64>,
    offset: Option<u64>,
}

async fn approval_list(_: Context, _: Listed) -> Answer {
    Ok(json!([]))
}

async fn suggestions_list(_: Context, _: Listed) -> Answer {
    Ok(json!({ "suggestions": [] }))
}

async fn pair_list(_: Context, _: Listed) -> Answer {
    Ok(json!({ "pending": [], "paired": [] }))
}

async fn cron_list(_: Context, asked: Listed) -> Answer {
    Ok(json!({
        "jobs": [], "total": 0, "offset": asked.offset.unwrap_or(0), "limit": asked.limit.unwrap_or(200), "hasMore": false,
        "nextOffset": null, "snapshotRevision": "none",
    }))
}

async fn skills_status(_: Context, _: Listed) -> Answer {
    Ok(json!({ "skills": [] }))
}
