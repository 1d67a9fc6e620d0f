//! Components: what runs the deployment's policies. Alone knows wasmtime.
//! Owns the engine, its own threads, the slots, `plugins/` and `decisions/`. Keeps true: guest code runs on threads of this room alone;
//! a component's trap, limit or refusal is a value here, and an answer comes all the same; what served before a failed change still serves.
//! Never: decides what a policy means, or lets a guest touch anything outside its arguments.

mod bindings;
mod cache;
mod dispatch;
mod engine;
mod error;
mod failure;
mod fallback;
mod generation;
mod health;
mod inspect;
mod instance;
mod loader;
mod record;
mod records;
mod shadow;
mod slots;
mod source;
mod stage;
mod stats;
mod threads;
mod workbench;
mod wasi;
mod worlds;

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::bus::{Bus, data};
use crate::clock::{Clock, Timestamp};
use crate::config::{OnFailure, Switch};
use crate::event::{Kind, Role};
use crate::layout::StateDir;
use crate::metrics::{Metrics, PluginCall, Word};
use crate::policy::{
    Action, Actor, CategoriesInput, Classification, Conversation, EventFacts, InstructionsInput, NextInput, RolesInput,
    ToolCall, Verdict,
};
use crate::settings;
use crate::watch::Watcher;
use loader::{Command, Loader, Request};
use slots::{Idle, Response, Slot};
use worlds::{BeforeToolCall, Call, Categories, Instructions, Next, Roles};

pub use cache::{CompileError, compile};
pub use dispatch::EXPORTS;
pub use error::Error;
pub use failure::{Failure, Limit};
pub use generation::Identity;
pub use inspect::{Inspection, POLICY_VERSION, Refused};
pub use loader::{From, Load};
pub use record::Recorded;
pub use slots::{NoSuchSlot, SlotName, View, Waiting};
pub use source::builtin_names;
pub use workbench::{TryError, Workbench, prove};

/// Commands that may wait for the loader.
const COMMANDS_MAX: usize = 64;
/// A call waits so long for the first load of its slot.
const FIRST_LOAD_PATIENCE: Duration = Duration::from_secs(30);
/// Beside its own limits: a thread of this room died, or the machine stands still.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at probations.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// Of answers that nobody is likely to ask about, every so many are told as events.
const SAMPLE: u64 = 64;

/// What the room is built from.
pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    pub bus: Bus,
    pub metrics: Metrics,
    pub settings: settings::Handle,
    /// The binary that compiles components: this one.
    pub compiler: PathBuf,
    /// Components that were compiled with the binary or when it was installed.
    pub shipped: Option<PathBuf>,
}

/// What a decision is about, so that it can be found again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub task: Option<String>,
    pub job: Option<String>,
    pub work_session: Option<String>,
    pub agent: Option<String>,
}

impl About {
    /// Whether it names something that people ask about.
    fn is_named(&self) -> bool {
        self.task.is_some() || self.job.is_some() || self.work_session.is_some()
    }
}

/// An answer, and whose it is: none when the gateway fell back on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered<T> {
    pub answer: T,
    pub by: Option<Identity>,
}

/// What the guards together say about a tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It runs, with these arguments; warnings go to the task and the agent.
    Run { arguments: Map<String, Value>, warnings: Vec<String> },
    /// It does not run, by the word of this guard.
    Blocked { guard: String, block: crate::policy::Block },
}

/// The way to the room; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Owner>);

struct Owner {
    room: Arc<Room>,
    commands: SyncSender<Command>,
    loader: Mutex<Option<JoinHandle<()>>>,
}

/// What the room's threads share.
pub(crate) struct Room {
    dir: StateDir,
    clock: Clock,
    bus: Bus,
    metrics: Metrics,
    settings: settings::Handle,
    slots: RwLock<Vec<Arc<Slot>>>,
    threads: threads::Threads,
    recorder: Arc<record::Recorder>,
    sampled: std::sync::atomic::AtomicU64,
}

/// Where the components that came with a binary lie compiled: beside it, in `components/`.
pub fn shipped_beside(binary: &std::path::Path) -> Option<PathBuf> {
    let dir = binary.parent()?.join("components");
    dir.is_dir().then_some(dir)
}

/// Starts the room; the future takes up changes of the configuration and of files until `stop`.
pub fn start(
    options: Options,
    stop: CancellationToken,
) -> Result<(Handle, impl Future<Output = ()> + Send + use<>), Error> {
    let Options { dir, clock, bus, metrics, settings, compiler, shipped } = options;
    for path in [dir.plugins(), dir.decisions(), dir.plugin_logs(), dir.plugin_cache(), dir.plugin_store()] {
        chela_storage::make_private_dir(&path)
            .and_then(|()| chela_storage::sweep(&path))
            .map_err(|cause| Error::Directory { path, cause })?;
    }
    let engine = engine::engine().map_err(|error| Error::Engine { said: failure::chain(&error) })?;
    let ticker = Arc::new(engine::Ticker::start(&engine).map_err(Error::Threads)?);
    let recorder = Arc::new(record::Recorder::start(dir.clone()).map_err(Error::Threads)?);
    let (seen, seen_clock) = (recorder.clone(), clock.clone());
    let lines: threads::Lines = Arc::new(move |generation, lines| {
        seen.log(&generation.slot, &generation.identity, seen_clock.now(), &lines);
    });
    let room = Arc::new(Room {
        slots: RwLock::new(Vec::new()),
        threads: threads::Threads::start(lines).map_err(Error::Threads)?,
        recorder,
        sampled: std::sync::atomic::AtomicU64::new(0),
        dir: dir.clone(),
        clock: clock.clone(),
        bus,
        metrics,
        settings: settings.clone(),
    });
    let cache = cache::Cache::new(engine.clone(), dir.plugin_cache(), shipped, compiler);
    let (commands, inbox) = sync_channel(COMMANDS_MAX);
    let first = settings.current().config.clone();
    let loader = Loader::new(room.clone(), stage::Stage { engine, ticker, cache }, first);
    let thread = std::thread::Builder::new().name("chela-plugin-load".into()).stack_size(4 << 20);
    let thread = thread.spawn(move || loader.run(&inbox)).map_err(Error::Threads)?;
    let handle = Handle(Arc::new(Owner { room, commands, loader: Mutex::new(Some(thread)) }));
    let watching = watch(handle.clone(), Watcher::directory(&dir.plugins(), clock.clone()), settings, clock, stop);
    Ok((handle, watching))
}

async fn watch(handle: Handle, mut files: Watcher, settings: settings::Handle, clock: Clock, stop: CancellationToken) {
    let mut changed = settings.subscribe();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            seen = changed.changed() => match seen {
                Ok(()) => handle.send(Command::Apply(Box::new(settings.current().config.clone()))).await,
                Err(_) => return,
            },
            () = files.changed() => handle.send(Command::FilesChanged).await,
            () = clock.sleep(HOUSEKEEPING) => {
                let now = clock.elapsed();
                handle.0.room.slots().iter().for_each(|slot| slot.expire(now));
            }
        }
    }
}

/// Facts of an event about a slot.
fn bus_data(slot: &str, facts: Value) -> Map<String, Value> {
    let mut map = data(json!({ "slot": slot }));
    map.extend(data(facts));
    map
}

impl Handle {
    /// What each event is about.
    pub async fn roles(&self, events: Vec<EventFacts>) -> Answered<Vec<Role>> {
        let room = &self.0.room;
        let config = &room.settings.current().config;
        let main_agents = config.agents.list.iter().map(|agent| agent.id.to_string()).collect();
        let input = Arc::new(RolesInput { main_agents, events });
        let outcome = self.ask::<Roles>(&SlotName::Classifier, &input, &About::default()).await;
        outcome.unwrap_or_else(|_| Answered { answer: fallback::roles(&input), by: None })
    }

    /// The category of each conversation.
    pub async fn categories(&self, conversations: Vec<Conversation>, about: &About) -> Answered<Vec<Classification>> {
        let config = &self.0.room.settings.current().config;
        let categories = config.categories.iter().map(|category| category.key.clone()).collect();
        let input = Arc::new(CategoriesInput { categories, conversations });
        let outcome = self.ask::<Categories>(&SlotName::Classifier, &input, about).await;
        outcome.unwrap_or_else(|_| Answered { answer: fallback::categories(&input), by: None })
    }

    /// Asks every guard in order. `fits` checks rewritten arguments against the tool's schema.
    pub async fn before_tool_call(
        &self,
        mut call: ToolCall,
        about: &About,
        fits: impl Fn(&Map<String, Value>) -> Result<(), String>,
    ) -> Decision {
        let mut warnings = Vec::new();
        let slots = self.0.room.slots();
        for slot in slots.iter().filter(|slot| matches!(slot.name, SlotName::Guard(_))) {
            let SlotName::Guard(guard) = &slot.name else { continue };
            let input = Arc::new(call.clone());
            let answered = self.ask_slot::<BeforeToolCall>(slot, &input, about).await;
            let verdict = match answered {
                Ok(answered) => match unfit(&answered.answer, &fits) {
                    None => answered.answer,
                    Some(why) => {
                        self.note_invalid(slot, &why).await;
                        instead(slot, guard, &call, &why)
                    }
                },
                // The operator has taken it out.
                Err(Unanswered::Idle(Idle::Disabled)) => Verdict::Allow,
                Err(why) => instead(slot, guard, &call, &why.words()),
            };
            match verdict {
                Verdict::Allow => {}
                Verdict::AllowWith { warning } => warnings.push(warning),
                Verdict::Block(block) => return Decision::Blocked { guard: guard.clone(), block },
                Verdict::Rewrite { arguments } => call.arguments = arguments,
            }
        }
        Decision::Run { arguments: call.arguments, warnings }
    }

    /// Text for an agent's instructions.
    pub async fn instructions(&self, agent: Actor) -> Answered<String> {
        let slot = self.continuation_of(&agent.id);
        let about = About { agent: Some(agent.id.clone()), ..About::default() };
        let input = Arc::new(InstructionsInput { agent });
        let outcome = self.ask::<Instructions>(&slot, &input, &about).await;
        outcome.unwrap_or_else(|_| Answered { answer: fallback::instructions(), by: None })
    }

    /// What an agent that stopped is told.
    pub async fn next(&self, input: NextInput, about: &About) -> Answered<Action> {
        let slot = self.continuation_of(&input.agent.id);
        let input = Arc::new(input);
        let outcome = self.ask::<Next>(&slot, &input, about).await;
        outcome.unwrap_or_else(|_| Answered { answer: fallback::next(&input), by: None })
    }

    fn continuation_of(&self, agent: &str) -> SlotName {
        let own = SlotName::Continuation(Some(agent.to_owned()));
        if self.0.room.slot(&own).is_some() { own } else { SlotName::Continuation(None) }
    }

    async fn ask<C: Call>(
        &self,
        name: &SlotName,
        input: &Arc<C::Input>,
        about: &About,
    ) -> Result<Answered<C::Output>, Unanswered> {
        let Some(slot) = self.0.room.slot(name) else { return Err(Unanswered::Idle(Idle::Empty)) };
        self.ask_slot::<C>(&slot, input, about).await
    }

    /// One answer of a slot's component, from the version before if the newest fails on probation.
    async fn ask_slot<C: Call>(
        &self,
        slot: &Arc<Slot>,
        input: &Arc<C::Input>,
        about: &About,
    ) -> Result<Answered<C::Output>, Unanswered> {
        let room = &self.0.room;
        // Real time, as for every wait on a component: a clock that stands still must not hold up a call.
        let _ = tokio::time::timeout(FIRST_LOAD_PATIENCE, slot.settled()).await;
        let asked = Asked::new::<C>(input);
        // Twice is enough: a swap and a rollback between two steps of one call do not happen again and again.
        for _ in 0..3 {
            let generation = match slot.component() {
                Ok(generation) => generation,
                Err(idle) => {
                    room.fell_back(slot, C::EXPORT, &idle.words(), !matches!(idle, Idle::Empty | Idle::Disabled));
                    return Err(Unanswered::Idle(idle));
                }
            };
            let around = room.surroundings(&asked.digest);
            let answered = room.threads.call::<C>(generation.clone(), input.clone(), around);
            let (outcome, cost) = match tokio::time::timeout(patience(&generation), answered).await {
                Ok(Ok(answered)) => answered,
                Ok(Err(_)) | Err(_) => {
                    let failure = Failure::Busy { waited: patience(&generation) };
                    (Err(failure), threads::Cost { took: Duration::ZERO, lines: Vec::new() })
                }
            };
            room.record_lines(&generation, &cost.lines);
            let now = room.clock.elapsed();
            match outcome {
                Ok(output) => {
                    slot.answered(generation.id, now);
                    slot.stats.lock().unwrap_or_else(PoisonError::into_inner).called(cost.took);
                    room.count(slot, "answered");
                    room.decided::<C>(slot, &generation.identity, &asked, &output, cost.took, about);
                    return Ok(Answered { answer: output, by: Some(generation.identity.clone()) });
                }
                Err(failure) => match self.note_failed(slot, &generation, C::EXPORT, &failure).await {
                    Response::Stale | Response::RolledBack { .. } => {}
                    Response::Quarantined | Response::Fallback => return Err(Unanswered::Failed(failure)),
                },
            }
        }
        let failure = Failure::Busy { waited: Duration::ZERO };
        room.fell_back(slot, C::EXPORT, &failure.to_string(), true);
        Err(Unanswered::Failed(failure))
    }

    /// An answer that only its user could tell to be wrong: a failure with all that follows from one.
    async fn note_invalid(&self, slot: &Slot, why: &str) {
        let Some(generation) = slot.bound() else { return };
        let failure = Failure::Invalid { said: why.to_owned() };
        self.note_failed(slot, &generation, BeforeToolCall::EXPORT, &failure).await;
    }

    /// Counts and tells a failure; says what the slot did about it.
    async fn note_failed(
        &self,
        slot: &Slot,
        generation: &generation::Generation,
        export: &str,
        failure: &Failure,
    ) -> Response {
        let room = &self.0.room;
        let response = slot.failed(generation.id, failure, room.clock.elapsed());
        room.note_failure(slot, &generation.identity, export, failure);
        match &response {
            Response::Stale => {}
            Response::RolledBack { to } => {
                let failed = generation.identity.clone();
                let facts = json!({ "plugin": to, "from": failed, "reason": failure.to_string() });
                room.tell(Kind::PluginRolledBack, slot, facts);
                self.send(Command::RolledBack { slot: slot.name.clone(), failed }).await;
            }
            Response::Quarantined => {
                let facts = json!({ "plugin": generation.identity, "reason": failure.to_string() });
                room.tell(Kind::PluginQuarantined, slot, facts);
                room.fell_back(slot, export, &failure.to_string(), true);
            }
            Response::Fallback => room.fell_back(slot, export, &failure.to_string(), true),
        }
        response
    }

    /// Every slot, with what serves in it.
    pub fn slots(&self) -> Vec<View> {
        self.0.room.slots().iter().map(|slot| slot.view()).collect()
    }

    /// Files of `plugins/` that nothing is bound to.
    pub fn installed(&self) -> Vec<String> {
        let room = &self.0.room;
        let used: Vec<String> = self.slots().into_iter().filter_map(|view| Some(view.plugin?.source)).collect();
        let entries = std::fs::read_dir(room.dir.plugins()).into_iter().flatten().flatten();
        let names = entries.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        let component = |name: &String| name.ends_with(".wasm") || name.ends_with(".rhai");
        names.retain(|name| component(name) && !name.starts_with('.') && !used.contains(name));
        names.sort();
        names
    }

    /// Completes when every slot has been loaded once, or could not be.
    pub async fn loaded(&self) {
        // The loader makes the slots; until it has, there is nothing to wait for but them.
        while self.0.room.slots().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for slot in self.0.room.slots() {
            slot.settled().await;
        }
    }

    pub async fn load(&self, load: Load) -> Result<Value, Error> {
        self.request(Request::Load(load)).await
    }

    pub async fn unload(&self, slot: SlotName) -> Result<Value, Error> {
        self.request(Request::Unload(slot)).await
    }

    pub async fn disable(&self, slot: SlotName) -> Result<Value, Error> {
        self.request(Request::Disable(slot)).await
    }

    pub async fn enable(&self, slot: SlotName) -> Result<Value, Error> {
        self.request(Request::Enable(slot)).await
    }

    pub async fn accept(&self, slot: SlotName) -> Result<Value, Error> {
        self.request(Request::Accept(slot)).await
    }

    pub async fn rollback(&self, slot: SlotName) -> Result<Value, Error> {
        self.request(Request::Rollback(slot)).await
    }

    pub async fn release(&self, slot: SlotName) -> Result<Value, Error> {
        self.request(Request::Release(slot)).await
    }

    /// The newest lines that a slot's plugins logged, oldest first.
    pub async fn logs(&self, slot: SlotName, lines: usize) -> Result<Vec<Value>, Error> {
        let recorder = self.0.room.recorder.clone();
        let read = tokio::task::spawn_blocking(move || recorder.log_lines(&slot.to_string(), lines));
        read.await.map_err(|_| Error::Stopping)
    }

    /// Recorded decisions that the disk was too slow for.
    pub fn unrecorded(&self) -> u64 {
        self.0.room.recorder.dropped()
    }

    async fn request(&self, request: Request) -> Result<Value, Error> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Do(request, answer)).await;
        answered.await.map_err(|_| Error::Stopping)?
    }

    async fn send(&self, command: Command) {
        let commands = self.0.commands.clone();
        // A loader that compiles for a minute makes its callers wait, but no thread of theirs.
        let mut command = Some(command);
        while let Some(unsent) = command.take() {
            match commands.try_send(unsent) {
                Ok(()) | Err(std::sync::mpsc::TrySendError::Disconnected(_)) => {}
                Err(std::sync::mpsc::TrySendError::Full(unsent)) => {
                    command = Some(unsent);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Ends every thread of the room; calls under way end first.
    pub async fn stop(&self) {
        self.send(Command::Stop).await;
        let owner = self.0.clone();
        let ended = tokio::task::spawn_blocking(move || {
            let loader = owner.loader.lock().unwrap_or_else(PoisonError::into_inner).take();
            if loader.is_some_and(|loader| loader.join().is_err()) {
                tracing::error!("the thread that loads plugins had died");
            }
            owner.room.threads.stop();
            owner.room.recorder.stop();
        });
        if ended.await.is_err() {
            tracing::error!("the plugins did not end cleanly");
        }
    }
}

/// Why a slot gave no answer of its component.
#[derive(Clone, Debug)]
enum Unanswered {
    Idle(Idle),
    Failed(Failure),
}

impl Unanswered {
    fn words(&self) -> String {
        match self {
            Self::Idle(idle) => idle.words(),
            Self::Failed(failure) => failure.to_string(),
        }
    }
}

/// What a guard's failure means for a tool call.
fn instead(slot: &Slot, guard: &str, call: &ToolCall, why: &str) -> Verdict {
    match slot.on_failure() {
        OnFailure::Allow => Verdict::Allow,
        OnFailure::Builtin => fallback::before_tool_call(call),
        OnFailure::Block => fallback::guard_failed(guard, why),
    }
}

/// Why rewritten arguments are of no use.
fn unfit(verdict: &Verdict, fits: impl Fn(&Map<String, Value>) -> Result<(), String>) -> Option<String> {
    let Verdict::Rewrite { arguments } = verdict else { return None };
    let said = fits(arguments).err()?;
    Some(format!("it rewrote the arguments to what the tool does not take: {said}"))
}

/// An input with its name.
struct Asked {
    input: Vec<u8>,
    digest: String,
}

impl Asked {
    fn new<C: Call>(input: &C::Input) -> Self {
        let input = serde_json::to_vec(input).expect("an input is plain JSON");
        let digest = blake3::hash(&input).to_hex()[..16].to_owned();
        Self { input, digest }
    }
}

fn patience(generation: &generation::Generation) -> Duration {
    Duration::from_millis(generation.limits.cpu_ms.into()) * 45 + ANSWER_PATIENCE
}

impl Room {
    fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn slot(&self, name: &SlotName) -> Option<Arc<Slot>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.iter().find(|slot| slot.name == *name).cloned()
    }

    fn publish(&self, slots: Vec<Arc<Slot>>) {
        *self.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
    }

    fn surroundings(&self, digest: &str) -> instance::Surroundings {
        self.surroundings_at(self.clock.now(), digest)
    }

    fn surroundings_at(&self, now: Timestamp, digest: &str) -> instance::Surroundings {
        let deployment = &self.settings.current().config.deployment;
        instance::Surroundings {
            now_ms: now.0,
            // The same input has the same chance, when it is replayed too.
            seed: u64::from_str_radix(digest, 16).unwrap_or(0),
            deployment: deployment.name.clone(),
            locale: deployment.locale.as_str(),
        }
    }

    fn record_lines(&self, generation: &generation::Generation, lines: &[instance::Line]) {
        if !lines.is_empty() {
            self.recorder.log(&generation.slot, &generation.identity, self.clock.now(), lines);
        }
    }

    fn tell(&self, kind: Kind, slot: &Slot, facts: Value) {
        self.bus.tell(kind, bus_data(&slot.name.to_string(), facts));
    }

    fn count(&self, slot: &Slot, outcome: &'static str) {
        let label = PluginCall { slot: slot.name.to_string(), outcome: Word(outcome) };
        self.metrics.plugin_calls.get_or_create(&label).inc();
    }

    fn note_failure(&self, slot: &Slot, plugin: &Identity, export: &str, failure: &Failure) {
        slot.stats.lock().unwrap_or_else(PoisonError::into_inner).failed(failure);
        self.count(slot, failure.kind());
        let facts = json!({ "plugin": plugin, "export": export, "reason": failure.to_string() });
        match failure {
            Failure::Limit { limit, .. } => {
                let mut facts = data(facts);
                facts.insert("limit".into(), json!(limit));
                self.tell(Kind::PluginLimit, slot, Value::Object(facts));
            }
            Failure::Trapped { .. } => self.tell(Kind::PluginTrapped, slot, facts),
            // Told with the fallback that follows.
            Failure::Declined { .. } | Failure::Invalid { .. } | Failure::Busy { .. } | Failure::Stopping => {}
        }
    }

    fn fell_back(&self, slot: &Slot, export: &str, why: &str, told: bool) {
        slot.stats.lock().unwrap_or_else(PoisonError::into_inner).fell_back();
        self.count(slot, "fallback");
        if !told {
            return;
        }
        if let Some(count) = slot.fell_back(self.clock.elapsed()) {
            self.tell(Kind::PluginFallback, slot, json!({ "export": export, "reason": why, "count": count }));
        }
    }

    /// Writes a decision down, and tells of it if somebody may ask about it.
    fn decided<C: Call>(
        &self,
        slot: &Slot,
        plugin: &Identity,
        asked: &Asked,
        output: &C::Output,
        took: Duration,
        about: &About,
    ) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let settings = self.settings.current();
        let decisions = &settings.config.decisions;
        if C::is_notable(output, about.is_named()) || self.is_sampled() {
            let facts = json!({
                "export": C::EXPORT, "plugin": plugin, "digest": asked.digest, "answer": output, "micros": micros,
                "taskId": about.task, "jobId": about.job, "workSessionId": about.work_session, "agent": about.agent,
            });
            self.tell(Kind::PolicyDecided, slot, facts);
        }
        if decisions.record == Switch::On {
            let output = serde_json::to_vec(output).expect("an answer is plain JSON");
            let (ts, digest) = (self.clock.now(), asked.digest.as_str());
            let head = record::Head { ts, export: C::EXPORT, digest, component: plugin, micros };
            self.recorder.decision(&slot.name.to_string(), &head, &asked.input, &output, decisions.megabytes);
        }
    }

    /// Every so many of the answers that nobody is likely to ask about.
    fn is_sampled(&self) -> bool {
        self.sampled.fetch_add(1, std::sync::atomic::Ordering::Relaxed).is_multiple_of(SAMPLE)
    }
}
