//! What tools of agents may reach.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::a2a::AgentToAgent;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Tools {
    /// Who may send to whom.
    pub agent_to_agent: AgentToAgent,
}
