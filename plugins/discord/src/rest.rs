//! Requests to Discord's REST interface: queued, sent when the limits allow, tried again where that helps.
//! Keeps true: requests of one lane go one after the other, so messages of a channel keep their order, and what answers an interaction
//! follows its acknowledgement; a request that may have been done is repeated only where that changes nothing.

use chela_sdk::channel::{Encoding, Header, HttpRequest, HttpResponse, Output, Turn, header, literal, secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::Route;
use crate::machine::{Machine, REST_TIMER};
use crate::state::Phase;
use crate::wire;

/// Requests that wait or are under way; past them nothing but what a person waits for is taken.
const CALLS_MAX: usize = 256;
const UNDER_WAY_MAX: usize = 32;
const TRIES_MAX: u32 = 5;
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
    /// A message of before that a shorter text leaves over.
    Remove,
    /// The channel for direct messages with someone.
    Direct {
        peer: u64,
    },
    /// What kind of place a message came from.
    Lookup {
        place: u64,
    },
    Typing,
    Commands {
        hash: String,
    },
    /// Tells Discord that an interaction was taken.
    Acknowledge {
        interaction: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub id: u64,
    pub purpose: Purpose,
    method: String,
    path: String,
    route: Route,
    body: String,
    tries: u32,
    not_before_ms: u64,
    under_way: bool,
}

impl Call {
    pub fn is_about(&self, channel: u64) -> bool {
        self.route.major == channel.to_string()
    }

    /// Requests of a lane wait for each other. Those of an interaction share one: Discord knows no answer to what was not acknowledged.
    fn lane(&self) -> (String, String) {
        let path = if self.route.global { self.route.path.clone() } else { String::new() };
        (path, self.route.major.clone())
    }
}

/// A request before it is queued.
pub struct Ask {
    pub method: &'static str,
    pub path: String,
    pub route: Route,
    pub body: Value,
}

impl Ask {
    /// About a channel, which limits count apart; `what` follows its id, and `template` is `what` without ids.
    pub fn channel(method: &'static str, channel: u64, what: &str, template: &str, body: Value) -> Self {
        let route = Route { path: format!("{method} /channels/*{template}"), major: channel.to_string(), global: true };
        Self { method, path: format!("/channels/{channel}{what}"), route, body }
    }

    /// About an interaction, by its token; the limit for all does not count it.
    pub fn interaction(method: &'static str, path: String, template: &str, interaction: u64, body: Value) -> Self {
        let route = Route { path: format!("{method} {template}"), major: interaction.to_string(), global: false };
        Self { method, path, route, body }
    }

    pub fn other(method: &'static str, path: String, template: &str, body: Value) -> Self {
        let route = Route { path: format!("{method} {template}"), major: String::new(), global: true };
        Self { method, path, route, body }
    }
}

/// What came of a request.
pub enum Outcome {
    Done(Value),
    /// Discord's status and words; not to be repeated.
    Refused {
        status: u16,
        code: u64,
        said: String,
    },
    /// It did not come to an answer, or Discord wants a longer wait.
    Failed {
        said: String,
        retry_ms: u64,
    },
}

impl Machine {
    /// Queues a request; false when there is no room for it.
    pub fn ask(&mut self, turn: &mut Turn, purpose: Purpose, ask: Ask) -> bool {
        let is_urgent = matches!(purpose, Purpose::Part { .. } | Purpose::Acknowledge { .. });
        let room = if is_urgent { 2 * CALLS_MAX } else { CALLS_MAX };
        if self.state.calls.len() >= room {
            return false;
        }
        self.state.next_call += 1;
        let body = if ask.body.is_null() { String::new() } else { wire::written(&ask.body) };
        self.state.calls.push_back(Call {
            id: self.state.next_call,
            purpose,
            method: ask.method.into(),
            path: ask.path,
            route: ask.route,
            body,
            tries: 0,
            not_before_ms: 0,
            under_way: false,
        });
        turn.changed();
        true
    }

    /// After a start: nothing is under way. Typing of before is of no interest, nor are acknowledgements that came too late.
    pub fn requeue_calls(&mut self) {
        self.state.calls.retain(|call| !matches!(call.purpose, Purpose::Typing | Purpose::Acknowledge { .. }));
        self.state.calls.iter_mut().for_each(|call| call.under_way = false);
    }

    /// Takes back what was to answer an interaction and has not left; gives the deliveries that it belongs to.
    pub fn withdraw_answers(&mut self, interaction: u64) -> Vec<String> {
        let (major, mut deliveries) = (interaction.to_string(), Vec::new());
        self.state.calls.retain(|call| match &call.purpose {
            Purpose::Part { delivery } if !call.route.global && !call.under_way && call.route.major == major => {
                deliveries.push(delivery.clone());
                false
            }
            _ => true,
        });
        deliveries
    }

    /// Sends what may be sent now, and sets the timer for what may not.
    pub fn pump(&mut self, turn: &mut Turn) {
        if self.state.link.phase == Phase::Halted {
            // Requests with a token that was refused would only get the bot banned.
            return;
        }
        let (now_ms, a_second) = (turn.now_ms, self.config.requests_per_second);
        let mut under_way = self.state.calls.iter().filter(|call| call.under_way).count();
        let mut busy: Vec<(String, String)> = Vec::new();
        let mut next_ms = u64::MAX;
        for at in 0..self.state.calls.len() {
            let call = &self.state.calls[at];
            let lane = call.lane();
            if busy.contains(&lane) {
                continue;
            }
            if call.under_way {
                busy.push(lane);
                continue;
            }
            let free_ms = self.state.limits.free_at(&call.route, a_second, now_ms).max(call.not_before_ms);
            let is_full = under_way >= UNDER_WAY_MAX && !matches!(call.purpose, Purpose::Acknowledge { .. });
            if free_ms > now_ms || is_full {
                if free_ms > now_ms {
                    next_ms = next_ms.min(free_ms);
                }
                busy.push(lane);
                continue;
            }
            let route = call.route.clone();
            self.state.limits.spend(&route, now_ms);
            let request = self.request(&self.state.calls[at]);
            self.state.calls[at].under_way = true;
            turn.push(Output::HttpRequest(request));
            turn.changed();
            under_way += 1;
            busy.push(lane);
        }
        if next_ms < u64::MAX {
            turn.timer(REST_TIMER, next_ms - now_ms);
        }
    }

    fn request(&self, call: &Call) -> HttpRequest {
        let authorization = Header {
            name: "authorization".into(),
            value: vec![literal("Bot "), secret(&self.config.token_secret, Encoding::Raw)],
        };
        let agent = header("user-agent", concat!("DiscordBot (chela, ", env!("CARGO_PKG_VERSION"), ")"));
        // An interaction's own token opens it; the bot's has no business there.
        let mut headers = if call.route.global { vec![authorization, agent] } else { vec![agent] };
        if !call.body.is_empty() {
            headers.push(header("content-type", "application/json"));
        }
        HttpRequest {
            id: format!("call-{}", call.id),
            method: call.method.clone(),
            url: vec![literal(format!("{}{}", self.config.api, call.path))],
            headers,
            body: if call.body.is_empty() { Vec::new() } else { vec![literal(call.body.clone())] },
            timeout_ms: 0,
        }
    }

    pub fn answered(&mut self, turn: &mut Turn, response: HttpResponse) {
        let number = response.id.strip_prefix("call-").and_then(|id| id.parse::<u64>().ok());
        let at = self.state.calls.iter().position(|call| Some(call.id) == number && call.under_way);
        let Some(mut call) = at.and_then(|at| self.state.calls.remove(at)) else { return };
        if call.purpose != Purpose::Typing {
            turn.changed();
        }
        let body: Value = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
        if response.status != 0 {
            self.state.limits.learn(&call.route, &response.headers, turn.now_ms);
        }
        let outcome = match response.status {
            _ if response.refused => Outcome::Failed { said: wire::name(&response.error), retry_ms: 60_000 },
            200..=299 => Outcome::Done(body),
            429 => {
                let until_ms = self.state.limits.refused(&call.route, &response.headers, &body, turn.now_ms);
                let wait_ms = until_ms.saturating_sub(turn.now_ms);
                if wait_ms <= WAIT_MAX_MS && !matches!(call.purpose, Purpose::Typing) {
                    return self.again(at, call, until_ms);
                }
                Outcome::Failed { said: "Discord asks to wait".into(), retry_ms: wait_ms }
            }
            0 | 500..=599 => {
                call.tries += 1;
                if call.tries < TRIES_MAX && !matches!(call.purpose, Purpose::Typing) {
                    let wait_ms = (500_u64 << call.tries) + turn.chance(500);
                    return self.again(at, call, turn.now_ms + wait_ms);
                }
                let said = if response.status == 0 {
                    wire::name(&response.error)
                } else {
                    format!("Discord answered {}", response.status)
                };
                Outcome::Failed { said, retry_ms: 0 }
            }
            401 if call.route.global => {
                self.unauthorized(turn);
                Outcome::Failed { said: "Discord refused the bot's token".into(), retry_ms: 60_000 }
            }
            status => {
                let said = wire::name(wire::text(&body["message"]));
                Outcome::Refused { status, code: body["code"].as_u64().unwrap_or(0), said }
            }
        };
        self.conclude(turn, call.purpose, outcome);
    }

    /// Back to where it was, so that its lane keeps its order.
    fn again(&mut self, at: Option<usize>, mut call: Call, not_before_ms: u64) {
        call.under_way = false;
        call.not_before_ms = not_before_ms;
        self.state.calls.insert(at.unwrap_or(0), call);
    }

    fn conclude(&mut self, turn: &mut Turn, purpose: Purpose, outcome: Outcome) {
        match purpose {
            Purpose::Part { delivery } => self.part_answered(turn, &delivery, outcome),
            Purpose::Direct { peer } => self.direct_opened(turn, peer, outcome),
            Purpose::Lookup { place } => self.place_found(turn, place, outcome),
            Purpose::Commands { hash } => self.commands_answered(hash, &outcome),
            Purpose::Acknowledge { interaction } => self.acknowledged(turn, interaction, &outcome),
            Purpose::Remove | Purpose::Typing => {}
        }
    }
}
