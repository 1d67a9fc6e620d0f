//! An adapter for the chat network of `tests/support/chat.rs`: JSON frames with an `op` over one socket. The server may tell it to trap, to
//! loop, to flood, or to ask for what it was not granted.

use chela_sdk::channel::{
    Channel, CloseSocket, Compression, DeliveryResult, Encoding, Header, Health, HttpRequest, Inbound, Input,
    Keepalive, Kind, OpenSocket, Output, Piece, Place, Presence, Request, SendSocket, SetTimer, State, Status,
    WebhookResponse, header, literal, secret,
};
use chela_sdk::{ConfigError, Failure, Plugin, parse_config};
use serde_json::{Value, json};

#[derive(Clone, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    url: String,
    /// Messages are delivered by a request to this address; else on the socket.
    post: String,
    /// Which version it says it is.
    label: String,
    /// The secret that the handshake carries.
    token: String,
    /// Puts the secret into each delivery by request.
    post_token: bool,
    /// It traps at every input but the first.
    trap: bool,
    /// It takes no state of another version.
    refuses: bool,
}

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Memory {
    seq: u64,
    restored: u64,
    label: String,
}

struct Relay {
    config: Config,
    memory: Memory,
    calls: u64,
}

impl Plugin for Relay {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        let config: Config = parse_config(json)?;
        let memory = Memory { label: config.label.clone(), ..Memory::default() };
        Ok(Self { config, memory, calls: 0 })
    }
}

impl Channel for Relay {
    fn handle(&mut self, request: Request) -> Result<Vec<Output>, Failure> {
        self.calls += 1;
        if self.config.trap && self.calls > 1 {
            panic!("the adapter was told to panic at its second call");
        }
        let mut outputs = Vec::new();
        for input in request.inputs {
            self.input(input, &mut outputs);
        }
        Ok(outputs)
    }

    fn snapshot(&self) -> State {
        State { schema: "relay/1".into(), bytes: serde_json::to_vec(&self.memory).unwrap_or_default() }
    }

    fn restore(&mut self, state: State) -> Result<(), Failure> {
        if self.config.refuses {
            return Err(Failure::InvalidInput("this version takes no state".into()));
        }
        let memory: Memory =
            serde_json::from_slice(&state.bytes).map_err(|error| Failure::InvalidInput(error.to_string()))?;
        self.memory = Memory { restored: memory.restored + 1, ..memory };
        Ok(())
    }
}

impl Relay {
    fn input(&mut self, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Started(restored) => {
                chela_sdk::log::info(&format!("started, restored: {restored}"));
                outputs.push(self.open("main", &self.config.url));
            }
            Input::SocketOpened(_) => {
                let hello = json!({ "op": "hello", "label": self.config.label, "seq": self.memory.seq });
                outputs.push(send(&hello));
            }
            Input::SocketText(frame) => match serde_json::from_str::<Value>(&frame.data) {
                Ok(frame) => self.frame(&frame, outputs),
                Err(_) => outputs.push(send(&json!({ "op": "what" }))),
            },
            Input::SocketClosed(closed) if closed.refused => outputs.push(status(Health::Failed, &closed.reason)),
            Input::SocketClosed(closed) => {
                outputs.push(status(Health::Connecting, &closed.reason));
                outputs.push(Output::SetTimer(SetTimer { name: "again".into(), after_ms: 100 }));
            }
            Input::Timer(_) => outputs.push(self.open("main", &self.config.url)),
            Input::KeepaliveSent(_) => outputs.push(send(&json!({ "op": "beat", "label": self.config.label }))),
            Input::Deliver(message) if self.config.post.is_empty() => {
                let op = if message.edits.is_empty() { "deliver" } else { "edit" };
                let frame = json!({
                    "op": op, "edits": message.edits, "id": message.id, "target": message.target, "text": message.text,
                    "replyTo": message.reply_to, "label": self.config.label, "question": message.question.map(|asked| asked.id),
                });
                outputs.push(send(&frame));
            }
            Input::Deliver(message) => {
                let mut body = vec![literal(json!({ "id": message.id, "text": message.text }).to_string())];
                if self.config.post_token {
                    body = vec![literal("{\"token\":\""), secret("token", Encoding::Json), literal("\"}")];
                }
                outputs.push(self.request(&message.id, "POST", &self.config.post, body));
            }
            Input::HttpResponse(response) if response.id.starts_with("deed-") => {
                let said = json!({
                    "op": "heard", "id": response.id, "status": response.status, "error": response.error,
                    "refused": response.refused, "body": String::from_utf8_lossy(&response.body),
                });
                outputs.push(send(&said));
            }
            Input::HttpResponse(response) => {
                let error = match response.status {
                    200..=299 => String::new(),
                    0 => response.error,
                    status => format!("status {status}"),
                };
                let retry = response.status == 0 && !response.refused || response.status >= 500;
                outputs.push(Output::Delivered(DeliveryResult {
                    id: response.id,
                    message_ids: vec!["m".into()],
                    error,
                    retry,
                    retry_ms: 0,
                }));
                outputs.push(Output::Checkpoint);
            }
            Input::Presence(presence) => {
                outputs.push(send(&json!({ "op": "typing", "target": presence.target, "typing": presence.typing })));
            }
            Input::Webhook(call) => {
                let frame: Value = serde_json::from_slice(&call.body).unwrap_or_default();
                let status = match call.verified {
                    true => {
                        self.message(&frame, outputs);
                        200
                    }
                    false => 401,
                };
                let body = vec![literal(format!("{} {} {status}", call.method, call.path))];
                outputs.push(Output::WebhookResponse(WebhookResponse {
                    id: call.id,
                    status,
                    headers: Vec::new(),
                    body,
                }));
            }
            Input::Stopping => {
                outputs.push(Output::CloseSocket(CloseSocket { connection: "main".into(), code: 1000 }));
            }
            Input::SocketBinary(_) | Input::Other(_) => {}
        }
    }

    fn frame(&mut self, frame: &Value, outputs: &mut Vec<Output>) {
        let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
        match frame["op"].as_str().unwrap_or_default() {
            "ready" => {
                outputs.push(status(Health::Ready, ""));
                if let Some(interval_ms) = frame["beat"].as_u64() {
                    let frame = vec![literal("{\"op\":\"alive\"}")];
                    let (connection, first_ms) = ("main".into(), interval_ms);
                    outputs.push(Output::Keepalive(Keepalive { connection, first_ms, interval_ms, frame }));
                }
            }
            "message" => {
                self.message(frame, outputs);
                self.memory.seq = frame["seq"].as_u64().unwrap_or(self.memory.seq);
                outputs.push(Output::Checkpoint);
                outputs.push(send(&json!({
                    "op": "ack", "seq": self.memory.seq, "label": self.config.label, "restored": self.memory.restored,
                })));
            }
            "result" => {
                let (id, error, retry) = (text("id"), text("error"), frame["retry"] == true);
                let message_ids = frame["message"].as_str().map(str::to_owned).into_iter().collect();
                let result = DeliveryResult { id, message_ids, error, retry, retry_ms: 0 };
                outputs.push(Output::Delivered(result));
                outputs.push(Output::Checkpoint);
            }
            "types" => outputs.push(Output::Presence(Presence { target: text("target"), typing: true })),
            "say" => outputs.push(send(&json!({ "op": "said", "text": frame["text"] }))),
            "panic" => panic!("the adapter was told to panic"),
            "loop" => loop {
                std::hint::black_box(0);
            },
            "flood" => outputs.extend((0..5_000).map(|_| send(&json!({ "op": "flood" })))),
            "other" => outputs.push(Output::Other(("later".into(), "an output of a later version".into()))),
            "get" => outputs.push(self.request("deed-get", "GET", &text("url"), Vec::new())),
            "get-with-token" => {
                let mut request = self.request("deed-token", "GET", &text("url"), Vec::new());
                if let Output::HttpRequest(request) = &mut request {
                    let value = vec![literal("Bearer "), secret("token", Encoding::Raw)];
                    request.headers.push(Header { name: "authorization".into(), value });
                }
                outputs.push(request);
            }
            "connect" => outputs.push(self.open("second", &text("url"))),
            "status" => outputs.push(status(Health::Degraded, &text("detail"))),
            _ => outputs.push(send(&json!({ "op": "what" }))),
        }
    }

    fn message(&self, frame: &Value, outputs: &mut Vec<Output>) {
        let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
        let target = if frame["target"].is_null() { "channel:7".to_owned() } else { text("target") };
        let direct = target.starts_with("direct:");
        outputs.push(Output::Inbound(Inbound {
            id: text("id"),
            kind: match frame["answers"].as_str() {
                Some(id) => Kind::Answer(id.into()),
                None => Kind::Message,
            },
            session: if direct { target.clone() } else { format!("relay:{target}") },
            target,
            place: if direct { Place::Direct } else { Place::Channel },
            space: String::new(),
            sender_id: if frame["sender"].is_null() { "1".into() } else { text("sender") },
            sender_name: "Mina".into(),
            sender_is_bot: frame["bot"] == true,
            addressed: frame["aside"] != true,
            agent: text("agent"),
            text: text("text"),
            reply_to: String::new(),
        }));
    }

    fn open(&self, connection: &str, url: &str) -> Output {
        let mut headers = vec![header("x-label", self.config.label.clone())];
        if !self.config.token.is_empty() {
            let value = vec![literal("Bearer "), secret(self.config.token.clone(), Encoding::Raw)];
            headers.push(Header { name: "authorization".into(), value });
        }
        let (connection, url) = (connection.to_owned(), vec![literal(url)]);
        Output::OpenSocket(OpenSocket { connection, url, headers, compression: Compression::None })
    }

    fn request(&self, id: &str, method: &str, url: &str, body: Vec<Piece>) -> Output {
        let (id, method, url) = (id.to_owned(), method.to_owned(), vec![literal(url)]);
        Output::HttpRequest(HttpRequest { id, method, url, headers: Vec::new(), body, timeout_ms: 0 })
    }
}

fn send(frame: &Value) -> Output {
    Output::SendSocket(SendSocket { connection: "main".into(), data: vec![literal(frame.to_string())] })
}

fn status(health: Health, detail: &str) -> Output {
    Output::Status(Status { health, detail: detail.to_owned() })
}

chela_sdk::channel!(Relay);
