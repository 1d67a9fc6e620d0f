//! Keeping house: results that were kept for long enough or are too many, and sessions that leave the list.
//! Keeps true: a session that somebody uses stays; what was said in one that leaves is archived, unless it is to be erased.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::record::{self, Session};
use super::store::blocking;
use super::transcript::{self, FLUSH_EVERY, Source};
use super::{Error, Handle, Shared, Work};
use crate::clock::Timestamp;
use crate::journal::{self, Transaction};
use crate::layout::StateDir;
use crate::session_key::SessionKey;

const DAY_MS: u64 = 86_400_000;
/// How often old results are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);
/// How often it is looked whether there are too many, and for sessions that were for one run.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// A chain that was not heard of for so long has ended by its age.
const CHAIN_MS: u64 = 8 * DAY_MS;
/// A run that has ended is left alone for so long: its rows are on their way to the disk, and others may be about to read them.
const RESTING_MS: u64 = 60_000;
/// Sessions that are looked at under one lock.
const LOOKED_AT_ONCE: usize = 1_000;
/// Results that leave the journal in one transaction.
const SWEPT_AT_ONCE: usize = 1_000;
/// Transcripts that one flush brings into an archive.
const GATHERED_AT_ONCE: usize = 256;

/// Sessions that were used last before these times are archived; none is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    /// Of sub-agents, and of conversations between agents.
    pub of_agents: Option<Timestamp>,
    /// Of threads in channels, and of users of `/v1`.
    pub of_threads: Option<Timestamp>,
}

impl Idle {
    fn has(&self, key: &SessionKey, session: &Session) -> bool {
        let before = match () {
            () if key.is_subagent() || key.is_slot() => self.of_agents,
            () if key.is_thread() || key.of_api().is_some() => self.of_threads,
            () => None,
        };
        !session.pinned && before.is_some_and(|before| session.updated_at < before)
    }
}

/// Whether a session was for one run, which has ended by then: its client keeps the conversation by itself.
fn is_over(key: &SessionKey, session: &Session, by: Timestamp) -> bool {
    let only = session.last_run.as_ref().filter(|last| key.of_api() == Some(last.id.as_str()));
    !session.pinned && only.is_some_and(|last| last.ended_at <= by)
}

type Listed = (SessionKey, Arc<Session>);

impl Handle {
    pub(super) async fn keep_house(self, stop: CancellationToken) {
        let clock = self.0.options.clock.clone();
        let (mut looked, mut swept) = (clock.elapsed(), clock.elapsed());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep(FLUSH_EVERY) => {}
            }
            self.0.writer.ask(Work::Flush).await;
            let now = clock.elapsed();
            if now.saturating_sub(looked) < LOOK_EVERY {
                continue;
            }
            looked = now;
            let all = now.saturating_sub(swept) >= SWEEP_EVERY;
            if all {
                swept = now;
            }
            if let Err(error) = self.look(all).await {
                tracing::error!(error = &error as &dyn std::error::Error, "what is old could not be taken out");
            }
        }
    }

    /// `all`: not only what becomes too much within an hour.
    async fn look(&self, all: bool) -> Result<(), Error> {
        if all || self.has_too_many() {
            self.sweep(all).await?;
        }
        if all {
            self.sweep_usage().await?;
            self.remove_archived().await?;
        }
        self.gather_calls().await
    }

    fn now(&self) -> Timestamp {
        self.0.options.clock.now()
    }

    fn has_too_many(&self) -> bool {
        let max = self.0.options.settings.current().config.runs.keep_results;
        self.0.state().past.len() > max || self.0.options.results.count() > max
    }

    /// Takes out results that are older than they are kept, and the oldest of those that are too many.
    async fn sweep(&self, all: bool) -> Result<(), Error> {
        let settings = self.0.options.settings.current();
        let (keep_ms, max) = (u64::from(settings.config.runs.keep_days) * DAY_MS, settings.config.runs.keep_results);
        let ago = |ms: u64| Timestamp(self.now().0.saturating_sub(ms));
        let (before, resting) = (ago(keep_ms), ago(RESTING_MS));
        self.0.options.results.sweep(before, max).await?;
        // To look at each takes a while, under the lock.
        let has_many_chains = self.0.state().chains.len() > max + max / 4;
        if all || has_many_chains {
            self.0.state().forget_chains(ago(CHAIN_MS), max);
        }
        loop {
            let part = self.0.state().past.old(before, max, SWEPT_AT_ONCE, |_, ended| ended > resting);
            if part.is_empty() {
                return Ok(());
            }
            let runs = self.0.options.journal.ids_async(record::RUN, part.clone()).await?;
            let mut transaction = Transaction::default();
            for run in &runs {
                journal::drop_record(&mut transaction, record::RUN, run)?;
            }
            self.0.commit(transaction).await?;
            let mut state = self.0.state();
            for run in part {
                state.past.remove(run);
            }
        }
    }

    /// What agents have used on days that nobody asks about any more.
    async fn sweep_usage(&self) -> Result<(), Error> {
        let keep_ms = u64::from(self.0.options.settings.current().config.runs.keep_days) * DAY_MS;
        let oldest = Timestamp(self.now().0.saturating_sub(keep_ms)).date().to_string();
        let is_old = |key: &&String| key.rsplit(':').next().is_some_and(|day| *day < *oldest);
        let days: Vec<String> = self.0.state().usage.keys().filter(is_old).cloned().collect();
        if days.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::default();
        for day in &days {
            journal::drop_record(&mut transaction, record::USAGE, day)?;
        }
        self.0.commit(transaction).await?;
        let mut state = self.0.state();
        for day in &days {
            state.usage.remove(day);
        }
        Ok(())
    }

    /// Sessions that are of a kind and have nothing under way.
    fn listed(&self, is_wanted: impl Fn(&SessionKey, &Session) -> bool) -> Vec<Listed> {
        let (mut found, mut after): (Vec<Listed>, Option<SessionKey>) = (Vec::new(), None);
        loop {
            // A piece at a time: whoever sends a message waits for no more than that.
            let state = self.0.state();
            let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let piece = || state.sessions.range((from, Bound::Unbounded)).take(LOOKED_AT_ONCE);
            let idle = piece().filter(|(key, session)| is_wanted(key, session) && !state.lanes.contains_key(*key));
            found.extend(idle.map(|(key, session)| (key.clone(), session.clone())));
            let Some((last, _)) = piece().last() else { return found };
            after = Some(last.clone());
        }
    }

    /// Takes sessions off the list, in one transaction; gives those that nobody has used or changed meanwhile.
    async fn take_off(&self, sessions: Vec<Listed>) -> Result<Vec<Listed>, Error> {
        let (taken, asked) = {
            // Looked at, asked for and removed under one lock: whoever sends a message now begins another session.
            let mut state = self.0.state();
            let is_same = |(key, session): &Listed| {
                !state.lanes.contains_key(key) && state.sessions.get(key).is_some_and(|now| Arc::ptr_eq(now, session))
            };
            let taken: Vec<Listed> = sessions.into_iter().filter(is_same).collect();
            if taken.is_empty() {
                return Ok(taken);
            }
            let mut transaction = Transaction::default();
            for (_, session) in &taken {
                journal::drop_record(&mut transaction, record::SESSION, &session.key)?;
            }
            let asked = self.0.options.journal.submit_async(transaction)?;
            for (key, _) in &taken {
                state.sessions.remove(key);
            }
            (taken, asked)
        };
        asked.done().await?;
        Ok(taken)
    }

    /// Takes a session off the list; its transcript is archived, or erased when that is asked for. Gives the archived files.
    pub async fn delete(&self, key: &SessionKey, erase: bool) -> Result<Vec<PathBuf>, Error> {
        if key.is_main() {
            return Err(Error::Main(key.to_string()));
        }
        let session = self.get(key).ok_or_else(|| Error::NoSession(key.to_string()))?;
        self.delete_this(key, session, erase).await
    }

    /// The same for a session as it was seen; one that was used since is busy.
    async fn delete_this(&self, key: &SessionKey, session: Arc<Session>, erase: bool) -> Result<Vec<PathBuf>, Error> {
        if self.take_off(vec![(key.clone(), session.clone())]).await?.is_empty() {
            return Err(Error::Busy { session: key.to_string() });
        }
        let path = self.0.transcript(key, &session.id);
        self.0.writer.close(path.clone()).await;
        let (archived, now) = (self.0.options.dir.archived_transcript(&key.agent, &session.id), time(self.now()));
        let kept = blocking(path, move |path| {
            if !path.exists() {
                return Ok(None);
            }
            if erase {
                return std::fs::remove_file(path).map(|()| None);
            }
            if let Some(parent) = archived.parent() {
                chela_storage::make_private_dir(parent)?;
            }
            // How long it is kept counts from now.
            std::fs::OpenOptions::new().append(true).open(path)?.set_modified(now)?;
            std::fs::rename(path, &archived).map(|()| Some(archived.clone()))
        })
        .await?;
        self.tell_session(key, "delete", None);
        Ok(kept.into_iter().collect())
    }

    /// Archives sessions that nobody has used for long, as far as they are not in use otherwise; how many.
    pub async fn archive_idle(
        &self,
        idle: Idle,
        is_in_use: impl Fn(&SessionKey) -> bool + Send,
    ) -> Result<usize, Error> {
        let found = self.listed(|key, session| idle.has(key, session) && !is_in_use(key));
        let mut archived = 0;
        for (key, session) in found {
            match self.delete_this(&key, session, false).await {
                Ok(_) => archived += 1,
                // Somebody has begun to use it, or it is gone by now.
                Err(Error::Busy { .. } | Error::NoSession(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(archived)
    }

    /// Sessions of `/v1` that were for one run leave the list together: one file a day has what was said in all of them.
    async fn gather_calls(&self) -> Result<(), Error> {
        let by = Timestamp(self.now().0.saturating_sub(RESTING_MS));
        let mut of_day: BTreeMap<PathBuf, Vec<Listed>> = BTreeMap::new();
        for (key, session) in self.listed(|key, session| is_over(key, session, by)) {
            let day = session.created_at.date().to_string();
            of_day.entry(self.0.options.dir.archived_calls(&key.agent, &day)).or_default().push((key, session));
        }
        for (target, sessions) in of_day {
            for some in sessions.chunks(GATHERED_AT_ONCE) {
                self.gather(target.clone(), some.to_vec()).await?;
            }
        }
        Ok(())
    }

    async fn gather(&self, target: PathBuf, mut sessions: Vec<Listed>) -> Result<(), Error> {
        let path_of = |(key, session): &Listed| self.0.transcript(key, &session.id);
        let whole: HashSet<PathBuf> =
            self.0.writer.let_go(sessions.iter().map(path_of).collect()).await.into_iter().collect();
        sessions.retain(|listed| whole.contains(&path_of(listed)));
        if sessions.is_empty() {
            return Ok(());
        }
        let source = |listed: &Listed| Source { path: path_of(listed), session: listed.1.id.clone() };
        let sources: Vec<Source> = sessions.iter().map(source).collect();
        let (shared, agent, now) = (self.0.clone(), sessions[0].0.agent.clone(), time(self.now()));
        let is_left = move |row: &Value| {
            let run = row["__openclaw"]["runId"].as_str().unwrap_or_default();
            SessionKey::of(agent.clone(), &format!("openai:{run}")).is_ok_and(|key| is_listed(&shared, &key, row))
        };
        blocking(target, move |target| transcript::gather(target, &sources, now, &is_left)).await?;
        let taken = self.take_off(sessions).await?;
        let paths: Vec<PathBuf> = taken.iter().map(path_of).collect();
        blocking(self.0.options.dir.sessions(), move |_| paths.iter().try_for_each(|path| remove(path))).await?;
        taken.iter().for_each(|(key, _)| self.tell_session(key, "delete", None));
        Ok(())
    }

    /// Archived transcripts that were kept for as long as they are.
    async fn remove_archived(&self) -> Result<(), Error> {
        let days = u64::from(self.0.options.settings.current().config.session.archive_keep_days);
        if days == 0 {
            return Ok(());
        }
        let (dir, before) = (self.0.options.dir.clone(), time(Timestamp(self.now().0.saturating_sub(days * DAY_MS))));
        let removed = blocking(dir.sessions(), move |sessions| remove_before(&dir, sessions, before)).await?;
        if removed > 0 {
            tracing::info!(removed, days, "archived transcripts were removed");
        }
        Ok(())
    }
}

/// Whether the session of a row is still on the list: another that has its key by now is not it.
fn is_listed(shared: &Shared, key: &SessionKey, row: &Value) -> bool {
    let state = shared.state();
    state.sessions.get(key).is_some_and(|session| row["__openclaw"]["sessionId"] == session.id.as_str())
}

fn time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.0)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_before(dir: &StateDir, sessions: &Path, before: SystemTime) -> std::io::Result<usize> {
    let mut removed = 0;
    for agent in entries(sessions)? {
        let Some(name) = agent.file_name().and_then(|name| name.to_str()) else { continue };
        let files = entries(&dir.session_archive(name))?;
        for path in files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")) {
            if path.metadata()?.modified()? < before {
                remove(path)?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

fn entries(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}
