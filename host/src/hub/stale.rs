//! Which topics have news, by what happened. A page names for each of its fragments the topics that it depends on.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::feed::Told;

/// Topics of one message; past this, everything is stale.
const TOPICS_MAX: usize = 256;
/// Agents whose words are passed on in one message; of more, those who spoke last.
const SAYING_MAX: usize = 8;

/// What a page has not seen yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stale {
    topics: BTreeSet<String>,
    /// More than can be named.
    pub all: bool,
    /// What agents are saying: a session and the text so far.
    saying: Vec<(String, String)>,
}

impl Stale {
    fn add(&mut self, topic: impl Into<String>) {
        if self.topics.len() >= TOPICS_MAX {
            self.all = true;
        } else {
            self.topics.insert(topic.into());
        }
    }

    /// An agent has said this much.
    fn say(&mut self, session: &str, text: &str) {
        self.saying.retain(|(known, _)| known != session);
        if self.saying.len() >= SAYING_MAX {
            self.saying.remove(0);
        }
        self.saying.push((session.to_owned(), text.to_owned()));
    }

    /// Something was said for a task.
    pub fn dialogue(&mut self, task: &str) {
        self.add(format!("task:{task}"));
    }

    /// People say something else about the category of a work session.
    pub fn category(&mut self, session: &str) {
        self.add("sessions");
        self.add(format!("session:{session}"));
    }

    /// Milestones or todos have changed.
    pub fn lists(&mut self) {
        self.add("lists");
    }

    /// What counts on without an event: calls of plugins, messages of channels.
    pub fn counters(&mut self) {
        self.add("counters");
    }

    pub fn is_empty(&self) -> bool {
        self.topics.is_empty() && !self.all && self.saying.is_empty()
    }

    /// As a page is told of it.
    pub fn to_json(&self) -> Value {
        let mut told = serde_json::json!({});
        if self.all {
            told["all"] = true.into();
        } else if !self.topics.is_empty() {
            told["stale"] = serde_json::json!(self.topics);
        }
        if !self.saying.is_empty() {
            let one = |(session, text): &(String, String)| serde_json::json!({ "session": session, "text": text });
            told["say"] = self.saying.iter().map(one).collect();
        }
        told
    }
}

/// An event of the log.
pub fn of_event(event: &Value, stale: &mut Stale) {
    let kind = event["type"].as_str().unwrap_or_default();
    let group = kind.split_once('.').map_or(kind, |(group, _)| group);
    let data = &event["data"];
    match group {
        "task" | "plan" | "unblock" | "zombie" => stale.add("tasks"),
        "human_query" => ["questions", "tasks"].into_iter().for_each(|topic| stale.add(topic)),
        "job" => stale.add("jobs"),
        "a2a" => ["sessions", "jobs"].into_iter().for_each(|topic| stale.add(topic)),
        "config" => stale.all = true,
        "plugin" => stale.add("plugins"),
        "channel" => stale.add("channels"),
        // Lists name the category of each work session.
        "policy" if data["slot"] == "classifier" => stale.add("sessions"),
        _ => {}
    }
    if data["jobId"].is_string() {
        stale.add("jobs");
    }
    if let Some(task) = data["taskId"].as_str() {
        stale.add(format!("task:{task}"));
    }
    if let Some(session) = data["workSessionId"].as_str() {
        stale.add(format!("session:{session}"));
    }
    if let Some(agent) = event["agentId"].as_str().filter(|_| group != "policy") {
        stale.add(format!("agent:{agent}"));
    }
    stale.add("activity");
}

/// What connected clients are told of runs and sessions.
pub fn of_feed(told: &Told, stale: &mut Stale) {
    if !matches!(told.event, "chat" | "sessions.changed") {
        return;
    }
    let payload = told.value();
    let Some(session) = payload["sessionKey"].as_str() else { return };
    if told.event == "chat" && payload["state"] == "delta" {
        let text = payload["message"]["content"][0]["text"].as_str().unwrap_or_default();
        stale.say(session, text);
        return;
    }
    stale.add("agents");
    stale.add(format!("chat:{session}"));
    if let Some(agent) = payload["agentId"].as_str() {
        stale.add(format!("agent:{agent}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::Audience;
    use serde_json::json;

    fn topics(stale: &Stale) -> Vec<&str> {
        stale.topics.iter().map(String::as_str).collect()
    }

    #[test]
    fn an_event_makes_stale_what_shows_it_and_nothing_else() {
        let check = |event: Value, expected: &[&str]| {
            let mut stale = Stale::default();
            of_event(&event, &mut stale);
            assert_eq!(topics(&stale), expected, "{event}");
        };
        let of = |kind: &str, data: Value| json!({ "type": kind, "agentId": "eden", "data": data });
        check(of("task.updated", json!({ "taskId": "t" })), &["activity", "agent:eden", "task:t", "tasks"]);
        check(of("job.failed", json!({})), &["activity", "agent:eden", "jobs"]);
        check(
            of("a2a.send", json!({ "workSessionId": "ws_1" })),
            &["activity", "agent:eden", "jobs", "session:ws_1", "sessions"],
        );
        check(of("policy.decided", json!({ "taskId": "t" })), &["activity", "task:t"]);
        check(
            of("policy.decided", json!({ "slot": "classifier", "workSessionId": "ws_1" })),
            &["activity", "session:ws_1", "sessions"],
        );
        check(of("policy.decided", json!({ "slot": "guard:stop-guard", "jobId": "j" })), &["activity", "jobs"]);
        check(json!("no event"), &["activity"]);
    }

    #[test]
    fn words_of_a_run_are_passed_on_and_its_end_makes_the_chat_stale() {
        let told = |payload: Value| Told::new("chat", Audience::Readers, payload.to_string());
        let mut stale = Stale::default();
        let delta = json!({ "sessionKey": "agent:a:main", "agentId": "a", "state": "delta", "message": { "content": [{ "text": "so far" }] } });
        of_feed(&told(delta), &mut stale);
        assert_eq!(stale.saying, [("agent:a:main".to_owned(), "so far".to_owned())]);
        of_feed(&told(json!({ "sessionKey": "agent:a:main", "agentId": "a", "state": "final" })), &mut stale);
        assert_eq!(topics(&stale), ["agent:a", "agents", "chat:agent:a:main"]);
    }

    #[test]
    fn agents_that_speak_at_once_are_all_heard_and_no_more_than_can_be() {
        let delta = |agent: usize, text: &str| {
            let payload = json!({ "sessionKey": format!("agent:{agent}:main"), "state": "delta", "message": { "content": [{ "text": text }] } });
            Told::new("chat", Audience::Readers, payload.to_string())
        };
        let mut stale = Stale::default();
        for (agent, text) in [(1, "one"), (2, "two"), (1, "one and more")] {
            of_feed(&delta(agent, text), &mut stale);
        }
        let said = json!([{ "session": "agent:2:main", "text": "two" }, { "session": "agent:1:main", "text": "one and more" }]);
        assert_eq!(stale.to_json()["say"], said);
        (0..SAYING_MAX * 3).for_each(|agent| of_feed(&delta(agent, "so"), &mut stale));
        assert_eq!(stale.saying.len(), SAYING_MAX);
    }

    #[test]
    fn more_than_can_be_named_is_everything() {
        let mut stale = Stale::default();
        for nth in 0..TOPICS_MAX + 10 {
            of_event(&json!({ "type": "task.updated", "data": { "taskId": nth.to_string() } }), &mut stale);
        }
        assert_eq!(stale.to_json(), json!({ "all": true }));
    }
}
