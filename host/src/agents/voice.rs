//! What clients hear of a run, in the order that they rely on.

use std::time::Duration;

use chela_question::visible_so_far;
use serde_json::{Value, json};

use crate::clock::{Clock, Timestamp};
use crate::feed::{Audience, Feed};
use crate::sessions::{Ended, HumanQuery, Status, Step, Turn};

/// Long answers are told in steps of this, since each telling repeats the text so far.
const EVERY: Duration = Duration::from_millis(100);
/// Up to this length each piece is told as it comes.
const SHORT_BYTES: usize = 512;

pub(super) struct Voice {
    feed: Feed,
    clock: Clock,
    run: String,
    session: String,
    session_id: String,
    agent: String,
    seq: u64,
    /// The answer so far, and what of it was told.
    text: String,
    told: String,
    /// What it asks of people is not told as its words come.
    asks: bool,
    asked: Option<HumanQuery>,
    told_at: Option<Duration>,
    started: bool,
}

impl Voice {
    pub(super) fn of(turn: &Turn, feed: Feed, clock: Clock, asks: bool) -> Self {
        Self {
            feed,
            clock,
            run: turn.id().to_owned(),
            session: turn.session().to_string(),
            session_id: turn.message().session_id.clone(),
            agent: turn.session().agent.to_string(),
            seq: 0,
            text: String::new(),
            told: String::new(),
            asks,
            asked: None,
            told_at: None,
            started: false,
        }
    }

    fn agent(&mut self, stream: &str, audience: Audience, data: Value) {
        self.seq += 1;
        let payload = json!({
            "runId": self.run, "seq": self.seq, "stream": stream, "ts": self.clock.now(), "sessionKey": self.session,
            "sessionId": self.session_id, "agentId": self.agent, "data": data,
        });
        self.feed.tell("agent", audience, &payload);
    }

    fn chat(&mut self, state: &str, rest: Value) {
        self.seq += 1;
        let mut payload = json!({
            "runId": self.run, "sessionKey": self.session, "agentId": self.agent, "seq": self.seq, "state": state,
        });
        if let (Some(payload), Value::Object(rest)) = (payload.as_object_mut(), rest) {
            payload.extend(rest);
        }
        self.feed.tell("chat", Audience::Readers, &payload);
    }

    pub(super) fn begin(&mut self) {
        self.chat("status", json!({ "phase": "preparing_context" }));
        self.agent("run_status", Audience::Readers, json!({ "phase": "preparing_context" }));
        // Without a delta before the start, a terminal client that hears of start and end at once stays busy for ever.
        self.chat("delta", json!({ "deltaText": "", "message": message("", self.clock.now()) }));
    }

    /// Told once, before anything that follows from it.
    pub(super) fn start(&mut self, started_at: Timestamp) {
        if !std::mem::replace(&mut self.started, true) {
            self.lifecycle(json!({ "phase": "start", "startedAt": started_at }));
        }
    }

    pub(super) fn model(&mut self, provider: &str, model: &str) {
        self.lifecycle(json!({ "phase": "model", "provider": provider, "model": model }));
    }

    fn lifecycle(&mut self, data: Value) {
        self.agent("lifecycle", Audience::Readers, data);
    }

    /// A piece of the answer.
    pub(super) fn piece(&mut self, piece: &str) {
        self.text.push_str(piece);
        let now = self.clock.elapsed();
        let due = self.told_at.is_none_or(|told| now.saturating_sub(told) >= EVERY);
        if self.text.len() <= SHORT_BYTES || due {
            self.told_at = Some(now);
            self.tell_text(false);
        }
    }

    /// What was said does not count.
    pub(super) fn again(&mut self) {
        self.text.clear();
        self.told.clear();
        self.tell_text(true);
    }

    /// What may be told of the answer while it grows.
    fn visible(&self) -> String {
        if self.asks { visible_so_far(&self.text) } else { self.text.clone() }
    }

    /// One answer of the model is whole; the next begins anew.
    pub(super) fn answered(&mut self, output_tokens: u64) {
        // Of one that asks, the end is told with the run's: only then it is known what of it is a question.
        if self.told.len() < self.visible().len() {
            self.tell_text(false);
        }
        self.text.clear();
        self.told.clear();
        self.agent("usage", Audience::Readers, json!({ "outputTokens": output_tokens }));
    }

    fn tell_text(&mut self, replace: bool) {
        let visible = self.visible();
        let delta = visible.strip_prefix(self.told.as_str()).unwrap_or(&visible).to_owned();
        let mut said = json!({ "text": visible, "delta": delta, "itemId": format!("{}:text", self.run) });
        let mut shown = json!({ "deltaText": delta, "message": message(&visible, self.clock.now()) });
        self.told = visible;
        if replace {
            said["replace"] = json!(true);
            shown["replace"] = json!(true);
        }
        self.agent("assistant", Audience::Readers, said);
        self.chat("delta", shown);
    }

    /// What was said so far and is no whole answer.
    pub(super) fn partial(&self) -> String {
        self.visible()
    }

    /// What the last answer asks of people.
    pub(super) fn asks(&mut self, steps: &[Step]) {
        if let Some(Step::Answered { asked, .. }) = steps.last() {
            self.asked.clone_from(asked);
        }
    }

    pub(super) fn call_begun(&mut self, id: &str, name: &str, args: &Value) {
        let item = json!({
            "itemId": format!("tool:{id}"), "toolCallId": id, "name": name, "kind": "tool", "phase": "start",
            "title": name, "status": "running",
        });
        self.agent("item", Audience::ToolWatchers, item);
        let begun = json!({ "phase": "start", "name": name, "toolCallId": id, "args": args });
        self.agent("tool", Audience::ToolWatchers, begun);
    }

    pub(super) fn call_ended(&mut self, id: &str, name: &str, text: &str, is_error: bool) {
        let item = json!({
            "itemId": format!("tool:{id}"), "toolCallId": id, "name": name, "kind": "tool", "phase": "end",
            "title": name, "status": if is_error { "failed" } else { "completed" },
        });
        self.agent("item", Audience::ToolWatchers, item);
        let result = json!({ "content": [{ "type": "text", "text": text }] });
        let ended = json!({ "phase": "result", "name": name, "toolCallId": id, "isError": is_error, "result": result });
        self.agent("tool", Audience::ToolWatchers, ended);
    }

    pub(super) fn end(&mut self, ended: &Ended) {
        self.start(ended.started_at);
        let aborted = ended.status == Status::Aborted;
        self.lifecycle(json!({ "phase": "finishing", "stopReason": ended.stop, "aborted": aborted }));
        let times =
            json!({ "startedAt": ended.started_at, "endedAt": ended.at, "stopReason": ended.stop, "aborted": aborted });
        match ended.status {
            Status::Ok | Status::Aborted => {
                let mut end = times;
                end["phase"] = json!("end");
                end["executionSettled"] = json!(true);
                if aborted {
                    end["status"] = json!("cancelled");
                } else {
                    end["terminalReply"] = json!({ "disposition": "visible", "text": ended.reply });
                }
                self.lifecycle(end);
            }
            Status::Error | Status::Timeout => {
                let mut end = times;
                end["phase"] = json!("error");
                end["error"] = json!(ended.error);
                self.lifecycle(end);
            }
        }
        match ended.status {
            Status::Ok => {
                let mut shown = message(&ended.reply, ended.at);
                if let Some(asked) = &self.asked {
                    shown["content"][0]["humanQuery"] = json!(asked);
                }
                self.chat("final", json!({ "message": shown, "stopReason": ended.stop }));
            }
            Status::Aborted => {
                let shown = message(&ended.reply, ended.at);
                self.chat("aborted", json!({ "message": shown, "stopReason": ended.stop }));
            }
            Status::Error | Status::Timeout => {
                let kind = ended.error_kind.as_deref().unwrap_or("unknown");
                self.chat("error", json!({ "errorMessage": ended.error, "errorKind": kind }));
            }
        }
    }
}

fn message(text: &str, at: Timestamp) -> Value {
    json!({ "role": "assistant", "content": [{ "type": "text", "text": text }], "timestamp": at })
}
