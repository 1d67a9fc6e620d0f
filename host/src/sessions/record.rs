//! What the journal keeps of sessions and runs. A recorded step is never done again.

pub use chela_flow::Chain;
use chela_flow::Place;
use chela_model::{Answer, Usage};
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::config::ModelRef;
use crate::journal::{self, Record};
use crate::session_key::SessionKey;

pub const SESSION: &str = "session";
pub(super) const RUN: &str = "run";
pub(super) const STEP: &str = "run-step";
pub(super) const USAGE: &str = "usage";

/// The method whose messages have a conversation summed up, and are in no prompt.
pub const COMPACT: &str = "sessions.compact";

/// The name of the transcript of a session, by the session's record.
pub fn transcript_name(record: &Record) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    serde_json::from_slice::<Named>(&record.body).ok().map(|named| named.id)
}

/// A session's own facts; what was said is in its transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub key: String,
    /// Names its transcript.
    pub id: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Counts resets.
    #[serde(default)]
    pub revision: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(default)]
    pub usage: Usage,
    /// Tokens of the last prompt: how full the window is.
    #[serde(default)]
    pub context_tokens: u64,
    /// The same by our own estimate, since not every provider counts.
    #[serde(default)]
    pub weight: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    pub id: String,
    pub status: Status,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub provider: String,
    pub model: String,
}

/// Where a message comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    pub kind: OriginKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_session_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_tool: Option<String>,
    /// What a model is told in front of it, where that is more than whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OriginKind {
    #[default]
    ExternalUser,
    InterSession,
    InternalSystem,
}

/// What a message between agents is a part of; what its run begins inherits it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub work_session_id: String,
    pub conversation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub depth: u32,
    /// How many sub-agents deep it is.
    #[serde(default)]
    pub spawns: u32,
    /// The flow whose message this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
}

/// A message that was accepted; it never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// The run's id: the sender's idempotency key.
    pub id: String,
    pub session: String,
    pub session_id: String,
    /// Counts all messages of the gateway: the order within a lane.
    pub order: u64,
    /// By which method it came: the same key by another one is another thing.
    pub method: String,
    pub at: Timestamp,
    pub text: String,
    #[serde(default)]
    pub origin: Origin,
    pub chain: Chain,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    #[serde(flatten)]
    pub accepted: Accepted,
    /// Starts of the gateway that found it unfinished.
    pub resumed: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Its rows are on the disk in the transcript, and its steps are gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
}

impl Run {
    /// From its record, read twice: once for the message and once for the rest, which takes a fraction of the time of taking both apart.
    pub(super) fn read(record: &Record) -> Result<Self, journal::Error> {
        #[derive(Deserialize)]
        struct Rest {
            #[serde(default)]
            resumed: u32,
            ended: Option<Ended>,
            #[serde(default)]
            settled: bool,
        }
        let accepted = journal::body(RUN, record)?;
        let Rest { resumed, ended, settled } = journal::body(RUN, record)?;
        Ok(Self { accepted, resumed, ended, settled })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    Error,
    Aborted,
    Timeout,
}

/// How a run has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    pub status: Status,
    pub started_at: Timestamp,
    pub at: Timestamp,
    pub reply: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `rate_limit`, `context_length` and such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// It may go better another time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transient: bool,
    pub stop: String,
    #[serde(default)]
    pub usage: Usage,
    #[serde(default)]
    pub context_tokens: u64,
    pub provider: String,
    pub model: String,
    pub steps: u32,
}

/// One thing that a run has done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
pub enum Step {
    /// What came before is told in short from here on.
    #[serde(rename_all = "camelCase")]
    Compacted { summary: String, rows: u64, at: Timestamp },
    #[serde(rename_all = "camelCase")]
    Answered {
        answer: Answer,
        provider: String,
        model: String,
        at: Timestamp,
        /// What it asks of people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<HumanQuery>,
    },
    /// The tasks that it works for from here on.
    #[serde(rename_all = "camelCase")]
    About { task_ids: Vec<String>, at: Timestamp },
    /// A call is about to be made.
    #[serde(rename_all = "camelCase")]
    Intent { call_id: String, at: Timestamp },
    #[serde(rename_all = "camelCase")]
    Result { call_id: String, tool: String, text: String, is_error: bool, at: Timestamp },
    /// Its message was taken back before anybody read it: no prompt has it.
    Withdrawn { at: Timestamp },
    /// What was said when it was cut off.
    #[serde(rename_all = "camelCase")]
    Partial { text: String, provider: String, model: String, at: Timestamp },
}

/// A question to people, as a part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HumanQuery {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub question: String,
    pub questions: Vec<String>,
}

/// What an agent has used on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DayUsage {
    pub tokens: u64,
}

/// Where the people of a session are: by its key, or by the channel that a message to it came from.
pub fn place_of(session: &SessionKey, channel: Option<&str>) -> Option<Place> {
    let place = |channel: &str, kind: &str, place: &str, thread: Option<&str>| Place {
        channel: channel.to_owned(),
        place: format!("{kind}:{place}"),
        thread: thread.map(str::to_owned),
    };
    match (session.channel(), session.peer(), channel) {
        (Some((channel, kind, at, thread)), ..) => Some(place(channel, kind, at, thread)),
        (None, Some(peer), Some(channel)) => Some(place(channel, "direct", peer, None)),
        (None, ..) => None,
    }
}

pub(super) fn step_id(run: &str, nth: u32) -> String {
    format!("{run}#{nth}")
}

/// The run and the place of a step, from its id.
pub(super) fn step_of(id: &str) -> Option<(&str, u32)> {
    let (run, nth) = id.rsplit_once('#')?;
    Some((run, nth.parse().ok()?))
}
