//! `POST /tools/invoke`, in the shape of the existing clients, and the hub's way to change a task.

use axum::Json;
use axum::extract::{Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response as HttpResponse};
use serde_json::{Map, Value, json};

use super::params::bad;
use super::table::Caller;
use super::table::change;
use super::{Access, Context, ErrorShape, Refusal, Routes, audit, body};
use crate::port::Port;
use crate::scope::Scope;
use crate::session_key::SessionKey;
use crate::tools::{Call, Error};

const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.post("/tools/invoke", Access::Needs(Scope::Write), &[Port::Gateway], invoke).post(
        "/api/tasks/update",
        Access::Needs(Scope::Write),
        &[Port::Gateway, Port::Hub],
        update,
    )
}

async fn invoke(State(context): State<Context>, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    let caller = Caller::of(&request);
    let bytes = body::read_up_to(&context, request.into_body(), BODY_BYTES_MAX).await?;
    let call = match call_of(&context, &bytes) {
        Ok(call) => call,
        Err(said) => return Ok(refused(StatusCode::BAD_REQUEST, "invalid_request", &said)),
    };
    Ok(match invoked(&context, &caller, call).await {
        Ok(details) => {
            let text = Value::Object(details.clone()).to_string();
            let result = json!({ "content": [{ "type": "text", "text": text }], "details": details });
            Json(json!({ "ok": true, "result": result })).into_response()
        }
        Err(error) => {
            let (status, kind) = match &error {
                Failure::Tool(Error::Unknown(_)) => (StatusCode::NOT_FOUND, "not_found"),
                Failure::Tool(Error::Key(error)) if !error.is_callers() => {
                    (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
                }
                Failure::Tool(Error::Arguments { .. } | Error::UnknownAgent(_) | Error::Key(_)) => {
                    (StatusCode::BAD_REQUEST, "invalid_request")
                }
                Failure::Tool(Error::Failed(_)) => (StatusCode::INTERNAL_SERVER_ERROR, "tool_error"),
                Failure::NotTaken(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            };
            refused(status, kind, &error.to_string())
        }
    })
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Tool(Error),
    #[error("{0}")]
    NotTaken(String),
}

/// Calls a tool; a change is in the audit log before it is made.
pub(super) async fn invoked(context: &Context, caller: &Caller, call: Call) -> Result<Map<String, Value>, Failure> {
    if context.tools.reads(&call.tool) {
        return context.tools.invoke(call).await.map_err(Failure::Tool);
    }
    let of = audit::of(&json!({ "name": call.tool, "sessionKey": call.session.to_string(), "args": call.args }));
    let (told, outcome) = tokio::sync::oneshot::channel();
    let (tools, name) =
        (context.tools.clone(), format!("tools.invoke {}", call.tool.chars().take(64).collect::<String>()));
    let work = async move {
        let done = tools.invoke(call).await;
        let audited = done.as_ref().map(|_| json!({})).map_err(|error| ErrorShape::unavailable(error.to_string()));
        drop(told.send(done));
        audited
    };
    let changed = change(context, caller, &name, of, work).await;
    match (outcome.await, changed) {
        (Ok(done), _) => done.map_err(Failure::Tool),
        (Err(_), Err(error)) => Err(Failure::NotTaken(error.message)),
        (Err(_), Ok(_)) => Err(Failure::NotTaken("the call was cut off".into())),
    }
}

fn refused(status: StatusCode, kind: &str, said: &str) -> HttpResponse {
    (status, Json(json!({ "ok": false, "error": { "type": kind, "message": said } }))).into_response()
}

/// `{tool|name, action?, args?, sessionKey?, agentId?, idempotencyKey?}`.
fn call_of(context: &Context, bytes: &[u8]) -> Result<Call, String> {
    let body: Value = serde_json::from_slice(bytes).map_err(|error| format!("the body is not JSON: {error}"))?;
    let body = body.as_object().ok_or("the body must be an object such as {\"tool\": \"task_list\"}")?;
    let text = |name: &str| match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{name} must be a text")),
    };
    let tool = text("tool")?.or(text("name")?).ok_or("tool is missing; name one such as task_list")?;
    let mut args = match body.get("args") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(_) => return Err("args must be an object".into()),
    };
    if let Some(action) = text("action")? {
        args.entry("action").or_insert(json!(action));
    }
    let session = session_of(context, text("sessionKey")?, text("agentId")?)?;
    Ok(Call::of_caller(tool, args, session).with_key(text("idempotencyKey")?))
}

fn session_of(context: &Context, key: Option<String>, agent: Option<String>) -> Result<SessionKey, String> {
    let settings = context.settings.current();
    match key.filter(|key| key != "main").or(agent) {
        Some(key) => SessionKey::parse(&key).map_err(|error| format!("sessionKey: {error}")),
        None => {
            let default = settings.config.agents.default_id().ok_or("sessionKey is missing and there is no agent")?;
            Ok(SessionKey::main(default.clone()))
        }
    }
}

/// `{taskId, agentId, progress?, action?, stepId?, stepContent?, steps?, stepsOrder?}`, as the hub of the old system sends it.
async fn update(State(context): State<Context>, request: HttpRequest) -> Result<Json<Value>, Refusal> {
    const NAMES: [(&str, &str); 7] = [
        ("taskId", "task_id"),
        ("progress", "progress"),
        ("action", "action"),
        ("stepId", "step_id"),
        ("stepContent", "step_content"),
        ("steps", "steps"),
        ("stepsOrder", "steps_order"),
    ];
    let caller = Caller::of(&request);
    let bytes = body::read_up_to(&context, request.into_body(), BODY_BYTES_MAX).await?;
    let body: Value = serde_json::from_slice(&bytes).map_err(|error| bad("body", format!("not JSON: {error}")))?;
    let body = body.as_object().ok_or_else(|| bad("body", "must be an object".into()))?;
    let known = |name: &String| name == "agentId" || NAMES.iter().any(|(theirs, _)| theirs == name);
    if let Some(unknown) = body.keys().find(|name| !known(name)) {
        return Err(bad(unknown, "there is no such field".into()));
    }
    let text = |name: &str| body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    for name in ["taskId", "agentId"] {
        text(name).ok_or_else(|| bad(name, "missing; taskId and agentId are required".into()))?;
    }
    if text("progress").is_none() && text("action").is_none() {
        return Err(bad("progress", "progress or action required".into()));
    }
    let session =
        SessionKey::parse(text("agentId").unwrap_or_default()).map_err(|error| bad("agentId", error.to_string()))?;
    let given = NAMES.iter().filter_map(|(theirs, ours)| Some(((*ours).to_owned(), body.get(*theirs)?.clone())));
    let args: Map<String, Value> = given.filter(|(_, value)| !value.is_null()).collect();
    match invoked(&context, &caller, Call::of_caller("task_update", args, session)).await {
        Ok(answer) if answer["success"] == json!(true) => Ok(Json(Value::Object(answer))),
        Ok(answer) => Err(bad("taskId", answer["error"].as_str().unwrap_or_default().to_owned())),
        Err(Failure::Tool(error @ Error::UnknownAgent(_))) => Err(bad("agentId", error.to_string())),
        Err(Failure::Tool(error @ (Error::Arguments { .. } | Error::Unknown(_)))) => {
            Err(bad("body", error.to_string()))
        }
        Err(error) => Err(Refusal::Unavailable { said: error.to_string() }),
    }
}
