//! What this Discord knows: its server, its sessions, what was sent and done, and which faults are switched on.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::gateway::Push;
use super::http::Asked;
use super::limits::Limits;
use super::{APPLICATION, BOT, CHANNEL, CROWD, GUILD, OTHER_CHANNEL, OTHER_PERSON, PERSON, Setup, THREAD};

pub const GUILDS: u64 = 1;
pub const GUILD_MESSAGES: u64 = 1 << 9;
pub const DIRECT_MESSAGES: u64 = 1 << 12;
pub const MESSAGE_CONTENT: u64 = 1 << 15;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub connections: usize,
    pub identifies: usize,
    pub resumes: usize,
    /// Resumes that found their session.
    pub resumed: usize,
    pub heartbeats: usize,
    /// How often a message was asked for, by its nonce; it was made once.
    pub by_nonce: BTreeMap<String, usize>,
    /// Requests that were too many.
    pub limited: usize,
    /// Close codes that were given.
    pub closed: Vec<u16>,
}

/// A message of the bot, as it is now.
#[derive(Clone, Debug)]
pub struct Sent {
    pub id: u64,
    pub channel: u64,
    /// The content of the message.
    pub text: String,
    /// What it was asked for with.
    pub body: Value,
    pub edits: usize,
    pub deleted: bool,
    pub at: Instant,
}

impl Sent {
    /// The message that it is a reply to.
    pub fn answers(&self) -> Option<u64> {
        self.body["message_reference"]["message_id"].as_str()?.parse().ok()
    }

    pub(super) fn as_message(&self) -> Value {
        let components = self.body["components"].clone();
        json!({
            "id": self.id.to_string(), "type": 0, "channel_id": self.channel.to_string(), "content": self.text,
            "author": { "id": BOT.to_string(), "username": "chela", "bot": true },
            "components": if components.is_null() { json!([]) } else { components }, "mentions": [], "attachments": [],
        })
    }
}

/// An interaction of a person, and how the bot answered it.
#[derive(Clone, Debug)]
pub struct Acted {
    pub id: u64,
    pub(super) token: String,
    pub(super) at: Instant,
    pub(super) older: Duration,
    pub callback: Option<Value>,
    pub original: Option<Value>,
    pub followups: Vec<Value>,
}

impl Acted {
    pub(super) fn age(&self) -> Duration {
        self.at.elapsed() + self.older
    }
}

#[derive(Default)]
pub(super) struct Faults {
    pub(super) silent: bool,
    pub(super) doubled: usize,
    pub(super) swapping: bool,
    pub(super) failing: (usize, u16),
    pub(super) losing: usize,
    pub(super) delay: Duration,
    /// How late acknowledgements of interactions are.
    pub(super) late: Duration,
    pub(super) cutting: bool,
    pub(super) echoing: bool,
    pub(super) splitting: bool,
}

/// A session of the gateway.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) seq: u64,
    /// Every event since its start, for those who resume.
    pub(super) events: Vec<Value>,
    pub(super) intents: u64,
    pub(super) link: Option<u64>,
    /// An event that waits for the next one, to come after it.
    held: Option<Value>,
}

/// Whose intent an event needs.
#[derive(Clone, Copy)]
pub(super) enum Event {
    Guild,
    Message,
    Interaction,
}

pub(super) struct State {
    last_id: u64,
    pub(super) sessions: Vec<Session>,
    pub(super) links: HashMap<u64, mpsc::Sender<Push>>,
    pub(super) last_link: u64,
    pub(super) identified: Option<Instant>,
    pub(super) sent: Vec<Sent>,
    /// Messages by their nonces, and when each was made.
    pub(super) nonces: HashMap<String, (u64, Instant)>,
    /// Messages of people, and their channel.
    pub(super) people: HashMap<u64, String>,
    /// When each of them was written.
    pub(super) said: HashMap<u64, Instant>,
    pub(super) interactions: Vec<Acted>,
    pub(super) typed: Vec<u64>,
    pub(super) commands: Value,
    pub(super) asked: Vec<Asked>,
    pub(super) counts: Counts,
    pub(super) faults: Faults,
    pub(super) limits: Limits,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            last_id: 1_000_000,
            sessions: Vec::new(),
            links: HashMap::new(),
            last_link: 0,
            identified: None,
            sent: Vec::new(),
            nonces: HashMap::new(),
            people: HashMap::new(),
            said: HashMap::new(),
            interactions: Vec::new(),
            typed: Vec::new(),
            commands: Value::Null,
            asked: Vec::new(),
            counts: Counts::default(),
            faults: Faults::default(),
            limits: Limits::default(),
        }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Tells every connection.
    pub(super) fn tell(&mut self, push: impl Fn() -> Push) {
        self.links.values().for_each(|link| drop(link.try_send(push())));
    }

    pub(super) fn session(&mut self, link: u64) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.link == Some(link))
    }

    /// Gives an event to every session that asked for its kind, and keeps it for those that are away.
    pub(super) fn dispatch(&mut self, setup: &Setup, event: Event, name: &str, data: Value) {
        for at in 0..self.sessions.len() {
            let intents = self.sessions[at].intents;
            let is_direct = data["guild_id"].is_null();
            let wanted = match event {
                Event::Guild => GUILDS,
                Event::Message if is_direct => DIRECT_MESSAGES,
                Event::Message => GUILD_MESSAGES,
                Event::Interaction => 0,
            };
            if intents & wanted != wanted {
                continue;
            }
            let may_read = intents & MESSAGE_CONTENT != 0 && setup.message_content;
            let data = if matches!(event, Event::Message) && !may_read { veiled(data.clone()) } else { data.clone() };
            self.give(at, name, data);
        }
    }

    /// The next event of one session.
    pub(super) fn give(&mut self, at: usize, name: &str, data: Value) {
        let session = &mut self.sessions[at];
        session.seq += 1;
        let frame = json!({ "op": 0, "t": name, "s": session.seq, "d": data });
        session.events.push(frame.clone());
        let Some(link) = session.link.and_then(|link| self.links.get(&link)) else { return };
        if std::mem::take(&mut self.faults.cutting) {
            drop(link.try_send(Push::Half(frame)));
            return;
        }
        let mut frames = Vec::new();
        match session.held.take() {
            Some(held) => frames.extend([frame, held]),
            None if std::mem::take(&mut self.faults.swapping) => session.held = Some(frame),
            None if self.faults.doubled > 0 => {
                self.faults.doubled -= 1;
                frames.extend([frame.clone(), frame]);
            }
            None => frames.push(frame),
        }
        frames.into_iter().for_each(|frame| drop(link.try_send(Push::Frame(frame))));
    }

    pub(super) fn open_session(&mut self, intents: u64, link: u64) -> usize {
        let id = format!("session-{}", self.next_id());
        let session = Session { id, seq: 0, events: Vec::new(), intents, link: Some(link), held: None };
        self.sessions.push(session);
        self.sessions.len() - 1
    }
}

/// What is seen of a message without the privilege to read it: all of it where it is to the bot, else its frame.
fn veiled(mut message: Value) -> Value {
    let bot = json!(BOT.to_string());
    let names_bot = message["mentions"].as_array().is_some_and(|list| list.iter().any(|one| one["id"] == bot));
    if !names_bot && !message["guild_id"].is_null() && message["author"]["id"] != bot {
        message["content"] = json!("");
        message["attachments"] = json!([]);
        message["embeds"] = json!([]);
    }
    message
}

/// The channel of direct messages with someone.
pub fn direct_channel(person: u64) -> u64 {
    person + 5_000
}

/// The last channel that a crowd may have.
const CROWD_LAST: u64 = CROWD + 9_999;

/// A channel as Discord shows it; null when there is none.
pub fn channel(id: u64) -> Value {
    let of_guild = |name: &str, kind: u64, parent: Value| json!({ "id": id.to_string(), "type": kind, "name": name, "guild_id": GUILD.to_string(), "parent_id": parent });
    match id {
        CHANNEL => of_guild("general", 0, Value::Null),
        OTHER_CHANNEL => of_guild("quiet", 0, Value::Null),
        THREAD => of_guild("plans", 11, json!(CHANNEL.to_string())),
        CROWD..=CROWD_LAST => of_guild(&format!("crowd-{id}"), 0, Value::Null),
        _ if id == direct_channel(PERSON) || id == direct_channel(OTHER_PERSON) => {
            json!({ "id": id.to_string(), "type": 1, "recipients": [{ "id": (id - 5_000).to_string() }] })
        }
        _ => Value::Null,
    }
}

pub fn guild(crowd: u64) -> Value {
    let ids = [CHANNEL, OTHER_CHANNEL].into_iter().chain(CROWD..CROWD + crowd);
    let channels: Vec<Value> = ids.map(channel).collect();
    json!({
        "id": GUILD.to_string(), "name": "crew", "channels": channels,
        "threads": [channel(THREAD)], "members": [],
        "roles": [{ "id": GUILD.to_string(), "name": "@everyone" },
            { "id": "950", "name": "chela", "tags": { "bot_id": BOT.to_string() } }],
    })
}

pub fn ready(session: &str, resume_url: &str) -> Value {
    json!({
        "v": 10, "user": { "id": BOT.to_string(), "username": "chela", "bot": true }, "session_id": session,
        "resume_gateway_url": resume_url, "application": { "id": APPLICATION.to_string(), "flags": 0 },
        "guilds": [{ "id": GUILD.to_string(), "unavailable": true }],
    })
}
