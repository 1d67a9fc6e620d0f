//! Probes for supervisors: alive, started, ready. Open to all; they tell strangers nothing but that.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::guard::{authenticate, client_of};
use super::{Access, Context, Phase, Routes};
use crate::port::Port;

const LIVE: [&str; 2] = ["/healthz", "/health"];
const STARTED: [&str; 2] = ["/startupz", "/startup"];
const READY: [&str; 2] = ["/readyz", "/ready"];

pub(super) fn is_probe(path: &str) -> bool {
    LIVE.contains(&path) || STARTED.contains(&path) || READY.contains(&path)
}

pub(super) fn routes(routes: Routes) -> Routes {
    let routes = LIVE.into_iter().fold(routes, |routes, path| routes.get(path, Access::Open, &Port::ALL, live));
    let routes = STARTED.into_iter().fold(routes, |routes, path| routes.get(path, Access::Open, &Port::ALL, started));
    READY.into_iter().fold(routes, |routes, path| routes.get(path, Access::Open, &Port::ALL, ready))
}

async fn live() -> Response {
    Json(json!({ "ok": true, "status": "live" })).into_response()
}

async fn started(State(context): State<Context>, request: Request) -> Response {
    let phase = *context.phase.borrow();
    match phase {
        Phase::Draining | Phase::Stopping => unavailable(json!({ "ok": false, "status": "draining" })),
        Phase::Ready => {
            let mut body = json!({ "ok": true, "status": "started" });
            if is_known(&context, &request) {
                body["version"] = json!(env!("CARGO_PKG_VERSION"));
                body["uptimeMs"] = json!(context.uptime_ms());
            }
            Json(body).into_response()
        }
    }
}

async fn ready(State(context): State<Context>, request: Request) -> Response {
    let failing = context.failing();
    let mut body = json!({ "ready": failing.is_empty(), "failing": failing });
    if is_known(&context, &request) {
        body["uptimeMs"] = json!(context.uptime_ms());
    }
    if failing.is_empty() { Json(body).into_response() } else { unavailable(body) }
}

fn unavailable(body: serde_json::Value) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

/// Version and uptime are for callers on this machine or with a token.
fn is_known(context: &Context, request: &Request) -> bool {
    client_of(request).is_local() || authenticate(context, &context.settings.current(), request).is_ok()
}
