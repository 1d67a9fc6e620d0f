//! Channels: chat networks whose adapters are components. One task owns each adapter and does what it asks, under the deployment's grants.
//! Owns sockets, timers and requests of adapters, their states, and messages in and out. Keeps true: what an adapter answers is on record
//! before any of it is done; a message of a person becomes a run once; a message for people is delivered or refused, over crashes too; a
//! secret goes only where it is granted for. Never: knows a network.

mod actor;
mod commit;
mod expected;
mod expiry;
mod grants;
mod perform;
mod programs;
mod queue;
mod replies;
mod routing;
mod sayings;
mod secrets;
mod sent;
mod shown;
mod sockets;
mod store;
mod supervisor;
mod take;
mod unasked;
mod unpack;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chela_channel::{DELIVERIES_MAX, Outbound, Standing, State, WEBHOOK_MS, WebhookRequest, is_target};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::bus::{Bus, data};
use crate::clock::{Clock, Timestamp};
use crate::config::{Locale, Webhook};
use crate::continuation;
use crate::event::Kind;
use crate::humans;
use crate::id;
use crate::jobs;
use crate::journal::{self, Transaction};
use crate::layout::StateDir;
use crate::metrics::{ChannelMessage, Metrics, Word};
use crate::plugins;
use crate::sessions;
use crate::settings;
use crate::tasks;

use store::{Posted, Reply};

pub use store::{Found, read};

/// What may wait for one adapter.
const ASKS_MAX: usize = 1_024;
/// What the bodies of all webhook calls under way may take together.
const HOOK_BYTES_ALL: usize = 64 * 1024 * 1024;
/// How long a webhook call waits for its answer.
const WEBHOOK_PATIENCE: Duration = Duration::from_millis(WEBHOOK_MS);
/// How long a channel may take to say goodbye.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no channel {0:?}; `chela channel list` shows those there are")]
    Unknown(String),
    #[error("{0:?} is no place of a channel; write `channel:ID`, `channel:ID:thread:ID` or `direct:ID`")]
    BadTarget(String),
    #[error("a message needs a text")]
    Empty,
    #[error("the key {key:?} belongs to a message for {first}; one for {second} needs a key of its own")]
    KeyTaken { key: String, first: String, second: String },
    #[error("{waiting} messages wait in the channel {channel} already; try again when it has caught up")]
    Full { channel: String, waiting: usize },
    #[error("the channel {0} does not run: {1}")]
    NotRunning(String, String),
    #[error("no webhook is granted at this path; an operator can add it to `channels.{0}.grants.webhooks`")]
    NoWebhook(String),
    #[error("the adapter of {0} gave no answer")]
    Unanswered(String),
    #[error("the gateway is stopping; try again when it is back")]
    Stopping,
    #[error(transparent)]
    Journal(#[from] journal::Error),
}

impl Error {
    /// Whether the one who asks can mend it.
    pub fn is_callers(&self) -> bool {
        !matches!(self, Self::Stopping | Self::Journal(_) | Self::Unanswered(_))
    }
}

/// What the room is built from.
pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    pub bus: Bus,
    pub metrics: Metrics,
    pub settings: settings::Handle,
    pub journal: journal::Handle,
    pub plugins: plugins::Handle,
    pub tasks: tasks::Handle,
    pub sessions: sessions::Handle,
    pub jobs: jobs::Handle,
    pub humans: humans::Handle,
    pub continuation: continuation::Handle,
}

/// The way to the channels; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    options: Options,
    state: Mutex<Kept>,
    /// A question was shown that may be over already.
    look_at_shown: Notify,
    /// Messages are on record that found no room where they are taken up.
    left_taken: AtomicBool,
    /// What webhook calls under way may take of memory.
    hook_bytes: Arc<Semaphore>,
}

/// What the room knows beside its adapters.
#[derive(Default)]
struct Kept {
    running: BTreeMap<String, Running>,
    views: BTreeMap<String, View>,
    /// The last checkpoint of each.
    states: HashMap<String, State>,
    /// Messages that are not delivered, by channel.
    outbox: HashMap<String, Outbox>,
    /// Where the replies of runs go.
    replies: HashMap<String, Reply>,
    /// Of those, the runs whose messages are on their way to their sessions.
    coming: HashSet<String>,
    /// Messages that show questions to people.
    shown: HashMap<String, shown::Shown>,
    /// Where programs talk.
    programs: programs::Programs,
    /// Messages that operators sent lately.
    sent: sent::Lately,
    /// Keys of webhooks that were read lately, by channel and name.
    hook_keys: HashMap<(String, String), grants::HookKey>,
}

/// Messages of one channel that are not delivered, in order.
#[derive(Default)]
struct Outbox {
    in_order: BTreeMap<u64, Posted>,
    /// The place of each by its id.
    places: HashMap<String, u64>,
    last: u64,
}

impl Outbox {
    fn keep(&mut self, posted: Posted) {
        self.last += 1;
        self.places.insert(posted.outbound.id.clone(), self.last);
        self.in_order.insert(self.last, posted);
    }

    fn get(&self, id: &str) -> Option<&Posted> {
        self.in_order.get(self.places.get(id)?)
    }

    fn forget(&mut self, id: &str) -> Option<Posted> {
        self.in_order.remove(&self.places.remove(id)?)
    }
}

/// An adapter that runs.
#[derive(Clone)]
struct Running {
    asks: mpsc::Sender<Ask>,
    /// Told when a message on record found no room there.
    overfull: Arc<Notify>,
    version: u64,
}

/// What is asked of an adapter's task.
enum Ask {
    Deliver(Posted),
    Typing {
        target: String,
        typing: bool,
    },
    Webhook {
        request: WebhookRequest,
        answer: oneshot::Sender<Hooked>,
    },
    Handover(plugins::Handover),
    /// What it may reach or use has changed, or an operator says so.
    Restart,
    /// Its secrets may be others now.
    LookAtSecrets,
    /// Another version serves.
    Use(plugins::Version),
}

/// The answer to a webhook call.
#[derive(Clone, Debug)]
pub struct Hooked {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// What people see of a channel.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub channel: String,
    /// One word, the same everywhere: `starting`, `ready`, `degraded`, `needs-auth` or `stopped`.
    pub status: Standing,
    pub detail: String,
    pub since: Timestamp,
    pub plugin: Option<plugins::Identity>,
    pub connections: Vec<String>,
    pub undelivered: usize,
    pub received: u64,
    pub delivered: u64,
    pub refused: u64,
    pub restarts: u64,
}

impl View {
    fn new(channel: &str, since: Timestamp) -> Self {
        Self {
            channel: channel.to_owned(),
            status: Standing::Starting,
            detail: String::new(),
            since,
            plugin: None,
            connections: Vec::new(),
            undelivered: 0,
            received: 0,
            delivered: 0,
            refused: 0,
            restarts: 0,
        }
    }
}

/// Starts the room. The future runs every adapter until `stop`.
pub fn start(options: Options, found: Found, stop: CancellationToken) -> (Handle, impl Future<Output = ()> + Send) {
    let mut kept = Kept { states: found.states.into_iter().collect(), ..Kept::default() };
    kept.sent = sent::Lately::of(found.sent);
    for posted in found.outbox {
        kept.keep(posted);
    }
    // What is taken up again has no run yet; its reply is waited for all the same.
    let is_begun = |run: &String| options.sessions.session_of_run(run).is_some();
    kept.coming = found.inbox.iter().map(store::Taken::key).filter(|run| !is_begun(run)).collect();
    kept.shown = found.shown.into_iter().map(|shown| (shown.id.clone(), shown)).collect();
    kept.replies = found.replies.into_iter().map(|reply| (reply.run.clone(), reply)).collect();
    let handovers = options.plugins.handovers();
    let handle = Handle(Arc::new(Shared {
        options,
        state: Mutex::new(kept),
        look_at_shown: Notify::new(),
        left_taken: AtomicBool::new(false),
        hook_bytes: Arc::new(Semaphore::new(HOOK_BYTES_ALL)),
    }));
    let supervisor = supervisor::Supervisor::new(handle.0.clone(), handovers);
    let (replies, taking) = (replies::follow(handle.0.clone(), found.of_jobs, stop.clone()), found.inbox);
    (handle, async move {
        tokio::join!(supervisor.run(taking, stop), replies);
    })
}

impl Kept {
    fn keep(&mut self, posted: Posted) {
        self.outbox.entry(posted.channel.clone()).or_default().keep(posted);
    }

    fn undelivered(&self, channel: &str) -> usize {
        self.outbox.get(channel).map_or(0, |outbox| outbox.in_order.len())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Kept> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    fn locale(&self) -> Locale {
        self.options.settings.current().config.deployment.locale
    }

    fn view(&self, channel: &str, change: impl FnOnce(&mut View)) {
        let now = self.now();
        let mut state = self.state();
        change(state.views.entry(channel.to_owned()).or_insert_with(|| View::new(channel, now)));
    }

    fn count(&self, channel: &str, what: &'static str) {
        let label = ChannelMessage { channel: channel.to_owned(), what: Word(what) };
        self.options.metrics.channel_messages.get_or_create(&label).inc();
    }

    /// Tells that something was not done.
    fn refuse(&self, channel: &str, what: &str, said: &str, more: Value) {
        tracing::warn!(channel, what, said, "refused");
        let mut facts = data(json!({ "channel": channel, "what": what, "reason": said }));
        facts.extend(data(more));
        self.options.bus.tell(Kind::ChannelRefused, facts);
    }

    /// Fails where no more messages may wait.
    fn room(&self, channel: &str) -> Result<(), Error> {
        let waiting = self.state().undelivered(channel);
        match waiting < DELIVERIES_MAX {
            true => Ok(()),
            false => Err(Error::Full { channel: channel.to_owned(), waiting }),
        }
    }

    /// Puts a message for people on record, with what else belongs to it; then it is on its way.
    async fn post(&self, posted: Posted, transaction: Transaction) -> Result<(), Error> {
        self.room(&posted.channel)?;
        self.post_all(vec![posted], transaction).await
    }

    /// The same for several, for which there is room.
    async fn post_all(&self, posts: Vec<Posted>, mut transaction: Transaction) -> Result<(), Error> {
        for posted in &posts {
            store::put_posted(&mut transaction, posted)?;
        }
        self.options.journal.commit_async(transaction).await?;
        for posted in posts {
            let running = {
                let mut state = self.state();
                state.keep(posted.clone());
                state.running.get(&posted.channel).cloned()
            };
            if let Some(running) = running {
                // Nobody waits for an adapter, least of all its own task. One that just ended finds it on record.
                if let Err(TrySendError::Full(_)) = running.asks.try_send(Ask::Deliver(posted)) {
                    running.overfull.notify_one();
                }
            }
        }
        Ok(())
    }
}

impl Handle {
    /// Every channel, as people see it.
    pub fn list(&self) -> Vec<View> {
        let now = self.0.now();
        let slots = self.0.options.plugins.channels();
        let state = self.0.state();
        let view = |(name, serving): (String, Result<plugins::Version, String>)| {
            let mut view = state.views.get(&name).cloned().unwrap_or_else(|| View::new(&name, now));
            if let Err(said) = &serving {
                (view.status, view.detail) = (Standing::Stopped, said.clone());
            }
            view.plugin = serving.ok().map(|version| version.identity().clone());
            view.undelivered = state.undelivered(&name);
            view
        };
        slots.into_iter().map(view).collect()
    }

    pub fn get(&self, name: &str) -> Result<View, Error> {
        let found = self.list().into_iter().find(|view| view.channel == name);
        found.ok_or_else(|| Error::Unknown(name.chars().take(80).collect()))
    }

    /// Begins a channel anew, as it was last checkpointed.
    pub async fn restart(&self, name: &str) -> Result<View, Error> {
        let view = self.get(name)?;
        let running = self.0.state().running.get(name).cloned();
        let running = running.ok_or_else(|| Error::NotRunning(name.to_owned(), view.detail.clone()))?;
        let ending = || "it is ending; look again in a moment".to_owned();
        running.asks.send(Ask::Restart).await.map_err(|_| Error::NotRunning(name.to_owned(), ending()))?;
        Ok(view)
    }

    /// Sends a message to people. When this answers, it is on record. A key that came within a week is the same message.
    pub async fn send(&self, name: &str, target: &str, text: String, key: Option<String>) -> Result<String, Error> {
        self.get(name)?;
        if !is_target(target) {
            return Err(Error::BadTarget(target.chars().take(80).collect()));
        }
        if text.trim().is_empty() {
            return Err(Error::Empty);
        }
        let at = self.0.now();
        let id = key.map_or_else(|| id::fresh(at).to_string(), |key| sent::id_of(&key));
        let outbound = message(id.clone(), target.to_owned(), text, String::new());
        sent::send_once(&self.0, Posted { channel: name.to_owned(), outbound, at }).await?;
        Ok(id)
    }

    /// A network calls one of an adapter's paths.
    pub async fn webhook(&self, name: &str, request: WebhookRequest) -> Result<Hooked, Error> {
        let running = self.0.state().running.get(name).cloned();
        let running = running.ok_or_else(|| Error::Unknown(name.chars().take(80).collect()))?;
        let (answer, answered) = oneshot::channel();
        let sent = running.asks.try_send(Ask::Webhook { request, answer });
        sent.map_err(|_| Error::Unanswered(name.to_owned()))?;
        match tokio::time::timeout(WEBHOOK_PATIENCE, answered).await {
            Ok(Ok(hooked)) => Ok(hooked),
            _ => Err(Error::Unanswered(name.to_owned())),
        }
    }

    /// The rule for calls of a path, where a webhook is granted there; to be asked before anything of a call is read.
    pub fn granted_webhook(&self, name: &str, path: &str) -> Result<Webhook, Error> {
        grants::webhook(&self.0, name, path)
    }

    /// Room for a call of so many bytes, until that is dropped; none while other calls take all there is.
    pub fn room_for_call(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.0.hook_bytes.clone().try_acquire_many_owned(bytes).ok()
    }

    /// Whether a call of a webhook is the network's own.
    pub async fn verify(
        &self,
        name: &str,
        webhook: &Webhook,
        header: impl Fn(&str) -> Option<String>,
        body: &[u8],
    ) -> bool {
        grants::verify(&self.0, name, webhook, header, body).await
    }
}

/// A plain message.
fn message(id: String, target: String, text: String, reply_to: String) -> Outbound {
    Outbound { id, target, text, reply_to, edits: Vec::new(), question: None }
}
