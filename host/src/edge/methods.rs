//! The methods that the gateway answers about itself.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Context, ErrorShape, Methods, plugins, queries};
use crate::config::Agent;
use crate::scope::Scope;

/// Every method there is.
pub fn methods() -> Methods {
    let methods = queries::methods(plugins::methods(Methods::default()));
    methods
        .add("health", Scope::Read, health)
        .add("status", Scope::Read, status)
        .add("agents.list", Scope::Read, agents_list)
        .add("config.get", Scope::Read, config_get)
        .add("config.reload", Scope::Admin, config_reload)
}

/// For methods that take nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

async fn health(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    let started = context.clock.elapsed();
    let settings = context.settings.current();
    let agents = &settings.config.agents;
    let default = agents.default_id();
    let rows: Vec<Value> = agents
        .list
        .iter()
        .map(|agent| {
            json!({ "agentId": agent.id, "name": agent.display_name(), "isDefault": Some(&agent.id) == default })
        })
        .collect();
    let failing = context.failing();
    Ok(json!({
        "ok": failing.is_empty(),
        "failing": failing,
        "ts": context.clock.now(),
        "durationMs": (context.clock.elapsed() - started).as_millis(),
        "defaultAgentId": default,
        "agents": rows,
    }))
}

async fn status(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    let settings = context.settings.current();
    Ok(json!({
        "runtimeVersion": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptimeMs": context.uptime_ms(),
        "stateDir": context.dir.path(),
        "addresses": context.addresses,
        "agents": settings.config.agents.list.len(),
        "failing": context.failing(),
        "config": context.settings.standing(),
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

async fn config_reload(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    match context.settings.reload().await {
        Ok(applied) => Ok(json!(applied)),
        Err(error) => Err(ErrorShape::invalid(format!("the configuration before stays in force: {error}"))
            .with_details(json!({ "issues": error.problems() }))),
    }
}
