//! Slack as a state machine: envelopes, answers and messages in, requests and messages out.
//! Keeps true: both tokens are only ever named secrets; whatever the network sends is data, and none of it stops the machine; an envelope
//! is acknowledged in the same step that keeps what it came to. Never: waits, or asks a clock.

mod commands;
mod config;
mod delivery;
mod events;
mod inbound;
mod interactions;
mod machine;
mod mrkdwn;
mod names;
mod place;
mod private;
mod socket;
mod state;
mod web;

use chela_sdk::channel::{Channel, Output, Request, State as Snapshot};
use chela_sdk::{ConfigError, Failure, Plugin};

use config::Config;
use machine::Machine;
use state::State;

pub struct Slack {
    machine: Machine,
}

impl Plugin for Slack {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn configure(json: &str) -> Result<Self, ConfigError> {
        Config::read(json).map(|config| Self { machine: Machine::new(config) })
    }
}

impl Channel for Slack {
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

chela_sdk::channel!(Slack);
