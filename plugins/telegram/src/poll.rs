//! How updates come: who the bot is, then one long poll after the other, and what to do when one fails.
//! Keeps true: one poll at a time; the number that confirms an update is part of the state, and is told to Telegram only in a request that
//! is made after that state is kept; a refusal that only a person can mend ends the attempts.

use chela_sdk::channel::{Health, HttpResponse, Output, Turn, wire};
use serde_json::{Value, json};

use crate::bot::Said;
use crate::machine::Machine;
use crate::state::{Me, Phase};

/// Fires when the next attempt is due.
const POLL_TIMER: &str = "poll";
const BACKOFF_MAX_MS: u64 = 60_000;
/// Updates of one answer: what they come to must fit into one list of outputs.
const UPDATES_MAX: u64 = 32;
/// What Telegram may take longer than it was asked to.
const GRACE_MS: u32 = 4_000;
/// After a week without updates Telegram begins to count anew, perhaps lower: then it is not told where to begin.
const FORGET_MS: u64 = 6 * 86_400_000;
const WANTED: [&str; 3] = ["message", "edited_message", "callback_query"];

impl Machine {
    /// Asks who the bot is, which also tells whether the token is good.
    pub fn greet(&mut self, turn: &mut Turn) {
        self.state.link.phase = Phase::Greeting;
        turn.status(self.health_of_attempts(), "connecting to Telegram");
        self.ask_directly(turn, "me", "getMe", &json!({}), 0);
    }

    fn poll(&mut self, turn: &mut Turn) {
        self.state.link.phase = Phase::Polling;
        // What came meanwhile is wanted at once, and so is to know that it is all.
        let seconds = if self.state.link.catch_up_until_ms > turn.now_ms { 0 } else { self.config.poll_seconds };
        let mut body = json!({ "timeout": seconds, "limit": self.updates_max(), "allowed_updates": WANTED });
        let is_recent = turn.now_ms.saturating_sub(self.state.updated_ms) < FORGET_MS;
        if let Some(offset) = self.state.offset.filter(|_| is_recent) {
            body["offset"] = json!(offset);
        }
        let timeout_ms = self.config.poll_seconds * 1_000 + GRACE_MS;
        self.ask_directly(turn, "poll", "getUpdates", &body, timeout_ms);
    }

    /// Fewer at a time where answers do not arrive: one may be too large for the host.
    fn updates_max(&self) -> u64 {
        (UPDATES_MAX >> self.state.link.attempts.min(5)).max(1)
    }

    /// A request beside the lanes, under a name of its own.
    fn ask_directly(&mut self, turn: &mut Turn, name: &str, method: &str, body: &Value, timeout_ms: u32) {
        self.state.link.generation += 1;
        let id = format!("{name}-{}", self.state.link.generation);
        turn.push(Output::HttpRequest(self.request(id, method, &body.to_string(), timeout_ms)));
        turn.changed();
    }

    /// Messages can still be sent while updates do not come.
    fn health_of_attempts(&self) -> Health {
        match (self.state.link.attempts, &self.state.me) {
            (0..=3, None) => Health::Connecting,
            (0, Some(_)) => Health::Connecting,
            _ => Health::Degraded,
        }
    }

    fn wait(&mut self, turn: &mut Turn, after_ms: u64, why: &str) {
        self.state.link.attempts = self.state.link.attempts.saturating_add(1);
        self.state.link.phase = Phase::Waiting;
        turn.status(self.health_of_attempts(), format!("trying again in {} s: {why}", after_ms.div_ceil(1_000)));
        turn.timer(POLL_TIMER, after_ms);
        turn.changed();
    }

    fn retry(&mut self, turn: &mut Turn, why: &str) {
        let after_ms = turn.backoff(self.state.link.attempts, BACKOFF_MAX_MS);
        self.wait(turn, after_ms, why);
    }

    pub fn halt(&mut self, turn: &mut Turn, health: Health, why: impl Into<String>) {
        self.state.link.phase = Phase::Halted;
        turn.status(health, why);
        turn.changed();
    }

    /// The token was refused.
    pub fn unauthorized(&mut self, turn: &mut Turn) {
        if self.state.link.phase != Phase::Halted {
            self.halt(turn, Health::NeedsAuth, "Telegram refused the bot's token; give the right one to the secret");
        }
    }

    pub fn poll_timer(&mut self, turn: &mut Turn, name: &str) {
        if name == POLL_TIMER && self.state.link.phase == Phase::Waiting {
            match self.state.me {
                Some(_) => self.poll(turn),
                None => self.greet(turn),
            }
        }
    }

    /// An answer to one of this file's own requests.
    pub fn polled(&mut self, turn: &mut Turn, response: HttpResponse) {
        let Some((name, number)) = response.id.rsplit_once('-') else { return };
        if number.parse() != Ok(self.state.link.generation) {
            return;
        }
        let phase = self.state.link.phase;
        match (name, phase, Said::of(&response)) {
            ("me", Phase::Greeting, Said::Done(me)) => self.greeted(turn, &me),
            ("clear", Phase::Clearing, Said::Done(_)) => self.poll(turn),
            ("poll", Phase::Polling, Said::Done(updates)) => self.updated(turn, &updates),
            ("me" | "clear" | "poll", Phase::Greeting | Phase::Clearing | Phase::Polling, said) => {
                self.poll_failed(turn, said);
            }
            _ => {}
        }
    }

    fn greeted(&mut self, turn: &mut Turn, me: &Value) {
        let Some(id) = me["id"].as_i64() else {
            return self.retry(turn, "Telegram did not say who the bot is");
        };
        let username = wire::name(wire::text(&me["username"]));
        self.state.me = Some(Me { id, username });
        self.now_ready(turn);
        self.register_commands(turn);
        self.poll(turn);
    }

    fn now_ready(&mut self, turn: &mut Turn) {
        self.state.link.attempts = 0;
        let name = self.state.me.as_ref().map(|me| me.username.clone()).unwrap_or_default();
        turn.status(Health::Ready, format!("connected as @{name}"));
    }

    fn updated(&mut self, turn: &mut Turn, updates: &Value) {
        let numbered = |update: &Value| update["update_id"].as_i64();
        let mut fresh: Vec<(i64, &Value)> = wire::list(updates, UPDATES_MAX as usize)
            .filter_map(|update| numbered(update).map(|number| (number, update)))
            .collect();
        // Told in the order in which they happened, whatever the order of the list.
        fresh.sort_by_key(|(number, _)| *number);
        let is_recent = turn.now_ms.saturating_sub(self.state.updated_ms) < FORGET_MS;
        let first = self.state.offset.filter(|_| is_recent).unwrap_or(i64::MIN);
        fresh.retain(|(number, _)| *number >= first);
        let came = updates.as_array().map_or(0, Vec::len);
        if (came as u64) < self.updates_max() {
            self.state.link.catch_up_until_ms = 0;
        }
        if self.state.link.attempts > 0 {
            self.now_ready(turn);
        }
        for (number, update) in &fresh {
            self.state.offset = Some(number.saturating_add(1));
            self.state.updated_ms = turn.now_ms;
            self.update(turn, update);
        }
        if came > 0 && fresh.is_empty() {
            // Nothing of it moves us on: not asked for again at once.
            return self.retry(turn, "Telegram repeats updates that were taken");
        }
        self.poll(turn);
    }

    fn update(&mut self, turn: &mut Turn, update: &Value) {
        for message in [&update["message"], &update["edited_message"]] {
            let is_own = self.state.me.as_ref().is_some_and(|me| message["from"]["id"].as_i64() == Some(me.id));
            if let Some(chat) = message["chat"]["id"].as_i64().filter(|_| !is_own) {
                self.heard_of(chat, message);
            }
        }
        if update["message"].is_object() {
            self.message(turn, &update["message"], false);
        } else if update["edited_message"].is_object() {
            self.message(turn, &update["edited_message"], true);
        } else if update["callback_query"].is_object() {
            self.callback(turn, &update["callback_query"]);
        }
    }

    fn poll_failed(&mut self, turn: &mut Turn, said: Said) {
        match said {
            Said::Unreachable(error) => self.halt(turn, Health::Failed, error),
            Said::Wait { ms } => self.wait(turn, ms.max(1_000), "Telegram asks to wait"),
            Said::Nothing(error) | Said::Uncertain(error) => self.retry(turn, &error),
            // A token that is none at all is a path that is not there.
            Said::Refused { status: 401 | 404, .. } => self.unauthorized(turn),
            Said::Refused { status: 409, said, .. } if said.to_ascii_lowercase().contains("webhook") => {
                if self.config.delete_webhook && self.state.link.phase != Phase::Clearing {
                    self.state.link.phase = Phase::Clearing;
                    return self.ask_directly(turn, "clear", "deleteWebhook", &json!({}), 0);
                }
                let advice =
                    "a webhook is set for this bot, so it cannot be polled; delete it, or set deleteWebhook to true";
                self.halt(turn, Health::Failed, advice);
            }
            Said::Refused { status: 409, .. } => {
                // Also after a kill of our own, until Telegram has noticed that the poll of before is gone.
                self.retry(turn, "another program polls with this bot's token; end it, or give this bot its own");
            }
            Said::Refused { status, said, .. } => self.retry(turn, &format!("Telegram answered {status}: {said}")),
            Said::Done(_) => {}
        }
    }
}
