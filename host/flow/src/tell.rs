//! What is told of a flow: the events, with everything that those who read them need.

use serde_json::{Map, Value, json};

use crate::Rules;
use crate::job::{Delivery, DeliveryState, Job, Status};
use crate::step::WaitStatus;
use crate::words;

const MESSAGE_CHARS_MAX: usize = 4_000;
const PREVIEW_CHARS_MAX: usize = 200;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Happened {
    pub what: What,
    /// Whose doing it is.
    pub agent: String,
    pub data: Map<String, Value>,
    /// What it is known by when it is told twice; none where that is the record that caused it.
    pub name: Option<String>,
}

/// The kinds of things that happen to flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Send,
    Response,
    Complete,
    Spawn,
    SpawnResult,
    AutoRoute,
    Delivery,
    JobCreated,
    JobResumed,
    JobRetried,
    JobCompleted,
    JobFailed,
    JobAbandoned,
    JobCancelled,
}

/// What every event of a flow says.
fn facts(job: &Job) -> Map<String, Value> {
    let mut data = object(json!({
        "jobId": job.job_id, "conversationId": job.conversation_id, "workSessionId": job.work_session_id,
        "parentConversationId": job.parent_conversation_id, "taskId": job.task_id, "depth": job.depth,
        "chainId": job.chain.id, "hop": job.chain.hop, "retryOf": job.retry_of,
    }));
    data.retain(|_, value| !value.is_null() && value != "");
    data
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn session_type(session: &str) -> &'static str {
    if words::is_subagent(session) { "subagent" } else { "main" }
}

/// A message between two sessions, told as the doing of the first.
fn between(job: &Job, what: What, from: &str, to: &str, more: Value) -> Happened {
    let mut data = object(json!({
        "fromAgent": words::agent_of(from), "toAgent": words::agent_of(to),
        "fromSessionType": session_type(from), "toSessionType": session_type(to),
    }));
    let delegation = words::is_subagent(from) || words::is_subagent(to);
    data.insert("eventRole".into(), json!(if delegation { "delegation.subagent" } else { "conversation.main" }));
    data.extend(facts(job));
    let more = object(more);
    data.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    Happened { what, agent: words::agent_of(from).to_owned(), data, name: None }
}

/// The first message is on its way.
pub(crate) fn sent(job: &Job, what: What) -> Happened {
    let message = words::clip(&job.message, MESSAGE_CHARS_MAX);
    let whole = message.len() == job.message.len();
    let more = json!({
        "message": message, "targetSessionKey": job.target_session_key, "runId": job.run_id,
        "previousWorkSessionId": job.previous_work_session_id, "label": job.label, "maxTurns": job.max_turns,
        "messageRef": (!whole).then(|| message_ref(&job.target_session_key, &format!("{}:0", job.job_id))),
    });
    between(job, what, &job.session_key, &job.target_session_key, more)
}

/// Where the whole text is: the rows of a run in the transcript of its session.
fn message_ref(session: &str, run: &str) -> Value {
    json!({ "sessionKey": session, "runId": run })
}

/// The current turn was answered.
pub(crate) fn answered(job: &Job, delivery: &Delivery) -> Happened {
    let reply = delivery.reply.as_deref().unwrap_or_default();
    let message = words::clip(reply, MESSAGE_CHARS_MAX);
    let whole = message.len() == reply.len();
    let more = json!({
        "replyPreview": words::clip(reply, PREVIEW_CHARS_MAX), "message": message, "runId": delivery.key,
        "turn": delivery.turn, "maxTurns": job.max_turns,
        "messageRef": (!whole).then(|| message_ref(&delivery.session_key, &delivery.key)),
    });
    between(job, What::Response, &delivery.session_key, job.asker(delivery.turn), more)
}

/// The current turn was not.
pub(crate) fn no_reply(job: &Job, status: WaitStatus, error: Option<&str>, rules: &Rules) -> Happened {
    let said = words::no_reply(rules.language, status, error, rules.wait_ms);
    let turn = job.current_turn;
    let more = json!({
        "replyPreview": words::clip(&said, PREVIEW_CHARS_MAX), "message": said, "outcome": "blocked",
        "waitStatus": status.as_str(), "waitError": error, "turn": turn, "maxTurns": job.max_turns,
        "runId": job.turns.last().map(|turn| turn.key.clone()),
    });
    between(job, What::Response, job.answerer(turn), job.asker(turn), more)
}

/// What a run said when nobody waited for it any more.
pub fn late(job: &Job, session: &str, run: &str, reply: &str) -> Happened {
    let turn = job.current_turn;
    let more = json!({
        "replyPreview": words::clip(reply, PREVIEW_CHARS_MAX), "message": words::clip(reply, MESSAGE_CHARS_MAX),
        "late": true, "turn": turn, "maxTurns": job.max_turns, "runId": run,
    });
    let mut happened = between(job, What::Response, session, job.asker(turn), more);
    happened.name = Some(format!("late:{run}"));
    happened
}

pub(crate) fn completed(job: &Job, announced: bool) -> Happened {
    let more = json!({ "announced": announced, "announce": job.announce.state, "turns": job.current_turn });
    between(job, What::Complete, &job.session_key, &job.target_session_key, more)
}

pub(crate) fn spawn_result(job: &Job, outcome: &str) -> Happened {
    let reply = job.first().and_then(|turn| turn.reply.clone()).unwrap_or_default();
    let more = json!({
        "outcome": outcome, "replyPreview": words::clip(&reply, PREVIEW_CHARS_MAX),
        "message": words::clip(&reply, MESSAGE_CHARS_MAX), "targetSessionKey": job.target_session_key,
        "runId": job.run_id, "error": job.last_error.as_ref().filter(|_| outcome != "ok"), "label": job.label,
    });
    between(job, What::SpawnResult, &job.target_session_key, &job.session_key, more)
}

/// How far a message has come.
pub(crate) fn delivery(job: &Job, delivery: &Delivery) -> Happened {
    let (state, at) = match delivery.state {
        DeliveryState::Waiting => ("waiting", None),
        DeliveryState::Stored => ("stored", delivery.stored_at),
        DeliveryState::Delivered => ("delivered", delivery.delivered_at),
        DeliveryState::Answered => ("answered", delivery.answered_at),
        DeliveryState::Failed => ("failed", delivery.failed_at),
    };
    let from =
        if delivery.session_key == job.answerer(delivery.turn) { job.asker(delivery.turn) } else { &job.session_key };
    let more = json!({
        "state": state, "at": at, "runId": delivery.key, "turn": delivery.turn, "error": delivery.error,
        "eventRole": "system.observability",
    });
    let mut happened = between(job, What::Delivery, from, &delivery.session_key, more);
    happened.name = Some(format!("{}:{state}", delivery.key));
    happened
}

/// What happened to the job itself.
pub(crate) fn of_job(job: &Job, what: What) -> Happened {
    let mut data = facts(job);
    let more = object(json!({
        "status": job.status.as_str(), "phase": job.phase, "currentTurn": job.current_turn, "maxTurns": job.max_turns,
        "sessionKey": job.session_key, "targetSessionKey": job.target_session_key,
        "fromAgent": words::agent_of(&job.session_key), "toAgent": words::agent_of(&job.target_session_key),
        "retryCount": job.retry_count, "resumeCount": job.resume_count, "lastError": job.last_error,
        "nextTryAt": job.next_try_at,
    }));
    data.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    Happened { what, agent: words::agent_of(&job.session_key).to_owned(), data, name: None }
}

/// How the end of a job is told.
pub(crate) fn end_of(status: Status) -> What {
    match status {
        Status::Abandoned => What::JobAbandoned,
        Status::Cancelled => What::JobCancelled,
        Status::Completed => What::JobCompleted,
        Status::Failed | Status::Pending | Status::Running => What::JobFailed,
    }
}
