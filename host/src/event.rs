//! An event: one thing that happened, as a line of the log and as a message to subscribers.
//! Keeps true: every event of ours has an id, a time and an `eventRole`. Never: decides who hears of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::id;

/// Every type of event that this gateway writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    ConfigApplied,
    ConfigRefused,
    GatewayStarted,
    GatewayStopped,
    LogRepaired,
    PluginDenied,
    PluginFallback,
    PluginLimit,
    PluginLoaded,
    PluginQuarantined,
    PluginRejected,
    PluginReleased,
    PluginRolledBack,
    PluginSwapped,
    PluginTrapped,
    PluginUnloaded,
    PolicyDecided,
}

/// What an event is about; the four roles are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

impl Kind {
    pub const ALL: [Self; 17] = [
        Self::ConfigApplied,
        Self::ConfigRefused,
        Self::GatewayStarted,
        Self::GatewayStopped,
        Self::LogRepaired,
        Self::PluginDenied,
        Self::PluginFallback,
        Self::PluginLimit,
        Self::PluginLoaded,
        Self::PluginQuarantined,
        Self::PluginRejected,
        Self::PluginReleased,
        Self::PluginRolledBack,
        Self::PluginSwapped,
        Self::PluginTrapped,
        Self::PluginUnloaded,
        Self::PolicyDecided,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigApplied => "config.applied",
            Self::ConfigRefused => "config.refused",
            Self::GatewayStarted => "gateway.started",
            Self::GatewayStopped => "gateway.stopped",
            Self::LogRepaired => "log.repaired",
            Self::PluginDenied => "plugin.denied",
            Self::PluginFallback => "plugin.fallback",
            Self::PluginLimit => "plugin.limit",
            Self::PluginLoaded => "plugin.loaded",
            Self::PluginQuarantined => "plugin.quarantined",
            Self::PluginRejected => "plugin.rejected",
            Self::PluginReleased => "plugin.released",
            Self::PluginRolledBack => "plugin.rolled_back",
            Self::PluginSwapped => "plugin.swapped",
            Self::PluginTrapped => "plugin.trapped",
            Self::PluginUnloaded => "plugin.unloaded",
            Self::PolicyDecided => "policy.decided",
        }
    }

    pub fn role(self) -> Role {
        match self {
            Self::ConfigApplied
            | Self::ConfigRefused
            | Self::GatewayStarted
            | Self::GatewayStopped
            | Self::LogRepaired
            | Self::PluginDenied
            | Self::PluginFallback
            | Self::PluginLimit
            | Self::PluginLoaded
            | Self::PluginQuarantined
            | Self::PluginRejected
            | Self::PluginReleased
            | Self::PluginRolledBack
            | Self::PluginSwapped
            | Self::PluginTrapped
            | Self::PluginUnloaded
            | Self::PolicyDecided => Role::System,
        }
    }
}

/// A line of the log: `{id, type, agentId, ts, data}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: Uuid,
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
    pub fn system(kind: Kind, ts: Timestamp, mut data: Map<String, Value>) -> Self {
        data.insert("eventRole".into(), serde_json::json!(kind.role()));
        Self { id: id::fresh(ts), kind: kind.as_str().into(), agent_id: SYSTEM.into(), ts, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_writes_its_role() {
        for kind in Kind::ALL {
            let event = Event::system(kind, Timestamp(1), Map::new());
            let line = serde_json::to_value(&event).expect("an event is plain JSON");
            assert_eq!(line["type"], kind.as_str());
            assert_eq!(line["data"]["eventRole"], "system.observability");
        }
    }
}
