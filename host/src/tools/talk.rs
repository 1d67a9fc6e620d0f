//! Tools by which agents see sessions and speak to each other.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Options};
use crate::bus::data;
use crate::jobs::{self, Begun, Cause, Reply};
use crate::schema::Schema;
use crate::session_key::SessionKey;
use crate::sessions::{History, text_of};
use crate::tasks::ToolSpec;

/// How long a send waits for the reply unless it says otherwise.
const WAIT_S: u64 = 30;
const WAIT_S_MAX: u64 = 3_600;
/// The longest run of a sub-agent that may be asked for; the limits of runs stand over it.
const RUN_S_MAX: u64 = 86_400;
const ROWS_MAX: usize = 50;
const REPLY_CHARS_MAX: usize = 16_000;

pub(super) const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "sessions_send",
        description: "Send a message to another agent and wait for its reply (timeoutSeconds 0: do not wait).",
        schema: Schema::of::<Send>,
        reads: false,
    },
    ToolSpec {
        name: "sessions_spawn",
        description: "Start a sub-agent on a task of its own; its result comes to you as a message.",
        schema: Schema::of::<Spawn>,
        reads: false,
    },
    ToolSpec {
        name: "sessions_list",
        description: "List sessions of the team, the latest first; `more` counts those that are left out.",
        schema: Schema::of::<List>,
        reads: true,
    },
    ToolSpec {
        name: "sessions_history",
        description: "Read the last messages of a session.",
        schema: Schema::of::<Read>,
        reads: true,
    },
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Send {
    /// A session's key
    #[serde(default)]
    session_key: Option<String>,
    /// An agent's id: its main session
    #[serde(default)]
    agent_id: Option<String>,
    /// Either of the two
    #[serde(default)]
    target: Option<String>,
    /// A session's label
    #[serde(default)]
    label: Option<String>,
    #[schemars(length(min = 1))]
    message: String,
    #[serde(default)]
    #[schemars(range(max = WAIT_S_MAX))]
    timeout_seconds: Option<u64>,
    /// Goes on with this conversation
    #[serde(default)]
    conversation_id: Option<String>,
    #[serde(default)]
    parent_conversation_id: Option<String>,
    #[serde(default)]
    work_session_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spawn {
    /// What it is to do and report
    #[schemars(length(min = 1))]
    task: String,
    /// Whose sub-agent; else your own
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    #[schemars(length(max = 200))]
    label: Option<String>,
    #[serde(default)]
    #[schemars(range(max = RUN_S_MAX))]
    run_timeout_seconds: Option<u64>,
    #[serde(default)]
    work_session_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct List {
    #[serde(default)]
    agent_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Read {
    session_key: String,
    #[serde(default)]
    #[schemars(range(min = 1, max = ROWS_MAX))]
    limit: Option<usize>,
}

pub(super) async fn run(options: &Options, call: &Call, tool: &str, args: Map<String, Value>) -> Map<String, Value> {
    let args = Value::Object(args);
    let done = match tool {
        "sessions_send" => match serde_json::from_value(args) {
            Ok(send) => self::send(options, call, send).await,
            Err(error) => Err(Refused::said(error)),
        },
        "sessions_spawn" => match serde_json::from_value(args) {
            Ok(spawn) => self::spawn(options, call, spawn).await,
            Err(error) => Err(Refused::said(error)),
        },
        "sessions_list" => serde_json::from_value(args).map(|asked| list(options, asked)).map_err(Refused::said),
        _ => match serde_json::from_value(args) {
            Ok(asked) => read(options, asked).await.map_err(Refused::said),
            Err(error) => Err(Refused::said(error)),
        },
    };
    done.unwrap_or_else(|Refused { status, said }| data(json!({ "success": false, "status": status, "error": said })))
}

fn list(options: &Options, asked: List) -> Map<String, Value> {
    let of = |key: &SessionKey| asked.agent_id.as_deref().is_none_or(|agent| key.agent.as_ref() == agent);
    let found: Vec<_> = options.sessions.list().into_iter().filter(|(key, _)| of(key)).collect();
    let more = found.len().saturating_sub(ROWS_MAX);
    let rows: Vec<Value> = found
        .iter()
        .take(ROWS_MAX)
        .map(
            |(key, session)| json!({ "key": key.to_string(), "label": session.label, "updatedAt": session.updated_at }),
        )
        .collect();
    data(json!({ "success": true, "sessions": rows, "more": more }))
}

async fn read(options: &Options, asked: Read) -> Result<Map<String, Value>, String> {
    let key = SessionKey::parse(&asked.session_key).map_err(|error| error.to_string())?;
    let agents = &options.settings.current().config.agents.list;
    // The main session of an agent is there before anything was said in it.
    let is_agents = key.is_main() && agents.iter().any(|agent| agent.id == key.agent);
    if !is_agents && options.sessions.get(&key).is_none() {
        return Err(jobs::Error::NoSession(key.to_string()).to_string());
    }
    let history = History { limit: asked.limit.unwrap_or(20), offset: 0, before: None };
    let found = options.sessions.history(&key, history).await.map_err(|error| error.to_string())?;
    let rows = found.rows.iter().filter(|row| row["role"] == "user" || row["role"] == "assistant");
    let rows: Vec<Value> = rows.map(|row| json!({ "role": row["role"], "text": cut(&text_of(row)) })).collect();
    Ok(data(json!({ "success": true, "messages": rows })))
}

async fn send(options: &Options, call: &Call, send: Send) -> Result<Map<String, Value>, Refused> {
    let (target, to_agent) = target_of(options, &send)?;
    let wait = send.timeout_seconds.unwrap_or(WAIT_S);
    let asked = jobs::Send {
        from: call.session.clone(),
        key: key_of(call)?,
        cause: call.run.as_ref().map(cause),
        target,
        to_agent,
        message: send.message,
        wait: Duration::from_secs(wait),
        conversation_id: send.conversation_id,
        parent_conversation_id: send.parent_conversation_id,
        work_session_id: send.work_session_id,
    };
    let begun = options.jobs.send(asked).await?;
    if begun.would_deadlock {
        return Ok(told(&begun, "accepted", json!({ "reason": "would_deadlock" })));
    }
    if wait == 0 {
        let key = SessionKey::parse(&begun.job.target_session_key).ok();
        let ahead = key.map_or(0, |key| options.sessions.queued(&key));
        let state = if ahead == 0 { "running" } else { "queued" };
        return Ok(told(&begun, "accepted", json!({ "targetDisposition": state, "queued": ahead })));
    }
    Ok(match options.jobs.first_reply(&begun.job).await? {
        Reply::NotYet => {
            let said = format!("no reply within {wait} s; it still runs, and you hear of it when it fails");
            told(&begun, "timeout", json!({ "error": said, "sentBeforeError": true }))
        }
        Reply::Answered(reply) if reply.trim().is_empty() => told(&begun, "no_reply", json!({})),
        Reply::Answered(reply) => told(&begun, "ok", json!({ "reply": reply })),
        Reply::Failed { error, .. } => told(&begun, "error", json!({ "error": error, "sentBeforeError": true })),
    })
}

async fn spawn(options: &Options, call: &Call, spawn: Spawn) -> Result<Map<String, Value>, Refused> {
    let agent = match &spawn.agent_id {
        Some(id) => id.parse().map_err(|error: crate::id::BadAgentId| Refused::said(error))?,
        None => call.session.agent.clone(),
    };
    let asked = jobs::Spawn {
        from: call.session.clone(),
        key: key_of(call)?,
        cause: call.run.as_ref().map(cause),
        agent,
        task: spawn.task,
        label: spawn.label,
        run_timeout: spawn.run_timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
        work_session_id: spawn.work_session_id,
    };
    let begun = options.jobs.spawn(asked).await?;
    let mut answer = told(&begun, "accepted", json!({}));
    answer.insert("childSessionKey".into(), json!(begun.job.target_session_key));
    answer.insert("note".into(), json!("its result comes to you as a message of its own"));
    Ok(answer)
}

fn cause(run: &super::InRun) -> Cause {
    Cause { chain: run.chain.clone(), part: run.part.clone() }
}

/// What tells that a call was made before: its place in a run, or the key that a program gives.
fn key_of(call: &Call) -> Result<Option<String>, Refused> {
    match (&call.run, &call.key) {
        (Some(run), _) => Ok(Some(format!("{}:{}", run.run, run.call))),
        (None, Some(key)) => Ok(Some(crate::results::Key::given(key).map_err(Refused::said)?.digits())),
        (None, None) => Ok(None),
    }
}

fn told(begun: &Begun, status: &str, rest: Value) -> Map<String, Value> {
    let job = &begun.job;
    let mut answer = data(json!({
        "success": status != "error", "status": status, "runId": job.run_id, "sessionKey": job.target_session_key,
        "conversationId": job.conversation_id, "workSessionId": job.work_session_id,
    }));
    answer.extend(data(rest));
    answer
}

/// A call that sent nothing.
struct Refused {
    status: &'static str,
    said: String,
}

impl Refused {
    fn said(said: impl ToString) -> Self {
        Self { status: "error", said: said.to_string() }
    }
}

impl From<jobs::Error> for Refused {
    fn from(error: jobs::Error) -> Self {
        let status = if matches!(error, jobs::Error::Forbidden { .. }) { "forbidden" } else { "error" };
        Self { status, said: error.to_string() }
    }
}

/// The session that is meant, and whether its agent was named alone.
fn target_of(options: &Options, send: &Send) -> Result<(SessionKey, bool), Refused> {
    let named: Vec<&String> = [&send.session_key, &send.agent_id, &send.target].into_iter().flatten().collect();
    let found = match (named.as_slice(), &send.label) {
        ([name], None) => {
            let key = SessionKey::parse(name).map_err(Refused::said)?;
            let alone = key.is_main() && !name.contains(":main");
            return Ok((key, alone));
        }
        ([], Some(label)) => {
            let all = options.sessions.list();
            let mut fits = all.iter().filter(|(_, session)| session.label.as_deref() == Some(label));
            match (fits.next(), fits.next()) {
                (Some((key, _)), None) => Ok(key.clone()),
                (None, _) => Err(format!("no session has the label {label:?}; `sessions_list` tells which there are")),
                (Some(_), Some(_)) => Err(format!("several sessions have the label {label:?}; give the sessionKey")),
            }
        }
        _ => Err("name one target: agentId, sessionKey or label".into()),
    };
    found.map(|key| (key, false)).map_err(Refused::said)
}

fn cut(text: &str) -> String {
    text.chars().take(REPLY_CHARS_MAX).collect()
}
