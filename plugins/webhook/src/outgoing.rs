//! Messages out: posted and signed, one after the other for each place, tried again with patience.
//! Keeps true: a message has the same id and part on every try, and the time of that try in what is signed; only an answer of success ends
//! it well, and only a refusal ends it badly.

use chela_sdk::channel::{
    Ask, Call, Calls, Delivery, Header, Health, HttpRequest, HttpResponse, Limit, Outbound, Presence, Signed, Turn,
    Wanted, chunks, header, hmac_hex, literal, wire,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machine::Machine;

/// A wait that is longer is the host's.
const WAIT_MAX_MS: u64 = 240_000;
/// So many faults in a row are shown.
const FAILURES_SHOWN: u32 = 3;
const CUT: &str = "\n(the rest was cut)";

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// A part of a delivery.
    Part {
        delivery: String,
    },
    Typing,
}

impl Machine {
    pub fn deliver(&mut self, turn: &mut Turn, outbound: Outbound) {
        match self.state.deliveries.wanted(turn, outbound) {
            Wanted::Nothing => {}
            Wanted::GoOn(id) => self.advance(turn, &id),
            Wanted::New(outbound) => {
                let id = outbound.id.clone();
                let limit = Limit::characters(self.config.characters_max);
                let parts = chunks(&outbound.text, limit, self.config.chunks_max, CUT);
                if self.config.url.is_none() {
                    let error = "no address is configured that messages go to; set `url`";
                    return self.state.deliveries.refuse(turn, &id, error);
                }
                if parts.is_empty() {
                    return self.state.deliveries.refuse(turn, &id, "the message is empty");
                }
                self.state.deliveries.begin(turn, Delivery::new(outbound, parts));
                self.advance(turn, &id);
            }
        }
    }

    fn advance(&mut self, turn: &mut Turn, id: &str) {
        let Some(delivery) = self.state.deliveries.get(id) else { return };
        if delivery.is_over() {
            self.state.deliveries.finish(turn, id);
            return;
        }
        let mut body = json!({
            "kind": "message", "id": delivery.id, "part": delivery.nth() + 1, "parts": delivery.parts.len(),
            "target": delivery.target, "text": delivery.parts[delivery.nth()],
        });
        if !delivery.reply_to.is_empty() {
            body["replyTo"] = json!(delivery.reply_to);
        }
        if let Some(edited) = delivery.edited() {
            body["edits"] = json!(edited);
        }
        if let Some(asked) = delivery.asks_now() {
            body["question"] = json!({ "id": asked.id, "choices": asked.choices });
        }
        let (lane, what) = (delivery.target.clone(), delivery.key());
        let ask = Ask { lane, what, body: body.to_string(), urgent: true };
        if !self.state.calls.ask(turn, Purpose::Part { delivery: id.to_owned() }, ask) {
            self.state.deliveries.park(turn, id, "too many requests wait", 5_000);
        }
    }

    pub fn presence(&mut self, turn: &mut Turn, presence: &Presence) {
        if !self.config.typing || self.config.url.is_none() {
            return;
        }
        let body = json!({ "kind": "typing", "target": presence.target, "typing": presence.typing }).to_string();
        let lane = format!("typing:{}", presence.target);
        // An older sign that still waits would come too late.
        self.state.calls.retain(|call| call.lane != lane || call.is_under_way());
        let ask = Ask { lane, what: String::new(), body, urgent: false };
        self.state.calls.ask(turn, Purpose::Typing, ask);
    }

    pub fn pump(&mut self, turn: &mut Turn) {
        let Some(url) = self.config.url.clone().filter(|_| !self.state.halted) else { return };
        let mut calls = std::mem::take(&mut self.state.calls);
        let now_ms = turn.now_ms;
        calls.pump(turn, self.config.requests_per_second, |call| self.request(call, &url, now_ms));
        self.state.calls = calls;
    }

    fn request(&self, call: &Call<Purpose>, url: &str, now_ms: u64) -> HttpRequest {
        // The time of this try, first in the body: a receiver lets no old one in.
        let body = format!("{{\"at\":{now_ms},{}", call.body.strip_prefix('{').unwrap_or("}"));
        let signature = hmac_hex(&self.config.key_secret, vec![Signed::Body]);
        let mut headers = vec![
            header("content-type", "application/json"),
            Header { name: self.config.signature_header.clone(), value: vec![literal("sha256="), signature] },
        ];
        if !call.what.is_empty() {
            headers.push(header("x-chela-id", call.what.clone()));
        }
        let (id, url, body) = (Calls::name(call), vec![literal(url)], vec![literal(body)]);
        HttpRequest { id, method: "POST".into(), url, headers, body, timeout_ms: 0 }
    }

    pub fn answered(&mut self, turn: &mut Turn, response: HttpResponse) {
        let Some(answered) = self.state.calls.answered(&response) else { return };
        let Purpose::Part { delivery } = answered.call.purpose.clone() else { return };
        turn.changed();
        if response.refused {
            let error = wire::name(&response.error);
            turn.status(Health::Degraded, error.clone());
            return self.state.deliveries.park(turn, &delivery, &error, 60_000);
        }
        match response.status {
            200..=299 => {
                self.went_well(turn);
                let said: Value = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
                let named = Some(wire::name(wire::text(&said["id"]))).filter(|name| !name.is_empty());
                if let Some(open) = self.state.deliveries.get_mut(&delivery) {
                    let name = named.unwrap_or_else(|| open.key());
                    open.sent.push(name);
                }
                self.advance(turn, &delivery);
            }
            401 => {
                self.state.halted = true;
                turn.status(Health::NeedsAuth, "the receiver refused the signature; give both sides the same key");
                self.state.deliveries.park(turn, &delivery, "the receiver refused the signature", 60_000);
            }
            0 | 408 | 425 | 429 | 500..=599 => {
                let wait_ms = wire::retry_after_ms(&response.headers);
                let error = match response.status {
                    0 => wire::name(&response.error),
                    status => format!("the receiver answered {status}"),
                };
                self.went_badly(turn, &error);
                let until_ms = turn.now_ms + wait_ms.unwrap_or(0);
                match wait_ms {
                    Some(ms) if ms > WAIT_MAX_MS => self.state.deliveries.park(turn, &delivery, &error, ms),
                    Some(_) if response.status == 429 => self.state.calls.again(answered, until_ms),
                    _ => {
                        let lane = answered.call.lane.clone();
                        if self.state.calls.try_again(turn, answered).is_some() {
                            return self.state.deliveries.park(turn, &delivery, &error, wait_ms.unwrap_or(0));
                        }
                        self.state.calls.hold(&lane, until_ms);
                    }
                }
            }
            status => {
                self.went_well(turn);
                let said: String = String::from_utf8_lossy(&response.body).chars().take(200).collect();
                let error = format!("the receiver refused the message ({status}): {}", wire::name(&said));
                self.state.deliveries.refuse(turn, &delivery, error);
            }
        }
    }

    fn went_well(&mut self, turn: &mut Turn) {
        if std::mem::take(&mut self.state.failures) >= FAILURES_SHOWN {
            self.show_ready(turn);
        }
    }

    fn went_badly(&mut self, turn: &mut Turn, error: &str) {
        self.state.failures = self.state.failures.saturating_add(1);
        if self.state.failures == FAILURES_SHOWN {
            turn.status(Health::Degraded, format!("messages cannot be posted: {error}"));
        }
    }
}
