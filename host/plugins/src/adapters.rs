//! Adapters of channels: one instance each, with a state. Calls run on threads of their own, one at a time for each adapter.
//! Keeps true: an instance that was cut off is never called again; a new version takes over only when whoever holds the old one agrees.

pub(super) mod trial;
mod words;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use chela_channel::{Input, Output, State};
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};

use super::failure::Failure;
use super::generation::{Generation, Identity};
use super::instance::{Instance, Surroundings, Unmade};
use super::room::Room;
use super::slots::{Idle, Response, SlotName};
use super::threads::cores;
use super::{Error, Handle};
use crate::event::Kind;

/// Calls that may wait for a thread: each adapter has one at most.
const WAITING_MAX: usize = 1_024;
/// A thread that is held up by one adapter leaves others for the rest.
const THREADS_MIN: usize = 4;
const STACK_BYTES: usize = 4 * 1024 * 1024;
/// Handovers that may wait; the loader makes one at a time.
const HANDOVERS_MAX: usize = 4;
/// A call under way ends by then.
const HANDOVER_PATIENCE: Duration = Duration::from_secs(45);
const STATE_BYTES_MAX: usize = 4 * 1024 * 1024;
const SCHEMA_BYTES_MAX: usize = 128;

type Job = Box<dyn FnOnce() + Send>;

/// The threads, and who is asked before a version takes over.
pub(super) struct Adapters {
    crew: Arc<Mutex<Crew>>,
    handles: Mutex<Vec<JoinHandle<()>>>,
    handovers: Mutex<Option<mpsc::Sender<Handover>>>,
    changes: watch::Sender<u64>,
}

/// Who works and what waits. Of the threads that are free the one is taken that worked last: what an adapter touches is still at hand there,
/// and one that is woken for nothing would be in its way.
#[derive(Default)]
struct Crew {
    waiting: VecDeque<Job>,
    free: Vec<SyncSender<Job>>,
    stopping: bool,
}

impl Crew {
    fn give(&mut self, job: Job) -> Result<(), Failure> {
        if self.stopping {
            return Err(Failure::Stopping);
        }
        match self.free.pop() {
            // A thread that is free waits for exactly one.
            Some(thread) => thread.send(job).map_err(|_| Failure::Stopping),
            None if self.waiting.len() >= WAITING_MAX => Err(Failure::Busy { waited: Duration::ZERO }),
            None => {
                self.waiting.push_back(job);
                Ok(())
            }
        }
    }

    /// What a thread that has nothing to do does next: what waits longest, or it is free from now on. False once it is over.
    fn free(&mut self, thread: &SyncSender<Job>) -> bool {
        match self.waiting.pop_front() {
            Some(job) => thread.send(job).is_ok(),
            None if self.stopping => false,
            None => {
                self.free.push(thread.clone());
                true
            }
        }
    }
}

/// A new version wants to take over a channel. Whoever holds the adapter answers.
pub struct Handover {
    pub channel: String,
    pub version: Version,
    /// It is to begin anew.
    pub fresh: bool,
    pub answer: SyncSender<Result<(), String>>,
}

/// One version of a channel's component.
#[derive(Clone)]
pub struct Version(Arc<Generation>);

impl Version {
    /// Never the same twice within a process.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }
}

/// What the slot made of a failure.
pub enum Aftermath {
    /// It is started again after a while.
    Rest,
    /// The version before serves again.
    RolledBack(Version),
    /// It serves no more until an operator says so.
    Quarantined,
}

/// What an adapter came to.
pub struct Answered {
    pub outputs: Vec<Output>,
    /// All that the next instance must know, where it is to be kept now.
    pub state: Option<State>,
    /// What it took on its thread; the way there and back comes on top.
    pub took: Duration,
}

/// An instance with a state.
pub struct Adapter {
    room: Arc<Room>,
    version: Version,
    channel: String,
    /// None once it was cut off.
    instance: Option<Instance>,
}

impl Adapters {
    pub(super) fn start() -> std::io::Result<Self> {
        let crew = Arc::new(Mutex::new(Crew::default()));
        let mut handles = Vec::new();
        for n in 0..cores().max(THREADS_MIN) {
            let crew = crew.clone();
            let thread = Builder::new().name(format!("chela-channel-{n}")).stack_size(STACK_BYTES);
            handles.push(thread.spawn(move || work(&crew))?);
        }
        Ok(Self { crew, handles: Mutex::new(handles), handovers: Mutex::new(None), changes: watch::Sender::new(0) })
    }

    /// Runs guest code on a thread of its own; none when there is no place for it, or the room stops.
    async fn run<T: Send + 'static>(&self, code: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move || drop(answer.send(code())));
        lock(&self.crew).give(job)?;
        answered.await.map_err(|_| Failure::Stopping)
    }

    pub(super) fn stop(&self) {
        let mut crew = lock(&self.crew);
        crew.stopping = true;
        // What waits is still done; who is free hears that it is over.
        crew.free.clear();
        drop(crew);
        for handle in std::mem::take(&mut *lock(&self.handles)) {
            if handle.join().is_err() {
                tracing::error!("a thread of channels had died");
            }
        }
    }
}

fn work(crew: &Mutex<Crew>) {
    loop {
        // One of its own each time: when the crew lets go of it, that is the end.
        let (thread, inbox) = sync_channel::<Job>(1);
        let goes_on = lock(crew).free(&thread);
        drop(thread);
        let Some(job) = goes_on.then(|| inbox.recv().ok()).flatten() else { return };
        // A fault of ours in one call must not end the thread; the hook has told of it.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Room {
    /// What serves a channel may be another one now.
    pub(super) fn channels_changed(&self) {
        self.adapters.changes.send_modify(|changes| *changes += 1);
    }

    /// Lets a new version take over from the one that serves, if that is one with a state. Not for an async thread.
    pub(super) fn hand_over(&self, slot: &SlotName, new: &Arc<Generation>, fresh: bool) -> Result<(), Error> {
        let SlotName::Channel(channel) = slot else { return Ok(()) };
        let Some(handovers) = lock(&self.adapters.handovers).clone() else { return Ok(()) };
        let (answer, answered) = sync_channel(1);
        let handover = Handover { channel: channel.clone(), version: Version(new.clone()), fresh, answer };
        if handovers.blocking_send(handover).is_err() {
            return Ok(());
        }
        let refused = |said: String| Error::Handover { slot: slot.to_string(), said };
        match answered.recv_timeout(HANDOVER_PATIENCE) {
            Ok(answer) => answer.map_err(refused),
            Err(RecvTimeoutError::Timeout) => Err(refused("the adapter was busy for too long".into())),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Stopping),
        }
    }
}

impl Handle {
    /// Every channel that has a slot, with the version that serves, or why none does.
    pub fn channels(&self) -> Vec<(String, Result<Version, String>)> {
        let slots = self.0.room.slots();
        let of_slot = slots.iter().filter_map(|slot| match &slot.name {
            SlotName::Channel(name) => {
                let serving = slot.component().map(Version).map_err(|idle| match idle {
                    Idle::Empty => {
                        format!("no component is bound; `chela plugin load FILE --slot channel:{name}` binds one")
                    }
                    idle => idle.words(),
                });
                Some((name.clone(), serving))
            }
            _ => None,
        });
        of_slot.collect()
    }

    /// Tells whenever another version may serve a channel.
    pub fn channel_changes(&self) -> watch::Receiver<u64> {
        self.0.room.adapters.changes.subscribe()
    }

    /// From now on every new version of a channel asks here before it takes over.
    pub fn handovers(&self) -> mpsc::Receiver<Handover> {
        let (sender, receiver) = mpsc::channel(HANDOVERS_MAX);
        *lock(&self.0.room.adapters.handovers) = Some(sender);
        receiver
    }

    /// An instance of a version; with a state it goes on from there.
    pub async fn adapter(&self, channel: &str, version: &Version, state: Option<State>) -> Result<Adapter, Failure> {
        let room = self.0.room.clone();
        let (generation, around) = (version.0.clone(), room.surroundings(""));
        let restoring = state.is_some();
        let made = room.adapters.run(move || {
            let mut lines = Vec::new();
            // One was made with the version, to see whether it can be; it has no state yet.
            let instance = match generation.take() {
                Some(instance) => Ok(instance),
                None => generation.make(&mut lines),
            };
            let restored = instance.map_err(failure_of).and_then(|mut instance| {
                if let Some(state) = &state {
                    words::restore(&mut instance, state, &around)?;
                }
                lines.extend(instance.take_lines());
                Ok(instance)
            });
            (restored, lines)
        });
        let (restored, lines) = made.await?;
        self.0.room.record_lines(&version.0, &lines);
        if let (Err(failure), true) = (&restored, restoring) {
            tracing::warn!(channel, %failure, "an adapter does not go on from an earlier state");
        }
        let (room, version) = (self.0.room.clone(), version.clone());
        Ok(Adapter { room, version, channel: channel.to_owned(), instance: Some(restored?) })
    }

    /// Counts and tells that an adapter failed; says what is to become of it.
    pub async fn adapter_failed(&self, channel: &str, version: &Version, failure: &Failure) -> Aftermath {
        let Some(slot) = self.0.room.slot(&SlotName::Channel(channel.to_owned())) else { return Aftermath::Rest };
        match self.note_failed(&slot, &version.0, "handle", failure).await {
            Response::Stale | Response::Fallback => Aftermath::Rest,
            Response::Quarantined => Aftermath::Quarantined,
            Response::RolledBack { to } => Aftermath::RolledBack(Version(to)),
        }
    }

    /// Tells that an adapter wanted what it was not granted.
    pub fn adapter_denied(&self, channel: &str, version: &Version, what: &str, said: &str) {
        let facts = json!({ "plugin": version.0.identity, "what": what, "reason": said });
        if let Some(slot) = self.0.room.slot(&SlotName::Channel(channel.to_owned())) {
            self.0.room.tell(Kind::PluginDenied, &slot, facts);
        }
    }
}

fn check_state(state: &State) -> Result<(), Failure> {
    if state.bytes.len() > STATE_BYTES_MAX || state.schema.len() > SCHEMA_BYTES_MAX {
        let said = format!("its state has {} bytes, and {STATE_BYTES_MAX} are allowed", state.bytes.len());
        return Err(Failure::Invalid { said });
    }
    Ok(())
}

fn failure_of(unmade: Unmade) -> Failure {
    match unmade {
        Unmade::Failed(failure) => failure,
        Unmade::Config { path, message } => {
            Failure::Declined { said: format!("it refuses its configuration at {path:?}: {message}") }
        }
    }
}

impl Adapter {
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Whether a failure now leads back to the version before.
    pub fn is_on_probation(&self) -> bool {
        let slot = self.room.slot(&SlotName::Channel(self.channel.clone()));
        slot.is_some_and(|slot| slot.is_on_probation(self.version.id()))
    }

    /// Tells it what happened; its state comes along if it says `checkpoint`, or in any case. After a failure it is of no use any more.
    pub async fn handle(&mut self, inputs: Vec<Input>, seed: u64, in_any_case: bool) -> Result<Answered, Failure> {
        let mut around = self.room.surroundings("");
        around.seed = seed;
        let from = Instant::now();
        // Both in one go: a hop between threads takes longer than most calls.
        let code = move |instance: &mut Instance, around: &Surroundings| -> Result<Answered, Failure> {
            let begun = Instant::now();
            let outputs = words::handle(instance, &inputs, around)?;
            let keeps = in_any_case || outputs.contains(&Output::Checkpoint);
            let state = if keeps { Some(words::snapshot(instance, around)?) } else { None };
            Ok(Answered { outputs, state, took: begun.elapsed() })
        };
        let answered = self.call(around, code).await?;
        answered.state.as_ref().map_or(Ok(()), check_state)?;
        if let Some(slot) = self.room.slot(&SlotName::Channel(self.channel.clone())) {
            slot.answered(self.version.id(), self.room.clock.elapsed());
            slot.stats.lock().unwrap_or_else(PoisonError::into_inner).called(from.elapsed());
            self.room.count(&slot, "answered");
        }
        Ok(answered)
    }

    /// All that the next instance must know.
    pub async fn snapshot(&mut self) -> Result<State, Failure> {
        let around = self.room.surroundings("");
        let state = self.call(around, words::snapshot).await?;
        check_state(&state)?;
        Ok(state)
    }

    async fn call<T: Send + 'static>(
        &mut self,
        around: Surroundings,
        code: impl FnOnce(&mut Instance, &Surroundings) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(mut instance) = self.instance.take() else {
            return Err(Failure::Invalid { said: "it failed before".into() });
        };
        let called = self.room.adapters.run(move || {
            let answer = code(&mut instance, &around);
            let lines = instance.take_lines();
            (answer, lines, instance.is_whole().then_some(instance))
        });
        let (answer, lines, instance) = called.await?;
        self.instance = instance;
        self.room.record_lines(&self.version.0, &lines);
        answer
    }
}
