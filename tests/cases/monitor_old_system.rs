//! A log of the old system, read as it was written: roles, sessions, threads, titles, tasks and jobs as the fixture says they must be.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use support::events::{expected_of_old_system, old_system, old_system_with_jobs};
use support::{TestDir, TestHost};

fn host() -> (TestHost, Value) {
    host_in(old_system())
}

fn host_in(dir: TestDir) -> (TestHost, Value) {
    let expected = expected_of_old_system();
    let now = expected["nowMs"].as_u64().expect("a time");
    let host = TestHost::start_at(dir, now).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    (host, expected)
}

/// Every event of the old log: this gateway's own are of another kind.
fn events(host: &TestHost) -> Vec<Value> {
    let (status, page) = host.get("/api/events?limit=500");
    assert_eq!(status, 200, "{page}");
    let rows = page["events"].as_array().expect("events").clone();
    let ours = |event: &Value| {
        ["gateway.", "plugin.", "policy.", "config."]
            .iter()
            .any(|group| event["type"].as_str().expect("a type").starts_with(group))
    };
    rows.into_iter().filter(|event| !ours(event)).collect()
}

#[test]
fn every_event_has_the_role_that_the_rules_give_it() {
    let (host, expected) = host();
    let events = events(&host);
    assert_eq!(
        events.len() as u64,
        expected["log"]["events"].as_u64().expect("a number"),
        "a repeated id is one event"
    );
    let mut by_role: BTreeMap<String, u64> = BTreeMap::new();
    for event in &events {
        *by_role.entry(event["data"]["eventRole"].as_str().expect("a role").to_owned()).or_default() += 1;
    }
    assert_eq!(json!(by_role), sorted(&expected["eventsByRole"]));
    let (_, health) = host.get("/api/health");
    assert_eq!(health["monitor"]["malformedLines"], expected["log"]["malformed"]);
    assert_eq!(health["monitor"]["unknownRoles"], expected["unknownRoles"]);
    let odd = events.iter().find(|event| event["type"] == "legacy.route_cache");
    assert!(odd.is_some(), "an unknown type is kept and served");
}

fn sorted(object: &Value) -> Value {
    let map: BTreeMap<&String, &Value> = object.as_object().expect("an object").iter().collect();
    json!(map)
}

#[test]
fn work_sessions_threads_titles_and_status_are_as_expected() {
    let (host, expected) = host();
    let (_, page) = host.get("/api/work-sessions?limit=500");
    let found: BTreeMap<&str, &Value> = page["workSessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .map(|session| (session["workSessionId"].as_str().expect("an id"), session))
        .collect();
    let wanted = expected["workSessions"].as_array().expect("sessions");
    assert_eq!(found.len(), wanted.len(), "{:?}", found.keys());
    for session in wanted {
        let hour = session["bucketThreads"][0]["hour"].as_str().unwrap_or_default();
        let id = session["id"].as_str().expect("an id").replace("<hour>", hour);
        let there = found.get(id.as_str()).unwrap_or_else(|| panic!("no {id} among {:?}", found.keys()));
        assert_eq!((&there["status"], &there["title"]), (&session["status"], &session["title"]), "{id}");
        assert_eq!(there["eventCount"], session["events"], "{id}");
        let counted: BTreeMap<&String, &Value> =
            there["roleCounts"].as_object().expect("counts").iter().filter(|(_, count)| **count != json!(0)).collect();
        assert_eq!(json!(counted), sorted(&session["eventsByRole"]), "{id}");
        if session.get("collabCategory").is_some() {
            assert_eq!(
                (&there["collabCategory"], &there["categorySource"]),
                (&session["collabCategory"], &session["categorySource"])
            );
        }
        assert_eq!(there.get("previousWorkSessionId"), session.get("previousWorkSessionId"), "{id}");
        check_threads(&host, &id, session);
    }
    for (status, count) in expected["workSessionsByStatus"].as_object().expect("counts") {
        let (_, page) = host.get(&format!("/api/work-sessions?status={status}"));
        assert_eq!(
            page["workSessions"].as_array().map(Vec::len),
            count.as_u64().map(|count| count as usize),
            "{status}"
        );
    }
    let (_, page) = host.get("/api/work-sessions?role=conversation.main");
    let with_conversation = page["workSessions"].as_array().map(Vec::len);
    assert_eq!(with_conversation, expected["workSessionsWithConversation"].as_u64().map(|count| count as usize));
}

fn check_threads(host: &TestHost, id: &str, session: &Value) {
    let (status, detail) = host.get(&format!("/api/work-sessions/{id}"));
    assert_eq!(status, 200, "{detail}");
    let threads: BTreeMap<&str, &Value> = detail["threads"]
        .as_array()
        .expect("threads")
        .iter()
        .map(|thread| (thread["key"].as_str().expect("a key"), thread))
        .collect();
    for thread in session["threads"].as_array().expect("threads") {
        let key = thread["key"].as_str().expect("a key");
        let there = threads.get(key).unwrap_or_else(|| panic!("no {key} in {id}: {:?}", threads.keys()));
        assert_eq!((&there["state"], &there["eventCount"]), (&thread["state"], &thread["events"]), "{key} of {id}");
        assert_eq!(there["roleCounts"][thread["role"].as_str().expect("a role")], thread["events"], "{key} of {id}");
    }
    for bucket in session["bucketThreads"].as_array().expect("buckets") {
        let key =
            format!("event:{}:{}", bucket["type"].as_str().expect("a type"), bucket["hour"].as_str().expect("an hour"));
        assert!(threads.contains_key(key.as_str()), "no {key} in {id}: {:?}", threads.keys());
    }
    let wanted =
        session["threads"].as_array().map_or(0, Vec::len) + session["bucketThreads"].as_array().map_or(0, Vec::len);
    assert_eq!(threads.len(), wanted, "{id}: {:?}", threads.keys());
}

#[test]
fn tasks_and_jobs_are_read_from_their_files() {
    let (host, expected) = host_in(old_system_with_jobs());
    for (agent, tasks) in expected["tasks"].as_object().expect("agents") {
        let (_, answer) = host.get(&format!("/api/agents/{agent}/tasks"));
        let mut by_status: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for task in answer["tasks"].as_array().expect("tasks") {
            let text = |field: &str| task[field].as_str().unwrap_or_else(|| panic!("no {field} in {task}")).to_owned();
            by_status.entry(text("status")).or_default().push(text("id"));
            if let Some(progress) = expected["stepsProgress"].get(text("id")) {
                assert_eq!(&task["stepsProgress"], progress);
            }
        }
        assert_eq!(json!(by_status), sorted(&tasks["open"]), "{agent}");
        let (_, current) = host.get(&format!("/api/agents/{agent}/current"));
        assert_eq!(current["task"].get("id").unwrap_or(&Value::Null), &tasks["current"], "{agent}");
        let (_, history) = host.get(&format!("/api/agents/{agent}/history"));
        let archived: usize =
            tasks["archived"].as_object().expect("lists").values().filter_map(Value::as_array).map(Vec::len).sum();
        assert_eq!(history["tasks"].as_array().map(Vec::len), Some(archived), "{agent}: {history}");
    }
    for (status, ids) in expected["jobs"].as_object().expect("jobs") {
        for id in ids.as_array().expect("ids").iter().filter_map(Value::as_str) {
            let job = support::eventually("it is taken over", || {
                let (found, job) = host.get(&format!("/api/jobs/{id}"));
                (found == 200).then_some(job)
            });
            // What was finished stays as it was; what was not goes on here.
            assert!(job["status"] == *status || status == "RUNNING" || status == "PENDING", "{job}");
        }
    }
    let (_, blocked) = host.get("/api/agents/nuri/blocked");
    assert_eq!(blocked["tasks"].as_array().map(Vec::len), Some(1));
    let (status, archived) = host.get("/api/agents/eden/tasks/task_20260120_batch");
    assert_eq!((status, &archived["status"]), (200, &json!("completed")));
}
