//! A Discord of the tests: gateway and REST interface of version 10 on one free port, strict where Discord documents a refusal.
//! Keeps true: what Discord refuses is refused in its words; every request and every frame is counted. Never: outlives its test.
//! A crate of its own, since measurements and kills need it as well.

mod gateway;
mod http;
mod limits;
mod packing;
mod rest;
mod world;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Notify;

use gateway::Push;
use world::{Event, State};

pub use http::Asked;
pub use world::{Acted, Counts, Sent};

/// The only token that opens it.
pub const TOKEN: &str = "MTAx.Gtest.3q2-7w_discord";
/// The bot, its application, its server, two channels of it, a thread of the first one, and two people.
pub const BOT: u64 = 101;
pub const APPLICATION: u64 = 102;
pub const GUILD: u64 = 900;
pub const CHANNEL: u64 = 910;
pub const OTHER_CHANNEL: u64 = 911;
pub const THREAD: u64 = 912;
pub const PERSON: u64 = 201;
pub const OTHER_PERSON: u64 = 202;
/// The first of the channels that a crowd has, see [`Setup::crowd`].
pub const CROWD: u64 = 20_000;

/// The adapter as a component, as `cargo xtask` builds it.
pub fn component() -> PathBuf {
    let own = std::env::current_exe().expect("whoever runs is a file");
    let found = own.ancestors().map(|folder| folder.join("components/discord.wasm")).find(|path| path.is_file());
    found.expect("target/components/discord.wasm is not built; run `cargo xtask test`")
}

/// What Discord would be set to in the developer portal, and what it chooses itself.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// Whether the application has the Message Content intent.
    pub message_content: bool,
    /// Between two identifies.
    pub identify_every: Duration,
    /// Requests a second over all routes.
    pub global_a_second: u32,
    /// Messages of a channel in a window.
    pub messages: (u32, Duration),
    /// How long a message is known by its nonce. Discord says only that it is a few minutes.
    pub nonces_for: Duration,
    /// Further channels of the server, from [`CROWD`] on.
    pub crowd: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(41_250),
            message_content: true,
            identify_every: Duration::from_secs(5),
            global_a_second: 50,
            messages: (5, Duration::from_secs(5)),
            nonces_for: Duration::from_secs(5 * 60),
            crowd: 0,
        }
    }
}

impl Setup {
    /// One whose limits a stream of messages over so many channels does not reach.
    pub fn crowded(channels: u64) -> Self {
        Self {
            crowd: channels,
            global_a_second: 1_000_000,
            messages: (1_000_000, Duration::from_secs(5)),
            ..Self::default()
        }
    }
}

pub struct Discord {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: Option<JoinHandle<()>>,
}

struct Shared {
    setup: Setup,
    address: SocketAddr,
    state: Mutex<State>,
    stop: Notify,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Discord {
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket of tokio");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { setup, address, state: Mutex::new(State::new()), stop: Notify::new() });
        let served = shared.clone();
        let serving = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serve(listener, served));
        });
        Self { address, shared, serving: Some(serving) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The addresses, as the adapter's configuration has them.
    pub fn api(&self) -> String {
        format!("http://{}/api/v10", self.address)
    }

    pub fn gateway(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// A configuration of the adapter that speaks to it, with anyone's direct messages.
    pub fn config(&self) -> Value {
        json!({ "api": self.api(), "gateway": self.gateway(), "direct": "open" })
    }

    /// The adapter as a channel of a gateway's configuration, granted this server and its token.
    pub fn channel(&self, config: &Value) -> Value {
        let mut own = self.config();
        own.as_object_mut().expect("an object").extend(config.as_object().expect("an object").clone());
        let hosts = json!([self.address.to_string()]);
        json!({
            "source": component(), "config": own,
            "grants": {
                "hosts": hosts, "secrets": { "discord-token": { "value": TOKEN, "hosts": hosts } },
                "rates": { "frames": 100_000, "requests": 100_000, "messages": 100_000 },
            },
        })
    }

    /// A person writes; gives the message's id.
    pub fn say(&self, said: Said) -> u64 {
        self.writer().say(said)
    }

    /// Someone who writes from another thread.
    pub fn writer(&self) -> Writer {
        Writer(self.shared.clone())
    }

    /// Any event, as it is.
    pub fn dispatch(&self, name: &str, data: Value) {
        self.shared.state().dispatch(&self.shared.setup, Event::Guild, name, data);
    }

    /// A person uses a command; gives the interaction's id.
    pub fn command(&self, name: &str, options: &[(&str, &str)]) -> u64 {
        let option = |(name, value): &(&str, &str)| json!({ "type": 3, "name": name, "value": value });
        let options: Vec<Value> = options.iter().map(option).collect();
        let data = json!({ "id": "1", "type": 1, "name": name, "options": options });
        self.act(2, data, Value::Null)
    }

    /// A person presses the button with these words on a message of the bot.
    pub fn press(&self, message: &Sent, label: &str) -> u64 {
        let rows = message.body["components"].as_array().cloned().unwrap_or_default();
        let buttons = rows.iter().flat_map(|row| row["components"].as_array().cloned().unwrap_or_default());
        let button = buttons.into_iter().find(|button| button["label"] == label).expect("such a button");
        self.act(3, json!({ "component_type": 2, "custom_id": button["custom_id"] }), message.as_message())
    }

    /// A person fills in the form that an interaction was answered with.
    pub fn submit(&self, form: &Acted, message: &Sent, words: &str) -> u64 {
        let data = &form.callback.as_ref().expect("an answer")["data"];
        let field =
            json!({ "type": 4, "custom_id": data["components"][0]["components"][0]["custom_id"], "value": words });
        let components = json!([{ "type": 1, "components": [field] }]);
        self.act(5, json!({ "custom_id": data["custom_id"], "components": components }), message.as_message())
    }

    fn act(&self, kind: u64, data: Value, message: Value) -> u64 {
        let mut state = self.shared.state();
        let id = state.next_id();
        let token = format!("aW50ZXJhY3Rpb246{id}");
        let user = json!({ "id": PERSON.to_string(), "username": "eden_", "global_name": "Eden" });
        let mut event = json!({
            "id": id.to_string(), "application_id": APPLICATION.to_string(), "type": kind, "token": token, "version": 1,
            "channel_id": CHANNEL.to_string(), "channel": world::channel(CHANNEL), "guild_id": GUILD.to_string(),
            "member": { "user": user, "nick": null }, "data": data,
        });
        if !message.is_null() {
            event["message"] = message;
        }
        let acted = Acted {
            id,
            token,
            at: Instant::now(),
            older: Duration::ZERO,
            callback: None,
            original: None,
            followups: Vec::new(),
        };
        state.interactions.push(acted);
        state.dispatch(&self.shared.setup, Event::Interaction, "INTERACTION_CREATE", event);
        id
    }

    /// What became of an interaction.
    pub fn acted(&self, id: u64) -> Acted {
        self.shared.state().interactions.iter().find(|acted| acted.id == id).cloned().expect("such an interaction")
    }

    /// An interaction becomes older by this, so that no test has to wait.
    pub fn age(&self, id: u64, by: Duration) {
        let mut state = self.shared.state();
        let acted = state.interactions.iter_mut().find(|acted| acted.id == id).expect("such an interaction");
        acted.older += by;
    }

    /// Every message that the bot has made, in order, as it is now.
    pub fn sent(&self) -> Vec<Sent> {
        self.shared.state().sent.clone()
    }

    /// The bot's message by its number, counted from one; waits for it.
    pub fn message(&self, nth: usize) -> Sent {
        eventually(&format!("message {nth} comes"), || self.shared.state().sent.get(nth - 1).cloned())
    }

    /// How often each message of a person was answered by a reply; those that never were are not in it.
    pub fn answers(&self) -> BTreeMap<u64, usize> {
        let state = self.shared.state();
        let mut answers = BTreeMap::new();
        for to in state.sent.iter().filter_map(Sent::answers) {
            *answers.entry(to).or_default() += 1;
        }
        answers
    }

    /// How long each message of a person waited for its first reply.
    pub fn waits(&self) -> BTreeMap<u64, Duration> {
        let state = self.shared.state();
        let mut waits = BTreeMap::new();
        for (to, at) in state.sent.iter().filter_map(|sent| Some((sent.answers()?, sent.at))) {
            if let Some(said) = state.said.get(&to) {
                waits.entry(to).or_insert(at.saturating_duration_since(*said));
            }
        }
        waits
    }

    /// Channels in which the bot was shown as typing, each time.
    pub fn typed(&self) -> Vec<u64> {
        self.shared.state().typed.clone()
    }

    pub fn counts(&self) -> Counts {
        self.shared.state().counts.clone()
    }

    /// Requests so far, refused ones as well.
    pub fn requests(&self) -> Vec<Asked> {
        self.shared.state().asked.clone()
    }

    /// How many sessions have a connection that is ready.
    pub fn connected(&self) -> usize {
        self.shared.state().sessions.iter().filter(|session| session.link.is_some()).count()
    }

    /// Waits until the bot is connected.
    pub fn ready(&self) {
        eventually("the bot is connected", || (self.connected() > 0).then_some(()));
    }
}

/// Faults, each at once or for what comes next.
impl Discord {
    /// Every connection breaks, without a close frame.
    pub fn cut(&self) {
        self.shared.state().tell(|| Push::Cut);
    }

    /// The next event breaks off in the midst of its frame, and every connection with it; it comes again to those who resume.
    pub fn cut_within_next(&self) {
        self.shared.state().faults.cutting = true;
    }

    /// Packed messages come in two frames each, as Discord may send them.
    pub fn split_packed(&self, splits: bool) {
        self.shared.state().faults.splitting = splits;
    }

    pub fn close(&self, code: u16) {
        self.shared.state().tell(|| Push::Close(code, "closed by the test"));
    }

    /// Asks to reconnect (7).
    pub fn ask_to_reconnect(&self) {
        self.shared.state().tell(|| Push::Frame(json!({ "op": 7, "d": null, "s": null, "t": null })));
    }

    /// Tells that the session is invalid (9), and forgets it unless it can be resumed.
    pub fn invalidate(&self, resumable: bool) {
        let mut state = self.shared.state();
        state.tell(|| Push::Frame(json!({ "op": 9, "d": resumable, "s": null, "t": null })));
        if !resumable {
            state.sessions.clear();
        }
    }

    /// Asks for a heartbeat (1).
    pub fn ask_for_heartbeat(&self) {
        self.shared.state().tell(|| Push::Frame(json!({ "op": 1, "d": null, "s": null, "t": null })));
    }

    /// Heartbeats are no longer acknowledged, though the connections stay.
    pub fn stop_acknowledging(&self, stops: bool) {
        self.shared.state().faults.silent = stops;
    }

    /// The next events each come twice.
    pub fn double_next(&self, events: usize) {
        self.shared.state().faults.doubled = events;
    }

    /// The next two events come in the wrong order.
    pub fn swap_next(&self) {
        self.shared.state().faults.swapping = true;
    }

    /// The next requests are answered with this status and nothing is done.
    pub fn fail_next(&self, requests: usize, status: u16) {
        self.shared.state().faults.failing = (requests, status);
    }

    /// The next request is refused in words that have the token in them.
    pub fn echo_token_next(&self) {
        self.shared.state().faults.echoing = true;
    }

    /// The next requests are done, and the connection breaks before the answer.
    pub fn lose_next_answers(&self, requests: usize) {
        self.shared.state().faults.losing = requests;
    }

    /// Every answer of the REST interface takes this long.
    pub fn delay(&self, by: Duration) {
        self.shared.state().faults.delay = by;
    }

    /// Acknowledgements of interactions are on their way this long before they are taken; all else overtakes them.
    pub fn delay_callbacks(&self, by: Duration) {
        self.shared.state().faults.late = by;
    }
}

impl Drop for Discord {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    let mut talks = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            () = shared.stop.notified() => break,
            Ok((stream, _)) = listener.accept() => {
                let shared = shared.clone();
                talks.spawn(async move {
                    // A client that goes away in the midst is part of the tests.
                    let _ = http::converse(stream, shared).await;
                });
            }
            Some(_) = talks.join_next() => {}
        }
    }
    talks.shutdown().await;
}

/// Someone who writes; see [`Discord::say`].
pub struct Writer(Arc<Shared>);

impl Writer {
    pub fn say(&self, said: Said) -> u64 {
        let mut state = self.0.state();
        let id = state.next_id();
        let message = said.message(id);
        state.people.insert(id, message["channel_id"].as_str().expect("a channel").to_owned());
        state.said.insert(id, Instant::now());
        state.dispatch(&self.0.setup, Event::Message, "MESSAGE_CREATE", message);
        id
    }
}

/// What a person writes, where, and how.
#[derive(Clone, Debug)]
pub struct Said {
    text: String,
    channel: u64,
    guild: Option<u64>,
    author: Value,
    mentions: bool,
    reply_to: Option<u64>,
    more: Value,
}

impl Said {
    /// Words of a person in the first channel.
    pub fn here(text: &str) -> Self {
        let author = json!({ "id": PERSON.to_string(), "username": "eden_", "global_name": "Eden" });
        Self {
            text: text.to_owned(),
            channel: CHANNEL,
            guild: Some(GUILD),
            author,
            mentions: false,
            reply_to: None,
            more: json!({}),
        }
    }

    /// Words to the bot, by a mention.
    pub fn to_bot(text: &str) -> Self {
        Self { mentions: true, ..Self::here(&format!("<@{BOT}> {text}")) }
    }

    /// Words to the bot alone.
    pub fn direct(text: &str) -> Self {
        Self { channel: world::direct_channel(PERSON), guild: None, ..Self::here(text) }
    }

    pub fn within(self, channel: u64) -> Self {
        Self { channel, ..self }
    }

    pub fn by(self, author: Value) -> Self {
        Self { author, ..self }
    }

    pub fn replying(self, message: u64) -> Self {
        Self { reply_to: Some(message), ..self }
    }

    /// Further fields of the message.
    pub fn with(self, more: Value) -> Self {
        Self { more, ..self }
    }

    fn message(self, id: u64) -> Value {
        let bot = json!({ "id": BOT.to_string(), "username": "chela", "bot": true });
        let mut message = json!({
            "id": id.to_string(), "type": 0, "channel_id": self.channel.to_string(), "author": self.author,
            "content": self.text, "timestamp": "2026-01-01T00:00:00.000000+00:00", "edited_timestamp": null, "tts": false,
            "mention_everyone": false, "mentions": if self.mentions { json!([bot]) } else { json!([]) },
            "mention_roles": [], "attachments": [], "embeds": [], "pinned": false,
        });
        if let Some(guild) = self.guild {
            message["guild_id"] = json!(guild.to_string());
            message["member"] = json!({ "roles": [] });
        }
        if let Some(reply_to) = self.reply_to {
            message["type"] = json!(19);
            message["message_reference"] =
                json!({ "message_id": reply_to.to_string(), "channel_id": self.channel.to_string() });
        }
        for (name, value) in self.more.as_object().into_iter().flatten() {
            message[name] = value.clone();
        }
        message
    }
}

/// Waits for something that another thread will do; fails with `what` after two minutes.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < patience, "waited two minutes in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
