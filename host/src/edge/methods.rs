//! The methods that the gateway answers about itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::table::{Caller, Payload, Reply};
use super::{
    Context, ErrorShape, Methods, backup, catalog, channels, chat, humans, jobs, old_tasks, plugins, queries, sessions,
};
use crate::config::Agent;
use crate::id::AgentId;
use crate::port::Port;
use crate::scope::Scope;

/// Every method there is.
pub fn methods() -> Methods {
    let methods = catalog::methods(sessions::methods(chat::methods(old_tasks::methods(queries::methods(
        plugins::methods(humans::methods(jobs::methods(channels::methods(Methods::default())))),
    )))));
    backup::methods(methods)
        .add_for("health", Scope::Read, health)
        .add("status", Scope::Read, status)
        .add("agents.list", Scope::Read, agents_list)
        .add("config.get", Scope::Read, config_get)
        .add("config.patch", Scope::Admin, config_patch)
        .add("config.reload", Scope::Admin, config_reload)
}

/// For methods that take nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct Health {
    probe: Option<bool>,
}

/// Those who ask more often than this get what those before them got.
const HEALTH_FRESH: Duration = Duration::from_millis(100);

/// The last health that was told, and when.
#[derive(Default)]
pub struct LastHealth(Mutex<Option<Told>>);

struct Told {
    at: Duration,
    failing: Vec<&'static str>,
    revision: String,
    text: Arc<str>,
}

async fn health(context: Context, _: Caller, _: Health) -> Result<Reply, ErrorShape> {
    let (at, failing, settings) = (context.clock.elapsed(), context.failing(), context.settings.current());
    let mut last = context.last_health.0.lock().unwrap_or_else(PoisonError::into_inner);
    let is_fresh = |told: &&Told| {
        at.saturating_sub(told.at) < HEALTH_FRESH && told.failing == failing && told.revision == settings.revision
    };
    let text = match last.as_ref().filter(is_fresh) {
        Some(told) => told.text.clone(),
        None => {
            let text = Arc::<str>::from(health_of(&context).to_string());
            *last = Some(Told { at, failing, revision: settings.revision.clone(), text: text.clone() });
            text
        }
    };
    Ok(Reply { payload: Payload::Text(text), later: None })
}

/// Sessions that are named with an agent.
const RECENT: usize = 5;

pub(super) fn health_of(context: &Context) -> Value {
    let started = context.clock.elapsed();
    let settings = context.settings.current();
    let agents = &settings.config.agents;
    let default = agents.default_id();
    let path = context.dir.sessions();
    let rows: Vec<Value> = agents
        .list
        .iter()
        .map(|agent| {
            let sessions = recent(context, Some(&agent.id));
            json!({
                "agentId": agent.id, "name": agent.display_name(), "isDefault": Some(&agent.id) == default,
                "heartbeat": no_heartbeat(), "sessions": { "path": path, "count": sessions.0, "recent": sessions.1 },
            })
        })
        .collect();
    let (count, recent) = recent(context, None);
    let failing = context.failing();
    json!({
        "ok": failing.is_empty(),
        "failing": failing,
        "ts": context.clock.now(),
        "durationMs": (context.clock.elapsed() - started).as_millis(),
        "channels": {}, "channelOrder": [], "channelLabels": {}, "heartbeatSeconds": 0,
        "defaultAgentId": default,
        "agents": rows,
        "sessions": { "path": path, "count": count, "recent": recent },
    })
}

/// Agents are woken by their tasks, not by a clock.
fn no_heartbeat() -> Value {
    json!({ "enabled": false, "every": "disabled", "everyMs": null, "prompt": "", "target": "none", "ackMaxChars": 0 })
}

/// How many sessions there are, of one agent or of all, and the latest of them.
fn recent(context: &Context, agent: Option<&AgentId>) -> (usize, Vec<Value>) {
    let now = context.clock.now();
    let (count, latest) = context.sessions.recent(agent, RECENT);
    let rows = latest.iter().map(|(key, updated)| {
        json!({ "key": key.to_string(), "updatedAt": updated, "age": now.0.saturating_sub(updated.0) })
    });
    (count, rows.collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct StatusParams {
    include_channel_summary: Option<bool>,
    include_cli_projection: Option<bool>,
}

async fn status(context: Context, _: StatusParams) -> Result<Value, ErrorShape> {
    let settings = context.settings.current();
    let agents = &settings.config.agents;
    let (count, recent) = recent(&context, None);
    let beats: Vec<Value> = agents
        .list
        .iter()
        .map(|agent| json!({ "agentId": agent.id, "enabled": false, "every": "disabled", "everyMs": null, "waitingForRoute": false }))
        .collect();
    let defaults = agents.default_id().map(|agent| sessions::defaults(&context, agent));
    let tasks = context.tasks.all();
    let running = tasks.iter().filter(|view| view.task.status.to_string() == "in_progress").count();
    Ok(json!({
        "runtimeVersion": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptimeMs": context.uptime_ms(),
        "stateDir": context.dir.path(),
        "addresses": context.addresses,
        "encrypted": Port::ALL.into_iter().filter(|port| settings.identity_of(*port).is_some()).map(Port::as_str).collect::<Vec<_>>(),
        "agents": agents.list.len(),
        "failing": context.failing(),
        "config": context.settings.standing(),
        "runs": context.agents.under_way(),
        "heartbeat": { "defaultAgentId": agents.default_id(), "agents": beats },
        "channelSummary": [], "queuedSystemEvents": [], "degradedSecretOwners": [], "degradedPlugins": [],
        "tasks": {
            "total": tasks.len(), "active": tasks.len(), "terminal": 0, "failures": 0,
            "byStatus": {
                "queued": tasks.len() - running, "running": running, "succeeded": 0, "failed": 0, "timed_out": 0,
                "cancelled": 0, "lost": 0,
            },
            "byRuntime": { "subagent": 0, "acp": 0, "cli": tasks.len(), "cron": 0 },
        },
        "taskAudit": { "total": 0, "warnings": 0, "errors": 0, "byCode": {} },
        "sessions": { "paths": [context.dir.sessions()], "count": count, "defaults": defaults, "recent": recent, "byAgent": [] },
    }))
}

async fn agents_list(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    let settings = context.settings.current();
    let agents = &settings.config.agents;
    let rows: Vec<Value> = agents.list.iter().map(|agent| agent_row(&context, agent)).collect();
    Ok(json!({ "defaultId": agents.default_id(), "mainKey": "main", "scope": "per-sender", "agents": rows }))
}

fn agent_row(context: &Context, agent: &Agent) -> Value {
    json!({
        "id": agent.id,
        "name": agent.display_name(),
        "role": agent.role,
        "team": agent.team,
        "identity": agent.identity,
        "workspace": context.dir.path().join(agent.workspace_path()),
    })
}

async fn config_get(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    let settings = context.settings.current();
    let standing = context.settings.standing();
    Ok(json!({
        "path": context.dir.config(),
        "exists": true,
        "valid": standing.problems.is_empty(),
        "issues": standing.problems,
        "restartNeeded": standing.restart_needed,
        "hash": settings.revision,
        "config": settings.config.to_value(),
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct ConfigPatch {
    /// JSON5: objects merge, null takes out.
    raw: String,
    base_hash: Option<String>,
    #[serde(default)]
    #[schemars(length(max = 256))]
    replace_paths: Vec<String>,
    session_key: Option<Value>,
    delivery_context: Option<Value>,
    note: Option<Value>,
    restart_delay_ms: Option<Value>,
}

/// What stands for a secret in what was read; written back, it leaves the secret as it is.
const REDACTED: [&str; 2] = [crate::config::REDACTED, "__OPENCLAW_REDACTED__"];

async fn config_patch(context: Context, asked: ConfigPatch) -> Result<Value, ErrorShape> {
    let path = context.dir.config();
    let Some(base) = asked.base_hash else {
        let said =
            format!("config base hash required for {}; re-run config.get and retry with baseHash", path.display());
        return Err(ErrorShape::invalid(said));
    };
    let refused = |said: String| ErrorShape::invalid(format!("nothing is changed: {said}"));
    let mut patch = crate::config::json5_value(&asked.raw).map_err(|problem| refused(format!("raw: {problem}")))?;
    take_out_redacted(&mut patch);
    let applied = context
        .settings
        .patch(patch, base, asked.replace_paths)
        .await
        .map_err(|error| refused(error.to_string()).with_details(json!({ "issues": error.problems() })))?;
    let settings = context.settings.current();
    Ok(json!({
        "ok": true, "path": path, "hash": settings.revision, "config": settings.config.to_value(),
        "changedPaths": applied.changed, "restartNeeded": applied.restart_needed,
    }))
}

fn take_out_redacted(patch: &mut Value) {
    match patch {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.as_str().is_some_and(|text| REDACTED.contains(&text)));
            fields.values_mut().for_each(take_out_redacted);
        }
        Value::Array(items) => items.iter_mut().for_each(take_out_redacted),
        _ => {}
    }
}

async fn config_reload(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    match context.settings.reload().await {
        Ok(applied) => Ok(json!(applied)),
        Err(error) => Err(ErrorShape::invalid(format!("the configuration before stays in force: {error}"))
            .with_details(json!({ "issues": error.problems() }))),
    }
}
