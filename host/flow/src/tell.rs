//! What is told of a flow: the events, with everything that those who read them need.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::Rules;
use crate::job::{AnnounceState, Delivery, DeliveryState, Job, Phase, Status};
use crate::step::WaitStatus;
use crate::words;

const MESSAGE_CHARS_MAX: usize = 4_000;
const PREVIEW_CHARS_MAX: usize = 200;

/// What an event is about, as the log says it.
const CONVERSATION: &str = "conversation.main";
const DELEGATION: &str = "delegation.subagent";
const ORCHESTRATION: &str = "orchestration.task";
const OBSERVABILITY: &str = "system.observability";

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Happened {
    pub what: What,
    /// Whose doing it is.
    pub agent: String,
    /// What it says, as the JSON object that it stays.
    pub data: Box<RawValue>,
    /// What it is known by when it is told twice; none where that is the record that caused it.
    pub name: Option<String>,
}

impl PartialEq for Happened {
    fn eq(&self, other: &Self) -> bool {
        let said = |told: &Self| (told.what, told.agent.clone(), told.data.get().to_owned(), told.name.clone());
        said(self) == said(other)
    }
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

/// What an event says, name by name, in the order in which it is said. What is not there is not said. Everything is lent: a flow tells so much
/// that owning each word would cost more than writing them.
struct Facts<'a>(Vec<(&'static str, Fact<'a>)>);

enum Fact<'a> {
    Text(&'a str),
    Number(u64),
    Flag(bool),
    Phase(Phase),
    Announce(AnnounceState),
    /// Where the whole text is: the rows of a run in the transcript of its session.
    Reference {
        session: &'a str,
        run: &'a str,
    },
}

impl Serialize for Fact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Phase(phase) => phase.serialize(serializer),
            Self::Announce(state) => state.serialize(serializer),
            Self::Reference { session, run } => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("sessionKey", session)?;
                map.serialize_entry("runId", run)?;
                map.end()
            }
        }
    }
}

impl Serialize for Facts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, fact)| (name, fact)))
    }
}

impl<'a> Facts<'a> {
    /// Names that an event of a flow has at most.
    const ROOM: usize = 28;

    fn new(role: &'static str) -> Self {
        Self(Vec::with_capacity(Self::ROOM)).say("eventRole", role)
    }

    fn fact(mut self, name: &'static str, fact: Fact<'a>) -> Self {
        self.0.push((name, fact));
        self
    }

    fn say(self, name: &'static str, text: &'a str) -> Self {
        self.fact(name, Fact::Text(text))
    }

    fn count(self, name: &'static str, number: impl Into<u64>) -> Self {
        self.fact(name, Fact::Number(number.into()))
    }

    fn flag(self, name: &'static str, flag: bool) -> Self {
        self.fact(name, Fact::Flag(flag))
    }

    fn maybe(self, name: &'static str, text: Option<&'a str>) -> Self {
        match text {
            Some(text) => self.say(name, text),
            None => self,
        }
    }

    fn id(self, name: &'static str, id: Option<&'a str>) -> Self {
        self.maybe(name, id.filter(|id| !id.is_empty()))
    }

    /// A text, and where the whole of it is if it was cut.
    fn text(self, name: &'static str, whole: &'a str, (session, run): (&'a str, &'a str)) -> Self {
        let shown = words::clip(whole, MESSAGE_CHARS_MAX);
        let told = self.say(name, shown);
        match shown.len() == whole.len() {
            true => told,
            false => told.fact("messageRef", Fact::Reference { session, run }),
        }
    }

    /// What every event of a flow says.
    fn of(self, job: &'a Job) -> Self {
        self.id("jobId", Some(&job.job_id))
            .id("conversationId", Some(&job.conversation_id))
            .id("workSessionId", job.work_session_id.as_deref())
            .id("parentConversationId", job.parent_conversation_id.as_deref())
            .id("taskId", job.task_id.as_deref())
            .count("depth", job.depth)
            .id("chainId", Some(&job.chain.id))
            .count("hop", job.chain.hop)
            .id("retryOf", job.retry_of.as_deref())
    }

    /// A message between two sessions.
    fn between(job: &'a Job, from: &'a str, to: &'a str) -> Self {
        let delegation = words::is_subagent(from) || words::is_subagent(to);
        Self::among(job, from, to, if delegation { DELEGATION } else { CONVERSATION })
    }

    /// The same, told as something else.
    fn among(job: &'a Job, from: &'a str, to: &'a str, role: &'static str) -> Self {
        Self::new(role)
            .say("fromAgent", words::agent_of(from))
            .say("toAgent", words::agent_of(to))
            .say("fromSessionType", session_type(from))
            .say("toSessionType", session_type(to))
            .of(job)
    }

    /// Told as the doing of the agent of a session.
    fn happened(self, what: What, session: &str) -> Happened {
        let data = to_raw_value(&self).expect("facts are plain JSON");
        Happened { what, agent: words::agent_of(session).to_owned(), data, name: None }
    }
}

fn session_type(session: &str) -> &'static str {
    if words::is_subagent(session) { "subagent" } else { "main" }
}

/// The first message is on its way.
pub(crate) fn sent(job: &Job, what: What) -> Happened {
    let (from, to) = (&job.session_key, &job.target_session_key);
    let run = format!("{}:0", job.job_id);
    let facts = match what {
        What::AutoRoute => Facts::among(job, from, to, ORCHESTRATION),
        _ => Facts::between(job, from, to),
    };
    let facts = facts
        .say("targetSessionKey", to)
        .say("runId", &job.run_id)
        .maybe("previousWorkSessionId", job.previous_work_session_id.as_deref())
        .maybe("label", job.label.as_deref())
        .count("maxTurns", job.max_turns)
        .text("message", &job.message, (to, &run));
    facts.happened(what, from)
}

/// The current turn was answered.
pub(crate) fn answered(job: &Job, delivery: &Delivery) -> Happened {
    let reply = delivery.reply.as_deref().unwrap_or_default();
    let facts = Facts::between(job, &delivery.session_key, job.asker(delivery.turn))
        .say("replyPreview", words::clip(reply, PREVIEW_CHARS_MAX))
        .say("runId", &delivery.key)
        .count("turn", delivery.turn)
        .count("maxTurns", job.max_turns)
        .text("message", reply, (&delivery.session_key, &delivery.key));
    facts.happened(What::Response, &delivery.session_key)
}

/// The current turn was not.
pub(crate) fn no_reply(job: &Job, status: WaitStatus, error: Option<&str>, rules: &Rules) -> Happened {
    let said = words::no_reply(rules.language, status, error, rules.wait_ms);
    let turn = job.current_turn;
    let facts = Facts::between(job, job.answerer(turn), job.asker(turn))
        .say("replyPreview", words::clip(&said, PREVIEW_CHARS_MAX))
        .say("message", &said)
        .say("outcome", "blocked")
        .say("waitStatus", status.as_str())
        .maybe("waitError", error)
        .count("turn", turn)
        .count("maxTurns", job.max_turns)
        .maybe("runId", job.turns.last().map(|turn| &*turn.key));
    facts.happened(What::Response, job.answerer(turn))
}

/// What a run said when nobody waited for it any more.
pub fn late(job: &Job, session: &str, run: &str, reply: &str) -> Happened {
    let turn = job.current_turn;
    let facts = Facts::between(job, session, job.asker(turn))
        .say("replyPreview", words::clip(reply, PREVIEW_CHARS_MAX))
        .say("message", words::clip(reply, MESSAGE_CHARS_MAX))
        .flag("late", true)
        .count("turn", turn)
        .count("maxTurns", job.max_turns)
        .say("runId", run);
    Happened { name: Some(format!("late:{run}")), ..facts.happened(What::Response, session) }
}

pub(crate) fn completed(job: &Job, announced: bool) -> Happened {
    let facts = Facts::between(job, &job.session_key, &job.target_session_key)
        .flag("announced", announced)
        .fact("announce", Fact::Announce(job.announce.state))
        .count("turns", job.current_turn);
    facts.happened(What::Complete, &job.session_key)
}

pub(crate) fn spawn_result(job: &Job, outcome: &str) -> Happened {
    let reply = job.first().and_then(|turn| turn.reply.as_deref()).unwrap_or_default();
    let facts = Facts::between(job, &job.target_session_key, &job.session_key)
        .say("outcome", outcome)
        .say("replyPreview", words::clip(reply, PREVIEW_CHARS_MAX))
        .say("message", words::clip(reply, MESSAGE_CHARS_MAX))
        .say("targetSessionKey", &job.target_session_key)
        .say("runId", &job.run_id)
        .maybe("error", job.last_error.as_deref().filter(|_| outcome != "ok"))
        .maybe("label", job.label.as_deref());
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
    let mut facts = Facts::among(job, from, &delivery.session_key, OBSERVABILITY).say("state", state);
    if let Some(at) = at {
        facts = facts.count("at", at);
    }
    let facts =
        facts.say("runId", &delivery.key).count("turn", delivery.turn).maybe("error", delivery.error.as_deref());
    Happened { name: Some(format!("{}:{state}", delivery.key)), ..facts.happened(What::Delivery, from) }
}

/// What happened to the job itself.
pub(crate) fn of_job(job: &Job, what: What) -> Happened {
    let mut facts = Facts::new(ORCHESTRATION)
        .of(job)
        .say("status", job.status.as_str())
        .fact("phase", Fact::Phase(job.phase))
        .count("currentTurn", job.current_turn)
        .count("maxTurns", job.max_turns)
        .say("sessionKey", &job.session_key)
        .say("targetSessionKey", &job.target_session_key)
        .say("fromAgent", words::agent_of(&job.session_key))
        .say("toAgent", words::agent_of(&job.target_session_key))
        .count("retryCount", job.retry_count)
        .count("resumeCount", job.resume_count)
        .maybe("lastError", job.last_error.as_deref());
    if let Some(at) = job.next_try_at {
        facts = facts.count("nextTryAt", at);
    }
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
