//! What a start finds: the jobs of the journal, and files of other writers that the journal has never seen.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chela_flow::{Announce, Chain, Input, Job, Kind, Phase, Status, step};
use chela_storage::Digest;
use serde_json::json;
use tokio::sync::oneshot;

use super::drive::{AGAIN, Driver, emit, told_apart};
use super::store::{self, Found, Late};
use super::{Handle, rules};
use crate::bus::data;
use crate::event::{self, Event, Written};
use crate::id;
use crate::journal::Transaction;
use crate::session_key::SessionKey;

const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Files of others that one start takes in; the next takes the rest.
const FILES_MAX: usize = 100_000;
/// Jobs that one transaction resumes, and how large it grows before it takes no more.
const RESUMED_AT_ONCE: usize = 500;
const RESUMED_BYTES: usize = 4 * 1024 * 1024;
/// Events that are told at once when they are told again, in bytes: they have room beside what else is told meanwhile.
const TOLD_AT_ONCE: usize = 4 * 1024 * 1024;
/// A file that nobody has written for so long is not on its way to its place.
const UNFINISHED: Duration = Duration::from_secs(60);
/// The longest id of another's job, which becomes a part of keys and file names.
const ID_BYTES_MAX: usize = 100;

/// What is to be taken up.
pub(super) struct Resumed {
    jobs: Vec<Driver>,
    untold: Vec<Event>,
    late: Vec<Late>,
    /// Runs of jobs that were ended, which a crash kept from being stopped.
    to_stop: Vec<(SessionKey, String)>,
}

impl Handle {
    /// Makes everything known that the journal has.
    pub(super) fn take_up(&self, found: Found) -> Resumed {
        let mut state = self.0.state();
        let (mut open, mut stopped) = (Vec::new(), Vec::new());
        for job in found.jobs {
            if !job.status.is_terminal() {
                open.push(job);
                continue;
            }
            state.note(&job);
            if matches!(job.status, Status::Cancelled | Status::Abandoned) {
                stopped.push(job);
            }
        }
        drop(state);
        let runs = stopped.iter().flat_map(|job| job.turns.last().into_iter().chain(&job.announce.asked));
        let live = runs.filter(|turn| self.0.options.sessions.watch(&turn.key).is_some());
        let to_stop = live.filter_map(|turn| Some((SessionKey::parse(&turn.session_key).ok()?, turn.key.clone())));
        let to_stop = to_stop.collect();
        open.sort_by(|a, b| (a.created_at, &a.job_id).cmp(&(b.created_at, &b.job_id)));
        // Known from the first moment on: who asks about one meanwhile waits for it.
        let jobs = open.into_iter().map(|job| Driver::new(&self.0, Arc::new(job))).collect();
        Resumed { jobs, untold: found.untold, late: found.late, to_stop }
    }

    /// Tells what the log may lack, in pieces that it has room for; a log that fails is waited for. False when the gateway stops.
    async fn tell_again(&self, untold: &[Written]) -> bool {
        let shared = &self.0;
        // Until all are told, nothing that was recorded after them is noted as told.
        let ticket = shared.told.begin();
        for piece in pieces(untold) {
            while let Err(error) = self.tell_piece(piece).await {
                tracing::error!(error = &error as &dyn std::error::Error, "events of jobs are not in the log yet");
                loop {
                    tokio::select! {
                        () = shared.cut.cancelled() => return false,
                        () = shared.options.clock.sleep(AGAIN) => {}
                    }
                    // What a log that fails holds back is not told to it twice.
                    if !shared.options.bus.is_failing() {
                        break;
                    }
                }
            }
        }
        shared.told.end(ticket, 0);
        true
    }

    async fn tell_piece(&self, piece: &[Written]) -> Result<(), crate::bus::Error> {
        let (done, told) = oneshot::channel();
        // Whoever asked may be gone.
        self.0.options.bus.emit_all(piece, move |outcome| drop(done.send(outcome)));
        self.0.options.bus.hurry();
        told.await.unwrap_or(Err(crate::bus::Error::Closed))
    }

    /// Goes on with every job that has not ended.
    pub(super) async fn resume(&self, resumed: Resumed) {
        let Resumed { mut jobs, untold, late, to_stop } = resumed;
        for (session, run) in to_stop {
            if let Err(error) = self.0.options.sessions.abort(&session, Some(&run)).await {
                tracing::warn!(run, error = &error as &dyn std::error::Error, "a run of a job was not stopped");
            }
        }
        if !untold.is_empty() {
            // The next step of a job takes their place in its record: they must be in the log before.
            let untold: Vec<Written> = untold.into_iter().map(Written::from).collect();
            if !self.tell_again(&untold).await {
                return;
            }
        }
        let (dir, known) = (self.0.options.dir.jobs(), self.0.state().made_at.iter().map(|(id, _)| id).collect());
        let there = tokio::task::spawn_blocking(move || look(&dir, &known)).await.unwrap_or_default();
        self.show_ended(there.ours).await;
        let mut unreadable = Vec::new();
        for found in there.foreign {
            match found {
                // One that was begun while the files were read is ours.
                Ok(job) if self.0.state().made_at.contains(Digest::of(&job.job_id)) => {}
                Ok(job) => {
                    let job = self.import(job);
                    let stale = self.is_stale(&job);
                    let driver = Driver::new(&self.0, Arc::new(job));
                    if stale {
                        driver.give_up();
                    }
                    jobs.push(driver);
                }
                Err(aside) => unreadable.push(aside),
            }
        }
        for aside in unreadable {
            tracing::warn!(file = %aside.path.display(), said = aside.said, "a job's file cannot be read and was set aside");
            let facts = data(json!({ "file": aside.path, "lastError": aside.said, "imported": true }));
            emit(&self.0, Event::system(event::Kind::JobFailed, self.0.now(), facts));
        }
        if !jobs.is_empty() {
            tracing::info!(count = jobs.len(), "unfinished jobs go on");
        }
        let mut jobs = jobs.into_iter();
        while self.resume_part(&mut jobs).await {}
        self.hear_all_late(late).await;
    }

    /// Jobs that have ended and whose file still lies among the open ones: a crash came before the file of their end.
    async fn show_ended(&self, files: Vec<String>) {
        for id in files {
            let is_open = self.0.state().open.contains_key(&id);
            if !is_open && let Ok(Some(job)) = self.get(&id).await {
                self.0.files.show(job);
            }
        }
    }

    /// Takes as many of them up as fit into one transaction; false when there were none left.
    async fn resume_part(&self, drivers: &mut impl Iterator<Item = Driver>) -> bool {
        let rules = rules(&self.0.options.settings.current().config);
        let now = self.0.now();
        let mut transaction = Transaction::default();
        let mut going_on = Vec::new();
        while going_on.len() < RESUMED_AT_ONCE && transaction.bytes() < RESUMED_BYTES {
            let Some(driver) = drivers.next() else { break };
            let job = driver.job();
            // Recorded by another writer and finished there: it is only kept.
            let next = step(&job, Input::Resumed, &rules, now.0);
            let (next, events) = match next {
                Some(next) => {
                    let (events, _) = told_apart(&next.job, next.effects, now);
                    (Arc::new(next.job), events)
                }
                None => (job, Vec::new()),
            };
            match store::put(&mut transaction, &next, &events) {
                Ok(()) => going_on.push((driver, Some(next), events)),
                Err(error) => {
                    // It goes on all the same; that it was resumed is not on record.
                    tracing::error!(
                        job = next.job_id,
                        error = &error as &dyn std::error::Error,
                        "a job cannot be kept"
                    );
                    going_on.push((driver, None, Vec::new()));
                }
            }
        }
        if going_on.is_empty() {
            return false;
        }
        let tickets: Vec<_> = going_on.iter().map(|_| self.0.told.begin()).collect();
        let seq = match self.0.options.journal.commit_async(transaction).await {
            Ok(seq) => seq,
            Err(error) => {
                // They go on as they are; only that they were resumed is not on record.
                tracing::error!(error = &error as &dyn std::error::Error, "that jobs go on could not be recorded");
                0
            }
        };
        for ((driver, job, events), ticket) in going_on.into_iter().zip(tickets) {
            if let Some(job) = job {
                driver.known(job);
            }
            driver.spawn_telling(events, ticket, seq);
        }
        true
    }

    /// A job of another writer, as ours.
    fn import(&self, mut job: Job) -> Job {
        let now = self.0.now();
        for key in [&mut job.session_key, &mut job.target_session_key] {
            if let Ok(read) = SessionKey::parse(key) {
                *key = read.to_string();
            }
        }
        if job.chain.id.is_empty() {
            let agent = chela_flow::agent_of(&job.session_key).to_owned();
            job.chain = Chain::begin(id::fresh(now).to_string(), &agent, now.0);
        }
        job
    }

    /// Whether a job of another writer was left alone for too long.
    fn is_stale(&self, job: &Job) -> bool {
        let stale_ms = self.0.options.settings.current().config.a2a.stale_minutes * 60_000;
        !job.status.is_terminal() && self.0.now().0.saturating_sub(job.updated_at) > stale_ms
    }
}

/// A file that cannot be a job.
struct Aside {
    path: PathBuf,
    said: String,
}

/// Files of jobs as a start finds them.
#[derive(Default)]
struct There {
    /// Those whose id the journal has never seen.
    foreign: Vec<Result<Job, Aside>>,
    /// The ids of the others.
    ours: Vec<String>,
}

/// Looks at every file once. One that cannot be read is renamed, so that it is looked at once.
fn look(dir: &Path, known: &HashSet<Digest>) -> There {
    let entries = fs::read_dir(dir).inspect_err(|cause| {
        if cause.kind() != ErrorKind::NotFound {
            tracing::error!(path = %dir.display(), %cause, "jobs of others cannot be looked for; give the gateway's user the right to read this directory, and start it again");
        }
    });
    let mut there = There::default();
    for path in entries.into_iter().flatten().flatten().take(FILES_MAX).map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(".job-") && name.ends_with(".tmp") && is_old(&path) {
            // A file that a killed gateway had not finished; the journal has the job.
            let _ = fs::remove_file(&path);
            continue;
        }
        let Some(id) = name.strip_prefix("job-").and_then(|rest| rest.strip_suffix(".json")) else { continue };
        if known.contains(&Digest::of(id)) {
            there.ours.push(id.to_owned());
            continue;
        }
        there.foreign.push(job_of(&path, id).map_err(|said| {
            let aside = path.with_extension("json.unreadable");
            let path = if fs::rename(&path, &aside).is_ok() { aside } else { path.clone() };
            Aside { path, said }
        }));
    }
    there.foreign.sort_by_key(|found| found.as_ref().map_or(0, |job| job.created_at));
    there
}

/// As many events after each other as are told at once, again and again; one that is larger is told by itself.
fn pieces(events: &[Written]) -> impl Iterator<Item = &[Written]> {
    let mut left = events;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = left.iter().take_while(|event| {
            bytes += event.line().len();
            bytes <= TOLD_AT_ONCE
        });
        let (piece, rest) = left.split_at(fitting.count().max(1).min(left.len()));
        left = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Whether nobody is writing it any more.
fn is_old(path: &Path) -> bool {
    let written = fs::symlink_metadata(path).and_then(|facts| facts.modified());
    written.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > UNFINISHED))
}

fn job_of(path: &Path, id: &str) -> Result<Job, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(plain) {
        return Err("its name is no id of a job".into());
    }
    let facts = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !facts.is_file() || facts.len() > FILE_BYTES_MAX {
        return Err(format!("it is no file of at most {FILE_BYTES_MAX} bytes"));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let job: Job = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if job.job_id != id {
        return Err(format!("it says that it is job {:?}", job.job_id.chars().take(80).collect::<String>()));
    }
    for key in [&job.session_key, &job.target_session_key] {
        SessionKey::parse(key).map_err(|error| error.to_string())?;
    }
    let over = job.status.is_terminal();
    let max_turns = job.max_turns.min(5);
    // What every writer knows is taken; what only ours means begins anew.
    Ok(Job {
        kind: Kind::default(),
        phase: if over { Phase::Done } else { Phase::Send },
        chain: Chain::default(),
        depth: 0,
        max_turns,
        current_turn: job.current_turn.min(max_turns),
        retry_count: 0,
        max_retries: job.max_retries.min(20),
        finished_at: over.then(|| job.finished_at.unwrap_or(job.updated_at)),
        resume_count: job.resume_count.min(1_000_000),
        next_try_at: None,
        awaited_until: None,
        cause: None,
        retry_of: None,
        turns: Vec::new(),
        announce: Announce::default(),
        rev: 0,
        meta: None,
        ..job
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_read_and_nonsense_is_set_aside() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path();
        let old = r#"{ "jobId": "run-abc123", "runId": "run-abc123", "status": "RUNNING", "sessionKey": "ruda",
            "targetSessionKey": "eden", "conversationId": "conv-xyz789", "message": "다음 작업을 처리해줘", "maxTurns": 5,
            "currentTurn": 2, "retryCount": 0, "maxRetries": 3, "createdAt": 1740000000000, "updatedAt": 1740000060000,
            "resumeCount": 0 }"#;
        fs::write(dir.join("job-run-abc123.json"), old).expect("written");
        fs::write(dir.join("job-known.json"), "{").expect("written");
        fs::write(dir.join("job-broken.json"), "{ \"jobId\": 7").expect("written");
        fs::write(dir.join("job-other.json"), old).expect("written");
        fs::write(dir.join("notes.txt"), "x").expect("written");
        let known = HashSet::from([Digest::of("known")]);
        let there = look(dir, &known);
        assert_eq!(there.ours, ["known"]);
        let found = there.foreign;
        let (jobs, aside): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
        let jobs: Vec<Job> = jobs.into_iter().flatten().collect();
        assert_eq!(
            jobs.iter().map(|job| (job.job_id.as_str(), job.current_turn)).collect::<Vec<_>>(),
            [("run-abc123", 2)]
        );
        assert_eq!(aside.len(), 2);
        assert!(dir.join("job-broken.json.unreadable").exists() && dir.join("job-known.json").exists());
        assert!(look(dir, &known).foreign.iter().all(Result::is_ok), "they are looked at once");
    }

    #[test]
    fn what_a_killed_gateway_had_not_finished_is_swept_once_nobody_can_be_writing_it() {
        let temp = tempfile::tempdir().expect("a directory");
        let [old, fresh, other] =
            [".job-a.json.tmp", ".job-b.json.tmp", ".notes.tmp"].map(|name| temp.path().join(name));
        [&old, &fresh, &other].into_iter().for_each(|path| fs::write(path, "{").expect("written"));
        let long_ago = fs::metadata(&fresh).and_then(|facts| facts.modified()).expect("written") - 2 * UNFINISHED;
        for path in [&old, &other] {
            fs::File::options().write(true).open(path).and_then(|file| file.set_modified(long_ago)).expect("touched");
        }
        look(temp.path(), &HashSet::new());
        assert_eq!([&old, &fresh, &other].map(|path| path.exists()), [false, true, true]);
    }

    #[test]
    fn a_place_that_cannot_be_read_has_no_jobs_and_stops_nothing() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("a2a-jobs");
        fs::write(&path, "no directory").expect("written");
        let there = look(&path, &HashSet::new());
        assert!(there.foreign.is_empty() && there.ours.is_empty() && path.exists());
    }

    #[test]
    fn events_are_told_again_in_their_order_in_pieces_that_the_log_has_room_for() {
        let told = |said: usize| {
            let facts = data(json!({ "said": "x".repeat(said) }));
            Written::from(Event::system(event::Kind::JobFailed, crate::clock::Timestamp(1), facts))
        };
        // A third of a piece each but one, which is more than a whole one.
        let events: Vec<Written> =
            (0..7).map(|n| told(if n == 4 { TOLD_AT_ONCE } else { TOLD_AT_ONCE / 3 - 1_000 })).collect();
        let pieces: Vec<&[Written]> = pieces(&events).collect();
        assert_eq!(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [3, 1, 1, 2]);
        let again = pieces.concat();
        assert!(
            again.iter().map(Written::line).eq(events.iter().map(Written::line)),
            "none is missing, and none moved"
        );
        assert!(super::pieces(&[]).next().is_none());
    }
}
