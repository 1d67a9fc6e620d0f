//! A Slack of the tests: Web API and Socket Mode on one free port, strict where Slack documents a refusal.
//! Keeps true: what Slack refuses is refused in its words; an envelope is sent until it is acknowledged; every request and every frame is
//! counted. Never: outlives its test.

mod socket;
mod web;
mod world;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;

use crate::net::{Answer, Asked, Network, Serving};
use socket::Push;
use world::State;

pub use world::{Counts, Sent};

/// The only tokens that open it.
pub const APP_TOKEN: &str = "xapp-1-A1-3q2-app";
pub const BOT_TOKEN: &str = "xoxb-1-2-7w-bot";
/// The bot, its workspace, two channels, and two people.
pub const BOT: &str = "U0BOT";
pub const TEAM: &str = "T0CREW";
pub const CHANNEL: &str = "C0GENERAL";
pub const OTHER_CHANNEL: &str = "C0QUIET";
pub const PERSON: &str = "U0EDEN";
pub const OTHER_PERSON: &str = "U0SEUM";
/// How the ids of a crowd begin, who write to the bot alone.
pub const CROWD: &str = "U0CROWD";

pub struct Slack {
    serving: Serving,
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    address: SocketAddr,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for Shared {
    async fn answer(self: Arc<Self>, asked: Asked) -> Option<Answer> {
        let delay = self.state().faults.delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut state = self.state();
        state.asked.push(asked.clone());
        let answer = web::answer(&mut state, self.address, &asked);
        if state.faults.losing > 0 {
            state.faults.losing -= 1;
            return None;
        }
        Some(answer)
    }

    async fn talk(self: Arc<Self>, socket: WebSocketStream<TcpStream>, path: String) {
        socket::connection(socket, &path, &self).await;
    }
}

impl Slack {
    pub fn start() -> Self {
        let (serving, shared) = Serving::start(|address| Shared { address, state: Mutex::new(State::default()) });
        Self { serving, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// The adapter as a channel of a gateway's configuration, granted this server and its tokens, with anyone's direct messages.
    pub fn channel(&self, config: &Value) -> Value {
        let mut own =
            json!({ "api": format!("http://{}/api", self.address()), "direct": "open", "requestsPerSecond": 10_000 });
        own.as_object_mut().expect("an object").extend(config.as_object().expect("an object").clone());
        let hosts = json!([self.address().to_string()]);
        let secret = |value: &str| json!({ "value": value, "hosts": hosts });
        json!({
            "source": crate::component("slack"), "config": own,
            "grants": {
                "hosts": hosts, "secrets": { "slack-app-token": secret(APP_TOKEN), "slack-bot-token": secret(BOT_TOKEN) },
                "rates": { "frames": 100_000, "requests": 100_000, "messages": 100_000 },
            },
        })
    }

    /// A person writes; gives the message's time, which is its id.
    pub fn say(&self, said: Said) -> String {
        self.shared.state().say(said)
    }

    /// A person uses a command; gives its trigger.
    pub fn command(&self, command: &str, text: &str) -> String {
        let mut state = self.shared.state();
        let trigger = state.next_time();
        let url = format!("http://{}/commands/{trigger}", self.shared.address);
        let payload = json!({ "command": command, "text": text, "user_id": PERSON, "user_name": "eden", "channel_id": CHANNEL,
            "channel_name": "general", "team_id": TEAM, "trigger_id": trigger, "response_url": url });
        state.replies.insert(trigger.clone(), Vec::new());
        state.deliver("slash_commands", payload, true);
        trigger
    }

    /// What a command was answered with: what came with its acknowledgement, and then what came to its address.
    pub fn replies(&self, trigger: &str) -> Vec<Value> {
        self.shared.state().replies.get(trigger).cloned().expect("such a command")
    }

    /// A person presses the button with these words on a message of the bot.
    pub fn press(&self, message: &Sent, label: &str) {
        let blocks = message.body["blocks"].as_array().cloned().unwrap_or_default();
        let buttons = blocks.iter().flat_map(|block| block["elements"].as_array().cloned().unwrap_or_default());
        let button = buttons.into_iter().find(|button| button["text"]["text"] == label).expect("such a button");
        let mut state = self.shared.state();
        let (pressed_at, trigger) = (state.next_time(), state.next_time());
        let mut shown = json!({ "ts": message.time, "text": message.text, "blocks": blocks, "bot_id": "B0BOT" });
        if let Some(thread) = &message.thread {
            shown["thread_ts"] = json!(thread);
        }
        state.triggers.push(trigger.clone());
        let action = json!({ "type": "button", "action_id": button["action_id"], "block_id": "x", "value": button["value"],
            "text": button["text"], "action_ts": pressed_at });
        let payload = json!({ "type": "block_actions", "user": { "id": PERSON, "username": "eden", "name": "eden" },
            "team": { "id": TEAM }, "trigger_id": trigger, "channel": { "id": message.channel }, "message": shown, "actions": [action] });
        state.deliver("interactive", payload, true);
    }

    /// The forms that were opened.
    pub fn forms(&self) -> Vec<Value> {
        self.shared.state().forms.clone()
    }

    /// A person fills in a form.
    pub fn submit(&self, form: &Value, words: &str) {
        let mut state = self.shared.state();
        let block = &form["blocks"][0];
        let (block_id, action) =
            (block["block_id"].as_str().expect("a block"), block["element"]["action_id"].as_str().expect("a field"));
        let values = json!({ block_id: { action: { "type": "plain_text_input", "value": words } } });
        let view = json!({ "id": format!("V{}", state.next_time()), "callback_id": form["callback_id"],
            "private_metadata": form["private_metadata"], "state": { "values": values } });
        let payload = json!({ "type": "view_submission", "user": { "id": PERSON, "name": "eden" }, "team": { "id": TEAM }, "view": view });
        state.deliver("interactive", payload, true);
    }

    /// Every message that the bot has made, in order, as it is now.
    pub fn sent(&self) -> Vec<Sent> {
        self.shared.state().sent.clone()
    }

    pub fn counts(&self) -> Counts {
        self.shared.state().counts.clone()
    }

    /// Requests so far, refused ones as well.
    pub fn requests(&self) -> Vec<Asked> {
        self.shared.state().asked.clone()
    }

    /// Envelopes that are not acknowledged yet.
    pub fn unacknowledged(&self) -> usize {
        self.shared.state().envelopes.len()
    }

    /// How many sockets are open.
    pub fn connected(&self) -> usize {
        self.shared.state().links.len()
    }
}

/// Faults, each at once or for what comes next.
impl Slack {
    /// Every socket breaks, without a close frame.
    pub fn cut(&self) {
        self.shared.state().tell(|| Push::Cut);
    }

    /// Tells that sockets are about to end, for a reason of Slack's.
    pub fn disconnect(&self, reason: &str) {
        self.shared
            .state()
            .tell(|| Push::Frame(json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": "test" } })));
    }

    /// The next envelopes each come twice.
    pub fn double_next(&self, envelopes: usize) {
        self.shared.state().faults.doubled = envelopes;
    }

    /// The next requests are answered with this status and nothing is done.
    pub fn fail_next(&self, requests: usize, status: u16) {
        self.shared.state().faults.failing = (requests, status);
    }

    /// The next messages are refused with this word.
    pub fn refuse_next(&self, messages: usize, word: &'static str) {
        self.shared.state().faults.refusing = (messages, word);
    }

    /// Requests are done, and the connection breaks before the answer.
    pub fn lose_next_answers(&self, requests: usize) {
        self.shared.state().faults.losing = requests;
    }

    /// So many messages a channel in each second; more are told to wait.
    pub fn limit(&self, a_second: usize) {
        self.shared.state().limit = Some(a_second);
    }

    /// Every answer of the Web API takes this long.
    pub fn delay(&self, by: Duration) {
        self.shared.state().faults.delay = by;
    }
}

/// What a person writes, where, and how.
#[derive(Clone, Debug)]
pub struct Said {
    pub(super) text: String,
    pub(super) channel: String,
    pub(super) user: String,
    pub(super) thread: Option<String>,
    pub(super) mentions: bool,
}

impl Said {
    /// Words of a person in the first channel.
    pub fn here(text: &str) -> Self {
        Self { text: text.to_owned(), channel: CHANNEL.into(), user: PERSON.into(), thread: None, mentions: false }
    }

    /// Words to the bot, by a mention.
    pub fn to_bot(text: &str) -> Self {
        Self { mentions: true, ..Self::here(&format!("<@{BOT}> {text}")) }
    }

    /// Words to the bot alone.
    pub fn direct(text: &str) -> Self {
        Self { channel: world::direct_channel(PERSON), ..Self::here(text) }
    }

    pub fn within(self, thread: &str) -> Self {
        Self { thread: Some(thread.to_owned()), ..self }
    }

    pub fn by(self, user: &str) -> Self {
        Self { user: user.to_owned(), ..self }
    }

    /// Words of one of a crowd to the bot alone.
    pub fn of_crowd(text: &str, nth: u64) -> Self {
        let user = format!("{CROWD}{nth}");
        Self { channel: world::direct_channel(&user), user, ..Self::here(text) }
    }
}
