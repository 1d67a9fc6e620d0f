//! Every job that is kept, in brief: by when it was made, and how many stand how.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use chela_flow::{Job, Status};
use chela_storage::{Digest, Ordered};

use crate::id::Packed;

/// Jobs that one question may pass over.
const SCANNED_MAX: usize = 100_000;

/// When a job was made, and its id.
pub(super) type Key = (u64, Packed);

/// What a list needs to know of a job without reading it.
#[derive(Debug)]
pub(super) struct Brief {
    pub(super) status: Status,
    finished_at: Option<NonZeroU64>,
    /// Agents.
    from: Digest,
    to: Digest,
    pub(super) work_session: Option<Digest>,
    /// The one that it tries again, which few do.
    pub(super) retry_of: Option<Box<Digest>>,
    /// The call that has made it.
    pub(super) cause: Option<Digest>,
}

impl Brief {
    fn of(job: &Job) -> Self {
        Self {
            status: job.status,
            finished_at: finished_at(job),
            from: Digest::of(chela_flow::agent_of(&job.session_key)),
            to: Digest::of(chela_flow::agent_of(&job.target_session_key)),
            work_session: job.work_session_id.as_deref().map(Digest::of),
            retry_of: job.retry_of.as_deref().map(|id| Box::new(Digest::of(id))),
            cause: job.cause.as_deref().map(Digest::of),
        }
    }

    /// Whether an agent is its sender or its target.
    pub(super) fn is_of(&self, agent: Digest) -> bool {
        self.from == agent || self.to == agent
    }
}

/// One that ended when time began ended a millisecond later.
fn finished_at(job: &Job) -> Option<NonZeroU64> {
    job.finished_at.map(|at| NonZeroU64::new(at).unwrap_or(NonZeroU64::MIN))
}

#[derive(Default)]
pub(super) struct Kept {
    all: Ordered<Key, Brief>,
    /// How many stand how, by the place of the status.
    counts: [usize; Status::ALL.len()],
    unfinished: BTreeSet<Key>,
}

impl Kept {
    pub(super) fn put(&mut self, job: &Job) {
        let key = key_of(job);
        self.remove(&key);
        self.count(&key, job.status);
        self.all.insert(key, Brief::of(job));
    }

    /// A job stands otherwise; false if it is not known.
    pub(super) fn moved(&mut self, job: &Job) -> bool {
        let key = key_of(job);
        let Some(brief) = self.all.get_mut(&key) else { return false };
        brief.finished_at = finished_at(job);
        let before = std::mem::replace(&mut brief.status, job.status);
        if before != job.status {
            self.uncount(&key, before);
            self.count(&key, job.status);
        }
        true
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Brief> {
        let brief = self.all.remove(key)?;
        self.uncount(key, brief.status);
        Some(brief)
    }

    /// How many have ended.
    pub(super) fn ended(&self) -> usize {
        self.all.len() - self.unfinished.len()
    }

    /// Those that ended before a time, and the oldest past `max` of those that ended before another.
    pub(super) fn old(&self, before: u64, max: usize, resting: u64) -> Vec<(String, u64)> {
        let ended = || self.all.iter().filter_map(|((_, id), brief)| Some((id, brief.finished_at?.get())));
        let aged = ended().filter(|(_, at)| *at < before);
        let mut old: Vec<(String, u64)> = aged.map(|(id, at)| (id.to_string(), at)).collect();
        let past = self.ended().saturating_sub(max).saturating_sub(old.len());
        let too_many = ended().filter(|(_, at)| (before..resting).contains(at)).take(past);
        old.extend(too_many.map(|(id, at)| (id.to_string(), at)));
        old
    }

    /// The newest first, and no more of them than may be looked at for one question.
    pub(super) fn newest(&self) -> impl Iterator<Item = (&Key, &Brief)> {
        self.all.iter().rev().take(SCANNED_MAX)
    }

    /// The same, of those before a place.
    pub(super) fn newest_before(&self, key: &Key) -> impl Iterator<Item = (&Key, &Brief)> {
        self.all.before(key).rev().take(SCANNED_MAX)
    }

    pub(super) fn counts(&self) -> [(Status, usize); Status::ALL.len()] {
        Status::ALL.map(|status| (status, self.counts[status as usize]))
    }

    /// When the oldest was made that has not ended.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.unfinished.first().map(|(made, _)| *made)
    }

    fn count(&mut self, key: &Key, status: Status) {
        self.counts[status as usize] += 1;
        if !status.is_terminal() {
            self.unfinished.insert(key.clone());
        }
    }

    fn uncount(&mut self, key: &Key, status: Status) {
        self.counts[status as usize] -= 1;
        if !status.is_terminal() {
            self.unfinished.remove(key);
        }
    }
}

fn key_of(job: &Job) -> Key {
    (job.created_at, job.job_id.as_str().into())
}

#[cfg(test)]
mod tests {
    use chela_flow::{Input, New, Rules, create, step};

    use super::*;

    #[test]
    fn past_their_days_and_past_so_many_the_oldest_that_have_ended_are_old() {
        let mut kept = Kept::default();
        for n in 0..10u64 {
            let mut job = create(New { job_id: n.to_string(), ..New::default() }, &Rules::default(), n).job;
            if n != 1 {
                (job.status, job.finished_at) = (Status::Completed, Some(100 + n));
            }
            kept.put(&job);
        }
        let old = |before: u64, max: usize, resting: u64| -> Vec<String> {
            kept.old(before, max, resting).into_iter().map(|(id, _)| id).collect()
        };
        assert!(old(0, 9, 200).is_empty(), "as many as may");
        assert_eq!(old(0, 7, 200), ["0", "2"], "one that goes on is not counted");
        assert_eq!(old(103, 7, 200), ["0", "2"], "those of long ago make room already");
        assert_eq!(old(103, 5, 200), ["0", "2", "3", "4"]);
        assert_eq!(old(0, 0, 104), ["0", "2", "3"], "what has just ended is left alone");
    }

    #[test]
    fn jobs_are_counted_as_they_stand() {
        let rules = Rules::default();
        let made = |id: &str, now: u64| {
            let new = New {
                job_id: id.into(),
                session_key: "agent:eden:main".into(),
                target_session_key: "agent:seum:main".into(),
                ..New::default()
            };
            create(new, &rules, now).job
        };
        let moved = |job: &Job, input: Input| step(job, input, &rules, 9).expect("a step").job;
        let (first, second) = (made("a", 1), made("b", 2));
        let mut kept = Kept::default();
        let standing = |kept: &Kept| (kept.counts().map(|(_, count)| count), kept.oldest());
        kept.put(&first);
        kept.put(&second);
        kept.put(&second);
        assert_eq!(standing(&kept), ([2, 0, 0, 0, 0, 0], Some(1)));
        let first = moved(&first, Input::Delivered);
        assert!(kept.moved(&first) && !kept.moved(&made("c", 3)));
        assert_eq!(standing(&kept), ([1, 1, 0, 0, 0, 0], Some(1)));
        assert!(kept.moved(&moved(&first, Input::Cancel { by: "owner".into() })));
        assert_eq!(standing(&kept), ([1, 0, 0, 0, 0, 1], Some(2)));
        kept.remove(&(1, "a".into()));
        kept.remove(&(2, "b".into()));
        assert_eq!(standing(&kept), ([0; 6], None));
    }
}
