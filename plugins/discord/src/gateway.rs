//! The connection to Discord's gateway: hello, heartbeats, identify and resume, and what to do when it ends.
//! Keeps true: one connection at a time; a session is resumed while it can be; a refusal that only a person can mend ends the attempts.

use chela_sdk::channel::{
    CloseSocket, Compression, Encoding, Health, Keepalive, OpenSocket, Output, Piece, SendSocket, SocketClosed, Turn,
    literal, secret,
};
use chela_sdk::log;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::inbound;
use crate::machine::Machine;
use crate::sequence::Sequence;
use crate::state::{Me, Phase, Session};
use crate::wire;

/// Fires when the next attempt is due, and when a connection took too long.
const CONNECT_TIMER: &str = "connect";
const PATIENCE_TIMER: &str = "patience";
const HELLO_WITHIN_MS: u64 = 30_000;
const READY_WITHIN_MS: u64 = 60_000;
/// Discord lets a bot identify once in five seconds.
const IDENTIFY_EVERY_MS: u64 = 5_000;
/// A connection that lasted less counts as a failed attempt.
const GOOD_AFTER_MS: u64 = 10_000;
const BACKOFF_MAX_MS: u64 = 60_000;
/// Discord keeps a session that is closed by any code but 1000 and 1001.
const KEEP_SESSION: u16 = 4_000;
/// The host ends a connection so on which a message came that is larger than it takes.
const TOO_LARGE: u16 = 1_009;

/// A frame whose data is not read before somebody wants it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Frame<'a> {
    op: Value,
    t: Value,
    s: Value,
    #[serde(borrow)]
    d: Option<&'a RawValue>,
}

impl Frame<'_> {
    /// Its data, or only these fields of it. What cannot be read is nothing.
    fn data(&self, fields: &'static [&'static str]) -> Value {
        let json = self.d.map_or("null", RawValue::get);
        let read = if fields.is_empty() { serde_json::from_str(json) } else { wire::pick(json, fields) };
        read.unwrap_or_default()
    }
}

impl Machine {
    pub fn is_current(&self, connection: &str) -> bool {
        connection == self.connection()
    }

    fn connection(&self) -> String {
        format!("gateway-{}", self.state.link.generation)
    }

    /// The first connection of this start.
    pub fn begin(&mut self, turn: &mut Turn) {
        self.state.link.attempts = 0;
        self.connect(turn);
    }

    /// Ends the connection so that it can be resumed at the next start.
    pub fn leave(&mut self, turn: &mut Turn) {
        if matches!(self.state.link.phase, Phase::Opening | Phase::Greeting | Phase::Ready) {
            self.close(turn);
        }
        self.state.link.phase = Phase::Idle;
    }

    fn close(&mut self, turn: &mut Turn) {
        turn.push(Output::CloseSocket(CloseSocket { connection: self.connection(), code: KEEP_SESSION }));
        // What still comes of it is of no interest.
        self.state.link.generation += 1;
        self.state.link.unacknowledged = false;
    }

    fn connect(&mut self, turn: &mut Turn) {
        let identified_ms = self.state.link.identified_ms;
        let wait = (identified_ms + IDENTIFY_EVERY_MS).saturating_sub(turn.now_ms);
        if self.state.session.is_none() && identified_ms > 0 && (1..=IDENTIFY_EVERY_MS).contains(&wait) {
            return self.wait(turn, wait);
        }
        let link = &mut self.state.link;
        link.generation += 1;
        link.unacknowledged = false;
        link.interval_ms = 0;
        link.told = None;
        link.phase = Phase::Opening;
        let base = self.state.session.as_ref().map_or(self.config.gateway.as_str(), |session| session.url.as_str());
        let packed = if self.config.compress { "&compress=zlib-stream" } else { "" };
        let url = vec![literal(format!("{base}/?v=10&encoding=json{packed}"))];
        let compression = if self.config.compress { Compression::ZlibStream } else { Compression::None };
        let connection = self.connection();
        turn.push(Output::OpenSocket(OpenSocket { connection, url, headers: Vec::new(), compression }));
        turn.timer(PATIENCE_TIMER, HELLO_WITHIN_MS);
        turn.status(self.health_of_attempts(), "connecting to Discord");
        turn.changed();
    }

    /// Messages can still be sent while events do not come.
    fn health_of_attempts(&self) -> Health {
        if self.state.link.attempts <= 3 { Health::Connecting } else { Health::Degraded }
    }

    /// The numbers are those of a session, and go with it.
    fn forget_session(&mut self) {
        self.state.session = None;
        self.state.sequence = Sequence::default();
    }

    fn wait(&mut self, turn: &mut Turn, after_ms: u64) {
        self.state.link.phase = Phase::Waiting;
        turn.timer(CONNECT_TIMER, after_ms);
        turn.changed();
    }

    /// Another attempt, later each time, at a moment that others do not choose as well.
    fn retry(&mut self, turn: &mut Turn, why: &str) {
        let link = &mut self.state.link;
        if link.ready_ms > 0 && turn.now_ms.saturating_sub(link.ready_ms) >= GOOD_AFTER_MS {
            link.attempts = 0;
        }
        link.ready_ms = 0;
        let attempts = link.attempts;
        link.attempts = attempts.saturating_add(1);
        let longest = (1_000_u64 << attempts.min(6)).min(BACKOFF_MAX_MS);
        let after = longest / 2 + turn.chance(longest / 2);
        turn.status(self.health_of_attempts(), format!("connecting again in {} s: {why}", after.div_ceil(1_000)));
        self.wait(turn, after);
    }

    fn halt(&mut self, turn: &mut Turn, health: Health, why: String) {
        self.state.link.phase = Phase::Halted;
        self.forget_session();
        turn.status(health, why);
        turn.changed();
    }

    pub fn gateway_timer(&mut self, turn: &mut Turn, name: &str) {
        match (name, self.state.link.phase) {
            (CONNECT_TIMER, Phase::Waiting) => self.connect(turn),
            (PATIENCE_TIMER, Phase::Opening | Phase::Greeting) => {
                self.close(turn);
                self.retry(turn, "Discord did not answer in time");
            }
            _ => {}
        }
    }

    pub fn closed(&mut self, turn: &mut Turn, closed: &SocketClosed) {
        if self.state.link.phase == Phase::Halted {
            return;
        }
        self.state.link.generation += 1;
        let reason = wire::name(&closed.reason);
        if closed.refused {
            return self.halt(turn, Health::Failed, reason);
        }
        if let Some((health, advice)) = final_refusal(closed.code) {
            return self.halt(turn, health, format!("Discord refused the connection ({}): {advice}", closed.code));
        }
        if closed.code == TOO_LARGE {
            return self.too_large(turn, &reason);
        }
        if matches!(closed.code, 4_003 | 4_007 | 4_009) {
            // Not authenticated, a bad sequence, a session that timed out: there is nothing to resume.
            self.forget_session();
        }
        self.retry(turn, &format!("the connection ended ({}) {reason}", closed.code));
    }

    /// A session that is resumed gets the same message again, so another one begins. Where that starts with such a message too, a person
    /// has to decide: Discord takes a bot's token back that identifies all day long.
    fn too_large(&mut self, turn: &mut Turn, reason: &str) {
        let link = &self.state.link;
        let was_good = link.ready_ms > 0 && turn.now_ms.saturating_sub(link.ready_ms) >= GOOD_AFTER_MS;
        if was_good {
            self.forget_session();
            return self.retry(turn, reason);
        }
        let advice = "raise grants.rates.frameBytes of this channel, and limits.memoryMb with it";
        self.halt(turn, Health::Failed, format!("Discord sends more at once than is taken ({reason}); {advice}"));
    }

    pub fn frame(&mut self, turn: &mut Turn, data: &str) {
        let Ok(frame) = serde_json::from_str::<Frame>(data) else {
            log::warn("the gateway sent a frame that is no JSON object; it is left out");
            return;
        };
        match frame.op.as_u64() {
            Some(0) => self.dispatched(turn, &frame),
            Some(1) => {
                let heartbeat = self.heartbeat();
                self.send(turn, vec![literal(heartbeat)]);
            }
            Some(7) => {
                self.close(turn);
                self.reconnect(turn, "Discord asked for it");
            }
            Some(9) => self.invalid_session(turn, frame.data(&[]) == true),
            Some(10) => self.hello(turn, &frame.data(&[])),
            Some(11) => self.state.link.unacknowledged = false,
            _ => {}
        }
    }

    /// At once after a good connection, else with patience.
    fn reconnect(&mut self, turn: &mut Turn, why: &str) {
        let link = &self.state.link;
        let was_good = link.ready_ms > 0 && turn.now_ms.saturating_sub(link.ready_ms) >= GOOD_AFTER_MS;
        if was_good && self.state.session.is_some() {
            self.state.link.ready_ms = 0;
            self.state.link.attempts = 0;
            self.connect(turn);
        } else {
            self.retry(turn, why);
        }
    }

    fn dispatched(&mut self, turn: &mut Turn, frame: &Frame) {
        let name = wire::text(&frame.t);
        let Some(number) = frame.s.as_u64() else { return };
        if name == "READY" {
            self.state.sequence.begin(number);
        } else if !self.state.sequence.take(number) {
            return;
        }
        let fields = if name == "MESSAGE_CREATE" { inbound::FIELDS } else { &[] };
        self.dispatch(turn, name, &frame.data(fields));
    }

    fn hello(&mut self, turn: &mut Turn, data: &Value) {
        if self.state.link.phase != Phase::Opening {
            return;
        }
        let interval_ms = data["heartbeat_interval"].as_u64().unwrap_or(41_250).clamp(1_000, 600_000);
        self.state.link.interval_ms = interval_ms;
        self.state.link.phase = Phase::Greeting;
        // The first heartbeat is at a random moment, so that not all bots beat at once after an outage.
        let first_ms = turn.chance(interval_ms);
        self.keepalive(turn, first_ms);
        let hello = match &self.state.session {
            Some(session) => self.resume(session),
            None => {
                self.state.link.identified_ms = turn.now_ms;
                self.identify()
            }
        };
        self.send(turn, hello);
        turn.timer(PATIENCE_TIMER, READY_WITHIN_MS);
        turn.changed();
    }

    fn token(&self) -> Piece {
        secret(&self.config.token_secret, Encoding::Json)
    }

    fn identify(&self) -> Vec<Piece> {
        let properties = json!({ "os": "linux", "browser": "chela", "device": "chela" });
        let rest = format!(r#"","intents":{},"properties":{properties}}}}}"#, self.config.intents());
        vec![literal(r#"{"op":2,"d":{"token":""#), self.token(), literal(rest)]
    }

    fn resume(&self, session: &Session) -> Vec<Piece> {
        let (id, last) = (json!(session.id), json!(self.state.sequence.last()));
        let rest = format!(r#"","session_id":{id},"seq":{last}}}}}"#);
        vec![literal(r#"{"op":6,"d":{"token":""#), self.token(), literal(rest)]
    }

    fn heartbeat(&self) -> String {
        let last = self.state.sequence.last().map_or("null".to_owned(), |last| last.to_string());
        format!(r#"{{"op":1,"d":{last}}}"#)
    }

    fn send(&self, turn: &mut Turn, data: Vec<Piece>) {
        turn.push(Output::SendSocket(SendSocket { connection: self.connection(), data }));
    }

    fn keepalive(&self, turn: &mut Turn, first_ms: u64) {
        let (connection, interval_ms) = (self.connection(), self.state.link.interval_ms);
        let frame = vec![literal(self.heartbeat())];
        turn.push(Output::Keepalive(Keepalive { connection, first_ms, interval_ms, frame }));
    }

    /// A heartbeat says the last number, so a call that moved it gives the host a new one.
    pub fn renew_keepalive(&mut self, turn: &mut Turn) {
        let last = self.state.sequence.last();
        if self.state.link.phase == Phase::Ready && self.state.link.told != last {
            self.state.link.told = last;
            self.keepalive(turn, 0);
        }
    }

    pub fn heartbeat_sent(&mut self, turn: &mut Turn) {
        if self.state.link.saved != self.state.sequence.last() {
            // Events that were of no interest are not asked for again after a crash, but for the latest.
            turn.changed();
        }
        if std::mem::replace(&mut self.state.link.unacknowledged, true) {
            // The one before was never acknowledged: the connection is dead, whatever the socket says.
            self.close(turn);
            self.reconnect(turn, "Discord stopped acknowledging heartbeats");
        }
    }

    fn invalid_session(&mut self, turn: &mut Turn, can_resume: bool) {
        if !can_resume {
            self.forget_session();
        }
        self.close(turn);
        self.state.link.ready_ms = 0;
        self.state.link.attempts = self.state.link.attempts.saturating_add(1);
        // Between one and five seconds, as Discord asks.
        let after = 1_000 + turn.chance(4_000);
        turn.status(Health::Connecting, "Discord does not know the session any more");
        self.wait(turn, after);
    }

    pub fn ready(&mut self, turn: &mut Turn, data: &Value) {
        let (user, id) = (&data["user"], wire::text(&data["session_id"]));
        let Some(me) = wire::id(&user["id"]) else { return };
        let url = wire::text(&data["resume_gateway_url"]).trim_end_matches('/');
        let is_address = url.starts_with("wss://") || url.starts_with("ws://");
        let url = if is_address { url } else { self.config.gateway.as_str() };
        self.state.session = Some(Session { id: wire::name(id), url: url.chars().take(500).collect() });
        let application = wire::id(&data["application"]["id"]).unwrap_or(me);
        self.state.me = Some(Me { id: me, name: wire::name(wire::text(&user["username"])), application });
        self.now_ready(turn);
        self.register_commands(turn);
    }

    pub fn resumed(&mut self, turn: &mut Turn) {
        self.now_ready(turn);
    }

    fn now_ready(&mut self, turn: &mut Turn) {
        self.state.link.phase = Phase::Ready;
        self.state.link.ready_ms = turn.now_ms;
        turn.push(Output::CancelTimer(PATIENCE_TIMER.into()));
        let name = self.state.me.as_ref().map(|me| me.name.clone()).unwrap_or_default();
        turn.status(Health::Ready, format!("connected as {name}"));
    }

    /// The token was refused where no gateway said so.
    pub fn unauthorized(&mut self, turn: &mut Turn) {
        if self.state.link.phase != Phase::Halted {
            self.leave(turn);
            self.halt(turn, Health::NeedsAuth, "Discord refused the bot's token; give a new one to the secret".into());
        }
    }
}

/// Close codes after which trying again is of no use, and what a person is to do.
fn final_refusal(code: u16) -> Option<(Health, &'static str)> {
    match code {
        4_004 => Some((Health::NeedsAuth, "the bot's token is wrong; give the right one to the secret")),
        4_010 => Some((Health::Failed, "the shard is invalid")),
        4_011 => Some((
            Health::Failed,
            "the bot is in so many servers that it must be sharded, which this adapter does not do",
        )),
        4_012 => Some((Health::Failed, "this version of Discord's gateway is no longer served; update the adapter")),
        4_013 => Some((Health::Failed, "the intents are invalid; update the adapter")),
        4_014 => Some((
            Health::Failed,
            "the application lacks the Message Content intent; switch it on in the developer portal under Bot, or set messageContent to false",
        )),
        _ => None,
    }
}
