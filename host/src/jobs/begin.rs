//! How a flow comes about: who may send to whom, which work session and conversation it belongs to, who hears of its end.

use std::sync::Arc;
use std::time::Duration;

use chela_flow::{Announced, DeliveryState, Job, Kind, New, Place, Status, create};
use chela_storage::Digest;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::drive::Driver;
use super::{Awaits, Error, Handle};
use crate::config::{AgentRole, ChainLimits, Config};
use crate::event::Role;
use crate::id::{self, AgentId, Packed};
use crate::lineage::{Lineage, Sources};
use crate::session_key::SessionKey;
use crate::sessions::{self, Chain, Part};
use crate::traces;

const ID_CHARS_MAX: usize = 128;

/// The run that causes a flow.
#[derive(Clone, Debug)]
pub struct Cause {
    pub chain: Chain,
    pub part: Option<Part>,
}

/// A message to another session.
#[derive(Clone, Debug)]
pub struct Send {
    pub from: SessionKey,
    /// The same key again is the same flow.
    pub key: Option<String>,
    pub cause: Option<Cause>,
    pub target: SessionKey,
    /// The agent was named, not one of its sessions.
    pub to_agent: bool,
    pub message: String,
    pub wait: Duration,
    pub conversation_id: Option<String>,
    pub parent_conversation_id: Option<String>,
    pub work_session_id: Option<String>,
}

/// A sub-agent that is to work for a while.
#[derive(Clone, Debug)]
pub struct Spawn {
    pub from: SessionKey,
    /// The same key again is the same flow.
    pub key: Option<String>,
    pub cause: Option<Cause>,
    pub agent: AgentId,
    pub task: String,
    pub label: Option<String>,
    pub run_timeout: Option<Duration>,
    pub work_session_id: Option<String>,
}

/// A flow that is under way.
pub struct Begun {
    pub job: Arc<Job>,
    /// The same call made it before.
    pub again: bool,
    /// To wait for it would be for ever: a run of the same chain holds the target.
    pub would_deadlock: bool,
    /// Until this is dropped somebody waits for its first reply.
    _awaits: Option<Awaits>,
}

/// The first reply, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Answered(String),
    Failed {
        status: Status,
        error: String,
    },
    /// It is still awaited.
    NotYet,
}

/// Where two agents' conversation in a work session is kept.
pub(super) fn pair_in(work_session: &str, job: &Job) -> Digest {
    let [first, second] =
        in_order(chela_flow::agent_of(&job.session_key), chela_flow::agent_of(&job.target_session_key));
    Digest::of_all(&[work_session, first, second])
}

fn in_order<'a>(a: &'a str, b: &'a str) -> [&'a str; 2] {
    if a <= b { [a, b] } else { [b, a] }
}

fn checked(what: &'static str, id: Option<String>) -> Result<Option<String>, Error> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let good = |id: &String| (1..=ID_CHARS_MAX).contains(&id.chars().count()) && id.chars().all(plain);
    match id.as_ref().is_none_or(good) {
        true => Ok(id),
        false => Err(Error::BadId { what }),
    }
}

impl Handle {
    /// Begins a flow: when this answers, it ends, whatever happens. The same call again is the same flow.
    pub async fn send(&self, asked: Send) -> Result<Begun, Error> {
        self.begin_as(asked, Kind::Send).await
    }

    /// Begins a flow because an agent has mentioned another where people talk.
    pub async fn route(&self, asked: Send) -> Result<Begun, Error> {
        self.begin_as(asked, Kind::AutoRoute).await
    }

    async fn begin_as(&self, asked: Send, kind: Kind) -> Result<Begun, Error> {
        let chain_id = asked.cause.as_ref().map(|cause| cause.chain.id.clone());
        let sessions = &self.0.options.sessions;
        if asked.message.trim().is_empty() {
            return Err(Error::Empty);
        }
        if let Some(job) = self.made_by(asked.key.as_deref()).await? {
            let would_deadlock = self.holds(&job, chain_id.as_deref());
            return Ok(Begun { job, again: true, would_deadlock, _awaits: None });
        }
        let settings = self.0.options.settings.current();
        let config = &settings.config;
        let target = self.target(config, &asked)?;
        let explicit = checked("conversationId", asked.conversation_id)?;
        let parent = checked("parentConversationId", asked.parent_conversation_id)?;
        let work_session_id = checked("workSessionId", asked.work_session_id)?;
        let chain = self.chain(config, &asked.from, asked.cause.as_ref(), &target.agent)?;
        let (lineage, is_known, task) = self.lineage(&asked.from, asked.cause.as_ref(), &chain, work_session_id).await;
        let named = explicit.or_else(|| parent.clone());
        let conversation_id = match named {
            Some(named) => named,
            None => self.conversation(&lineage, is_known, &asked.from.agent, &target.agent).await,
        };
        let target = match asked.to_agent && config.slots_of(&target.agent) > 1 {
            // Each conversation is a session of its own, so that several are answered at once.
            true => SessionKey::of(target.agent, &format!("a2a:{}", conversation_id.replace(':', "-")))
                .map_err(|_| Error::BadId { what: "conversationId" })?,
            false => target,
        };
        let would_deadlock = chain_id.as_deref().is_some_and(|chain| sessions.holds(&target, chain, None));
        let now = self.0.now();
        let wait_ms = u64::try_from(asked.wait.as_millis()).unwrap_or(u64::MAX);
        let waits = !would_deadlock && wait_ms > 0;
        let new = New {
            job_id: id::fresh(now).to_string(),
            kind,
            announce: announced(config, &asked.from, &target, &chain),
            session_key: asked.from.to_string(),
            target_session_key: target.to_string(),
            conversation_id,
            parent_conversation_id: parent,
            work_session_id: Some(lineage.work_session),
            previous_work_session_id: lineage.previous,
            task_id: task,
            label: None,
            depth: lineage.depth,
            chain,
            message: asked.message,
            max_turns: config.session.agent_to_agent.max_ping_pong_turns,
            max_retries: config.a2a.max_retries,
            awaited_until: waits.then(|| now.0.saturating_add(wait_ms)),
            cause: asked.key,
            meta: spawns_meta(asked.cause.as_ref().and_then(|cause| cause.part.as_ref()).map_or(0, |part| part.spawns)),
        };
        let (job, awaits) = self.begin(new).await?;
        Ok(Begun { job, again: false, would_deadlock, _awaits: Some(awaits) })
    }

    /// Begins the work of a sub-agent.
    pub async fn spawn(&self, asked: Spawn) -> Result<Begun, Error> {
        if asked.task.trim().is_empty() {
            return Err(Error::Empty);
        }
        if let Some(job) = self.made_by(asked.key.as_deref()).await? {
            return Ok(Begun { job, again: true, would_deadlock: false, _awaits: None });
        }
        let settings = self.0.options.settings.current();
        let config = &settings.config;
        self.check_agents(config, &asked.from.agent, &asked.agent)?;
        let limits = config.a2a.spawn;
        let spawns = asked.cause.as_ref().and_then(|cause| cause.part.as_ref()).map_or(0, |part| part.spawns);
        if spawns >= limits.depth {
            return Err(Error::TooDeep { max: limits.depth });
        }
        let parent = asked.from.to_string();
        // Looked at again when it is opened; here it spares the rest.
        self.0.state().may_have_child(&parent, limits.children)?;
        let work_session_id = checked("workSessionId", asked.work_session_id)?;
        let chain = self.chain(config, &asked.from, asked.cause.as_ref(), &asked.agent)?;
        let (lineage, _, task) = self.lineage(&asked.from, asked.cause.as_ref(), &chain, work_session_id).await;
        let now = self.0.now();
        let job_id = id::fresh(now).to_string();
        let target = SessionKey::of(asked.agent, &format!("subagent:{job_id}"))
            .map_err(|_| Error::BadId { what: "the sub-agent's session" })?;
        let parent_conversation_id = asked.cause.as_ref().and_then(|cause| cause.part.as_ref());
        let parent_conversation_id = parent_conversation_id.map(|part| part.conversation_id.clone());
        let mut meta = spawns_meta(spawns + 1).unwrap_or_default();
        if let Some(limit) = asked.run_timeout {
            meta.insert("runTimeoutMs".into(), json!(u32::try_from(limit.as_millis()).unwrap_or(u32::MAX)));
        }
        let new = New {
            job_id,
            kind: Kind::Spawn,
            announce: Announced::Session { session_key: parent.clone() },
            session_key: parent,
            target_session_key: target.to_string(),
            conversation_id: id::fresh(now).to_string(),
            parent_conversation_id,
            work_session_id: Some(lineage.work_session),
            previous_work_session_id: lineage.previous,
            task_id: task,
            label: asked.label,
            // Below the one that starts it, also where that belongs to nothing yet.
            depth: lineage.depth.max(1),
            chain,
            message: asked.task,
            max_turns: 0,
            max_retries: config.a2a.max_retries,
            awaited_until: None,
            cause: asked.key,
            meta: Some(meta),
        };
        let (job, _) = self.begin(new).await?;
        Ok(Begun { job, again: false, would_deadlock: false, _awaits: None })
    }

    async fn begin(&self, new: New) -> Result<(Arc<Job>, Awaits), Error> {
        self.start(create(new, &self.0.rules(), self.0.now().0)).await
    }

    pub(super) async fn start(&self, next: chela_flow::Next) -> Result<(Arc<Job>, Awaits), Error> {
        if self.0.cut.is_cancelled() {
            return Err(Error::Stopping);
        }
        let (answer, begun) = oneshot::channel();
        let driver = Driver::admitted(&self.0, Arc::new(next.job))?;
        let awaits = driver.awaits();
        // On a task of its own: a caller that goes away must not leave a job behind that nobody drives.
        self.0.drivers.spawn(driver.begin(next.effects, answer));
        let job = begun.await.unwrap_or(Err(Error::Stopping))?;
        Ok((job, awaits))
    }

    /// Waits for the first reply of a flow, at most for as long as its sender does.
    pub async fn first_reply(&self, job: &Arc<Job>) -> Result<Reply, Error> {
        let open = self.0.state().open.get(&job.job_id).cloned();
        let Some(open) = open else {
            return Ok(self.get(&job.job_id).await?.and_then(|job| reply_of(&job)).unwrap_or(Reply::NotYet));
        };
        let _awaits = Awaits::new(open.clone());
        let clock = &self.0.options.clock;
        let left = job.awaited_until.unwrap_or(0).saturating_sub(clock.now().0);
        let mut changes = open.job.subscribe();
        tokio::select! {
            biased;
            found = changes.wait_for(|job| reply_of(job).is_some()) => {
                Ok(found.ok().and_then(|job| reply_of(&job)).unwrap_or(Reply::NotYet))
            }
            () = clock.sleep(Duration::from_millis(left)) => Ok(Reply::NotYet),
        }
    }

    /// The job that a call has made before.
    pub(super) async fn made_by(&self, key: Option<&str>) -> Result<Option<Arc<Job>>, Error> {
        let id = key.and_then(|key| self.0.state().causes.get(Digest::of(key)).map(Packed::to_string));
        match id {
            Some(id) => self.get(&id).await,
            None => Ok(None),
        }
    }

    fn holds(&self, job: &Job, chain: Option<&str>) -> bool {
        let (sessions, target) = (&self.0.options.sessions, SessionKey::parse(&job.target_session_key).ok());
        target.zip(chain).is_some_and(|(target, chain)| sessions.holds(&target, chain, Some(&job.job_id)))
    }

    fn check_agents(&self, config: &Config, from: &AgentId, to: &AgentId) -> Result<(), Error> {
        if !config.agents.list.iter().any(|agent| agent.id == *to) {
            return Err(Error::UnknownAgent(to.to_string()));
        }
        match config.tools.agent_to_agent.allows(from, to) {
            true => Ok(()),
            false => Err(Error::Forbidden { from: from.to_string(), to: to.to_string() }),
        }
    }

    fn target(&self, config: &Config, asked: &Send) -> Result<SessionKey, Error> {
        let target = asked.target.clone();
        if target == asked.from {
            return Err(Error::OwnSession);
        }
        self.check_agents(config, &asked.from.agent, &target.agent)?;
        match target.is_main() || self.0.options.sessions.get(&target).is_some() {
            true => Ok(target),
            false => Err(Error::NoSession(target.to_string())),
        }
    }

    /// The chain one agent further on; a message that no run caused begins one.
    fn chain(&self, config: &Config, from: &SessionKey, cause: Option<&Cause>, to: &AgentId) -> Result<Chain, Error> {
        let now = self.0.now();
        let (chain, used) = match cause {
            Some(cause) => (cause.chain.clone(), self.0.options.sessions.used_by_chain(&cause.chain.id)),
            None => {
                let chain = Chain::begin(id::fresh(now).to_string(), from.agent.as_ref(), now.0);
                let chain = chain.in_place(sessions::place_of(from, None)).in_span(traces::here());
                (chain, chela_flow::Used::default())
            }
        };
        let ChainLimits { hops, messages, tokens, hours } = config.a2a.chain;
        let limits = chela_flow::Limits { hops, messages, tokens, age_ms: hours * 3_600_000 };
        Ok(chain.forward(to.as_ref(), used, &limits, now.0)?)
    }

    /// Which work session a flow belongs to, whether there may be something of it already, and which task of the sender it is for.
    async fn lineage(
        &self,
        from: &SessionKey,
        cause: Option<&Cause>,
        chain: &Chain,
        explicit: Option<String>,
    ) -> (Lineage, bool, Option<String>) {
        let part = cause.and_then(|cause| cause.part.as_ref());
        let task = self.0.options.tasks.current(&from.agent).filter(|_| !from.is_subagent());
        let of_task = task.as_ref().and_then(|view| view.task.work_session.clone());
        let of_chain = self.0.state().chains.get(Digest::of(&chain.id));
        let inherited =
            part.map(|part| Lineage { work_session: part.work_session_id.clone(), previous: None, depth: part.depth });
        let sources = Sources { explicit, inherited, active_task: of_task.clone().or(of_chain) };
        let known = sources.first().map(str::to_owned);
        let over = match &known {
            Some(id) => self.is_over(id).await,
            None => false,
        };
        let lineage = sources.decide(|_| over, id::fresh(self.0.now()));
        let task = task.filter(|_| of_task.as_deref() == Some(&lineage.work_session)).map(|view| view.id.clone());
        (lineage, known.is_some() && !over, task.or_else(|| part.and_then(|part| part.task_id.clone())))
    }

    /// Whether a work session gets no new work. One that nobody knows yet is new.
    pub async fn is_over(&self, id: &str) -> bool {
        let options = &self.0.options;
        let of_task = || options.tasks.all().iter().any(|view| view.task.work_session.as_deref() == Some(id));
        let is_kept = {
            let state = self.0.state();
            state.open_in.contains_key(id) || state.held.values().any(|held| held.work_session.as_deref() == Some(id))
        };
        if is_kept || of_task() {
            return false;
        }
        match options.monitor.session(id.to_owned()).await {
            Ok(found) => found.is_some_and(|session| session["status"] == "ARCHIVED"),
            Err(error) => {
                tracing::debug!(%error, id, "a work session's status could not be looked up; it is taken as going on");
                false
            }
        }
    }

    /// The conversation of two agents in a work session: the one at hand, else the latest of the index, else a new one.
    async fn conversation(&self, lineage: &Lineage, is_known: bool, a: &AgentId, b: &AgentId) -> String {
        let work_session = &lineage.work_session;
        let pair = in_order(a.as_ref(), b.as_ref());
        let key = Digest::of_all(&[work_session, pair[0], pair[1]]);
        let fresh = id::fresh(self.0.now()).to_string();
        let at_hand = self.0.state().conversations.get(key);
        if let Some(known) = at_hand {
            return known;
        }
        if !is_known {
            return fresh;
        }
        let indexed = self.0.options.monitor.session(work_session.to_owned()).await.ok().flatten();
        let of_pair = |thread: &&Value| {
            let names = thread["participants"].as_array().map(|names| names.iter().filter_map(Value::as_str).collect());
            let mut names: Vec<&str> = names.unwrap_or_default();
            names.sort_unstable();
            // What only a sub-agent was told is a conversation of its own.
            let is_main = thread["roleCounts"][Role::Conversation.as_str()].as_u64().is_some_and(|count| count > 0);
            names == pair && is_main && thread["conversationId"].is_string()
        };
        let threads = indexed.as_ref().and_then(|session| session["threads"].as_array());
        let latest = threads.into_iter().flatten().filter(of_pair).max_by_key(|thread| thread["lastTs"].as_u64());
        let known = latest.and_then(|thread| thread["conversationId"].as_str()).map(str::to_owned);
        let conversation = known.unwrap_or(fresh);
        // Two flows that begin at once share it: the first to come back with one has made it.
        self.0.state().conversations.get_or_put(key, conversation)
    }
}

fn spawns_meta(spawns: u32) -> Option<Map<String, Value>> {
    (spawns > 0).then(|| Map::from_iter([("spawns".to_owned(), json!(spawns))]))
}

/// The first reply as it stands; none while it is awaited.
fn reply_of(job: &Job) -> Option<Reply> {
    let first = job.first();
    if let Some(reply) = first.filter(|turn| turn.state == DeliveryState::Answered).and_then(|turn| turn.reply.clone())
    {
        return Some(Reply::Answered(reply));
    }
    job.status.is_terminal().then(|| Reply::Failed {
        status: job.status,
        error: job.last_error.clone().unwrap_or_else(|| job.status.as_str().to_owned()),
    })
}

/// Who hears what came of a flow: of a worker its orchestrator, else the people of the channel that it is about.
fn announced(config: &Config, from: &SessionKey, target: &SessionKey, chain: &Chain) -> Announced {
    let agent = config.agents.list.iter().find(|agent| agent.id == target.agent);
    if let Some(agent) = agent.filter(|agent| agent.role == AgentRole::Worker) {
        let orchestrator = config.orchestrator_of(agent).filter(|orchestrator| **orchestrator != from.agent);
        return orchestrator.map_or(Announced::Nobody, |orchestrator| Announced::Session {
            session_key: SessionKey::main(orchestrator.clone()).to_string(),
        });
    }
    let place = [target, from].into_iter().find_map(|session| sessions::place_of(session, None));
    // The session of a direct message does not say in which channel: what it began with does.
    let is_with = |place: &Place| {
        let peers = [target, from].into_iter().filter_map(SessionKey::peer);
        place.place.strip_prefix("direct:").is_some_and(|peer| peers.into_iter().any(|known| known == peer))
    };
    let place = place.or_else(|| chain.place.clone().filter(is_with));
    place.map_or(Announced::Nobody, Announced::Channel)
}
