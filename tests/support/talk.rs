//! Agents that answer from a script, and what a client hears of them.

use std::fs;

use chela::client::{Error, Frame, Socket};
use chela::port::Port;
use serde_json::{Value, json};

use crate::{Binary, TestDir, TestHost};

impl TestDir {
    /// The demo team with a script of its own instead of the demo's.
    pub fn scripted(script: &str, edit: impl FnOnce(&mut Value)) -> Self {
        let dir = Self::with_config(edit);
        let path = dir.scratch().join("script.json5");
        fs::write(&path, script).expect("written");
        dir.edit_config(|config| config["providers"]["demo"]["script"] = json!(path));
        dir
    }

    /// The rows of every transcript of an agent.
    pub fn transcript(&self, agent: &str) -> Vec<Value> {
        rows(&self.transcripts(agent).concat())
    }

    /// The same while a gateway writes them: the last line of each may be half there.
    pub fn transcript_so_far(&self, agent: &str) -> Vec<Value> {
        let ended = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let whole = |mut bytes: Vec<u8>| {
            bytes.truncate(ended(&bytes));
            bytes
        };
        rows(&self.transcripts(agent).into_iter().flat_map(whole).collect::<Vec<u8>>())
    }

    fn transcripts(&self, agent: &str) -> Vec<Vec<u8>> {
        let folder = self.state.sessions().join(agent);
        let mut files: Vec<_> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.is_file());
        files.sort();
        files.iter().map(|path| fs::read(path).expect("readable")).collect()
    }
}

fn rows(bytes: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(bytes).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
}

impl TestHost {
    pub fn scripted(script: &str) -> Self {
        Self::scripted_with(script, |_| {})
    }

    pub fn scripted_with(script: &str, edit: impl FnOnce(&mut Value)) -> Self {
        Self::start_in(TestDir::scripted(script, edit))
            .unwrap_or_else(|(error, _)| panic!("the gateway starts: {error}"))
    }

    /// A connection of the protocol, as the owner.
    pub fn connect(&self) -> Talk<'_> {
        let socket = self.block_on(self.client(Port::Gateway).open()).expect("connected");
        Talk { host: self, socket }
    }

    /// Sends by `agent` and waits for the end.
    pub fn ask(&self, agent: &str, text: &str) -> Value {
        let key = format!("key-{}", self.clock.now().0 + fresh());
        self.call("agent", json!({ "agentId": agent, "message": text, "idempotencyKey": key })).expect("accepted");
        self.ended(&key)
    }

    /// Waits for the end of a run, moving the clock.
    pub fn ended(&self, run: &str) -> Value {
        self.eventually("a run has ended", || {
            let answer = self.call("agent.wait", json!({ "runId": run, "timeoutMs": 0 })).expect("answered");
            (answer.get("endedAt").is_some()).then_some(answer)
        })
    }

    pub fn history(&self, key: &str) -> Vec<Value> {
        let found = self.call("chat.history", json!({ "sessionKey": key })).expect("answered");
        found["messages"].as_array().expect("rows").clone()
    }
}

fn fresh() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A connection with its host.
pub struct Talk<'a> {
    host: &'a TestHost,
    pub socket: Socket,
}

impl Talk<'_> {
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        self.host.block_on(self.socket.request(method, params))
    }

    pub fn send(&mut self, method: &str, params: Value) -> String {
        self.host.block_on(self.socket.send(method, params)).expect("sent")
    }

    pub fn answer(&mut self, id: &str) -> Result<Value, Error> {
        self.host.block_on(self.socket.answer(id))
    }

    pub fn frame(&mut self) -> Frame {
        self.host.block_on(self.socket.next()).expect("a frame")
    }

    /// What is heard until an event that `is_last` knows, as (name, payload).
    pub fn until(&mut self, is_last: impl Fn(&str, &Value) -> bool) -> Vec<(String, Value)> {
        let mut heard = Vec::new();
        loop {
            match self.frame() {
                Frame::Told { name, payload, .. } => {
                    let last = is_last(&name, &payload);
                    heard.push((name, payload));
                    if last {
                        return heard;
                    }
                }
                Frame::Answer { .. } => {}
                Frame::End { reason, .. } => panic!("the connection ended: {reason}; heard {heard:#?}"),
            }
        }
    }

    /// What is heard of a run until its chat is over.
    pub fn until_over(&mut self, run: &str) -> Vec<(String, Value)> {
        self.until(|name, payload| {
            name == "chat"
                && payload["runId"] == run
                && matches!(payload["state"].as_str(), Some("final" | "error" | "aborted"))
        })
    }
}

impl Binary {
    /// Calls a method as the owner.
    pub fn method(&self, dir: &TestDir, name: &str, params: Value) -> Result<Value, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(self.client(&dir.token()).call(name, params))
    }
}
