//! The door: every listener, who may come in, how much they may ask, and where each path leads.
//! Alone knows axum and the public JSON. Keeps true: no request reaches a handler before Host, Origin, rate and scope have been checked;
//! every route and method states its scope where it is registered. Never: decides what a request means.

mod api;
mod audit;
mod backup;
mod body;
mod catalog;
mod channels;
mod chat;
mod completions;
mod error;
mod follow;
mod frame;
mod gateway;
#[cfg(test)]
mod fuzz;
mod guard;
mod health;
mod hub;
mod humans;
mod jobs;
mod keys;
mod limiter;
mod listener;
mod methods;
mod monitor;
mod old_tasks;
mod openapi;
mod origin;
mod params;
mod plugins;
mod pulse;
mod queries;
mod route;
mod sessions;
mod table;
mod tasks;
mod tools;
mod upgrade;
mod workspaces;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::layout::StateDir;
use crate::metrics::Metrics;
use crate::port::Port;
use crate::run::Addresses;
use crate::settings;

pub use api::routes;
pub use audit::Audit;
pub use backup::Backups;
pub use error::Refusal;
pub use frame::{ErrorShape, Request, Response};
pub use gateway::{Presence, announce};
pub use hub::Codes;
pub use limiter::Limiters;
pub use listener::{Listener, bind, connections_share};
pub use methods::{LastHealth, methods};
pub use openapi::document as openapi_document;
pub use pulse::Pulse;
pub use route::{Access, Route, Routes};
pub use table::Methods;

/// Where a gateway is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Ready,
    /// No new work; what is under way finishes.
    Draining,
    /// Connections end.
    Stopping,
}

/// What every handler may use.
#[derive(Clone)]
pub struct Context(Arc<Shared>);

pub struct Shared {
    pub dir: StateDir,
    /// The directory that the monitor shows: the same, unless it is another's.
    pub watched: StateDir,
    pub addresses: Addresses,
    pub settings: settings::Handle,
    pub plugins: crate::plugins::Handle,
    pub monitor: crate::monitor::Handle,
    pub tasks: crate::tasks::Handle,
    pub tools: crate::tools::Handle,
    pub sessions: crate::sessions::Handle,
    pub jobs: crate::jobs::Handle,
    pub dialogues: crate::dialogues::Handle,
    pub humans: crate::humans::Handle,
    pub agents: crate::agents::Handle,
    pub continuation: crate::continuation::Handle,
    pub hub: crate::hub::Handle,
    /// Links that sign in once.
    pub codes: Arc<Codes>,
    pub channels: crate::channels::Handle,
    pub bus: Bus,
    pub journal: crate::journal::Health,
    pub clock: Clock,
    pub metrics: Metrics,
    pub phase: watch::Receiver<Phase>,
    pub methods: Methods,
    /// Changes under way: a client that hangs up does not stop one halfway.
    pub changes: TaskTracker,
    /// Connections that outlive their request.
    pub sockets: TaskTracker,
    pub audit: Audit,
    pub limiters: Limiters,
    pub feed: crate::feed::Feed,
    pub presence: Presence,
    pub last_health: LastHealth,
    pub backups: Backups,
}

impl Context {
    pub fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }
}

impl Shared {
    fn uptime_ms(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the directory that is shown is our own.
    fn is_own(&self) -> bool {
        self.dir == self.watched
    }

    /// The workspace of an agent in the directory that is shown.
    fn workspace(&self, agent: &crate::id::AgentId) -> PathBuf {
        let settings = self.settings.current();
        let known = settings.config.agents.list.iter().find(|known| known.id == *agent);
        self.watched
            .path()
            .join(known.map_or_else(|| format!("workspace-{agent}").into(), |known| known.workspace_path()))
    }

    /// Why the gateway should get no new work; empty when it should.
    fn failing(&self) -> Vec<&'static str> {
        let draining = (*self.phase.borrow() != Phase::Ready).then_some("draining");
        let event_log = self.bus.is_failing().then_some("event-log");
        let journal = self.journal.failure().map(|_| "journal");
        let audit_log = self.audit.is_failing().then_some("audit-log");
        draining.into_iter().chain(event_log).chain(journal).chain(audit_log).collect()
    }
}

impl std::ops::Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {address} is in use by another program; choose another with --{} ADDR (port 0 is any free one) or `{}.listen` in chela.json", port.as_str(), port.as_str(), port.as_str())]
    PortInUse { port: Port, address: SocketAddr },
    #[error("{}: cannot listen on {address} ({cause}); choose another with --{} ADDR or `{}.listen` in chela.json", port.as_str(), port.as_str(), port.as_str())]
    Bind { port: Port, address: SocketAddr, cause: std::io::Error },
    #[error("cannot open the audit log {} ({cause}); check its owner and rights", path.display())]
    Audit { path: PathBuf, cause: std::io::Error },
}
