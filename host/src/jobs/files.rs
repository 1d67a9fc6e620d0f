//! Jobs as files that people read: written behind what the journal has, never read back.
//! Keeps true: whoever edits or removes one changes nothing; the next step of the job writes it again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chela_flow::Job;

use crate::clock::Timestamp;

/// Whoever reads these files can wait; whoever commits cannot. They are written once nothing has happened to any job for so long; a flow that
/// ends within this is one file, not two.
const QUIET: Duration = Duration::from_secs(1);
/// Where something always happens, they are no further behind than this.
const BEHIND_MAX: Duration = Duration::from_secs(10);
/// Between two files so many times as long as the last one took. A file system that has just forgotten many files takes a millisecond to find
/// room for a new one, and leaves nobody else the processor meanwhile.
const REST: u32 = 4;
const REST_MAX: Duration = Duration::from_millis(5);
const NICE: i32 = 19;
/// Jobs that may wait for their files; past it the oldest are not written any more.
const WAITING_MAX: usize = 10_000;

pub(super) struct Files {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    dir: PathBuf,
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// By id, and so by age.
    jobs: BTreeMap<String, Arc<Job>>,
    /// When the first of those was shown, and when the last one was.
    shown: Option<(Instant, Instant)>,
    stopping: bool,
}

impl Waiting {
    /// How long the next file has to wait; none where there is nothing to write.
    fn due_in(&self, now: Instant) -> Option<Duration> {
        let (first, last) = self.shown.filter(|_| !self.jobs.is_empty())?;
        let due = (last + QUIET).min(first + BEHIND_MAX);
        Some(if self.stopping { Duration::ZERO } else { due.saturating_duration_since(now) })
    }

    fn show(&mut self, job: Arc<Job>, now: Instant) {
        let first = self.shown.filter(|_| !self.jobs.is_empty()).map_or(now, |(first, _)| first);
        self.shown = Some((first, now));
        self.jobs.insert(job.job_id.clone(), job);
        if self.jobs.len() > WAITING_MAX {
            self.jobs.pop_first();
        }
    }

    /// A file could not be written: it is tried again, unless the job has gone on meanwhile. The file of before says what is not so any more.
    fn put_back(&mut self, job: Arc<Job>, now: Instant) {
        if !self.stopping && self.jobs.len() < WAITING_MAX {
            self.jobs.entry(job.job_id.clone()).or_insert(job);
        }
        self.shown = Some((now, now));
    }
}

impl Files {
    pub(super) fn start(dir: PathBuf) -> Self {
        let shared = Arc::new(Shared { dir, waiting: Mutex::default(), wake: Condvar::new() });
        let writing = shared.clone();
        let thread = std::thread::Builder::new().name("chela-jobs".into()).spawn(move || writing.run());
        if let Err(error) = &thread {
            tracing::error!(%error, "files of jobs are not written");
        }
        Self { shared, thread: Mutex::new(thread.ok()) }
    }

    /// Its file is to say how the job stands now.
    pub(super) fn show(&self, job: Arc<Job>) {
        let mut waiting = self.shared.waiting();
        let first = waiting.jobs.is_empty();
        waiting.show(job, Instant::now());
        drop(waiting);
        if first {
            self.shared.wake.notify_one();
        }
    }

    /// Writes what waits.
    pub(super) async fn stop(&self) {
        self.shared.waiting().stopping = true;
        self.shared.wake.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = tokio::task::spawn_blocking(move || thread.map(JoinHandle::join));
        if !matches!(ended.await, Ok(None | Some(Ok(())))) {
            tracing::error!("the thread of job files had died");
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job to write next, once its time has come, and whether it is to be done in a hurry; none when it is over.
    fn next(&self) -> Option<(Arc<Job>, bool)> {
        let mut waiting = self.waiting();
        loop {
            waiting = match waiting.due_in(Instant::now()) {
                Some(Duration::ZERO) => break,
                Some(left) => self.wake.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0,
                None if waiting.stopping => return None,
                None => self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let stopping = waiting.stopping;
        waiting.jobs.pop_first().map(|(_, job)| (job, stopping))
    }

    fn run(&self) {
        if let Err(error) = rustix::process::nice(NICE) {
            tracing::debug!(%error, "files of jobs are written in a hurry");
        }
        let mut failing = false;
        while let Some((job, stopping)) = self.next() {
            let begun = Instant::now();
            let written = write(&self.dir, &job);
            // Said once: the journal has the job, and every further step would say it again.
            match (&written, failing) {
                (Err(error), false) => {
                    tracing::warn!(dir = %self.dir.display(), %error, "files of jobs cannot be written; check the directory's rights. The jobs go on");
                }
                (Ok(()), true) => tracing::info!("files of jobs are written again"),
                _ => {}
            }
            failing = written.is_err();
            if failing {
                self.waiting().put_back(job, Instant::now());
            }
            if !stopping {
                std::thread::sleep((begun.elapsed() * REST).min(REST_MAX));
            }
        }
    }
}

/// Where the file of a job that has ended lies.
fn day_of(dir: &Path, finished_at: u64) -> PathBuf {
    dir.join("done").join(Timestamp(finished_at).date().to_string())
}

fn write(dir: &Path, job: &Job) -> std::io::Result<()> {
    let name = format!("job-{}.json", job.job_id);
    let (folder, before) = match job.finished_at {
        Some(at) => (day_of(dir, at), Some(dir.join(&name))),
        None => (dir.to_owned(), None),
    };
    let text = serde_json::to_vec_pretty(job).map_err(std::io::Error::other)?;
    let beside = folder.join(format!(".{name}.tmp"));
    match fs::write(&beside, &text) {
        // Made only where it is not there: making one certain is a flush, which every commit of the gateway would wait for.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            chela_storage::make_private_dir(&folder)?;
            fs::write(&beside, &text)?;
        }
        written => written?,
    }
    fs::rename(&beside, folder.join(&name))?;
    match before.map(fs::remove_file) {
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what is left of a job that leaves the record: where it was before it ended, since as a foreign file it would be taken in again, and
/// of the day it ended on, unless that goes as a whole.
pub(super) fn remove(dir: &Path, id: &str, day: Option<u64>) {
    let name = format!("job-{id}.json");
    let of_day = day.map(|ended| day_of(dir, ended).join(&name));
    for path in std::iter::once(dir.join(&name)).chain(of_day) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(file = %path.display(), %error, "the file of an old job stays; check the directory's rights");
            }
            _ => {}
        }
    }
}

/// Removes the folders of days before `day`. Gives how many.
pub(super) fn sweep(dir: &Path, before: Timestamp) -> usize {
    let oldest = before.date().to_string();
    let days = fs::read_dir(dir.join("done")).into_iter().flatten().flatten();
    let old =
        days.filter(|day| day.file_name().to_str().is_some_and(|day| day.len() == oldest.len() && *day < *oldest));
    old.filter(|day| fs::remove_dir_all(day.path()).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use chela_flow::{New, Rules, Status, create};

    use super::*;

    #[test]
    fn an_error_while_a_file_is_written_leaves_the_one_before_whole() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().join("a2a-jobs");
        let job = create(New { job_id: "j".into(), ..New::default() }, &Rules::default(), 1).job;
        write(&dir, &job).expect("written");
        let before = fs::read(dir.join("job-j.json")).expect("a file");
        // Where the new file would be written first, nothing can be.
        fs::create_dir(dir.join(".job-j.json.tmp")).expect("in the way");
        let next = Job { status: Status::Running, ..job };
        assert!(write(&dir, &next).is_err());
        assert_eq!(fs::read(dir.join("job-j.json")).expect("still there"), before);
        fs::remove_dir(dir.join(".job-j.json.tmp")).expect("out of the way");
        write(&dir, &next).expect("written");
        let after = fs::read_to_string(dir.join("job-j.json")).expect("a file");
        assert!(after.contains("RUNNING"), "{after}");
    }

    #[test]
    fn a_file_that_could_not_be_written_waits_again_unless_the_job_has_gone_on() {
        let job = create(New { job_id: "j".into(), ..New::default() }, &Rules::default(), 1).job;
        let ended = Arc::new(Job { status: Status::Completed, ..job.clone() });
        let (now, mut waiting) = (Instant::now(), Waiting::default());
        waiting.put_back(Arc::new(job.clone()), now);
        assert_eq!((waiting.jobs.len(), waiting.due_in(now)), (1, Some(QUIET)));
        waiting.show(ended.clone(), now);
        waiting.put_back(Arc::new(job.clone()), now);
        assert_eq!(waiting.jobs.values().collect::<Vec<_>>(), [&ended], "the later one counts");
        waiting.jobs.clear();
        waiting.stopping = true;
        waiting.put_back(Arc::new(job), now);
        assert!(waiting.jobs.is_empty(), "a gateway that stops does not wait for a disk");
    }

    #[test]
    fn a_job_that_is_not_on_record_any_more_leaves_no_file_that_looks_foreign() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().join("a2a-jobs");
        for id in ["old", "other"] {
            let job = create(New { job_id: id.into(), ..New::default() }, &Rules::default(), 1).job;
            write(&dir, &job).expect("written");
        }
        ["old", "unknown"].into_iter().for_each(|id| remove(&dir, id, None));
        assert!(!dir.join("job-old.json").exists() && dir.join("job-other.json").exists());
    }

    #[test]
    fn files_wait_for_a_quiet_moment_and_not_for_ever() {
        let job = |id: &str| Arc::new(create(New { job_id: id.into(), ..New::default() }, &Rules::default(), 1).job);
        let (begun, mut waiting) = (Instant::now(), Waiting::default());
        assert_eq!(waiting.due_in(begun), None);
        waiting.show(job("a"), begun);
        assert_eq!(waiting.due_in(begun), Some(QUIET));
        let mut now = begun;
        while now < begun + BEHIND_MAX - QUIET / 2 {
            now += QUIET / 2;
            waiting.show(job("b"), now);
        }
        assert_eq!(waiting.due_in(now), Some(Duration::from_millis(500)), "something always happens");
        assert_eq!(waiting.due_in(begun + BEHIND_MAX), Some(Duration::ZERO));
        waiting.jobs.clear();
        waiting.show(job("c"), now);
        assert_eq!(waiting.due_in(now), Some(QUIET), "what was written does not count");
        waiting.stopping = true;
        assert_eq!(waiting.due_in(now), Some(Duration::ZERO));
    }

    #[test]
    fn a_job_is_one_file_that_moves_to_its_day_when_it_ends() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().join("a2a-jobs");
        let mut job = create(New { job_id: "j".into(), ..New::default() }, &Rules::default(), 1).job;
        write(&dir, &job).expect("written");
        let read = fs::read_to_string(dir.join("job-j.json")).expect("a file");
        assert_eq!(serde_json::from_str::<Job>(&read).expect("it reads back"), job);
        (job.status, job.finished_at) = (Status::Completed, Some(86_400_000 * 3));
        write(&dir, &job).expect("written");
        assert!(!dir.join("job-j.json").exists());
        assert!(dir.join("done/1970-01-04/job-j.json").exists());
        fs::write(dir.join("done/1970-01-04/job-k.json"), "{}").expect("written");
        remove(&dir, "k", Some(86_400_000 * 3));
        assert!(!dir.join("done/1970-01-04/job-k.json").exists() && dir.join("done/1970-01-04/job-j.json").exists());
        assert_eq!(sweep(&dir, Timestamp(86_400_000 * 3)), 0);
        assert_eq!(sweep(&dir, Timestamp(86_400_000 * 4)), 1);
        assert!(!dir.join("done/1970-01-04").exists());
    }
}
