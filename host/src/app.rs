//! The composition root: builds the rooms bottom-up, drains them top-down. Alone sees every room.
//! Keeps true: one gateway per state directory; `run/gateway.json` is there exactly while it serves; a stop loses nothing that was written.

use std::path::PathBuf;

use chela_storage::{DirLock, LockError};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::{self, Bus, data};
use crate::clock::Clock;
use crate::config::{Listen, Starter};
use crate::edge::{self, Audit, Context, Limiters, Listener, Phase, Port, Shared};
use crate::event::Kind;
use crate::layout::StateDir;
use crate::metrics::Metrics;
use crate::run::{Addresses, RunFile};
use crate::settings::{self, Service, Settings};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write in {}; check its owner and rights, or choose another --state-dir", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("{} belongs to another system (it has openclaw.json and no chela.json); choose another --state-dir", path.display())]
    Foreign { path: PathBuf },
    #[error("another gateway{} serves {}; stop it, or choose another --state-dir", owner.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), path.display())]
    Served { path: PathBuf, owner: Option<u32> },
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error(transparent)]
    Bus(#[from] bus::Error),
    #[error(transparent)]
    Edge(#[from] edge::Error),
}

/// How to start.
#[derive(Clone)]
pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    /// What the command line says, over what the configuration says.
    pub gateway: Option<Listen>,
    pub monitor: Option<Listen>,
    pub hub: Option<Listen>,
}

/// A serving gateway.
pub struct App {
    dir: StateDir,
    addresses: Addresses,
    created: bool,
    bus: Bus,
    settings: settings::Handle,
    phase: watch::Sender<Phase>,
    stop_listening: CancellationToken,
    stop_settings: CancellationToken,
    listeners: TaskTracker,
    services: TaskTracker,
    _lock: DirLock,
}

impl App {
    /// Starts everything and returns once it is ready.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let Options { dir, clock, .. } = &options;
        let lock = claim(dir)?;
        let created = ensure_config(dir)?;
        let first = settings::load(dir)?;
        make_workspaces(dir, &first)?;
        let listeners = bind(&options, &first).await?;
        let addresses = addresses_of(&listeners);

        let metrics = Metrics::default();
        let bus = Bus::open(dir, clock.clone(), metrics.clone())?;
        let audit = Audit::open(dir)?;

        let services = TaskTracker::new();
        let stop_settings = CancellationToken::new();
        let service = Service { dir: dir.clone(), bus: bus.clone(), clock: clock.clone(), metrics: metrics.clone() };
        let (settings, watching) = service.start(first, stop_settings.clone());
        services.spawn(watching);
        services.spawn(keep_workspaces(dir.clone(), settings.clone(), stop_settings.clone()));

        let (phase, phase_seen) = watch::channel(Phase::Starting);
        let context = Context::new(Shared {
            dir: dir.clone(),
            addresses,
            settings: settings.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
            metrics,
            phase: phase_seen,
            methods: edge::methods(),
            audit,
            limiters: Limiters::default(),
        });
        let routes = edge::routes();
        let stop_listening = CancellationToken::new();
        let serving = TaskTracker::new();
        for listener in listeners {
            let (routes, context, stop) = (routes.clone(), context.clone(), stop_listening.clone());
            serving.spawn(async move { listener.serve(&routes, context, stop).await });
        }

        bus.emit(Kind::GatewayStarted, data(json!({ "version": env!("CARGO_PKG_VERSION"), "addresses": addresses })))?;
        phase.send_replace(Phase::Ready);
        let said = RunFile::of_this_process(addresses).write(dir);
        said.map_err(|source| Error::Directory { path: dir.run(), source })?;
        tracing::info!(dir = %dir.path().display(), ?addresses, "ready");
        Ok(Self {
            dir: dir.clone(),
            addresses,
            created,
            bus,
            settings,
            phase,
            stop_listening,
            stop_settings,
            listeners: serving,
            services,
            _lock: lock,
        })
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

    /// Whether this start wrote a first configuration.
    pub fn created_config(&self) -> bool {
        self.created
    }

    /// Takes no more, lets requests under way finish, writes the end, frees the directory.
    pub async fn stop(self) -> Result<(), Error> {
        tracing::info!("stopping");
        self.phase.send_replace(Phase::Draining);
        self.stop_listening.cancel();
        self.listeners.close();
        self.listeners.wait().await;
        self.stop_settings.cancel();
        self.services.close();
        self.services.wait().await;
        self.bus.emit(Kind::GatewayStopped, data(json!({})))?;
        self.bus.sync()?;
        RunFile::remove(&self.dir).map_err(|source| Error::Directory { path: self.dir.run(), source })?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Makes the directories that a state directory needs, unless it belongs to another system.
pub fn prepare(dir: &StateDir) -> Result<(), Error> {
    if dir.old_config().exists() && !dir.config().exists() {
        return Err(Error::Foreign { path: dir.path().to_owned() });
    }
    for path in [dir.path().to_owned(), dir.logs(), dir.run()] {
        chela_storage::make_private_dir(&path).map_err(|source| Error::Directory { path, source })?;
    }
    Ok(())
}

/// Makes the state directory ours for as long as the lock lives.
fn claim(dir: &StateDir) -> Result<DirLock, Error> {
    prepare(dir)?;
    let lock = DirLock::take(&dir.lock()).map_err(|error| match error {
        LockError::Held { owner, .. } => Error::Served { path: dir.path().to_owned(), owner },
        LockError::Io { path, source } => Error::Directory { path, source },
    })?;
    // Left by a gateway that was killed: until we are ready, it would name the wrong one.
    RunFile::remove(dir).map_err(|source| Error::Directory { path: dir.run(), source })?;
    Ok(lock)
}

/// Whether a first configuration had to be written. Addresses of the command line are for this start alone and stay out of it.
fn ensure_config(dir: &StateDir) -> Result<bool, Error> {
    if dir.config().exists() {
        return Ok(false);
    }
    settings::create(dir, &Starter::default())?;
    Ok(true)
}

fn make_workspaces(dir: &StateDir, settings: &Settings) -> Result<(), Error> {
    for agent in &settings.config.agents.list {
        let path = dir.workspace(agent);
        chela_storage::make_private_dir(&path).map_err(|source| Error::Directory { path, source })?;
    }
    Ok(())
}

/// Agents that a changed configuration adds get their workspaces too.
async fn keep_workspaces(dir: StateDir, settings: settings::Handle, stop: CancellationToken) {
    let mut changes = settings.subscribe();
    while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
        let current = changes.borrow_and_update().clone();
        if let Err(error) = make_workspaces(&dir, &current) {
            tracing::error!(error = &error as &dyn std::error::Error, "an agent has no workspace");
        }
    }
}

async fn bind(options: &Options, settings: &Settings) -> Result<Vec<Listener>, Error> {
    let config = &settings.config;
    let wanted = [
        (Port::Gateway, options.gateway.unwrap_or(config.gateway.listen)),
        (Port::Monitor, options.monitor.unwrap_or(config.monitor.listen)),
        (Port::Hub, options.hub.unwrap_or(config.hub.listen)),
    ];
    let mut listeners = Vec::new();
    for (port, listen) in wanted {
        listeners.extend(edge::bind(port, listen).await?);
    }
    Ok(listeners)
}

fn addresses_of(listeners: &[Listener]) -> Addresses {
    let of = |port| listeners.iter().find(|listener| listener.port() == port).map(Listener::address);
    Addresses { gateway: of(Port::Gateway), monitor: of(Port::Monitor), hub: of(Port::Hub) }
}
