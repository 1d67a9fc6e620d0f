//! What the journal keeps of jobs: each with the events of its last step, unless that was its beginning, which is told from the record alone;
//! late replies that are still to come, and the outbox.

use chela_flow::{Happened, Job, Place, What, told_as_begun};
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::event::{Event, Kind, Written};
use crate::journal::{self, Opened, Transaction};

const JOB: &str = "job";
const LATE: &str = "job-late";
const OUTBOX: &str = "outbox";
const TOLD: &str = "told";
const TOLD_ID: &str = "jobs";

/// A job, and what its last step is told as; where it does not say, that is how a new one begins.
#[derive(Deserialize)]
struct Kept {
    job: Job,
    events: Option<Vec<Event>>,
}

impl Kept {
    fn events(&mut self) -> Vec<Event> {
        let begun = |job: &Job| {
            let told = told_as_begun(job).unwrap_or_default();
            let at = Timestamp(job.created_at);
            told.iter().enumerate().map(|(nth, happened)| event(job, nth, happened, at).event()).collect()
        };
        self.events.take().unwrap_or_else(|| begun(&self.job))
    }
}

/// A job whose events are in the log, and not worth reading.
#[derive(Deserialize)]
struct Bare {
    job: Job,
}

/// A job with its events as it is written.
#[derive(Serialize)]
struct Keep<'a> {
    job: &'a Job,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<&'a [Written]>,
}

/// A run that nobody waits for any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Late {
    pub(super) job_id: String,
    pub(super) session_key: String,
    pub(super) run: String,
}

/// A message for people, on its way into a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outgoing {
    pub job_id: String,
    #[serde(flatten)]
    pub to: Place,
    pub text: String,
    pub at: u64,
}

impl Outgoing {
    /// The name of its record.
    pub fn id(&self) -> String {
        format!("{}:{}", self.job_id, self.at)
    }

    /// Takes it out of the outbox, with the transaction that puts it elsewhere.
    pub fn take_out(&self, transaction: &mut Transaction) -> Result<(), journal::Error> {
        journal::drop_record(transaction, OUTBOX, &self.id())
    }
}

/// What lies in the outbox, in the order in which it came.
pub fn outbox(opened: &Opened) -> Result<Vec<Outgoing>, journal::Error> {
    opened.records(OUTBOX)?.iter().map(|record| journal::body(OUTBOX, record)).collect()
}

/// The same while the gateway serves. Not for an async thread.
pub fn outbox_now(journal: &journal::Handle) -> Result<Vec<Outgoing>, journal::Error> {
    journal.records(OUTBOX)?.iter().map(|record| journal::body(OUTBOX, record)).collect()
}

#[derive(Serialize, Deserialize)]
struct ToldUpTo {
    seq: u64,
}

/// What the journal has of jobs.
pub struct Found {
    pub(super) jobs: Vec<Job>,
    /// Events that may not have reached the log, in the order of their steps.
    pub(super) untold: Vec<Event>,
    pub(super) late: Vec<Late>,
    pub(super) told: u64,
}

pub fn read(opened: &Opened) -> Result<Found, journal::Error> {
    let told = opened.get(TOLD, TOLD_ID)?.map(|record| journal::body::<ToldUpTo>(TOLD, &record)).transpose()?;
    let told = told.map_or(0, |told| told.seq);
    let (mut jobs, mut untold) = (Vec::new(), Vec::new());
    for record in opened.records(JOB)? {
        if record.seq > told {
            let mut kept: Kept = journal::body(JOB, &record)?;
            untold.extend(kept.events());
            jobs.push(kept.job);
        } else {
            jobs.push(journal::body::<Bare>(JOB, &record)?.job);
        }
    }
    let late = opened.records(LATE)?;
    Ok(Found {
        jobs,
        untold,
        late: late.iter().map(|record| journal::body(LATE, record)).collect::<Result<_, _>>()?,
        told,
    })
}

/// Reads a job that has ended. Not for an async thread.
pub(super) fn get(journal: &journal::Handle, id: &str) -> Result<Option<Job>, journal::Error> {
    let found = journal.get(JOB, id)?;
    found.map(|record| journal::body::<Bare>(JOB, &record).map(|kept| kept.job)).transpose()
}

/// What the last step of a job is told as. Not for an async thread.
pub(super) fn events(journal: &journal::Handle, id: &str) -> Result<Vec<Event>, journal::Error> {
    let found = journal.get(JOB, id)?;
    let kept = found.map(|record| journal::body::<Kept>(JOB, &record)).transpose()?;
    Ok(kept.map(|mut kept| kept.events()).unwrap_or_default())
}

pub(super) fn put(transaction: &mut Transaction, job: &Job, events: &[Written]) -> Result<(), journal::Error> {
    journal::put(transaction, JOB, &job.job_id, &Keep { job, events: Some(events) })
}

/// A new job, whose record tells how it began.
pub(super) fn put_begun(transaction: &mut Transaction, job: &Job) -> Result<(), journal::Error> {
    journal::put(transaction, JOB, &job.job_id, &Keep { job, events: None })
}

pub(super) fn drop_job(transaction: &mut Transaction, id: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, JOB, id)
}

pub(super) fn put_late(transaction: &mut Transaction, late: &Late) -> Result<(), journal::Error> {
    journal::put(transaction, LATE, &late.run, late)
}

pub(super) fn drop_late(transaction: &mut Transaction, run: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, LATE, run)
}

pub(super) fn put_outgoing(transaction: &mut Transaction, message: &Outgoing) -> Result<(), journal::Error> {
    journal::put(transaction, OUTBOX, &message.id(), message)
}

pub(super) fn put_told(transaction: &mut Transaction, seq: u64) -> Result<(), journal::Error> {
    journal::put(transaction, TOLD, TOLD_ID, &ToldUpTo { seq })
}

/// The event of something that happened to a job, known by the step that caused it when it comes twice.
pub(super) fn event(job: &Job, nth: usize, happened: &Happened, now: Timestamp) -> Written {
    let kind = match happened.what {
        What::Send => Kind::A2aSend,
        What::Response => Kind::A2aResponse,
        What::Complete => Kind::A2aComplete,
        What::Spawn => Kind::A2aSpawn,
        What::SpawnResult => Kind::A2aSpawnResult,
        What::AutoRoute => Kind::A2aAutoRoute,
        What::Delivery => Kind::A2aDelivery,
        What::JobCreated => Kind::JobCreated,
        What::JobResumed => Kind::JobResumed,
        What::JobRetried => Kind::JobRetried,
        What::JobCompleted => Kind::JobCompleted,
        What::JobFailed => Kind::JobFailed,
        What::JobAbandoned => Kind::JobAbandoned,
        What::JobCancelled => Kind::JobCancelled,
    };
    let id = match &happened.name {
        Some(name) => format!("delivery:{name}:0"),
        None => format!("job:{}:{}.{nth}", job.job_id, job.rev),
    };
    Written::named(&id, &happened.agent, kind, now, &happened.data)
}
