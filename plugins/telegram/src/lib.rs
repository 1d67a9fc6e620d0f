//! Telegram as a state machine: updates, answers and messages in, requests and messages out.
//! Keeps true: the token is only ever a named secret in an address; whatever the network sends is data, and none of it stops the machine;
//! an update is confirmed to Telegram only after what it came to is kept. Never: waits, or asks a clock.

mod bot;
mod commands;
mod config;
mod delivery;
mod entities;
mod inbound;
mod look;
mod machine;
mod numbers;
mod place;
mod poll;
mod questions;
mod state;
mod typing;

use chela_sdk::channel::{Channel, Output, Request, State as Snapshot};
use chela_sdk::{ConfigError, Failure, Plugin};

use config::Config;
use machine::Machine;
use state::State;

pub struct Telegram {
    machine: Machine,
}

impl Plugin for Telegram {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn configure(json: &str) -> Result<Self, ConfigError> {
        Config::read(json).map(|config| Self { machine: Machine::new(config) })
    }
}

impl Channel for Telegram {
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

chela_sdk::channel!(Telegram);
