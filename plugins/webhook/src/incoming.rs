//! Calls of the webhook: verified, fresh, well-formed and not too many, or refused with a reason.
//! Keeps true: only what the host has verified is read; the time and the id are part of what is signed, so a call that is repeated later is
//! too old, and one that is repeated at once is known; success is answered in the same step that takes the message in.

use chela_sdk::channel::{
    Command, Header, Inbound, Kind, Output, Place, Turn, WebhookRequest, WebhookResponse, header, literal, wire,
};
use serde_json::{Value, json};

use crate::machine::Machine;

const TEXT_MAX: usize = 100_000;
const ID_BYTES_MAX: usize = 100;
const ARGUMENTS_MAX: usize = 16;

/// Why a call is not taken: the status, a word for programs, and a sentence for people.
struct Refusal {
    status: u16,
    code: &'static str,
    said: String,
    retry_seconds: Option<u64>,
}

fn refused(status: u16, code: &'static str, said: impl Into<String>) -> Refusal {
    Refusal { status, code, said: said.into(), retry_seconds: None }
}

impl Machine {
    pub fn called(&mut self, turn: &mut Turn, request: WebhookRequest) {
        let (id, answer) = (request.id.clone(), self.take_call(turn, &request));
        let (status, headers, body) = match answer {
            Ok(body) => (202, Vec::new(), body),
            Err(Refusal { status, code, said, retry_seconds }) => {
                let after: Vec<Header> =
                    retry_seconds.iter().map(|seconds| header("retry-after", seconds.to_string())).collect();
                (status, after, json!({ "error": { "code": code, "message": said } }))
            }
        };
        let mut headers = headers;
        headers.push(header("content-type", "application/json"));
        let body = vec![literal(body.to_string())];
        turn.push(Output::WebhookResponse(WebhookResponse { id, status, headers, body }));
    }

    fn take_call(&mut self, turn: &mut Turn, request: &WebhookRequest) -> Result<Value, Refusal> {
        if request.method != "POST" {
            return Err(refused(405, "method", "send a POST"));
        }
        if !request.verified {
            let said =
                "the signature is missing or wrong; sign the body with HMAC-SHA-256 as the grants of this path say";
            return Err(refused(401, "signature", said));
        }
        let body: Value = serde_json::from_slice(&request.body)
            .map_err(|error| refused(400, "json", format!("the body is no JSON: {error}")))?;
        let inbound = self.read(turn.now_ms, &body)?;
        self.count(turn.now_ms)?;
        let id = inbound.id.clone();
        if !self.state.seen.is_new(&id) {
            // The sender tries again because our answer was lost: it is well.
            return Ok(json!({ "status": "known", "id": id }));
        }
        turn.inbound(inbound);
        Ok(json!({ "status": "taken", "id": id }))
    }

    fn read(&self, now_ms: u64, body: &Value) -> Result<Inbound, Refusal> {
        let wrong = |field: &str, advice: &str| refused(400, "field", format!("`{field}`: {advice}"));
        let text_of = |field: &str, value: &Value| match value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            _ => Err(wrong(field, "write text")),
        };
        let id = text_of("id", &body["id"])?;
        if id.is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
            return Err(wrong("id", "write an id of 1 to 100 bytes that is this message's alone"));
        }
        let at_ms = body["at"].as_u64().ok_or_else(|| wrong("at", "write the time in milliseconds since 1970"))?;
        let apart_ms = now_ms.abs_diff(at_ms);
        if apart_ms > self.config.window_seconds * 1_000 {
            let said = format!(
                "`at` is {} s {} the gateway's clock, and {} s are allowed; sign the message again with the time of now",
                apart_ms.div_ceil(1_000),
                if at_ms < now_ms { "behind" } else { "ahead of" },
                self.config.window_seconds
            );
            return Err(refused(403, "stale", said));
        }
        let sender = text_of("sender.id", &body["sender"]["id"])?;
        if !wire::is_id(&sender) {
            return Err(wrong("sender.id", "write 1 to 64 letters, digits or one of _ - . @ + #"));
        }
        if !self.config.hears(&sender) {
            return Err(refused(403, "sender", "this sender is not among those that are heard"));
        }
        let target = match text_of("target", &body["target"])? {
            target if target.is_empty() => format!("direct:{sender}"),
            target if wire::is_target(&target) => target,
            _ => return Err(wrong("target", "write `channel:ID`, `channel:ID:thread:ID` or `direct:ID`")),
        };
        let text = text_of("text", &body["text"])?;
        if text.chars().count() > TEXT_MAX {
            return Err(refused(413, "text", format!("`text` has more than {TEXT_MAX} characters")));
        }
        let kind = kind_of(body).map_err(|(field, advice)| wrong(field, advice))?;
        if text.trim().is_empty() && !matches!(kind, Kind::Command(_)) {
            return Err(wrong("text", "write what is said"));
        }
        let place = match &target {
            target if target.starts_with("direct:") => Place::Direct,
            target if target.contains(":thread:") => Place::Thread,
            _ => Place::Channel,
        };
        let name = wire::name(&text_of("sender.name", &body["sender"]["name"])?);
        Ok(Inbound {
            id,
            kind,
            session: if place == Place::Direct { target.clone() } else { format!("webhook:{target}") },
            target,
            place,
            space: String::new(),
            sender_name: if name.is_empty() { sender.clone() } else { name },
            sender_id: sender,
            sender_is_bot: body["sender"]["bot"] == true,
            // Whoever calls a webhook speaks to whoever is behind it.
            addressed: true,
            agent: wire::name(&text_of("agent", &body["agent"])?),
            text: wire::clean(&text, TEXT_MAX),
            reply_to: wire::name(&text_of("replyTo", &body["replyTo"])?),
        })
    }

    /// Counts a call; too many are refused until the minute is over.
    fn count(&mut self, now_ms: u64) -> Result<(), Refusal> {
        const MINUTE_MS: u64 = 60_000;
        let state = &mut self.state;
        if now_ms.saturating_sub(state.minute_ms) >= MINUTE_MS || now_ms < state.minute_ms {
            (state.minute_ms, state.minute_count) = (now_ms, 0);
        }
        if state.minute_count >= self.config.messages_per_minute {
            let left_ms = (state.minute_ms + MINUTE_MS).saturating_sub(now_ms);
            let said = format!("more than {} calls in a minute", self.config.messages_per_minute);
            return Err(Refusal { retry_seconds: Some(left_ms.div_ceil(1_000).max(1)), ..refused(429, "rate", said) });
        }
        state.minute_count += 1;
        Ok(())
    }
}

/// What the sender wants: to talk, to answer a question, or to have a command done.
fn kind_of(body: &Value) -> Result<Kind, (&'static str, &'static str)> {
    match (&body["answers"], &body["command"]) {
        (Value::Null, Value::Null) => Ok(Kind::Message),
        (Value::String(question), Value::Null) => Ok(Kind::Answer(wire::name(question))),
        (Value::Null, Value::Object(command)) => {
            let name = command.get("name").and_then(Value::as_str).map(wire::name).unwrap_or_default();
            if name.is_empty() {
                return Err(("command.name", "write the name of a command, such as tasks"));
            }
            let arguments = command.get("arguments").and_then(Value::as_object).into_iter().flatten();
            let argument = |(name, value): (&String, &Value)| (wire::name(name), wire::name(wire::text(value)));
            Ok(Kind::Command(Command { name, arguments: arguments.take(ARGUMENTS_MAX).map(argument).collect() }))
        }
        (Value::String(_), Value::Object(_)) => Err(("command", "a message answers or commands, not both")),
        (Value::Null, _) => Err(("command", "write an object with a name")),
        _ => Err(("answers", "write the id of a question, or an empty text for the only one")),
    }
}
