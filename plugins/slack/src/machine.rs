//! The machine: one input after the other, each for the part that it concerns; then what may be sent now is sent.
//! Keeps true: the same state, inputs, time and seed give the same outputs.

use chela_sdk::Context;
use chela_sdk::channel::{CALLS_TIMER, HttpResponse, Input, Output, Turn};

use crate::config::Config;
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
            Input::SocketText(frame) => self.frame(turn, &frame.connection, &frame.data),
            Input::SocketClosed(closed) => self.closed(turn, &closed),
            Input::Timer(name) => match name.as_str() {
                // What waits is looked at after every call.
                CALLS_TIMER => {}
                name => self.socket_timer(turn, name),
            },
            Input::HttpResponse(response) => self.response(turn, response),
            Input::Deliver(outbound) => self.deliver(turn, outbound),
            Input::Webhook(request) => turn.no_webhook(request.id),
            Input::Stopping => self.leave(turn),
            // The greeting tells that a socket works; Slack shows nobody that a bot types.
            Input::SocketOpened(_)
            | Input::SocketBinary(_)
            | Input::KeepaliveSent(_)
            | Input::Presence(_)
            | Input::Other(_) => {}
        }
    }

    /// Nothing of before is under way any more; what was asked for and never answered is asked for again.
    fn start(&mut self, turn: &mut Turn) {
        self.requeue_calls();
        self.release_all(turn);
        self.greet(turn);
    }

    fn response(&mut self, turn: &mut Turn, response: HttpResponse) {
        if response.id.starts_with("call-") {
            self.answered(turn, response);
        } else {
            self.linked(turn, response);
        }
    }
}
