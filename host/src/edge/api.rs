//! The routes there are, and the handlers of those that belong to no room of their own.

use axum::Json;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use serde_json::Value;
use std::sync::LazyLock;

use super::frame::{ErrorCode, ErrorShape, ID_CHARS_MAX, Request, Response};
use super::table::{Caller, Reply};
use super::{
    Access, Context, Refusal, Routes, body, channels, completions, gateway, health, hub, humans, monitor, plugins,
    tasks, tools, workspaces,
};
use crate::metrics::Now;
use crate::port::Port;
use crate::schema::Schema;
use crate::scope::Scope;
use crate::tls::Identity;
use crate::traces;

/// Every route of every listener.
pub fn routes() -> Routes {
    let routes = plugins::routes(health::routes(Routes::default()));
    let routes = workspaces::routes(humans::routes(tasks::routes(monitor::routes(routes))));
    hub::routes(channels::routes(completions::routes(tools::routes(routes))))
        .get("/", Access::Open, &[Port::Gateway], gateway::open)
        .post("/rpc", Access::PerMethod, &[Port::Gateway], rpc)
        .get("/metrics", Access::Needs(Scope::Read), &[Port::Gateway, Port::Monitor], metrics)
}

/// One request frame in, one response frame out.
async fn rpc(State(context): State<Context>, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    let caller = Caller::of(&request);
    let bytes = body::read(&context, request.into_body()).await?;
    let (id, outcome) = match decode(&bytes) {
        Ok(frame) => (frame.id.clone(), context.methods.call(&context, &caller, frame).await.map(Reply::into_value)),
        Err((_, error)) => (None, Err(*error)),
    };
    let status = match outcome.as_ref().map_err(|error| error.code) {
        Ok(_) => StatusCode::OK,
        Err(ErrorCode::InvalidRequest) => StatusCode::BAD_REQUEST,
        Err(ErrorCode::Forbidden | ErrorCode::NotPaired) => StatusCode::FORBIDDEN,
        Err(ErrorCode::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Ok((status, Json(Response::new(id, outcome))).into_response())
}

/// A request frame, or its id, as far as it has one, and why it is none.
pub(super) fn decode(bytes: &[u8]) -> Result<Request, (Option<String>, Box<ErrorShape>)> {
    Request::read(bytes).map_or_else(|| decode_by_schema(bytes), Ok)
}

/// The way of a frame that is odd or wrong.
pub(super) fn decode_by_schema(bytes: &[u8]) -> Result<Request, (Option<String>, Box<ErrorShape>)> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| (None, Box::new(not_a_frame(format!("not JSON: {error}")))))?;
    // An id that is too long is not repeated.
    let id = value["id"].as_str().filter(|id| id.len() <= ID_CHARS_MAX).map(str::to_owned);
    request_of(value).map_err(|error| (id, Box::new(error)))
}

pub(super) fn request_of(value: Value) -> Result<Request, ErrorShape> {
    static FRAME: LazyLock<Schema> = LazyLock::new(Schema::of::<Request>);
    if let Some(problem) = FRAME.problems(&value).first() {
        return Err(not_a_frame(problem.to_string()));
    }
    serde_json::from_value(value).map_err(|error| not_a_frame(error.to_string()))
}

fn not_a_frame(said: String) -> ErrorShape {
    ErrorShape::invalid(format!("invalid request frame: {said}"))
}

async fn metrics(State(context): State<Context>) -> HttpResponse {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    let facts = rustix::fs::statvfs(context.dir.path()).ok();
    let now = Now {
        runs: context.agents.under_way(),
        sockets: context.sockets.len(),
        disk_free: facts.map(|facts| facts.f_bavail.saturating_mul(facts.f_frsize)),
        certificate_until: context.settings.current().identity.as_ref().and_then(Identity::until),
        spans_dropped: traces::dropped(),
    };
    (kind, context.metrics.encode(&context.clock, now)).into_response()
}
