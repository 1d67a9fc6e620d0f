//! A Telegram of the tests: the Bot API on a free port, strict where Telegram documents a refusal.
//! Keeps true: what Telegram refuses is refused in its words; an update is given until it is confirmed; every request is counted. Never:
//! outlives its test.

mod api;
mod said;
mod world;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::net::{Answer, Asked, Network, Serving};
use world::State;

pub use said::Said;
pub use world::{Counts, Sent};

/// The only token that opens it.
pub const TOKEN: &str = "701:AAGtest-3q2_telegram";
/// The bot, two people, a supergroup, one with topics, one of those, and a basic group.
pub const BOT: i64 = 701;
pub const PERSON: i64 = 7;
pub const OTHER_PERSON: i64 = 8;
pub const GROUP: i64 = -1_001_000_000_910;
pub const FORUM: i64 = -1_001_000_000_911;
pub const TOPIC: i64 = 77;
pub const FEW: i64 = -912;
/// The first of a crowd of ten thousand people who write to the bot alone.
pub const CROWD: i64 = 20_000;
/// However long a poll asks to wait, it is answered after this.
const POLL_MAX: Duration = Duration::from_millis(100);

pub struct Telegram {
    serving: Serving,
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    state: Mutex<State>,
    /// Something came that a poll may wait for.
    news: Notify,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is an update, the time is over, or another poll has come.
    async fn poll(&self, asked: &Asked) -> Answer {
        let (number, until) = {
            let mut state = self.state();
            if let Some(refusal) = state.begin_poll(&asked.json) {
                return refusal;
            }
            let wait = Duration::from_secs(asked.json["timeout"].as_u64().unwrap_or(0)).min(POLL_MAX);
            (state.poll, tokio::time::Instant::now() + wait)
        };
        // A poll that waits is over now.
        self.news.notify_waiters();
        loop {
            let news = self.news.notified();
            if let Some(answer) = self.state().polled(number, &asked.json) {
                return answer;
            }
            if tokio::time::timeout_at(until, news).await.is_err() {
                return Answer::new(200, json!({ "ok": true, "result": [] }));
            }
        }
    }
}

impl Network for Shared {
    async fn answer(self: Arc<Self>, asked: Asked) -> Option<Answer> {
        let method = api::method_of(&asked);
        let makes_message = method.as_deref() == Ok("sendMessage");
        let delay = {
            let mut state = self.state();
            state.asked.push(asked.clone());
            if makes_message && state.faults.dropping > 0 {
                state.faults.dropping -= 1;
                return None;
            }
            state.faults.delay
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let answer = match method {
            Ok(method) if method == "getUpdates" => self.poll(&asked).await,
            Ok(method) => api::answer(&mut self.state(), &method, &asked),
            Err((status, said)) => api::refused(status, said),
        };
        let late = self.state().faults.late;
        if makes_message && !late.is_zero() {
            tokio::time::sleep(late).await;
        }
        let mut state = self.state();
        if makes_message && state.faults.losing_sends > 0 {
            state.faults.losing_sends -= 1;
            return None;
        }
        let is_poll = asked.path.ends_with("/getUpdates");
        let loses = if is_poll { &mut state.faults.losing_polls } else { &mut state.faults.losing };
        if *loses > 0 {
            *loses -= 1;
            return None;
        }
        Some(answer)
    }
}

impl Telegram {
    pub fn start() -> Self {
        let (serving, shared) = Serving::start(|_| Shared { state: Mutex::new(State::default()), news: Notify::new() });
        Self { serving, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// The adapter as a channel of a gateway's configuration, granted this server and its token, with anyone's private messages.
    pub fn channel(&self, config: &Value) -> Value {
        let mut own = json!({ "api": format!("http://{}", self.address()), "direct": "open", "pollSeconds": 1 });
        own.as_object_mut().expect("an object").extend(config.as_object().expect("an object").clone());
        let hosts = json!([self.address().to_string()]);
        json!({
            "source": crate::component("telegram"), "config": own,
            "grants": {
                "hosts": hosts, "secrets": { "telegram-token": { "value": TOKEN, "hosts": hosts } },
                "rates": { "requests": 100_000, "messages": 100_000 },
            },
        })
    }

    /// A person writes; gives the message's number.
    pub fn say(&self, said: Said) -> i64 {
        let number = self.shared.state().say(said.message());
        self.shared.news.notify_waiters();
        number
    }

    /// A person changes the words of a message.
    pub fn edit(&self, number: i64, said: Said) {
        self.shared.state().edit(number, said.message());
        self.shared.news.notify_waiters();
    }

    /// A person presses the button with these words on a message of the bot; gives the id of the press.
    pub fn press(&self, message: &Sent, label: &str) -> String {
        let rows = message.markup["inline_keyboard"].as_array().cloned().unwrap_or_default();
        let buttons = rows.iter().flat_map(|row| row.as_array().cloned().unwrap_or_default());
        let button = buttons.into_iter().find(|button| button["text"] == label).expect("such a button");
        let id = self.shared.state().press(message, &button["callback_data"]);
        self.shared.news.notify_waiters();
        id
    }

    /// What the one who pressed was shown; none while the press is not acknowledged.
    pub fn acknowledged(&self, press: &str) -> Option<String> {
        self.shared.state().presses.get(press).cloned().flatten()
    }

    /// Any update, as it is, under the next number.
    pub fn update(&self, kind: &str, value: Value) {
        self.shared.state().update(kind, value);
        self.shared.news.notify_waiters();
    }

    /// Every message that the bot has made, in order, as it is now.
    pub fn sent(&self) -> Vec<Sent> {
        self.shared.state().sent.clone()
    }

    /// Chats in which the bot was shown as typing, each time.
    pub fn typed(&self) -> Vec<i64> {
        self.shared.state().typed.clone()
    }

    pub fn counts(&self) -> Counts {
        self.shared.state().counts.clone()
    }

    /// Requests so far, refused ones as well.
    pub fn requests(&self) -> Vec<Asked> {
        self.shared.state().asked.clone()
    }

    /// Updates that are not confirmed yet.
    pub fn unconfirmed(&self) -> usize {
        self.shared.state().updates.len()
    }
}

/// Faults, each at once or for what comes next.
impl Telegram {
    /// The next requests but polls are answered with this status and nothing is done.
    pub fn fail_next(&self, requests: usize, status: u16) {
        self.shared.state().faults.failing = (requests, status);
    }

    /// The next polls are refused, as if another program polled.
    pub fn conflict_next(&self, polls: usize) {
        self.shared.state().faults.conflicts = polls;
    }

    /// Requests are done, and the connection breaks before the answer.
    pub fn lose_next_answers(&self, requests: usize) {
        self.shared.state().faults.losing = requests;
    }

    /// The same for polls: their updates come again.
    pub fn lose_next_polls(&self, polls: usize) {
        self.shared.state().faults.losing_polls = polls;
    }

    /// The next messages are made, and the connection breaks before the answer.
    pub fn lose_next_sends(&self, messages: usize) {
        self.shared.state().faults.losing_sends = messages;
    }

    /// The connection breaks before the next messages are made.
    pub fn drop_next_sends(&self, messages: usize) {
        self.shared.state().faults.dropping = messages;
    }

    /// A message is made at once, and answered after this.
    pub fn answer_sends_late(&self, by: Duration) {
        self.shared.state().faults.late = by;
    }

    /// The updates of the next polls come in the wrong order, and those that were confirmed come once more.
    pub fn repeat_next(&self, polls: usize) {
        self.shared.state().faults.repeats = polls;
    }

    /// A webhook is set for the bot, so polls are refused until it is deleted.
    pub fn set_webhook(&self) {
        self.shared.state().webhook = true;
    }

    /// So many messages a chat in each second; more are told to wait.
    pub fn limit(&self, a_second: usize) {
        self.shared.state().limit = Some(a_second);
    }

    /// A person has blocked the bot.
    pub fn block(&self, person: i64) {
        self.shared.state().blocked.push(person);
    }

    /// A group becomes a supergroup under another id.
    pub fn migrate(&self, from: i64, to: i64) {
        self.shared.state().moved.insert(from, to);
    }

    /// Every answer takes this long.
    pub fn delay(&self, by: Duration) {
        self.shared.state().faults.delay = by;
    }
}
