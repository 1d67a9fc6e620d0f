//! Envelopes: each acknowledged, in the same step that keeps what it came to.

use chela_sdk::channel::{Turn, wire};
use serde_json::Value;

use crate::machine::Machine;

/// Envelopes have ids of this length at most.
const ENVELOPE_MAX: usize = 200;

impl Machine {
    pub fn envelope(&mut self, turn: &mut Turn, connection: &str, kind: &str, frame: &Value) {
        let envelope = wire::text(&frame["envelope_id"]);
        if envelope.is_empty() || envelope.len() > ENVELOPE_MAX {
            return;
        }
        let payload = &frame["payload"];
        let answer = match kind {
            "events_api" => {
                self.event(turn, payload);
                None
            }
            "interactive" => {
                self.interaction(turn, payload);
                None
            }
            "slash_commands" => self.slash_command(turn, payload),
            _ => None,
        };
        let answer = answer.filter(|_| frame["accepts_response_payload"] == true);
        self.acknowledge(turn, connection, envelope, answer);
    }

    fn event(&mut self, turn: &mut Turn, payload: &Value) {
        let event = &payload["event"];
        match wire::text(&event["type"]) {
            "message" | "app_mention" => self.message(turn, event, wire::text(&payload["team_id"])),
            "user_change" => {
                let user = &event["user"];
                if let Some(id) =
                    crate::place::id(wire::text(&user["id"])).filter(|id| self.state.names.of(id).is_some())
                {
                    self.state.names.learn(&id, user);
                    turn.changed();
                }
            }
            _ => {}
        }
    }
}
