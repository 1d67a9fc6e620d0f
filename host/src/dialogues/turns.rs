//! Turns of a dialogue: made from the rows of a run, and put in order.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::config::{AgentRole, Config};
use crate::session_key::SessionKey;
use crate::sessions::text_of;

/// Turns, oldest first.
#[derive(Debug)]
pub struct Page {
    pub turns: Vec<Value>,
    pub next: Option<String>,
    pub total: usize,
}

/// What was said in a run of an agent, for one task.
pub(super) fn of_run(config: &Config, agent: &str, session_id: &str, task: &str, rows: &[Value]) -> Vec<Value> {
    let role_of = |id: &str| {
        let known = config.agents.list.iter().find(|known| known.id.as_ref() == id);
        if known.is_some_and(|known| known.role == AgentRole::Orchestrator) { "orchestrator" } else { "agent" }
    };
    let mut turns = Vec::new();
    for (nth, row) in rows.iter().enumerate() {
        let (role, from) = match row["role"].as_str() {
            Some("assistant") => (role_of(agent), Some(agent.to_owned())),
            Some("user") => sender(row, role_of),
            _ => continue,
        };
        let parts = row["content"].as_array().into_iter().flatten();
        let calls: Vec<Value> = parts
            .clone()
            .filter(|part| part["type"] == "toolCall")
            .map(|part| json!({ "name": part["name"], "arguments": part["arguments"] }))
            .collect();
        let query = parts.clone().find_map(|part| part.get("humanQuery"));
        let content = text_of(row);
        if content.is_empty() && calls.is_empty() {
            continue;
        }
        let own = &row["__openclaw"];
        let mut turn = json!({
            "runId": own["runId"], "taskId": task, "role": role, "agentId": from, "content": content,
            "timestamp": row["timestamp"], "messageId": own["id"], "sessionId": session_id, "nth": nth, "order": own["order"],
            "toolCalls": (!calls.is_empty()).then_some(calls), "humanQuery": query,
        });
        if let Some(turn) = turn.as_object_mut() {
            turn.retain(|_, value| !value.is_null());
        }
        turns.push(turn);
    }
    turns
}

/// Who sent a message.
fn sender(row: &Value, role_of: impl Fn(&str) -> &'static str) -> (&'static str, Option<String>) {
    let origin = &row["provenance"];
    let from = origin["sourceSessionKey"].as_str().and_then(|key| SessionKey::parse(key).ok());
    match (origin["kind"].as_str(), from) {
        (Some("inter_session"), Some(from)) => (role_of(from.agent.as_ref()), Some(from.agent.to_string())),
        (Some("inter_session"), None) => ("agent", None),
        (Some("internal_system"), _) => ("system", None),
        _ => ("human", None),
    }
}

type Place = (u64, u64, u64, String);

fn place_of(turn: &Value) -> Place {
    let number = |name: &str| turn[name].as_u64().unwrap_or_default();
    (number("timestamp"), number("order"), number("nth"), turn["runId"].as_str().unwrap_or_default().to_owned())
}

/// Turns by their time, each once. An answer that the other side is sent as its next message is one turn, not two.
pub(super) fn in_order(mut turns: Vec<Value>) -> Vec<Value> {
    turns.sort_by_cached_key(place_of);
    turns.dedup_by(|second, first| place_of(second) == place_of(first));
    let mut said: HashMap<String, Vec<String>> = HashMap::new();
    for turn in turns.iter().filter(|turn| turn["nth"] != json!(0)) {
        if let (Some(run), Some(content)) = (turn["runId"].as_str(), turn["content"].as_str()) {
            said.entry(first_try(run).to_owned()).or_default().push(content.trim().to_owned());
        }
    }
    let is_repeated = |turn: &Value| {
        let content = turn["content"].as_str().unwrap_or_default().trim();
        let before = turn["runId"].as_str().and_then(turn_before);
        turn["nth"] == json!(0)
            && before.and_then(|run| said.get(&run)).is_some_and(|said| said.iter().any(|said| said == content))
    };
    turns.retain(|turn| !is_repeated(turn));
    for (at, turn) in turns.iter_mut().enumerate() {
        turn["turnIndex"] = json!(at);
    }
    turns
}

/// A run that was tried again is the same turn.
fn first_try(run: &str) -> &str {
    run.split_once('~').map_or(run, |(run, _)| run)
}

/// The run whose answer a message of a flow is: `JOB:2` sends on what `JOB:1` answered.
fn turn_before(run: &str) -> Option<String> {
    let (job, turn) = first_try(run).rsplit_once(':')?;
    let turn: u32 = turn.parse().ok()?;
    turn.checked_sub(1).map(|turn| format!("{job}:{turn}"))
}

/// A page of turns after a cursor; none where that is no cursor.
pub(super) fn page(mut turns: Vec<Value>, cursor: Option<&str>, limit: usize) -> Option<Page> {
    let total = turns.len();
    if let Some(cursor) = cursor {
        let after = read_cursor(cursor)?;
        turns.retain(|turn| place_of(turn) > after);
    }
    let more = turns.len() > limit;
    turns.truncate(limit);
    let next = turns.last().filter(|_| more).map(cursor_of);
    Some(Page { turns: shown(turns), next, total })
}

/// The last page of turns, or the one before a cursor; `next` leads further back. None where that is no cursor.
pub(super) fn last_page(mut turns: Vec<Value>, cursor: Option<&str>, limit: usize) -> Option<Page> {
    let total = turns.len();
    if let Some(cursor) = cursor {
        let before = read_cursor(cursor)?;
        turns.retain(|turn| place_of(turn) < before);
    }
    let left_out = turns.len().saturating_sub(limit);
    turns.drain(..left_out);
    let next = turns.first().filter(|_| left_out > 0).map(cursor_of);
    Some(Page { turns: shown(turns), next, total })
}

fn cursor_of(turn: &Value) -> String {
    let (time, order, nth, run) = place_of(turn);
    format!("{time}.{order}.{nth}.{run}")
}

fn read_cursor(cursor: &str) -> Option<Place> {
    let mut parts = cursor.splitn(4, '.');
    let mut number = || parts.next()?.parse::<u64>().ok();
    Some((number()?, number()?, number()?, parts.next()?.to_owned()))
}

/// Without what only puts them in order.
fn shown(mut turns: Vec<Value>) -> Vec<Value> {
    for turn in &mut turns {
        if let Some(turn) = turn.as_object_mut() {
            turn.remove("nth");
            turn.remove("order");
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(run: &str, nth: u64, at: u64, content: &str) -> Value {
        json!({ "runId": run, "nth": nth, "order": 1, "timestamp": at, "content": content })
    }

    #[test]
    fn turns_come_in_order_and_what_is_sent_on_is_one_of_them() {
        let turns = vec![
            turn("j:1", 1, 30, "use 8080"),
            turn("j:1", 0, 25, "which port?"),
            turn("j:0", 1, 20, "which port?"),
            turn("j:0", 0, 10, "build it"),
            turn("j:0", 0, 10, "build it"),
        ];
        let ordered = in_order(turns);
        let said: Vec<&str> = ordered.iter().filter_map(|turn| turn["content"].as_str()).collect();
        assert_eq!(said, ["build it", "which port?", "use 8080"]);
        assert_eq!(ordered[2]["turnIndex"], 2);
        let first = page(ordered.clone(), None, 2).expect("a page");
        assert_eq!((first.turns.len(), first.total), (2, 3));
        let second = page(ordered.clone(), first.next.as_deref(), 2).expect("a page");
        assert_eq!((second.turns[0]["content"].as_str(), second.next), (Some("use 8080"), None));
        let newest = last_page(ordered.clone(), None, 2).expect("a page");
        let said =
            |page: &Page| page.turns.iter().filter_map(|turn| turn["content"].as_str()).collect::<Vec<_>>().join(", ");
        assert_eq!((said(&newest).as_str(), newest.total), ("which port?, use 8080", 3));
        let before = last_page(ordered.clone(), newest.next.as_deref(), 2).expect("a page");
        assert_eq!((said(&before).as_str(), before.next), ("build it", None));
        for bad in ["", "x", "1", "1.2.3", "a.b.c.d"] {
            assert!(last_page(ordered.clone(), Some(bad), 2).is_none(), "{bad:?}");
            assert!(page(ordered.clone(), Some(bad), 2).is_none(), "{bad:?}");
        }
    }
}
