//! The record of a flow, as it is kept and as people read it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chain::Chain;

/// How a flow stands. A finished one never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// It waits: for its turn in a lane, or for the time of its next try.
    Pending,
    /// The other side works on its current turn.
    Running,
    Completed,
    Failed,
    Abandoned,
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::Abandoned, Self::Cancelled];

    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Abandoned => "ABANDONED",
            Self::Cancelled => "CANCELLED",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str().eq_ignore_ascii_case(word))
    }
}

/// Where a flow stands on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The current turn is to be sent.
    #[default]
    Send,
    /// The first reply is awaited.
    Wait,
    Pingpong,
    Announce,
    Done,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A message to another session.
    #[default]
    Send,
    /// A sub-agent that works for a while.
    Spawn,
    /// A message in a channel that named another agent.
    AutoRoute,
}

/// How far a message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// It is to be sent again.
    Waiting,
    /// The target's session has it.
    Stored,
    /// The target works on it.
    Delivered,
    Answered,
    Failed,
}

/// A try that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub key: String,
    pub stored_at: u64,
    pub failed_at: u64,
    pub error: String,
    /// Whether it might go better another time.
    pub transient: bool,
}

/// One message of a flow, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub turn: u32,
    /// Who is to answer it.
    pub session_key: String,
    /// The idempotency key of the current try, which is its run.
    pub key: String,
    pub state: DeliveryState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tries that failed before the current one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

/// Where people are spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    pub channel: String,
    /// `channel:7`, `direct:mina`.
    pub place: String,
    #[serde(default)]
    pub thread: Option<String>,
}

/// Who is told what came of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "kebab-case")]
pub enum Announced {
    /// There is no channel.
    #[default]
    Nobody,
    /// People, in a channel.
    Channel(Place),
    /// Another session: the orchestrator of a worker, the parent of a sub-agent.
    #[serde(rename_all = "camelCase")]
    Session { session_key: String },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnnounceState {
    #[default]
    Pending,
    NoChannel,
    /// The agent had nothing to tell, or the flow came to nothing.
    Skipped,
    /// It lies in the outbox, or in the other session.
    Queued,
    Failed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announce {
    #[serde(flatten)]
    pub to: Announced,
    pub state: AnnounceState,
    /// The question what is to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Delivery>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    pub job_id: String,
    pub run_id: String,
    #[serde(default)]
    pub kind: Kind,
    pub status: Status,
    #[serde(default)]
    pub phase: Phase,
    pub session_key: String,
    pub target_session_key: String,
    pub conversation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_conversation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_work_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default)]
    pub depth: u32,
    #[serde(default)]
    pub chain: Chain,
    pub message: String,
    pub max_turns: u32,
    /// The turn that is under way, or next.
    pub current_turn: u32,
    pub retry_count: u32,
    pub max_retries: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    pub created_at: u64,
    pub updated_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<u64>,
    pub resume_count: u32,
    /// When a try that failed is made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<u64>,
    /// Until when the sender waits for the first reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_until: Option<u64>,
    /// The call that made it: the same call again is the same job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    #[serde(default)]
    pub turns: Vec<Delivery>,
    #[serde(default)]
    pub announce: Announce,
    /// Counts the records of this job; its events are named by it.
    #[serde(default)]
    pub rev: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
}

impl Job {
    /// The message that is under way.
    pub fn current(&self) -> Option<&Delivery> {
        match self.phase {
            Phase::Announce => self.announce.asked.as_ref(),
            Phase::Send | Phase::Wait | Phase::Pingpong => {
                self.turns.last().filter(|delivery| delivery.turn == self.current_turn)
            }
            Phase::Done => None,
        }
    }

    pub(crate) fn current_mut(&mut self) -> Option<&mut Delivery> {
        let turn = self.current_turn;
        match self.phase {
            Phase::Announce => self.announce.asked.as_mut(),
            Phase::Send | Phase::Wait | Phase::Pingpong => {
                self.turns.last_mut().filter(|delivery| delivery.turn == turn)
            }
            Phase::Done => None,
        }
    }

    /// The first message and what became of it.
    pub fn first(&self) -> Option<&Delivery> {
        self.turns.iter().find(|delivery| delivery.turn == 0)
    }

    /// Who answers a turn: the target the even ones, the requester the odd ones.
    pub fn answerer(&self, turn: u32) -> &str {
        if turn.is_multiple_of(2) { &self.target_session_key } else { &self.session_key }
    }

    /// The other side of a turn.
    pub fn asker(&self, turn: u32) -> &str {
        self.answerer(turn + 1)
    }
}
