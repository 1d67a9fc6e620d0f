//! Channels for operators and for existing clients, as methods and as paths; and the doors at which chat networks call.

use axum::Json;
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use chela_channel::{Standing, WebhookRequest, is_target};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::{Access, Context, ErrorShape, Methods, Refusal, Routes, body};
use crate::channels::{Error, View};
use crate::id;
use crate::port::Port;
use crate::scope::Scope;

const HOOK_BYTES_MAX: usize = 1024 * 1024;
const HEADERS_MAX: usize = 64;
/// How long a network waits that found no room.
const HOOK_WAIT_SECONDS: u64 = 5;
/// What an adapter does not set: cookies of this origin are the hub's.
const NOT_TOLD: [&str; 2] = ["set-cookie", "content-security-policy"];
/// What a network is not told of, and an adapter has no use for.
const OWN_HEADERS: [&str; 4] = ["authorization", "cookie", "host", "connection"];

pub(super) fn methods(methods: Methods) -> Methods {
    methods
        .add("channel.list", Scope::Read, list)
        .add("channel.restart", Scope::Admin, restart)
        .add("channels.status", Scope::Read, status)
        .add("send", Scope::Write, send)
}

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/channels", Access::Watching, &Port::ALL, page)
        // Whose call it is, the signature says that the grants name.
        .get("/hooks/{channel}/{*path}", Access::Open, &[Port::Gateway], hook)
        .post("/hooks/{channel}/{*path}", Access::Open, &[Port::Gateway], hook)
}

impl From<Error> for ErrorShape {
    fn from(error: Error) -> Self {
        match error.is_callers() {
            true => Self::invalid(error.to_string()),
            false => Self::unavailable(error.to_string()),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct One {
    #[schemars(length(min = 1, max = 64))]
    channel: String,
}

async fn list(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    Ok(json!({ "channels": context.channels.list() }))
}

async fn restart(context: Context, asked: One) -> Result<Value, ErrorShape> {
    Ok(json!({ "channel": context.channels.restart(&asked.channel).await? }))
}

async fn page(State(context): State<Context>) -> Json<Value> {
    Json(json!({ "channels": context.channels.list() }))
}

/// Fields that existing clients send and that mean nothing here.
type Unused = Option<Value>;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct Status {
    probe: Unused,
    timeout_ms: Unused,
    channel: Option<String>,
}

/// The shape that existing clients know: one account a channel.
async fn status(context: Context, asked: Status) -> Result<Value, ErrorShape> {
    let views = context.channels.list();
    let wanted = |view: &&View| asked.channel.as_ref().is_none_or(|name| *name == view.channel);
    let views: Vec<&View> = views.iter().filter(wanted).collect();
    let by_name = |value: fn(&View) -> Value| -> Map<String, Value> {
        views.iter().map(|view| (view.channel.clone(), value(view))).collect()
    };
    let issues = views.iter().filter(|view| !matches!(view.status, Standing::Ready | Standing::Starting));
    let issue = |view: &&View| json!({ "channel": view.channel, "accountId": "default", "kind": view.status, "message": view.detail });
    Ok(json!({
        "ts": context.clock.now(),
        "channelOrder": views.iter().map(|view| &view.channel).collect::<Vec<_>>(),
        "channelLabels": by_name(|view| json!(view.channel)),
        "channels": by_name(|view| json!(view)),
        "channelAccounts": by_name(|view| json!([account(view)])),
        "channelDefaultAccountId": by_name(|_| json!("default")),
        "statusIssues": issues.map(issue).collect::<Vec<_>>(),
    }))
}

fn account(view: &View) -> Value {
    let works = matches!(view.status, Standing::Ready | Standing::Degraded);
    let error = (!matches!(view.status, Standing::Ready | Standing::Starting)).then_some(&view.detail);
    json!({
        "accountId": "default", "enabled": view.plugin.is_some(), "configured": view.status != Standing::NeedsAuth,
        "running": view.status != Standing::Stopped, "connected": works, "lastError": error,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct SendOut {
    to: String,
    #[schemars(length(min = 1, max = 128))]
    idempotency_key: String,
    channel: Option<String>,
    message: Option<String>,
    media_url: Unused,
    media_urls: Unused,
    account_id: Unused,
    agent_id: Unused,
    thread_id: Option<String>,
    reply_to_id: Unused,
    session_key: Unused,
    silent: Unused,
    parse_mode: Unused,
}

/// Sends to people. `to` is a place such as `channel:42`, or `NAME:channel:42` with the channel's name before it.
async fn send(context: Context, asked: SendOut) -> Result<Value, ErrorShape> {
    let (channel, to) = match (&asked.channel, asked.to.split_once(':')) {
        (Some(channel), _) => (channel.clone(), asked.to.clone()),
        (None, Some((channel, rest))) if is_target(rest) => (channel.to_owned(), rest.to_owned()),
        (None, _) => {
            return Err(ErrorShape::invalid("say which channel: `channel`, or `to` as NAME:channel:ID"));
        }
    };
    let target = match &asked.thread_id {
        Some(thread) if !to.contains(":thread:") => format!("{to}:thread:{thread}"),
        _ => to,
    };
    let known = context.channels.get(&channel);
    if known.is_err() {
        let shown: String = channel.chars().take(64).collect();
        return Err(ErrorShape::invalid(format!("unsupported channel: {shown}")));
    }
    let text = asked.message.unwrap_or_default();
    let id = context.channels.send(&channel, &target, text, Some(asked.idempotency_key)).await?;
    Ok(json!({ "messageId": id, "deliveryId": id, "channel": channel, "to": target, "status": "queued" }))
}

/// A network calls an adapter. What is no granted path is not there, whoever calls.
async fn hook(
    State(context): State<Context>,
    Path((channel, path)): Path<(String, String)>,
    request: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    let webhook = context.channels.granted_webhook(&channel, &path);
    let webhook = webhook.map_err(|_| Refusal::NoSuch { what: "webhook at this path".into() })?;
    let (head, inner) = request.into_parts();
    // Nobody has said who calls yet: what all such calls take together has an end. It is taken as it comes, so that silence takes nothing.
    let mut room: Option<OwnedSemaphorePermit> = None;
    let mut is_full = false;
    let read = body::read_with_room(&context, inner, HOOK_BYTES_MAX, |bytes| {
        let Some(more) = context.channels.room_for_call(bytes) else {
            is_full = true;
            return Err(Refusal::Unavailable {
                said: "too many calls are under way here; try again in a moment".into(),
            });
        };
        match &mut room {
            Some(room) => room.merge(more),
            None => room = Some(more),
        }
        Ok(())
    });
    let bytes = match read.await {
        Ok(bytes) => bytes,
        Err(refusal) if is_full => {
            let mut response = refusal.into_response();
            response.headers_mut().insert(header::RETRY_AFTER, HOOK_WAIT_SECONDS.into());
            return Ok(response);
        }
        Err(refusal) => return Err(refusal),
    };
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let verified = context.channels.verify(&channel, &webhook, header, &bytes).await;
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().filter(|(name, _)| !OWN_HEADERS.contains(&name.as_str()));
    let called = WebhookRequest {
        id: id::fresh(context.clock.now()).to_string(),
        method: head.method.to_string(),
        path,
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: headers.take(HEADERS_MAX).map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
        body: bytes.to_vec(),
        verified,
    };
    let hooked = context.channels.webhook(&channel, called).await;
    let hooked = hooked.map_err(|error| Refusal::Unavailable { said: error.to_string() })?;
    let status = StatusCode::from_u16(hooked.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, hooked.body).into_response();
    for (name, value) in hooked.headers {
        if NOT_TOLD.iter().any(|kept| name.eq_ignore_ascii_case(kept)) {
            continue;
        }
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            response.headers_mut().insert(name, value);
        }
    }
    // A page of an adapter, should somebody open it, is not one of the gateway: it runs no script and has no origin.
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    Ok(response)
}
