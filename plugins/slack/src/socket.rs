//! The sockets of Socket Mode: an address for one, its greeting, its refreshing, and what to do when it ends.
//! Keeps true: an address is used once and kept nowhere; while a socket is refreshed the one before stays, so nothing is missed; a refusal
//! that only a person can mend ends the attempts.

use chela_sdk::channel::{
    CloseSocket, Compression, Health, HttpResponse, OpenSocket, Output, SendSocket, SocketClosed, Turn, literal, wire,
};
use chela_sdk::log;
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::state::{Me, Phase};
use crate::web::{Said, is_about_token};

/// Fires when the next attempt is due, and when a connection took too long.
const CONNECT_TIMER: &str = "connect";
const PATIENCE_TIMER: &str = "patience";
const HELLO_WITHIN_MS: u64 = 30_000;
const BACKOFF_MAX_MS: u64 = 60_000;
/// A connection that lasted less counts as a failed attempt.
const GOOD_AFTER_MS: u64 = 10_000;
const GOODBYE: u16 = 1_000;

impl Machine {
    /// Asks who the bot is, which also tells whether its token is good.
    pub fn greet(&mut self, turn: &mut Turn) {
        let link = &mut self.state.link;
        (link.phase, link.opening, link.ready_ms) = (Phase::Greeting, None, 0);
        link.live.clear();
        turn.status(self.health_of_attempts(), "connecting to Slack");
        self.ask_directly(turn, "me", "auth.test", &self.config.bot_token_secret.clone());
    }

    /// Asks for the address of a new socket.
    fn connect(&mut self, turn: &mut Turn) {
        self.state.link.phase = Phase::Connected;
        self.ask_directly(turn, "open", "apps.connections.open", &self.config.app_token_secret.clone());
        self.state.link.opening = Some(format!("socket-{}", self.state.link.generation));
        turn.timer(PATIENCE_TIMER, HELLO_WITHIN_MS);
    }

    /// A request beside the lanes, under a name of its own.
    fn ask_directly(&mut self, turn: &mut Turn, name: &str, method: &str, token: &str) {
        self.state.link.generation += 1;
        let id = format!("{name}-{}", self.state.link.generation);
        turn.push(Output::HttpRequest(self.request(id, method, "", token)));
        turn.changed();
    }

    /// Messages can still be sent while events do not come.
    fn health_of_attempts(&self) -> Health {
        if self.state.me.is_none() || self.state.link.attempts <= 3 { Health::Connecting } else { Health::Degraded }
    }

    /// Another attempt, later each time. Told only where no socket is left.
    fn retry(&mut self, turn: &mut Turn, after_ms: Option<u64>, why: &str) {
        let link = &mut self.state.link;
        if link.ready_ms > 0 && turn.now_ms.saturating_sub(link.ready_ms) >= GOOD_AFTER_MS {
            link.attempts = 0;
        }
        link.ready_ms = 0;
        link.opening = None;
        let attempts = link.attempts;
        link.attempts = attempts.saturating_add(1);
        link.phase = Phase::Waiting;
        let after_ms = after_ms.unwrap_or(0).max(turn.backoff(attempts, BACKOFF_MAX_MS));
        if self.state.link.live.is_empty() {
            let detail = format!("connecting again in {} s: {why}", after_ms.div_ceil(1_000));
            turn.status(self.health_of_attempts(), detail);
        }
        turn.cancel(PATIENCE_TIMER);
        turn.timer(CONNECT_TIMER, after_ms);
        turn.changed();
    }

    fn halt(&mut self, turn: &mut Turn, health: Health, why: impl Into<String>) {
        self.close_all(turn);
        self.state.link.phase = Phase::Halted;
        turn.status(health, why);
        turn.changed();
    }

    /// A token was refused.
    pub fn unauthorized(&mut self, turn: &mut Turn, what: &str, word: &str) {
        if self.state.link.phase != Phase::Halted {
            let why = format!("Slack refused {what} ({word}); give the right one to the secret");
            self.halt(turn, Health::NeedsAuth, why);
        }
    }

    pub fn leave(&mut self, turn: &mut Turn) {
        self.close_all(turn);
        self.state.link.phase = Phase::Idle;
        turn.changed();
    }

    fn close_all(&mut self, turn: &mut Turn) {
        let link = &mut self.state.link;
        let names: Vec<String> = link.live.drain(..).chain(link.opening.take()).collect();
        names.into_iter().for_each(|name| close(turn, name));
    }

    pub fn socket_timer(&mut self, turn: &mut Turn, name: &str) {
        match (name, self.state.link.phase) {
            (CONNECT_TIMER, Phase::Waiting) if self.state.me.is_none() => self.greet(turn),
            (CONNECT_TIMER, Phase::Waiting) => self.connect(turn),
            (PATIENCE_TIMER, Phase::Connected) => {
                if let Some(opening) = self.state.link.opening.take() {
                    close(turn, opening);
                    self.retry(turn, None, "Slack did not greet in time");
                }
            }
            _ => {}
        }
    }

    /// An answer to one of this file's own requests.
    pub fn linked(&mut self, turn: &mut Turn, response: HttpResponse) {
        let Some((name, number)) = response.id.rsplit_once('-') else { return };
        if number.parse() != Ok(self.state.link.generation) {
            return;
        }
        match (name, self.state.link.phase, Said::of(&response)) {
            ("me", Phase::Greeting, Said::Done(me)) => self.greeted(turn, &me),
            ("open", Phase::Connected, Said::Done(opened)) => self.open(turn, wire::text(&opened["url"])),
            ("me" | "open", Phase::Greeting | Phase::Connected, said) => {
                let whose = if name == "me" { "the bot's token" } else { "the app's token" };
                match said {
                    Said::Refused(word) if is_about_token(&word) => self.unauthorized(turn, whose, &word),
                    Said::Refused(word) if word.starts_with("missing_scope") => {
                        let why = format!("Slack refused {whose} ({word}); the app's token needs connections:write");
                        self.halt(turn, Health::NeedsAuth, why);
                    }
                    Said::Unreachable(error) => self.halt(turn, Health::Failed, error),
                    Said::Wait { ms } => self.retry(turn, Some(ms), "Slack asks to wait"),
                    Said::Nothing(error) => self.retry(turn, None, &error),
                    Said::Refused(word) => self.retry(turn, None, &format!("Slack answered {word}")),
                    Said::Done(_) => {}
                }
            }
            _ => {}
        }
    }

    fn greeted(&mut self, turn: &mut Turn, me: &Value) {
        let name = |field: &str| wire::name(wire::text(&me[field]));
        let user = name("user_id");
        if user.is_empty() {
            return self.retry(turn, None, "Slack did not say who the bot is");
        }
        self.state.names.keep(&user, &name("user"));
        self.state.me = Some(Me { user, bot: name("bot_id"), name: name("user"), team: name("team_id") });
        self.connect(turn);
    }

    fn open(&mut self, turn: &mut Turn, url: &str) {
        let is_address = url.starts_with("wss://") || url.starts_with("ws://");
        let is_plain = url.len() <= 4_000 && url.chars().all(|c| c.is_ascii_graphic());
        let Some(connection) = self.state.link.opening.clone().filter(|_| is_address && is_plain) else {
            return self.retry(turn, None, "Slack gave no address for a socket");
        };
        let (url, compression) = (vec![literal(url)], Compression::None);
        turn.push(Output::OpenSocket(OpenSocket { connection, url, headers: Vec::new(), compression }));
    }

    fn hears_from(&self, connection: &str) -> bool {
        let link = &self.state.link;
        link.opening.as_deref() == Some(connection) || link.live.iter().any(|live| live == connection)
    }

    pub fn closed(&mut self, turn: &mut Turn, closed: &SocketClosed) {
        if !self.hears_from(&closed.connection) || self.state.link.phase == Phase::Halted {
            return;
        }
        let was_opening = self.state.link.opening.take_if(|opening| *opening == closed.connection).is_some();
        self.state.link.live.retain(|live| *live != closed.connection);
        turn.changed();
        let reason = wire::name(&closed.reason);
        if closed.refused {
            return self.halt(turn, Health::Failed, reason);
        }
        let is_over = self.state.link.live.is_empty() && self.state.link.opening.is_none();
        if self.state.link.phase == Phase::Connected && (was_opening || is_over) {
            self.retry(turn, None, &format!("the socket ended ({}) {reason}", closed.code));
        }
    }

    pub fn frame(&mut self, turn: &mut Turn, connection: &str, data: &str) {
        if !self.hears_from(connection) {
            return;
        }
        let Ok(frame) = serde_json::from_str::<Value>(data) else {
            log::warn("Slack sent a frame that is no JSON; it is left out");
            return;
        };
        match wire::text(&frame["type"]) {
            "hello" => self.hello(turn, connection),
            "disconnect" => self.disconnect(turn, connection, wire::text(&frame["reason"])),
            kind => self.envelope(turn, connection, kind, &frame),
        }
    }

    fn hello(&mut self, turn: &mut Turn, connection: &str) {
        let link = &mut self.state.link;
        if link.opening.take_if(|opening| opening.as_str() == connection).is_none() {
            return;
        }
        let before = std::mem::replace(&mut link.live, vec![connection.to_owned()]);
        (link.phase, link.ready_ms) = (Phase::Connected, turn.now_ms);
        before.into_iter().for_each(|name| close(turn, name));
        turn.cancel(PATIENCE_TIMER);
        let name = self.state.me.as_ref().map(|me| me.name.clone()).unwrap_or_default();
        turn.status(Health::Ready, format!("connected as {name}"));
        turn.changed();
    }

    /// Slack is about to end a socket: another one is opened first.
    fn disconnect(&mut self, turn: &mut Turn, connection: &str, reason: &str) {
        if reason == "link_disabled" {
            let why = "Socket Mode is switched off for this app; switch it on in the app's settings";
            return self.halt(turn, Health::Failed, why);
        }
        let link = &self.state.link;
        let is_live = link.live.iter().any(|live| live == connection);
        if is_live && link.opening.is_none() && link.phase == Phase::Connected {
            let was_good = turn.now_ms.saturating_sub(link.ready_ms) >= GOOD_AFTER_MS;
            if was_good {
                self.state.link.attempts = 0;
                return self.connect(turn);
            }
            self.retry(turn, None, "Slack refreshes the socket");
        }
    }

    /// Tells Slack that an envelope is taken. The host sends it after what the envelope came to is on record.
    pub fn acknowledge(&self, turn: &mut Turn, connection: &str, envelope: &str, payload: Option<Value>) {
        let mut frame = json!({ "envelope_id": envelope });
        if let Some(payload) = payload {
            frame["payload"] = payload;
        }
        let data = vec![literal(frame.to_string())];
        turn.push(Output::SendSocket(SendSocket { connection: connection.to_owned(), data }));
    }
}

fn close(turn: &mut Turn, connection: String) {
    turn.push(Output::CloseSocket(CloseSocket { connection, code: GOODBYE }));
}
