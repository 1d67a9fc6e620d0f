//! The routes there are, and the handlers of those that belong to no room of their own.

use axum::Json;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use serde_json::Value;
use std::sync::LazyLock;

use super::frame::{ErrorCode, ErrorShape, Request, Response};
use super::guard::client_of;
use super::{Access, Context, Refusal, Routes, body, health, monitor, plugins, tasks, tools};
use crate::port::Port;
use crate::schema::Schema;
use crate::scope::Scope;
use crate::settings::Principal;

/// Every route of every listener.
pub fn routes() -> Routes {
    tools::routes(tasks::routes(monitor::routes(plugins::routes(health::routes(Routes::default())))))
        .post("/rpc", Access::PerMethod, &[Port::Gateway], rpc)
        .get("/metrics", Access::Needs(Scope::Read), &[Port::Gateway, Port::Monitor], metrics)
}

/// One request frame in, one response frame out.
async fn rpc(State(context): State<Context>, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    let client = client_of(&request);
    let caller = request.extensions().get::<Principal>().cloned();
    let caller = caller.expect("the route asks for a token");
    let bytes = body::read(&context, request.into_body()).await?;
    let (id, outcome) = match decode(&bytes) {
        Ok(frame) => (frame.id.clone(), context.methods.call(&context, &caller, client, frame).await),
        Err(error) => (None, Err(error)),
    };
    let status = match outcome.as_ref().map_err(|error| error.code) {
        Ok(_) => StatusCode::OK,
        Err(ErrorCode::InvalidRequest) => StatusCode::BAD_REQUEST,
        Err(ErrorCode::Forbidden) => StatusCode::FORBIDDEN,
        Err(ErrorCode::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Ok((status, Json(Response::new(id, outcome))).into_response())
}

fn decode(bytes: &[u8]) -> Result<Request, ErrorShape> {
    static FRAME: LazyLock<Schema> = LazyLock::new(Schema::of::<Request>);
    let refused = |said: String| ErrorShape::invalid(format!("invalid request frame: {said}"));
    let value: Value = serde_json::from_slice(bytes).map_err(|error| refused(format!("not JSON: {error}")))?;
    if let Some(problem) = FRAME.problems(&value).first() {
        return Err(refused(problem.to_string()));
    }
    serde_json::from_value(value).map_err(|error| refused(error.to_string()))
}

async fn metrics(State(context): State<Context>) -> HttpResponse {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, context.metrics.encode(&context.clock)).into_response()
}
