//! The machine: one input after the other, each for the part that it concerns; then what may be sent now is sent.
//! Keeps true: the same state, inputs, time and seed give the same outputs.

use chela_sdk::Context;
use chela_sdk::channel::{Input, Output, Turn};
use serde_json::Value;

use crate::config::Config;
use crate::state::State;

pub struct Machine {
    pub config: Config,
    pub state: State,
}

/// Sends what limits held back.
pub const REST_TIMER: &str = "rest";
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
        self.renew_keepalive(&mut turn);
        self.pump(&mut turn);
        if turn.is_changed() {
            self.state.link.saved = self.state.sequence.last();
        }
        turn.outputs()
    }

    fn take(&mut self, turn: &mut Turn, input: Input) {
        match input {
            Input::Started(_) => self.start(turn),
            Input::SocketOpened(_) | Input::SocketBinary(_) => {}
            Input::SocketText(frame) => {
                if self.is_current(&frame.connection) {
                    self.frame(turn, &frame.data);
                }
            }
            Input::SocketClosed(closed) => {
                if self.is_current(&closed.connection) {
                    self.closed(turn, &closed);
                }
            }
            Input::KeepaliveSent(connection) => {
                if self.is_current(&connection) {
                    self.heartbeat_sent(turn);
                }
            }
            Input::Timer(name) => match name.as_str() {
                // What waits is looked at after every call.
                REST_TIMER => {}
                TYPING_TIMER => self.type_again(turn),
                _ => self.gateway_timer(turn, &name),
            },
            Input::HttpResponse(response) => self.answered(turn, response),
            Input::Deliver(outbound) => self.deliver(turn, outbound),
            Input::Presence(presence) => self.presence(turn, &presence),
            Input::Webhook(request) => turn.no_webhook(request.id),
            Input::Stopping => self.stop(turn),
            Input::Other(_) => {}
        }
    }

    /// Nothing of before is under way any more; what was asked for and never answered is asked for again.
    fn start(&mut self, turn: &mut Turn) {
        self.requeue_calls();
        self.state.typing.clear();
        self.begin(turn);
        turn.changed();
    }

    fn stop(&mut self, turn: &mut Turn) {
        self.leave(turn);
        turn.changed();
    }

    /// A dispatch of the gateway, by its name.
    pub fn dispatch(&mut self, turn: &mut Turn, name: &str, data: &Value) {
        let me = self.state.me.as_ref().map(|me| me.id);
        match name {
            "READY" => self.ready(turn, data),
            "RESUMED" => self.resumed(turn),
            "GUILD_CREATE" => self.state.names.learn_guild(data, me),
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => self.state.names.learn_role(&data["role"], me),
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                self.state.names.learn_place(data);
            }
            "THREAD_LIST_SYNC" => self.state.names.learn_guild(data, me),
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                if let Some(id) = crate::wire::id(&data["id"]) {
                    self.state.names.forget_place(id);
                }
            }
            // Most messages of a server are not for the bot, and not worth a record.
            "MESSAGE_CREATE" => return self.message(turn, data),
            "INTERACTION_CREATE" => return self.interaction(turn, data),
            _ => return,
        }
        turn.changed();
    }
}
