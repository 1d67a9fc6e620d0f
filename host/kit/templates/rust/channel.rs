//! {{summary}}.
//!
//! The network of this example says `{"id", "room", "sender", "text"}` for each message of a person, and takes `{"room", "text"}`.

use chela_sdk::channel::{
    Channel, Compression, DeliveryResult, Health, Inbound, Input, Kind, OpenSocket, Output, Place, Request, SendSocket,
    SetTimer, State, Status, WebhookResponse, literal,
};
use chela_sdk::{ConfigError, Failure, Plugin, parse_config};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The configuration: what the deployment says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    url: String,
}

/// All that the next instance must know.
#[derive(Default, Deserialize, Serialize)]
struct Memory {
    open: bool,
}

struct {{type}} {
    config: Config,
    memory: Memory,
}

/// A message of a person, as the network says it.
#[derive(Deserialize)]
struct Said {
    id: String,
    room: String,
    sender: String,
    text: String,
}

impl Plugin for {{type}} {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        Ok(Self { config: parse_config(json)?, memory: Memory::default() })
    }
}

impl Channel for {{type}} {
    fn handle(&mut self, request: Request) -> Result<Vec<Output>, Failure> {
        Ok(request.inputs.into_iter().flat_map(|input| self.take(input)).collect())
    }

    fn snapshot(&self) -> State {
        State { schema: "{{name}}/1".into(), bytes: serde_json::to_vec(&self.memory).unwrap_or_default() }
    }

    fn restore(&mut self, state: State) -> Result<(), Failure> {
        let memory = serde_json::from_slice(&state.bytes);
        self.memory = memory.map_err(|error| Failure::InvalidInput(error.to_string()))?;
        Ok(())
    }
}

impl {{type}} {
    fn take(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Started(_) => self.connect("connecting"),
            Input::SocketOpened(_) => {
                self.memory.open = true;
                vec![status(Health::Ready, ""), Output::Checkpoint]
            }
            Input::SocketText(frame) => match serde_json::from_str(&frame.data) {
                Ok(said) => vec![inbound(said), Output::Checkpoint],
                Err(_) => vec![],
            },
            Input::SocketClosed(closed) if closed.refused => vec![status(Health::Failed, &closed.reason)],
            Input::SocketClosed(closed) => {
                self.memory.open = false;
                let again = SetTimer { name: "again".into(), after_ms: 1_000 };
                vec![status(Health::Connecting, &closed.reason), Output::SetTimer(again), Output::Checkpoint]
            }
            Input::Timer(_) => self.connect("connecting again"),
            Input::Deliver(message) if self.memory.open => {
                let room = message.target.trim_start_matches("channel:");
                let frame = json!({ "room": room, "text": message.text }).to_string();
                let sent = SendSocket { connection: "main".into(), data: vec![literal(frame)] };
                vec![Output::SendSocket(sent), delivered(message.id, ""), Output::Checkpoint]
            }
            Input::Deliver(message) => vec![delivered(message.id, "not connected")],
            Input::Webhook(call) => {
                let (headers, body) = (vec![], vec![]);
                vec![Output::WebhookResponse(WebhookResponse { id: call.id, status: 404, headers, body })]
            }
            _ => vec![],
        }
    }

    /// Opens the socket.
    fn connect(&mut self, detail: &str) -> Vec<Output> {
        self.memory.open = false;
        let (url, headers) = (vec![literal(self.config.url.clone())], vec![]);
        let open = OpenSocket { connection: "main".into(), url, headers, compression: Compression::None };
        vec![Output::OpenSocket(open), status(Health::Connecting, detail), Output::Checkpoint]
    }
}

fn inbound(said: Said) -> Output {
    let target = format!("channel:{}", said.room);
    Output::Inbound(Inbound {
        id: said.id,
        kind: Kind::Message,
        session: format!("{{name}}:{target}"),
        target,
        place: Place::Channel,
        space: String::new(),
        sender_id: said.sender.clone(),
        sender_name: said.sender,
        sender_is_bot: false,
        addressed: true,
        agent: String::new(),
        text: said.text,
        reply_to: String::new(),
    })
}

fn delivered(id: String, error: &str) -> Output {
    let message_ids = if error.is_empty() { vec![id.clone()] } else { vec![] };
    Output::Delivered(DeliveryResult { id, message_ids, error: error.into(), retry: !error.is_empty(), retry_ms: 0 })
}

fn status(health: Health, detail: &str) -> Output {
    Output::Status(Status { health, detail: detail.into() })
}

chela_sdk::channel!({{type}});
