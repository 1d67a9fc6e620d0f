//! Every job that is kept, in brief: by when it was made, and how many stand how.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

use chela_flow::{Job, Status};

/// When a job was made, and its id.
pub(super) type Key = (u64, String);

/// What a list needs to know of a job without reading it.
#[derive(Clone, Debug)]
pub(super) struct Brief {
    pub(super) status: Status,
    pub(super) finished_at: Option<u64>,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) work_session: Option<String>,
    /// The one that it tries again.
    pub(super) retry_of: Option<String>,
    /// The call that has made it.
    pub(super) cause: Option<String>,
}

impl Brief {
    fn of(job: &Job) -> Self {
        Self {
            status: job.status,
            finished_at: job.finished_at,
            from: chela_flow::agent_of(&job.session_key).to_owned(),
            to: chela_flow::agent_of(&job.target_session_key).to_owned(),
            work_session: job.work_session_id.clone(),
            retry_of: job.retry_of.clone(),
            cause: job.cause.clone(),
        }
    }
}

#[derive(Default)]
pub(super) struct Kept {
    all: BTreeMap<Key, Brief>,
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
        brief.finished_at = job.finished_at;
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
    pub(super) fn old(&self, before: u64, max: usize, resting: u64) -> Vec<(Key, u64)> {
        let ended = || self.all.iter().filter_map(|(key, brief)| Some((key, brief.finished_at?)));
        let aged = ended().filter(|(_, at)| *at < before);
        let mut old: Vec<(Key, u64)> = aged.map(|(key, at)| (key.clone(), at)).collect();
        let past = self.ended().saturating_sub(max).saturating_sub(old.len());
        let too_many = ended().filter(|(_, at)| (before..resting).contains(at)).take(past);
        old.extend(too_many.map(|(key, at)| (key.clone(), at)));
        old
    }

    /// Those of a time, the oldest first.
    pub(super) fn range(&self, keys: impl RangeBounds<Key>) -> impl DoubleEndedIterator<Item = (&Key, &Brief)> {
        self.all.range(keys)
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
    (job.created_at, job.job_id.clone())
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
            kept.old(before, max, resting).into_iter().map(|((_, id), _)| id).collect()
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
