//! Any program as a chat network: signed calls in, signed requests out.
//! Keeps true: what is not signed, too old or too new is not heard; a call is answered with success only after its message is kept; a
//! message out has the same id on every try. Never: waits, asks a clock, or knows the key.

mod config;
mod incoming;
mod machine;
mod outgoing;
mod state;

use chela_sdk::channel::{Channel, Output, Request, State as Snapshot};
use chela_sdk::{ConfigError, Failure, Plugin};

use config::Config;
use machine::Machine;
use state::State;

pub struct Webhook {
    machine: Machine,
}

impl Plugin for Webhook {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn configure(json: &str) -> Result<Self, ConfigError> {
        Config::read(json).map(|config| Self { machine: Machine::new(config) })
    }
}

impl Channel for Webhook {
    fn handle(&mut self, request: Request) -> Result<Vec<Output>, Failure> {
        Ok(self.machine.handle(&request.context, request.inputs))
    }

    fn snapshot(&self) -> Snapshot {
        self.machine.state.snapshot()
    }

    fn restore(&mut self, state: Snapshot) -> Result<(), Failure> {
        self.machine.state = State::restored(&state).map_err(Failure::InvalidInput)?;
        Ok(())
    }
}

chela_sdk::channel!(Webhook);
