//! An adapter of no network that does one bad thing again and again, by its configuration: it loops, traps, floods, or asks for what it was
//! not granted. For measurements of what others notice of it.

use chela_sdk::channel::{
    Channel, Health, HttpRequest, Inbound, Input, Kind, Output, Place, Request, SetTimer, State, Status, literal,
};
use chela_sdk::{ConfigError, Failure, Plugin, parse_config};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    deed: Deed,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
enum Deed {
    /// For ever, at each timer.
    Loop,
    /// At every input.
    Trap,
    /// More outputs than any answer may have.
    Flood,
    /// As many as an answer may have, and a large state with each, as often as timers go.
    Stream,
    /// Requests to a host that it was not granted.
    Elsewhere,
}

struct Wild {
    deed: Deed,
    calls: u64,
}

impl Plugin for Wild {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        let Config { deed } = parse_config(json)?;
        Ok(Self { deed, calls: 0 })
    }
}

impl Channel for Wild {
    fn handle(&mut self, request: Request) -> Result<Vec<Output>, Failure> {
        self.calls += 1;
        if matches!(self.deed, Deed::Trap) {
            panic!("it traps at every input");
        }
        let begins = request.inputs.iter().any(|input| matches!(input, Input::Started(_)));
        let mut outputs = vec![Output::SetTimer(SetTimer { name: "again".into(), after_ms: 5 })];
        if begins {
            outputs.push(Output::Status(Status { health: Health::Ready, detail: String::new() }));
            return Ok(outputs);
        }
        match self.deed {
            Deed::Loop => loop {
                std::hint::black_box(0);
            },
            Deed::Trap => {}
            Deed::Flood => outputs.extend((0..5_000).map(|nth| said(self.calls, nth))),
            Deed::Stream => {
                outputs.extend((0..30).map(|nth| said(self.calls, nth)));
                let detail = format!("it goes on, {} times", self.calls);
                outputs.push(Output::Status(Status { health: Health::Ready, detail }));
                outputs.push(Output::Checkpoint);
            }
            Deed::Elsewhere => outputs.extend((0..16).map(|nth| elsewhere(self.calls, nth))),
        }
        Ok(outputs)
    }

    fn snapshot(&self) -> State {
        State { schema: "wild/1".into(), bytes: vec![b'x'; 64 * 1024] }
    }

    fn restore(&mut self, _: State) -> Result<(), Failure> {
        Ok(())
    }
}

/// A message that is to nobody.
fn said(call: u64, nth: u64) -> Output {
    Output::Inbound(Inbound {
        id: format!("{call}-{nth}"),
        kind: Kind::Message,
        target: "channel:1".into(),
        session: "wild:channel:1".into(),
        place: Place::Channel,
        space: String::new(),
        sender_id: "1".into(),
        sender_name: "Nobody".into(),
        sender_is_bot: false,
        addressed: false,
        agent: String::new(),
        text: "x".repeat(1_000),
        reply_to: String::new(),
    })
}

fn elsewhere(call: u64, nth: u64) -> Output {
    Output::HttpRequest(HttpRequest {
        id: format!("{call}-{nth}"),
        method: "GET".into(),
        url: vec![literal(format!("http://169.254.169.254/latest/{nth}"))],
        headers: Vec::new(),
        body: Vec::new(),
        timeout_ms: 0,
    })
}

chela_sdk::channel!(Wild);
