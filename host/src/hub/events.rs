//! What happens, from the index: a page of lines, or the conversations of a work session as a tree; and why something was decided.

use std::collections::{HashMap, HashSet};

use chela_page::caps::{BRANCHES, DECISIONS, EVENT_LINES};
use chela_page::{
    Branch, Decision, EventLine, EventSort, Events, EventsFilter, EventsShown, Face, Indexed, Why, title_of,
};
use serde_json::Value;

use super::words::readable;
use super::{Error, Handle, face};
use crate::config::Config;
use crate::event::{Kind, Role};
use crate::monitor::{EventsQuery, Since, cursor_of_seq, seq_of_cursor};

/// Messages that one tree is made from.
const TREE_EVENTS: usize = 400;
/// How deep a tree is shown; what is below stands beside.
const TREE_DEPTH: usize = 8;
const ANSWER_BYTES: usize = 400;

impl Handle {
    /// `raw` is the place of an event that is wanted whole.
    pub async fn events(&self, filter: EventsFilter, raw: Option<&str>) -> Result<Events, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let session = match &filter.session {
            Some(id) => self.title_of_session(id).await?.map(|title| (id.clone(), title)),
            None => None,
        };
        let raw = match raw.and_then(seq_of_cursor) {
            Some(seq) => self.event_at(seq).await?,
            None => None,
        };
        let until = filter.cursor.as_deref().or(filter.until.as_deref()).and_then(seq_of_cursor);
        let roles = match filter.role.as_deref().and_then(Role::parse) {
            Some(role) => vec![role],
            None => Vec::new(),
        };
        let task = filter.task.as_ref().map(|id| format!("task:{id}"));
        let asked = EventsQuery {
            roles,
            types: filter.kind.iter().cloned().collect(),
            work_session: filter.session.clone(),
            subject: task.or_else(|| filter.job.as_ref().map(|id| format!("job:{id}"))),
            before: until,
            limit: EVENT_LINES,
            ..EventsQuery::default()
        };
        let asked = if filter.tree { tree_query(asked) } else { asked };
        let page = match self.0.monitor.events(asked).await.map_err(Error::from) {
            Err(Error::Indexing { percent }) => {
                return Ok(Events { filter, shown: Indexed::Indexing(percent), now: None, session, raw });
            }
            page => page?,
        };
        let now = page.rows.first().and_then(|event| event["seq"].as_i64()).map(|seq| cursor_of_seq(seq + 1));
        let shown = match filter.tree {
            true => {
                let (branches, next) = tree_page(config, &page.rows, page.next);
                EventsShown::Tree { branches, next }
            }
            false => {
                let lines = page.rows.iter().map(|event| line(config, event)).collect();
                EventsShown::Lines { lines, next: page.next }
            }
        };
        Ok(Events { filter, shown: Indexed::Ready(shown), now, session, raw })
    }

    async fn title_of_session(&self, id: &str) -> Result<Option<String>, Error> {
        match self.0.monitor.session(id.to_owned()).await.map_err(Error::from) {
            Err(Error::Indexing { .. }) => Ok(None),
            found => Ok(found?.map(|row| title_of(row["title"].as_str().unwrap_or_default()))),
        }
    }

    /// One event, as people read JSON.
    async fn event_at(&self, seq: i64) -> Result<Option<String>, Error> {
        let asked = EventsQuery { since: Some(Since::Seq(seq - 1)), limit: 1, ..EventsQuery::default() };
        let page = match self.0.monitor.events(asked).await.map_err(Error::from) {
            Err(Error::Indexing { .. }) => return Ok(None),
            page => page?,
        };
        let found = page.rows.first().filter(|event| event["seq"].as_i64() == Some(seq));
        Ok(found.and_then(|event| serde_json::to_string_pretty(event).ok()))
    }

    /// The newest decisions about a task (`task:ID`), a job (`job:ID`) or a work session, or those before a place of the log.
    pub(super) async fn why(
        &self,
        subject: Option<String>,
        session: Option<String>,
        before: Option<&str>,
    ) -> Result<Indexed<Why>, Error> {
        let about = EventsQuery {
            subject,
            work_session: session,
            types: vec![Kind::PolicyDecided.as_str().to_owned()],
            before: before.and_then(seq_of_cursor),
            limit: DECISIONS,
            ..EventsQuery::default()
        };
        let page = match self.0.monitor.events(about).await.map_err(Error::from) {
            Err(Error::Indexing { percent }) => return Ok(Indexed::Indexing(percent)),
            page => page?,
        };
        let mut decisions: Vec<Decision> = page.rows.iter().map(decision).collect();
        decisions.reverse();
        Ok(Indexed::Ready(Why { decisions, older: page.next }))
    }
}

fn tree_query(asked: EventsQuery) -> EventsQuery {
    let types = [Kind::A2aSend, Kind::A2aResponse, Kind::A2aComplete, Kind::A2aSpawn, Kind::A2aSpawnResult];
    let types = types.map(|kind| kind.as_str().to_owned()).to_vec();
    EventsQuery { types, roles: Vec::new(), limit: TREE_EVENTS, ..asked }
}

fn text_of<'a>(data: &'a Value, name: &str) -> Option<&'a str> {
    data[name].as_str().filter(|text| !text.trim().is_empty())
}

/// What people look for in an event of this type.
fn sort_of(kind: &str, data: &Value) -> EventSort {
    match kind {
        _ if kind.starts_with("human_query.") || kind == Kind::TaskResumedAfterHumanQuery.as_str() => {
            EventSort::Question
        }
        "continuation.self_driving" | "continuation.sent" => EventSort::SelfDriving,
        "continuation.stop_guard_blocked" => EventSort::StopGuard,
        "job.failed" | "job.abandoned" | "task.failed" | "task.abandoned" | "plugin.trapped" | "plugin.quarantined" => {
            EventSort::Failure
        }
        _ if data["outcome"] == "blocked" => EventSort::Failure,
        _ => EventSort::Plain,
    }
}

/// The first of an event's texts that says something.
pub(super) fn said(data: &Value) -> String {
    const NAMES: [&str; 10] =
        ["message", "replyPreview", "question", "answer", "reason", "progress", "summary", "action", "title", "error"];
    let text = NAMES.iter().find_map(|name| text_of(data, name));
    text.map_or_else(|| of_machinery(data), |text| title_of(&readable(text).0))
}

/// What an event of the machinery is about: a slot with its component and what it answered, or a channel and how it is.
fn of_machinery(data: &Value) -> String {
    let (plugin, answer) = (&data["plugin"], &data["answer"]);
    let one = answer.get(0).unwrap_or(answer);
    let parts = [
        text_of(data, "slot").or(text_of(data, "channel")),
        text_of(plugin, "name").filter(|_| answer.is_null()),
        text_of(plugin, "version").filter(|_| answer.is_null()),
        text_of(data, "status"),
        text_of(data, "detail"),
        ["verdict", "action", "primary", "role"].iter().find_map(|name| text_of(one, name)),
    ];
    title_of(&parts.into_iter().flatten().collect::<Vec<_>>().join(" · "))
}

fn line(config: &Config, event: &Value) -> EventLine {
    let data = &event["data"];
    let kind = event["type"].as_str().unwrap_or_default();
    let own = |name: &str| text_of(data, name).map(str::to_owned);
    let agent = text_of(data, "fromAgent").or(event["agentId"].as_str()).unwrap_or_default();
    EventLine {
        cursor: cursor_of_seq(event["seq"].as_i64().unwrap_or_default()),
        kind: kind.to_owned(),
        role: data["eventRole"].as_str().unwrap_or_default().to_owned(),
        agent: if agent.is_empty() { Face::default() } else { face(config, agent) },
        to: text_of(data, "toAgent").map(|id| face(config, id)),
        at: event["ts"].as_u64().unwrap_or_default(),
        said: said(data),
        sort: sort_of(kind, data),
        in_a_row: data["consecutiveCount"].as_u64().zip(data["maxConsecutive"].as_u64()),
        steps_left: data["remainingSteps"].as_u64(),
        task: own("taskId"),
        session: own("workSessionId"),
        job: own("jobId"),
    }
}

/// Conversations as branches of those that they came of: the latest first, and below each what came of it in its order.
fn tree(config: &Config, events: &[Value]) -> Vec<Branch> {
    let mut order: Vec<String> = Vec::new();
    let mut found: HashMap<String, (Branch, Option<String>)> = HashMap::new();
    for event in events.iter().rev() {
        let data = &event["data"];
        let Some(id) = text_of(data, "conversationId") else { continue };
        let kind = event["type"].as_str().unwrap_or_default();
        let (branch, parent) = found.entry(id.to_owned()).or_insert_with(|| {
            order.push(id.to_owned());
            let branch = Branch {
                key: id.to_owned(),
                from: face(config, text_of(data, "fromAgent").unwrap_or_default()),
                to: face(config, text_of(data, "toAgent").unwrap_or_default()),
                is_spawn: kind.starts_with("a2a.spawn"),
                at: event["ts"].as_u64().unwrap_or_default(),
                said: said(data),
                state: "active".into(),
                messages: 0,
                branches: Vec::new(),
            };
            (branch, None)
        });
        branch.messages += u64::from(text_of(data, "message").is_some());
        // As the index has it for threads: the last response counts, then whether it has ended.
        branch.state = match kind {
            _ if data["outcome"] == "blocked" => "blocked".into(),
            "a2a.response" if data["late"] != true => "active".into(),
            "a2a.complete" | "a2a.spawn_result" if branch.state != "blocked" => "resolved".into(),
            "a2a.send" if branch.state != "blocked" => "active".into(),
            _ => std::mem::take(&mut branch.state),
        };
        if parent.is_none() {
            *parent = text_of(data, "parentConversationId").filter(|parent| *parent != id).map(str::to_owned);
        }
    }
    let mut children: HashMap<String, Vec<String>> = HashMap::new();
    let mut roots = Vec::new();
    for id in order {
        let parent = found.get(&id).and_then(|(_, parent)| parent.clone());
        match parent.filter(|parent| found.contains_key(parent)) {
            Some(parent) => children.entry(parent).or_default().push(id),
            None => roots.push(id),
        }
    }
    let mut branches: Vec<Branch> = roots.iter().rev().filter_map(|id| grown(id, 0, &mut found, &children)).collect();
    // Conversations that name each other as parents are no tree; they stand beside it.
    let mut left: Vec<String> = found.keys().cloned().collect();
    left.sort();
    branches.extend(left.iter().filter_map(|id| grown(id, TREE_DEPTH, &mut found, &children)));
    branches
}

/// As many conversations as a page shows, and where older ones begin.
fn tree_page(config: &Config, events: &[Value], next: Option<String>) -> (Vec<Branch>, Option<String>) {
    let mut ids = HashSet::new();
    // The newest first; the first event that would be one conversation too many begins the next page.
    let end = events.iter().position(|event| {
        let id = text_of(&event["data"], "conversationId");
        id.is_some_and(|id| !ids.contains(id) && (ids.len() >= BRANCHES || !ids.insert(id)))
    });
    let cut = end.and_then(|end| events[end - 1]["seq"].as_i64()).map(cursor_of_seq);
    (tree(config, &events[..end.unwrap_or(events.len())]), cut.or(next))
}

fn grown(
    id: &str,
    depth: usize,
    found: &mut HashMap<String, (Branch, Option<String>)>,
    children: &HashMap<String, Vec<String>>,
) -> Option<Branch> {
    let (mut branch, _) = found.remove(id)?;
    if depth < TREE_DEPTH {
        let below = children.get(id).into_iter().flatten();
        branch.branches = below.filter_map(|child| grown(child, depth + 1, found, children)).collect();
    }
    Some(branch)
}

fn decision(event: &Value) -> Decision {
    let data = &event["data"];
    let plugin = &data["plugin"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Decision {
        at: event["ts"].as_u64().unwrap_or_default(),
        slot: text(&data["slot"]),
        component: plugin.is_object().then(|| (text(&plugin["name"]), text(&plugin["version"]))),
        export: text(&data["export"]),
        digest: text(&data["digest"]),
        answer: chela_page::clip(&data["answer"].to_string(), ANSWER_BYTES),
        reason: text(&data["reason"]),
        micros: data["micros"].as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sent(seq: i64, kind: &str, id: &str, parent: Option<&str>) -> Value {
        let mut data = json!({ "conversationId": id, "fromAgent": "a", "toAgent": "b", "message": id });
        if let Some(parent) = parent {
            data["parentConversationId"] = json!(parent);
        }
        json!({ "type": kind, "seq": seq, "ts": seq, "agentId": "a", "data": data })
    }

    fn shape(branches: &[Branch]) -> String {
        let one = |branch: &Branch| format!("{}[{}]", branch.key, shape(&branch.branches));
        branches.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn conversations_stand_below_those_that_they_came_of() {
        // As they are read: the newest first.
        let events = [
            sent(5, "a2a.complete", "one", None),
            sent(4, "a2a.spawn", "four", Some("two")),
            sent(3, "a2a.send", "three", Some("one")),
            sent(2, "a2a.spawn", "two", Some("one")),
            sent(1, "a2a.send", "one", Some("not here")),
        ];
        let branches = tree(&Config::default(), &events);
        assert_eq!(shape(&branches), "one[two[four[]] three[]]");
        assert_eq!((branches[0].state.as_str(), branches[0].branches[0].is_spawn), ("resolved", true));
        let two = [sent(2, "a2a.send", "later", None), sent(1, "a2a.send", "before", None)];
        assert_eq!(shape(&tree(&Config::default(), &two)), "later[] before[]");
    }

    #[test]
    fn a_branch_is_as_its_last_response_was() {
        let blocked = |seq| {
            let mut event = sent(seq, "a2a.response", "one", None);
            event["data"]["outcome"] = json!("blocked");
            event
        };
        let check = |events: &[Value], expected: &str| {
            let newest_first: Vec<Value> = events.iter().rev().cloned().collect();
            assert_eq!(tree(&Config::default(), &newest_first)[0].state, expected, "{events:?}");
        };
        let one = |seq, kind| sent(seq, kind, "one", None);
        check(&[one(1, "a2a.send"), blocked(2), one(3, "a2a.send")], "blocked");
        check(&[one(1, "a2a.send"), blocked(2), one(3, "a2a.complete")], "blocked");
        check(&[one(1, "a2a.send"), blocked(2), one(3, "a2a.response"), one(4, "a2a.complete")], "resolved");
        check(&[one(1, "a2a.send"), one(2, "a2a.complete"), one(3, "a2a.send")], "active");
    }

    #[test]
    fn what_the_machinery_did_is_said_in_a_few_words() {
        let check = |data: Value, expected: &str| assert_eq!(said(&data), expected);
        check(json!({ "message": "hello", "slot": "classifier" }), "hello");
        check(
            json!({ "slot": "guard:a", "plugin": { "name": "a", "version": "1" }, "answer": { "verdict": "allow" } }),
            "guard:a · allow",
        );
        check(json!({ "slot": "classifier", "answer": [{ "primary": "infra_ops" }] }), "classifier · infra_ops");
        check(
            json!({ "slot": "classifier", "plugin": { "name": "rules", "version": "0.1.0" } }),
            "classifier · rules · 0.1.0",
        );
        check(json!({ "channel": "relay", "status": "ready", "detail": "" }), "relay · ready");
        check(json!({}), "");
    }

    #[test]
    fn what_is_no_tree_is_shown_all_the_same() {
        let events = [sent(2, "a2a.send", "b", Some("a")), sent(1, "a2a.send", "a", Some("b"))];
        assert_eq!(shape(&tree(&Config::default(), &events)), "a[] b[]");
        let deep: Vec<Value> = (1..40)
            .rev()
            .map(|nth| sent(nth, "a2a.send", &format!("{nth:02}"), Some(&format!("{:02}", nth - 1))))
            .collect();
        let shown = shape(&tree(&Config::default(), &deep));
        assert!((1..40).all(|nth| shown.contains(&format!("{nth:02}["))), "{shown}");
    }

    #[test]
    fn what_people_look_for_is_told_from_the_rest() {
        let check = |kind: &str, data: Value, sort: EventSort| assert_eq!(sort_of(kind, &data), sort, "{kind}");
        check("human_query.requested", json!({}), EventSort::Question);
        check("continuation.self_driving", json!({}), EventSort::SelfDriving);
        check("continuation.stop_guard_blocked", json!({}), EventSort::StopGuard);
        check("a2a.response", json!({ "outcome": "blocked" }), EventSort::Failure);
        check("a2a.response", json!({}), EventSort::Plain);
    }
}
