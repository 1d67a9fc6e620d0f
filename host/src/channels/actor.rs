//! The task of one adapter: everything that happens goes into its machine, and what comes out is done, in order.
//! Keeps true: one call at a time; keepalives go out while it runs; what queues up is bounded, so that sockets wait for the adapter.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chela_channel::{Adapter as Machine, Bounds, Event, Phase, Presence, Response, Standing, State, step};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::grants::{Granted, find_secrets, rates_of};
use super::secrets::Again;
use super::sockets::{Happened, Room, Socket};
use super::store::{self, Taken};
use super::{Ask, Hooked, STOP_PATIENCE, Shared};
use crate::journal::Transaction;
use crate::plugins::{self, Adapter, Aftermath, Failure, Handled, Handover, Version};
use crate::traces;

/// What sockets and requests may have ready for the adapter; then they wait.
const EVENTS_MAX: usize = 256;
/// What the frames among them may take together.
const FRAME_BYTES_ALL: u32 = 8 << 20;
const IN_PLACE_WITHIN: Duration = Duration::from_secs(2);
/// The machine's time begins here, so that what happened before this process has a time too.
const EPOCH_MS: u64 = 40 * 86_400_000;

type Called = (Adapter, Result<Handled, Failure>, bool);
type Made = Result<(Adapter, bool), Failure>;
type Pending<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

pub(super) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) name: String,
    pub(super) version: Version,
    pub(super) machine: Machine,
    /// None while it is called or made.
    pub(super) adapter: Option<Adapter>,
    pub(super) call: Pending<Called>,
    /// The span of its last call: what follows from that call is below it.
    pub(super) called_in: Option<traces::Place>,
    /// Its state as the last call left it, until that is on record.
    pub(super) left: Option<State>,
    pub(super) making: Pending<Made>,
    pub(super) granted: Granted,
    pub(super) sockets: HashMap<String, Socket>,
    /// The names of those that people see.
    shown: Vec<String>,
    pub(super) requests: JoinSet<()>,
    /// Calls that wait for their answers, with their paths.
    pub(super) webhooks: HashMap<String, (oneshot::Sender<Hooked>, String)>,
    pub(super) events: mpsc::Sender<Happened>,
    pub(super) room: Room,
    /// To whom messages go that more is to be done about.
    pub(super) taking: mpsc::Sender<Taken>,
    /// What was refused lately, so that it is told once a minute.
    pub(super) told: HashMap<String, Duration>,
    happened: mpsc::Receiver<Happened>,
    asks: mpsc::Receiver<Ask>,
    /// Messages on record found no room among what is asked.
    overfull: Arc<Notify>,
    handover: Option<Handover>,
}

impl Actor {
    pub(super) fn new(
        shared: Arc<Shared>,
        name: String,
        version: Version,
        (asks, overfull): (mpsc::Receiver<Ask>, Arc<Notify>),
        taking: mpsc::Sender<Taken>,
    ) -> Self {
        let (events, happened) = mpsc::channel(EVENTS_MAX);
        let granted = Granted::of(&shared, &name);
        let now = ms(shared.options.clock.elapsed());
        let machine = Machine::new(Bounds::default(), rates_of(&shared, &name), now);
        Self {
            shared,
            name,
            version,
            machine,
            adapter: None,
            call: None,
            called_in: None,
            left: None,
            making: None,
            granted,
            sockets: HashMap::new(),
            shown: Vec::new(),
            requests: JoinSet::new(),
            webhooks: HashMap::new(),
            events,
            room: Room::of(FRAME_BYTES_ALL),
            taking,
            told: HashMap::new(),
            happened,
            asks,
            overfull,
            handover: None,
        }
    }

    /// Runs until `stop`, or until it has ended by itself.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let (identity, now) = (self.version.identity().clone(), self.shared.now());
        self.shared.view(&self.name, |view| {
            (view.plugin, view.status, view.since) = (Some(identity), Standing::Starting, now);
        });
        self.take_up_outbox();
        self.feed(Event::Start).await;
        let mut until = None;
        let clock = self.shared.options.clock.clone();
        while self.machine.phase() != Phase::Ended {
            if let Some(handover) = self.handover.take_if(|_| self.call.is_none() && self.making.is_none()) {
                self.hand_over(handover).await;
                continue;
            }
            let due = self.machine.next_due().map(|at| Duration::from_millis(at.saturating_sub(self.now())));
            tokio::select! {
                biased;
                () = stop.cancelled(), if until.is_none() => {
                    // Real time: a gateway that stops does not wait for a clock.
                    until = Some(tokio::time::Instant::now() + STOP_PATIENCE);
                    self.feed(Event::Stop).await;
                }
                () = over(until) => break,
                called = pending(&mut self.call) => self.called(called).await,
                made = pending(&mut self.making) => self.made(made).await,
                // Before what is asked: what came later must not overtake it.
                () = self.overfull.notified() => self.take_up_overfull().await,
                ask = self.asks.recv() => match ask {
                    Some(ask) => self.ask(ask).await,
                    None => break,
                },
                () = sleep(&clock, due) => self.feed(Event::Tick).await,
                happened = self.happened.recv(), if self.machine.has_room() => {
                    if let Some(happened) = happened {
                        self.hear(happened).await;
                    }
                }
                Some(_) = self.requests.join_next(), if !self.requests.is_empty() => {}
            }
        }
        let name = self.name.clone();
        self.shared.view(&name, |view| view.connections.clear());
    }

    pub(super) fn now(&self) -> u64 {
        ms(self.shared.options.clock.elapsed())
    }

    /// Everything that is on record and not delivered.
    fn waiting(&self) -> Vec<store::Posted> {
        let state = self.shared.state();
        state.outbox.get(&self.name).map(|all| all.in_order.values().cloned().collect()).unwrap_or_default()
    }

    /// Takes up what found no room, and then what is asked, so that there is room again.
    async fn take_up_overfull(&mut self) {
        for posted in self.waiting() {
            let event = self.deliver(posted);
            self.feed(event).await;
        }
        for _ in 0..super::ASKS_MAX {
            let Ok(ask) = self.asks.try_recv() else { return };
            self.ask(ask).await;
        }
    }

    fn is_waiting(&self, id: &str) -> bool {
        self.shared.state().outbox.get(&self.name).is_some_and(|outbox| outbox.get(id).is_some())
    }

    /// Gives the machine what is on record, before its start.
    fn take_up_outbox(&mut self) {
        for posted in self.waiting() {
            let (event, now) = (self.deliver(posted), self.now());
            // Before its start nothing follows from a message.
            let _ = step(&mut self.machine, event, 0, now);
        }
    }

    fn deliver(&self, posted: store::Posted) -> chela_channel::Event {
        let age = self.shared.now().0.saturating_sub(posted.at.0);
        Event::Deliver { outbound: posted.outbound, since: self.now().saturating_sub(age) }
    }

    /// Moves the machine, and does what follows, until nothing more does.
    pub(super) async fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if let Event::Closed { connection, epoch, .. } = &event {
                self.drop_socket(connection, *epoch);
            }
            let seed = getrandom::u64().unwrap_or(0);
            let now = self.now();
            let effects = step(&mut self.machine, event, seed, now);
            for effect in effects {
                if !self.perform(effect, &mut events).await {
                    break;
                }
            }
        }
        self.show_connections();
    }

    /// Takes up what a socket or a request tells. What was refused only on its way, such as an inner address behind a granted name, is told
    /// like all that is not granted.
    async fn hear(&mut self, Happened { event, room }: Happened) {
        match &event {
            Event::Closed { reason, refused: true, .. } => self.denied("socket", reason),
            Event::Response(Response { error, refused: true, .. }) => self.denied("request", error),
            _ => {}
        }
        self.feed(event).await;
        drop(room);
    }

    /// What is left of a socket that has ended; one of the same name may be open by now.
    pub(super) fn drop_socket(&mut self, connection: &str, epoch: u64) {
        if self.sockets.get(connection).is_some_and(|socket| socket.epoch == epoch) {
            self.sockets.remove(connection);
        }
    }

    fn show_connections(&mut self) {
        let same =
            self.shown.len() == self.sockets.len() && self.shown.iter().all(|name| self.sockets.contains_key(name));
        if !same {
            self.shown = self.sockets.keys().cloned().collect();
            self.shown.sort();
            let names = self.shown.clone();
            self.shared.view(&self.name, |view| view.connections = names);
        }
    }

    async fn ask(&mut self, ask: Ask) {
        match ask {
            // What found no room took all that was on record along, and that may be done by now.
            Ask::Deliver(posted) if !self.is_waiting(&posted.outbound.id) => {}
            Ask::Deliver(posted) => {
                let event = self.deliver(posted);
                self.feed(event).await;
            }
            Ask::Typing { target, typing } => self.feed(Event::Presence(Presence { target, typing })).await,
            Ask::Webhook { request, answer } => {
                if self.lacks_signature(&request) {
                    self.refused_call(&request.path, "it lacks the signature that the grants ask for");
                }
                self.webhooks.insert(request.id.clone(), (answer, request.path.clone()));
                self.feed(Event::Webhook(request)).await;
            }
            Ask::Handover(handover) => self.handover = Some(handover),
            Ask::Restart => self.feed(Event::Restart).await,
            Ask::LookAtSecrets => self.look_at_secrets().await,
            // Older ones are those that it has left behind itself.
            Ask::Use(version) if version.id() > self.version.id() => {
                self.version = version;
                self.feed(Event::Restart).await;
            }
            Ask::Use(_) => {}
        }
    }

    /// Begins anew with secrets that are others now. Where one is gone all stay, as they do after a bad configuration.
    async fn look_at_secrets(&mut self) {
        let found = find_secrets(&self.shared, &self.name);
        match self.granted.secrets.again(&found) {
            Again::Same => {}
            Again::Other => {
                tracing::info!(channel = self.name, "its secrets have changed; it begins anew with them");
                self.feed(Event::Restart).await;
            }
            Again::Gone(said) => self.shared.refuse(&self.name, "secret", &said, serde_json::json!({})),
        }
    }

    async fn called(&mut self, (adapter, outcome, probation): Called) {
        self.call = None;
        self.adapter = Some(adapter);
        match outcome {
            Ok(Handled { outputs, state, .. }) => {
                self.left = state;
                self.feed(Event::Called { outputs, probation }).await;
                self.left = None;
            }
            Err(failure) => self.failed(failure).await,
        }
    }

    /// A call failed: the version before goes on where there is one, else this one rests.
    pub(super) async fn failed(&mut self, failure: Failure) {
        self.adapter = None;
        let said = failure.to_string();
        let plugins = self.shared.options.plugins.clone();
        let again = match plugins.adapter_failed(&self.name, &self.version, &failure).await {
            Aftermath::Rest => false,
            Aftermath::Quarantined => return Box::pin(self.give_up(said)).await,
            Aftermath::RolledBack(version) => {
                let state = self.shared.state().states.get(&self.name).cloned();
                self.version = version;
                self.note_version();
                match plugins.adapter(&self.name, &self.version, state).await {
                    Ok(adapter) => {
                        self.adapter = Some(adapter);
                        true
                    }
                    Err(_) => false,
                }
            }
        };
        Box::pin(self.feed(Event::Failed { said, again })).await;
    }

    /// It is in quarantine: an operator who releases it begins it again.
    async fn give_up(&mut self, said: String) {
        self.feed(Event::Failed { said, again: false }).await;
        self.feed(Event::Stop).await;
    }

    /// Begins to make an instance of the version that serves, going on from the last checkpoint.
    pub(super) fn make(&mut self) {
        self.granted = Granted::of(&self.shared, &self.name);
        let now = self.now();
        self.machine.allow(rates_of(&self.shared, &self.name), now);
        self.adapter = None;
        self.call = None;
        let plugins = self.shared.options.plugins.clone();
        let serving = plugins.channels().into_iter().find(|(name, _)| *name == self.name);
        if let Some((_, Ok(version))) = serving
            && version.id() > self.version.id()
        {
            self.version = version;
        }
        self.note_version();
        let (name, version) = (self.name.clone(), self.version.clone());
        let state = self.shared.state().states.get(&name).cloned();
        let shared = self.shared.clone();
        self.making = Some(Box::pin(async move {
            let restored = state.is_some();
            match plugins.adapter(&name, &version, state).await {
                Ok(adapter) => Ok((adapter, restored)),
                // It cannot read what an earlier version left: better to begin anew than not at all.
                Err(Failure::Declined { said }) if restored => {
                    shared.refuse(&name, "state", &said, serde_json::json!({ "fresh": true }));
                    Ok((plugins.adapter(&name, &version, None).await?, false))
                }
                Err(failure) => Err(failure),
            }
        }));
    }

    async fn made(&mut self, made: Made) {
        self.making = None;
        match made {
            Ok((adapter, restored)) => {
                self.adapter = Some(adapter);
                self.feed(Event::Made { restored }).await;
            }
            Err(failure) => {
                let plugins = self.shared.options.plugins.clone();
                let said = failure.to_string();
                match plugins.adapter_failed(&self.name, &self.version, &failure).await {
                    Aftermath::Quarantined => self.give_up(said).await,
                    Aftermath::Rest | Aftermath::RolledBack(_) => self.feed(Event::Unmade { said }).await,
                }
            }
        }
    }

    /// Lets a new version take over, between two calls.
    async fn hand_over(&mut self, handover: Handover) {
        let Handover { version, fresh, answer, .. } = handover;
        let plugins = self.shared.options.plugins.clone();
        if fresh || self.machine.phase() != Phase::Live || self.adapter.is_none() {
            if answer.send(Ok(())).is_err() {
                return;
            }
            if fresh {
                self.forget_state().await;
            }
            self.version = version;
            self.feed(Event::Restart).await;
            return;
        }
        let Some(serving) = &mut self.adapter else { return };
        let state = match serving.snapshot().await {
            Ok(state) => state,
            Err(failure) => {
                drop(answer.send(Err(format!("the version that serves gives no state: {failure}"))));
                self.failed(failure).await;
                return;
            }
        };
        match plugins.adapter(&self.name, &version, Some(state.clone())).await {
            Ok(adapter) => {
                // Whoever asked may have given up: then nothing changes.
                if answer.send(Ok(())).is_err() {
                    return;
                }
                self.adapter = Some(adapter);
                self.version = version;
                self.note_version();
                self.keep_state(state).await;
                in_place(plugins, self.name.clone(), self.version.id()).await;
                self.feed(Event::Swapped).await;
            }
            Err(failure) => drop(answer.send(Err(failure.to_string()))),
        }
    }

    /// Tells the rest of the room which version this is.
    fn note_version(&self) {
        let (id, identity) = (self.version.id(), self.version.identity().clone());
        if let Some(running) = self.shared.state().running.get_mut(&self.name) {
            running.version = id;
        }
        self.shared.view(&self.name, |view| view.plugin = Some(identity));
    }

    async fn keep_state(&mut self, state: State) {
        let mut transaction = Transaction::default();
        let plugin = plugin_words(&self.version);
        let put = store::put_state(&mut transaction, &self.name, plugin, &state, self.shared.now());
        self.shared.state().states.insert(self.name.clone(), state);
        self.commit_plainly(put.map(|()| transaction)).await;
    }

    async fn forget_state(&mut self) {
        let mut transaction = Transaction::default();
        let dropped = store::drop_state(&mut transaction, &self.name);
        self.shared.state().states.remove(&self.name);
        self.commit_plainly(dropped.map(|()| transaction)).await;
    }

    async fn commit_plainly(&mut self, transaction: Result<Transaction, crate::journal::Error>) {
        let committed = match transaction {
            Ok(transaction) => self.shared.options.journal.commit_async(transaction).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = committed {
            // An older state is on record: the adapter goes on from that after a crash.
            tracing::error!(channel = self.name, error = &error as &dyn std::error::Error, "a state was not kept");
        }
    }
}

/// Until the slot has the version that took over: a failure of it before that would not lead back to the one before.
async fn in_place(plugins: plugins::Handle, name: String, id: u64) {
    let mut changes = plugins.channel_changes();
    let waiting = async {
        loop {
            let mut serving = plugins.channels().into_iter().filter(|(channel, _)| *channel == name);
            let is_there = serving.any(|(_, serving)| serving.is_ok_and(|version| version.id() >= id));
            if is_there || changes.changed().await.is_err() {
                return;
            }
        }
    };
    // Real time: it is a matter of microseconds, and nothing else is done meanwhile.
    let _ = tokio::time::timeout(IN_PLACE_WITHIN, waiting).await;
}

/// A version as a record names it.
pub(super) fn plugin_words(version: &Version) -> String {
    let identity = version.identity();
    format!("{} {} {}", identity.name, identity.version, identity.hash)
}

fn ms(elapsed: Duration) -> u64 {
    EPOCH_MS + u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX / 2)
}

pub(super) async fn sleep(clock: &crate::clock::Clock, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due).await,
        None => std::future::pending().await,
    }
}

async fn over(until: Option<tokio::time::Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn pending<T>(future: &mut Pending<T>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
