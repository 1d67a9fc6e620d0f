//! Tasks: markdown files that agents, people and the gateway edit together.
//! Owns the task files, plans, milestones and todos. Keeps true: what was acknowledged is in the journal; a list costs no disk; a file by hand
//! is taken up and never destroyed. Never: decides whether a tool may be called.

mod archive;
mod board;
mod edits;
mod file;
mod machine;
mod milestones;
mod people;
mod plans;
mod record;
mod service;
mod store;
mod tools;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use chela_storage::Digest;
use chela_taskfile::{Blocked, Status, Task};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::event::Kind;
use crate::id::AgentId;
use crate::journal;
use crate::layout::StateDir;
use crate::results::Keep;
use crate::session_key::SessionKey;
use crate::settings;

pub use board::Placed;
pub use machine::{Refused, Unblock};
pub use milestones::ListError;
pub use plans::PlanError;
pub use tools::{By, TOOLS, ToolSpec};

use machine::{Decided, Op};
use store::{Cause, Parts, Shown, Store};

/// Archived tasks that are remembered as such, for those that depend on them.
const CLOSED_MAX: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    List(#[from] ListError),
    #[error("task {id} belongs to {agent}; only task_status, task_list and task_approve reach the tasks of others")]
    NotYours { id: String, agent: AgentId },
    #[error(
        "{tool}: nobody approves or rejects their own work; leave it to a person or to another agent, and end your turn"
    )]
    OwnApproval { tool: String },
    #[error("no agent has the id {0:?}; `chela agents` lists them")]
    UnknownAgent(String),
    #[error("sub-agents may not use task tools; report to the agent that started you")]
    SubAgent,
    #[error("{} cannot be read as a task ({said}); mend the file", path.display())]
    Malformed { path: PathBuf, said: String },
    #[error("{} is read-only; allow writing with `chmod u+w`", path.display())]
    ReadOnly { path: PathBuf },
    #[error("{} would leave no room for the task's end (1 MiB in all); finish the task and begin another", path.display())]
    TooLarge { path: PathBuf },
    #[error("cannot {action} {} ({cause}); nothing was changed", path.display())]
    File { action: &'static str, path: PathBuf, cause: std::io::Error },
    #[error("nothing was changed: {0}")]
    Journal(#[from] journal::Error),
    #[error("the gateway is stopping")]
    Stopping,
}

impl Error {
    fn file(action: &'static str, path: &Path, cause: std::io::Error) -> Self {
        Self::File { action, path: path.to_owned(), cause }
    }

    /// Whether the caller could have done better; otherwise the machine could.
    pub fn is_callers(&self) -> bool {
        match self {
            Self::Refused(_)
            | Self::NotYours { .. }
            | Self::OwnApproval { .. }
            | Self::UnknownAgent(_)
            | Self::SubAgent
            | Self::Plan(_)
            | Self::TooLarge { .. } => true,
            Self::List(error) => error.is_callers(),
            Self::Malformed { .. } | Self::ReadOnly { .. } | Self::File { .. } | Self::Journal(_) | Self::Stopping => {
                false
            }
        }
    }
}

/// An open task as everybody may see it.
#[derive(Clone, Debug)]
pub struct View {
    pub agent: AgentId,
    pub id: String,
    pub task: Arc<Task>,
    /// Why its file cannot be read as it is, with the line.
    pub problem: Option<String>,
    /// The session of its agent in which it was started, where that is known.
    pub session: Option<String>,
}

impl View {
    /// Where its agent works on it: the session in which it was started, else the agent's main session.
    pub fn session_key(&self) -> SessionKey {
        let known = self.session.as_deref().and_then(|key| SessionKey::parse(key).ok());
        let own = known.filter(|key| key.agent == self.agent && !key.is_subagent());
        own.unwrap_or_else(|| SessionKey::main(self.agent.clone()))
    }

    pub fn to_json(&self) -> Value {
        let mut fields = self.task.to_json();
        fields.insert("agentId".into(), json!(self.agent));
        if let Some(problem) = &self.problem {
            fields.insert("problem".into(), json!(problem));
        }
        Value::Object(fields)
    }
}

/// What the room is built from.
pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    pub bus: Bus,
    pub settings: settings::Handle,
    pub journal: journal::Handle,
}

/// What the journal knows of tasks.
pub struct Found {
    tasks: record::Found,
    unsynced: BTreeMap<String, String>,
}

/// Reads what the journal knows, before anybody commits to it.
pub fn read(opened: &journal::Opened) -> Result<Found, journal::Error> {
    Ok(Found { tasks: record::read(opened)?, unsynced: milestones::unsynced(opened)? })
}

/// The way to the room; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    dir: StateDir,
    parts: Parts,
    settings: settings::Handle,
    agents: RwLock<BTreeMap<AgentId, Arc<Agent>>>,
    /// What the journal knows of agents that are not configured now.
    known: Mutex<BTreeMap<String, BTreeMap<String, record::Versions>>>,
    /// Ids of tasks that were found to be archived.
    closed: Mutex<HashSet<Digest>>,
    /// One change of the lists at a time.
    lists: Mutex<()>,
    /// Counts their changes.
    lists_seen: tokio::sync::watch::Sender<u64>,
    /// Completed tasks whose milestone items are still to be marked.
    unsynced: Mutex<BTreeMap<String, String>>,
}

struct Agent {
    folder: PathBuf,
    /// Its finished tasks; for whoever looks without the lock.
    archive: Arc<archive::Archive>,
    store: Mutex<Store>,
    shown: Shown,
    /// Whether the store has something to look after.
    waits: Arc<AtomicBool>,
    /// Held while ended tasks are looked after: whoever ended one answers once what waited for it has started, whichever thread starts it.
    settling: Mutex<()>,
}

impl Agent {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn views(&self) -> Vec<Arc<View>> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// Opens every agent's tasks; the future takes up edits until `stop`.
pub fn start(
    options: Options,
    found: Found,
    stop: CancellationToken,
) -> Result<(Handle, impl Future<Output = ()> + Send), Error> {
    let Options { dir, clock, bus, settings, journal } = options;
    for event in found.tasks.untold {
        if let Err(error) = bus.emit_event(event) {
            tracing::error!(error = &error as &dyn std::error::Error, "an event of a task was not told again");
        }
    }
    let mut known: BTreeMap<String, BTreeMap<String, record::Versions>> = BTreeMap::new();
    for (id, versions) in found.tasks.tasks {
        if let Some((agent, task)) = id.split_once('/') {
            known.entry(agent.to_owned()).or_default().insert(task.to_owned(), versions);
        }
    }
    let shared = Arc::new(Shared {
        dir,
        parts: Parts { journal, bus, clock, busy: Arc::default() },
        settings,
        agents: RwLock::default(),
        known: Mutex::new(known),
        closed: Mutex::default(),
        lists: Mutex::default(),
        lists_seen: tokio::sync::watch::Sender::new(0),
        unsynced: Mutex::new(found.unsynced),
    });
    let handle = Handle(shared);
    handle.open_agents()?;
    let service = service::Service::new(handle.clone());
    Ok((handle, service.run(stop)))
}

impl Handle {
    /// Opens the workspaces of agents that are new in the configuration.
    fn open_agents(&self) -> Result<Vec<PathBuf>, Error> {
        let shared = &self.0;
        let mut opened = Vec::new();
        for agent in &shared.settings.current().config.agents.list {
            if self.agent(&agent.id).is_ok() {
                continue;
            }
            let folder = shared.dir.path().join(agent.workspace_path());
            let known = shared.known.lock().unwrap_or_else(PoisonError::into_inner).remove(agent.id.as_ref());
            let shown = Shown::default();
            let store = Store::open(
                agent.id.clone(),
                folder.clone(),
                shared.parts.clone(),
                shown.clone(),
                known.unwrap_or_default(),
            )?;
            let (waits, archive) = (store.waits.clone(), store.archive.clone());
            let settling = Mutex::default();
            let opened_agent =
                Agent { folder: folder.clone(), archive, store: Mutex::new(store), shown, waits, settling };
            let agent = (agent.id.clone(), Arc::new(opened_agent));
            shared.agents.write().unwrap_or_else(PoisonError::into_inner).extend([agent]);
            opened.push(folder.join("tasks"));
        }
        Ok(opened)
    }

    fn agent(&self, id: &AgentId) -> Result<Arc<Agent>, Error> {
        let agents = self.0.agents.read().unwrap_or_else(PoisonError::into_inner);
        agents.get(id).cloned().ok_or_else(|| Error::UnknownAgent(id.to_string()))
    }

    fn agents(&self) -> Vec<(AgentId, Arc<Agent>)> {
        let agents = self.0.agents.read().unwrap_or_else(PoisonError::into_inner);
        agents.iter().map(|(id, agent)| (id.clone(), agent.clone())).collect()
    }

    /// Every open task of an agent, by id.
    pub fn of(&self, agent: &AgentId) -> Result<Vec<Arc<View>>, Error> {
        Ok(self.agent(agent)?.views())
    }

    /// Every open task of the team.
    pub fn all(&self) -> Vec<Arc<View>> {
        self.agents().into_iter().flat_map(|(_, agent)| agent.views()).collect()
    }

    /// The task that an agent works on.
    pub fn current(&self, agent: &AgentId) -> Option<Arc<View>> {
        let views = self.of(agent).ok()?;
        let well = views.iter().filter(|view| view.problem.is_none());
        let active = machine::active_of(well.map(|view| &view.task)).map(|task| task.id.clone());
        views.into_iter().find(|view| Some(&view.id) == active.as_ref())
    }

    /// An open task of anybody by its id.
    pub fn open(&self, id: &str) -> Option<Arc<View>> {
        self.agents()
            .iter()
            .find_map(|(_, agent)| agent.shown.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned())
    }

    /// Like [`Handle::open`], an agent's own before another's of the same name.
    pub fn open_for(&self, agent: &AgentId, id: &str) -> Option<Arc<View>> {
        let own = self.agent(agent).ok()?;
        let own = own.shown.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        own.or_else(|| self.open(id))
    }

    /// A task of anybody by its id, finished ones too. Reads files: not for an async thread.
    pub fn find(&self, id: &str) -> Option<View> {
        if let Some(open) = self.open(id) {
            return Some(View::clone(&open));
        }
        self.agents().into_iter().find_map(|(agent, known)| {
            let task = known.archive.find(id)?.task();
            Some(View { agent, id: id.to_owned(), task: Arc::new(task), problem: None, session: None })
        })
    }

    /// Whether a task is still to be done; none if there is none.
    fn is_open(&self, id: &str) -> Option<bool> {
        if let Some(view) = self.open(id) {
            return Some(!view.task.status.is_terminal());
        }
        if self.0.closed.lock().unwrap_or_else(PoisonError::into_inner).contains(&Digest::of(id)) {
            return Some(false);
        }
        let found = self.agents().iter().any(|(_, agent)| agent.archive.find(id).is_some());
        if found {
            self.close(id);
        }
        found.then_some(false)
    }

    fn close(&self, id: &str) {
        let mut closed = self.0.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if closed.len() >= CLOSED_MAX {
            closed.clear();
        }
        closed.insert(Digest::of(id));
    }

    /// Lets something happen to an agent's tasks. Waits for the disk: not for an async thread.
    fn act(&self, agent: &AgentId, op: Op) -> Result<Decided, Error> {
        self.act_for(agent, op, &Cause::default())
    }

    /// Like [`Handle::act`], for a call whose answer is kept.
    fn act_for(&self, agent: &AgentId, op: Op, cause: &Cause<'_>) -> Result<Decided, Error> {
        let known = self.agent(agent)?;
        let decided = known.lock().act(op, &|id| self.is_open(id), cause)?;
        self.settle(&known);
        Ok(decided)
    }

    /// Looks after tasks that ended: what waited for them may start, and milestones are marked. Whether there were any.
    fn settle(&self, agent: &Agent) -> bool {
        let _settling = agent.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = std::mem::take(&mut agent.lock().ended);
        for task in &ended {
            self.close(&task.id);
            self.start_dependents(&task.id);
            if task.status == Status::Completed {
                self.sync_milestone(task);
            }
        }
        !ended.is_empty()
    }

    /// Like [`Handle::settle`] for tasks that a person ended: nobody has started the next one yet.
    fn settle_and_fill(&self, id: &AgentId, agent: &Agent) {
        if self.settle(agent)
            && let Err(error) = self.act(id, Op::Fill)
        {
            tracing::warn!(agent = %id, error = &error as &dyn std::error::Error, "the next task was not started");
        }
    }

    /// What waited for a task may start now, whoever has it.
    fn start_dependents(&self, id: &str) {
        for (agent, known) in self.agents() {
            let waits = |view: &Arc<View>| view.task.depends_on.iter().any(|on| on == id);
            if known.views().iter().any(waits)
                && let Err(error) = known.lock().act(Op::Fill, &|id| self.is_open(id), &Cause::default())
            {
                tracing::warn!(%agent, task = id, error = &error as &dyn std::error::Error, "what waited for a task was not started");
            }
        }
    }

    /// Adds a line to a task's progress, because of a call that is answered with this.
    pub async fn note(
        &self,
        agent: AgentId,
        task: String,
        line: String,
        keep: Option<Arc<Keep>>,
        answer: Map<String, Value>,
    ) -> Result<(), Error> {
        let handle = self.clone();
        blocking(move || {
            let cause = Cause { keep: keep.as_deref(), answer: Some(&answer), ..Cause::default() };
            handle.act_for(&agent, Op::Note { task, line }, &cause).map(drop)
        })
        .await
    }

    /// Somebody was asked to unblock a task. Refused where that is counted already.
    pub async fn request_unblock(&self, agent: AgentId, task: String, stage: Unblock) -> Result<(), Error> {
        let handle = self.clone();
        blocking(move || handle.act(&agent, Op::RequestUnblock { task, stage }).map(drop)).await
    }

    /// Blocks a task in progress, on the gateway's own account.
    pub async fn block(&self, agent: AgentId, task: String, kind: &str, reason: String) -> Result<(), Error> {
        let action = "resume it when that has changed: `task_resume`".to_owned();
        let blocked = Blocked {
            reason: chela_taskfile::one_line(&reason),
            kind: kind.to_owned(),
            action,
            escalation: "none".into(),
            ..Blocked::default()
        };
        let handle = self.clone();
        blocking(move || handle.act(&agent, Op::Block { task: Some(task), blocked }).map(drop)).await
    }

    /// Takes a task that nobody works on off the list: abandoned, or back in the backlog.
    pub async fn give_up(&self, agent: AgentId, task: String, reason: String, to_backlog: bool) -> Result<(), Error> {
        let handle = self.clone();
        blocking(move || handle.act(&agent, Op::GiveUp { task, reason, to_backlog }).map(drop)).await
    }

    /// Takes a task out of the backlog; it starts if nothing is in the way.
    pub async fn pick(&self, agent: AgentId, task: String) -> Result<(), Error> {
        let handle = self.clone();
        blocking(move || handle.act(&agent, Op::PickFromBacklog { task: Some(task) }).map(drop)).await
    }

    /// The next task of an agent's backlog that could start.
    pub fn next_of_backlog(&self, agent: &AgentId) -> Option<Arc<View>> {
        let views = self.of(agent).ok()?;
        let free = |view: &&Arc<View>| {
            let waits = |id: &String| self.open(id).is_some_and(|view| !view.task.status.is_terminal());
            view.problem.is_none() && view.task.status == Status::Backlog && !view.task.depends_on.iter().any(waits)
        };
        let key = |view: &&Arc<View>| (view.task.priority.rank(), view.task.created.clone(), view.id.clone());
        views.iter().filter(free).min_by_key(key).cloned()
    }

    /// Tells the log and writes what is left. The room takes nothing more.
    pub async fn stop(&self) {
        let handle = self.clone();
        let looked = blocking(move || {
            // An edit counts once it has been seen twice.
            for _ in 0..3 {
                handle.agents().iter().try_for_each(|(_, agent)| agent.lock().look_after())?;
                if !handle.agents().iter().any(|(_, agent)| agent.lock().has_news()) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(80));
            }
            Ok(())
        });
        if let Err(error) = looked.await {
            tracing::warn!(error = &error as &dyn std::error::Error, "an edit is taken up at the next start");
        }
        if let Err(error) = service::tell_all(self).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "events of tasks are told again after the next start"
            );
        }
    }

    fn emit(&self, agent: &str, kind: Kind, data: Map<String, Value>) {
        let event = crate::event::Event::of(agent, kind, self.0.parts.clock.now(), data);
        if let Err(error) = self.0.parts.bus.emit_event(event) {
            tracing::error!(error = &error as &dyn std::error::Error, kind = kind.as_str(), "an event was not written");
        }
    }
}

/// Work that waits for a disk. A thread that may wait does it itself: handing it over and being woken again takes longer than most of it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::runtime::Handle::current().runtime_flavor() {
        tokio::runtime::RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Stopping)),
    }
}
