//! Keeping house: what the log has been told of, jobs that stand still, jobs that are old.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chela_flow::Status;
use tokio_util::sync::CancellationToken;

use super::{Ask, Handle, files, store};
use crate::clock::Timestamp;
use crate::journal::Transaction;
use crate::metrics::Gauge;
use crate::session_key::SessionKey;
use crate::sessions::Idle;

/// Between two notes of what the log has been told, and two looks at the counts.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// Between two looks for jobs that stand still, and at whether there are too many.
const STALE_EVERY: Duration = Duration::from_secs(60);
/// Between two looks for old ones.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);
const DAY_MS: u64 = 86_400_000;
/// A job that has ended is left alone for so long: its file and its events are on their way.
const RESTING_MS: u64 = 60_000;
/// Records that one transaction takes out.
const DROPPED_AT_ONCE: usize = 1_000;

/// Up to which transaction the log has every event. Steps are told after they are committed, each in its own time, so the answer is what
/// was told when the oldest that is still open began.
pub(super) struct Told(Mutex<Open>);

struct Open {
    next: u64,
    /// What was the highest when each began.
    floors: BTreeMap<u64, u64>,
    highest: u64,
    noted: u64,
}

/// A step that is not told yet.
#[must_use]
pub(super) struct Ticket(u64);

impl Told {
    pub(super) fn new(seq: u64) -> Self {
        Self(Mutex::new(Open { next: 0, floors: BTreeMap::new(), highest: seq, noted: seq }))
    }

    /// Before a step is committed.
    pub(super) fn begin(&self) -> Ticket {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ticket, floor) = (open.next, open.highest);
        open.next += 1;
        open.floors.insert(ticket, floor);
        Ticket(ticket)
    }

    /// Its events are on the disk, or it was not committed at all (`seq` 0).
    pub(super) fn end(&self, ticket: Ticket, seq: u64) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.floors.remove(&ticket.0);
        open.highest = open.highest.max(seq);
    }

    /// What may be noted, where it is news.
    fn take(&self) -> Option<u64> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = open.floors.values().copied().min().unwrap_or(open.highest);
        let news = told > open.noted;
        open.noted = open.noted.max(told);
        news.then_some(told)
    }
}

impl Handle {
    pub(super) async fn keep_house(self, stop: CancellationToken) {
        let clock = self.0.options.clock.clone();
        let (mut looked, mut swept) = (clock.elapsed(), Duration::ZERO);
        self.sweep().await;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep(TOLD_EVERY) => {}
            }
            self.note_told().await;
            self.count();
            let now = clock.elapsed();
            if now.saturating_sub(looked) >= STALE_EVERY {
                looked = now;
                self.look_for_stale(now);
                if self.has_too_many() {
                    self.sweep().await;
                }
            }
            if now.saturating_sub(swept) >= SWEEP_EVERY {
                swept = now;
                self.sweep().await;
                self.archive_idle().await;
            }
        }
    }

    pub(super) async fn note_told(&self) {
        let Some(seq) = self.0.told.take() else { return };
        let mut transaction = Transaction::default();
        let noted = match store::put_told(&mut transaction, seq) {
            Ok(()) => self.0.options.journal.commit_async(transaction).await,
            Err(error) => Err(error),
        };
        if let Err(error) = noted {
            // They are told again after a restart, at the worst.
            tracing::warn!(error = &error as &dyn std::error::Error, "what the log was told of jobs is not noted");
        }
    }

    /// A run that is under way for so long without a record will never bring one. Jobs that wait are not looked at: waiting is no fault.
    fn look_for_stale(&self, now: Duration) {
        let minutes = self.0.options.settings.current().config.a2a.stale_minutes;
        let stale = Duration::from_secs(minutes * 60);
        let open: Vec<_> = self.0.state().open.values().cloned().collect();
        for open in open {
            let job = open.now();
            if job.status != Status::Running {
                continue;
            }
            let touched = *open.touched.lock().unwrap_or_else(PoisonError::into_inner);
            let runs = job.turns.last().into_iter().chain(&job.announce.asked);
            let recorded = runs.filter_map(|turn| self.0.options.sessions.recorded_at(&turn.key)).max();
            if now.saturating_sub(touched.max(recorded.unwrap_or_default())) >= stale {
                // A driver that takes no more is busy with it already.
                let _ = open.asks.try_send(Ask::Stale);
            }
        }
    }

    fn has_too_many(&self) -> bool {
        self.0.state().kept.ended() > self.0.options.settings.current().config.a2a.keep_jobs
    }

    /// Finished jobs that were kept for as long as they are, and the oldest of those that are too many.
    async fn sweep(&self) {
        let settings = self.0.options.settings.current();
        let (keep_ms, max) = (u64::from(settings.config.a2a.keep_days) * DAY_MS, settings.config.a2a.keep_jobs);
        let ago = |ms: u64| Timestamp(self.0.now().0.saturating_sub(ms));
        let before = ago(keep_ms);
        let old = self.0.state().kept.old(before.0, max, ago(RESTING_MS).0);
        for part in old.chunks(DROPPED_AT_ONCE) {
            // Before the record: a crash in between leaves a job without a file, and not a file without its job.
            let (dir, part_of) = (self.0.options.dir.jobs(), part.to_vec());
            let removed = tokio::task::spawn_blocking(move || {
                // Those of days that go as a whole are not worth a look each.
                part_of.iter().for_each(|(id, ended)| files::remove(&dir, id, (*ended >= before.0).then_some(*ended)));
            });
            if let Err(error) = removed.await {
                tracing::error!(%error, "files of old jobs were not removed");
            }
            let mut transaction = Transaction::default();
            let put = part.iter().try_for_each(|(id, _)| store::drop_job(&mut transaction, id));
            let dropped = match put {
                Ok(()) => self.0.options.journal.commit_async(transaction).await,
                Err(error) => Err(error),
            };
            if let Err(error) = dropped {
                return tracing::warn!(error = &error as &dyn std::error::Error, "old jobs could not be taken out");
            }
            let mut state = self.0.state();
            part.iter().for_each(|(id, _)| state.forget(id));
        }
        let dir = self.0.options.dir.jobs();
        let swept = tokio::task::spawn_blocking(move || files::sweep(&dir, before)).await;
        if let Ok(days @ 1..) = swept {
            tracing::info!(days, "files of old jobs were removed");
        }
    }

    /// Sessions that were idle for as long as their kind is kept, and that no open job or task needs.
    async fn archive_idle(&self) {
        let settings = self.0.options.settings.current();
        let session = &settings.config.session;
        let now = self.0.now().0;
        let ago = |days: u32| (days > 0).then(|| Timestamp(now.saturating_sub(u64::from(days) * DAY_MS)));
        let idle = Idle { of_agents: ago(session.subagent_keep_days), of_threads: ago(session.thread_keep_days) };
        if idle.of_agents.is_none() && idle.of_threads.is_none() {
            return;
        }
        let worked_in: HashSet<SessionKey> = self.0.options.tasks.all().iter().map(|view| view.session_key()).collect();
        let in_use: HashSet<String> = {
            let state = self.0.state();
            let open: Vec<_> = state.open.values().map(|open| open.now()).collect();
            let of_jobs = open.iter().flat_map(|job| [job.session_key.clone(), job.target_session_key.clone()]);
            of_jobs.chain(state.held.values().flat_map(|held| held.sessions.clone())).collect()
        };
        let is_in_use = |key: &SessionKey| worked_in.contains(key) || in_use.contains(&key.to_string());
        match self.0.options.sessions.archive_idle(idle, is_in_use).await {
            Ok(0) => {}
            Ok(sessions) => tracing::info!(sessions, "idle sessions were archived"),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "idle sessions could not be archived")
            }
        }
    }

    /// What the metrics say of jobs.
    fn count(&self) {
        let metrics = &self.0.options.metrics;
        let (counts, oldest) = {
            let state = self.0.state();
            (state.kept.counts(), state.kept.oldest())
        };
        for (status, count) in counts {
            metrics.jobs_in(status.as_str()).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let age = oldest.map_or(0, |made| self.0.now().0.saturating_sub(made) / 1_000);
        let oldest: &Gauge = &metrics.oldest_job;
        oldest.set(i64::try_from(age).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_never_passes_a_step_that_is_not() {
        let told = Told::new(10);
        let (first, second) = (told.begin(), told.begin());
        told.end(second, 12);
        assert_eq!(told.take(), None, "the first, which may be 11, is open");
        let third = told.begin();
        told.end(first, 11);
        assert_eq!(told.take(), Some(12));
        told.end(third, 0);
        assert_eq!(told.take(), None, "nothing new");
    }
}
