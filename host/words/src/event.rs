//! An event: one thing that happened, as a line of the log and as a message to subscribers.
//! Keeps true: every event of ours has an id, a time and an `eventRole`. Never: decides who hears of it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::id;

/// What an event is about; the four roles are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    #[serde(rename = "conversation.main")]
    Conversation,
    #[serde(rename = "delegation.subagent")]
    Delegation,
    #[serde(rename = "orchestration.task")]
    Orchestration,
    #[serde(rename = "system.observability")]
    System,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Conversation, Self::Delegation, Self::Orchestration, Self::System];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation.main",
            Self::Delegation => "delegation.subagent",
            Self::Orchestration => "orchestration.task",
            Self::System => "system.observability",
        }
    }

    /// The role of all events whose type begins like this, ours or not; none where it takes more than the type to tell.
    pub fn of_type(kind: &str) -> Option<Self> {
        let (group, _) = kind.split_once('.')?;
        match group {
            "task" | "continuation" | "plan" | "unblock" | "zombie" | "job" | "human_query" => {
                Some(Self::Orchestration)
            }
            "milestone" | "plugin" | "policy" | "channel" | "log" | "config" | "gateway" => Some(Self::System),
            _ => None,
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// One table of all kinds: the name, the word in the log, and the role it has unless its emitter knows better.
macro_rules! kinds {
    ($($kind:ident $word:literal $role:ident,)*) => {
        /// Every type of event that this gateway writes. Others are kept and served as they are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }

            /// A message between agents is a delegation instead when one of them is a sub-agent; its emitter says so.
            pub fn role(self) -> Role {
                match self {
                    $(Self::$kind => Role::$role,)*
                }
            }
        }
    };
}

kinds! {
    A2aSend "a2a.send" Conversation,
    A2aResponse "a2a.response" Conversation,
    A2aComplete "a2a.complete" Conversation,
    A2aSpawn "a2a.spawn" Delegation,
    A2aSpawnResult "a2a.spawn_result" Delegation,
    A2aAutoRoute "a2a.auto_route" Orchestration,
    A2aDelivery "a2a.delivery" System,
    TaskStarted "task.started" Orchestration,
    TaskUpdated "task.updated" Orchestration,
    TaskCompleted "task.completed" Orchestration,
    TaskCancelled "task.cancelled" Orchestration,
    TaskFailed "task.failed" Orchestration,
    TaskAbandoned "task.abandoned" Orchestration,
    TaskApproved "task.approved" Orchestration,
    TaskBlocked "task.blocked" Orchestration,
    TaskResumed "task.resumed" Orchestration,
    TaskBacklogAdded "task.backlog_added" Orchestration,
    TaskBacklogPicked "task.backlog_picked" Orchestration,
    TaskResumedAfterHumanQuery "task.resumed_after_human_query" Orchestration,
    ContinuationSent "continuation.sent" Orchestration,
    ContinuationBackoff "continuation.backoff" Orchestration,
    ContinuationSelfDriving "continuation.self_driving" Orchestration,
    ContinuationStopGuardBlocked "continuation.stop_guard_blocked" Orchestration,
    UnblockRequested "unblock.requested" Orchestration,
    UnblockFailed "unblock.failed" Orchestration,
    PlanSubmitted "plan.submitted" Orchestration,
    PlanApproved "plan.approved" Orchestration,
    PlanRejected "plan.rejected" Orchestration,
    ZombieDetected "zombie.detected" Orchestration,
    ZombieAbandoned "zombie.abandoned" Orchestration,
    HumanQueryRequested "human_query.requested" Orchestration,
    HumanQueryAnswered "human_query.answered" Orchestration,
    HumanQueryExpired "human_query.expired" Orchestration,
    JobCreated "job.created" Orchestration,
    JobResumed "job.resumed" Orchestration,
    JobRetried "job.retried" Orchestration,
    JobCompleted "job.completed" Orchestration,
    JobFailed "job.failed" Orchestration,
    JobAbandoned "job.abandoned" Orchestration,
    JobCancelled "job.cancelled" Orchestration,
    MilestoneSyncFailed "milestone.sync_failed" System,
    GatewayStarted "gateway.started" System,
    GatewayStopped "gateway.stopped" System,
    ConfigApplied "config.applied" System,
    ConfigRefused "config.refused" System,
    LogRepaired "log.repaired" System,
    PluginLoaded "plugin.loaded" System,
    PluginSwapped "plugin.swapped" System,
    PluginRejected "plugin.rejected" System,
    PluginTrapped "plugin.trapped" System,
    PluginLimit "plugin.limit" System,
    PluginDenied "plugin.denied" System,
    PluginFallback "plugin.fallback" System,
    PluginQuarantined "plugin.quarantined" System,
    PluginReleased "plugin.released" System,
    PluginRolledBack "plugin.rolled_back" System,
    PluginUnloaded "plugin.unloaded" System,
    PolicyDecided "policy.decided" System,
    ChannelStatus "channel.status" System,
    ChannelRefused "channel.refused" System,
}

/// A line of the log: `{id, type, agentId, ts, data}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// `<kind>:<record>:<rev>` for what a record of the journal caused, so that it is known when it comes twice; else a UUIDv7.
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub agent_id: String,
    pub ts: Timestamp,
    pub data: Map<String, Value>,
}

/// The emitter of what no agent did.
pub const SYSTEM: &str = "system";

impl Event {
    /// An event of the gateway itself.
    pub fn system(kind: Kind, ts: Timestamp, data: Map<String, Value>) -> Self {
        Self::of(SYSTEM, kind, ts, data)
    }

    /// What an agent did. An `eventRole` that `data` has stays.
    pub fn of(agent: &str, kind: Kind, ts: Timestamp, data: Map<String, Value>) -> Self {
        Self::named(id::fresh(ts).to_string(), agent, kind, ts, data)
    }

    /// Like [`Event::of`], under the name that it has when it is told again.
    pub fn named(id: String, agent: &str, kind: Kind, ts: Timestamp, mut data: Map<String, Value>) -> Self {
        data.entry("eventRole").or_insert_with(|| kind.role().as_str().into());
        Self { id, kind: kind.as_str().into(), agent_id: agent.into(), ts, data }
    }

    /// Names it by the record that caused it, so that it is known when it is told again.
    pub fn caused_by(mut self, record: &str, id: &str, rev: impl std::fmt::Display) -> Self {
        self.id = format!("{record}:{id}:{rev}");
        self
    }
}

/// An event as its line, for what goes into a record and into the log alike.
#[derive(Clone, Debug)]
pub struct Written {
    kind: Cow<'static, str>,
    line: Box<RawValue>,
    /// None where nobody had taken it apart so far.
    event: Option<Event>,
}

impl From<Event> for Written {
    fn from(event: Event) -> Self {
        let line = to_raw_value(&event).expect("an event is plain JSON");
        Self { kind: event.kind.clone().into(), line, event: Some(event) }
    }
}

impl Written {
    /// An event whose facts, a JSON object with an `eventRole`, are written already.
    pub fn named(id: &str, agent: &str, kind: Kind, ts: Timestamp, data: &RawValue) -> Self {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Line<'a> {
            id: &'a str,
            #[serde(rename = "type")]
            kind: &'a str,
            agent_id: &'a str,
            ts: Timestamp,
            data: &'a RawValue,
        }
        let line = Line { id, kind: kind.as_str(), agent_id: agent, ts, data };
        let line = to_raw_value(&line).expect("an event is plain JSON");
        Self { kind: kind.as_str().into(), line, event: None }
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// JSON on one line.
    pub fn line(&self) -> &str {
        self.line.get()
    }

    /// The event, for those who want to hear of it.
    pub fn event(&self) -> Event {
        let read = || serde_json::from_str(self.line.get()).expect("a line of ours is an event");
        self.event.clone().unwrap_or_else(read)
    }
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.line.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own_and_writes_its_role() {
        let mut words = std::collections::BTreeSet::new();
        for kind in Kind::ALL {
            let event = Event::system(*kind, Timestamp(1), Map::new());
            let line = serde_json::to_value(&event).expect("an event is plain JSON");
            assert_eq!(line["type"], kind.as_str());
            assert_eq!(line["data"]["eventRole"], kind.role().as_str());
            assert!(words.insert(kind.as_str()), "{} twice", kind.as_str());
        }
    }

    #[test]
    fn an_event_is_the_same_however_it_was_written() {
        let facts = r#"{"eventRole":"system.observability","n":1}"#;
        let raw: Box<RawValue> = serde_json::from_str(facts).expect("an object");
        let data = serde_json::from_str(facts).expect("an object");
        let event = Event::named("job:1:1.0".into(), "eden", Kind::A2aDelivery, Timestamp(7), data);
        let (whole, raw) =
            (Written::from(event.clone()), Written::named("job:1:1.0", "eden", Kind::A2aDelivery, Timestamp(7), &raw));
        assert_eq!((whole.line(), whole.kind()), (raw.line(), raw.kind()));
        assert_eq!((raw.event(), whole.event()), (event.clone(), event));
    }

    #[test]
    fn roles_are_written_as_they_are_read() {
        for role in Role::ALL {
            assert_eq!(serde_json::json!(role), role.as_str());
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("conversation"), None);
    }
}
