//! `chela send`: one message to an agent.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Output, ask, block_on};
use crate::clock::Clock;
use crate::id;
use crate::layout::StateDir;

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
    /// Give up waiting after so many seconds; the agent goes on
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "wait")]
    timeout: u64,
    /// The same key again is the same message: it runs once, and its answer comes again
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

impl Send {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
        let client = ask::gateway(dir)?.with_patience(Duration::from_secs(30));
        let key = self.key.unwrap_or_else(|| id::fresh(Clock::system().now()).to_string());
        let target = if self.agent.contains(':') {
            json!({ "sessionKey": self.agent })
        } else {
            json!({ "agentId": self.agent })
        };
        let mut params = json!({ "message": self.text.join(" "), "idempotencyKey": key });
        params
            .as_object_mut()
            .into_iter()
            .for_each(|params| params.extend(target.as_object().cloned().unwrap_or_default()));
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
