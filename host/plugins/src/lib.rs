//! Components: what runs the deployment's policies. Alone knows wasmtime.
//! Owns the engine, its own threads, the slots, `plugins/` and `decisions/`. Keeps true: guest code runs on threads of this room alone;
//! a component's trap, limit or refusal is a value here, and an answer comes all the same; what served before a failed change still serves.
//! Never: decides what a policy means, or lets a guest touch anything outside its arguments.

mod adapters;
mod ask;
mod bindings;
mod cache;
mod dispatch;
mod engine;
mod error;
mod failure;
mod fallback;
mod files;
mod generation;
mod health;
mod inspect;
mod instance;
mod loader;
mod opened;
mod record;
mod records;
mod room;
mod shadow;
mod signature;
mod slots;
mod source;
mod stage;
mod stats;
mod threads;
mod vocabulary;
mod workbench;
mod wasi;
mod worlds;

use chela_machinery::{bus, metrics, settings, traces, watch};
use chela_words::{clock, config, event, layout, policy};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::layout::StateDir;
use crate::metrics::Metrics;
use crate::watch::Watcher;
use loader::{Command, Loader, Request};
use room::Room;

pub use adapters::{Adapter, Aftermath, Answered as Handled, Handover, Version};
pub use cache::{CompileError, compile};
pub use dispatch::{EXPORTS, Error as CallError};
pub use error::Error;
pub use failure::{Failure, Limit};
pub use files::{FoundFile, look_at_files};
pub use generation::Identity;
pub use inspect::{CHANNEL_VERSION, Inspection, POLICY_VERSION, Refused, inspect};
pub use loader::{From, Load};
pub use opened::{Opened, Running, check_input};
pub use record::{Recorded, recorded};
pub use signature::{Manifest, Refused as RefusedSignature, Signature, SigningKey, verify as verify_signature};
pub use slots::{NoSuchSlot, SlotName, View, Waiting};
pub use source::builtin_names;
pub use workbench::{TryError, Workbench, prove};

/// Commands that may wait for the loader.
const COMMANDS_MAX: usize = 64;
/// Between two looks at probations.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

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
    /// What noticed that an agent stopped.
    pub layer: Option<&'static str>,
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
        let make =
            if path == dir.plugin_cache() { chela_storage::make_own_dir } else { chela_storage::make_private_dir };
        make(&path).and_then(|()| chela_storage::sweep(&path)).map_err(|cause| Error::Directory { path, cause })?;
    }
    let engine = engine::engine().map_err(|error| Error::Engine { said: failure::chain(&error) })?;
    let ticker = Arc::new(engine::Ticker::start(&engine).map_err(Error::Threads)?);
    let recorder = Arc::new(record::Recorder::start(dir.clone(), bus.clone()).map_err(Error::Threads)?);
    let (seen, seen_clock) = (recorder.clone(), clock.clone());
    let lines: threads::Lines = Arc::new(move |generation, lines| {
        seen.log(&generation.slot, &generation.identity, seen_clock.now(), &lines);
    });
    let stopping = Arc::new(AtomicBool::new(false));
    let room = Arc::new(Room {
        slots: RwLock::new(Vec::new()),
        threads: threads::Threads::start(lines.clone()).map_err(Error::Threads)?,
        bulk: threads::Threads::start_bulk(lines).map_err(Error::Threads)?,
        recorder,
        sampled: AtomicU64::new(0),
        sampled_ms: AtomicU64::new(0),
        stopping: stopping.clone(),
        adapters: adapters::Adapters::start().map_err(Error::Threads)?,
        dir: dir.clone(),
        clock: clock.clone(),
        bus,
        metrics,
        settings: settings.clone(),
    });
    let cache = cache::Cache::new(engine.clone(), dir.plugin_cache(), shipped, compiler, stopping);
    let (commands, inbox) = sync_channel(COMMANDS_MAX);
    let first = settings.current().config.clone();
    let mut loader = Loader::new(room.clone(), stage::Stage { engine, ticker, cache }, first);
    // Before anybody can ask: no tool call may pass because its guards are not there yet.
    loader.lay_out();
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

impl Handle {
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
        let component = |name: &String| name.ends_with(".wasm");
        names.retain(|name| component(name) && !name.starts_with('.') && !used.contains(name));
        names.sort();
        names
    }

    /// Tells the classifier that serves, with its configuration, from any other; none while none serves.
    pub fn classifier(&self) -> Option<String> {
        let generation = self.0.room.slot(&SlotName::Classifier)?.component().ok()?;
        let Identity { name, version, hash, .. } = &generation.identity;
        let config = blake3::hash(generation.config.as_bytes()).to_hex();
        Some(format!("{name} {version} {} {}", &hash[..hash.len().min(16)], &config[..8]))
    }

    /// Completes when every slot has been loaded once, or could not be.
    pub async fn loaded(&self) {
        for slot in self.0.room.slots() {
            slot.settled().await;
        }
    }

    pub async fn load(&self, load: Load) -> Result<Value, Error> {
        self.request(Request::Load(load)).await
    }

    /// What a component would answer to these inputs of an export, beside what serves now; changes nothing.
    pub async fn compare(&self, load: Load, export: &'static str, inputs: Vec<Value>) -> Result<Value, Error> {
        self.request(Request::Compare { load, export, inputs }).await
    }

    /// The configuration of what serves in a slot, as JSON.
    pub fn config_of(&self, slot: &SlotName) -> Option<String> {
        Some(self.0.room.slot(slot)?.bound()?.config.clone())
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
        self.0.room.stopping.store(true, Ordering::Relaxed);
        self.send(Command::Stop).await;
        let owner = self.0.clone();
        let ended = tokio::task::spawn_blocking(move || {
            let loader = owner.loader.lock().unwrap_or_else(PoisonError::into_inner).take();
            if loader.is_some_and(|loader| loader.join().is_err()) {
                tracing::error!("the thread that loads plugins had died");
            }
            owner.room.threads.stop();
            owner.room.bulk.stop();
            owner.room.adapters.stop();
            owner.room.recorder.stop();
        });
        if ended.await.is_err() {
            tracing::error!("the plugins did not end cleanly");
        }
    }
}
