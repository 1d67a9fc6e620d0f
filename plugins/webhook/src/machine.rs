//! The machine: one input after the other, each for the part that it concerns; then what may be sent now is sent.
//! Keeps true: the same state, inputs, time and seed give the same outputs.

use chela_sdk::Context;
use chela_sdk::channel::{Health, Input, Output, Turn};

use crate::config::Config;
use crate::outgoing::Purpose;
use crate::state::State;

pub struct Machine {
    pub config: Config,
    pub state: State,
}

impl Machine {
    pub fn new(config: Config) -> Self {
        Self { config, state: State::default() }
    }

    pub fn handle(&mut self, context: &Context, inputs: Vec<Input>) -> Vec<Output> {
        let mut turn = Turn::new(context);
        for input in inputs {
            self.take(&mut turn, input);
        }
        self.pump(&mut turn);
        turn.outputs()
    }

    fn take(&mut self, turn: &mut Turn, input: Input) {
        match input {
            Input::Started(_) => self.start(turn),
            Input::HttpResponse(response) => self.answered(turn, response),
            Input::Deliver(outbound) => self.deliver(turn, outbound),
            Input::Presence(presence) => self.presence(turn, &presence),
            Input::Webhook(request) => self.called(turn, request),
            // What waits is looked at after every call. There are no sockets.
            Input::Timer(_)
            | Input::Stopping
            | Input::SocketOpened(_)
            | Input::SocketText(_)
            | Input::SocketBinary(_)
            | Input::SocketClosed(_)
            | Input::KeepaliveSent(_)
            | Input::Other(_) => {}
        }
    }

    /// Nothing of before is under way any more; what was asked for and never answered is asked for again.
    fn start(&mut self, turn: &mut Turn) {
        self.state.calls.restarted(|call| call.purpose != Purpose::Typing);
        (self.state.failures, self.state.halted) = (0, false);
        self.show_ready(turn);
        turn.changed();
    }

    pub fn show_ready(&self, turn: &mut Turn) {
        let detail = match &self.config.url {
            Some(_) => "takes signed calls, and posts messages",
            None => "takes signed calls; no url is configured, so no message can be posted",
        };
        turn.status(Health::Ready, detail);
    }
}
