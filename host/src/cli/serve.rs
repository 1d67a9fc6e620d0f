//! `chela serve`: the gateway in the foreground, from the first line to the last signal.

use std::net::SocketAddr;

use anyhow::Context as _;
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use super::output::{plain, table};
use super::{Listeners, Output};
use crate::app::{self, App, Options};
use crate::bus::SEGMENT_BYTES;
use crate::clock::Clock;
use crate::config::old::Ignored;
use crate::config::{Log, LogFormat};
use crate::layout::StateDir;
use crate::logs;
use crate::port::Port;
use crate::run::{Encryption, RunFile};
use crate::settings::{self, Adopted};
use crate::supervisor::Supervisor;

/// Threads that may wait for disks at once, at least. They are used in turn, so that those which were needed once stay, each with memory of
/// its own: a burst of a moment must not leave hundreds behind.
const WAITING_THREADS_MIN: usize = 16;
const WAITING_THREADS_A_CORE: usize = 4;

#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    listeners: Listeners,
    /// Take over a directory of the old system: write chela.json from its openclaw.json, which stays as it is
    #[arg(long)]
    adopt: bool,
}

impl Serve {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        // Only for how to log; `App::start` reads it again under the lock and says what is wrong with it.
        let log = settings::load(dir).map(|settings| settings.config.log).unwrap_or_default();
        let level = start_logging(&log);
        raise_open_files();
        let adopted = if self.adopt { app::adopt(dir)? } else { None };
        if let Some(adopted) = adopted.as_ref().filter(|_| !output.json) {
            output.show(&json!(adopted), || adoption(adopted));
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let waiting = (cores * WAITING_THREADS_A_CORE).max(WAITING_THREADS_MIN);
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.enable_all().max_blocking_threads(waiting).build().context("cannot start")?;
        let supervisor = Supervisor::of_environment();
        let served = runtime.block_on(self.serve(dir, output, level, adopted, supervisor.clone()));
        if let Err(error) = &served {
            supervisor.status(&format!("{error:#}"));
        }
        // Nothing of ours runs on any more; a name look-up of the system may, and is not waited for.
        runtime.shutdown_background();
        served
    }

    async fn serve(
        self,
        dir: &StateDir,
        output: Output,
        level: LogLevel,
        adopted: Option<Adopted>,
        supervisor: Supervisor,
    ) -> anyhow::Result<()> {
        let signals = Signals::new().context("cannot listen for signals")?;
        let compiler = std::env::current_exe().context("cannot find this program's own file")?;
        let listen = self.listeners.into();
        let options = Options {
            dir: dir.clone(),
            clock: Clock::system(),
            listen,
            compiler,
            watched: None,
            segment_bytes: SEGMENT_BYTES,
        };
        let app = App::start(options).await?;
        let ready = RunFile::of_this_process(app.addresses());
        let mut document = json!(ready);
        if let Some(adopted) = adopted {
            document["adopted"] = json!(adopted);
        }
        // A journal is read by others than the owner, and keeps what it is told.
        let link = app.hub_link().filter(|_| !supervisor.is_there());
        if let Some(link) = &link {
            document["hubLink"] = json!(link);
        }
        output.show(&document, || welcome(dir, &app, link));
        until_stopped(app, dir, signals, level, supervisor).await
    }
}

/// Serves until a signal or a fault, then stops in order.
pub(super) async fn until_stopped(
    mut app: App,
    dir: &StateDir,
    mut signals: Signals,
    level: LogLevel,
    supervisor: Supervisor,
) -> anyhow::Result<()> {
    let settings = app.settings().clone();
    let mut changes = settings.subscribe();
    let pulse = app.pulse().clone();
    // Also while it stops: a drain that hangs is a reason to be ended.
    let watched = tokio::spawn(supervisor.clone().keep_watched(move || {
        let pulse = pulse.clone();
        async move { pulse.beat().await }
    }));
    supervisor.ready(&standing(&settings));
    let fault = loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Told::Stop => break None,
                // Not waited for: the next signal may be the one to stop.
                Told::Reload => drop(tokio::spawn({
                    let (settings, supervisor) = (settings.clone(), supervisor.clone());
                    async move {
                        supervisor.reloading();
                        // What became of it is in the log, and in what is told next.
                        let _ = settings.reload().await;
                        supervisor.ready(&standing(&settings));
                    }
                })),
            },
            died = app.died() => break Some(died),
            Ok(()) = changes.changed() => {
                level.set(&changes.borrow_and_update().config.log);
                supervisor.status(&standing(&settings));
            }
        }
    };
    supervisor.stopping(app.stops_within());
    let stopped = tokio::select! {
        stopped = app.stop() => Some(stopped),
        () = signals.stop() => None,
    };
    watched.abort();
    match stopped {
        Some(stopped) => stopped?,
        None => {
            let removed = RunFile::remove(dir).and_then(|()| Encryption::write(None, dir));
            removed.context("cannot remove the run file")?;
            anyhow::bail!("ended at once by a second signal; requests under way were cut off");
        }
    }
    match fault {
        Some(fault) => Err(fault.into()),
        None => Ok(()),
    }
}

/// How it stands, in a line for the service manager.
fn standing(settings: &settings::Handle) -> String {
    let agents = settings.current().config.agents.list.len();
    let standing = settings.standing();
    match (standing.problems.first(), standing.restart_needed.first()) {
        (Some(problem), _) => format!("serving {agents} agents; chela.json is refused: {problem}"),
        (None, Some(path)) => format!("serving {agents} agents; the change of {path} needs a restart"),
        (None, None) => format!("serving {agents} agents"),
    }
}

/// As many open files as the system lets us have: connections need one each. What it refuses is found out by `doctor`.
pub(super) fn raise_open_files() {
    let limits = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum });
}

fn adoption(adopted: &Adopted) -> String {
    let mut text = format!("wrote {} from {}, which stays as it is", adopted.config.display(), adopted.from.display());
    if adopted.new_token {
        text.push_str("\nclients need a new token: `chela token` prints it");
    }
    if !adopted.ignored.is_empty() {
        text.push_str("\nnot taken over:");
    }
    let row = |ignored: &Ignored| vec![format!("  {}", plain(&ignored.path)), plain(&ignored.reason)];
    let rows: Vec<Vec<String>> = adopted.ignored.iter().map(row).collect();
    format!("{text}\n{}\n", table(&rows))
}

fn welcome(dir: &StateDir, app: &App, link: Option<String>) -> String {
    let settings = app.settings().current();
    let team: Vec<&str> = settings.config.agents.list.iter().map(|agent| agent.display_name()).collect();
    let row = |name: &str, value: String| vec![format!("  {name}"), value];
    let shown = |port: Port, address: &Option<SocketAddr>| {
        address.map_or("off".into(), |at| format!("{}://{at}", app.scheme(port)))
    };
    let mut rows: Vec<Vec<String>> =
        app.addresses().iter().map(|(port, address)| row(port.as_str(), shown(port, address))).collect();
    rows.extend(link.map(|link| row("sign in", format!("{link} (once, within an hour)"))));
    let state = dir.path().display();
    let news = if app.created_config() { " (new; change it while this runs)" } else { "" };
    rows.extend([
        row("team", if team.is_empty() { "nobody yet".into() } else { team.join(", ") }),
        row("config", format!("{}{news}", dir.config().display())),
        row("look", format!("chela status --state-dir {state}")),
        row("token", format!("chela token --state-dir {state}")),
        row("stop", "Ctrl-C".into()),
    ]);
    format!("Chela {} serves {state}\n{}", env!("CARGO_PKG_VERSION"), table(&rows))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Stop,
    Reload,
}

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reload: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.reload.recv() => Told::Reload,
        }
    }

    async fn stop(&mut self) {
        while self.next().await != Told::Stop {}
    }
}

/// Lets a changed configuration change how much is logged.
pub(super) struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    fn set(&self, log: &Log) {
        // Fails only when logging is gone, and then there is nowhere to say so.
        let _ = self.0.reload(filter(log));
    }
}

pub(super) fn start_logging(log: &Log) -> LogLevel {
    let (filter, handle) = reload::Layer::new(filter(log));
    // A log that nobody takes any more must not end the gateway.
    let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let lines = match log.format {
        LogFormat::Json => lines.json().boxed(),
        LogFormat::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
    };
    let keep = logs::Keep(Clock::system());
    tracing_subscriber::registry().with(filter).with(lines).with(keep).init();
    LogLevel(handle)
}

/// `CHELA_LOG` (such as `debug`, `chela::edge=trace` or `chela_plugins=debug`) wins over the configuration.
fn filter(log: &Log) -> EnvFilter {
    match std::env::var("CHELA_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::new(directives),
        _ => EnvFilter::new(log.level.as_str()),
    }
}
