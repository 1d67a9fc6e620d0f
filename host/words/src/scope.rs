//! What a caller may do: three scopes, each wider one holding the narrower.
//! Keeps true: a scope that is not granted is never implied by a name. Never: decides who a caller is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ordered from narrow to wide: to hold one is to hold all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// See state: agents, events, status, metrics.
    #[serde(rename = "operator.read")]
    Read,
    /// Act within the deployment: send, answer, move tasks.
    #[serde(rename = "operator.write")]
    Write,
    /// Change the deployment itself: configuration, plugins, sessions' fate.
    #[serde(rename = "operator.admin")]
    Admin,
}

impl Scope {
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "operator.read",
            Self::Write => "operator.write",
            Self::Admin => "operator.admin",
        }
    }

    pub fn holds(self, needed: Self) -> bool {
        self >= needed
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
