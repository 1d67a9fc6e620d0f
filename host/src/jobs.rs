//! Flows between agents: each is a job, on record before its first message is, moved only by `chela_flow::step`.
//! Owns the records of jobs, their readable files and the outbox. Keeps true: a job that was acknowledged ends, once; a turn that was answered
//! is never asked again; a finished job never changes. Never: asks a model, or decides what a flow does next.

mod begin;
mod drive;
mod files;
mod house;
mod import;
mod kept;
mod list;
mod next;
mod remembered;
mod store;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chela_flow::{Job, Kind, Rules};
use chela_storage::{Digest, Table};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::clock::{Clock, Timestamp};
use crate::config::{Config, Language};
use crate::id::{AgentId, Packed};
use crate::journal;
use crate::layout::StateDir;
use crate::metrics::Metrics;
use crate::monitor;
use crate::sessions;
use crate::settings;
use crate::tasks;

use files::Files;
use house::Told;
use kept::Kept;
use remembered::Remembered;

pub use begin::{Begun, Cause, Reply, Send, Spawn};
pub use list::{Asked, Listed};
pub use store::{Found, Outgoing, outbox, outbox_now, read};

/// Requests about one job that may wait.
const ASKS_MAX: usize = 8;
/// Messages for people that wait for a follower; one that falls behind finds them in the outbox at the next start.
const POSTS_KEPT: usize = 4_096;
/// How long drivers may take to let go when the gateway stops.
const LET_GO: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{from} may not send to {to}: `tools.agentToAgent` of the configuration says who may; add {to} or `{from}->{to}` to `allow`"
    )]
    Forbidden { from: String, to: String },
    #[error("no agent has the id {0:?}; `chela agents` lists them")]
    UnknownAgent(String),
    #[error(
        "there is no session {0}; `sessions_list` tells which there are, and an agent's id alone is its main session"
    )]
    NoSession(String),
    #[error("this is your own session; a message to yourself would wait for itself")]
    OwnSession,
    #[error("the message is empty; say what is wanted")]
    Empty,
    #[error("{what} has 1 to 128 letters, digits or `-_.:`")]
    BadId { what: &'static str },
    #[error(transparent)]
    Chain(#[from] chela_flow::Refused),
    #[error("sub-agents may be {max} deep (`a2a.spawn.depth`), and this would be one more; do it yourself")]
    TooDeep { max: u32 },
    #[error("{max} sub-agents work for this session already (`a2a.spawn.children`); wait until one has ended")]
    TooMany { max: usize },
    #[error("no job has the id {0:?}; `chela jobs` lists them")]
    NoJob(String),
    #[error("job {id} is {status} and does not change any more{advice}")]
    Finished { id: String, status: &'static str, advice: &'static str },
    #[error("job {id} is {status}; only one that came to nothing is tried again")]
    NotOver { id: String, status: &'static str },
    #[error(
        "job {by} takes up {id} already and goes on; `chela jobs show {by}` tells how far it is, or cancel it first"
    )]
    TakenUp { id: String, by: String },
    #[error("the cursor is not one that this list gave; ask without it")]
    BadCursor,
    #[error("the gateway is stopping; send it again when it is back")]
    Stopping,
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
}

impl Error {
    /// Whether the one who asks can mend it.
    pub fn is_callers(&self) -> bool {
        match self {
            Self::Stopping | Self::Journal(_) => false,
            Self::Sessions(error) => error.is_callers(),
            _ => true,
        }
    }
}

/// What a room is built from.
pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    pub bus: Bus,
    pub metrics: Metrics,
    pub settings: settings::Handle,
    pub journal: journal::Handle,
    pub monitor: monitor::Handle,
    pub tasks: tasks::Handle,
    pub sessions: sessions::Handle,
}

/// The way to the jobs; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    options: Options,
    state: Mutex<State>,
    files: Files,
    told: Told,
    drivers: TaskTracker,
    /// Ends drivers without an end: their jobs go on after the next start.
    cut: CancellationToken,
    /// Messages for people, as they come into the outbox.
    posts: broadcast::Sender<Outgoing>,
}

/// A job that has not ended.
struct Open {
    job: watch::Sender<Arc<Job>>,
    asks: mpsc::Sender<Ask>,
    /// When something was last recorded of it, in this life of the gateway.
    touched: Mutex<Duration>,
    /// How many wait for its first reply.
    awaited: AtomicUsize,
}

/// Somebody who waits for the first reply of a job.
struct Awaits(Arc<Open>);

impl Awaits {
    fn new(open: Arc<Open>) -> Self {
        open.awaited.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for Awaits {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Open {
    fn now(&self) -> Arc<Job> {
        self.job.borrow().clone()
    }
}

/// What is asked of a driver.
enum Ask {
    Cancel { by: String, answer: oneshot::Sender<Arc<Job>> },
    Stale,
}

/// What is not over while something waits for it.
pub struct Held {
    pub work_session: Option<String>,
    pub sessions: Vec<String>,
}

#[derive(Default)]
struct State {
    open: HashMap<String, Arc<Open>>,
    /// How many of those each work session has.
    open_in: HashMap<String, usize>,
    /// How many of those are sub-agents of each agent.
    subagents: HashMap<String, usize>,
    /// And of each session.
    children: HashMap<String, usize>,
    /// Those that take up another, by the one they take up.
    retries: HashMap<String, String>,
    /// What something else keeps, by its id.
    held: HashMap<String, Held>,
    /// Every job that is kept.
    kept: Kept,
    /// When each job was made.
    made_at: Table<u64>,
    /// The job that a call has made.
    causes: Table<Packed>,
    /// The conversation of two agents in a work session.
    conversations: Remembered,
    /// The work session of a chain.
    chains: Remembered,
}

impl State {
    /// Whether a new job may be. It is opened under the same lock: of many that come at once none slips through.
    fn admit(&self, job: &Job, children_max: usize) -> Result<(), Error> {
        if job.kind == Kind::Spawn {
            self.may_have_child(&job.session_key, children_max)?;
        }
        let taken_up = job.retry_of.as_ref().and_then(|old| Some((old, self.retries.get(old)?)));
        let goes_on = |by: &String| self.open.get(by).is_some_and(|open| !open.now().status.is_terminal());
        match taken_up.filter(|(_, by)| goes_on(by)) {
            Some((old, by)) => Err(Error::TakenUp { id: old.clone(), by: by.clone() }),
            None => Ok(()),
        }
    }

    fn may_have_child(&self, parent: &str, max: usize) -> Result<(), Error> {
        match self.children.get(parent).is_some_and(|children| *children >= max) || max == 0 {
            true => Err(Error::TooMany { max }),
            false => Ok(()),
        }
    }

    fn open(&mut self, job: &Job, open: Arc<Open>) {
        if let Some(work_session) = &job.work_session_id {
            *self.open_in.entry(work_session.clone()).or_default() += 1;
            self.chains.hold(Digest::of(&job.chain.id));
        }
        if let Some(pair) = main_pair(job) {
            self.conversations.hold(pair);
        }
        if job.kind == Kind::Spawn {
            *self.subagents.entry(chela_flow::agent_of(&job.session_key).to_owned()).or_default() += 1;
            *self.children.entry(job.session_key.clone()).or_default() += 1;
        }
        if let Some(old) = &job.retry_of {
            self.retries.insert(old.clone(), job.job_id.clone());
        }
        self.open.insert(job.job_id.clone(), open);
    }

    fn close(&mut self, id: &str) {
        let Some(job) = self.open.remove(id).map(|open| open.now()) else { return };
        if let Some(work_session) = &job.work_session_id {
            take_one(&mut self.open_in, work_session);
            self.chains.release(Digest::of(&job.chain.id));
        }
        if let Some(pair) = main_pair(&job) {
            self.conversations.release(pair);
        }
        if job.kind == Kind::Spawn {
            take_one(&mut self.subagents, chela_flow::agent_of(&job.session_key));
            take_one(&mut self.children, &job.session_key);
        }
        if let Some(old) = job.retry_of.as_ref().filter(|old| self.retries.get(*old).is_some_and(|by| by == id)) {
            self.retries.remove(old);
        }
    }

    /// A step of a job that is known was taken.
    fn moved(&mut self, job: &Job) {
        if !self.kept.moved(job) {
            self.note(job);
        }
    }

    /// Keeps what is known of a job.
    fn note(&mut self, job: &Job) {
        self.kept.put(job);
        self.made_at.insert(Digest::of(&job.job_id), job.created_at);
        if let Some(cause) = &job.cause {
            self.causes.insert(Digest::of(cause), job.job_id.as_str().into());
        }
        if let Some(work_session) = &job.work_session_id {
            self.chains.put(Digest::of(&job.chain.id), work_session);
        }
        if let Some(pair) = main_pair(job) {
            self.conversations.put(pair, &job.conversation_id);
        }
    }

    /// Forgets a job.
    fn forget(&mut self, id: &str) {
        let Some(made) = self.made_at.remove(Digest::of(id)) else { return };
        let key = (made, id.into());
        let cause = self.kept.remove(&key).and_then(|brief| brief.cause);
        if let Some(cause) = cause.filter(|cause| self.causes.get(*cause) == Some(&key.1)) {
            self.causes.remove(cause);
        }
    }
}

/// Whose conversation a flow goes on with. That of a sub-agent is its own, and never the one of the two agents.
fn main_pair(job: &Job) -> Option<Digest> {
    let work_session = job.work_session_id.as_ref().filter(|_| job.kind != Kind::Spawn)?;
    Some(begin::pair_in(work_session, job))
}

/// One fewer; what is none is not counted.
fn take_one(counts: &mut HashMap<String, usize>, of: &str) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    fn rules(&self) -> Rules {
        rules(&self.options.settings.current().config)
    }
}

fn rules(config: &Config) -> Rules {
    Rules {
        language: match config.a2a.language {
            Language::Ko => chela_flow::Language::Ko,
            Language::En => chela_flow::Language::En,
        },
        wait_ms: config.a2a.wait_seconds * 1_000,
        backoff_ms: config.a2a.backoff_ms,
    }
}

/// Starts the room. The future resumes what the journal has and keeps house until `stop`.
pub fn start(
    options: Options,
    found: Found,
    stop: CancellationToken,
) -> (Handle, impl Future<Output = ()> + std::marker::Send) {
    let files = Files::start(options.dir.jobs());
    let shared = Arc::new(Shared {
        options,
        state: Mutex::default(),
        files,
        told: Told::new(found.told),
        drivers: TaskTracker::new(),
        cut: CancellationToken::new(),
        posts: broadcast::Sender::new(POSTS_KEPT),
    });
    let handle = Handle(shared);
    let resumed = handle.take_up(found);
    let keeper = handle.clone();
    (handle, async move {
        keeper.resume(resumed).await;
        keeper.keep_house(stop).await;
    })
}

impl Handle {
    /// Messages for people, as they come into the outbox from now on.
    pub fn posts(&self) -> broadcast::Receiver<Outgoing> {
        self.0.posts.subscribe()
    }

    /// Lets go of all jobs; they go on after the next start.
    pub async fn stop(&self) {
        self.0.cut.cancel();
        self.0.drivers.close();
        if tokio::time::timeout(LET_GO, self.0.drivers.wait()).await.is_err() {
            tracing::warn!(left = self.0.drivers.len(), "jobs did not let go");
        }
        self.note_told().await;
        self.0.files.stop().await;
    }

    /// Jobs that have not ended and go on.
    pub fn under_way(&self) -> usize {
        self.0.state().open.len()
    }

    /// Something keeps a work session from being over and sessions from being archived, until it is called with none.
    pub fn hold(&self, by: &str, held: Option<Held>) {
        let mut state = self.0.state();
        match held {
            Some(held) => drop(state.held.insert(by.to_owned(), held)),
            None => drop(state.held.remove(by)),
        }
    }

    /// How many sub-agents work for each agent that has some.
    pub fn subagents(&self) -> HashMap<String, usize> {
        self.0.state().subagents.clone()
    }

    /// How many sub-agents work for an agent.
    pub fn subagents_of(&self, agent: &AgentId) -> usize {
        self.0.state().subagents.get(agent.as_ref()).copied().unwrap_or(0)
    }

    /// Waits until a job has ended.
    pub async fn ended(&self, id: &str) -> Result<Option<Arc<Job>>, Error> {
        if let Some(mut job) = self.watch(id) {
            // A driver that lets go of its job does so with the gateway.
            let _ = job.wait_for(|job| job.status.is_terminal()).await;
        }
        self.get(id).await
    }

    /// A job at each of its steps, while it has not ended.
    pub fn watch(&self, id: &str) -> Option<watch::Receiver<Arc<Job>>> {
        self.0.state().open.get(id).map(|open| open.job.subscribe())
    }

    /// A job as it stands.
    pub async fn get(&self, id: &str) -> Result<Option<Arc<Job>>, Error> {
        let open = self.0.state().open.get(id).map(|open| open.now());
        if open.is_some() {
            return Ok(open);
        }
        if !self.0.state().made_at.contains(Digest::of(id)) {
            return Ok(None);
        }
        let (journal, id) = (self.0.options.journal.clone(), id.to_owned());
        let got = tokio::task::spawn_blocking(move || store::get(&journal, &id)).await;
        Ok(got.map_err(|_| Error::Stopping)??.map(Arc::new))
    }
}
