//! Methods and paths about plugins: what serves in each slot, and every change an operator may make to it.

use axum::Json;
use axum::extract::{Query, RawQuery, Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response as HttpResponse};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::frame::{ErrorCode, ErrorShape, Request};
use super::methods::Nothing;
use super::monitor::read;
use super::params::Given;
use super::table::{Caller, Reply, change};
use super::{Access, Context, Methods, Refusal, Routes, audit, body};
use crate::plugins::{self, From, Load, POLICY_VERSION, SlotName};
use crate::port::Port;
use crate::scope::Scope;

const LOG_LINES_MAX: usize = 1_000;
const LOG_LINES: usize = 100;

pub(super) fn methods(methods: Methods) -> Methods {
    methods
        .add("plugin.slots", Scope::Read, slots)
        .add("plugin.logs", Scope::Read, logs)
        .add("plugin.load", Scope::Admin, load)
        .add("plugin.unload", Scope::Admin, unload)
        .add("plugin.disable", Scope::Admin, disable)
        .add("plugin.enable", Scope::Admin, enable)
        .add("plugin.accept", Scope::Admin, accept)
        .add("plugin.rollback", Scope::Admin, rollback)
        .add("plugin.release", Scope::Admin, release)
}

pub(super) fn routes(routes: Routes) -> Routes {
    const GATEWAY: &[Port] = &[Port::Gateway];
    let routes = routes
        .get("/admin/plugins", Access::Needs(Scope::Read), GATEWAY, |state, request| by_method(state, "slots", request))
        .get("/admin/plugins/logs", Access::Needs(Scope::Read), GATEWAY, logs_page)
        .post("/admin/plugins/upload", Access::Needs(Scope::Admin), GATEWAY, upload)
        .get("/api/plugins", Access::Watching, &Port::ALL, page);
    let changes = [
        ("/admin/plugins/load", "load"),
        ("/admin/plugins/unload", "unload"),
        ("/admin/plugins/disable", "disable"),
        ("/admin/plugins/enable", "enable"),
        ("/admin/plugins/accept", "accept"),
        ("/admin/plugins/rollback", "rollback"),
        ("/admin/plugins/release", "release"),
    ];
    changes.into_iter().fold(routes, |routes, (path, verb)| {
        let handler = move |state, request| by_method(state, verb, request);
        routes.post(path, Access::Needs(Scope::Admin), GATEWAY, handler)
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OfSlot {
    slot: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Logs {
    slot: String,
    /// At most 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lines: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoadParams {
    slot: String,
    /// `builtin:NAME`, a file in `plugins/`, or an absolute path on the gateway's machine.
    source: String,
    /// The component's own configuration.
    #[serde(default)]
    config: Option<Map<String, Value>>,
    /// Only tell what would change.
    #[serde(default)]
    shadow: bool,
    /// A channel begins anew, without what the version before knew.
    #[serde(default)]
    fresh: bool,
}

/// The query of an upload; the body is the component, after its configuration if there is one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Upload {
    slot: String,
    name: String,
    #[serde(default)]
    shadow: bool,
    #[serde(default)]
    fresh: bool,
    /// So many bytes at the start of the body are JSON, the component's own configuration.
    #[serde(default)]
    config_bytes: usize,
    /// And so many after them are the component's signature.
    #[serde(default)]
    signature_bytes: usize,
}

fn slot_of(text: &str) -> Result<SlotName, ErrorShape> {
    text.parse().map_err(|error: plugins::NoSuchSlot| ErrorShape::invalid(error.to_string()))
}

fn refusal(error: plugins::Error) -> ErrorShape {
    match error {
        plugins::Error::Stopping => ErrorShape::unavailable(error.to_string()),
        error => ErrorShape::invalid(error.to_string()).with_details(json!({ "stage": error.stage() })),
    }
}

async fn slots(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    Ok(shown(&context))
}

/// Lists a folder.
fn shown(context: &Context) -> Value {
    json!({
        "slots": context.plugins.slots(),
        "installed": context.plugins.installed(),
        "unrecorded": context.plugins.unrecorded(),
        "interfaceVersion": POLICY_VERSION,
    })
}

async fn page(State(context): State<Context>, RawQuery(query): RawQuery) -> Result<Json<Value>, Refusal> {
    Given::parse(&[], query.as_deref())?;
    read(move || shown(&context)).await.map(Json)
}

async fn logs(context: Context, params: Logs) -> Result<Value, ErrorShape> {
    let lines = params.lines.unwrap_or(LOG_LINES).min(LOG_LINES_MAX);
    let slot = slot_of(&params.slot)?;
    let known = context.plugins.slots().iter().any(|view| view.slot == params.slot);
    if !known {
        return Err(ErrorShape::invalid(format!("there is no slot {slot} here; `plugin.slots` lists them")));
    }
    let lines = context.plugins.logs(slot, lines).await.map_err(refusal)?;
    Ok(json!({ "slot": params.slot, "lines": lines }))
}

async fn load(context: Context, params: LoadParams) -> Result<Value, ErrorShape> {
    let LoadParams { slot, source, config, shadow, fresh } = params;
    let slot = slot_of(&slot)?;
    let load = Load { slot, from: From::Source(source), config, shadow_only: shadow, fresh };
    context.plugins.load(load).await.map_err(refusal)
}

async fn unload(context: Context, params: OfSlot) -> Result<Value, ErrorShape> {
    context.plugins.unload(slot_of(&params.slot)?).await.map_err(refusal)
}

async fn disable(context: Context, params: OfSlot) -> Result<Value, ErrorShape> {
    context.plugins.disable(slot_of(&params.slot)?).await.map_err(refusal)
}

async fn enable(context: Context, params: OfSlot) -> Result<Value, ErrorShape> {
    context.plugins.enable(slot_of(&params.slot)?).await.map_err(refusal)
}

async fn accept(context: Context, params: OfSlot) -> Result<Value, ErrorShape> {
    context.plugins.accept(slot_of(&params.slot)?).await.map_err(refusal)
}

async fn rollback(context: Context, params: OfSlot) -> Result<Value, ErrorShape> {
    context.plugins.rollback(slot_of(&params.slot)?).await.map_err(refusal)
}

async fn release(context: Context, params: OfSlot) -> Result<Value, ErrorShape> {
    context.plugins.release(slot_of(&params.slot)?).await.map_err(refusal)
}

/// A path that does what the method of the same name does, with the body as its parameters.
async fn by_method(
    State(context): State<Context>,
    name: &'static str,
    request: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    let caller = Caller::of(&request);
    let bytes = body::read(&context, request.into_body()).await?;
    let params = match bytes.is_empty() {
        true => Ok(Value::Null),
        false => serde_json::from_slice(&bytes),
    };
    let outcome = match params {
        Ok(params) => {
            let method = format!("plugin.{name}");
            let frame = Request::new(method, params);
            context.methods.call(&context, &caller, frame).await.map(Reply::into_value)
        }
        Err(error) => Err(ErrorShape::invalid(format!("the body is not JSON: {error}"))),
    };
    Ok(answer(outcome))
}

async fn logs_page(State(context): State<Context>, Query(params): Query<Logs>) -> HttpResponse {
    answer(logs(context, params).await)
}

/// A component as the body of a request, for operators who are not on the gateway's machine.
async fn upload(State(context): State<Context>, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    let caller = Caller::of(&request);
    let query = Query::<Upload>::try_from_uri(request.uri());
    let limit = usize::try_from(context.settings.current().config.plugins.file_bytes).unwrap_or(usize::MAX);
    let bytes = body::read_up_to(&context, request.into_body(), limit).await?;
    let outcome = match query {
        Err(error) => Err(ErrorShape::invalid(format!("{}; write ?slot=SLOT&name=FILE.wasm", error.body_text()))),
        Ok(Query(upload)) => load_upload(&context, &caller, upload, bytes).await,
    };
    Ok(answer(outcome))
}

/// Loads a component that was sent with nothing beside it.
pub(super) async fn load_sent(
    context: &Context,
    caller: &Caller,
    slot: &str,
    name: String,
    bytes: Bytes,
) -> Result<Value, ErrorShape> {
    load_upload(context, caller, bare(slot, name), bytes).await
}

async fn load_upload(context: &Context, caller: &Caller, upload: Upload, bytes: Bytes) -> Result<Value, ErrorShape> {
    let of = audit::of(&json!({ "slot": upload.slot, "name": upload.name }));
    let load = upload_of(upload, bytes)?;
    let plugins = context.plugins.clone();
    let work = async move { plugins.load(load).await.map_err(refusal) };
    change(context, caller, "plugin.load", of, work).await
}

fn bare(slot: &str, name: String) -> Upload {
    Upload { slot: slot.to_owned(), name, shadow: false, fresh: false, config_bytes: 0, signature_bytes: 0 }
}

/// The load of a component that was sent with nothing beside it.
pub(super) fn load_of(slot: &str, name: String, bytes: Bytes) -> Result<Load, ErrorShape> {
    upload_of(bare(slot, name), bytes)
}

fn upload_of(upload: Upload, bytes: Bytes) -> Result<Load, ErrorShape> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !upload.name.ends_with(".wasm")
        || upload.name.starts_with('.')
        || !upload.name.chars().all(good)
        || upload.name.len() > 100
    {
        return Err(ErrorShape::invalid("the name must be a file name such as my-classifier.wasm"));
    }
    if upload.config_bytes.saturating_add(upload.signature_bytes) > bytes.len() {
        return Err(ErrorShape::invalid("the body is shorter than configBytes and signatureBytes say"));
    }
    let mut component = bytes;
    let config = component.split_to(upload.config_bytes);
    let signature = component.split_to(upload.signature_bytes);
    let config = (!config.is_empty()).then(|| serde_json::from_slice(&config)).transpose();
    let config =
        config.map_err(|error| ErrorShape::invalid(format!("the configuration is no JSON object: {error}")))?;
    let signature = (!signature.is_empty()).then_some(signature);
    let from = From::Bytes { name: upload.name, bytes: component, signature };
    Ok(Load { slot: slot_of(&upload.slot)?, from, config, shadow_only: upload.shadow, fresh: upload.fresh })
}

fn answer(outcome: Result<Value, ErrorShape>) -> HttpResponse {
    match outcome {
        Ok(payload) => Json(payload).into_response(),
        Err(error) => {
            let status = match error.code {
                ErrorCode::InvalidRequest => StatusCode::BAD_REQUEST,
                ErrorCode::Forbidden | ErrorCode::NotPaired => StatusCode::FORBIDDEN,
                ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, Json(json!({ "error": error }))).into_response()
        }
    }
}
