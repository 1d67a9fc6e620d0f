//! Tools by which agents see sessions and speak to each other.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Options};
use crate::bus::data;
use crate::schema::Schema;
use crate::session_key::SessionKey;
use crate::sessions::{Asked, Chain, History, Origin, OriginKind, Progress, Status, text_of};
use crate::tasks::ToolSpec;

/// How long a send waits for the reply unless it says otherwise.
const WAIT_S: u64 = 30;
const WAIT_S_MAX: u64 = 3_600;
/// Forwards from agent to agent that one message may cause, one after the other.
const HOPS_MAX: u32 = 8;
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
        name: "sessions_list",
        description: "List sessions of the team.",
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
            Err(error) => Err(error.to_string()),
        },
        "sessions_list" => {
            serde_json::from_value(args).map(|asked| list(options, asked)).map_err(|error| error.to_string())
        }
        _ => match serde_json::from_value(args) {
            Ok(asked) => read(options, asked).await,
            Err(error) => Err(error.to_string()),
        },
    };
    done.unwrap_or_else(|said| data(json!({ "success": false, "status": "error", "error": said })))
}

fn list(options: &Options, asked: List) -> Map<String, Value> {
    let of = |key: &SessionKey| asked.agent_id.as_deref().is_none_or(|agent| key.agent.as_ref() == agent);
    let rows = options.sessions.list().into_iter().filter(|(key, _)| of(key)).take(ROWS_MAX);
    let rows: Vec<Value> = rows
        .map(
            |(key, session)| json!({ "key": key.to_string(), "label": session.label, "updatedAt": session.updated_at }),
        )
        .collect();
    data(json!({ "success": true, "sessions": rows }))
}

async fn read(options: &Options, asked: Read) -> Result<Map<String, Value>, String> {
    let key = SessionKey::parse(&asked.session_key).map_err(|error| error.to_string())?;
    let history = History { limit: asked.limit.unwrap_or(20), offset: 0, before: None };
    let found = options.sessions.history(&key, history).await.map_err(|error| error.to_string())?;
    let rows = found.rows.iter().filter(|row| row["role"] == "user" || row["role"] == "assistant");
    let rows: Vec<Value> = rows.map(|row| json!({ "role": row["role"], "text": cut(&text_of(row)) })).collect();
    Ok(data(json!({ "success": true, "messages": rows })))
}

async fn send(options: &Options, call: &Call, send: Send) -> Result<Map<String, Value>, String> {
    let target = target_of(options, &send)?;
    if target == call.session {
        return Err("this is your own session; a message to yourself would wait for itself".into());
    }
    let chain = match &call.run {
        Some(run) if run.chain.hop >= HOPS_MAX => {
            return Err(format!(
                "this message was forwarded {} times already (chain {}), which is as often as may; answer instead",
                run.chain.hop, run.chain.id
            ));
        }
        Some(run) => Some(Chain { id: run.chain.id.clone(), hop: run.chain.hop + 1 }),
        None => None,
    };
    let key = match (&call.run, &call.key) {
        // Keys of long chains would grow with every hop.
        (Some(run), _) => blake3::hash(format!("{}:{}", run.run, run.call).as_bytes()).to_hex()[..32].to_owned(),
        (None, Some(key)) => crate::results::Key::given(key).map_err(|error| error.to_string())?.digits(),
        (None, None) => crate::id::fresh(options.clock.now()).to_string(),
    };
    let deadlock = call.run.as_ref().is_some_and(|run| options.sessions.holds(&target, &run.chain.id));
    let origin = Origin {
        kind: OriginKind::InterSession,
        source_session_key: Some(call.session.to_string()),
        source_channel: None,
        source_tool: Some("sessions_send".into()),
    };
    let asked = Asked {
        key,
        method: "sessions_send",
        session: target.clone(),
        text: send.message,
        origin,
        chain,
        model: None,
        time_ms: None,
        instructions: None,
    };
    let receipt = options.sessions.accept(asked).await.map_err(|error| error.to_string())?;
    let told = |status: &str, rest: Value| {
        let mut answer = data(
            json!({ "success": status != "error", "status": status, "runId": receipt.run, "sessionKey": target.to_string() }),
        );
        answer.extend(data(rest));
        answer
    };
    let wait = send.timeout_seconds.unwrap_or(WAIT_S);
    if deadlock {
        return Ok(told("accepted", json!({ "reason": "would_deadlock" })));
    }
    if wait == 0 {
        let state = if matches!(receipt.progress, Progress::Running { .. }) { "running" } else { "queued" };
        return Ok(told("accepted", json!({ "targetDisposition": state })));
    }
    let ended = tokio::select! {
        ended = options.sessions.ended(&receipt.run) => ended.map_err(|error| error.to_string())?,
        () = options.clock.sleep(Duration::from_secs(wait)) => None,
    };
    Ok(match ended {
        None => told(
            "timeout",
            json!({ "error": format!("no reply within {wait} s; it still runs"), "sentBeforeError": true }),
        ),
        Some(ended) if ended.status == Status::Ok && ended.reply.trim().is_empty() => told("no_reply", json!({})),
        Some(ended) if ended.status == Status::Ok => told("ok", json!({ "reply": cut(&ended.reply) })),
        Some(ended) => told("error", json!({ "error": ended.error, "sentBeforeError": true })),
    })
}

fn target_of(options: &Options, send: &Send) -> Result<SessionKey, String> {
    let named: Vec<&String> = [&send.session_key, &send.agent_id, &send.target].into_iter().flatten().collect();
    match (named.as_slice(), &send.label) {
        ([name], None) => SessionKey::parse(name).map_err(|error| error.to_string()),
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
    }
}

fn cut(text: &str) -> String {
    text.chars().take(REPLY_CHARS_MAX).collect()
}
