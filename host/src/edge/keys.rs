//! Session keys as clients write them: whole, or short for a session of the agent that is meant.

use super::{Context, ErrorShape};
use crate::id::AgentId;
use crate::session_key::SessionKey;
use crate::sessions;

/// The session that a client means. `main` and other tails belong to the agent it names, else to the default one.
pub(super) fn session_of(context: &Context, key: &str, agent: Option<&str>) -> Result<SessionKey, ErrorShape> {
    let bad = |error: crate::session_key::BadSessionKey| ErrorShape::invalid(error.to_string());
    if key.to_lowercase().starts_with("agent:") {
        return known(context, SessionKey::parse(key).map_err(bad)?);
    }
    let settings = context.settings.current();
    if agent.is_none() && settings.config.agents.list.iter().any(|agent| agent.id.as_ref() == key) {
        return SessionKey::parse(key).map_err(bad);
    }
    SessionKey::of(agent_of(context, agent)?, key).map_err(bad)
}

/// The agent that a client names, else the default one.
pub(super) fn agent_of(context: &Context, id: Option<&str>) -> Result<AgentId, ErrorShape> {
    let settings = context.settings.current();
    let agents = &settings.config.agents;
    match id {
        Some(id) => {
            let found = agents.list.iter().find(|agent| agent.id.as_ref() == id.to_lowercase());
            found.map(|agent| agent.id.clone()).ok_or_else(|| unknown_agent(id))
        }
        None => agents
            .default_id()
            .cloned()
            .ok_or_else(|| ErrorShape::invalid("there are no agents; add some to `agents.list`")),
    }
}

fn known(context: &Context, key: SessionKey) -> Result<SessionKey, ErrorShape> {
    agent_of(context, Some(key.agent.as_ref())).map(|_| key)
}

fn unknown_agent(id: &str) -> ErrorShape {
    let shown: String = id.chars().take(64).collect();
    ErrorShape::invalid(format!("unknown agent id {shown:?}; `agents.list` and `chela agents` tell which there are"))
        .with_details(serde_json::json!({ "code": "UNKNOWN_AGENT_ID", "agentId": shown }))
}

impl From<sessions::Error> for ErrorShape {
    fn from(error: sessions::Error) -> Self {
        let said = error.to_string();
        match error {
            sessions::Error::UnknownAgent(id) => unknown_agent(&id),
            sessions::Error::Stopping => {
                Self::unavailable(said).with_details(serde_json::json!({ "reason": "gateway-restarting" }))
            }
            sessions::Error::Full { .. } | sessions::Error::Busy { .. } => Self::unavailable(said),
            error if error.is_callers() => Self::invalid(said),
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "a session could not be used");
                Self::unavailable(said)
            }
        }
    }
}
