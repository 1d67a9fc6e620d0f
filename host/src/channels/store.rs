//! What the journal keeps of channels: each adapter's state, messages in and out that are under way, and where replies go.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chela_channel::{Inbound, Outbound, State};
use serde::{Deserialize, Serialize};

use super::sent::Sent;
use super::shown::Shown;
use crate::clock::Timestamp;
use crate::jobs::{self, Outgoing};
use crate::journal::{self, Opened, Transaction};
use crate::session_key::SessionKey;

const STATE: &str = "channel-state";
const INBOX: &str = "channel-inbox";
const OUTBOX: &str = "channel-outbox";
const REPLY: &str = "channel-reply";
const SHOWN: &str = "channel-question";
const SENT: &str = "channel-sent";

/// An adapter's state as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptState {
    channel: String,
    schema: String,
    bytes: String,
    plugin: String,
    at: Timestamp,
}

/// A message of a person that more is to be done about than to hand it to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Taken {
    pub(super) channel: String,
    pub(super) message: Inbound,
    pub(super) at: Timestamp,
}

impl Taken {
    /// The run that it becomes, and the name of its record.
    pub(super) fn key(&self) -> String {
        key_of(&self.channel, &self.message.id)
    }
}

/// A message for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Posted {
    pub(super) channel: String,
    pub(super) outbound: Outbound,
    pub(super) at: Timestamp,
}

/// Where the reply of a run goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reply {
    pub(super) run: String,
    pub(super) session: String,
    pub(super) channel: String,
    pub(super) target: String,
    pub(super) reply_to: String,
    /// Nobody there has asked for it: people hear of it only if it asks them something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) only_questions: bool,
}

impl Reply {
    /// Whether people hear of it what they are asked, and nothing else: it is said in a session that is not theirs.
    pub(super) fn is_foreign(&self) -> bool {
        self.only_questions && !is_session_of(&self.session, &self.channel, &self.target)
    }
}

/// Whether a session is one of a place of a channel.
pub(super) fn is_session_of(session: &str, channel: &str, target: &str) -> bool {
    let tail = match target.starts_with("direct:") {
        true => target.to_owned(),
        false => format!("{channel}:{target}"),
    };
    let key = SessionKey::parse(session).ok();
    key.is_some_and(|key| SessionKey::of(key.agent.clone(), &tail).is_ok_and(|here| here == key))
}

/// The run that a message of a channel becomes.
pub(super) fn key_of(channel: &str, message: &str) -> String {
    format!("{channel}:{message}")
}

/// What the journal has of channels.
pub struct Found {
    pub(super) states: Vec<(String, State)>,
    pub(super) inbox: Vec<Taken>,
    pub(super) outbox: Vec<Posted>,
    pub(super) replies: Vec<Reply>,
    pub(super) shown: Vec<Shown>,
    pub(super) sent: Vec<Sent>,
    pub(super) of_jobs: Vec<Outgoing>,
}

pub fn read(opened: &Opened) -> Result<Found, journal::Error> {
    let mut states = Vec::new();
    for record in opened.records(STATE)? {
        let kept: KeptState = journal::body(STATE, &record)?;
        // A state that cannot be read is none: the adapter begins anew.
        if let Ok(bytes) = STANDARD.decode(&kept.bytes) {
            states.push((kept.channel, State { schema: kept.schema, bytes }));
        }
    }
    let inbox = opened.records(INBOX)?;
    let outbox = opened.records(OUTBOX)?;
    let replies = opened.records(REPLY)?;
    let shown = opened.records(SHOWN)?;
    let outbox: Vec<Posted> =
        outbox.iter().map(|record| journal::body(OUTBOX, record)).collect::<Result<_, journal::Error>>()?;
    let sent = opened.records(SENT)?;
    let mut sent: Vec<Sent> =
        sent.iter().map(|record| journal::body(SENT, record)).collect::<Result<_, journal::Error>>()?;
    let known: HashSet<String> = sent.iter().map(|sent| sent.id.clone()).collect();
    sent.extend(outbox.iter().filter_map(Sent::of).filter(|sent| !known.contains(&sent.id)));
    Ok(Found {
        states,
        inbox: inbox.iter().map(|record| journal::body(INBOX, record)).collect::<Result<_, _>>()?,
        outbox,
        sent,
        replies: replies.iter().map(|record| journal::body(REPLY, record)).collect::<Result<_, _>>()?,
        shown: shown.iter().map(|record| journal::body(SHOWN, record)).collect::<Result<_, _>>()?,
        of_jobs: jobs::outbox(opened)?,
    })
}

/// Messages that more is to be done about, as they are on record now. Not for an async thread.
pub(super) fn inbox_now(journal: &journal::Handle) -> Result<Vec<Taken>, journal::Error> {
    journal.records(INBOX)?.iter().map(|record| journal::body(INBOX, record)).collect()
}

pub(super) fn put_state(
    transaction: &mut Transaction,
    channel: &str,
    plugin: String,
    state: &State,
    at: Timestamp,
) -> Result<(), journal::Error> {
    let (schema, bytes) = (state.schema.clone(), STANDARD.encode(&state.bytes));
    let kept = KeptState { channel: channel.to_owned(), schema, bytes, plugin, at };
    journal::put(transaction, STATE, channel, &kept)
}

pub(super) fn drop_state(transaction: &mut Transaction, channel: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, STATE, channel)
}

pub(super) fn put_taken(transaction: &mut Transaction, taken: &Taken) -> Result<(), journal::Error> {
    journal::put(transaction, INBOX, &taken.key(), taken)
}

pub(super) fn drop_taken(transaction: &mut Transaction, taken: &Taken) -> Result<(), journal::Error> {
    journal::drop_record(transaction, INBOX, &taken.key())
}

pub(super) fn put_posted(transaction: &mut Transaction, posted: &Posted) -> Result<(), journal::Error> {
    journal::put(transaction, OUTBOX, &posted.outbound.id, posted)
}

pub(super) fn drop_posted(transaction: &mut Transaction, id: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, OUTBOX, id)
}

pub(super) fn put_reply(transaction: &mut Transaction, reply: &Reply) -> Result<(), journal::Error> {
    journal::put(transaction, REPLY, &reply.run, reply)
}

pub(super) fn drop_reply(transaction: &mut Transaction, run: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, REPLY, run)
}

pub(super) fn put_shown(transaction: &mut Transaction, shown: &Shown) -> Result<(), journal::Error> {
    journal::put(transaction, SHOWN, &shown.id, shown)
}

pub(super) fn drop_shown(transaction: &mut Transaction, id: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, SHOWN, id)
}

pub(super) fn put_sent(transaction: &mut Transaction, sent: &Sent) -> Result<(), journal::Error> {
    journal::put(transaction, SENT, &sent.id, sent)
}

pub(super) fn drop_sent(transaction: &mut Transaction, id: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, SENT, id)
}
