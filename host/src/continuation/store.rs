//! What the journal keeps: the counters of each task, and which agents a person has stopped.

use std::collections::{BTreeMap, HashMap};

use chela_drive::{Agent, Counts, Effect};
use serde::{Deserialize, Serialize};

use crate::id::AgentId;
use crate::journal::{self, Transaction};

const COUNTS: &str = "continuation";
const ABORT: &str = "continuation-abort";

#[derive(Serialize, Deserialize)]
struct Abort {
    /// Messages there were when it was aborted.
    order: u64,
}

/// Agents as the journal has them.
pub struct Found {
    pub(super) agents: HashMap<AgentId, Agent>,
}

pub fn read(opened: &journal::Opened) -> Result<Found, journal::Error> {
    let mut agents: HashMap<AgentId, (BTreeMap<String, Counts>, Option<u64>)> = HashMap::new();
    for record in opened.records(COUNTS)? {
        if let Some((agent, task)) = record.id.split_once('/')
            && let Ok(agent) = agent.parse()
        {
            let counts = journal::body(COUNTS, &record)?;
            agents.entry(agent).or_default().0.insert(task.to_owned(), counts);
        }
    }
    for record in opened.records(ABORT)? {
        if let Ok(agent) = record.id.parse() {
            agents.entry(agent).or_default().1 = Some(journal::body::<Abort>(ABORT, &record)?.order);
        }
    }
    let agents = agents.into_iter().map(|(agent, (counts, aborted))| (agent, Agent::kept(counts, aborted)));
    Ok(Found { agents: agents.collect() })
}

pub(super) fn put(
    transaction: &mut Transaction,
    agent: &AgentId,
    task: &str,
    counts: &Counts,
) -> Result<(), journal::Error> {
    journal::put(transaction, COUNTS, &format!("{agent}/{task}"), counts)
}

/// Asks for what a step wants kept.
pub(super) fn keep(journal: &journal::Handle, agent: &AgentId, effects: &[Effect]) -> Option<journal::Awaited> {
    let mut transaction = Transaction::default();
    let put = |transaction: &mut Transaction, effect: &Effect| match effect {
        Effect::Keep { task, counts } => put(transaction, agent, task, counts),
        Effect::Forget { task } => journal::drop_record(transaction, COUNTS, &format!("{agent}/{task}")),
        Effect::KeepAborted(Some(order)) => journal::put(transaction, ABORT, agent.as_ref(), &Abort { order: *order }),
        Effect::KeepAborted(None) => journal::drop_record(transaction, ABORT, agent.as_ref()),
        _ => Ok(()),
    };
    let asked = effects.iter().try_for_each(|effect| put(&mut transaction, effect));
    let asked = asked.and_then(|()| match transaction.is_empty() {
        true => Ok(None),
        false => journal.submit_async(transaction).map(Some),
    });
    asked.unwrap_or_else(|error| {
        // It is counted all the same while this life lasts.
        tracing::error!(%agent, error = &error as &dyn std::error::Error, "counters of continuations are not on record");
        None
    })
}
