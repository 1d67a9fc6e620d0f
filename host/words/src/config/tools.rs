//! What the tools of agents may do beyond the deployment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::a2a::AgentToAgent;
use crate::schema;

/// The tools that an agent may be allowed to call; `tools` holds itself to this list.
pub const TOOL_NAMES: [&str; 34] = [
    "task_start",
    "task_update",
    "task_complete",
    "task_cancel",
    "task_block",
    "task_resume",
    "task_approve",
    "task_list",
    "task_status",
    "task_backlog_add",
    "task_backlog_pick",
    "plan_submit",
    "plan_approve",
    "plan_reject",
    "milestone_list",
    "milestone_create",
    "milestone_update",
    "milestone_delete",
    "milestone_item_add",
    "milestone_item_set",
    "milestone_item_delete",
    "todo_list",
    "todo_add",
    "todo_set",
    "todo_delete",
    "files_read",
    "files_write",
    "files_list",
    "sessions_send",
    "sessions_spawn",
    "sessions_list",
    "sessions_history",
    "http_fetch",
    "ask_human",
];

/// What is wrong with the name of a tool, or the beginning of some with `*`; none if it means something.
pub(super) fn name_fault(pattern: &str) -> Option<String> {
    let fits = match pattern.strip_suffix('*') {
        Some(beginning) => TOOL_NAMES.iter().any(|name| name.starts_with(beginning)),
        None => TOOL_NAMES.contains(&pattern),
    };
    let shown: String = pattern.chars().take(80).collect();
    (!fits).then(|| match schema::nearest(pattern.trim_end_matches('*'), TOOL_NAMES.into_iter()) {
        Some(near) => format!("there is no tool `{shown}`; did you mean `{near}`?"),
        None => format!("there is no tool `{shown}`; `tools.catalog` lists them"),
    })
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Tools {
    /// Who may send to whom.
    pub agent_to_agent: AgentToAgent,
    pub http_fetch: HttpFetch,
}

/// The tool `http_fetch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct HttpFetch {
    /// Where it may go; nowhere unless something stands here.
    #[schemars(length(max = 1_000))]
    pub hosts: Vec<ReachableHost>,
    /// How long one fetch may take, redirects included.
    #[schemars(range(min = 100, max = 600_000))]
    pub timeout_ms: u64,
    /// Of an answer no more than this is read.
    #[schemars(range(min = 1, max = 4_194_304))]
    pub response_bytes: usize,
}

/// A host that may be reached: a name, `*.` and a name for all below it, or an address; with a port, or else the scheme's own; with a scheme
/// before it (`https://`, `http://`, `wss://`, `ws://`) only by TLS, or only without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend(
    "pattern" = r"^((https?|wss?)://)?((\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]{2,45}\])(:[1-9][0-9]{0,4})?$",
    "maxLength" = 268,
    "x-advice" = "write a name, `*.` and a name, or an address (IPv6 in brackets), and the port if it is not the scheme's own: api.example.com, *.example.org, http://127.0.0.1:8080"
))]
pub struct ReachableHost(pub String);

impl Default for HttpFetch {
    fn default() -> Self {
        // With its quoting this fits into what a model is given of a result.
        Self { hosts: Vec::new(), timeout_ms: 20_000, response_bytes: 32 * 1024 }
    }
}
