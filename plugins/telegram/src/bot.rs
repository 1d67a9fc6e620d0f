//! Requests to the Bot API, and what its answers mean.
//! Keeps true: the token stands in the address as a named secret; requests that make messages of one chat go one after the other, and each
//! notes the highest number that is known as it goes; a wait that Telegram asks for is kept.

use chela_sdk::channel::{
    Answered, Ask, Call, Calls, Encoding, HttpRequest, HttpResponse, Turn, header, literal, secret, wire,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::look::{CATCH_UP_MS, MOMENT_MS};
use crate::machine::Machine;
use crate::state::Phase;

pub const SEND: &str = "sendMessage";

/// A wait that is longer is the host's.
const WAIT_MAX_MS: u64 = 240_000;
/// While looks wait for what was said meanwhile, until they ask whether they still do.
const LOOK_AGAIN_MS: u64 = 500;

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// A part of a delivery. `after` is the highest number that was known when it was sent, 0 for none.
    Part {
        delivery: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<i64>,
    },
    /// Whether such a part, of which no answer came, is there under a number; so many were asked for.
    Look {
        delivery: String,
        at: i64,
        asked: u32,
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

/// Requests about messages of a chat wait for each other.
pub fn lane_of(chat: i64) -> String {
    format!("chat:{chat}")
}

pub fn chat_of(call: &Call<Purpose>) -> Option<i64> {
    call.lane.strip_prefix("chat:")?.parse().ok()
}

/// Whether a request makes a message, so that making it twice is not the same as making it once.
pub fn makes_message(call: &Call<Purpose>) -> bool {
    matches!(call.purpose, Purpose::Part { .. } | Purpose::Notice) && call.what == SEND
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
        let urgent = matches!(purpose, Purpose::Part { .. } | Purpose::Look { .. } | Purpose::Notice);
        // A sign that somebody works, or that a button was pressed, does not wait for messages.
        let lane = match &purpose {
            Purpose::Part { .. } | Purpose::Look { .. } | Purpose::Tidy => lane_of(chat),
            Purpose::Notice if method == SEND => lane_of(chat),
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
        if self.state.link.catch_up_until_ms > turn.now_ms {
            self.looking().for_each(|lane| calls.hold(&lane, turn.now_ms + LOOK_AGAIN_MS));
        }
        let request = |call: &Call<Purpose>| self.request(Calls::name(call), &call.what, &call.body, 0);
        calls.pump(turn, self.config.requests_per_second, request);
        for call in calls.under_way_mut().filter(|call| call.what == SEND) {
            let top = chat_of(call).and_then(|chat| self.state.numbers.top(chat));
            if let Purpose::Part { after: after @ None, .. } = &mut call.purpose {
                *after = Some(top.unwrap_or(0));
            }
        }
        self.state.calls = calls;
    }

    /// After a start nothing is under way. What may have made a message is looked for; the rest is asked for again.
    pub fn requeue_calls(&mut self, turn: &mut Turn) {
        let mut calls = std::mem::take(&mut self.state.calls);
        let (mut lanes, mut uncertain) = (Vec::new(), Vec::new());
        calls.restarted(|call| {
            if !call.is_under_way() || !makes_message(call) {
                return !matches!(call.purpose, Purpose::Typing | Purpose::Notice);
            }
            let is_kept = self.doubt(call);
            match &call.purpose {
                Purpose::Look { .. } => lanes.push(call.lane.clone()),
                Purpose::Part { delivery, .. } if !is_kept => uncertain.push(delivery.clone()),
                _ => {}
            }
            is_kept
        });
        lanes.iter().for_each(|lane| calls.hold(lane, turn.now_ms + MOMENT_MS));
        self.state.calls = calls;
        for delivery in uncertain {
            self.part_answered(turn, &delivery, Said::Uncertain("the gateway ended meanwhile".into()));
        }
        let catches_up = self.is_to_catch_up();
        self.state.link.catch_up_until_ms = if catches_up { turn.now_ms + CATCH_UP_MS } else { 0 };
    }

    pub fn answered(&mut self, turn: &mut Turn, response: HttpResponse) {
        let Some(mut answered) = self.state.calls.answered(&response) else { return };
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
                    return self.state.calls.again(unsent(answered), until_ms);
                }
                Said::Wait { ms }
            }
            Said::Nothing(error) if response.sent && makes_message(&answered.call) => {
                if self.doubt(&mut answered.call) {
                    return self.try_again(turn, answered, error);
                }
                Said::Uncertain(error)
            }
            Said::Nothing(error) if !is_passing => return self.try_again(turn, unsent(answered), error),
            Said::Refused { status: 401, .. } => {
                self.unauthorized(turn);
                Said::Unreachable("Telegram refused the bot's token".into())
            }
            said => said,
        };
        self.settle(turn, answered, said);
    }

    fn try_again(&mut self, turn: &mut Turn, answered: Answered<Purpose>, error: String) {
        let given_up = self.state.calls.try_again(turn, answered);
        match given_up.map(|call| call.purpose) {
            Some(Purpose::Part { delivery, .. } | Purpose::Look { delivery, .. }) => {
                self.state.deliveries.park(turn, &delivery, &error, 0);
            }
            Some(Purpose::Commands { hash }) => self.commands_answered(hash, &Said::Nothing(error)),
            Some(Purpose::Tidy | Purpose::Typing | Purpose::Notice) | None => {}
        }
    }

    fn settle(&mut self, turn: &mut Turn, answered: Answered<Purpose>, said: Said) {
        match answered.call.purpose.clone() {
            Purpose::Part { delivery, .. } => self.part_answered(turn, &delivery, said),
            Purpose::Look { .. } => self.looked(turn, answered, said),
            Purpose::Commands { hash } => self.commands_answered(hash, &said),
            Purpose::Notice => {
                if let (Said::Done(message), Some(chat)) = (said, chat_of(&answered.call)) {
                    self.made("", chat, &message);
                }
            }
            Purpose::Tidy | Purpose::Typing => {}
        }
    }
}

/// A request that was not done: when it goes again, the numbers have gone on.
fn unsent(mut answered: Answered<Purpose>) -> Answered<Purpose> {
    if let Purpose::Part { after, .. } = &mut answered.call.purpose {
        *after = None;
    }
    answered
}
