//! What the journal keeps of a task: the last versions of its file, each with the events that it caused.

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::id::AgentId;
use crate::journal::{self, Handle, Opened, Transaction};

pub(super) const TASK: &str = "task";
const VERSION: &str = "task-version";
const TOLD: &str = "told";
const TOLD_ID: &str = "tasks";

/// Versions of a task that a hand edit may have begun from.
const VERSIONS_MAX: u64 = 50;

/// The versions there are, and what the last one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Versions {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Of the text of the last one.
    pub(super) hash: String,
    /// The session in which it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) text: String,
    pub(super) events: Vec<Event>,
}

#[derive(Serialize, Deserialize)]
struct Told {
    seq: u64,
}

pub(super) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

/// The id of a task's record, which names its agent: two agents may have tasks of one name.
pub(super) fn id_of(agent: &AgentId, task: &str) -> String {
    format!("{agent}/{task}")
}

impl Versions {
    /// Adds a version to a transaction. A task that had none also keeps what it said `before`.
    pub(super) fn add(
        known: Option<&Self>,
        transaction: &mut Transaction,
        id: &str,
        before: Option<&str>,
        version: &Version,
        session: Option<&str>,
    ) -> Result<Self, journal::Error> {
        let mut versions = match (known, before) {
            (Some(known), _) => known.clone(),
            (None, Some(text)) => {
                let first = Version { text: text.to_owned(), events: Vec::new() };
                journal::put(transaction, VERSION, &format!("{id}/0"), &first)?;
                Self { first: 0, last: 0, hash: String::new(), session: None }
            }
            (None, None) => Self { first: 1, last: 0, hash: String::new(), session: None },
        };
        versions.last += 1;
        if let Some(session) = session {
            versions.session = Some(session.to_owned());
        }
        versions.hash = hash(&version.text);
        journal::put(transaction, VERSION, &format!("{id}/{}", versions.last), version)?;
        while versions.last - versions.first >= VERSIONS_MAX {
            journal::drop_record(transaction, VERSION, &format!("{id}/{}", versions.first))?;
            versions.first += 1;
        }
        journal::put(transaction, TASK, id, &versions)?;
        Ok(versions)
    }

    /// Takes a task and all its versions out.
    pub(super) fn drop_all(&self, transaction: &mut Transaction, id: &str) -> Result<(), journal::Error> {
        for n in self.first..=self.last {
            journal::drop_record(transaction, VERSION, &format!("{id}/{n}"))?;
        }
        journal::drop_record(transaction, TASK, id)
    }

    /// The texts there are, the newest first.
    pub(super) fn texts(&self, journal: &Handle, id: &str) -> Result<Vec<String>, journal::Error> {
        let mut texts = Vec::new();
        for n in (self.first..=self.last).rev() {
            if let Some(record) = journal.get(VERSION, &format!("{id}/{n}"))? {
                texts.push(journal::body::<Version>(VERSION, &record)?.text);
            }
        }
        Ok(texts)
    }
}

/// What the journal says at the start.
pub(super) struct Found {
    /// By the id of the record.
    pub(super) tasks: Vec<(String, Versions)>,
    /// Events that may not have reached the log, the oldest first.
    pub(super) untold: Vec<Event>,
}

pub(super) fn read(opened: &Opened) -> Result<Found, journal::Error> {
    let read = |record: &journal::Record| Ok((record.id.clone(), journal::body(TASK, record)?));
    let tasks = opened.records(TASK)?.iter().map(read).collect::<Result<_, journal::Error>>()?;
    let told = opened.get(TOLD, TOLD_ID)?.map(|record| journal::body::<Told>(TOLD, &record)).transpose()?;
    let mut untold = Vec::new();
    for record in opened.records_after(VERSION, told.map_or(0, |told| told.seq))? {
        untold.extend(journal::body::<Version>(VERSION, &record)?.events);
    }
    Ok(Found { tasks, untold })
}

/// Everything up to a transaction has reached the log.
pub(super) fn put_told(transaction: &mut Transaction, seq: u64) -> Result<(), journal::Error> {
    journal::put(transaction, TOLD, TOLD_ID, &Told { seq })
}
