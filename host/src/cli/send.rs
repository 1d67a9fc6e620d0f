//! `chela send`: one message to an agent, from you or in the name of another agent.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::output::word;
use super::{Output, ask, block_on};
use crate::clock::Clock;
use crate::id;
use crate::layout::StateDir;

/// How long the gateway may take beside what the agent takes.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(super) struct Send {
    /// An agent's id, or a session's key such as agent:eden:direct:kim
    agent: String,
    /// What to say
    #[arg(required = true, num_args = 1..)]
    text: Vec<String>,
    /// Wait for the answer and print it
    #[arg(long)]
    wait: bool,
    /// Send as this agent: the two go back and forth as agents do, and `chela jobs` shows it. With --wait, the first reply is printed
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// Give up waiting after so many seconds; the agent goes on
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "wait")]
    timeout: u64,
    /// The same key again is the same message: it runs once, and its answer comes again
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

impl Send {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
        if let Some(from) = &self.from {
            return self.send_as(from, dir, output);
        }
        let client = ask::gateway(dir)?.with_patience(PATIENCE);
        let key = self.key.unwrap_or_else(|| id::fresh(Clock::system().now()).to_string());
        let mut params = json!({ "message": self.text.join(" "), "idempotencyKey": key });
        params[target_field(&self.agent)] = json!(self.agent);
        let answer: Value = block_on(async {
            let mut socket = client.open().await?;
            let id = socket.send("agent", params).await?;
            let first = socket.answer(&id).await?;
            let ended = first.get("result").is_some();
            let patience = Duration::from_secs(self.timeout);
            let answer = match self.wait && !ended {
                true => tokio::time::timeout(patience, socket.answer(&id)).await.unwrap_or(Ok(first))?,
                false => first,
            };
            socket.close().await;
            anyhow::Ok(answer)
        })??;
        output.show(&answer, || said(&answer));
        let waits = self.wait && answer.get("result").is_none() && answer["status"] != "error";
        if waits {
            Output::note(&format!("chela: no answer within {} s; the agent goes on", self.timeout));
        }
        let failed = waits || matches!(answer["status"].as_str(), Some("error" | "timeout"));
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

impl Send {
    /// Begins a flow between two agents, as the tool of the one does.
    fn send_as(&self, from: &str, dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
        let seconds = if self.wait { self.timeout } else { 0 };
        let mut args = json!({ "message": self.text.join(" "), "timeoutSeconds": seconds });
        args[target_field(&self.agent)] = json!(self.agent);
        let mut body = json!({ "tool": "sessions_send", "args": args, "sessionKey": from });
        if let Some(key) = &self.key {
            body["idempotencyKey"] = json!(key);
        }
        let client = ask::gateway(dir)?.with_patience(Duration::from_secs(seconds) + PATIENCE);
        let answer = block_on(client.invoke_tool(&body))??;
        output.show(&answer, || said_to_agent(&self.agent, &answer));
        let good = matches!(answer["status"].as_str(), Some("ok" | "accepted" | "no_reply"));
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Whether a session is named, or an agent.
fn target_field(target: &str) -> &'static str {
    if target.contains(':') { "sessionKey" } else { "agentId" }
}

fn said_to_agent(to: &str, answer: &Value) -> String {
    let job = word(&answer["runId"]);
    match answer["status"].as_str() {
        Some("ok") => answer["reply"].as_str().unwrap_or_default().to_owned(),
        Some("no_reply") => format!("{to} had nothing to say; its job: {job}"),
        Some("accepted") => format!("accepted as job {job}; `chela jobs show {job}` tells how far it is"),
        _ => format!("{to} did not answer: {}", word(&answer["error"])),
    }
}

fn said(answer: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match answer["status"].as_str() {
        Some("ok") => {
            let payloads = answer["result"]["payloads"].as_array();
            payloads.into_iter().flatten().map(|payload| text(&payload["text"])).collect::<Vec<_>>().join("\n")
        }
        Some("error" | "timeout") => {
            format!("{} did not answer: {}", text(&answer["agentId"]), text(&answer["summary"]))
        }
        _ => format!(
            "accepted as {} in {}; `chela send … --key {}` again tells how it ended",
            text(&answer["runId"]),
            text(&answer["sessionKey"]),
            text(&answer["runId"])
        ),
    }
}
