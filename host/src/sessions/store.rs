//! Sessions as records and files: read at the start, changed by operators.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chela_storage::Digest;
use serde_json::{Value, json};

use super::lanes::{Live, Progress, State};
use super::record::{self, DayUsage, Run, Session, Step};
use super::told::Told;
use super::transcript::{self, Page};
use super::{Error, Handle, Options, Shared, Work, rows};
use crate::clock::Timestamp;
use crate::config::ModelRef;
use crate::feed::Audience;
use crate::id::{self, AgentId};
use crate::journal::{self, Transaction};
use crate::session_key::SessionKey;

/// Rows of one prompt at most, however short they are.
const CONTEXT_ROWS_MAX: usize = 2_000;
/// How often, and how long apart, a file handle is waited for: a minute.
const HANDLE_TRIES: u32 = 600;
const HANDLE_AGAIN: Duration = Duration::from_millis(100);

/// What the journal has of sessions and runs.
pub struct Found {
    sessions: Vec<Session>,
    runs: Vec<Run>,
    steps: HashMap<String, BTreeMap<u32, Step>>,
    usage: HashMap<String, DayUsage>,
}

pub fn read(opened: &journal::Opened) -> Result<Found, journal::Error> {
    let sessions = opened.records(record::SESSION)?;
    let runs = opened.records(record::RUN)?;
    let mut steps: HashMap<String, BTreeMap<u32, Step>> = HashMap::new();
    for found in opened.records(record::STEP)? {
        if let Some((run, nth)) = record::step_of(&found.id) {
            steps.entry(run.to_owned()).or_default().insert(nth, journal::body(record::STEP, &found)?);
        }
    }
    let mut usage = HashMap::new();
    for found in opened.records(record::USAGE)? {
        usage.insert(found.id.clone(), journal::body(record::USAGE, &found)?);
    }
    Ok(Found {
        sessions: sessions.iter().map(|found| journal::body(record::SESSION, found)).collect::<Result<_, _>>()?,
        runs: runs.iter().map(Run::read).collect::<Result<_, _>>()?,
        steps,
        usage,
    })
}

/// Lanes from records, and transcripts made whole. What begins anew is counted, in the transaction.
pub(super) fn rebuild(options: &Options, mut found: Found) -> Result<(State, Option<Transaction>), Error> {
    let mut state = State::default();
    state.usage = std::mem::take(&mut found.usage);
    for session in found.sessions {
        if let Ok(key) = SessionKey::parse(&session.key) {
            state.sessions.insert(key, Arc::new(session));
        }
    }
    found.runs.sort_by_key(|run| run.accepted.order);
    let (mut transaction, mut changed) = (Transaction::default(), false);
    let open: HashSet<&str> =
        found.runs.iter().filter(|run| !run.settled).map(|run| run.accepted.id.as_str()).collect();
    for (run, steps) in found.steps.iter().filter(|(run, _)| !open.contains(run.as_str())) {
        // A run that was cut off while it recorded them has left them behind.
        for nth in steps.keys() {
            journal::drop_record(&mut transaction, record::STEP, &record::step_id(run, *nth))?;
        }
        changed = true;
    }
    let mut steps_of = |run: &Run| -> Vec<Step> {
        found.steps.remove(&run.accepted.id).into_iter().flat_map(BTreeMap::into_values).collect()
    };
    let runs = found.runs.into_iter().filter_map(|run| {
        let key = SessionKey::parse(&run.accepted.session).ok()?;
        let steps = steps_of(&run);
        Some((key, run, steps))
    });
    let runs: Vec<(SessionKey, Run, Vec<Step>)> = runs.collect();
    let mut files: BTreeMap<PathBuf, Vec<(&Run, &[Step])>> = BTreeMap::new();
    for (key, run, steps) in runs.iter().filter(|(_, run, _)| !run.settled) {
        files.entry(options.dir.transcript(&key.agent, &run.accepted.session_id)).or_default().push((run, steps));
    }
    let mut shown = HashMap::new();
    for (path, runs) in files {
        let there = mend(&path, &runs).map_err(|cause| Error::Transcript { path, cause })?;
        for (run, steps) in runs {
            // Of most that wait nothing is there.
            let rows = if there.is_empty() { Vec::new() } else { rows::of_run(run, steps) };
            let is_there = |row: &&Value| row["__openclaw"]["id"].as_str().is_some_and(|id| there.contains(id));
            let count = rows.iter().take_while(is_there).count();
            shown.insert(run.accepted.id.clone(), count);
            if run.ended.is_some() {
                settle_one(&mut transaction, run.clone(), u32::try_from(steps.len()).unwrap_or(u32::MAX))?;
                changed = true;
            }
        }
    }
    for (key, mut run, steps) in runs {
        state.order = state.order.max(run.accepted.order);
        if let Some(ended) = &run.ended {
            let usage = &ended.usage;
            let tokens = usage.input + usage.output + usage.cache_read + usage.cache_write;
            state.count(&run.accepted.chain.id, 1, tokens, ended.at);
            state.past.insert(Digest::of(&run.accepted.id), ended.at, key.into());
            continue;
        }
        let rows = shown.get(&run.accepted.id).copied().unwrap_or(0);
        if rows > 0 {
            run.resumed += 1;
            journal::put(&mut transaction, record::RUN, &run.accepted.id, &run)?;
            changed = true;
        }
        if !state.sessions.contains_key(&key) {
            // What made the session did not fit on a full disk, and its message did.
            let session = Session { id: run.accepted.session_id.clone(), ..new_session(&key, run.accepted.at) };
            journal::put(&mut transaction, record::SESSION, &session.key, &session)?;
            state.sessions.insert(key.clone(), Arc::new(session));
            changed = true;
        }
        state.push(Live::new(key.clone(), run, steps, rows, Progress::Queued));
        state.mark_ready(&key);
    }
    Ok((state, changed.then_some(transaction)))
}

/// Writes what a crash kept from a transcript. Gives the names of the rows of these runs that it has.
fn mend(path: &std::path::Path, runs: &[(&Run, &[Step])]) -> std::io::Result<HashSet<String>> {
    let oldest = runs.iter().map(|(run, _)| run.accepted.at).min().unwrap_or(Timestamp(0));
    let begun = runs.iter().filter(|(run, steps)| run.ended.is_some() || !steps.is_empty());
    let mut there = transcript::there(path, oldest)?;
    let name = |row: &Value| row["__openclaw"]["id"].as_str().unwrap_or_default().to_owned();
    let expected = begun.flat_map(|(run, steps)| rows::of_run(run, steps));
    let missing: Vec<Value> = expected.filter(|row| !there.contains(&name(row))).collect();
    there.extend(missing.iter().map(name));
    transcript::append_now(path, missing)?;
    Ok(there)
}

/// The same while the gateway runs: the journal has the steps of runs that are not settled.
pub(super) fn mend_from(
    journal: &journal::Handle,
    path: &std::path::Path,
    ended: &[transcript::Ended],
) -> std::io::Result<()> {
    let mut runs: Vec<(&Run, Vec<Step>)> = Vec::new();
    for (run, count, _) in ended {
        let mut steps = Vec::new();
        for nth in 0..*count {
            let found = journal.get(record::STEP, &record::step_id(&run.accepted.id, nth));
            let step = found.and_then(|found| found.map(|found| journal::body(record::STEP, &found)).transpose());
            steps.extend(step.map_err(std::io::Error::other)?);
        }
        runs.push((run, steps));
    }
    let runs: Vec<(&Run, &[Step])> = runs.iter().map(|(run, steps)| (*run, steps.as_slice())).collect();
    mend(path, &runs).map(drop)
}

/// Runs whose rows have reached the disk need their steps no more.
pub(super) fn settle(journal: &journal::Handle, runs: Vec<(Run, u32)>) {
    for runs in runs.chunks(256) {
        let mut transaction = Transaction::default();
        let put: Result<(), journal::Error> =
            runs.iter().try_for_each(|(run, steps)| settle_one(&mut transaction, run.clone(), *steps));
        if let Err(error) = put.and_then(|()| journal.commit(transaction).map(drop)) {
            // They are settled at the next start.
            tracing::warn!(error = &error as &dyn std::error::Error, "steps of ended runs stay in the journal");
        }
    }
}

fn settle_one(transaction: &mut Transaction, mut run: Run, steps: u32) -> Result<(), journal::Error> {
    for nth in 0..steps {
        journal::drop_record(transaction, record::STEP, &record::step_id(&run.accepted.id, nth))?;
    }
    run.settled = true;
    // The transcript has it; the result is what may be asked for again.
    run.accepted.text = String::new();
    // Only a run that goes on is told these.
    run.accepted.instructions = None;
    run.accepted.origin.note = None;
    journal::put(transaction, record::RUN, &run.accepted.id.clone(), &run)
}

pub(super) fn new_session(key: &SessionKey, now: Timestamp) -> Session {
    Session {
        key: key.to_string(),
        id: id::fresh(now).to_string(),
        created_at: now,
        updated_at: now,
        revision: 0,
        label: None,
        model: None,
        thinking: None,
        archived: false,
        pinned: false,
        parent: None,
        usage: chela_model::Usage::default(),
        context_tokens: 0,
        weight: 0,
        last_run: None,
    }
}

/// Which rows of a session are wanted.
#[derive(Clone, Copy, Debug)]
pub struct History {
    pub limit: usize,
    /// Rows from the end that are passed over.
    pub offset: usize,
    /// The place before which they are.
    pub before: Option<u64>,
}

/// Rows, oldest first.
#[derive(Debug)]
pub struct Rows {
    pub rows: Vec<Value>,
    /// Where those before them end; none where there are none.
    pub before: Option<u64>,
    /// Rows of the session in all.
    pub total: u64,
}

pub(super) async fn history(shared: &Arc<Shared>, key: &SessionKey, asked: History) -> Result<Rows, Error> {
    let Some(session) = shared.state().sessions.get(key).cloned() else {
        return Ok(Rows { rows: Vec::new(), before: None, total: 0 });
    };
    let path = shared.transcript(key, &session.id);
    shared.writer.written().await;
    blocking(path, move |path| {
        let last = transcript::tail(path, None, 1, |_| true)?;
        let total = last.rows.last().and_then(|row| row["__openclaw"]["seq"].as_u64()).unwrap_or(0);
        let mut passed = 0;
        // The newest come first; what is passed over is not kept.
        let page = transcript::tail_of(path, asked.before, asked.limit.saturating_add(asked.offset), |row| {
            passed += 1;
            ((passed > asked.offset).then_some(row), true)
        })?;
        let rows = page.rows.into_iter().flatten().collect();
        Ok(Rows { rows, before: (page.begin > 0).then_some(page.begin), total })
    })
    .await
}

pub(super) async fn context(shared: &Arc<Shared>, key: &SessionKey, tokens_max: u64) -> Result<Vec<Told>, Error> {
    let Some(session) = shared.state().sessions.get(key).cloned() else { return Ok(Vec::new()) };
    let path = shared.transcript(key, &session.id);
    shared.writer.written().await;
    let read = move |path: &std::path::Path| {
        let mut weight = 0;
        transcript::tail_of(path, None, CONTEXT_ROWS_MAX, |row| {
            let told = Told::of(&row);
            weight += told.weight();
            let more = !told.is_beginning() && weight < tokens_max;
            (told, more)
        })
    };
    let Page { mut rows, .. } = patiently(path, |at| shared.readers.read(move || read(&at))).await?;
    let first = rows.iter().position(Told::may_begin).unwrap_or(rows.len());
    rows.drain(..first);
    Ok(rows)
}

/// Between the last row of a run and its first lie only rows of the same run: one runs at a time.
pub(super) async fn rows_of_run(
    shared: &Arc<Shared>,
    key: &SessionKey,
    session_id: &str,
    run: &str,
) -> Result<Vec<Value>, Error> {
    let (path, run) = (shared.transcript(key, session_id), run.to_owned());
    shared.writer.written().await;
    blocking(path, move |path| {
        let mut seen = false;
        let page = transcript::tail_of(path, None, usize::MAX, |row| {
            let is_of_run = row["__openclaw"]["runId"] == json!(run);
            seen |= is_of_run;
            (is_of_run.then_some(row), !seen || is_of_run)
        })?;
        Ok(page.rows.into_iter().flatten().collect())
    })
    .await
}

/// Reads or moves a transcript.
pub(super) async fn blocking<T: Send + 'static>(
    path: PathBuf,
    read: impl Fn(&std::path::Path) -> std::io::Result<T> + Send + Sync + 'static,
) -> Result<T, Error> {
    let read = Arc::new(read);
    let tried = |at: PathBuf| {
        let read = read.clone();
        async move { tokio::task::spawn_blocking(move || read(&at)).await.ok() }
    };
    patiently(path, tried).await
}

/// Does something with a transcript. Where there is no file handle left it waits for one: what was accepted must not fail for a flood of others.
async fn patiently<T, F: Future<Output = Option<std::io::Result<T>>>>(
    path: PathBuf,
    tried: impl Fn(PathBuf) -> F,
) -> Result<T, Error> {
    for _ in 0..HANDLE_TRIES {
        match tried(path.clone()).await.ok_or(Error::Stopping)? {
            Err(error) if transcript::is_out_of_handles(&error) => tokio::time::sleep(HANDLE_AGAIN).await,
            done => return done.map_err(|cause| Error::Transcript { path, cause }),
        }
    }
    Err(Error::Transcript { path, cause: rustix::io::Errno::MFILE.into() })
}

/// What an operator may change of a session; `Some(None)` takes it back.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    pub label: Option<Option<String>>,
    pub model: Option<Option<ModelRef>>,
    pub thinking: Option<Option<String>>,
    pub archived: Option<bool>,
    pub pinned: Option<bool>,
    pub parent: Option<Option<String>>,
}

impl Handle {
    /// Every session, the latest first.
    pub fn list(&self) -> Vec<(SessionKey, Arc<Session>)> {
        let state = self.0.state();
        let mut all: Vec<_> = state.sessions.iter().map(|(key, session)| (key.clone(), session.clone())).collect();
        drop(state);
        all.sort_by_key(|(_, session)| std::cmp::Reverse(session.updated_at));
        all
    }

    /// How many sessions there are, of one agent or of all, and the latest of them.
    pub fn recent(&self, agent: Option<&AgentId>, max: usize) -> (usize, Vec<(SessionKey, Timestamp)>) {
        let state = self.0.state();
        let (mut count, mut latest) = (0, Vec::with_capacity(max + 1));
        for (key, session) in state.sessions.iter().filter(|(key, _)| agent.is_none_or(|agent| key.agent == *agent)) {
            count += 1;
            let at = latest.partition_point(|(_, updated)| *updated >= session.updated_at);
            if at < max {
                latest.insert(at, (key.clone(), session.updated_at));
                latest.truncate(max);
            }
        }
        (count, latest)
    }

    pub fn get(&self, key: &SessionKey) -> Option<Arc<Session>> {
        self.0.state().sessions.get(key).cloned()
    }

    /// Sessions there are, without looking at any.
    pub fn count(&self) -> usize {
        self.0.state().sessions.len()
    }

    /// Changes a session; one that is not there yet is made.
    pub async fn patch(&self, key: &SessionKey, patch: Patch) -> Result<Arc<Session>, Error> {
        let now = self.0.options.clock.now();
        let change = move |session: &mut Session| {
            let Patch { label, model, thinking, archived, pinned, parent } = patch;
            label.into_iter().for_each(|label| session.label = label);
            model.into_iter().for_each(|model| session.model = model);
            thinking.into_iter().for_each(|thinking| session.thinking = thinking);
            archived.into_iter().for_each(|archived| session.archived = archived);
            pinned.into_iter().for_each(|pinned| session.pinned = pinned);
            parent.into_iter().for_each(|parent| session.parent = parent);
            session.updated_at = now;
        };
        let session = self.change(key, true, change).await?;
        self.tell_session(key, "patch", None);
        Ok(session)
    }

    async fn change(
        &self,
        key: &SessionKey,
        make: bool,
        change: impl FnOnce(&mut Session),
    ) -> Result<Arc<Session>, Error> {
        let now = self.0.options.clock.now();
        let (session, asked) = {
            // Changed and asked for under one lock: a run that ends meanwhile builds on it, and is committed after it.
            let mut state = self.0.state();
            let mut session = match state.sessions.get(key) {
                Some(session) => Session::clone(session),
                None if make => new_session(key, now),
                None => return Err(Error::NoSession(key.to_string())),
            };
            change(&mut session);
            let mut transaction = Transaction::default();
            journal::put(&mut transaction, record::SESSION, &session.key, &session)?;
            let asked = self.0.options.journal.submit_async(transaction)?;
            let session = Arc::new(session);
            state.sessions.insert(key.clone(), session.clone());
            (session, asked)
        };
        asked.done().await?;
        Ok(session)
    }

    /// A new beginning: what was said stays in the transcript and is no part of prompts any more.
    pub async fn reset(&self, key: &SessionKey) -> Result<Arc<Session>, Error> {
        if self.running(key).is_some() {
            return Err(Error::Busy { session: key.to_string() });
        }
        let now = self.0.options.clock.now();
        let session = self
            .change(key, true, |session| {
                session.revision += 1;
                session.updated_at = now;
                session.context_tokens = 0;
                session.weight = 0;
            })
            .await?;
        let path = self.0.transcript(key, &session.id);
        let row = rows::reset(now, &id::fresh(now).to_string());
        let appended = self.0.writer.append(path.clone(), vec![row], false).await.done().await;
        appended.map_err(|cause| Error::Transcript { path, cause })?;
        // No journal has this row, so it is brought to the disk before anybody relies on it.
        self.0.writer.ask(Work::Flush).await;
        self.0.writer.written().await;
        self.tell_session(key, "reset", None);
        Ok(session)
    }

    /// Tells whoever watches that a session has changed.
    pub(super) fn tell_session(&self, key: &SessionKey, reason: &str, run: Option<&str>) {
        if !self.0.options.feed.is_heard() {
            return;
        }
        let payload = json!({
            "sessionKey": key.to_string(), "agentId": key.agent, "reason": reason, "runId": run,
            "ts": self.0.options.clock.now(), "session": self.row(key),
        });
        self.0.options.feed.tell("sessions.changed", Audience::Readers, &payload);
    }

    /// A session as clients list it.
    pub fn row(&self, key: &SessionKey) -> Option<Value> {
        let session = self.get(key)?;
        let running = self.running(key);
        let waiting = self.queued(key);
        let last = session.last_run.as_ref();
        let status = match (&running, waiting, last.map(|last| last.status)) {
            (Some(_), ..) => "running",
            (None, 1.., _) => "queued",
            (None, 0, Some(record::Status::Ok) | None) => "done",
            (None, 0, Some(record::Status::Error)) => "failed",
            (None, 0, Some(record::Status::Aborted)) => "killed",
            (None, 0, Some(record::Status::Timeout)) => "timeout",
        };
        let usage = &session.usage;
        let mut row = json!({
            "key": session.key, "kind": key.kind(), "sessionId": session.id, "agentId": key.agent,
            "label": session.label, "displayName": session.label.as_deref().unwrap_or(&session.key),
            "createdAt": session.created_at, "updatedAt": session.updated_at, "status": status,
            "hasActiveRun": running.is_some(), "activeRunIds": running.iter().map(|(run, _)| run).collect::<Vec<_>>(),
            "queued": waiting, "lastRunId": last.map(|last| &last.id),
            "startedAt": running.as_ref().map(|(_, at)| *at).or(last.map(|last| last.started_at)),
            "endedAt": last.filter(|_| running.is_none()).map(|last| last.ended_at),
            "runtimeMs": last.filter(|_| running.is_none()).map(|last| last.ended_at.0.saturating_sub(last.started_at.0)),
            "inputTokens": usage.input + usage.cache_read + usage.cache_write, "outputTokens": usage.output,
            "totalTokens": session.context_tokens, "model": last.map(|last| &last.model),
            "modelProvider": last.map(|last| &last.provider), "thinkingLevel": session.thinking,
            "archived": session.archived, "pinned": session.pinned, "isMain": key.is_main(),
            "parentSessionKey": session.parent, "lifecycleRevision": session.revision.to_string(),
        });
        if let Some(row) = row.as_object_mut() {
            row.retain(|_, value| !value.is_null());
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settled_run_keeps_its_result_and_nothing_that_was_only_told_to_the_model() {
        let long = "x".repeat(64_000);
        let accepted = serde_json::json!({
            "id": "r", "order": 1, "session": "agent:eden:main", "sessionId": "s", "method": "agent", "text": long, "at": 1,
            "chain": { "id": "c", "hop": 0 }, "instructions": long, "origin": { "kind": "external_user", "note": long },
        });
        let accepted = serde_json::from_value(accepted).expect("a message");
        let mut transaction = Transaction::default();
        settle_one(&mut transaction, Run { accepted, resumed: 0, ended: None, settled: false }, 0).expect("settled");
        assert!(transaction.bytes() < 1_000, "{} bytes", transaction.bytes());
    }
}
