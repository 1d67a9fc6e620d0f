//! What the journal keeps of questions: each with the events of its last step, and what runs have left to be taken up.

use chela_question::{Ask, Question, Told, What};
use serde::{Deserialize, Serialize};

use super::recall;
use crate::clock::Timestamp;
use crate::event::{Event, Kind};
use crate::journal::{self, Opened, Transaction};
use crate::layout::StateDir;
use crate::sessions::{Chain, Part};

pub(super) const QUESTION: &str = "question";
/// Committed with the end of a run, taken up afterwards.
pub(super) const INBOX: &str = "question-ask";

/// A question, and what its last step is told as until that is in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) question: Question,
    #[serde(default)]
    pub(super) events: Vec<Event>,
}

/// What a run has left behind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub(super) enum Inbox {
    Ask(Ask),
    Forward(Forward),
}

impl Inbox {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Ask(ask) => &ask.id,
            Self::Forward(forward) => &forward.id,
        }
    }
}

/// What an agent that may not ask people wants to know; its orchestrator is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Forward {
    pub(super) id: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) text: String,
    pub(super) chain: Chain,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<Part>,
}

/// What the journal has of questions.
pub struct Found {
    pub(super) questions: Vec<Kept>,
    pub(super) inbox: Vec<Inbox>,
}

/// Reads what the journal has, before anybody commits to it. Where there was none, the log tells which questions are open.
pub fn read(opened: &Opened, dir: &StateDir) -> Result<Found, journal::Error> {
    let (questions, inbox) = (opened.records(QUESTION)?, opened.records(INBOX)?);
    let mut found = Found {
        questions: questions.iter().map(|record| journal::body(QUESTION, record)).collect::<Result<_, _>>()?,
        inbox: inbox.iter().map(|record| journal::body(INBOX, record)).collect::<Result<_, _>>()?,
    };
    if opened.is_new() {
        match recall::open(dir) {
            Ok(open) => found.questions.extend(open.into_iter().map(|question| Kept { question, events: Vec::new() })),
            Err(error) => tracing::warn!(%error, "the event log cannot be read for questions that are open"),
        }
        if !found.questions.is_empty() {
            tracing::warn!(
                count = found.questions.len(),
                "open questions are taken from the event log, since there is no journal"
            );
        }
    }
    Ok(found)
}

pub(super) fn put(transaction: &mut Transaction, kept: &Kept) -> Result<(), journal::Error> {
    journal::put(transaction, QUESTION, &kept.question.id, kept)
}

pub(super) fn drop_question(transaction: &mut Transaction, id: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, QUESTION, id)
}

pub(super) fn drop_inbox(transaction: &mut Transaction, id: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, INBOX, id)
}

/// The events of a step, known by it when they are told again.
pub(super) fn events(question: &Question, told: Vec<Told>, now: Timestamp) -> Vec<Event> {
    let event = |(nth, told): (usize, Told)| {
        let (kind, agent) = match told.what {
            What::Requested => (Kind::HumanQueryRequested, &question.agent_id),
            What::Answered => (Kind::HumanQueryAnswered, &question.agent_id),
            What::Expired => (Kind::HumanQueryExpired, &question.agent_id),
            What::TaskResumed => {
                (Kind::TaskResumedAfterHumanQuery, question.task_agent_id.as_ref().unwrap_or(&question.agent_id))
            }
        };
        Event::of(agent, kind, now, told.data).caused_by(
            "human_query",
            &question.id,
            format_args!("{}.{nth}", question.rev),
        )
    };
    told.into_iter().enumerate().map(event).collect()
}
