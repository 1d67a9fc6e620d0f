//! Dialogues: what orchestrator and agent said for each task, in order.
//! Owns `transcripts/`, which is derived from the transcripts of sessions and made anew when it is gone. Keeps true: a run that has ended for
//! a task is in its dialogue, once and whole. Never: is read by whoever decides something.

mod belongs;
mod files;
mod service;
mod turns;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::journal::{self, Opened, Transaction};
use crate::layout::StateDir;
use crate::sessions::{self, Further, Step, Turn};
use crate::settings;
use crate::tasks;

pub use belongs::Task;
pub use turns::Page;

const KIND: &str = "dialogue";
/// Runs that wait to be written while the disk takes none; what is past this waits for the next start.
const WAITING_MAX: usize = 10_000;
/// How long a reader waits for what is about to be written.
const PATIENCE: Duration = Duration::from_secs(5);
/// Tasks with news that a slow listener may be behind.
const NEWS_MAX: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the dialogues in {dir} cannot be used ({cause}); check the directory's rights, and the disk")]
    Files { dir: String, cause: std::io::Error },
    #[error("run {run} has no part in task {task}")]
    OtherRun { run: String, task: String },
    #[error("the cursor is not one that this dialogue gave; ask without it")]
    BadCursor,
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error("the gateway is stopping")]
    Stopping,
}

impl Error {
    /// Whether the one who asks can mend it.
    pub fn is_callers(&self) -> bool {
        matches!(self, Self::OtherRun { .. } | Self::BadCursor)
    }
}

/// A run that has ended and is not in its dialogues yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    run: String,
    session: String,
    session_id: String,
    task_ids: Vec<String>,
}

/// What the journal has of dialogues.
pub struct Found(Vec<Ended>);

/// Reads what the journal has, before anybody commits to it.
pub fn read(opened: &Opened) -> Result<Found, journal::Error> {
    let found = opened.records(KIND)?;
    Ok(Found(found.iter().map(|record| journal::body(KIND, record)).collect::<Result<_, _>>()?))
}

/// What a room is built from.
pub struct Options {
    pub dir: StateDir,
    pub settings: settings::Handle,
    pub journal: journal::Handle,
    pub sessions: sessions::Handle,
    pub tasks: tasks::Handle,
}

/// The way to the dialogues; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    options: Options,
    /// Runs whose turns are to be written; each is a record of the journal.
    waiting: Mutex<Waiting>,
    /// There is something to write.
    woken: Notify,
    /// Something was written.
    written: Notify,
    /// For which task.
    news: broadcast::Sender<String>,
}

#[derive(Default)]
struct Waiting {
    ended: VecDeque<Ended>,
    /// The files are not whole yet.
    rebuilding: bool,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the room. The future writes dialogues until `stop`.
pub fn start(options: Options, found: Found, stop: CancellationToken) -> (Handle, impl Future<Output = ()> + Send) {
    let waiting = Waiting { ended: found.0.into(), rebuilding: true };
    let shared = Arc::new(Shared {
        options,
        waiting: Mutex::new(waiting),
        woken: Notify::new(),
        written: Notify::new(),
        news: broadcast::Sender::new(NEWS_MAX),
    });
    (Handle(shared.clone()), service::run(shared, stop))
}

/// That a run belongs to dialogues, on its way into the journal.
pub struct Noted(Option<Ended>);

impl Handle {
    /// What is recorded with the end of a run that works for tasks.
    pub fn at_end(&self, turn: &Turn, steps: &[Step], further: &mut Further) -> Noted {
        let mut task_ids: Vec<String> = Vec::new();
        for step in turn.steps.iter().chain(steps) {
            if let Step::About { task_ids: of_step, .. } = step {
                task_ids.extend(of_step.iter().filter(|id| !task_ids.contains(id)).cloned().collect::<Vec<_>>());
            }
        }
        if task_ids.is_empty() {
            return Noted(None);
        }
        let message = turn.message();
        let ended = Ended {
            run: turn.id().to_owned(),
            session: message.session.clone(),
            session_id: message.session_id.clone(),
            task_ids,
        };
        further.put(KIND, &ended.run, &ended);
        Noted(Some(ended))
    }

    /// The end is on record: its turns may be written.
    pub fn ended(&self, noted: Noted) {
        let Some(ended) = noted.0 else { return };
        let mut waiting = self.0.waiting();
        if waiting.ended.len() >= WAITING_MAX {
            // The journal has it, and the next start finds it there.
            tracing::warn!(
                run = ended.run,
                "too many runs wait for their dialogues; it is written after the next start"
            );
            return;
        }
        waiting.ended.push_back(ended);
        drop(waiting);
        self.0.woken.notify_one();
    }

    /// The turns of a task, oldest first; with a run of it, only if that run has a part in it.
    pub async fn of_task(
        &self,
        task: &str,
        run: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page, Error> {
        let all = self.all_of_task(task).await?;
        if let Some(run) = run.filter(|run| !all.iter().any(|turn| turn["runId"] == **run)) {
            let short = |text: &str| text.chars().take(80).collect();
            return Err(Error::OtherRun { run: short(run), task: short(task) });
        }
        turns::page(all, cursor, limit).ok_or(Error::BadCursor)
    }

    /// The newest turns of a task, or those before a cursor, each page oldest first.
    pub async fn latest_of_task(&self, task: &str, before: Option<&str>, limit: usize) -> Result<Page, Error> {
        turns::last_page(self.all_of_task(task).await?, before, limit).ok_or(Error::BadCursor)
    }

    async fn all_of_task(&self, task: &str) -> Result<Vec<Value>, Error> {
        self.caught_up().await;
        let dir = self.0.options.dir.dialogues();
        let shown = dir.display().to_string();
        let name = task.to_owned();
        let lines: Result<std::io::Result<Vec<Value>>, _> =
            tokio::task::spawn_blocking(move || files::read(&dir, &name)).await;
        let lines = lines.map_err(|_| Error::Stopping)?.map_err(|cause| Error::Files { dir: shown, cause })?;
        Ok(turns::in_order(lines))
    }

    /// Ids of tasks for which something was written, from now on.
    pub fn news(&self) -> broadcast::Receiver<String> {
        self.0.news.subscribe()
    }

    /// Waits until what has ended is written, for a while.
    async fn caught_up(&self) {
        let caught_up = async {
            loop {
                let written = self.0.written.notified();
                tokio::pin!(written);
                written.as_mut().enable();
                {
                    let waiting = self.0.waiting();
                    if waiting.ended.is_empty() && !waiting.rebuilding {
                        return;
                    }
                }
                written.await;
            }
        };
        // What cannot be written is said in the log; what is there is shown all the same.
        let _ = tokio::time::timeout(PATIENCE, caught_up).await;
    }
}

fn drop_ended(transaction: &mut Transaction, run: &str) -> Result<(), journal::Error> {
    journal::drop_record(transaction, KIND, run)
}
