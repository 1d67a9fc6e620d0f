//! Jobs as operators see them: listed, looked at, cancelled, tried again.

use std::collections::HashSet;
use std::sync::Arc;

use chela_flow::{Job, Status, again};
use chela_storage::Digest;
use tokio::sync::oneshot;

use super::kept::{Brief, Key};
use super::{Ask, Error, Handle};
use crate::id;

/// Which jobs are wanted.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Empty: all.
    pub status: Vec<Status>,
    /// As sender or target.
    pub agent: Option<String>,
    pub work_session: Option<String>,
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// Jobs, the newest first.
#[derive(Clone, Debug)]
pub struct Listed {
    pub jobs: Vec<Arc<Job>>,
    pub next: Option<String>,
}

impl Handle {
    pub async fn list(&self, asked: Asked) -> Result<Listed, Error> {
        let before = asked.cursor.as_deref().map(|cursor| place_of(cursor).ok_or(Error::BadCursor)).transpose()?;
        let fits = wanted(asked.agent.as_deref(), asked.work_session.as_deref());
        let (ids, next) = {
            let state = self.0.state();
            let newest: Box<dyn Iterator<Item = (&Key, &Brief)>> = match &before {
                Some(key) => Box::new(state.kept.newest_before(key)),
                None => Box::new(state.kept.newest()),
            };
            let (mut ids, mut next) = (Vec::new(), None);
            for (key, brief) in newest {
                if !(asked.status.is_empty() || asked.status.contains(&brief.status)) || !fits(brief) {
                    continue;
                }
                if ids.len() == asked.limit {
                    next = ids.last().map(|(made, id): &Key| format!("{made}:{id}"));
                    break;
                }
                ids.push(key.clone());
            }
            (ids, next)
        };
        let mut jobs = Vec::with_capacity(ids.len());
        for (_, id) in ids {
            jobs.extend(self.get(&id.to_string()).await?);
        }
        Ok(Listed { jobs, next })
    }

    /// How many jobs stand how.
    pub fn counts(&self) -> Vec<(Status, usize)> {
        self.0.state().kept.counts().to_vec()
    }

    /// How many of an agent's, or of a work session's, stand how.
    pub fn counts_of(&self, agent: Option<&str>, work_session: Option<&str>) -> Vec<(Status, usize)> {
        if agent.is_none() && work_session.is_none() {
            return self.counts();
        }
        let fits = wanted(agent, work_session);
        let state = self.0.state();
        let mut counts = Status::ALL.map(|status| (status, 0));
        for (_, brief) in state.kept.newest().filter(|(_, brief)| fits(brief)) {
            counts[brief.status as usize].1 += 1;
        }
        counts.to_vec()
    }

    /// Ids of the newest that came to nothing and were not tried again, and how many there are.
    pub fn lost(&self, limit: usize) -> (Vec<String>, usize) {
        let state = self.0.state();
        let is_lost = |status: Status| matches!(status, Status::Failed | Status::Abandoned);
        if state.kept.counts().iter().all(|(status, count)| !is_lost(*status) || *count == 0) {
            return (Vec::new(), 0);
        }
        // What tries one again is younger than it, so it is met before.
        let (mut again, mut ids, mut count) = (HashSet::new(), Vec::new(), 0);
        for ((_, id), brief) in state.kept.newest() {
            again.extend(brief.retry_of.as_deref().copied());
            if !is_lost(brief.status) {
                continue;
            }
            let id = id.to_string();
            if !again.contains(&Digest::of(&id)) {
                count += 1;
                if ids.len() < limit {
                    ids.push(id);
                }
            }
        }
        (ids, count)
    }

    /// Ends a job that has not ended, and what runs for it.
    pub async fn cancel(&self, id: &str, by: &str) -> Result<Arc<Job>, Error> {
        let open = self.0.state().open.get(id).cloned();
        if let Some(open) = open {
            let (answer, answered) = oneshot::channel();
            let sent = open.asks.send(Ask::Cancel { by: by.to_owned(), answer }).await;
            if sent.is_ok()
                && let Ok(job) = answered.await
            {
                return Ok(job);
            }
        }
        match self.get(id).await? {
            None => Err(Error::NoJob(short(id))),
            Some(job) if job.status == Status::Cancelled => Ok(job),
            Some(job) => {
                let advice = "; `jobs.retry` makes a new one of one that failed";
                Err(Error::Finished { id: short(id), status: job.status.as_str(), advice })
            }
        }
    }

    /// A new job that goes on where one came to nothing. The same key again is the same new job.
    pub async fn retry(&self, id: &str, key: Option<&str>) -> Result<Arc<Job>, Error> {
        let cause = key.map(|key| format!("retry:{id}:{key}"));
        if let Some(job) = self.made_by(cause.as_deref()).await? {
            return Ok(job);
        }
        let old = self.get(id).await?.ok_or_else(|| Error::NoJob(short(id)))?;
        if !matches!(old.status, Status::Failed | Status::Abandoned | Status::Cancelled) {
            return Err(Error::NotOver { id: short(id), status: old.status.as_str() });
        }
        let now = self.0.now();
        let mut next = again(&old, id::fresh(now).to_string(), &self.0.rules(), now.0);
        next.job.cause = cause;
        let (job, _) = self.start(next).await?;
        Ok(job)
    }
}

/// Those of an agent, as sender or target, and of a work session.
fn wanted(agent: Option<&str>, work_session: Option<&str>) -> impl Fn(&Brief) -> bool {
    let (agent, work_session) = (agent.map(Digest::of), work_session.map(Digest::of));
    move |brief| {
        agent.is_none_or(|agent| brief.is_of(agent)) && (work_session.is_none() || brief.work_session == work_session)
    }
}

fn place_of(cursor: &str) -> Option<Key> {
    let (made, id) = cursor.split_once(':')?;
    Some((made.parse().ok()?, id.into()))
}

fn short(id: &str) -> String {
    id.chars().take(80).collect()
}
