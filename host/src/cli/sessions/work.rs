//! `chela sessions work`: the list, one of them, and saying which category one has.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use crate::cli::ask::{self, Query, encoded, patiently};
use crate::cli::events::{message, who};
use crate::cli::exit::WrongArgument;
use crate::cli::output::{columns, fit, share, table, time, word, words};
use crate::cli::{Output, block_on};
use crate::client;
use crate::clock::{Clock, Timestamp};
use crate::layout::StateDir;

const TITLE_MAX: usize = 60;
const PARTICIPANTS_MAX: usize = 30;
/// From here on a session's id stands on the line of its title.
const WIDE: usize = 150;
/// Messages that are shown with a session.
const MESSAGES: u32 = 10;
/// What people would read as a part of a talk.
const TALK: &str = "a2a.send,a2a.response,a2a.spawn,a2a.spawn_result,human_query.requested,human_query.answered";

#[derive(Args)]
pub(in crate::cli) struct Work {
    #[command(flatten)]
    list: List,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Args, Default, PartialEq)]
struct List {
    /// ACTIVE, QUIET or ARCHIVED
    #[arg(long, value_name = "S,…", value_delimiter = ',')]
    status: Vec<String>,
    /// With these categories
    #[arg(long = "category", value_name = "KEY,…", value_delimiter = ',')]
    categories: Vec<String>,
    /// With events of these roles
    #[arg(long = "role", value_name = "R,…", value_delimiter = ',')]
    roles: Vec<String>,
    /// With events of these types
    #[arg(long = "type", value_name = "T,…", value_delimiter = ',')]
    types: Vec<String>,
    /// With one of these sub-tags
    #[arg(long = "sub-tag", value_name = "TAG,…", value_delimiter = ',')]
    sub_tags: Vec<String>,
    /// With a thread that is active, blocked or resolved
    #[arg(long = "thread-state", value_name = "S,…", value_delimiter = ',')]
    thread_states: Vec<String>,
    /// With a message that has all these words, each by its beginning
    #[arg(short, long = "query", value_name = "TEXT")]
    q: Option<String>,
    /// How many, at most 500 [default: 50]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
    /// The next page: where a page said there is more
    #[arg(long, value_name = "C")]
    cursor: Option<String>,
}

#[derive(Subcommand)]
enum What {
    /// Show one work session: what it is, its threads, its last messages
    Show(Show),
    /// Say which category a work session has, over what the classifier says
    Category(Category),
}

#[derive(Args)]
struct Show {
    /// Such as ws_7d0c3a52-8e1b-4f7a-b1c4-2f6e9d0a5b31
    id: String,
}

#[derive(Args)]
struct Category {
    /// Such as ws_7d0c3a52-8e1b-4f7a-b1c4-2f6e9d0a5b31
    id: String,
    /// A key of the deployment's table of categories
    #[arg(required_unless_present = "clear", conflicts_with = "clear")]
    key: Option<String>,
    /// Take back what was said; the classifier's word holds again
    #[arg(long)]
    clear: bool,
    /// Who says so [default: the owner of the token]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Work {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        // clap's own check of this would refuse `--json` before the name of a command.
        if self.what.is_some() && self.list != List::default() {
            let said = "filters are for the list; leave them out beside `show` and `category`".to_owned();
            return Err(WrongArgument { flag: "sessions work", said }.into());
        }
        match self.what {
            None => self.list.run(dir, output),
            Some(What::Show(show)) => show.run(dir, output),
            Some(What::Category(category)) => category.run(dir, output),
        }
    }
}

impl List {
    fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let status: Vec<String> = self.status.iter().map(|word| word.to_uppercase()).collect();
        let page = Query::new("/api/work-sessions")
            .list("status", "--status", &status)
            .list("viewCategory", "--category", &self.categories)
            .list("role", "--role", &self.roles)
            .list("type", "--type", &self.types)
            .list("subTag", "--sub-tag", &self.sub_tags)
            .list("threadState", "--thread-state", &self.thread_states)
            .with("q", "-q", self.q.as_ref())
            .with("limit", "--limit", self.limit)
            .with("cursor", "--cursor", self.cursor.as_ref())
            .get_now(dir)?;
        output.show(&page, || in_words(&page, columns(), Clock::system().now()));
        if let Some(cursor) = page["nextCursor"].as_str() {
            Output::note(&format!("there is more; the next page: the same with --cursor {cursor}"));
        }
        Ok(())
    }
}

/// A table; where it is narrow, with the ids on lines of their own, whole in either case.
fn in_words(page: &Value, columns: Option<usize>, now: Timestamp) -> String {
    let sessions = page["workSessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if sessions.is_empty() {
        return "no such work sessions".into();
    }
    let wide = columns.is_none_or(|columns| columns >= WIDE);
    let mut rows =
        vec![["STATUS", "CATEGORY", "EVENTS", "LAST (UTC)", "PARTICIPANTS", "TITLE"].map(str::to_owned).to_vec()];
    for session in sessions {
        let category = session["collabCategory"].as_str().unwrap_or("-");
        rows.push(vec![
            word(&session["status"]),
            category.to_owned(),
            word(&session["eventCount"]),
            time(&session["lastActivity"], now),
            fit(&words(&session["participants"]), PARTICIPANTS_MAX),
            fit(&word(&session["title"]), TITLE_MAX),
        ]);
    }
    if wide {
        rows[0].push("ID".into());
        for (row, session) in rows.iter_mut().skip(1).zip(sessions) {
            row.push(word(&session["workSessionId"]));
        }
    }
    let cut = |line: &str| match columns {
        Some(columns) if !wide => fit(line, columns),
        _ => line.to_owned(),
    };
    let text = table(&rows);
    let mut lines = text.lines();
    let mut shown: Vec<String> = lines.next().map(cut).into_iter().collect();
    for (line, session) in lines.zip(sessions) {
        shown.push(cut(line));
        if !wide {
            shown.push(format!("  {}", word(&session["workSessionId"])));
        }
        for found in session["matches"].as_array().into_iter().flatten() {
            let from = found["fromAgent"].as_str().unwrap_or("-");
            let passage = format!("    {}  {from}: {}", time(&found["ts"], now), word(&found["passage"]));
            shown.push(columns.map_or_else(|| passage.clone(), |columns| fit(&passage, columns)));
        }
    }
    shown.join("\n")
}

impl Show {
    fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let client = ask::monitor(dir)?;
        let (session, messages) = block_on(async {
            let session = Query::new(format!("/api/work-sessions/{}", encoded(&self.id))).get(&client).await?;
            let talk = Query::new("/api/events")
                .with("workSessionId", "ID", Some(&self.id))
                .with("type", "--type", Some(TALK))
                .with("limit", "--limit", Some(MESSAGES));
            let page = talk.get(&client).await?;
            let mut messages = page["events"].as_array().cloned().unwrap_or_default();
            messages.reverse();
            anyhow::Ok((session, messages))
        })??;
        let document = json!({ "workSession": session, "messages": messages });
        output.show(&document, || show_in_words(&session, &messages, columns(), Clock::system().now()));
        Ok(())
    }
}

/// What is known of a session, a line each.
pub(in crate::cli) fn facts(session: &Value, now: Timestamp) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("id", word(&session["workSessionId"])),
        row("title", word(&session["title"])),
        row("status", word(&session["status"])),
        row("category", category_in_words(session)),
    ];
    let tags = words(&session["collabSubTags"]);
    let optional = [
        ("secondary", words(&session["collabSecondary"])),
        ("sub-tags", tags),
        ("participants", words(&session["participants"])),
        ("tasks", words(&session["taskIds"])),
        ("follows", word(&session["previousWorkSessionId"])),
    ];
    rows.extend(optional.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| row(name, value)));
    rows.push(row("started", time(&session["startedAt"], now)));
    rows.push(row("last activity", time(&session["lastActivity"], now)));
    rows.push(row("events", format!("{}, {} of them messages", session["eventCount"], session["messageCount"])));
    rows
}

fn category_in_words(session: &Value) -> String {
    let source = word(&session["categorySource"]);
    let by = match (source.as_str(), session["categoryUpdatedBy"].as_str()) {
        ("manual_override", Some(by)) => format!(", said by {by}"),
        ("manual_override" | "manual", _) => String::new(),
        _ => format!(", confidence {}", share(&session["categoryConfidence"])),
    };
    format!("{} ({source}{by})", session["collabCategory"].as_str().unwrap_or("none"))
}

fn show_in_words(session: &Value, messages: &[Value], columns: Option<usize>, now: Timestamp) -> String {
    let cut = |text: String| match columns {
        Some(columns) => text.lines().map(|line| fit(line, columns)).collect::<Vec<_>>().join("\n"),
        None => text,
    };
    let mut text = table(&facts(session, now));
    let threads = session["threads"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !threads.is_empty() {
        let mut rows =
            vec![["STATE", "EVENTS", "LAST (UTC)", "WHO", "THREAD", "LAST MESSAGE"].map(str::to_owned).to_vec()];
        for thread in threads {
            rows.push(vec![
                word(&thread["state"]),
                word(&thread["eventCount"]),
                time(&thread["lastTs"], now),
                words(&thread["participants"]),
                fit(&word(&thread["key"]), 44),
                word(&thread["lastMessage"]),
            ]);
        }
        text.push_str(&format!("\n\nThreads\n{}", cut(table(&rows))));
    }
    if !messages.is_empty() {
        let row = |event: &Value| vec![time(&event["ts"], now), who(event), message(event)];
        let rows: Vec<Vec<String>> = messages.iter().map(row).collect();
        text.push_str(&format!("\n\nLast messages\n{}", cut(table(&rows))));
    }
    text
}

impl Category {
    fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let client = ask::monitor(dir)?;
        let path = format!("/api/work-sessions/{}/category", encoded(&self.id));
        let mut body = json!({ "collabCategory": self.key });
        if let Some(by) = &self.by {
            body["updatedBy"] = json!(by);
        }
        let changed = block_on(patiently(|| client.api(Method::PATCH, &path, Some(&body))))?;
        let session = changed.map_err(in_arguments)?;
        output.show(&session, || format!("{}: {}", word(&session["workSessionId"]), category_in_words(&session)));
        Ok(())
    }
}

fn in_arguments(error: client::Error) -> anyhow::Error {
    let client::Error::Declined { message, field: Some(field), .. } = &error else { return error.into() };
    let flag = match field.as_str() {
        "collabCategory" => "KEY",
        "updatedBy" => "--by",
        _ => return error.into(),
    };
    let said = message.strip_prefix(&format!("{field}: ")).unwrap_or(message).to_owned();
    WrongArgument { flag, said }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn a_narrow_terminal_has_whole_ids_below_what_was_cut() {
        let id = "ws_b94e21c7-03da-4d58-8f2e-6a1c7e5d9042";
        let page = json!({ "workSessions": [{
            "workSessionId": id, "status": "ACTIVE", "collabCategory": "infra_ops", "eventCount": 12,
            "lastActivity": 1_794_821_400_000_u64, "participants": ["이든", "seum"], "title": "정산 배치가 어제 새벽에 두 번 돌았습니다. 원인 좀 봐주세요.",
            "matches": [{ "ts": 1_794_821_400_000_u64, "fromAgent": "eden", "passage": "정산 배치가" }],
        }]});
        let now = Timestamp(1_794_821_400_000);
        let narrow = in_words(&page, Some(72), now);
        assert_eq!(
            narrow,
            "STATUS  CATEGORY   EVENTS  LAST (UTC)      PARTICIPANTS  TITLE\n\
             ACTIVE  infra_ops  12      11-16 09:30:00  이든, seum    정산 배치가 어…\n  \
             ws_b94e21c7-03da-4d58-8f2e-6a1c7e5d9042\n    \
             11-16 09:30:00  eden: 정산 배치가"
        );
        assert!(narrow.lines().all(|line| line.width() <= 72), "{narrow}");
        let wide = in_words(&page, None, now);
        assert!(wide.lines().nth(1).is_some_and(|line| line.ends_with(id)), "{wide}");
    }
}
