//! Methods that send messages, wait for runs, stop them and read what was said.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::{agent_of, session_of};
use super::sessions::check_model;
use super::table::{Caller, Payload, Reply};
use super::{Context, ErrorShape, Methods, humans};
use crate::config::ModelRef;
use crate::id;
use crate::scope::Scope;
use crate::session_key::SessionKey;
use crate::sessions::{Asked, Ended, Error, History, Origin, OriginKind, Progress, Receipt, Status, text_of};

const HISTORY: usize = 200;
const HISTORY_MAX: usize = 1_000;
/// Rows that are passed over; further back lead `before` and `cursor`.
const OFFSET_MAX: usize = 100_000;
const WAIT_MS: u64 = 30_000;
const WAIT_MS_MAX: u64 = 86_400_000;

pub(super) fn methods(methods: Methods) -> Methods {
    methods
        .add_for("agent", Scope::Write, agent)
        .add_waiting("agent.wait", Scope::Write, wait)
        .add_for("chat.send", Scope::Write, chat_send)
        .add("chat.abort", Scope::Write, chat_abort)
        .add("chat.history", Scope::Read, chat_history)
        .add_for("sessions.send", Scope::Write, sessions_send)
        .add("sessions.abort", Scope::Write, sessions_abort)
}

/// Fields that existing clients send and that mean nothing here.
type Unused = Option<Value>;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct AgentParams {
    message: String,
    idempotency_key: String,
    agent_id: Option<String>,
    session_key: Option<String>,
    session_id: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    /// Seconds.
    #[schemars(range(max = 86_400))]
    timeout: Option<u64>,
    #[schemars(length(max = 32_768))]
    extra_system_prompt: Option<String>,
    input_provenance: Option<Provenance>,
    label: Option<String>,
    to: Unused,
    reply_to: Unused,
    thinking: Unused,
    deliver: Unused,
    attachments: Option<Vec<Value>>,
    channel: Unused,
    reply_channel: Unused,
    account_id: Unused,
    reply_account_id: Unused,
    thread_id: Unused,
    group_id: Unused,
    group_channel: Unused,
    group_space: Unused,
    lane: Unused,
    cwd: Unused,
    best_effort_deliver: Unused,
    prompt_mode: Unused,
    spawned_by: Unused,
    workspace_dir: Unused,
    internal_events: Unused,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Provenance {
    kind: OriginKind,
    source_session_key: Option<String>,
    source_channel: Option<String>,
    source_tool: Option<String>,
}

fn model_of(
    context: &Context,
    provider: Option<String>,
    model: Option<String>,
) -> Result<Option<ModelRef>, ErrorShape> {
    let model = match (provider, model) {
        (Some(provider), Some(model)) => Some(ModelRef(format!("{provider}/{model}"))),
        (None, Some(model)) if model.contains('/') => Some(ModelRef(model)),
        (None, None) => None,
        _ => return Err(ErrorShape::invalid("a model is named PROVIDER/MODEL, or by `provider` and `model` together")),
    };
    check_model(context, model.as_ref())?;
    Ok(model)
}

fn without_attachments(attachments: Option<&Vec<Value>>) -> Result<(), ErrorShape> {
    match attachments.is_none_or(Vec::is_empty) {
        true => Ok(()),
        false => {
            Err(ErrorShape::invalid("attachments are not taken; put a file into the agent's workspace and name it"))
        }
    }
}

async fn agent(context: Context, caller: Caller, asked: AgentParams) -> Result<Reply, ErrorShape> {
    without_attachments(asked.attachments.as_ref())?;
    let session = match &asked.session_key {
        Some(key) => session_of(&context, key, asked.agent_id.as_deref())?,
        None => SessionKey::main(agent_of(&context, asked.agent_id.as_deref())?),
    };
    let origin = asked.input_provenance.map(|from| Origin {
        kind: from.kind,
        source_session_key: from.source_session_key,
        source_channel: from.source_channel,
        source_tool: from.source_tool,
        note: None,
    });
    let message = Asked {
        origin: origin.unwrap_or_default(),
        model: model_of(&context, asked.provider, asked.model)?,
        time_ms: asked.timeout.filter(|seconds| *seconds > 0).map(|seconds| seconds * 1_000),
        instructions: asked.extra_system_prompt,
        ..Asked::new(asked.idempotency_key, "agent", session, asked.message)
    };
    let (receipt, further) = humans::accept(&context, &caller, message).await?;
    if let Progress::Ended(ended) = &receipt.progress {
        return Ok(result_of(&receipt.run, &receipt.session, ended, &context).into());
    }
    let accepted = json!({
        "runId": receipt.run, "sessionKey": receipt.session.to_string(), "agentId": receipt.session.agent,
        "status": if receipt.again { "in_flight" } else { "accepted" }, "acceptedAt": receipt.accepted_at,
    });
    let accepted = humans::with(accepted, further);
    let later = async move {
        let ended = context.sessions.ended(&receipt.run).await?;
        let ended = ended.ok_or_else(|| ErrorShape::unavailable("the run's end is not known; ask agent.wait"))?;
        Ok(result_of(&receipt.run, &receipt.session, &ended, &context))
    };
    Ok(Reply { payload: Payload::Value(accepted), later: Some(Box::pin(later)) })
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Error | Status::Aborted => "error",
        Status::Timeout => "timeout",
    }
}

fn result_of(run: &str, session: &SessionKey, ended: &Ended, context: &Context) -> Value {
    let id = context.sessions.get(session).map(|session| session.id.clone());
    let summary = match ended.status {
        Status::Ok => "completed".to_owned(),
        _ => ended.error.clone().unwrap_or_else(|| "failed".into()),
    };
    let payloads: Vec<Value> =
        if ended.reply.is_empty() { Vec::new() } else { vec![json!({ "text": ended.reply, "mediaUrl": null })] };
    json!({
        "runId": run, "sessionKey": session.to_string(), "agentId": session.agent, "status": status_word(ended.status),
        "summary": summary,
        "result": {
            "payloads": payloads,
            "meta": {
                "durationMs": ended.at.0.saturating_sub(ended.started_at.0), "aborted": ended.status == Status::Aborted,
                "stopReason": ended.stop,
                "agentMeta": { "sessionId": id, "provider": ended.provider, "model": ended.model, "usage": ended.usage },
            },
        },
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wait {
    #[schemars(length(min = 1, max = 256))]
    run_id: String,
    #[schemars(range(max = WAIT_MS_MAX))]
    timeout_ms: Option<u64>,
}

async fn wait(context: Context, asked: Wait) -> Result<Value, ErrorShape> {
    let named = asked.run_id;
    // A job is known by its id; its first message is the run that is meant.
    let run = match context.jobs.get(&named).await? {
        Some(job) => job.first().map_or_else(|| format!("{named}:0"), |first| first.key.clone()),
        None => named,
    };
    let ended = match context.sessions.progress(&run).await? {
        None => {
            // Nothing of this name will ever end: who waits would wait in vain.
            let said = "not_found: no run has this id, or its result is no longer kept";
            return Ok(json!({ "runId": run, "status": "timeout", "error": said }));
        }
        Some(Progress::Ended(ended)) => Some(ended),
        Some(_) => {
            let patience = Duration::from_millis(asked.timeout_ms.unwrap_or(WAIT_MS));
            tokio::select! {
                ended = context.sessions.ended(&run) => ended?,
                () = context.clock.sleep(patience) => None,
            }
        }
    };
    let Some(ended) = ended else { return Ok(json!({ "runId": run, "status": "timeout" })) };
    let mut answer = json!({
        "runId": run, "status": status_word(ended.status), "startedAt": ended.started_at, "endedAt": ended.at,
        "stopReason": ended.stop,
    });
    match ended.status {
        Status::Ok => answer["terminalReply"] = json!({ "disposition": "visible", "text": ended.reply }),
        Status::Aborted => answer["error"] = json!("aborted"),
        Status::Error | Status::Timeout => answer["error"] = json!(ended.error),
    }
    Ok(answer)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct ChatSend {
    #[schemars(length(min = 1, max = 512))]
    session_key: String,
    message: String,
    idempotency_key: String,
    agent_id: Option<String>,
    #[schemars(range(max = WAIT_MS_MAX))]
    timeout_ms: Option<u64>,
    attachments: Option<Vec<Value>>,
    session_id: Unused,
    thinking: Unused,
    deliver: Unused,
    queue_mode: Unused,
    fast_mode: Unused,
    system_input_provenance: Unused,
    originating_channel: Unused,
    originating_to: Unused,
    originating_account_id: Unused,
    originating_thread_id: Unused,
}

async fn chat_send(context: Context, caller: Caller, asked: ChatSend) -> Result<Reply, ErrorShape> {
    without_attachments(asked.attachments.as_ref())?;
    let session = session_of(&context, &asked.session_key, asked.agent_id.as_deref())?;
    let time_ms = asked.timeout_ms.filter(|ms| *ms > 0);
    let message = plain("chat.send", asked.idempotency_key, session, asked.message, time_ms);
    let (receipt, further) = humans::accept(&context, &caller, message).await?;
    Ok(humans::with(started(&receipt), further).into())
}

fn plain(method: &'static str, key: String, session: SessionKey, text: String, time_ms: Option<u64>) -> Asked {
    Asked { time_ms, ..Asked::new(key, method, session, text) }
}

fn started(receipt: &Receipt) -> Value {
    let status = match &receipt.progress {
        Progress::Ended(ended) => status_word(ended.status),
        _ if receipt.again => "in_flight",
        _ => "started",
    };
    json!({ "runId": receipt.run, "sessionKey": receipt.session.to_string(), "status": status })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct SessionsSend {
    #[schemars(length(min = 1, max = 512))]
    key: String,
    message: String,
    agent_id: Option<String>,
    idempotency_key: Option<String>,
    #[schemars(range(max = WAIT_MS_MAX))]
    timeout_ms: Option<u64>,
    attachments: Option<Vec<Value>>,
    thinking: Unused,
}

async fn sessions_send(context: Context, caller: Caller, asked: SessionsSend) -> Result<Reply, ErrorShape> {
    without_attachments(asked.attachments.as_ref())?;
    let session = session_of(&context, &asked.key, asked.agent_id.as_deref())?;
    let key = asked.idempotency_key.unwrap_or_else(|| id::fresh(context.clock.now()).to_string());
    let message = plain("sessions.send", key, session, asked.message, asked.timeout_ms.filter(|ms| *ms > 0));
    let (receipt, further) = humans::accept(&context, &caller, message).await?;
    Ok(humans::with(started(&receipt), further).into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct ChatAbort {
    #[schemars(length(min = 1, max = 512))]
    session_key: String,
    run_id: Option<String>,
    agent_id: Option<String>,
    preserve_side_runs: Unused,
}

/// Ends what runs or waits, on a person's word: nothing is continued until a person speaks again.
pub(super) async fn stop(
    context: &Context,
    session: &SessionKey,
    run: Option<&str>,
) -> Result<Vec<String>, ErrorShape> {
    context.continuation.aborted(session).await.map_err(Error::from)?;
    Ok(context.sessions.abort(session, run).await?)
}

async fn chat_abort(context: Context, asked: ChatAbort) -> Result<Value, ErrorShape> {
    let session = session_of(&context, &asked.session_key, asked.agent_id.as_deref())?;
    let runs = stop(&context, &session, asked.run_id.as_deref()).await?;
    Ok(json!({ "ok": true, "aborted": !runs.is_empty(), "runIds": runs }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct SessionsAbort {
    key: Option<String>,
    run_id: Option<String>,
    agent_id: Option<String>,
    clear_queued: Unused,
}

async fn sessions_abort(context: Context, asked: SessionsAbort) -> Result<Value, ErrorShape> {
    let session = match (&asked.key, &asked.run_id) {
        (Some(key), _) => session_of(&context, key, asked.agent_id.as_deref())?,
        (None, Some(run)) => match context.sessions.session_of_run(run) {
            Some(session) => session,
            None => return Ok(json!({ "ok": true, "aborted": false, "runIds": [] })),
        },
        (None, None) => {
            return Err(ErrorShape::invalid("invalid sessions.abort params: at root: give `key` or `runId`"));
        }
    };
    let runs = stop(&context, &session, asked.run_id.as_deref()).await?;
    Ok(json!({ "ok": true, "aborted": !runs.is_empty(), "runIds": runs }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct ChatHistory {
    #[schemars(length(min = 1, max = 512))]
    session_key: String,
    #[schemars(range(min = 1, max = HISTORY_MAX))]
    limit: Option<usize>,
    #[schemars(range(max = OFFSET_MAX))]
    offset: Option<usize>,
    /// What was known before, as `deltaCursor` gave it: only rows after it are wanted.
    cursor: Option<String>,
    /// The place before which the rows are, as `nextBefore` gave it.
    before: Option<u64>,
    #[schemars(range(min = 20))]
    max_chars: Option<usize>,
    agent_id: Option<String>,
    message_id: Unused,
    session_id: Unused,
    pending_before: Unused,
    input_run_ids: Unused,
}

async fn chat_history(context: Context, asked: ChatHistory) -> Result<Value, ErrorShape> {
    let session = session_of(&context, &asked.session_key, asked.agent_id.as_deref())?;
    if let Some(cursor) = asked.cursor.as_deref() {
        return delta(&context, &session, cursor).await;
    }
    let (limit, offset) = (asked.limit.unwrap_or(HISTORY), asked.offset.unwrap_or(0));
    let found = context.sessions.history(&session, History { limit, offset, before: asked.before }).await?;
    let mut rows = found.rows;
    let rows_count = rows.len();
    if let Some(max) = asked.max_chars {
        rows.iter_mut().for_each(|row| shorten(row, max));
    }
    let pending: Vec<Value> = context
        .sessions
        .waiting(&session)
        .into_iter()
        .map(|place| json!({ "runId": place.run, "place": place.place, "waitingMs": place.waiting_ms, "text": place.text }))
        .collect();
    let known = context.sessions.get(&session);
    let mut answer = json!({
        "sessionKey": session.to_string(), "sessionId": known.as_ref().map(|session| session.id.clone()), "messages": rows,
        "hasMore": found.before.is_some(), "totalMessages": found.total,
        "pendingInputs": { "total": pending.len(), "items": pending }, "sessionInfo": context.sessions.row(&session),
        "defaults": super::sessions::defaults(&context, &session.agent),
        "thinkingLevel": known.as_ref().and_then(|session| session.thinking.clone()),
        "nextBefore": found.before, "nextOffset": found.before.map(|_| offset + rows_count),
        "deltaCursor": found.total.to_string(),
        "inFlightRun": context.sessions.running(&session).map(|(run, at)| json!({ "runId": run, "text": "", "startedAt": at, "events": [] })),
    });
    if let Some(fields) = answer.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(answer)
}

/// The rows after the ones that a client knows; one that knows too little, or what is not so any more, reads anew.
async fn delta(context: &Context, session: &SessionKey, cursor: &str) -> Result<Value, ErrorShape> {
    let known: u64 = cursor
        .parse()
        .map_err(|_| ErrorShape::invalid("invalid chat.history params: at cursor: not one that this method gave"))?;
    let last = context.sessions.history(session, History { limit: 1, offset: 0, before: None }).await?;
    let missing = last.total.checked_sub(known).and_then(|missing| usize::try_from(missing).ok());
    let Some(missing) = missing.filter(|missing| *missing <= HISTORY_MAX) else {
        return Ok(json!({ "kind": "reset" }));
    };
    let found = context.sessions.history(session, History { limit: missing, offset: 0, before: None }).await?;
    Ok(json!({
        "kind": "delta", "messages": found.rows, "deltaCursor": last.total.to_string(),
        "sessionInfo": context.sessions.row(session),
    }))
}

/// Cuts the texts of a row.
fn shorten(row: &mut Value, max: usize) {
    if text_of(row).chars().count() <= max {
        return;
    }
    for part in row["content"].as_array_mut().into_iter().flatten() {
        if let Some(text) = part["text"].as_str() {
            part["text"] = json!(text.chars().take(max).collect::<String>());
        }
    }
    row["__openclaw"]["truncated"] = json!(true);
}
