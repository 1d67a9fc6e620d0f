//! Every tool that an agent may call: the table, and the way of each call through schema and guards.
//! Keeps true: no tool runs before its arguments fit its schema and every guard has let it pass; what a guard rewrote is checked again.
//! Never: knows what a tool does.

mod ask;
mod fetch;
mod files;
mod look;
mod talk;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::bus::data;
use crate::clock::Clock;
use crate::config::{Agent, AgentRole};
use crate::egress::Gate;
use crate::event::{Event, Kind};
use crate::humans;
use crate::id;
use crate::jobs;
use crate::layout::StateDir;
use crate::lineage::{Lineage, Sources};
use crate::monitor;
use crate::plugins::{self, About, Decision};
use crate::policy::{Actor, Block, Step, Task, ToolCall};
use crate::results::{self, Claim, Keep, Key};
use crate::schema::{Problem, Schema};
use crate::session_key::SessionKey;
use crate::sessions::{self, Chain, Part};
use crate::settings;
use crate::tasks::{self, TOOLS, ToolSpec, View};
use crate::traces::{self, Begin};

pub use look::{PART_BYTES_MAX, PART_BYTES_MIN, Seen, Unseen, look};

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Tool not available: {0}")]
    Unknown(String),
    #[error("invalid {tool} args: {}", said(problems))]
    Arguments { tool: &'static str, problems: Vec<Problem> },
    #[error("no agent has the id {0:?}; `chela agents` lists them")]
    UnknownAgent(String),
    #[error("idempotencyKey: {0}")]
    Key(#[from] results::Error),
    #[error("{0}")]
    Failed(tasks::Error),
}

fn said(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct Call {
    pub tool: String,
    pub args: Map<String, Value>,
    pub session: SessionKey,
    /// The run that makes it; none where a person or a program does.
    pub run: Option<InRun>,
    /// By which its answer is asked for again, where the caller has given one.
    pub key: Option<String>,
    /// The person who makes it, by name, where it is not done in the agent's own.
    pub person: Option<String>,
}

impl Call {
    /// A call that no run makes.
    pub fn of_caller(tool: impl Into<String>, args: Map<String, Value>, session: SessionKey) -> Self {
        Self { tool: tool.into(), args, session, run: None, key: None, person: None }
    }

    /// A call that a person makes.
    pub fn by_person(self, name: impl Into<String>) -> Self {
        Self { person: Some(name.into()), ..self }
    }

    pub fn with_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }
}

/// Where in a run a call is made.
#[derive(Clone, Debug)]
pub struct InRun {
    pub run: String,
    pub call: String,
    pub chain: Chain,
    /// What the run is a part of.
    pub part: Option<Part>,
    /// The session whose message began the run, where it was one.
    pub sender: Option<String>,
}

/// Whether a call made twice does what it does once: it changes nothing, says the whole of what is to be, or is known by its key.
pub fn is_repeatable(tool: &str, args: &Map<String, Value>) -> bool {
    let of_tasks = TOOLS.iter().any(|known| known.name == tool);
    let reads = all().any(|known| known.name == tool && known.reads);
    let by_nature = ["sessions_send", "sessions_spawn", "files_write", ask::NAME].contains(&tool);
    of_tasks || reads || by_nature || (tool == fetch::NAME && fetch::only_reads(args))
}

/// Every tool there is.
pub fn all() -> impl Iterator<Item = &'static ToolSpec> {
    TOOLS.iter().chain(files::TOOLS).chain(talk::TOOLS).chain(fetch::TOOLS).chain(ask::TOOLS)
}

/// Whether an agent is shown a tool: it may call it, and it is for one of its role.
pub fn is_for(agent: &Agent, tool: &str) -> bool {
    agent.may_call(tool) && (tool != ask::NAME || agent.role == AgentRole::Orchestrator)
}

pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    pub bus: crate::bus::Bus,
    pub settings: settings::Handle,
    pub plugins: plugins::Handle,
    pub monitor: monitor::Handle,
    pub tasks: tasks::Handle,
    pub sessions: sessions::Handle,
    pub jobs: jobs::Handle,
    pub humans: humans::Handle,
    pub results: results::Handle,
}

/// The way to the tools; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    options: Options,
    schemas: BTreeMap<&'static str, Schema>,
    gate: Gate,
}

impl Handle {
    pub fn new(options: Options) -> Self {
        let schemas = all().map(|tool| (tool.name, (tool.schema)())).collect();
        let gate = Gate::new(options.clock.clone());
        Self(Arc::new(Shared { options, schemas, gate }))
    }

    /// Whether a tool of this name changes nothing.
    pub fn reads(&self, tool: &str) -> bool {
        all().any(|known| known.name == tool && known.reads)
    }

    /// Calls a tool. What the tool itself refuses is an answer with `success: false`, for the model to read.
    /// A call with a key that was answered before is answered the same, and does nothing.
    pub async fn invoke(&self, call: Call) -> Result<Map<String, Value>, Error> {
        let name = all().find(|tool| tool.name == call.tool).map_or("unknown", |tool| tool.name);
        let (run, session) = (call.run.clone(), call.session.to_string());
        let begin = move || {
            let begin = Begin::new(format!("tool {name}"), traces::Kind::Internal).with("chela.session", session);
            match &run {
                Some(run) => begin
                    .of(&run.chain.id, run.chain.span.as_deref())
                    .known_as(&format!("{}:{}", run.run, run.call))
                    .below(Some(&run.run))
                    .with("chela.run", run.run.clone()),
                None => begin,
            }
        };
        let clock = self.0.options.clock.clone();
        traces::traced(&clock, begin, self.answer(call), |answer, _| match answer {
            Ok(answer) if answer.get("success") == Some(&Value::Bool(false)) => Err("refused".to_owned()),
            Ok(_) => Ok(()),
            Err(_) => Err("error".to_owned()),
        })
        .await
    }

    async fn answer(&self, call: Call) -> Result<Map<String, Value>, Error> {
        let tool = all().find(|tool| tool.name == call.tool);
        let tool = tool.ok_or_else(|| Error::Unknown(call.tool.chars().take(64).collect()))?;
        let key = match (&call.run, &call.key) {
            (_, Some(key)) => Some(Key::given(key)?),
            (Some(run), None) => Some(Key::of_call(&run.run, &run.call)),
            (None, None) => None,
        };
        let keep = match key.filter(|_| !tool.reads) {
            None => return self.make(&call, tool.name, None).await,
            Some(key) => match self.0.options.results.claim(key, tool.name, &call.session).await? {
                Claim::Answered(answer) => return Ok(answer),
                Claim::Open(keep) => keep,
            },
        };
        match call.key {
            None => self.make(&call, tool.name, Some(keep)).await,
            Some(_) => self.make_once(&call, tool.name, keep).await,
        }
    }

    /// Makes a call whose key its caller may use again, after a crash as well.
    async fn make_once(&self, call: &Call, tool: &'static str, keep: Arc<Keep>) -> Result<Map<String, Value>, Error> {
        let of_tasks = TOOLS.iter().any(|known| known.name == tool);
        if keep.was_begun() && !is_repeatable(tool, &call.args) {
            let said = "interrupted: the gateway stopped while this call was made, and its outcome is unknown; look, then call with a new key";
            return Ok(data(json!({ "success": false, "error": said })));
        }
        if !of_tasks && !keep.was_begun() {
            keep.begin().await.map_err(results::Error::from)?;
        }
        let answer = match self.make(call, tool, Some(keep.clone())).await {
            Ok(answer) => answer,
            Err(error) => {
                keep.take_back().await.map_err(results::Error::from)?;
                return Err(error);
            }
        };
        // The run that it began is known by the same key, and may have more to say the next time.
        if tool != "sessions_send" {
            keep.finish(&answer).await.map_err(results::Error::from)?;
        }
        Ok(answer)
    }

    async fn make(
        &self,
        call: &Call,
        name: &'static str,
        keep: Option<Arc<Keep>>,
    ) -> Result<Map<String, Value>, Error> {
        let shared = &self.0;
        let settings = shared.options.settings.current();
        let agent = settings.config.agents.list.iter().find(|agent| agent.id == call.session.agent);
        let agent = agent.ok_or_else(|| Error::UnknownAgent(call.session.agent.to_string()))?;
        let of_tasks = TOOLS.iter().any(|tool| tool.name == name);
        if of_tasks && call.session.is_subagent() {
            return Ok(failed(&tasks::Error::SubAgent));
        }
        let problems = shared.schemas[name].problems(&Value::Object(call.args.clone()));
        if !problems.is_empty() {
            return Err(Error::Arguments { tool: name, problems });
        }
        // Before any guard, whose word would be noted in the task.
        if of_tasks {
            let tasks = &shared.options.tasks;
            let may = tasks.may_touch(&agent.id, name, &call.args);
            // A person who calls it in an agent's name is nobody's run.
            let may = may.and_then(|()| match &call.run {
                Some(_) => tasks.may_decide(&agent.id, name, &call.args),
                None => Ok(()),
            });
            if let Err(error) = may {
                return Ok(failed(&error));
            }
        }
        let subject = self.subject(call);
        let actor =
            Actor { id: agent.id.to_string(), role: agent.role.as_str().into(), session_key: call.session.to_string() };
        let about = About {
            task: subject.as_ref().map(|view| view.id.clone()),
            work_session: subject.as_ref().and_then(|view| view.task.work_session.clone()),
            agent: Some(agent.id.to_string()),
            job: call.run.as_ref().and_then(|run| run.part.as_ref()?.job_id.clone()),
            layer: None,
        };
        let asked = ToolCall {
            tool: name.into(),
            arguments: call.args.clone(),
            agent: actor,
            task: subject.as_deref().map(policy_task),
        };
        let fits = |args: &Map<String, Value>| match shared.schemas[name].problems(&Value::Object(args.clone())) {
            problems if problems.is_empty() => Ok(()),
            problems => Err(said(&problems)),
        };
        match shared.options.plugins.before_tool_call(asked, &about, fits).await {
            Decision::Blocked { guard, block } => {
                // What a guard says about another's task is not written there.
                let own = subject.as_deref().filter(|view| view.agent == call.session.agent);
                Ok(self.blocked(name, &guard, block, own, keep).await)
            }
            Decision::Run { mut arguments, warnings } => {
                // A guard may have written another's name into it.
                if of_tasks
                    && call.run.is_some()
                    && let Err(error) = shared.options.tasks.may_decide(&agent.id, name, &arguments)
                {
                    return Ok(failed(&error));
                }
                // What was judged is what runs, also if another task is active by now.
                if let (Some(view), true) =
                    (&subject, ["task_update", "task_complete", "task_cancel", "task_block"].contains(&name))
                {
                    arguments.entry("task_id").or_insert_with(|| json!(view.id));
                }
                if of_tasks {
                    return self.run(call, name, arguments, warnings, keep).await;
                }
                let mut answer = match name {
                    fetch::NAME => fetch::run(&shared.gate, &settings.config.tools.http_fetch, arguments).await,
                    ask::NAME => ask::run(&shared.options, call, arguments).await,
                    name if talk::TOOLS.iter().any(|tool| tool.name == name) => {
                        talk::run(&shared.options, call, name, arguments).await
                    }
                    name => self.on_files(agent, name, arguments).await,
                };
                if !warnings.is_empty() {
                    answer.entry("warning").or_insert_with(|| json!(warnings.join("; ")));
                }
                Ok(answer)
            }
        }
    }

    async fn on_files(&self, agent: &Agent, tool: &'static str, args: Map<String, Value>) -> Map<String, Value> {
        let options = &self.0.options;
        let workspace = options.dir.path().join(agent.workspace_path());
        let now = options.clock.now();
        let instructions = agent.instructions_path();
        let done = tokio::task::spawn_blocking(move || files::run(&workspace, &instructions, tool, args, now)).await;
        let refused = |said: String| data(json!({ "success": false, "error": said }));
        match done {
            Ok(done) => done.unwrap_or_else(|error| refused(error.to_string())),
            Err(_) => refused("the files could not be used; see the gateway's log".into()),
        }
    }

    async fn run(
        &self,
        call: &Call,
        tool: &'static str,
        args: Map<String, Value>,
        warnings: Vec<String>,
        keep: Option<Arc<Keep>>,
    ) -> Result<Map<String, Value>, Error> {
        let options = &self.0.options;
        let session = &call.session;
        let explicit = args.get("work_session_id").and_then(Value::as_str).map(str::to_owned);
        // What another agent asked for belongs to that work; never to the task before.
        let part = call.run.as_ref().and_then(|run| run.part.as_ref());
        let inherited =
            part.map(|part| Lineage { work_session: part.work_session_id.clone(), previous: None, depth: part.depth });
        let sources = Sources { explicit, inherited, active_task: None };
        let over = match sources.first() {
            Some(id) => options.jobs.is_over(id).await,
            None => false,
        };
        let fresh = id::fresh(options.clock.now());
        let lineage =
            move |explicit: Option<String>| -> Lineage { Sources { explicit, ..sources }.decide(|_| over, fresh) };
        // A completion has them in the task's progress and in its answer already.
        let notes = if tool == "task_complete" { Vec::new() } else { warnings.clone() };
        let who = tasks::By { session: session.clone(), person: call.person.clone() };
        let outcome = options.tasks.run_tool(who, tool, args, warnings, keep, lineage).await;
        match outcome {
            Ok(mut answer) => {
                if !notes.is_empty() {
                    answer.entry("warning").or_insert_with(|| json!(notes.join("; ")));
                }
                Ok(answer)
            }
            Err(error) if error.is_callers() => Ok(failed(&error)),
            Err(error) => {
                tracing::error!(tool, error = &error as &dyn std::error::Error, "a tool could not do its work");
                Err(Error::Failed(error))
            }
        }
    }

    /// The task that a call is about, as its guards are told.
    fn subject(&self, call: &Call) -> Option<Arc<View>> {
        let tasks = &self.0.options.tasks;
        match call.args.get("task_id").and_then(Value::as_str) {
            Some(id) => tasks.open_for(&call.session.agent, id),
            None => tasks.current(&call.session.agent),
        }
    }

    /// A guard has blocked a call: the task's progress says so, an event tells of it, and the caller learns what is left to do.
    async fn blocked(
        &self,
        tool: &str,
        guard: &str,
        block: Block,
        subject: Option<&View>,
        keep: Option<Arc<Keep>>,
    ) -> Map<String, Value> {
        let remaining: Vec<Value> = subject
            .into_iter()
            .flat_map(|view| &view.task.steps)
            .filter(|step| block.remaining.contains(&step.id))
            .map(|step| json!({ "id": step.id, "content": step.content, "status": step.status }))
            .collect();
        let left = remaining.len();
        let answer = data(json!({
            "success": false,
            "blocked_by": guard.replace('-', "_"),
            "error": block.reason,
            "remaining_steps": remaining,
            "instructions": block.instructions,
        }));
        if let Some(view) = subject {
            let line = match (guard, left) {
                ("stop-guard", 1..) => format!("⚠ {tool} blocked by Stop Guard: {left} steps remaining"),
                _ => format!("⚠ {tool} blocked by {guard}: {}", chela_taskfile::one_line(&block.reason)),
            };
            let noted =
                self.0.options.tasks.note(view.agent.clone(), view.id.clone(), line, keep, answer.clone()).await;
            if let Err(error) = noted {
                tracing::warn!(
                    task = view.id,
                    error = &error as &dyn std::error::Error,
                    "a block is not in the task's progress"
                );
            }
            if tool == "task_complete" {
                self.tell_blocked(guard, &block, view, left);
            }
        }
        answer
    }

    fn tell_blocked(&self, guard: &str, block: &Block, view: &View, remaining: usize) {
        let mut facts = data(json!({
            "taskId": view.id, "workSessionId": view.task.work_session, "guard": guard, "reason": block.reason,
            "remainingSteps": remaining, "stepsProgress": view.task.steps_progress(),
        }));
        facts.retain(|_, value| !value.is_null());
        let event =
            Event::of(view.agent.as_ref(), Kind::ContinuationStopGuardBlocked, self.0.options.clock.now(), facts);
        if let Err(error) = self.0.options.bus.emit_event(event) {
            tracing::error!(error = &error as &dyn std::error::Error, "a block was not told");
        }
    }
}

fn failed(error: &tasks::Error) -> Map<String, Value> {
    data(json!({ "success": false, "error": error.to_string() }))
}

/// A task as a policy sees it.
pub fn policy_task(view: &View) -> Task {
    let step =
        |step: &chela_taskfile::Step| Step { id: step.id.clone(), content: step.content.clone(), status: step.status };
    Task {
        id: view.id.clone(),
        description: view.task.description.clone(),
        status: view.task.status.to_string(),
        steps: view.task.steps.iter().map(step).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_knows_every_tool() {
        assert_eq!(all().map(|tool| tool.name).collect::<Vec<_>>(), crate::config::TOOL_NAMES);
    }
}
