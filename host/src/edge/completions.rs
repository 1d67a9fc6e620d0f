//! `/v1`: an agent as a model, for clients that speak OpenAI's chat API.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use tokio::sync::mpsc;

use super::keys::agent_of;
use super::table::{Caller, change};
use super::{Access, Context, ErrorShape, Refusal, Routes, audit, body, humans};
use crate::edge::frame::ErrorCode;
use crate::feed::{Heard, Listener};
use crate::id::{self, AgentId};
use crate::port::Port;
use crate::schema::Schema;
use crate::scope::Scope;
use crate::session_key::SessionKey;
use crate::sessions::{Asked, Ended, Status};

const METHOD: &str = "v1.chat.completions";
/// Of a conversation that a client repeats, no more than this is told again.
const TOLD_CHARS_MAX: usize = 64_000;
/// Pieces that may wait for a client that reads slowly.
const PIECES_MAX: usize = 256;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.post("/v1/chat/completions", Access::Needs(Scope::Write), &[Port::Gateway], completions).get(
        "/v1/models",
        Access::Needs(Scope::Read),
        &[Port::Gateway],
        models,
    )
}

#[derive(Deserialize, JsonSchema)]
struct Completion {
    /// An agent's id, also as `chela/ID`, `openclaw/ID` or `agent:ID`.
    model: String,
    #[schemars(length(min = 1, max = 2000))]
    messages: Vec<Said>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// Names a session that goes on; then only the last message is new.
    #[serde(default)]
    #[schemars(length(max = 64))]
    user: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Said {
    role: String,
    #[serde(default)]
    content: Value,
}

impl Said {
    /// Its text; parts that are none are left out.
    fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
            _ => String::new(),
        }
    }
}

async fn models(State(context): State<Context>) -> HttpResponse {
    let settings = context.settings.current();
    let rows: Vec<Value> = settings
        .config
        .agents
        .list
        .iter()
        .map(|agent| json!({ "id": agent.id, "object": "model", "created": 0, "owned_by": "chela" }))
        .collect();
    Json(json!({ "object": "list", "data": rows })).into_response()
}

async fn completions(State(context): State<Context>, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    let caller = Caller::of(&request);
    let bytes = body::read(&context, request.into_body()).await?;
    Ok(match complete(&context, &caller, &bytes).await {
        Ok(response) => response,
        Err(error) => refused(&error),
    })
}

fn refused(error: &ErrorShape) -> HttpResponse {
    let (status, kind) = match error.code {
        ErrorCode::InvalidRequest => (StatusCode::BAD_REQUEST, "invalid_request_error"),
        ErrorCode::Forbidden | ErrorCode::NotPaired => (StatusCode::FORBIDDEN, "permission_error"),
        ErrorCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "server_error"),
    };
    (status, Json(json!({ "error": { "message": error.message, "type": kind, "param": null, "code": null } })))
        .into_response()
}

async fn complete(context: &Context, caller: &Caller, bytes: &[u8]) -> Result<HttpResponse, ErrorShape> {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<Completion>);
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| ErrorShape::invalid(format!("the body is not JSON: {error}")))?;
    if let Some(problem) = SCHEMA.problems(&value).first() {
        return Err(ErrorShape::invalid(problem.to_string()));
    }
    let asked: Completion = serde_json::from_value(value).map_err(|error| ErrorShape::invalid(error.to_string()))?;
    let name = asked.model.trim_start_matches("chela/").trim_start_matches("openclaw/").trim_start_matches("agent:");
    let agent = agent_of(context, (!name.is_empty()).then_some(name))?;
    let message = message_of(context, &agent, &asked)?;
    let (run, listener) = (message.key.clone(), context.feed.listen());
    let of = audit::of(&json!({ "sessionKey": message.session.to_string() }));
    // In a session that goes on, what a person writes may be the answer to what was asked there.
    let (accepts, who) = (context.clone(), caller.clone());
    let accepting = async move { Ok(humans::accept(&accepts, &who, message).await?.0) };
    change(context, caller, METHOD, of, accepting).await?;
    let about = About { id: format!("chatcmpl-{run}"), created: context.clock.now().0 / 1_000, model: asked.model };
    if !asked.stream.unwrap_or(false) {
        let ended = end_of(context, &run).await?;
        return Ok(match ended.status {
            Status::Ok => Json(about.whole(&ended)).into_response(),
            _ => refused(&ErrorShape::unavailable(ended.error.clone().unwrap_or_else(|| "the run failed".into()))),
        });
    }
    let usage = asked.stream_options.is_some_and(|options| options.include_usage);
    let (sender, mut pieces) = mpsc::channel::<Bytes>(PIECES_MAX);
    let streaming = context.clone();
    context.sockets.spawn(async move {
        // A client that hangs up does not stop the run; nobody is told any more.
        let _ = stream(streaming, about, run, listener, sender, usage).await;
    });
    let events =
        futures_util::stream::poll_fn(move |cx| pieces.poll_recv(cx).map(|piece| piece.map(Ok::<_, std::io::Error>)));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response())
}

async fn end_of(context: &Context, run: &str) -> Result<Arc<Ended>, ErrorShape> {
    let ended = context.sessions.ended(run).await?;
    ended.ok_or_else(|| ErrorShape::unavailable("the run's end is not known"))
}

fn message_of(context: &Context, agent: &AgentId, asked: &Completion) -> Result<Asked, ErrorShape> {
    let last = asked.messages.iter().rposition(|said| said.role == "user");
    let Some(last) = last else { return Err(ErrorShape::invalid("messages: there is none of the role `user`")) };
    let key = id::fresh(context.clock.now()).to_string();
    let tail = asked.user.as_deref().map_or_else(|| key.clone(), str::to_owned);
    let session = SessionKey::of(agent.clone(), &format!("openai:{tail}"));
    let session =
        session.map_err(|_| ErrorShape::invalid("user: use letters, digits, `_`, `-`, `.`, `@`, `+` and `#`"))?;
    let mut instructions: Vec<String> = asked
        .messages
        .iter()
        .filter(|said| matches!(said.role.as_str(), "system" | "developer"))
        .map(Said::text)
        .collect();
    let before = asked.messages[..last].iter().filter(|said| matches!(said.role.as_str(), "user" | "assistant"));
    let before: Vec<String> = before.map(|said| format!("{}: {}", said.role, said.text())).collect();
    if asked.user.is_none() && !before.is_empty() {
        let told: String = before.join("\n\n");
        let skip = told.chars().count().saturating_sub(TOLD_CHARS_MAX);
        instructions.push(format!("The conversation so far:\n\n{}", told.chars().skip(skip).collect::<String>()));
    }
    instructions.retain(|text| !text.is_empty());
    Ok(Asked {
        instructions: (!instructions.is_empty()).then(|| instructions.join("\n\n")),
        ..Asked::new(key, METHOD, session, asked.messages[last].text())
    })
}

/// What every chunk of an answer repeats.
struct About {
    id: String,
    created: u64,
    model: String,
}

impl About {
    fn whole(&self, ended: &Ended) -> Value {
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{
                "index": 0, "message": { "role": "assistant", "content": ended.reply }, "finish_reason": finish(ended),
            }],
            "usage": usage_of(ended),
        })
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Bytes {
        event(&json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        }))
    }
}

fn finish(ended: &Ended) -> &'static str {
    match ended.stop.as_str() {
        "length" => "length",
        "refusal" => "content_filter",
        _ => "stop",
    }
}

fn usage_of(ended: &Ended) -> Value {
    let usage = &ended.usage;
    let input = usage.input + usage.cache_read + usage.cache_write;
    json!({ "prompt_tokens": input, "completion_tokens": usage.output, "total_tokens": input + usage.output })
}

fn event(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

/// Tells the words of a run as they come, then its end. `Err` when nobody takes them any more.
async fn stream(
    context: Context,
    about: About,
    run: String,
    mut listener: Listener,
    sender: mpsc::Sender<Bytes>,
    with_usage: bool,
) -> Result<(), mpsc::error::SendError<Bytes>> {
    sender.send(about.chunk(&json!({ "role": "assistant", "content": "" }), None)).await?;
    let ending = end_of(&context, &run);
    tokio::pin!(ending);
    // All that was told, and the answer that it ends with.
    let (mut told, mut current) = (String::new(), String::new());
    let ended = loop {
        tokio::select! {
            biased;
            heard = listener.next() => match heard {
                Heard::Told(heard) if heard.event == "agent" && heard.payload.contains(&run) => {
                    let payload = heard.value();
                    if payload["runId"] == json!(run) && payload["stream"] == "assistant" {
                        // An answer that began anew cannot be taken back here: what it says now follows.
                        let fresh = payload["data"]["delta"].as_str().unwrap_or_default();
                        if !fresh.is_empty() {
                            sender.send(about.chunk(&json!({ "content": fresh }), None)).await?;
                            told.push_str(fresh);
                            current = payload["data"]["text"].as_str().unwrap_or_default().to_owned();
                        }
                    }
                }
                Heard::Told(_) | Heard::Missed(_) => {}
                Heard::End => break ending.await,
            },
            ended = &mut ending => break ended,
        }
    };
    match ended {
        Ok(ended) if ended.status == Status::Ok => {
            // What was missed on the way is made whole here.
            if !told.ends_with(&ended.reply) {
                let rest = ended.reply.strip_prefix(current.as_str()).unwrap_or(&ended.reply);
                sender.send(about.chunk(&json!({ "content": rest }), None)).await?;
            }
            sender.send(about.chunk(&json!({}), Some(finish(&ended)))).await?;
            if with_usage {
                let usage = json!({
                    "id": about.id, "object": "chat.completion.chunk", "created": about.created, "model": about.model,
                    "choices": [], "usage": usage_of(&ended),
                });
                sender.send(event(&usage)).await?;
            }
        }
        other => {
            let said = match other {
                Ok(ended) => ended.error.clone().unwrap_or_else(|| "the run failed".into()),
                Err(error) => error.message,
            };
            sender.send(event(&json!({ "error": { "message": said, "type": "server_error" } }))).await?;
        }
    }
    sender.send(Bytes::from_static(b"data: [DONE]\n\n")).await
}
