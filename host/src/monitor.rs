//! The read model of the event log: what happened, by role, work session, thread and category, from an index whatever the log's length.
//! Owns the index and the overrides of categories. Keeps true: it can be made again from the log alone; a query waits for no writer.
//! Never: writes the log.

mod category;
mod classifier;
mod fold;
mod follow;
#[cfg(test)]
pub(crate) mod fuzz;
mod index;
mod intake;
mod line;
mod lines;
mod live;
mod mend;
mod overrides;
mod pace;
mod query;
mod service;
mod title;
pub mod workspace;

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use chela_storage::Catalogue;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, broadcast, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::layout::EVENT_LOG_STEM;
use crate::{plugins, settings};
use live::{After, Live, Place};
use query::Readers;
use service::{Command, Service};

pub use category::Override;
pub use fold::thread_of;
pub use fold::{Status, ThreadState};
pub use index::IndexError;
pub use live::Told;
pub use overrides::OverrideError;
pub use query::{
    EventsQuery, Heard, Page, QueryError, SessionsQuery, Since, cursor_of as cursor_of_seq, is_sessions_cursor,
    seq_of_cursor,
};

/// Commands that may wait for the thread.
const COMMANDS_MAX: usize = 64;
/// Work sessions with another category that somebody may not have heard of yet; whoever is further behind asks again for all.
const OVERRIDDEN_MAX: usize = 256;
/// Questions that are looked up at once, each on a thread and a connection of its own; further ones wait without either.
const ASKED_AT_ONCE: usize = 8;

/// What the room is built from.
pub struct Options {
    /// Where the segments of the log lie.
    pub logs: PathBuf,
    /// Where the index is kept.
    pub index: PathBuf,
    pub overrides: PathBuf,
    pub overrides_writable: bool,
    pub clock: Clock,
    pub plugins: plugins::Handle,
    pub settings: settings::Handle,
    /// Changes when the log has grown; without it the files are looked at again and again.
    pub grown: Option<watch::Receiver<u64>>,
}

/// The way to the room; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    commands: SyncSender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
    clock: Clock,
}

struct Shared {
    logs: PathBuf,
    /// The file of the index.
    path: PathBuf,
    readers: Arc<Readers>,
    asking: Arc<Semaphore>,
    live: Arc<Live>,
    overridden: broadcast::Sender<String>,
    standing: Mutex<Standing>,
}

#[derive(Clone, Debug)]
struct Standing {
    progress: Progress,
    problem: Option<String>,
    left_to_classify: u64,
    renewal: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Indexing { percent: u8 },
    Ready,
}

/// How the monitor itself is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Events in the index.
    pub events: u64,
    /// Lines of the log that are no events.
    pub malformed_lines: u64,
    /// Events whose role nobody could tell.
    pub unknown_roles: u64,
    /// How much of the log is read, while the index is being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indexing_percent: Option<u8>,
    /// Work sessions that the classifier that serves has not seen yet.
    pub left_to_classify: u64,
    /// How much of the log was read again, while an index with the roles of another classifier is made beside the one that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewal_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

fn catalogue(logs: &std::path::Path) -> Catalogue {
    Catalogue::new(logs, EVENT_LOG_STEM, crate::bus::time_of)
}

/// Starts the room; the future passes on that the log has grown, until `stop`.
pub fn start(
    options: Options,
    stop: CancellationToken,
) -> std::io::Result<(Handle, impl Future<Output = ()> + Send + use<>)> {
    let Options { logs, index, overrides, overrides_writable, clock, plugins, settings, grown } = options;
    let readers = Readers::new(&index, lines::Lines::new(catalogue(&logs)));
    let shared = Arc::new(Shared {
        logs,
        path: index,
        readers,
        asking: Arc::new(Semaphore::new(ASKED_AT_ONCE)),
        live: Arc::new(Live::new()),
        overridden: broadcast::Sender::new(OVERRIDDEN_MAX),
        standing: Mutex::new(Standing {
            progress: Progress::Indexing { percent: 0 },
            problem: None,
            left_to_classify: 0,
            renewal: None,
        }),
    });
    let service = Service {
        shared: shared.clone(),
        catalogue: |shared| catalogue(&shared.logs),
        classifier: classifier::Classifier { plugins, settings, runtime: tokio::runtime::Handle::current() },
        clock: clock.clone(),
        poll: if grown.is_some() { Duration::from_secs(1) } else { Duration::from_millis(200) },
    };
    let overrides = overrides::File::new(overrides, overrides_writable);
    let (commands, inbox) = sync_channel(COMMANDS_MAX);
    let thread = std::thread::Builder::new().name("chela-index".into());
    let thread = thread.spawn(move || service.run(&inbox, overrides))?;
    let handle =
        Handle(Arc::new(Owner { shared, commands: commands.clone(), thread: Mutex::new(Some(thread)), clock }));
    Ok((handle, pass_on(grown, commands, stop)))
}

async fn pass_on(grown: Option<watch::Receiver<u64>>, commands: SyncSender<Command>, stop: CancellationToken) {
    let Some(mut grown) = grown else { return stop.cancelled().await };
    while let Some(Ok(())) = stop.run_until_cancelled(grown.changed()).await {
        // A full inbox makes the thread look anyway.
        if let Err(TrySendError::Disconnected(_)) = commands.try_send(Command::Look) {
            return;
        }
    }
    // The bus is gone before us: there is nothing more to pass on.
    stop.cancelled().await;
}

impl Handle {
    pub async fn events(&self, query: EventsQuery) -> Result<Page, QueryError> {
        self.ask(move |readers, _| readers.events(&query)).await
    }

    pub async fn sessions(&self, query: SessionsQuery) -> Result<Page, QueryError> {
        self.ask(move |readers, now| readers.sessions(&query, now)).await
    }

    /// One work session with its threads.
    pub async fn session(&self, key: String) -> Result<Option<Value>, QueryError> {
        self.ask(move |readers, now| readers.session(&key, now)).await
    }

    /// What the classifier is shown of the latest work sessions.
    pub async fn conversations(&self, limit: usize) -> Result<Vec<Heard>, QueryError> {
        self.ask(move |readers, now| readers.conversations(limit, now)).await
    }

    /// Counts of the last `days` days.
    pub async fn stats(&self, days: u32) -> Result<Value, QueryError> {
        self.ask(move |readers, now| readers.stats(days, now)).await
    }

    pub async fn health(&self) -> Health {
        let counts = self.ask(|readers, _| readers.counts()).await;
        let standing = self.standing();
        let problem = standing.problem.or_else(|| match &counts {
            Err(QueryError::Indexing { .. }) | Ok(_) => None,
            Err(error) => Some(error.to_string()),
        });
        let (events, malformed_lines, unknown_roles) = counts.unwrap_or_default();
        let indexing_percent = match standing.progress {
            Progress::Indexing { percent } => Some(percent),
            Progress::Ready => None,
        };
        let left_to_classify = standing.left_to_classify;
        let renewal_percent = standing.renewal;
        Health { events, malformed_lines, unknown_roles, indexing_percent, left_to_classify, renewal_percent, problem }
    }

    /// Says which category a work session has, or takes that back.
    pub async fn override_category(
        &self,
        session: String,
        category: Option<String>,
        by: Option<String>,
    ) -> Result<(), OverrideError> {
        let known = self.session(session.clone()).await;
        if matches!(known, Ok(None)) {
            return Err(OverrideError::NoSuchSession(session));
        }
        let (answer, answered) = oneshot::channel();
        let command = Command::Override { session, category, by, answer };
        let commands = self.0.commands.clone();
        // The inbox may be full for as long as a chunk of the log takes.
        let sent = tokio::task::spawn_blocking(move || commands.send(command)).await;
        match sent {
            Ok(Ok(())) => answered.await.unwrap_or(Err(OverrideError::Stopping)),
            _ => Err(OverrideError::Stopping),
        }
    }

    /// Work sessions of whose category people say something else, from now on: queries say it by then.
    pub fn overridden(&self) -> broadcast::Receiver<String> {
        self.0.shared.overridden.subscribe()
    }

    /// Everything after `since`, or from now on.
    pub fn follow(&self, since: Option<i64>) -> Followed {
        // While the log is being read its end is not where the reading is: nobody who asks for what is new is told all that was.
        let now = || match self.standing().progress {
            Progress::Indexing { .. } => self.0.shared.readers.lines.end().ok(),
            Progress::Ready => None,
        };
        let place = self.0.shared.live.follow(since.or_else(now));
        Followed { handle: self.clone(), place, reading: None }
    }

    /// Ends the thread; what it has read is in the index.
    pub async fn stop(&self) {
        let owner = self.0.clone();
        let ended = tokio::task::spawn_blocking(move || owner.stop());
        if ended.await.is_err() {
            tracing::error!("the monitor did not end cleanly");
        }
    }

    async fn ask<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Readers, u64) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let asking = self.0.shared.asking.clone().acquire_owned().await.map_err(|_| QueryError::Stopping)?;
        if let Progress::Indexing { percent } = self.standing().progress {
            return Err(QueryError::Indexing { percent });
        }
        let (readers, now) = (self.0.shared.readers.clone(), self.0.clock.now().0);
        let looked = tokio::task::spawn_blocking(move || {
            let found = query(&readers, now);
            drop(asking);
            found
        });
        looked.await.unwrap_or(Err(QueryError::Stopping))
    }

    fn standing(&self) -> Standing {
        self.0.shared.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Owner {
    fn stop(&self) {
        // Gone already is as good as stopped.
        let _ = self.commands.send(Command::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the monitor had died");
        }
    }
}

/// Somebody who follows the log.
pub struct Followed {
    handle: Handle,
    place: Place,
    /// What is being read of the log after this place. Who stops waiting finds it the next time: one who is called away again and again would
    /// have it read again and again.
    reading: Option<tokio::task::JoinHandle<Result<Page, QueryError>>>,
}

/// What a follower hears who wants to know that something happened, not all of it.
pub enum News {
    Told(Vec<Arc<Told>>),
    /// More than is at hand.
    Much,
}

impl Followed {
    /// The next events that are at hand, at most `max`; whoever is further behind goes on from now. None once nothing more will come.
    pub async fn news(&mut self, max: usize) -> Option<News> {
        Some(self.place.news(max).await?.map_or(News::Much, News::Told))
    }

    /// The next events, at most `max`; none once nothing more will come.
    pub async fn next(&mut self, max: usize) -> Result<Option<Vec<Arc<Told>>>, QueryError> {
        loop {
            match self.place.next(max).await {
                None => return Ok(None),
                Some(After::AtHand(events)) => {
                    self.stop_reading();
                    return Ok(Some(events));
                }
                Some(After::InTheLog) => {
                    let page = match self.read(max).await {
                        // Until then there is nothing to be told.
                        Err(QueryError::Indexing { .. }) => {
                            tokio::time::sleep(Duration::from_millis(200)).await;
                            continue;
                        }
                        page => page?,
                    };
                    let told: Vec<Arc<Told>> = page
                        .rows
                        .into_iter()
                        .filter_map(|event| Some(Arc::new(Told::new(event["seq"].as_i64()?, event))))
                        .collect();
                    let last = told.last().map(|told| told.seq);
                    let further = page.next.as_deref().and_then(seq_of_cursor);
                    match last.max(further) {
                        Some(seq) => self.place.seq = seq,
                        // Another reading has begun, or the head was told before its rows: a moment later there is more.
                        None => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                    if !told.is_empty() {
                        return Ok(Some(told));
                    }
                }
            }
        }
    }

    fn stop_reading(&mut self) {
        if let Some(reading) = self.reading.take() {
            reading.abort();
        }
    }

    async fn read(&mut self, max: usize) -> Result<Page, QueryError> {
        let reading = self.reading.get_or_insert_with(|| {
            let (handle, since) = (self.handle.clone(), Some(Since::Seq(self.place.seq)));
            tokio::spawn(
                async move { handle.events(EventsQuery { since, limit: max, ..EventsQuery::default() }).await },
            )
        });
        let page = reading.await.unwrap_or(Err(QueryError::Stopping));
        self.reading = None;
        page
    }

    /// The place after which everything is still to come.
    pub fn seq(&self) -> i64 {
        self.place.seq
    }

    /// How many events it has not taken yet, as far as they are at hand.
    pub fn behind(&self) -> usize {
        self.place.behind()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.stop_reading();
    }
}
