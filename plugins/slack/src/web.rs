//! Requests to Slack's Web API, and what its answers mean.
//! Keeps true: tokens are named secrets in a header; requests about one channel go one after the other; a wait that Slack asks for is kept.

use chela_sdk::channel::{
    Answered, Ask, Call, Calls, Encoding, Header, HttpRequest, HttpResponse, Turn, header, literal, secret, wire,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::state::Phase;

/// A wait that is longer is the host's.
const WAIT_MAX_MS: u64 = 240_000;

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// A part of a delivery, asked for then.
    Part { delivery: String, at_ms: u64 },
    /// Whether such a part, of which no answer came, is there.
    Look { delivery: String, at_ms: u64 },
    /// A message of before that a shorter text leaves over, or buttons that are over.
    Tidy,
    /// The channel for direct messages with someone.
    Direct { person: String },
    /// What someone is called.
    Name { person: String },
    /// What a person sees at once, such as a form.
    Notice,
}

/// What Slack said.
pub enum Said {
    Done(Value),
    /// Slack's word for it; not to be repeated.
    Refused(String),
    Wait {
        ms: u64,
    },
    /// It did not come to an answer, so it may have been done or not.
    Nothing(String),
    /// The host did not even try.
    Unreachable(String),
}

/// Words for a token that is of no use.
const NO_AUTH: [&str; 6] =
    ["invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"];
/// Faults of Slack's own that pass.
const PASSING: [&str; 5] =
    ["internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"];

pub fn is_about_token(word: &str) -> bool {
    NO_AUTH.contains(&word)
}

impl Said {
    pub fn of(response: &HttpResponse) -> Self {
        if response.refused {
            return Self::Unreachable(wire::name(&response.error));
        }
        let wait = || Self::Wait { ms: wire::retry_after_ms(&response.headers).unwrap_or(1_000).max(1) };
        match response.status {
            0 => Self::Nothing(wire::name(&response.error)),
            429 => wait(),
            500..=599 => Self::Nothing(format!("Slack answered {}", response.status)),
            200..=299 => {
                let body: Value = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
                match wire::name(wire::text(&body["error"])) {
                    _ if body["ok"] == true => Self::Done(body),
                    word if matches!(&*word, "ratelimited" | "rate_limited") => wait(),
                    word if PASSING.contains(&&*word) => Self::Nothing(format!("Slack answered {word}")),
                    word if !word.is_empty() => {
                        let needed = wire::name(wire::text(&body["needed"]));
                        Self::Refused(if needed.is_empty() { word } else { format!("{word}: {needed}") })
                    }
                    _ => Self::Nothing("Slack's answer cannot be read".into()),
                }
            }
            status => Self::Refused(status.to_string()),
        }
    }
}

impl Machine {
    /// A request of the Web API, or of an address for replies, which needs no token.
    pub fn request(&self, id: String, method: &str, body: &str, token: &str) -> HttpRequest {
        let is_address = method.starts_with("http");
        let url = if is_address { method.to_owned() } else { format!("{}/{method}", self.config.api) };
        let kind =
            if body.starts_with('{') { "application/json; charset=utf-8" } else { "application/x-www-form-urlencoded" };
        let mut headers = vec![header("content-type", kind)];
        if !is_address {
            let value = vec![literal("Bearer "), secret(token, Encoding::Raw)];
            headers.push(Header { name: "authorization".into(), value });
        }
        HttpRequest {
            id,
            method: "POST".into(),
            url: vec![literal(url)],
            headers,
            body: vec![literal(body)],
            timeout_ms: 0,
        }
    }

    /// Queues a request; false when there is no room for it. `lane` is the channel that it is about, or the method.
    pub fn ask(&mut self, turn: &mut Turn, purpose: Purpose, lane: &str, method: &str, body: String) -> bool {
        let urgent = matches!(purpose, Purpose::Part { .. } | Purpose::Look { .. } | Purpose::Notice);
        let ask = Ask { lane: lane.to_owned(), what: method.to_owned(), body, urgent };
        self.state.calls.ask(turn, purpose, ask)
    }

    pub fn pump(&mut self, turn: &mut Turn) {
        // Requests with a token that was refused are of no use.
        if self.state.link.phase == Phase::Halted {
            return;
        }
        let mut calls = std::mem::take(&mut self.state.calls);
        let token = &self.config.bot_token_secret;
        let request = |call: &Call<Purpose>| self.request(Calls::name(call), &call.what, &call.body, token);
        calls.pump(turn, self.config.requests_per_second, request);
        self.state.calls = calls;
    }

    pub fn answered(&mut self, turn: &mut Turn, response: HttpResponse) {
        let Some(answered) = self.state.calls.answered(&response) else { return };
        let purpose = answered.call.purpose.clone();
        turn.changed();
        // An address for replies answers with words of any kind.
        let is_reply = answered.call.what.starts_with("http") && (200..=299).contains(&response.status);
        let said = match if is_reply { Said::Done(json!({})) } else { Said::of(&response) } {
            Said::Wait { ms } => {
                let until_ms = turn.now_ms + ms;
                self.state.calls.hold(&answered.call.lane, until_ms);
                if ms <= WAIT_MAX_MS && purpose != Purpose::Notice {
                    return self.state.calls.again(answered, until_ms);
                }
                Said::Wait { ms }
            }
            Said::Nothing(error) if purpose != Purpose::Notice => {
                let is_over = match response.sent {
                    true => !self.once_more(turn, answered),
                    // It never left, so it was not done.
                    false => self.state.calls.try_again(turn, answered).is_some(),
                };
                if !is_over {
                    return;
                }
                match (response.sent, &purpose) {
                    (false, Purpose::Part { delivery, .. }) => {
                        return self.state.deliveries.park(turn, delivery, &error, 0);
                    }
                    _ => Said::Nothing(error),
                }
            }
            Said::Refused(word) if is_about_token(&word) => {
                self.unauthorized(turn, "the bot's token", &word);
                Said::Unreachable(format!("Slack refused the bot's token ({word})"))
            }
            said => said,
        };
        match purpose {
            Purpose::Part { delivery, at_ms } => self.part_answered(turn, &delivery, at_ms, said),
            Purpose::Look { delivery, at_ms } => self.looked(turn, &delivery, at_ms, said),
            Purpose::Direct { person } => self.direct_opened(turn, &person, said),
            Purpose::Name { person } => self.name_found(turn, &person, said),
            Purpose::Tidy | Purpose::Notice => {}
        }
    }

    /// A request whose answer did not come is made again; one that makes a message only after a look whether the message is there.
    fn once_more(&mut self, turn: &mut Turn, mut answered: Answered<Purpose>) -> bool {
        if let Some((id, at_ms)) = self.make_a_look(&mut answered.call) {
            self.state.unsure.entry(id).or_insert(at_ms);
        }
        self.state.calls.try_again(turn, answered).is_none()
    }

    /// After a start: what makes a message and was under way may have been done.
    pub fn requeue_calls(&mut self) {
        let mut calls = std::mem::take(&mut self.state.calls);
        let mut unsure = Vec::new();
        calls.restarted(|call| {
            if call.is_under_way() {
                unsure.extend(self.make_a_look(call));
            }
            call.purpose != Purpose::Notice
        });
        self.state.calls = calls;
        // Since it was asked for, however long ago that is: a look that began later would miss it.
        for (id, at_ms) in unsure {
            self.state.unsure.entry(id).or_insert(at_ms);
        }
    }
}
