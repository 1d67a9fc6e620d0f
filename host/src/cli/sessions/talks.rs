//! `chela sessions list|show|reset|compact|delete`: conversations with agents, by their keys.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::output::{columns, fit, plain, table, time, word};
use crate::cli::{Output, ask, block_on};
use crate::clock::{Clock, Timestamp};
use crate::layout::StateDir;
use crate::sessions::text_of;

const LABEL_MAX: usize = 40;
/// Of what a tool was given or answered.
const TOOL_CHARS_MAX: usize = 200;
const COMPACT_PATIENCE: Duration = Duration::from_secs(900);

#[derive(Args, Default, PartialEq)]
pub(super) struct List {
    /// Of this agent alone
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// How many, at most 1000 [default: 100]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

#[derive(Args)]
pub(super) struct Show {
    /// Such as agent:eden:main; an agent's id is its main conversation
    key: String,
    /// How many messages, at most 1000
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Args)]
pub(super) struct Reset {
    /// Such as agent:eden:main; an agent's id is its main conversation
    key: String,
}

#[derive(Args)]
pub(super) struct Compact {
    /// Such as agent:eden:main; an agent's id is its main conversation
    key: String,
}

#[derive(Args)]
pub(super) struct Delete {
    /// Such as agent:eden:direct:kim
    key: String,
    /// Erase its transcript instead of archiving it
    #[arg(long)]
    erase: bool,
}

/// There is no conversation under a key.
#[derive(Debug, thiserror::Error)]
#[error("there is no session {key}; `chela sessions` lists those that there are")]
struct Unknown {
    key: String,
}

fn call(dir: &StateDir, method: &str, params: Value) -> anyhow::Result<Value> {
    let client = ask::gateway(dir)?;
    Ok(block_on(client.call(method, params))??)
}

fn without_nulls(mut params: Value) -> Value {
    if let Some(params) = params.as_object_mut() {
        params.retain(|_, value| !value.is_null());
    }
    params
}

impl List {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let params = without_nulls(json!({ "agentId": self.agent, "limit": self.limit }));
        let page = call(dir, "sessions.list", params)?;
        let document = json!({
            "sessions": page["sessions"], "totalCount": page["totalCount"], "hasMore": page["hasMore"],
        });
        output.show(&document, || in_words(&page, columns(), Clock::system().now()));
        if page["hasMore"] == json!(true) {
            Output::note(&format!("there are {} in all; more with --limit N", page["totalCount"]));
        }
        Ok(())
    }
}

fn in_words(page: &Value, columns: Option<usize>, now: Timestamp) -> String {
    let sessions = page["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if sessions.is_empty() {
        return "no conversations yet; begin one with `chela chat AGENT`".into();
    }
    let mut rows = vec![["KEY", "STATUS", "QUEUED", "UPDATED (UTC)", "TOKENS", "LABEL"].map(str::to_owned).to_vec()];
    for session in sessions {
        rows.push(vec![
            word(&session["key"]),
            word(&session["status"]),
            word(&session["queued"]),
            time(&session["updatedAt"], now),
            word(&session["totalTokens"]),
            fit(&word(&session["label"]), LABEL_MAX),
        ]);
    }
    let text = table(&rows);
    let cut = |line: &str| columns.map_or_else(|| line.to_owned(), |columns| fit(line, columns));
    text.lines().map(cut).collect::<Vec<_>>().join("\n")
}

impl Show {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let client = ask::gateway(dir)?;
        let (session, found) = block_on(async {
            let described = client.call("sessions.describe", json!({ "key": self.key })).await?;
            let history = json!({ "sessionKey": self.key, "limit": self.limit });
            anyhow::Ok((described["session"].clone(), client.call("chat.history", history).await?))
        })??;
        if session.is_null() {
            return Err(Unknown { key: self.key.clone() }.into());
        }
        let document = json!({
            "session": session, "messages": found["messages"], "pendingInputs": found["pendingInputs"],
            "totalMessages": found["totalMessages"], "hasMore": found["hasMore"],
        });
        output.show(&document, || show_in_words(&document, Clock::system().now()));
        Ok(())
    }
}

fn show_in_words(document: &Value, now: Timestamp) -> String {
    let session = &document["session"];
    let head = format!(
        "{}  {}, {} tokens, updated {} UTC",
        word(&session["key"]),
        word(&session["status"]),
        word(&session["totalTokens"]),
        time(&session["updatedAt"], now)
    );
    let mut parts = vec![head];
    let rows = document["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if document["hasMore"] == json!(true) {
        parts.push(format!("the last {} of {} messages", rows.len(), document["totalMessages"]));
    }
    parts.extend(rows.iter().map(|row| row_in_words(row, now)).filter(|text| !text.is_empty()));
    if rows.is_empty() {
        parts.push("nothing has been said since it began".into());
    }
    for waiting in document["pendingInputs"]["items"].as_array().into_iter().flatten() {
        parts.push(format!("waits in place {}:\n{}", waiting["place"], indented(&word(&waiting["text"]))));
    }
    parts.join("\n\n")
}

/// A message under who said it and when. What tools were given and answered is cut: it can be whole files.
fn row_in_words(row: &Value, now: Timestamp) -> String {
    let head = |who: &str| format!("{}  {who}", time(&row["timestamp"], now));
    let cut = |text: &str| fit(&plain(text), TOOL_CHARS_MAX);
    match row["role"].as_str() {
        Some("toolResult") => {
            let failed = if row["isError"] == json!(true) { " failed" } else { "" };
            format!("{}\n{}", head(&format!("{}{failed}", word(&row["toolName"]))), indented(&cut(&text_of(row))))
        }
        Some(role) => {
            let mut lines: Vec<String> = Some(text_of(row)).filter(|text| !text.is_empty()).into_iter().collect();
            let calls = row["content"].as_array().into_iter().flatten().filter(|part| part["type"] == "toolCall");
            lines
                .extend(calls.map(|call| format!("· {} {}", word(&call["name"]), cut(&call["arguments"].to_string()))));
            if lines.is_empty() {
                return String::new();
            }
            format!("{}\n{}", head(role), indented(&lines.join("\n")))
        }
        None => String::new(),
    }
}

/// Lines of a text, each without what would steer a terminal.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {}", plain(line))).collect::<Vec<_>>().join("\n")
}

impl Reset {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        if call(dir, "sessions.describe", json!({ "key": self.key }))?["session"].is_null() {
            return Err(Unknown { key: self.key.clone() }.into());
        }
        let done = call(dir, "sessions.reset", json!({ "key": self.key }))?;
        output.show(&done, || {
            format!(
                "{} begins anew; what was said stays in its transcript, and no prompt has it any more",
                word(&done["key"])
            )
        });
        Ok(())
    }
}

impl Compact {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        // As long as a run may take, and what waits before it.
        let client = ask::gateway(dir)?.with_patience(COMPACT_PATIENCE);
        let done = block_on(client.call("sessions.compact", json!({ "key": self.key })))??;
        output.show(&done, || match done["compacted"] == json!(true) {
            true => format!("{} is summed up; its next prompt begins with the summary", word(&done["key"])),
            false => format!("{} stays as it is: {}", word(&done["key"]), word(&done["reason"])),
        });
        Ok(())
    }
}

impl Delete {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let done = call(dir, "sessions.delete", json!({ "key": self.key, "deleteTranscript": self.erase }))?;
        if done["deleted"] != json!(true) {
            return Err(Unknown { key: word(&done["key"]) }.into());
        }
        output.show(&done, || {
            let archived: Vec<String> = done["archived"].as_array().into_iter().flatten().map(word).collect();
            let kept = match (self.erase, archived.is_empty()) {
                (true, _) => "its transcript is erased".to_owned(),
                (false, true) => "it had no transcript".to_owned(),
                (false, false) => format!("its transcript is kept in {}", archived.join(", ")),
            };
            format!("{} is deleted; {kept}", word(&done["key"]))
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_shown_as_people_read_it() {
        let now = Timestamp(1_794_821_400_000);
        let document = json!({
            "session": { "key": "agent:eden:main", "status": "done", "totalTokens": 42, "updatedAt": now.0 },
            "hasMore": true, "totalMessages": 9,
            "messages": [
                { "role": "user", "timestamp": now.0, "content": "배포해 줘\n\u{1b}[31m오늘" },
                { "role": "assistant", "timestamp": now.0, "content": [
                    { "type": "toolCall", "name": "files_read", "arguments": { "path": "a.md" } }] },
                { "role": "toolResult", "timestamp": now.0, "toolName": "files_read", "isError": true, "content": "no such file" },
            ],
            "pendingInputs": { "items": [{ "place": 1, "text": "and then?" }] },
        });
        let expected = "agent:eden:main  done, 42 tokens, updated 11-16 09:30:00 UTC\n\n\
            the last 3 of 9 messages\n\n\
            11-16 09:30:00  user\n  배포해 줘\n   [31m오늘\n\n\
            11-16 09:30:00  assistant\n  · files_read {\"path\":\"a.md\"}\n\n\
            11-16 09:30:00  files_read failed\n  no such file\n\n\
            waits in place 1:\n  and then?";
        assert_eq!(show_in_words(&document, now), expected);
    }
}
