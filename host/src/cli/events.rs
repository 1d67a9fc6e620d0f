//! `chela events`: what happened, a page of it or as it comes.

mod follow;
mod line;

use std::collections::BTreeSet;

use clap::Args;
use serde_json::Value;

use super::ask::Query;
use super::{Output, block_on};
use crate::layout::StateDir;

pub(super) use line::{message, who};

/// Events that are shown before those that come.
const BEFORE_FOLLOWING: u32 = 10;

#[derive(Args)]
pub(super) struct Events {
    /// Go on with events as they come, until Ctrl-C; connects again by itself
    #[arg(long, short)]
    follow: bool,
    /// Only these types, such as a2a.send,task.completed
    #[arg(long = "type", value_name = "T,…", value_delimiter = ',')]
    types: Vec<String>,
    /// Only these roles, such as conversation.main
    #[arg(long = "role", value_name = "R,…", value_delimiter = ',')]
    roles: Vec<String>,
    /// From here on, oldest first: a time (2026-11-16T09:00:00Z, 2026-11-16 or milliseconds), or where a page said it goes on
    #[arg(long, value_name = "TIME|CURSOR")]
    since: Option<String>,
    /// The page before: where a page said there is more
    #[arg(long, value_name = "CURSOR", conflicts_with_all = ["since", "follow"])]
    before: Option<String>,
    /// Only of this work session
    #[arg(long, value_name = "ID")]
    work_session: Option<String>,
    /// Only those that name this task
    #[arg(long, value_name = "ID", conflicts_with = "job")]
    task: Option<String>,
    /// Only those that name this job
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Only of work sessions with these categories
    #[arg(long = "category", value_name = "KEY,…", value_delimiter = ',')]
    categories: Vec<String>,
    /// How many, at most 500 [default: 50]; with --follow how many before those that come [default: 10], and with --since too all
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
}

impl Events {
    /// Events of these types as they come.
    pub(super) fn followed(types: &[&str]) -> Self {
        Self {
            follow: true,
            types: types.iter().map(|word| (*word).to_owned()).collect(),
            roles: Vec::new(),
            since: None,
            before: None,
            work_session: None,
            task: None,
            job: None,
            categories: Vec::new(),
            limit: None,
        }
    }

    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        if self.follow {
            return block_on(follow::run(self, dir, output))?;
        }
        let page = self.query().with("limit", "--limit", self.limit).get_now(dir)?;
        let rows = self.in_order(&page);
        let layout = line::Layout::of_terminal();
        // A reader that has gone, as with `| head`, is no error of ours.
        let _ = output.lines(&rows, |rows| if rows.is_empty() { "no such events".into() } else { layout.page(rows) });
        if let Some(cursor) = page["nextCursor"].as_str() {
            let flag = if self.since.is_some() { "--since" } else { "--before" };
            Output::note(&format!("there is more; the next page: the same with {flag} {cursor}"));
        }
        Ok(())
    }

    /// What is asked of the gateway, whatever the number.
    fn query(&self) -> Query {
        self.query_since(self.since.as_deref())
    }

    fn query_since(&self, since: Option<&str>) -> Query {
        Query::new("/api/events")
            .list("type", "--type", &self.types)
            .list("role", "--role", &self.roles)
            .list("viewCategory", "--category", &self.categories)
            .with("workSessionId", "--work-session", self.work_session.as_ref())
            .with("taskId", "--task", self.task.as_ref())
            .with("jobId", "--job", self.job.as_ref())
            .with("since", "--since", since)
            .with("cursor", "--before", self.before.as_ref())
    }

    /// The rows of a page, the newest last.
    fn in_order(&self, page: &Value) -> Vec<Value> {
        let mut rows = page["events"].as_array().cloned().unwrap_or_default();
        if self.since.is_none() {
            rows.reverse();
        }
        rows
    }

    /// Whether an event is one of those that are asked for; the gateway tells its followers of all.
    fn takes(&self, event: &Value) -> bool {
        let data = &event["data"];
        let among = |wanted: &[String], value: &Value| {
            let wanted: BTreeSet<&str> = wanted.iter().map(|word| word.trim()).collect();
            wanted.is_empty() || value.as_str().is_some_and(|value| wanted.contains(value))
        };
        let is = |wanted: &Option<String>, value: &Value| wanted.is_none() || value.as_str() == wanted.as_deref();
        among(&self.types, &event["type"])
            && among(&self.roles, &data["eventRole"])
            && among(&self.categories, &data["collabCategory"])
            && is(&self.work_session, &data["workSessionId"])
            && is(&self.task, &data["taskId"])
            && is(&self.job, &data["jobId"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_follower_takes_what_a_page_would_have_shown() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            events: Events,
        }
        let event = json!({ "type": "a2a.send", "data": {
            "eventRole": "conversation.main", "workSessionId": "ws_1", "taskId": "task_1", "collabCategory": "infra_ops",
        }});
        let check = |arguments: &[&str], expected: bool| {
            let line = <Line as clap::Parser>::try_parse_from([&["events"], arguments].concat());
            let line = line.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(line.events.takes(&event), expected, "{arguments:?}");
        };
        check(&[], true);
        check(&["--type", "a2a.response,a2a.send"], true);
        check(&["--type", "a2a.response"], false);
        check(&["--role", "conversation.main", "--work-session", "ws_1", "--task", "task_1"], true);
        check(&["--role", "system.observability"], false);
        check(&["--job", "run-1"], false);
        check(&["--category", "qa_validation, infra_ops"], true);
        check(&["--category", "qa_validation"], false);
    }
}
