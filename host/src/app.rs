//! The composition root: builds the rooms bottom-up, drains them top-down. Alone sees every room.
//! Keeps true: one gateway per state directory; `run/gateway.json` is there exactly while it serves; a stop loses nothing that was written;
//! a part that dies is noticed.

mod adopt;
mod claim;
mod doors;
mod encryption;
mod link;
mod parts;
mod stamp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chela_storage::DirLock;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::agents;
use crate::bus::{self, Bus, Keeping, data};
use crate::channels;
use crate::clock::Clock;
use crate::config::{Listen, Starter};
use crate::continuation;
use crate::dialogues;
use crate::edge::{self, Audit, Codes, Context, Limiters, Phase, Presence, Pulse, Shared};
use crate::event::{Event, Kind};
use crate::feed::Feed;
use crate::hub;
use crate::humans;
use crate::jobs;
use crate::journal;
use crate::layout::StateDir;
use crate::metrics::Metrics;
use crate::models;
use crate::monitor;
use crate::plugins;
use crate::port::PerPort;
use crate::results;
use crate::run::{Addresses, Encryption, RunFile};
use crate::sessions;
use crate::settings::{self, Service};
use crate::tasks;
use crate::tools;
use crate::traces;

pub use adopt::adopt;
use claim::{claim, ensure_config};
use doors::{addresses_of, bind, warn_beyond_this_machine};
use parts::Parts;
pub use stamp::Stamp;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write in {} ({cause}); check its owner and rights, or choose another --state-dir", path.display())]
    Directory { path: PathBuf, cause: std::io::Error },
    #[error("{} belongs to another system (it has openclaw.json and no chela.json); take it over with `chela serve --adopt`, or choose another --state-dir", path.display())]
    Foreign { path: PathBuf },
    #[error(
        "somebody answers at {address}, where openclaw.json has the old gateway; stop it first, since two must not serve one directory"
    )]
    OldServes { address: SocketAddr },
    #[error("another gateway{} serves {}; stop it, or choose another --state-dir", owner.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), path.display())]
    Served { path: PathBuf, owner: Option<u32> },
    #[error("{} belongs to {owner}, who could not read what root would write there while it serves; start its service, or serve as {owner}: `{command}`", place.display())]
    OfAnother { place: PathBuf, owner: String, command: String },
    #[error("{} was written by chela {version} (layout {layout}), and this is chela {} (layout {known} at most); install {version} or later again, or restore a backup that this version made", path.display(), env!("CARGO_PKG_VERSION"))]
    Newer { path: PathBuf, layout: u32, version: String, known: u32 },
    #[error("{} does not say which layout the directory has ({said}); restore a backup, or remove the file if no later version ever served this directory", path.display())]
    Stamp { path: PathBuf, said: String },
    #[error("{part} ended by itself, which is a fault of ours; the log above says more")]
    Died { part: &'static str },
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error(transparent)]
    Bus(#[from] bus::Error),
    #[error(transparent)]
    Edge(#[from] edge::Error),
    #[error(transparent)]
    Plugins(#[from] Box<plugins::Error>),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Tasks(#[from] Box<tasks::Error>),
    #[error(transparent)]
    Sessions(#[from] Box<sessions::Error>),
}

/// How long a stop waits for the watch over files, which has nothing of its own to finish.
const SERVICES_PATIENCE: Duration = Duration::from_secs(5);

/// How to start.
#[derive(Clone)]
pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    /// What the command line says, over what the configuration says.
    pub listen: PerPort<Option<Listen>>,
    /// The `chela` binary, which compiles components.
    pub compiler: PathBuf,
    /// Another's directory, which the monitor shows instead of our own.
    pub watched: Option<Watched>,
    /// How large a segment of the event log grows: [`bus::SEGMENT_BYTES`], or less where its closing is to be tried often.
    pub segment_bytes: u64,
}

/// A directory that another process writes.
#[derive(Clone, Debug)]
pub struct Watched {
    pub dir: StateDir,
    /// Operators may say here which category a work session has; nothing else is ever written there.
    pub overrides: bool,
}

/// A serving gateway.
pub struct App {
    dir: StateDir,
    clock: Clock,
    addresses: Addresses,
    created: bool,
    bus: Bus,
    journal: journal::Health,
    settings: settings::Handle,
    plugins: plugins::Handle,
    monitor: monitor::Handle,
    tasks: tasks::Handle,
    tools: tools::Handle,
    sessions: sessions::Handle,
    jobs: jobs::Handle,
    humans: humans::Handle,
    agents: agents::Handle,
    continuation: continuation::Handle,
    codes: Arc<Codes>,
    channels: channels::Handle,
    pulse: Pulse,
    phase: watch::Sender<Phase>,
    changes: TaskTracker,
    sockets: TaskTracker,
    listeners: Parts,
    services: Parts,
    _lock: DirLock,
}

impl App {
    /// Starts everything and returns once it is ready.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let Options { dir, clock, listen, compiler, watched, segment_bytes } = options;
        if watched.is_none() {
            claim::is_ours_to_serve(&dir)?;
        }
        let lock = claim(&dir)?;
        let created = ensure_config(&dir)?;
        let first = settings::load_serving(&dir)?;
        settings::make_workspaces(&dir, &first)?;
        let bound = bind(listen, &first).await?;
        let addresses = addresses_of(&bound);
        warn_beyond_this_machine(&bound, &first);
        encryption::tell(&first, &dir).map_err(|cause| Error::Directory { path: dir.run(), cause })?;

        let metrics = Metrics::default();
        let events = &first.config.events;
        let (group, keep, bytes_max) = (events.group(), events.keep(), events.bytes_max());
        let keeping = Keeping { group, segment_bytes, keep, bytes_max };
        let bus = Bus::open(&dir, clock.clone(), metrics.clone(), keeping)?;
        let opened = journal::Opened::open(&dir)?;
        let tasks_found = tasks::read(&opened)?;
        let (sessions_found, jobs_found) = beside(|| sessions::read(&opened), || jobs::read(&opened));
        let (sessions_found, jobs_found) = (sessions_found?, jobs_found?);
        let dialogues_found = dialogues::read(&opened)?;
        let humans_found = humans::read(&opened, &dir)?;
        let results_found = results::read(&opened)?;
        let continuation_found = continuation::read(&opened)?;
        let channels_found = channels::read(&opened)?;
        let journal = opened.start()?;
        let journal_health = journal.health();
        let results = results::Handle::new(journal.clone(), clock.clone(), results_found);
        let audit = Audit::open(&dir, first.config.audit.keep_days, &clock)?;
        // The last thing that may fail before anything runs.
        let facts = data(json!({ "version": env!("CARGO_PKG_VERSION"), "addresses": addresses }));
        bus.emit_durable(Event::system(Kind::GatewayStarted, clock.now(), facts)).await?;

        let mut services = Parts::default();
        let service = Service { dir: dir.clone(), bus: bus.clone(), clock: clock.clone(), metrics: metrics.clone() };
        let (settings, watching) = service.start(first, services.stop.clone());
        services.spawn("the watch over the configuration", watching);
        let telling = encryption::keep_told(settings.clone(), dir.clone(), services.stop.clone());
        services.spawn("the keeper of run/tls.json", telling);
        let exporting = traces::Options { dir: dir.clone(), settings: settings.clone() };
        services.spawn("the sender of traces", traces::export(exporting, services.stop.clone()));
        services.spawn("the watch over the event log", bus.clone().watch_over_log(services.stop.clone()));
        services.spawn("the state journal", journal_health.clone().watch_over(services.stop.clone()));

        let (plugins, watching) = plugins::start(
            plugins::Options {
                dir: dir.clone(),
                clock: clock.clone(),
                bus: bus.clone(),
                metrics: metrics.clone(),
                settings: settings.clone(),
                shipped: plugins::shipped_beside(&compiler),
                compiler,
            },
            services.stop.clone(),
        )
        .map_err(Box::new)?;
        services.spawn("the watch over plugins", watching);

        let shown = watched.as_ref().map_or(&dir, |watched| &watched.dir).clone();
        let (monitor, watching) = monitor::start(
            monitor::Options {
                logs: shown.logs(),
                index: dir.event_index(),
                overrides: shown.category_overrides(),
                overrides_writable: watched.as_ref().is_none_or(|watched| watched.overrides),
                clock: clock.clone(),
                plugins: plugins.clone(),
                settings: settings.clone(),
                grown: watched.is_none().then(|| bus.grown()),
            },
            services.stop.clone(),
        )
        .map_err(|cause| Error::Directory { path: dir.index(), cause })?;
        services.spawn("the watch over the event log's growth", watching);

        let (tasks, watching) = tasks::start(
            tasks::Options {
                dir: dir.clone(),
                clock: clock.clone(),
                bus: bus.clone(),
                settings: settings.clone(),
                journal: journal.clone(),
            },
            tasks_found,
            services.stop.clone(),
        )
        .map_err(Box::new)?;
        services.spawn("the watch over tasks", watching);
        let feed = Feed::default();
        let (sessions, keeping) = sessions::start(
            sessions::Options {
                dir: dir.clone(),
                clock: clock.clone(),
                settings: settings.clone(),
                journal: journal.clone(),
                results: results.clone(),
                feed: feed.clone(),
            },
            sessions_found,
            services.stop.clone(),
        )
        .map_err(Box::new)?;
        services.spawn("the keeper of sessions", keeping);
        let (jobs, keeping) = jobs::start(
            jobs::Options {
                dir: dir.clone(),
                clock: clock.clone(),
                bus: bus.clone(),
                metrics: metrics.clone(),
                settings: settings.clone(),
                journal: journal.clone(),
                monitor: monitor.clone(),
                tasks: tasks.clone(),
                sessions: sessions.clone(),
            },
            jobs_found,
            services.stop.clone(),
        );
        services.spawn("the keeper of jobs", keeping);
        let (dialogues, writing) = dialogues::start(
            dialogues::Options {
                dir: dir.clone(),
                settings: settings.clone(),
                journal: journal.clone(),
                sessions: sessions.clone(),
                tasks: tasks.clone(),
            },
            dialogues_found,
            services.stop.clone(),
        );
        services.spawn("the writer of dialogues", writing);
        let (humans, keeping) = humans::start(
            humans::Options {
                dir: dir.clone(),
                clock: clock.clone(),
                bus: bus.clone(),
                settings: settings.clone(),
                journal: journal.clone(),
                tasks: tasks.clone(),
                sessions: sessions.clone(),
                jobs: jobs.clone(),
                dialogues: dialogues.clone(),
                feed: feed.clone(),
            },
            humans_found,
            services.stop.clone(),
        );
        services.spawn("the keeper of questions", keeping);
        let tools = tools::Handle::new(tools::Options {
            dir: dir.clone(),
            clock: clock.clone(),
            bus: bus.clone(),
            settings: settings.clone(),
            plugins: plugins.clone(),
            monitor: monitor.clone(),
            tasks: tasks.clone(),
            sessions: sessions.clone(),
            jobs: jobs.clone(),
            humans: humans.clone(),
            results,
        });
        let models = models::Handle::new(dir.clone(), clock.clone());
        let (agents, running) = agents::start(agents::Options {
            dir: dir.clone(),
            clock: clock.clone(),
            settings: settings.clone(),
            plugins: plugins.clone(),
            sessions: sessions.clone(),
            dialogues: dialogues.clone(),
            humans: humans.clone(),
            tools: tools.clone(),
            models: models.clone(),
            feed: feed.clone(),
        });
        services.spawn("the runs", running);
        let (continuation, looking) = continuation::start(
            continuation::Options {
                clock: clock.clone(),
                bus: bus.clone(),
                metrics: metrics.clone(),
                settings: settings.clone(),
                journal: journal.clone(),
                plugins: plugins.clone(),
                tasks: tasks.clone(),
                sessions: sessions.clone(),
                jobs: jobs.clone(),
                humans: humans.clone(),
            },
            continuation_found,
            services.stop.clone(),
        );
        services.spawn("what keeps agents at work", looking);
        let (channels, running) = channels::start(
            channels::Options {
                dir: dir.clone(),
                clock: clock.clone(),
                bus: bus.clone(),
                metrics: metrics.clone(),
                settings: settings.clone(),
                journal: journal.clone(),
                plugins: plugins.clone(),
                tasks: tasks.clone(),
                sessions: sessions.clone(),
                jobs: jobs.clone(),
                humans: humans.clone(),
                continuation: continuation.clone(),
            },
            channels_found,
            services.stop.clone(),
        );
        services.spawn("the channels", running);

        let backups = edge::Backups::new(journal);
        let hub = hub::Handle::new(hub::Options {
            dir: dir.clone(),
            clock: clock.clone(),
            settings: settings.clone(),
            plugins: plugins.clone(),
            monitor: monitor.clone(),
            tasks: tasks.clone(),
            tools: tools.clone(),
            channels: channels.clone(),
            sessions: sessions.clone(),
            jobs: jobs.clone(),
            dialogues: dialogues.clone(),
            humans: humans.clone(),
            continuation: continuation.clone(),
        });
        let codes = Arc::new(Codes::default());
        let (phase, phase_seen) = watch::channel(Phase::Ready);
        let (changes, sockets) = (TaskTracker::new(), TaskTracker::new());
        let context = Context::new(Shared {
            dir: dir.clone(),
            watched: shown,
            addresses,
            settings: settings.clone(),
            plugins: plugins.clone(),
            monitor: monitor.clone(),
            tasks: tasks.clone(),
            tools: tools.clone(),
            sessions: sessions.clone(),
            jobs: jobs.clone(),
            dialogues,
            humans: humans.clone(),
            agents: agents.clone(),
            continuation: continuation.clone(),
            hub,
            codes: codes.clone(),
            channels: channels.clone(),
            bus: bus.clone(),
            journal: journal_health.clone(),
            clock: clock.clone(),
            metrics,
            phase: phase_seen,
            methods: edge::methods(),
            changes: changes.clone(),
            sockets: sockets.clone(),
            audit,
            limiters: Limiters::default(),
            feed,
            presence: Presence::default(),
            last_health: edge::LastHealth::default(),
            backups,
        });
        services.spawn("the announcer", edge::announce(context.clone(), services.stop.clone()));
        let pulse = Pulse::of(&context);
        let mut listeners = Parts::default();
        let routes = edge::routes();
        let open_max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = edge::connections_share(open_max, bound.len());
        for listener in bound {
            let (routes, context, stop) = (routes.clone(), context.clone(), listeners.stop.clone());
            listeners.spawn("a listener", async move { listener.serve(&routes, context, share, stop).await });
        }

        let app = Self {
            dir,
            clock,
            addresses,
            created,
            bus,
            journal: journal_health,
            settings,
            plugins,
            monitor,
            tasks,
            tools,
            sessions,
            jobs,
            humans,
            agents,
            continuation,
            codes,
            channels,
            pulse,
            phase,
            changes,
            sockets,
            listeners,
            services,
            _lock: lock,
        };
        if let Err(cause) = RunFile::of_this_process(addresses).write(&app.dir) {
            let path = app.dir.run();
            // Already on the way out: the reason for it is what the caller must hear.
            let _ = app.stop().await;
            return Err(Error::Directory { path, cause });
        }
        tracing::info!(dir = %app.dir.path().display(), addresses = %json!(addresses), "ready");
        Ok(app)
    }

    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    pub fn settings(&self) -> &settings::Handle {
        &self.settings
    }

    pub fn plugins(&self) -> &plugins::Handle {
        &self.plugins
    }

    pub fn monitor(&self) -> &monitor::Handle {
        &self.monitor
    }

    pub fn tasks(&self) -> &tasks::Handle {
        &self.tasks
    }

    pub fn sessions(&self) -> &sessions::Handle {
        &self.sessions
    }

    pub fn jobs(&self) -> &jobs::Handle {
        &self.jobs
    }

    pub fn humans(&self) -> &humans::Handle {
        &self.humans
    }

    pub fn continuation(&self) -> &continuation::Handle {
        &self.continuation
    }

    pub fn channels(&self) -> &channels::Handle {
        &self.channels
    }

    pub fn tools(&self) -> &tools::Handle {
        &self.tools
    }

    /// Tells whether it still answers.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// The longest that a stop takes.
    pub fn stops_within(&self) -> Duration {
        let patience = Duration::from_millis(self.settings.current().config.limits.drain_timeout_ms);
        patience * 3 + SERVICES_PATIENCE * 3
    }

    /// Whether this start wrote a first configuration.
    pub fn created_config(&self) -> bool {
        self.created
    }

    /// Completes only if a part of the gateway ends by itself.
    pub async fn died(&mut self) -> Error {
        let died = tokio::select! {
            error = self.listeners.died() => error,
            error = self.services.died() => error,
        };
        self.journal.failure().map_or(died, Error::Journal)
    }

    /// Takes no more, lets what is under way finish, writes the end, frees the directory.
    pub async fn stop(mut self) -> Result<(), Error> {
        tracing::info!("stopping");
        self.phase.send_replace(Phase::Draining);
        self.sessions.close();
        self.listeners.end().await;
        let patience = match self.journal.failure() {
            None => Duration::from_millis(self.settings.current().config.limits.drain_timeout_ms),
            // No run gets any further, however long it is waited for.
            Some(_) => Duration::ZERO,
        };
        // Clients hear the runs out.
        self.agents.stop(patience).await;
        self.jobs.stop().await;
        self.phase.send_replace(Phase::Stopping);
        self.changes.close();
        self.sockets.close();
        if tokio::time::timeout(SERVICES_PATIENCE, self.sockets.wait()).await.is_err() {
            tracing::warn!(left = self.sockets.len(), "connections did not end and are left behind");
        }
        tokio::select! {
            () = self.changes.wait() => {}
            () = self.clock.sleep(patience) => tracing::error!(left = self.changes.len(), "changes were cut off by the stop"),
        }
        if tokio::time::timeout(SERVICES_PATIENCE, self.services.end()).await.is_err() {
            tracing::error!("a service did not end and is left behind");
        }
        self.continuation.stop().await;
        self.sessions.stop().await;
        self.tasks.stop().await;
        self.monitor.stop().await;
        self.plugins.stop().await;
        self.bus.tell(Kind::GatewayStopped, data(json!({})));
        let written = self.bus.close().await;
        let removed = RunFile::remove(&self.dir).and_then(|()| Encryption::write(None, &self.dir));
        written?;
        removed.map_err(|cause| Error::Directory { path: self.dir.run(), cause })?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Writes a first configuration, for `chela init`.
pub fn init(dir: &StateDir, choices: &Starter) -> Result<(), Error> {
    let _lock = claim(dir)?;
    Ok(settings::create(dir, choices)?)
}

/// Does two things at once.
fn beside<A, B: Send>(here: impl FnOnce() -> A, there: impl FnOnce() -> B + Send) -> (A, B) {
    std::thread::scope(|scope| {
        let there = scope.spawn(there);
        let here = here();
        (here, there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
