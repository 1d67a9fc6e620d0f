//! Requests to the Bot API, and what its answers mean.
//! Keeps true: the token stands in the address as a named secret; requests of one chat go one after the other; a wait that Telegram asks
//! for is kept.

use chela_sdk::channel::{Ask, Call, Calls, Encoding, HttpRequest, HttpResponse, Turn, header, literal, secret, wire};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::Machine;
use crate::state::Phase;

/// A wait that is longer is the host's.
const WAIT_MAX_MS: u64 = 240_000;

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// A part of a delivery.
    Part {
        delivery: String,
    },
    /// A message of before that a shorter text leaves over, or buttons that are over.
    Tidy,
    Typing,
    Commands {
        hash: String,
    },
    /// What a person sees at once, such as that a button was pressed.
    Notice,
}

/// What Telegram said.
pub enum Said {
    Done(Value),
    /// Its code and words; not to be repeated. `moved` is what the chat has become.
    Refused {
        status: i64,
        said: String,
        moved: Option<i64>,
    },
    Wait {
        ms: u64,
    },
    /// It did not come to an answer.
    Nothing(String),
    /// It may have been done, and is not to be repeated.
    Uncertain(String),
    /// The host did not even try.
    Unreachable(String),
}

impl Said {
    pub fn of(response: &HttpResponse) -> Self {
        if response.refused {
            return Self::Unreachable(wire::name(&response.error));
        }
        if response.status == 0 {
            return Self::Nothing(wire::name(&response.error));
        }
        let body: Value = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
        let status = body["error_code"].as_i64().unwrap_or(i64::from(response.status));
        let parameters = &body["parameters"];
        match status {
            200..=299 if body["ok"] == true => Self::Done(body["result"].clone()),
            200..=299 => Self::Nothing("Telegram's answer cannot be read".into()),
            429 => {
                let of_body = parameters["retry_after"].as_f64().map(wire::seconds_as_ms);
                Self::Wait { ms: of_body.or_else(|| wire::retry_after_ms(&response.headers)).unwrap_or(1_000).max(1) }
            }
            500..=599 => Self::Nothing(format!("Telegram answered {status}")),
            _ => {
                let said = wire::name(wire::text(&body["description"]));
                Self::Refused { status, said, moved: parameters["migrate_to_chat_id"].as_i64() }
            }
        }
    }
}

impl Machine {
    /// A request of the Bot API. The token is in the path, where Telegram wants it.
    pub fn request(&self, id: String, method: &str, body: &str, timeout_ms: u32) -> HttpRequest {
        let url = vec![
            literal(format!("{}/bot", self.config.api)),
            secret(&self.config.token_secret, Encoding::Raw),
            literal(format!("/{method}")),
        ];
        let headers = vec![header("content-type", "application/json")];
        HttpRequest { id, method: "POST".into(), url, headers, body: vec![literal(body)], timeout_ms }
    }

    /// Queues a request about a chat; false when there is no room for it.
    pub fn ask(&mut self, turn: &mut Turn, purpose: Purpose, chat: i64, method: &str, body: &Value) -> bool {
        let urgent = matches!(purpose, Purpose::Part { .. } | Purpose::Notice);
        // A sign that somebody works, or that a button was pressed, does not wait for messages.
        let lane = match &purpose {
            Purpose::Part { .. } | Purpose::Tidy => format!("chat:{chat}"),
            Purpose::Typing => format!("typing:{chat}"),
            Purpose::Commands { .. } | Purpose::Notice => method.to_owned(),
        };
        self.state.calls.ask(turn, purpose, Ask { lane, what: method.into(), body: body.to_string(), urgent })
    }

    pub fn pump(&mut self, turn: &mut Turn) {
        // Requests with a token that was refused are of no use.
        if self.state.link.phase == Phase::Halted {
            return;
        }
        let mut calls = std::mem::take(&mut self.state.calls);
        let request = |call: &Call<Purpose>| self.request(Calls::name(call), &call.what, &call.body, 0);
        calls.pump(turn, self.config.requests_per_second, request);
        self.state.calls = calls;
    }

    /// Whether a request must not be made twice: one that makes a message, where the deployment would rather lose it than have it there twice.
    fn gives_up_on(&self, call: &Call<Purpose>) -> bool {
        let makes = matches!(call.purpose, Purpose::Part { .. }) && call.what == "sendMessage";
        makes && !self.config.repeat_uncertain
    }

    /// After a start nothing is under way. What may have been done is asked for again, or told to be uncertain.
    pub fn requeue_calls(&mut self, turn: &mut Turn) {
        let mut calls = std::mem::take(&mut self.state.calls);
        let mut uncertain = Vec::new();
        calls.restarted(|call| {
            if call.is_under_way() && self.gives_up_on(call) {
                uncertain.push(call.purpose.clone());
                return false;
            }
            !matches!(call.purpose, Purpose::Typing | Purpose::Notice)
        });
        self.state.calls = calls;
        for purpose in uncertain {
            if let Purpose::Part { delivery } = purpose {
                self.part_answered(turn, &delivery, Said::Uncertain("the gateway ended meanwhile".into()));
            }
        }
    }

    pub fn answered(&mut self, turn: &mut Turn, response: HttpResponse) {
        let Some(answered) = self.state.calls.answered(&response) else { return };
        let purpose = answered.call.purpose.clone();
        if purpose != Purpose::Typing {
            turn.changed();
        }
        let is_passing = matches!(purpose, Purpose::Typing | Purpose::Notice);
        let said = match Said::of(&response) {
            Said::Wait { ms } => {
                let until_ms = turn.now_ms + ms;
                self.state.calls.hold(&answered.call.lane, until_ms);
                if ms <= WAIT_MAX_MS && !is_passing {
                    return self.state.calls.again(answered, until_ms);
                }
                Said::Wait { ms }
            }
            Said::Nothing(error) if self.gives_up_on(&answered.call) && response.sent => Said::Uncertain(error),
            Said::Nothing(error) if !is_passing => match self.state.calls.try_again(turn, answered) {
                None => return,
                Some(_) => Said::Nothing(error),
            },
            Said::Refused { status: 401, .. } => {
                self.unauthorized(turn);
                Said::Unreachable("Telegram refused the bot's token".into())
            }
            said => said,
        };
        match purpose {
            Purpose::Part { delivery } => self.part_answered(turn, &delivery, said),
            Purpose::Commands { hash } => self.commands_answered(hash, &said),
            Purpose::Tidy | Purpose::Typing | Purpose::Notice => {}
        }
    }
}
