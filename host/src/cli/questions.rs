//! `chela questions`: what agents want to know from people. `chela answer`: tells them.

use clap::Args;
use serde_json::{Value, json};

use super::output::{fit, plain, table, time, word};
use super::{Output, ask, block_on};
use crate::clock::Clock;
use crate::layout::StateDir;

const QUESTION_COLUMNS: usize = 60;

#[derive(Args)]
pub(super) struct Questions {
    /// Those that are over too
    #[arg(long)]
    all: bool,
    /// Only those that this agent asked, or whose task it has
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Only those that this task waits for
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// How many, at most 500 [default: 50]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
    /// The next page: where a page said there is more
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Questions {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let mut params = json!({
            "all": self.all, "agentId": self.agent, "taskId": self.task, "limit": self.limit, "cursor": self.cursor,
        });
        if let Some(params) = params.as_object_mut() {
            params.retain(|_, value| !value.is_null());
        }
        let page = block_on(ask::gateway(dir)?.call("human.pending", params))??;
        output.show(&page, || text_of(page["questions"].as_array().map_or(&[], Vec::as_slice), self.all));
        if let Some(cursor) = page["nextCursor"].as_str() {
            Output::note(&format!("there is more; the next page: the same with --cursor {cursor}"));
        }
        Ok(())
    }
}

fn text_of(questions: &[Value], all: bool) -> String {
    if questions.is_empty() {
        return if all { "nobody has asked anything" } else { "nobody waits for an answer" }.into();
    }
    let now = Clock::system().now();
    let head = ["QUESTION", "STATE", "AGENT", "TASK", "ASKED", "TEXT"].map(str::to_owned).to_vec();
    let row = |question: &Value| {
        vec![
            word(&question["id"]),
            word(&question["state"]),
            word(&question["agentId"]),
            question["taskId"].as_str().unwrap_or("-").to_owned(),
            time(&question["createdAt"], now),
            fit(&plain(question["question"].as_str().unwrap_or_default()), QUESTION_COLUMNS),
        ]
    };
    table(&std::iter::once(head).chain(questions.iter().map(row)).collect::<Vec<_>>())
}

#[derive(Args)]
pub(super) struct Answer {
    /// The question, as `chela questions` lists it; or the task that waits for it
    id: String,
    /// What the agent is told
    #[arg(required = true)]
    text: Vec<String>,
}

impl Answer {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let name = if self.id.starts_with("task_") { "taskId" } else { "id" };
        let mut params = json!({ "answer": self.text.join(" ") });
        params[name] = json!(self.id);
        let answer = block_on(ask::gateway(dir)?.call("human.answer", params))??;
        let question = &answer["question"];
        output.show(&answer, || match question["taskId"].as_str() {
            Some(task) => format!("{} is told, and task {task} goes on", word(&question["agentId"])),
            None => format!("{} is told", word(&question["agentId"])),
        });
        Ok(())
    }
}
