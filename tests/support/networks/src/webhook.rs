//! A program of the tests that talks by signed webhooks: what it calls, and what is posted to it. It checks signatures and their times as a
//! careful receiver does, and takes each message once. The contract: a message whose answer was lost comes again under the same id and
//! part, by which the program knows it; one whose answer arrived never does.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::net::{Answer, Asked, Network, Serving};

/// What both sides know.
pub const KEY: &str = "hook-key-3q2-7w";
/// How old what is posted may be, and how far in the future.
const WINDOW_MS: u64 = 300_000;

/// What time it is for the program, in milliseconds since 1970.
type Now = Box<dyn Fn() -> u64 + Send>;

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
    /// Requests that were signed too long ago, or in the future.
    stale: usize,
    /// Messages that came again.
    repeated: usize,
    /// Ids and parts that were answered, as far as the program can tell.
    answered: HashSet<String>,
    /// Of the repeated: those whose answer was not lost.
    needless: usize,
    now: Option<Now>,
    failing: (usize, u16),
    wait_seconds: Option<u64>,
    losing: usize,
}

impl State {
    fn now_ms(&self) -> u64 {
        let real = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        self.now.as_ref().map_or_else(real, |now| now())
    }
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
        let now_ms = state.now_ms();
        if asked.json["at"].as_u64().is_none_or(|at| at.abs_diff(now_ms) > WINDOW_MS) {
            state.stale += 1;
            return Some(Answer::new(403, json!({ "error": "the time is wrong" })));
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
        let name = format!("{} {}", asked.json["id"], asked.json["part"]);
        if state.messages.iter().any(same) {
            state.repeated += 1;
            state.needless += usize::from(state.answered.contains(&name));
        } else {
            state.messages.push(asked.json.clone());
        }
        if state.losing > 0 {
            state.losing -= 1;
            return None;
        }
        state.answered.insert(name);
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

    /// From now on the program goes by this clock; before, by that of the machine.
    pub fn goes_by(&self, now: impl Fn() -> u64 + Send + 'static) {
        self.shared.state().now = Some(Box::new(now));
    }

    /// Requests whose time was wrong.
    pub fn stale(&self) -> usize {
        self.shared.state().stale
    }

    /// Messages that came again although they were answered. A gateway that is killed may not have read the answer.
    pub fn needless(&self) -> usize {
        self.shared.state().needless
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

    /// Messages that are still to be answered so.
    pub fn fails(&self) -> usize {
        self.shared.state().failing.0
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
