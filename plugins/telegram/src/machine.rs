//! The machine: one input after the other, each for the part that it concerns; then what may be sent now is sent.
//! Keeps true: the same state, inputs, time and seed give the same outputs.

use chela_sdk::Context;
use chela_sdk::channel::{CALLS_TIMER, HttpResponse, Input, Output, Turn};

use crate::config::Config;
use crate::state::{Phase, State};

pub struct Machine {
    pub config: Config,
    pub state: State,
}

/// Shows again that someone types.
pub const TYPING_TIMER: &str = "typing";

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
            Input::Timer(name) => match name.as_str() {
                // What waits is looked at after every call.
                CALLS_TIMER => {}
                TYPING_TIMER => self.type_again(turn),
                name => self.poll_timer(turn, name),
            },
            Input::HttpResponse(response) => self.response(turn, response),
            Input::Deliver(outbound) => self.deliver(turn, outbound),
            Input::Presence(presence) => self.presence(turn, &presence),
            Input::Webhook(request) => turn.no_webhook(request.id),
            Input::Stopping => {
                self.state.link.phase = Phase::Idle;
                turn.changed();
            }
            // Telegram has no sockets.
            Input::SocketOpened(_)
            | Input::SocketText(_)
            | Input::SocketBinary(_)
            | Input::SocketClosed(_)
            | Input::KeepaliveSent(_)
            | Input::Other(_) => {}
        }
    }

    /// Nothing of before is under way any more; what was asked for and never answered is asked for again.
    fn start(&mut self, turn: &mut Turn) {
        self.requeue_calls(turn);
        self.state.typing.clear();
        self.state.link.attempts = 0;
        self.greet(turn);
    }

    fn response(&mut self, turn: &mut Turn, response: HttpResponse) {
        if response.id.starts_with("call-") {
            self.answered(turn, response);
        } else {
            self.polled(turn, response);
        }
    }
}
