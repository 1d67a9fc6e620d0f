//! `chela jobs`: what agents have asked of each other, and what became of it. `chela spawn`: a sub-agent from the shell.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::events::Events;
use super::output::{fit, plain, table, time, word};
use super::{Output, ask, block_on};
use crate::clock::{Clock, Timestamp};
use crate::layout::StateDir;

const MESSAGE_COLUMNS: usize = 48;
/// What happens to jobs, and what they are then.
const EVENTS: [(&str, &[&str]); 7] = [
    ("job.created", &["pending", "running"]),
    ("job.resumed", &["pending", "running"]),
    ("job.retried", &["pending", "running"]),
    ("job.completed", &["completed"]),
    ("job.failed", &["failed"]),
    ("job.abandoned", &["abandoned"]),
    ("job.cancelled", &["cancelled"]),
];

const STATUSES: [&str; 6] = ["pending", "running", "completed", "failed", "abandoned", "cancelled"];

#[derive(Args)]
pub(super) struct Jobs {
    #[command(subcommand)]
    about: Option<About>,
    #[command(flatten)]
    list: List,
}

#[derive(Subcommand)]
enum About {
    /// Show one job: its messages, tries and end
    Show { id: String },
    /// End a job, and what runs for it
    Cancel { id: String },
    /// Take up a job that came to nothing, as a new one
    Retry { id: String },
}

#[derive(Args)]
struct List {
    /// Only these: pending, running, completed, failed, abandoned, cancelled
    #[arg(long, value_name = "S,…", value_delimiter = ',', ignore_case = true, hide_possible_values = true, value_parser = STATUSES)]
    status: Vec<String>,
    /// Only those that this agent sends or answers
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Go on with what happens to jobs, until Ctrl-C; with --status, with what leads there
    #[arg(long, short, conflicts_with_all = ["agent", "limit", "cursor"])]
    follow: bool,
    /// How many, at most 500 [default: 50]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: Option<u32>,
    /// The next page: where a page said there is more
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Jobs {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        match &self.about {
            None if self.list.follow => Events::followed(&self.list.events()).run(dir, output),
            None => self.list.run(dir, output),
            Some(About::Show { id }) => show(dir, output, "jobs.get", id, "a job"),
            Some(About::Cancel { id }) => show(dir, output, "jobs.cancel", id, "cancelled"),
            Some(About::Retry { id }) => show(dir, output, "jobs.retry", id, "a new job"),
        }
    }
}

impl List {
    /// The types of events that tell of what is asked for.
    fn events(&self) -> Vec<&'static str> {
        let wanted = |leads_to: &[&str]| {
            self.status.is_empty()
                || leads_to.iter().any(|to| self.status.iter().any(|asked| asked.eq_ignore_ascii_case(to)))
        };
        EVENTS.iter().filter(|(_, leads_to)| wanted(leads_to)).map(|(kind, _)| *kind).collect()
    }

    fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let mut params = json!({ "limit": self.limit, "agentId": self.agent, "cursor": self.cursor });
        if !self.status.is_empty() {
            params["status"] = json!(self.status);
        }
        if let Some(params) = params.as_object_mut() {
            params.retain(|_, value| !value.is_null());
        }
        let page = block_on(ask::gateway(dir)?.call("jobs.list", params))??;
        output.show(&page, || text_of(page["jobs"].as_array().map_or(&[], Vec::as_slice)));
        if let Some(cursor) = page["nextCursor"].as_str() {
            Output::note(&format!("there is more; the next page: the same with --cursor {cursor}"));
        }
        Ok(())
    }
}

fn text_of(jobs: &[Value]) -> String {
    if jobs.is_empty() {
        return "no such jobs".into();
    }
    let now = Clock::system().now();
    let head = ["JOB", "STATUS", "FROM", "TO", "TURN", "TRIES", "UPDATED", "MESSAGE"].map(str::to_owned).to_vec();
    let row = |job: &Value| {
        vec![
            word(&job["jobId"]),
            word(&job["status"]),
            agent(&job["sessionKey"]),
            agent(&job["targetSessionKey"]),
            format!("{}/{}", job["currentTurn"], job["maxTurns"]),
            job["retryCount"].to_string(),
            time(&job["updatedAt"], now),
            fit(&plain(job["message"].as_str().unwrap_or_default()), MESSAGE_COLUMNS),
        ]
    };
    table(&std::iter::once(head).chain(jobs.iter().map(row)).collect::<Vec<_>>())
}

fn agent(session: &Value) -> String {
    let session = session.as_str().unwrap_or_default();
    let name = chela_flow::agent_of(session);
    if chela_flow::is_subagent(session) { format!("{name} (sub)") } else { name.to_owned() }
}

fn show(dir: &StateDir, output: Output, name: &str, id: &str, what: &str) -> anyhow::Result<()> {
    let answer = block_on(ask::gateway(dir)?.call(name, json!({ "id": id })))??;
    output.show(&answer, || described(&answer["job"], what, Clock::system().now()));
    Ok(())
}

fn described(job: &Value, what: &str, now: Timestamp) -> String {
    let mut lines = vec![
        format!("{what}: {}", word(&job["jobId"])),
        format!(
            "{} in phase {}, turn {} of {}",
            word(&job["status"]),
            word(&job["phase"]),
            job["currentTurn"],
            job["maxTurns"]
        ),
        format!("from {} to {}", word(&job["sessionKey"]), word(&job["targetSessionKey"])),
        format!("work session {}, conversation {}", word(&job["workSessionId"]), word(&job["conversationId"])),
        format!(
            "made {}, last change {}, resumed {} times",
            time(&job["createdAt"], now),
            time(&job["updatedAt"], now),
            job["resumeCount"]
        ),
    ];
    let mut add = |label: &str, value: &Value| {
        if !value.is_null() {
            lines.push(format!("{label}: {}", word(value)));
        }
    };
    add("message", &job["message"]);
    add("last error", &job["lastError"]);
    add("takes up", &job["retryOf"]);
    add("announcement", &job["announce"]["state"]);
    if let Some(at) = job["nextTryAt"].as_u64() {
        lines.push(format!("next try {}", time(&json!(at), now)));
    }
    for turn in job["turns"].as_array().into_iter().flatten() {
        let at = ["answeredAt", "failedAt", "deliveredAt", "storedAt"].iter().find_map(|key| turn[*key].as_u64());
        lines.push(format!(
            "  turn {} to {}: {} {}",
            turn["turn"],
            agent(&turn["sessionKey"]),
            word(&turn["state"]),
            time(&json!(at), now)
        ));
        for attempt in turn["attempts"].as_array().into_iter().flatten() {
            lines.push(format!("    tried {}: {}", time(&attempt["storedAt"], now), word(&attempt["error"])));
        }
        let said = if turn["reply"].is_null() { &turn["error"] } else { &turn["reply"] };
        if !said.is_null() {
            lines.push(format!("    {}", fit(&word(said), 120)));
        }
    }
    lines.join("\n")
}

#[derive(Args)]
pub(super) struct Spawn {
    /// Whose sub-agent it is, and who hears of its result
    agent: String,
    /// What it is to do
    #[arg(required = true)]
    task: Vec<String>,
    /// A name for it
    #[arg(long)]
    label: Option<String>,
    /// How long it may take
    #[arg(long, value_name = "SECONDS")]
    run_timeout: Option<u64>,
}

impl Spawn {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let mut args = json!({ "task": self.task.join(" ") });
        if let Some(label) = &self.label {
            args["label"] = json!(label);
        }
        if let Some(seconds) = self.run_timeout {
            args["runTimeoutSeconds"] = json!(seconds);
        }
        let body = json!({ "tool": "sessions_spawn", "args": args, "sessionKey": self.agent });
        let answer = block_on(ask::gateway(dir)?.invoke_tool(&body))??;
        anyhow::ensure!(answer["success"] == json!(true), "{}", word(&answer["error"]));
        output.show(&answer, || {
            format!(
                "a sub-agent works on it: {}\nits job: {}  (chela jobs show {})",
                word(&answer["childSessionKey"]),
                word(&answer["runId"]),
                word(&answer["runId"])
            )
        });
        Ok(())
    }
}
