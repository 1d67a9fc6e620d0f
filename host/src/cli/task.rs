//! `chela task` and `chela tasks`: what agents do with their tools, for people.

mod words;

use std::io::Read;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Map, Value, json};

use super::ask::{self, Query, encoded};
use super::{Output, block_on, exit};
use crate::layout::StateDir;

#[derive(Args)]
pub(super) struct Tasks {
    /// Of these agents
    #[arg(long = "agent", value_name = "ID,…", value_delimiter = ',')]
    agents: Vec<String>,
    /// With this status, such as in_progress, pending, blocked or backlog
    #[arg(long, value_name = "S,…", value_delimiter = ',')]
    status: Vec<String>,
    /// How many, at most 500 [default: 50]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
}

#[derive(Args)]
pub(super) struct Task {
    /// The agent for whom this is done [default: the team's default agent]
    #[arg(long, global = true, value_name = "ID")]
    agent: Option<String>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Begin a task; it waits if another is in progress
    Start(Start),
    /// Show a task, finished ones too [default: the one in progress]
    Show { id: Option<String> },
    /// Add a line to a task's progress
    Note {
        text: String,
        #[command(flatten)]
        of: Of,
    },
    /// Change the steps of a task
    #[command(subcommand)]
    Step(Step),
    /// Complete the task in progress; refused while steps are open
    Complete {
        /// What was achieved
        #[arg(long)]
        summary: Option<String>,
        /// Even with open steps
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        of: Of,
    },
    /// Cancel a task
    Cancel {
        #[arg(long)]
        reason: Option<String>,
        /// It was tried and cannot be done
        #[arg(long)]
        failed: bool,
        #[command(flatten)]
        of: Of,
    },
    /// Say that a task cannot go on, and why
    Block {
        reason: String,
        /// input, dependency, external, error, limit or other
        #[arg(long)]
        kind: Option<String>,
        /// Agents who can change it
        #[arg(long = "by", value_name = "ID,…", value_delimiter = ',')]
        by: Vec<String>,
        /// What they would have to do
        #[arg(long)]
        action: Option<String>,
        #[command(flatten)]
        of: Of,
    },
    /// Go on with a blocked or a pending task
    Resume {
        #[command(flatten)]
        of: Of,
    },
    /// Approve a task that waits for approval
    Approve { id: String },
    /// Put tasks aside for later, and take the next one
    #[command(subcommand)]
    Backlog(Backlog),
    /// Plans that agents hand in
    #[command(subcommand)]
    Plan(Plan),
    /// Milestones and their items
    #[command(subcommand)]
    Milestone(Milestone),
    /// Todos
    #[command(subcommand)]
    Todo(Todo),
    /// List every tool with the JSON schema of its arguments
    Tools,
    /// Call a tool by its name with JSON arguments
    Call {
        tool: String,
        /// A JSON object
        #[arg(default_value = "{}")]
        args: String,
    },
}

#[derive(Args)]
struct Of {
    /// Which task [default: the one in progress]
    #[arg(long = "task", value_name = "ID")]
    task: Option<String>,
}

#[derive(Args)]
struct Start {
    /// What it is about
    description: String,
    #[command(flatten)]
    about: About,
    /// It waits for `chela task approve`
    #[arg(long)]
    needs_approval: bool,
}

#[derive(Args)]
struct About {
    /// urgent, high, medium or low
    #[arg(long)]
    priority: Option<String>,
    /// What one has to know to do it
    #[arg(long)]
    context: Option<String>,
    /// A step; give it once for each
    #[arg(long = "step", value_name = "TEXT")]
    steps: Vec<String>,
    /// Tasks that must be completed first
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    depends_on: Vec<String>,
    /// small, medium or large
    #[arg(long)]
    effort: Option<String>,
    #[arg(long, value_name = "DAY")]
    due: Option<String>,
    /// The milestone item that is done with it
    #[arg(long, value_name = "ID")]
    milestone_item: Option<String>,
    #[arg(long, value_name = "WS")]
    work_session: Option<String>,
}

#[derive(Subcommand)]
enum Step {
    /// Replace the whole list; the first one starts
    Set {
        #[arg(required = true)]
        steps: Vec<String>,
        #[command(flatten)]
        of: Of,
    },
    /// Add a step at the end
    Add {
        content: String,
        #[command(flatten)]
        of: Of,
    },
    /// A step is done, and the next one starts [default: the one in progress]
    Done {
        id: Option<String>,
        #[command(flatten)]
        of: Of,
    },
    /// Work on this step now
    Start {
        id: String,
        #[command(flatten)]
        of: Of,
    },
    /// Leave a step out [default: the one in progress]
    Skip {
        id: Option<String>,
        /// Why
        #[arg(long)]
        why: Option<String>,
        #[command(flatten)]
        of: Of,
    },
    /// Put the steps in another order: every id once
    Order {
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        of: Of,
    },
}

#[derive(Subcommand)]
enum Backlog {
    /// Put a task into a backlog
    Add(Box<BacklogAdd>),
    /// Take the next by priority and age, or this one
    Pick { id: Option<String> },
}

#[derive(Args)]
struct BacklogAdd {
    description: String,
    #[command(flatten)]
    about: About,
    /// The agent whose backlog it goes to
    #[arg(long, value_name = "ID")]
    assignee: Option<String>,
}

#[derive(Subcommand)]
enum Plan {
    /// Hand in a plan: a file, or `-` for standard input
    Submit {
        file: String,
        #[command(flatten)]
        of: Of,
    },
    /// Approve a plan that was handed in
    Approve { id: String },
    /// Reject a plan that was handed in
    Reject {
        id: String,
        #[arg(long)]
        reason: String,
    },
    /// List an agent's plans
    List,
}

#[derive(Subcommand)]
enum Milestone {
    /// List the milestones and their items
    List,
    /// Add a milestone
    Create {
        title: String,
        #[arg(long)]
        description: Option<String>,
        #[arg(long, value_name = "DAY")]
        due: Option<String>,
    },
    /// Change a milestone
    Set {
        id: String,
        #[arg(long)]
        title: Option<String>,
        /// todo, in_progress or done
        #[arg(long)]
        status: Option<String>,
        #[arg(long, value_name = "DAY")]
        due: Option<String>,
    },
    /// Add an item to a milestone
    Item {
        milestone: String,
        title: String,
        #[arg(long = "task", value_name = "ID")]
        task: Option<String>,
    },
    /// Set an item's status: todo, in_progress or done
    SetItem { id: String, status: String },
}

#[derive(Subcommand)]
enum Todo {
    /// List the todos
    List,
    /// Add a todo
    Add { title: String },
    /// Set a todo's status: todo, in_progress or done
    Set { id: String, status: String },
}

impl Tasks {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let list = Query::new("/api/tasks")
            .list("agentId", "--agent", &self.agents)
            .list("status", "--status", &self.status)
            .with("limit", "--limit", self.limit)
            .get_now(dir)?;
        output.show(&list, || words::list(&list, super::output::columns()));
        Ok(())
    }
}

/// Fields without those that were not given.
fn given(fields: Value) -> Map<String, Value> {
    let mut fields = crate::bus::data(fields);
    fields.retain(|_, value| !value.is_null() && *value != json!([]));
    fields
}

fn steps(contents: &[String]) -> Vec<Value> {
    contents.iter().map(|content| json!({ "content": content })).collect()
}

impl About {
    fn args(self, description: &str, more: Value) -> Map<String, Value> {
        let mut args = given(json!({
            "description": description, "priority": self.priority, "context": self.context, "steps": steps(&self.steps),
            "depends_on": self.depends_on, "effort": self.effort, "due_date": self.due,
            "milestone_item_id": self.milestone_item, "work_session_id": self.work_session,
        }));
        args.extend(given(more));
        args
    }
}

impl Step {
    fn args(self) -> Map<String, Value> {
        let (action, of, more) = match self {
            Self::Set { steps: contents, of } => ("set_steps", of, json!({ "steps": steps(&contents) })),
            Self::Add { content, of } => ("add_step", of, json!({ "step_content": content })),
            Self::Done { id, of } => ("complete_step", of, json!({ "step_id": id })),
            Self::Start { id, of } => ("start_step", of, json!({ "step_id": id })),
            Self::Skip { id, why, of } => ("skip_step", of, json!({ "step_id": id, "progress": why })),
            Self::Order { ids, of } => ("reorder_steps", of, json!({ "steps_order": ids })),
        };
        let mut args = given(json!({ "action": action, "task_id": of.task }));
        args.extend(given(more));
        args
    }
}

impl Task {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
        let agent = self.agent;
        let (tool, args) = match self.what {
            What::Show { id: Some(id) } => return show(dir, output, &id),
            What::Show { id: None } => ("task_status", Map::new()),
            What::Plan(Plan::List) => return plans(dir, output, agent),
            What::Tools => return tools(output),
            What::Call { tool, args } => {
                let args: Map<String, Value> =
                    serde_json::from_str(&args).context("the arguments are no JSON object")?;
                return called(dir, output, agent, &tool, args);
            }
            What::Start(start) => {
                let approval = start.needs_approval.then_some(true);
                ("task_start", start.about.args(&start.description, json!({ "requires_approval": approval })))
            }
            What::Note { text, of } => ("task_update", given(json!({ "progress": text, "task_id": of.task }))),
            What::Step(step) => ("task_update", step.args()),
            What::Complete { summary, force, of } => {
                let force = force.then_some("true");
                ("task_complete", given(json!({ "summary": summary, "force_complete": force, "task_id": of.task })))
            }
            What::Cancel { reason, failed, of } => {
                let outcome = failed.then_some("failed");
                ("task_cancel", given(json!({ "reason": reason, "outcome": outcome, "task_id": of.task })))
            }
            What::Block { reason, kind, by, action, of } => {
                let args = json!({
                    "reason": reason, "kind": kind, "unblocked_by": by, "unblock_action": action, "task_id": of.task,
                });
                ("task_block", given(args))
            }
            What::Resume { of } => ("task_resume", given(json!({ "task_id": of.task }))),
            What::Approve { id } => ("task_approve", given(json!({ "task_id": id }))),
            What::Backlog(Backlog::Add(add)) => {
                ("task_backlog_add", add.about.args(&add.description, json!({ "assignee": add.assignee })))
            }
            What::Backlog(Backlog::Pick { id }) => ("task_backlog_pick", given(json!({ "task_id": id }))),
            What::Plan(Plan::Submit { file, of }) => {
                ("plan_submit", given(json!({ "body": text_of(&file)?, "task_id": of.task })))
            }
            What::Plan(Plan::Approve { id }) => ("plan_approve", given(json!({ "plan_id": id }))),
            What::Plan(Plan::Reject { id, reason }) => {
                ("plan_reject", given(json!({ "plan_id": id, "reason": reason })))
            }
            What::Milestone(milestone) => milestone.call(),
            What::Todo(Todo::List) => ("todo_list", Map::new()),
            What::Todo(Todo::Add { title }) => ("todo_add", given(json!({ "title": title }))),
            What::Todo(Todo::Set { id, status }) => ("todo_set", given(json!({ "todo_id": id, "status": status }))),
        };
        called(dir, output, agent, tool, args)
    }
}

impl Milestone {
    fn call(self) -> (&'static str, Map<String, Value>) {
        match self {
            Self::List => ("milestone_list", Map::new()),
            Self::Create { title, description, due } => {
                ("milestone_create", given(json!({ "title": title, "description": description, "due_date": due })))
            }
            Self::Set { id, title, status, due } => (
                "milestone_update",
                given(json!({ "milestone_id": id, "title": title, "status": status, "due_date": due })),
            ),
            Self::Item { milestone, title, task } => {
                ("milestone_item_add", given(json!({ "milestone_id": milestone, "title": title, "task_id": task })))
            }
            Self::SetItem { id, status } => ("milestone_item_set", given(json!({ "item_id": id, "status": status }))),
        }
    }
}

fn text_of(file: &str) -> anyhow::Result<String> {
    if file != "-" {
        return std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text)
}

/// Calls a tool and shows its answer; a refusal is exit code 1.
fn called(
    dir: &StateDir,
    output: Output,
    agent: Option<String>,
    tool: &str,
    args: Map<String, Value>,
) -> anyhow::Result<ExitCode> {
    let client = ask::gateway(dir)?;
    let body = json!({ "tool": tool, "args": args, "sessionKey": agent.map(|agent| format!("agent:{agent}")) });
    let answer = block_on(client.invoke_tool(&body))??;
    let refused = answer["success"] == json!(false);
    if refused && !output.json {
        Output::note(&words::refusal(&answer));
    } else {
        output.show(&answer, || words::answer(&answer, super::output::columns()));
    }
    Ok(if refused { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}

fn show(dir: &StateDir, output: Output, id: &str) -> anyhow::Result<ExitCode> {
    let client = ask::monitor(dir)?;
    let task = block_on(client.api(Method::GET, &format!("/api/tasks/{}", encoded(id)), None))??;
    output.show(&task, || words::task(&task));
    Ok(ExitCode::SUCCESS)
}

fn plans(dir: &StateDir, output: Output, agent: Option<String>) -> anyhow::Result<ExitCode> {
    let agent = match agent {
        Some(agent) => agent,
        None => {
            let settings = crate::settings::load(dir)?;
            let default = settings.config.agents.default_id().context("there is no agent; add one to chela.json")?;
            default.to_string()
        }
    };
    let client = ask::monitor(dir)?;
    let plans = block_on(client.api(Method::GET, &format!("/api/agents/{}/plans", encoded(&agent)), None))??;
    output.show(&plans, || words::plans(&plans));
    Ok(ExitCode::SUCCESS)
}

fn tools(output: Output) -> anyhow::Result<ExitCode> {
    let rows: Vec<Value> = crate::tasks::TOOLS.iter().map(crate::tasks::ToolSpec::to_json).collect();
    let document = json!({ "tools": rows });
    output.show(&document, || words::tools(&document));
    Ok(ExitCode::SUCCESS)
}
