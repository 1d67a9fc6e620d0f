//! What this Slack knows: its channels, envelopes that are on their way, what was sent, and which faults are switched on.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::socket::Push;
use super::{CHANNEL, CROWD, OTHER_CHANNEL, OTHER_PERSON, PERSON, Said, TEAM};
use crate::net::Asked;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Sockets that greeted.
    pub sockets: usize,
    pub acknowledged: usize,
    /// Acknowledgements of what was acknowledged already, as often as it was sent, or was never sent.
    pub wrongly_acknowledged: usize,
    /// Envelopes that came again.
    pub repeated: usize,
    /// Requests that were too many.
    pub limited: usize,
    /// Requests with a token that was refused.
    pub refused_tokens: usize,
}

/// A message of the bot, as it is now.
#[derive(Clone, Debug)]
pub struct Sent {
    pub channel: String,
    pub time: String,
    pub thread: Option<String>,
    pub text: String,
    /// What it was asked for with, and its blocks as they are now.
    pub body: Value,
    pub edits: usize,
    pub deleted: bool,
}

#[derive(Default)]
pub(super) struct Faults {
    pub(super) failing: (usize, u16),
    pub(super) refusing: (usize, &'static str),
    pub(super) losing: usize,
    pub(super) doubled: usize,
    pub(super) delay: Duration,
}

/// An envelope that is not acknowledged yet.
pub(super) struct Envelope {
    frame: Value,
    /// When it was sent last.
    sent: Option<Instant>,
}

#[derive(Default)]
pub(super) struct State {
    last_time: u64,
    last_envelope: u64,
    /// Not acknowledged yet, by their numbers.
    pub(super) envelopes: BTreeMap<u64, Envelope>,
    /// How often each was sent and not acknowledged since: whoever gets one twice acknowledges it twice.
    owed: HashMap<u64, usize>,
    pub(super) links: HashMap<u64, mpsc::Sender<Push>>,
    pub(super) last_link: u64,
    /// Tickets that were given and not used.
    pub(super) tickets: Vec<u64>,
    pub(super) sent: Vec<Sent>,
    /// Messages of people, by channel and time.
    pub(super) people: Vec<(String, String)>,
    /// Commands, and what each was answered with.
    pub(super) replies: HashMap<String, Vec<Value>>,
    /// Which command an envelope carries.
    pub(super) commands: HashMap<String, String>,
    pub(super) triggers: Vec<String>,
    pub(super) forms: Vec<Value>,
    pub(super) asked: Vec<Asked>,
    pub(super) counts: Counts,
    pub(super) faults: Faults,
    pub(super) limit: Option<usize>,
    windows: HashMap<String, (Option<Instant>, usize)>,
}

impl State {
    /// A time that no message has yet.
    pub(super) fn next_time(&mut self) -> String {
        self.last_time += 1;
        // Of now, as far as who looks back into a channel can tell.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        format!("{now}.{:06}", self.last_time)
    }

    pub(super) fn tell(&mut self, push: impl Fn() -> Push) {
        self.links.values().for_each(|link| drop(link.try_send(push())));
    }

    pub(super) fn say(&mut self, said: Said) -> String {
        let time = self.next_time();
        self.people.push((said.channel.clone(), time.clone()));
        let is_direct = said.channel.starts_with('D');
        let mut event = json!({ "type": "message", "channel": said.channel, "channel_type": if is_direct { "im" } else { "channel" },
            "user": said.user, "team": TEAM, "ts": time, "event_ts": time, "text": said.text });
        if let Some(thread) = &said.thread {
            event["thread_ts"] = json!(thread);
        }
        if said.mentions {
            // Who mentions the bot is told twice, in either order.
            let mut mention = event.clone();
            mention["type"] = json!("app_mention");
            self.event(mention);
        }
        self.event(event);
        time
    }

    fn event(&mut self, event: Value) {
        let id = format!("Ev{:08}", self.last_envelope);
        self.deliver(
            "events_api",
            json!({ "team_id": TEAM, "type": "event_callback", "event_id": id, "event": event }),
            false,
        );
    }

    /// Puts an envelope on its way; it comes again until it is acknowledged.
    pub(super) fn deliver(&mut self, kind: &str, payload: Value, takes_answer: bool) {
        self.last_envelope += 1;
        let (number, id) = (self.last_envelope, format!("env-{}", self.last_envelope));
        if kind == "slash_commands" {
            self.commands.insert(id.clone(), payload["trigger_id"].as_str().unwrap_or_default().to_owned());
        }
        let frame =
            json!({ "type": kind, "envelope_id": id, "accepts_response_payload": takes_answer, "payload": payload });
        self.envelopes.insert(number, Envelope { frame, sent: None });
        // One socket of several has it.
        let Some(link) = self.links.keys().max().copied() else { return };
        let times = if self.faults.doubled > 0 { 2 } else { 1 };
        self.faults.doubled = self.faults.doubled.saturating_sub(1);
        for _ in 0..times {
            if let (Some(frame), Some(link)) = (self.sent_now(number), self.links.get(&link)) {
                let _ = link.try_send(Push::Frame(frame));
            }
        }
    }

    /// Notes that an envelope is sent at this moment; gives what is sent.
    fn sent_now(&mut self, number: u64) -> Option<Value> {
        let envelope = self.envelopes.get_mut(&number)?;
        self.counts.repeated += usize::from(envelope.sent.replace(Instant::now()).is_some());
        *self.owed.entry(number).or_default() += 1;
        Some(envelope.frame.clone())
    }

    /// Envelopes that are to be sent now, at most so many: those that nobody has acknowledged in the time since they were sent last.
    pub(super) fn send_again(&mut self, after: Duration, most: usize) -> Vec<Value> {
        let is_due = |envelope: &Envelope| envelope.sent.is_none_or(|at| at.elapsed() >= after);
        let due = self.envelopes.iter().filter(|(_, envelope)| is_due(envelope)).map(|(number, _)| *number);
        let due: Vec<u64> = due.take(most).collect();
        due.into_iter().filter_map(|number| self.sent_now(number)).collect()
    }

    /// An envelope is acknowledged.
    pub(super) fn acknowledge(&mut self, frame: &Value) {
        let id = frame["envelope_id"].as_str().unwrap_or_default();
        let number = id.strip_prefix("env-").and_then(|number| number.parse::<u64>().ok());
        let owed = number.and_then(|number| self.owed.get_mut(&number)).filter(|owed| **owed > 0);
        let Some(owed) = owed else {
            self.counts.wrongly_acknowledged += 1;
            return;
        };
        *owed -= 1;
        let Some(envelope) = number.and_then(|number| self.envelopes.remove(&number)) else { return };
        self.counts.acknowledged += 1;
        if !frame["payload"].is_null() && envelope.frame["accepts_response_payload"] == true {
            let trigger = self.commands.get(id).cloned().unwrap_or_default();
            self.replies.entry(trigger).or_default().push(frame["payload"].clone());
        }
    }

    /// Counts a message to a channel; how many seconds to wait when it is one too many.
    pub(super) fn is_limited(&mut self, channel: &str) -> Option<u64> {
        let most = self.limit?;
        let window = self.windows.entry(channel.to_owned()).or_default();
        if window.0.is_none_or(|since| since.elapsed() >= Duration::from_secs(1)) {
            *window = (Some(Instant::now()), 0);
        }
        window.1 += 1;
        if window.1 <= most {
            return None;
        }
        self.counts.limited += 1;
        Some(1)
    }
}

/// The channel of direct messages with someone.
pub(super) fn direct_channel(person: &str) -> String {
    format!("D{}", &person[1..])
}

pub(super) fn is_channel(id: &str) -> bool {
    [CHANNEL, OTHER_CHANNEL].contains(&id)
        || id.starts_with(&direct_channel(CROWD))
        || [PERSON, OTHER_PERSON].iter().any(|person| direct_channel(person) == id)
}
