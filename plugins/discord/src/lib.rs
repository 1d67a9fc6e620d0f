//! Discord as a state machine: frames, answers and messages in, requests and messages out.
//! Keeps true: the token is only ever a named secret; whatever the network sends is data, and none of it stops the machine; what
//! was taken from the network and what was sent to it are one step with the state that remembers it. Never: waits, or asks a clock.

mod commands;
mod config;
mod delivery;
mod gateway;
mod inbound;
mod interactions;
mod limits;
mod machine;
mod mentions;
mod names;
mod rest;
mod sequence;
mod state;
mod typing;
mod wire;

use chela_sdk::channel::{Channel, Output, Request, State as Snapshot};
use chela_sdk::{ConfigError, Failure, Plugin};

use config::Config;
use machine::Machine;
use state::State;

pub struct Discord {
    machine: Machine,
}

impl Plugin for Discord {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn configure(json: &str) -> Result<Self, ConfigError> {
        Config::read(json).map(|config| Self { machine: Machine::new(config) })
    }
}

impl Channel for Discord {
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

chela_sdk::channel!(Discord);
