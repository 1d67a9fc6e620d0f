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

/// What an event says, name by name, in the order in which it is said. What is not there is not said.
struct Facts(Map<String, Value>);

impl Facts {
    /// Names that an event of a flow has at most.
    const ROOM: usize = 28;

    fn new() -> Self {
        Self(Map::with_capacity(Self::ROOM))
    }

    fn say(mut self, name: &str, value: impl Into<Value>) -> Self {
        match value.into() {
            Value::Null => {}
            value => drop(self.0.insert(name.to_owned(), value)),
        }
        self
    }

    fn id(self, name: &str, id: Option<&str>) -> Self {
        self.say(name, id.filter(|id| !id.is_empty()))
    }

    /// What every event of a flow says.
    fn of(self, job: &Job) -> Self {
        self.id("jobId", Some(&job.job_id))
            .id("conversationId", Some(&job.conversation_id))
            .id("workSessionId", job.work_session_id.as_deref())
            .id("parentConversationId", job.parent_conversation_id.as_deref())
            .id("taskId", job.task_id.as_deref())
            .say("depth", job.depth)
            .id("chainId", Some(&job.chain.id))
            .say("hop", job.chain.hop)
            .id("retryOf", job.retry_of.as_deref())
    }

    /// A message between two sessions.
    fn between(job: &Job, from: &str, to: &str) -> Self {
        let delegation = words::is_subagent(from) || words::is_subagent(to);
        Self::new()
            .say("fromAgent", words::agent_of(from))
            .say("toAgent", words::agent_of(to))
            .say("fromSessionType", session_type(from))
            .say("toSessionType", session_type(to))
            .say("eventRole", if delegation { "delegation.subagent" } else { "conversation.main" })
            .of(job)
    }

    /// Told as the doing of the agent of a session.
    fn happened(self, what: What, session: &str) -> Happened {
        Happened { what, agent: words::agent_of(session).to_owned(), data: self.0, name: None }
    }
}

fn session_type(session: &str) -> &'static str {
    if words::is_subagent(session) { "subagent" } else { "main" }
}

/// The first message is on its way.
pub(crate) fn sent(job: &Job, what: What) -> Happened {
    let (from, to) = (&job.session_key, &job.target_session_key);
    let message = words::clip(&job.message, MESSAGE_CHARS_MAX);
    let whole = message.len() == job.message.len();
    let facts = Facts::between(job, from, to)
        .say("message", message)
        .say("targetSessionKey", &**to)
        .say("runId", &*job.run_id)
        .say("previousWorkSessionId", job.previous_work_session_id.as_deref())
        .say("label", job.label.as_deref())
        .say("maxTurns", job.max_turns)
        .say("messageRef", (!whole).then(|| message_ref(to, &format!("{}:0", job.job_id))));
    facts.happened(what, from)
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
    let facts = Facts::between(job, &delivery.session_key, job.asker(delivery.turn))
        .say("replyPreview", words::clip(reply, PREVIEW_CHARS_MAX))
        .say("message", message)
        .say("runId", &*delivery.key)
        .say("turn", delivery.turn)
        .say("maxTurns", job.max_turns)
        .say("messageRef", (!whole).then(|| message_ref(&delivery.session_key, &delivery.key)));
    facts.happened(What::Response, &delivery.session_key)
}

/// The current turn was not.
pub(crate) fn no_reply(job: &Job, status: WaitStatus, error: Option<&str>, rules: &Rules) -> Happened {
    let said = words::no_reply(rules.language, status, error, rules.wait_ms);
    let turn = job.current_turn;
    let facts = Facts::between(job, job.answerer(turn), job.asker(turn))
        .say("replyPreview", words::clip(&said, PREVIEW_CHARS_MAX))
        .say("message", said)
        .say("outcome", "blocked")
        .say("waitStatus", status.as_str())
        .say("waitError", error)
        .say("turn", turn)
        .say("maxTurns", job.max_turns)
        .say("runId", job.turns.last().map(|turn| &*turn.key));
    facts.happened(What::Response, job.answerer(turn))
}

/// What a run said when nobody waited for it any more.
pub fn late(job: &Job, session: &str, run: &str, reply: &str) -> Happened {
    let turn = job.current_turn;
    let facts = Facts::between(job, session, job.asker(turn))
        .say("replyPreview", words::clip(reply, PREVIEW_CHARS_MAX))
        .say("message", words::clip(reply, MESSAGE_CHARS_MAX))
        .say("late", true)
        .say("turn", turn)
        .say("maxTurns", job.max_turns)
        .say("runId", run);
    Happened { name: Some(format!("late:{run}")), ..facts.happened(What::Response, session) }
}

pub(crate) fn completed(job: &Job, announced: bool) -> Happened {
    let facts = Facts::between(job, &job.session_key, &job.target_session_key)
        .say("announced", announced)
        .say("announce", json!(job.announce.state))
        .say("turns", job.current_turn);
    facts.happened(What::Complete, &job.session_key)
}

pub(crate) fn spawn_result(job: &Job, outcome: &str) -> Happened {
    let reply = job.first().and_then(|turn| turn.reply.as_deref()).unwrap_or_default();
    let facts = Facts::between(job, &job.target_session_key, &job.session_key)
        .say("outcome", outcome)
        .say("replyPreview", words::clip(reply, PREVIEW_CHARS_MAX))
        .say("message", words::clip(reply, MESSAGE_CHARS_MAX))
        .say("targetSessionKey", &*job.target_session_key)
        .say("runId", &*job.run_id)
        .say("error", job.last_error.as_deref().filter(|_| outcome != "ok"))
        .say("label", job.label.as_deref());
    facts.happened(What::SpawnResult, &job.target_session_key)
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
    let facts = Facts::between(job, from, &delivery.session_key)
        .say("state", state)
        .say("at", at)
        .say("runId", &*delivery.key)
        .say("turn", delivery.turn)
        .say("error", delivery.error.as_deref())
        .say("eventRole", "system.observability");
    Happened { name: Some(format!("{}:{state}", delivery.key)), ..facts.happened(What::Delivery, from) }
}

/// What happened to the job itself.
pub(crate) fn of_job(job: &Job, what: What) -> Happened {
    let facts = Facts::new()
        .of(job)
        .say("status", job.status.as_str())
        .say("phase", json!(job.phase))
        .say("currentTurn", job.current_turn)
        .say("maxTurns", job.max_turns)
        .say("sessionKey", &*job.session_key)
        .say("targetSessionKey", &*job.target_session_key)
        .say("fromAgent", words::agent_of(&job.session_key))
        .say("toAgent", words::agent_of(&job.target_session_key))
        .say("retryCount", job.retry_count)
        .say("resumeCount", job.resume_count)
        .say("lastError", job.last_error.as_deref())
        .say("nextTryAt", job.next_try_at);
    facts.happened(what, &job.session_key)
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
