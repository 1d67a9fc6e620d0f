//! Sessions: who talks in which, one lane each, and every run as a sequence of durable steps.
//! Owns the transcripts and the records of messages and runs. Keeps true: an accepted message is in the journal before anybody hears of it,
//! runs in the order of acceptance, and ends once; the same key gives the same answer. Never: asks a model or calls a tool.

mod accept;
mod house;
mod lanes;
mod news;
mod readers;
mod record;
mod rows;
mod store;
mod told;
mod transcript;
mod turn;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chela_storage::Digest;
use serde_json::Value;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::ModelRef;
use crate::feed::Feed;
use crate::journal::{self, Transaction};
use crate::layout::StateDir;
use crate::results;
use crate::session_key::SessionKey;
use crate::settings;

use lanes::State;
use readers::Readers;
use transcript::{Work, Writer};

pub use house::Idle;
pub use lanes::{Place, Progress};
pub use news::{Follow, Follower, News, Occupied};
pub use record::{
    Accepted, COMPACT, Chain, Ended, HumanQuery, LastRun, Origin, OriginKind, Part, Run, SESSION, Session, Status,
    Step, place_of, transcript_name,
};
pub use rows::{stop_word, text_of};
pub use store::{Found, History, Patch, read};
pub use told::{Told, fit, weight};
pub use turn::{Further, Sum, Turn, Wrong};

/// The longest key of a sender; steps add a little to it.
pub const KEY_BYTES_MAX: usize = 200;
/// Starts that may find a run unfinished before it is given up: it may be what brings the gateway down.
const RESUMED_MAX: u32 = 5;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the key {key:?} belongs to a message for {first}, sent by {first_method}; {second} by {second_method} needs a key of its own"
    )]
    KeyTaken { key: String, first: String, first_method: String, second: String, second_method: String },
    #[error("a key has 1 to {KEY_BYTES_MAX} bytes and no control characters")]
    BadKey,
    #[error(
        "{waiting} messages wait in {session} already, which is as many as may (`runs.queue`); try again when it has caught up"
    )]
    Full { session: String, waiting: usize },
    #[error("a message has at most {max} bytes (`runs.messageBytes`); this one has {bytes}")]
    TooLong { bytes: usize, max: usize },
    #[error("no agent has the id {0:?}; `chela agents` lists them")]
    UnknownAgent(String),
    #[error("No session found: {0}")]
    NoSession(String),
    #[error("{agent} has something else to do first")]
    Occupied { agent: String },
    #[error("{session} runs; abort it first, or wait until it has ended")]
    Busy { session: String },
    #[error("Cannot delete the main session ({0}).")]
    Main(String),
    #[error("the gateway is stopping; send it again when it is back")]
    Stopping,
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error("the transcript {} cannot be used ({cause}); check its owner and rights, and the disk", path.display())]
    Transcript { path: PathBuf, cause: std::io::Error },
}

impl Error {
    /// Whether the one who asks can mend it.
    pub fn is_callers(&self) -> bool {
        !matches!(self, Self::Journal(_) | Self::Transcript { .. } | Self::Stopping)
    }
}

/// What a room is built from.
pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    pub settings: settings::Handle,
    pub journal: journal::Handle,
    pub results: results::Handle,
    pub feed: Feed,
}

/// The way to the sessions; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    options: Options,
    writer: Writer,
    readers: Readers,
    state: Mutex<State>,
    /// Something may run.
    ready: Notify,
    news: broadcast::Sender<News>,
    /// Nothing new is begun.
    closed: CancellationToken,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transcript(&self, key: &SessionKey, id: &str) -> PathBuf {
        self.options.dir.transcript(&key.agent, id)
    }

    /// Commits from an async thread.
    async fn commit(&self, transaction: Transaction) -> Result<u64, journal::Error> {
        self.options.journal.commit_async(transaction).await
    }
}

/// A message for a session.
#[derive(Clone, Debug)]
pub struct Asked {
    pub key: String,
    pub method: &'static str,
    pub session: SessionKey,
    pub text: String,
    pub origin: Origin,
    /// The chain it belongs to; else it begins one.
    pub chain: Option<Chain>,
    pub part: Option<Part>,
    pub model: Option<ModelRef>,
    pub time_ms: Option<u64>,
    pub instructions: Option<String>,
    /// Taken also where its lane is full: what it follows from was counted when it was taken.
    pub over_queue: bool,
    /// Taken only while nothing of its agent runs or waits.
    pub only_if_idle: bool,
}

impl Asked {
    /// A message of a person, to whatever the session's agent is.
    pub fn new(key: String, method: &'static str, session: SessionKey, text: String) -> Self {
        Self {
            key,
            method,
            session,
            text,
            origin: Origin::default(),
            chain: None,
            part: None,
            model: None,
            time_ms: None,
            instructions: None,
            over_queue: false,
            only_if_idle: false,
        }
    }
}

/// That a message was accepted, now or before.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub run: String,
    pub session: SessionKey,
    pub accepted_at: crate::clock::Timestamp,
    /// This key came before.
    pub again: bool,
    pub progress: Progress,
}

/// Starts the room: lanes are rebuilt from what the journal has, transcripts get what they lack. The future keeps house until `stop`.
pub fn start(
    options: Options,
    found: Found,
    stop: CancellationToken,
) -> Result<(Handle, impl Future<Output = ()> + Send), Error> {
    let (state, transaction) = store::rebuild(&options, found)?;
    if let Some(transaction) = transaction {
        options.journal.commit(transaction)?;
    }
    let (journal, steps) = (options.journal.clone(), options.journal.clone());
    let mend = Box::new(move |path: &std::path::Path, runs: &[transcript::Ended]| store::mend_from(&steps, path, runs));
    let writer = Writer::start(move |runs| store::settle(&journal, runs), mend)
        .map_err(|cause| Error::Transcript { path: options.dir.sessions(), cause })?;
    let readers = Readers::start().map_err(|cause| Error::Transcript { path: options.dir.sessions(), cause })?;
    let closed = CancellationToken::new();
    let handle = Handle(Arc::new(Shared {
        options,
        writer,
        readers,
        state: Mutex::new(state),
        ready: Notify::new(),
        news: broadcast::Sender::new(news::KEPT),
        closed,
    }));
    let keeper = handle.clone();
    Ok((handle, async move { keeper.keep_house(stop).await }))
}

impl Handle {
    /// Takes no more messages and begins no more runs.
    pub fn close(&self) {
        self.0.closed.cancel();
        self.0.ready.notify_waiters();
    }

    /// Writes what is left to write. Runs that are under way go on after the next start.
    pub async fn stop(&self) {
        self.0.writer.stop().await;
    }

    /// How a run stands; none if nobody knows it, or not any more.
    pub async fn progress(&self, run: &str) -> Result<Option<Progress>, Error> {
        let live = self.0.state().live(run).map(|live| live.progress.borrow().clone());
        if live.is_some() {
            return Ok(live);
        }
        let Some(past) = self.past(run).await? else { return Ok(None) };
        Ok(Some(match past.ended {
            Some(ended) => Progress::Ended(Arc::new(ended)),
            // It was accepted between the two looks.
            None => self.0.state().live(run).map_or(Progress::Queued, |live| live.progress.borrow().clone()),
        }))
    }

    /// Waits until a run has ended.
    pub async fn ended(&self, run: &str) -> Result<Option<Arc<Ended>>, Error> {
        let live: Option<watch::Receiver<Progress>> = self.0.state().live(run).map(|live| live.progress.subscribe());
        if let Some(mut live) = live {
            let ended = live.wait_for(|progress| matches!(progress, Progress::Ended(_))).await;
            if let Ok(Progress::Ended(ended)) = ended.map(|ended| ended.clone()) {
                return Ok(Some(ended));
            }
        }
        Ok(self.past(run).await?.and_then(|run| run.ended).map(Arc::new))
    }

    /// The record of a run that has ended.
    async fn past(&self, run: &str) -> Result<Option<Run>, Error> {
        let (journal, id) = (self.0.options.journal.clone(), run.to_owned());
        if id.is_empty() || id.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let got = tokio::task::spawn_blocking(move || journal.get(record::RUN, &id)).await;
        let found = got.map_err(|_| Error::Stopping)??;
        Ok(found.map(|found| Run::read(&found)).transpose()?)
    }

    /// The session that a run belongs to.
    pub fn session_of_run(&self, run: &str) -> Option<SessionKey> {
        let state = self.0.state();
        state
            .live(run)
            .map(|live| live.key.clone())
            .or_else(|| state.past.group(Digest::of(run)).map(|key| SessionKey::clone(key)))
    }

    /// What a run is a part of, whether or not it has ended.
    pub async fn part_of(&self, run: &str) -> Result<Option<Part>, Error> {
        let live = self.0.state().live(run).cloned();
        match live {
            Some(live) => Ok(live.run.accepted.part.clone()),
            None => Ok(self.past(run).await?.and_then(|run| run.accepted.part)),
        }
    }

    /// The chain that a run belongs to, and what it is a part of.
    pub async fn cause_of(&self, run: &str) -> Result<Option<(Chain, Option<Part>)>, Error> {
        let live = self.0.state().live(run).cloned();
        let accepted = match live {
            Some(live) => Some(live.run.accepted.clone()),
            None => self.past(run).await?.map(|run| run.accepted),
        };
        Ok(accepted.map(|accepted| (accepted.chain, accepted.part)))
    }

    /// The rows of a run that has ended, from the transcript of its session.
    pub async fn rows_of_run(&self, key: &SessionKey, session_id: &str, run: &str) -> Result<Vec<Value>, Error> {
        store::rows_of_run(&self.0, key, session_id, run).await
    }

    /// Rows of a session: the last ones, or those before a place.
    pub async fn history(&self, key: &SessionKey, asked: History) -> Result<store::Rows, Error> {
        store::history(&self.0, key, asked).await
    }

    /// The rows that a prompt is made of: back to the last new beginning, or until they weigh `tokens_max`.
    pub(crate) async fn context(&self, key: &SessionKey, tokens_max: u64) -> Result<Vec<Told>, Error> {
        store::context(&self.0, key, tokens_max).await
    }
}
