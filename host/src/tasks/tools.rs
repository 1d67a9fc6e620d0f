//! The tools by which agents, people and programs work on tasks: names, what they take, and what each does.

mod arguments;

use std::sync::Arc;

use chela_taskfile::{Blocked, Priority, Status, Task, is_good_id, one_line};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::machine::{Approval, Op};
use super::milestones::Edit;
use super::plans::Verdict;
use super::store::Cause;
use super::{Error, Handle, Refused, View, blocking};
use crate::id::{self, AgentId};
use crate::lineage::Lineage;
use crate::results::Keep;
use crate::schema::Schema;
use crate::session_key::SessionKey;
use arguments::*;

const DESCRIPTION_CHARS_MAX: usize = 20_000;
const LIST_MAX: usize = 500;

/// A tool as a model is told of it.
pub struct ToolSpec {
    pub name: &'static str,
    pub description: &'static str,
    pub schema: fn() -> Schema,
    /// Changes nothing.
    pub reads: bool,
}

impl ToolSpec {
    /// As a model, and whoever asks, is told of it.
    pub fn to_json(&self) -> Value {
        json!({ "name": self.name, "description": self.description, "parameters": (self.schema)().document() })
    }
}

macro_rules! tools {
    ($($name:literal $args:ident $reads:literal $description:literal,)*) => {
        /// Every tool of this room.
        pub const TOOLS: &[ToolSpec] = &[$(
            ToolSpec { name: $name, description: $description, schema: Schema::of::<$args>, reads: $reads },
        )*];
    };
}

tools! {
    "task_start" Start false "Begin a task. If one is in progress already, the new one waits as pending.",
    "task_update" Update false "Note progress on a task, or change its steps.",
    "task_complete" Complete false "Complete the task in progress. Refused while steps are open.",
    "task_cancel" Cancel false "Cancel a task; `outcome: failed` if it was tried and cannot be done.",
    "task_block" Block false "Say that a task cannot go on, why, and who can change that.",
    "task_resume" Resume false "Go on with a blocked task.",
    "task_approve" Approve false "Approve a task that waits for approval.",
    "task_list" List true "List open tasks, of one agent or of the team.",
    "task_status" One true "Show one task, finished ones too; the one in progress if none is named.",
    "task_backlog_add" BacklogAdd false "Put a task into a backlog, one's own or that of `assignee`.",
    "task_backlog_pick" BacklogPick false "Take the next task of the backlog: by priority, then by age.",
    "plan_submit" PlanSubmit false "Hand in a plan for approval.",
    "plan_approve" PlanApprove false "Approve a plan.",
    "plan_reject" PlanReject false "Reject a plan, with a reason.",
    "milestone_list" Nothing true "List milestones with their items.",
    "milestone_create" MilestoneCreate false "Create a milestone.",
    "milestone_update" MilestoneUpdate false "Change a milestone's title, description, status or due date; an empty description or due date is taken out.",
    "milestone_delete" MilestoneDelete false "Delete a milestone with its items.",
    "milestone_item_add" ItemAdd false "Add an item to a milestone; `task_id` links it to a task.",
    "milestone_item_set" ItemSet false "Set the status of a milestone's item, its title or its task; an empty `task_id` takes the task out.",
    "milestone_item_delete" ItemDelete false "Delete an item of a milestone.",
    "todo_list" Nothing true "List todos.",
    "todo_add" TodoAdd false "Add a todo.",
    "todo_set" TodoSet false "Set the status or the title of a todo.",
    "todo_delete" TodoDelete false "Delete a todo.",
}

/// Who calls a tool: the agent of a session, or a person in its place.
pub struct By {
    pub session: SessionKey,
    pub person: Option<String>,
}

impl By {
    /// As what is decided names them; nobody takes a person for the agent.
    fn name(&self) -> String {
        match &self.person {
            Some(person) => format!("{} (a person)", one_line(person)),
            None => self.session.agent.to_string(),
        }
    }
}

impl Handle {
    /// Whether a tool may touch the task that its arguments name: another's only to look at it or to approve it.
    pub fn may_touch(&self, agent: &AgentId, tool: &str, args: &Map<String, Value>) -> Result<(), Error> {
        let own = [
            "task_update",
            "task_complete",
            "task_cancel",
            "task_block",
            "task_resume",
            "task_backlog_pick",
            "plan_submit",
        ];
        let Some(id) = args.get("task_id").and_then(Value::as_str).filter(|_| own.contains(&tool)) else {
            return Ok(());
        };
        match self.open_for(agent, id) {
            Some(view) if view.agent != *agent => Err(Error::NotYours { id: id.to_owned(), agent: view.agent.clone() }),
            _ => Ok(()),
        }
    }

    /// Whether a run of an agent may say yes or no to what the arguments name: not to its own.
    pub fn may_decide(&self, agent: &AgentId, tool: &str, args: &Map<String, Value>) -> Result<(), Error> {
        let named = |key: &str| args.get(key).and_then(Value::as_str);
        let owner = match tool {
            "task_approve" => named("task_id").and_then(|id| self.open(id)).map(|view| view.agent.clone()),
            "plan_approve" | "plan_reject" => named("plan_id").and_then(|id| self.owner_of_plan(id)),
            _ => None,
        };
        match owner {
            Some(owner) if owner == *agent => Err(Error::OwnApproval { tool: tool.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Runs a tool of [`TOOLS`] for an agent. The arguments have passed the tool's schema; `warnings` are those of the guards.
    /// With `keep` the answer is in the journal with the change, or the same call again changes nothing more.
    pub async fn run_tool(
        &self,
        who: By,
        tool: &str,
        args: Map<String, Value>,
        warnings: Vec<String>,
        keep: Option<Arc<Keep>>,
        lineage: impl FnOnce(Option<String>) -> Lineage + Send + 'static,
    ) -> Result<Map<String, Value>, Error> {
        let (handle, tool) = (self.clone(), tool.to_owned());
        blocking(move || handle.run(&who, &tool, args, warnings, keep.as_deref(), lineage)).await
    }

    fn run(
        &self,
        who: &By,
        tool: &str,
        args: Map<String, Value>,
        warnings: Vec<String>,
        keep: Option<&Keep>,
        lineage: impl FnOnce(Option<String>) -> Lineage,
    ) -> Result<Map<String, Value>, Error> {
        // A completion has them in its answer by itself.
        let warning = (tool != "task_complete" && !warnings.is_empty()).then(|| warnings.join("; "));
        let (session, agent) = (&who.session, &who.session.agent);
        let cause = Cause { keep, warning: warning.as_deref(), answer: None, session: Some(session) };
        let key = keep.map(Keep::key);
        let done = |op: Op| self.act_for(agent, op, &cause).map(|decided| decided.answer);
        let own = |id: Option<String>| id.map(|id| self.own_open(agent, &id).map(|view| view.id.clone())).transpose();
        match tool {
            "task_start" => {
                let args: Start = parse(args)?;
                let approval = if args.requires_approval { Approval::Needed } else { Approval::NotNeeded };
                let task = self.new_task(agent, args, lineage)?;
                done(Op::Start(Box::new(task), approval))
            }
            "task_update" => {
                let mut args: Update = parse(args)?;
                let change = args.change()?;
                done(Op::Update { task: own(args.task_id)?, change, progress: args.progress })
            }
            "task_complete" => {
                let args: Complete = parse(args)?;
                done(Op::Complete { task: own(args.task_id)?, summary: args.summary, warnings })
            }
            "task_cancel" => {
                let args: Cancel = parse(args)?;
                let as_failed = args.outcome == Some(CancelOutcome::Failed);
                done(Op::Cancel { task: own(args.task_id)?, reason: args.reason, as_failed })
            }
            "task_block" => {
                let args: Block = parse(args)?;
                let reason = one_line(&args.reason);
                if reason.is_empty() {
                    return Err(Refused::Needs { field: "reason" }.into());
                }
                let blocked = Blocked {
                    reason,
                    kind: args.kind.unwrap_or(BlockKind::Other).as_str().into(),
                    unblocked_by: args.unblocked_by.iter().map(|name| one_line(&name.replace(',', " "))).collect(),
                    action: args.unblock_action.map(|text| one_line(&text)).unwrap_or_default(),
                    requests: 0,
                    escalation: "none".into(),
                };
                done(Op::Block { task: own(args.task_id)?, blocked })
            }
            "task_resume" => {
                let args: Resume = parse(args)?;
                done(Op::Resume { task: own(args.task_id)?, progress: args.progress })
            }
            "task_approve" => {
                let args: Approve = parse(args)?;
                let view = self.open(&args.task_id).ok_or_else(|| unknown(&args.task_id))?;
                let op = Op::Approve { task: args.task_id, by: who.name() };
                self.act_for(&view.agent, op, &cause).map(|decided| decided.answer)
            }
            "task_list" => self.list(agent, parse(args)?),
            "task_status" => {
                let args: One = parse(args)?;
                let view = match args.task_id {
                    Some(id) => self.find(&id).ok_or_else(|| unknown(&id))?,
                    None => self.current(agent).map(|view| View::clone(&view)).ok_or(Refused::NoActive)?,
                };
                Ok(crate::bus::data(json!({ "success": true, "task": view.to_json() })))
            }
            "task_backlog_add" => {
                let (args, assignee) = parse::<BacklogAdd>(args)?.split();
                let assignee = assignee.map(|id| self.agent_named(&id)).transpose()?;
                let mut task = self.new_task(agent, args, lineage)?;
                task.assignee = assignee.as_ref().map(AgentId::to_string);
                let op = Op::AddToBacklog(Box::new(task));
                self.act_for(assignee.as_ref().unwrap_or(agent), op, &cause).map(|decided| decided.answer)
            }
            "task_backlog_pick" => {
                let args: BacklogPick = parse(args)?;
                done(Op::PickFromBacklog { task: own(args.task_id)? })
            }
            "plan_submit" => {
                let args: PlanSubmit = parse(args)?;
                self.submit_plan(agent, args.task_id, &args.body, key)
            }
            "plan_approve" => {
                let args: PlanApprove = parse(args)?;
                self.decide_plan(&args.plan_id, Verdict::Approve, agent, key)
            }
            "plan_reject" => {
                let args: PlanReject = parse(args)?;
                self.decide_plan(&args.plan_id, Verdict::Reject { reason: args.reason }, agent, key)
            }
            "milestone_list" => self.milestones().map(crate::bus::data),
            "todo_list" => self.todos().map(crate::bus::data),
            other => self.edit_lists(edit_of(other, args)?, key),
        }
    }

    fn agent_named(&self, id: &str) -> Result<AgentId, Error> {
        let unknown = || Error::UnknownAgent(id.chars().take(80).collect());
        let id: AgentId = id.parse().map_err(|_| unknown())?;
        self.agent(&id).map(|_| id)
    }

    /// An open task that is the agent's own.
    pub(super) fn own_open(&self, agent: &AgentId, id: &str) -> Result<Arc<View>, Error> {
        if !is_good_id(id) {
            return Err(Refused::BadId(id.chars().take(128).collect()).into());
        }
        match self.open_for(agent, id) {
            Some(view) if view.agent == *agent => Ok(view),
            Some(view) => Err(Error::NotYours { id: id.to_owned(), agent: view.agent.clone() }),
            None => match self.find(id) {
                Some(over) => {
                    let advice = "it is over; begin a new one with task_start";
                    Err(Refused::Status { id: id.to_owned(), status: over.task.status.clone(), advice }.into())
                }
                None => Err(unknown(id)),
            },
        }
    }

    fn new_task(
        &self,
        by: &AgentId,
        args: Start,
        lineage: impl FnOnce(Option<String>) -> Lineage,
    ) -> Result<Task, Error> {
        let now = self.0.parts.clock.now();
        let chars = args.description.chars().count();
        if args.description.trim().is_empty() {
            return Err(Refused::Needs { field: "description" }.into());
        }
        if chars > DESCRIPTION_CHARS_MAX {
            return Err(Refused::LongDescription { chars }.into());
        }
        let lineage = lineage(args.work_session_id);
        if lineage.work_session.len() > 128 || one_line(&lineage.work_session) != lineage.work_session {
            return Err(Refused::Arguments("work_session_id must be one word of at most 128 bytes".into()).into());
        }
        let line = |text: Option<String>| text.map(|text| one_line(&text)).filter(|text| !text.is_empty());
        let lines = |text: &str| text.trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        let id = format!("task_{}", id::fresh(now).simple());
        let mut task = Task::new(id, lines(&args.description), now.to_string());
        task.created_by = Some(by.to_string());
        task.work_session = Some(lineage.work_session);
        task.previous_work_session = lineage.previous;
        task.priority = args.priority.map_or(Priority::Medium, |word| Priority::parse(word.as_str()));
        task.context = args.context.map(|text| lines(&text)).filter(|text| !text.is_empty());
        task.depends_on = args.depends_on.iter().map(|id| one_line(id)).filter(|id| !id.is_empty()).collect();
        (task.source, task.effort) = (line(args.source), line(args.effort));
        (task.start, task.due) = (line(args.start_date), line(args.due_date));
        task.milestone_item = line(args.milestone_item_id);
        self.check_item(&task)?;
        if !args.steps.is_empty() {
            set_steps(args.steps).apply(&mut task).map_err(Refused::from)?;
        }
        Ok(task)
    }

    fn list(&self, agent: &AgentId, args: List) -> Result<Map<String, Value>, Error> {
        let mut views = match args.agent_id.as_deref() {
            Some("all") => self.all(),
            Some(id) => self.of(&self.agent_named(id)?)?,
            None => self.of(agent)?,
        };
        if let Some(status) = &args.status {
            if matches!(Status::parse(status), Status::Other(_)) {
                return Err(Refused::UnknownStatus(status.chars().take(64).collect()).into());
            }
            views.retain(|view| view.task.status.as_str() == status);
        }
        let total = views.len();
        views.truncate(args.limit.unwrap_or(50).min(LIST_MAX));
        let rows: Vec<Value> = views.iter().map(|view| view.to_json()).collect();
        Ok(crate::bus::data(json!({ "success": true, "tasks": rows, "total": total })))
    }
}

fn unknown(id: &str) -> Error {
    Refused::Unknown(id.chars().take(128).collect()).into()
}

/// The schema has passed them; what a schema cannot tell is refused by name.
fn parse<T: DeserializeOwned>(args: Map<String, Value>) -> Result<T, Error> {
    serde_json::from_value(Value::Object(args)).map_err(|error| Refused::Arguments(error.to_string()).into())
}

fn edit_of(tool: &str, args: Map<String, Value>) -> Result<Edit, Error> {
    Ok(match tool {
        "milestone_create" => {
            let args: MilestoneCreate = parse(args)?;
            Edit::Create { title: args.title, description: args.description, due: args.due_date }
        }
        "milestone_update" => {
            let args: MilestoneUpdate = parse(args)?;
            let (title, description) = (args.title, args.description);
            Edit::Update { id: args.milestone_id, title, description, status: args.status, due: args.due_date }
        }
        "milestone_delete" => Edit::Delete { id: parse::<MilestoneDelete>(args)?.milestone_id },
        "milestone_item_add" => {
            let args: ItemAdd = parse(args)?;
            Edit::AddItem { milestone: args.milestone_id, title: args.title, task: args.task_id }
        }
        "milestone_item_set" => {
            let args: ItemSet = parse(args)?;
            Edit::SetItem { item: args.item_id, title: args.title, status: args.status, task: args.task_id }
        }
        "milestone_item_delete" => Edit::DeleteItem { item: parse::<ItemDelete>(args)?.item_id },
        "todo_add" => Edit::AddTodo { title: parse::<TodoAdd>(args)?.title },
        "todo_set" => {
            let args: TodoSet = parse(args)?;
            Edit::SetTodo { id: args.todo_id, title: args.title, status: args.status }
        }
        "todo_delete" => Edit::DeleteTodo { id: parse::<TodoDelete>(args)?.todo_id },
        other => return Err(Refused::Arguments(format!("there is no tool {other}")).into()),
    })
}
