//! `chela chat`: a conversation with an agent in the terminal, as it streams.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{ask, block_on};
use crate::client::{Frame, Socket};
use crate::clock::Clock;
use crate::id;
use crate::layout::StateDir;

/// Rows of the conversation before that are shown at the start.
const SHOWN: usize = 6;

#[derive(clap::Args)]
pub(super) struct Chat {
    /// An agent's id, or a session's key
    agent: String,
}

/// What the terminal shows around a conversation; nothing of it in a pipe.
struct Screen {
    terminal: bool,
}

impl Screen {
    fn prompt(&self) {
        if self.terminal {
            self.say("\n> ");
        }
    }

    fn aside(&self, text: &str) {
        match self.terminal {
            true => self.say(&format!("\x1b[2m{text}\x1b[0m\n")),
            false => self.say(&format!("{text}\n")),
        }
    }

    fn say(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // A reader that is gone ends the conversation at its next line.
        let _ = out.write_all(clean(text).as_bytes()).and_then(|()| out.flush());
    }
}

/// Text of a model without what would steer the terminal.
fn clean(text: &str) -> String {
    let plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t' | '\x1b');
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().filter(plain).peekable();
    while let Some(c) = rest.next() {
        // Only the two signs of our own pass.
        if c == '\x1b' {
            let ours: String = rest.clone().take(3).collect();
            if !(ours.starts_with("[2m") || ours.starts_with("[0m")) {
                continue;
            }
        }
        kept.push(c);
    }
    kept
}

impl Chat {
    pub(super) fn run(self, dir: &StateDir) -> anyhow::Result<ExitCode> {
        let client = ask::gateway(dir)?;
        let screen = Screen { terminal: std::io::stdin().is_terminal() && std::io::stdout().is_terminal() };
        block_on(async {
            let mut socket = client.open().await?;
            // A bare word is an agent's id: a mistyped one must not become a session of another agent.
            let key = if self.agent.contains(':') { self.agent.clone() } else { format!("agent:{}", self.agent) };
            let found = socket.request("chat.history", json!({ "sessionKey": key, "limit": SHOWN })).await?;
            let key = found["sessionKey"].as_str().unwrap_or(&self.agent).to_owned();
            if screen.terminal {
                screen
                    .aside(&format!("{key}: an empty line does nothing, Ctrl-C stops an answer, Ctrl-D ends the chat"));
                found["messages"].as_array().into_iter().flatten().for_each(|row| show_row(&screen, row));
            }
            let mut lines = lines();
            loop {
                screen.prompt();
                let Some(line) = lines.recv().await else { break };
                if line.trim().is_empty() {
                    continue;
                }
                talk(&mut socket, &screen, &key, &line).await?;
            }
            socket.close().await;
            anyhow::Ok(ExitCode::SUCCESS)
        })?
    }
}

/// Lines of standard input, read on a thread of their own: reading cannot be cancelled.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn show_row(screen: &Screen, row: &Value) {
    let text = crate::sessions::text_of(row);
    match row["role"].as_str() {
        Some("user") => screen.aside(&format!("> {text}")),
        Some("assistant") if !text.is_empty() => screen.aside(&text),
        _ => {}
    }
}

/// One message and its answer.
async fn talk(socket: &mut Socket, screen: &Screen, key: &str, line: &str) -> anyhow::Result<()> {
    let run = id::fresh(Clock::system().now()).to_string();
    let params = json!({ "sessionKey": key, "message": line, "idempotencyKey": run });
    socket.request("chat.send", params).await?;
    let mut shown = String::new();
    loop {
        let frame = tokio::select! {
            frame = socket.next() => frame?,
            _ = tokio::signal::ctrl_c() => {
                socket.send("chat.abort", json!({ "sessionKey": key, "runId": run })).await?;
                continue;
            }
        };
        let Frame::Told { name, payload, .. } = frame else {
            if let Frame::End { reason, .. } = frame {
                anyhow::bail!("the gateway has let go: {reason}");
            }
            continue;
        };
        if payload["runId"] != json!(run) {
            continue;
        }
        match (name.as_str(), payload["state"].as_str(), payload["stream"].as_str()) {
            ("chat", Some("delta"), _) => tell(screen, &mut shown, &crate::sessions::text_of(&payload["message"])),
            ("chat", Some("final"), _) => {
                tell(screen, &mut shown, &crate::sessions::text_of(&payload["message"]));
                screen.say("\n");
                return Ok(());
            }
            ("chat", Some("aborted"), _) => {
                screen.aside("\n(stopped)");
                return Ok(());
            }
            ("chat", Some("error"), _) => {
                screen.aside(&format!("\n(no answer: {})", payload["errorMessage"].as_str().unwrap_or("unknown")));
                return Ok(());
            }
            ("agent", _, Some("tool")) if payload["data"]["phase"] == "start" => {
                let tool = payload["data"]["name"].as_str().unwrap_or("a tool");
                screen.aside(&format!("{}· {tool}", if shown.is_empty() { "" } else { "\n" }));
                shown.clear();
            }
            _ => {}
        }
    }
}

/// Shows what is new of a text that grows; one that begins anew is shown whole.
fn tell(screen: &Screen, shown: &mut String, text: &str) {
    match text.strip_prefix(shown.as_str()) {
        Some(fresh) => screen.say(fresh),
        None if text.is_empty() => {}
        None => screen.say(&format!("\n{text}")),
    }
    text.clone_into(shown);
}
