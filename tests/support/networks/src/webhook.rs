//! A program of the tests that talks by signed webhooks: what it calls, and what is posted to it. It checks signatures as a careful
//! receiver does, and takes each message once.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::net::{Answer, Asked, Network, Serving};

/// What both sides know.
pub const KEY: &str = "hook-key-3q2-7w";

pub struct Program {
    serving: Serving,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct State {
    /// What was posted, each once.
    messages: Vec<Value>,
    typed: usize,
    /// Requests whose signature was wrong.
    unsigned: usize,
    /// Messages that came again.
    repeated: usize,
    failing: (usize, u16),
    wait_seconds: Option<u64>,
    losing: usize,
}

struct Shared(Mutex<State>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for Shared {
    async fn answer(self: Arc<Self>, asked: Asked) -> Option<Answer> {
        let mut state = self.state();
        let expected = format!("sha256={}", sign(KEY, &asked.bytes));
        if asked.header("x-chela-signature") != Some(&expected) {
            state.unsigned += 1;
            return Some(Answer::new(401, json!({ "error": "the signature is wrong" })));
        }
        if state.failing.0 > 0 {
            state.failing.0 -= 1;
            let mut answer = Answer::new(state.failing.1, json!({ "error": "the test wants it so" }));
            if let Some(seconds) = state.wait_seconds {
                answer = answer.with("retry-after", seconds);
            }
            return Some(answer);
        }
        if asked.json["kind"] == "typing" {
            state.typed += 1;
            return Some(Answer::new(204, Value::Null));
        }
        let same = |known: &Value| known["id"] == asked.json["id"] && known["part"] == asked.json["part"];
        if state.messages.iter().any(same) {
            state.repeated += 1;
        } else {
            state.messages.push(asked.json.clone());
        }
        if state.losing > 0 {
            state.losing -= 1;
            return None;
        }
        let name = format!("r-{}", state.messages.len());
        Some(Answer::new(200, json!({ "id": name })))
    }
}

impl Program {
    pub fn start() -> Self {
        let (serving, shared) = Serving::start(|_| Shared(Mutex::new(State::default())));
        Self { serving, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// The adapter as a channel of a gateway's configuration, granted this program and the key.
    pub fn channel(&self, config: &Value) -> Value {
        let mut own = json!({ "url": format!("http://{}/in", self.address()), "requestsPerSecond": 10_000 });
        own.as_object_mut().expect("an object").extend(config.as_object().expect("an object").clone());
        let hosts = json!([self.address().to_string()]);
        let verify = json!({ "secret": "webhook-key", "header": "x-chela-signature", "prefix": "sha256=" });
        json!({
            "source": crate::component("webhook"), "config": own,
            "grants": {
                "hosts": hosts, "secrets": { "webhook-key": { "value": KEY, "hosts": hosts } },
                "webhooks": { "messages": { "verify": verify } }, "rates": { "requests": 100_000, "messages": 100_000 },
            },
        })
    }

    /// What was posted, each once, in order.
    pub fn messages(&self) -> Vec<Value> {
        self.shared.state().messages.clone()
    }

    pub fn unsigned(&self) -> usize {
        self.shared.state().unsigned
    }

    pub fn repeated(&self) -> usize {
        self.shared.state().repeated
    }

    pub fn typed(&self) -> usize {
        self.shared.state().typed
    }

    /// The next messages are answered with this status, and a wait if there is one.
    pub fn fail_next(&self, messages: usize, status: u16, wait_seconds: Option<u64>) {
        let mut state = self.shared.state();
        (state.failing, state.wait_seconds) = ((messages, status), wait_seconds);
    }

    /// Messages are taken, and the connection breaks before the answer.
    pub fn lose_next_answers(&self, messages: usize) {
        self.shared.state().losing = messages;
    }
}

/// HMAC-SHA-256 in hexadecimal digits.
pub fn sign(key: &str, body: &[u8]) -> String {
    let pad = |with: u8| -> Vec<u8> { (0..64).map(|at| key.as_bytes().get(at).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha256::digest([pad(0x36), body.to_vec()].concat());
    let outer = Sha256::digest([pad(0x5c), inner.to_vec()].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}
