//! Inputs and outputs as JSON that people read and write. What is empty or usual is left out.

use chela_sdk::channel::{
    DeliveryResult, Encoding, Health, HttpRequest, HttpResponse, Inbound, Input, Kind, Outbound, Output, Piece, Place,
    Presence, Question, SecretRef, Signed, SocketClosed, SocketText, WebhookRequest,
};
use serde_json::{Map, Value, json};

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn headers(value: &Value) -> Vec<(String, String)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect()
}

/// `body` is JSON, `raw` is text as it is.
fn body(of: &Value) -> Vec<u8> {
    match (&of["body"], &of["raw"]) {
        (Value::Null, raw) => text(raw).into_bytes(),
        (body, _) => body.to_string().into_bytes(),
    }
}

/// An input; frames and closes are those of the last connection unless they name one with `on`.
pub fn input(value: &Value, current: &str) -> Input {
    let (name, of) = value.as_object().and_then(|map| map.iter().next()).expect("an input");
    let connection = value["on"].as_str().unwrap_or(current).to_owned();
    match name.as_str() {
        "started" => Input::Started(of == true),
        "opened" => Input::SocketOpened(connection),
        "frame" => Input::SocketText(SocketText { connection, data: of.to_string() }),
        "text" => Input::SocketText(SocketText { connection, data: text(of) }),
        "closed" => Input::SocketClosed(SocketClosed {
            connection,
            code: of["code"].as_u64().unwrap_or(0) as u16,
            reason: text(&of["reason"]),
            refused: of["refused"] == true,
        }),
        "keepaliveSent" => Input::KeepaliveSent(connection),
        "timer" => Input::Timer(text(of)),
        "answer" => Input::HttpResponse(HttpResponse {
            id: text(&of["id"]),
            status: of["status"].as_u64().unwrap_or(0) as u16,
            headers: headers(&of["headers"]),
            body: body(of),
            error: text(&of["error"]),
            refused: of["refused"] == true,
            sent: of["sent"] != false,
        }),
        "deliver" => Input::Deliver(Outbound {
            id: text(&of["id"]),
            target: text(&of["target"]),
            // `"x*3000"` is x three thousand times.
            text: match text(&of["text"]).split_once('*').map(|(part, count)| (part.to_owned(), count.parse::<usize>()))
            {
                Some((part, Ok(count))) => part.repeat(count),
                _ => text(&of["text"]),
            },
            reply_to: text(&of["replyTo"]),
            edits: texts(&of["edits"]),
            question: of["question"]
                .as_object()
                .map(|_| Question { id: text(&of["question"]["id"]), choices: texts(&of["question"]["choices"]) }),
        }),
        "presence" => Input::Presence(Presence { target: text(&of["target"]), typing: of["typing"] == true }),
        "webhook" => Input::Webhook(WebhookRequest {
            id: text(&of["id"]),
            method: of["method"].as_str().unwrap_or("POST").to_owned(),
            path: text(&of["path"]),
            query: text(&of["query"]),
            headers: headers(&of["headers"]),
            body: body(of),
            verified: of["verified"] == true,
        }),
        "stopping" => Input::Stopping,
        other => panic!("there is no input {other}"),
    }
}

/// The name of a connection that is asked for.
pub fn opened(output: &Output) -> Option<String> {
    match output {
        Output::OpenSocket(open) => Some(open.connection.clone()),
        _ => None,
    }
}

pub fn output(output: &Output) -> Value {
    match output {
        Output::OpenSocket(open) => json!({ "open": { "connection": open.connection, "url": joined(&open.url) } }),
        Output::SendSocket(send) => json!({ "send": joined(&send.data), "on": send.connection }),
        Output::CloseSocket(close) => json!({ "close": close.connection, "code": close.code }),
        Output::Keepalive(keep) => json!({ "keepalive": {
            "on": keep.connection, "firstMs": keep.first_ms, "intervalMs": keep.interval_ms, "frame": joined(&keep.frame),
        } }),
        Output::SetTimer(timer) => json!({ "timer": timer.name, "afterMs": timer.after_ms }),
        Output::CancelTimer(name) => json!({ "cancel": name }),
        Output::HttpRequest(asked) => json!({ "request": request(asked) }),
        Output::Inbound(inbound) => json!({ "inbound": message(inbound) }),
        Output::Delivered(result) => json!({ "delivered": delivered(result) }),
        Output::WebhookResponse(answer) => {
            let mut shown = json!({ "id": answer.id, "status": answer.status });
            for header in &answer.headers {
                shown["headers"][&header.name] = json!(joined(&header.value));
            }
            if !answer.body.is_empty() {
                shown["body"] = parsed(&answer.body);
            }
            json!({ "webhook": shown })
        }
        Output::Status(status) => json!({ "status": health(status.health), "detail": status.detail }),
        Output::Presence(_) => json!("presence"),
        Output::Checkpoint => json!("checkpoint"),
        Output::Other(_) => panic!("no answer"),
    }
}

fn health(health: Health) -> &'static str {
    match health {
        Health::Connecting => "connecting",
        Health::Ready => "ready",
        Health::Degraded => "degraded",
        Health::NeedsAuth => "needs-auth",
        Health::Failed => "failed",
        Health::Other => panic!("no answer"),
    }
}

/// Pieces as one text; a secret is shown by its name.
fn joined(pieces: &[Piece]) -> String {
    let shown = |piece: &Piece| match piece {
        Piece::Literal(text) => text.clone(),
        Piece::Secret(secret) => shown_secret(secret),
        Piece::Hmac(signature) => {
            let part = |part: &Signed| match part {
                Signed::Literal(text) => text.clone(),
                Signed::Secret(secret) => shown_secret(secret),
                Signed::Body => "${body}".to_owned(),
                Signed::Other(_) => panic!("no answer"),
            };
            let over: String = signature.over.iter().map(part).collect();
            format!("${{hmac {} {} {over}}}", signature.key, if signature.hex { "hex" } else { "base64" })
        }
        Piece::Other(_) => panic!("no answer"),
    };
    pieces.iter().map(shown).collect()
}

fn shown_secret(secret: &SecretRef) -> String {
    let encoding = match secret.encoding {
        Encoding::Raw => "raw",
        Encoding::Json => "json",
        Encoding::Url => "url",
        Encoding::Base64 => "base64",
        Encoding::Other => panic!("no answer"),
    };
    format!("${{secret {} {encoding}}}", secret.name)
}

/// A body as JSON where it is JSON, with long texts cut.
fn parsed(pieces: &[Piece]) -> Value {
    let text = joined(pieces);
    let mut body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    cut(&mut body);
    body
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.chars().count() > 300 => {
            let start: String = text.chars().take(12).collect();
            *text = format!("{start}… ({} characters)", text.chars().count());
        }
        Value::Array(list) => list.iter_mut().for_each(cut),
        Value::Object(map) => map.values_mut().for_each(cut),
        _ => {}
    }
}

fn request(asked: &HttpRequest) -> Value {
    let mut shown = json!({ "id": asked.id, "call": format!("{} {}", asked.method, joined(&asked.url)) });
    for header in asked.headers.iter().filter(|header| !matches!(&*header.name, "user-agent" | "content-type")) {
        match header.name.as_str() {
            "authorization" => shown["authorization"] = json!(joined(&header.value)),
            name => shown["headers"][name] = json!(joined(&header.value)),
        }
    }
    if asked.timeout_ms > 0 {
        shown["timeoutMs"] = json!(asked.timeout_ms);
    }
    if !asked.body.is_empty() {
        shown["body"] = parsed(&asked.body);
    }
    shown
}

fn message(inbound: &Inbound) -> Value {
    let mut shown = Map::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            shown.insert(name.to_owned(), json!(value));
        }
    };
    put("id", &inbound.id);
    match &inbound.kind {
        Kind::Message => {}
        Kind::Answer(question) => put("answers", if question.is_empty() { "(the only one)" } else { question }),
        Kind::Command(command) => put("command", &format!("{} {:?}", command.name, command.arguments)),
        Kind::Other(_) => panic!("no answer"),
    }
    put("session", &inbound.session);
    put("target", &inbound.target);
    let place = match inbound.place {
        Place::Direct => "direct",
        Place::Channel => "channel",
        Place::Thread => "thread",
        Place::Other => panic!("no answer"),
    };
    put("place", place);
    put("space", &inbound.space);
    put("sender", &format!("{} {}", inbound.sender_id, inbound.sender_name));
    put("agent", &inbound.agent);
    put("text", &inbound.text);
    put("replyTo", &inbound.reply_to);
    put("addressed", if inbound.addressed { "yes" } else { "no" });
    put("bot", if inbound.sender_is_bot { "yes" } else { "" });
    Value::Object(shown)
}

fn delivered(result: &DeliveryResult) -> Value {
    if result.error.is_empty() {
        return json!({ "id": result.id, "messages": result.message_ids });
    }
    json!({ "id": result.id, "error": result.error, "retry": result.retry, "retryMs": result.retry_ms })
}
