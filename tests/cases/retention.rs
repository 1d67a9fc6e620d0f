//! What grows with the number of runs has an end: results, sessions, files.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use support::{TestDir, TestHost};

const ECHO: &str = r#"{ otherwise: "You said: {{input}}" }"#;

fn minutes(host: &TestHost, count: u64) {
    host.clock.advance(Duration::from_secs(60 * count));
}

/// Sends a moment after what was sent before, and waits for the end with the clock standing still: nothing grows old meanwhile.
fn send(host: &TestHost, session: &str, key: &str) {
    host.clock.advance(Duration::from_millis(50));
    let params = json!({ "sessionKey": session, "message": "hi", "idempotencyKey": key });
    host.call("chat.send", params).expect("accepted");
    host.has_ended(key);
}

/// A call of `/v1` that names no user.
fn complete(host: &TestHost) {
    let auth = format!("Bearer {}", host.token);
    let headers = [("authorization", auth.as_str()), ("content-type", "application/json")];
    let body = json!({ "model": "eden", "messages": [{ "role": "user", "content": "hi" }] });
    let answer = host.request("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes());
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "You said: hi");
}

fn keys(host: &TestHost) -> Vec<String> {
    let listed = host.call("sessions.list", json!({ "limit": 1_000 })).expect("a list");
    let rows = listed["sessions"].as_array().expect("a list").iter();
    rows.map(|row| row["key"].as_str().expect("a key").to_owned()).collect()
}

fn transcripts(host: &TestHost, folder: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(host.dir.state.path().join(folder)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn past_so_many_results_the_oldest_are_forgotten() {
    let host = TestHost::scripted_with(ECHO, |config| config["runs"]["keepResults"] = json!(100));
    (0..105).for_each(|n| send(&host, "agent:eden:main", &format!("k{n}")));
    let known = |key: &str| {
        let waited = host.call("agent.wait", json!({ "runId": key, "timeoutMs": 0 })).expect("answered");
        waited["status"] == "ok"
    };
    assert!(known("k0") && known("k104"));
    host.eventually("the first are forgotten", || {
        // Who sweeps may only have begun to wait after that.
        minutes(&host, 2);
        (!known("k4")).then_some(())
    });
    assert!(!known("k0") && known("k5") && known("k104"));
    let host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("{error}"));
    let waited = host.call("agent.wait", json!({ "runId": "k4", "timeoutMs": 0 })).expect("answered");
    assert_ne!(waited["status"], "ok", "the journal has forgotten them too");
}

#[test]
fn a_hundred_calls_of_the_chat_api_make_one_file() {
    let host = TestHost::scripted(ECHO);
    (0..100).for_each(|_| complete(&host));
    assert_eq!(keys(&host).len(), 100, "each is a session until it is archived");
    host.eventually("they leave the list, and their own files go", || {
        minutes(&host, 2);
        (keys(&host).is_empty() && transcripts(&host, "sessions/eden").is_empty()).then_some(())
    });
    let archived = transcripts(&host, "sessions/eden/archive");
    let [file] = archived.as_slice() else { panic!("{archived:?}") };
    assert!(file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("openai-")), "{file:?}");
    let text = std::fs::read_to_string(file).expect("readable");
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    assert_eq!(rows.len(), 200, "what was asked and what was answered, each once");
    let mut sessions: Vec<&str> =
        rows.iter().map(|row| row["__openclaw"]["sessionId"].as_str().expect("whose it is")).collect();
    sessions.dedup();
    assert_eq!(sessions.len(), 100, "one after the other");
}

#[test]
fn what_a_stop_left_of_the_chat_api_is_archived_behind_what_is_there() {
    // From midnight on, and not by minutes: each day has a file of its own, and none is to end meanwhile.
    let dir = TestDir::scripted(ECHO, |config| config["session"]["archiveKeepDays"] = json!(2));
    let host = TestHost::start_at(dir, 1_700_006_400_000).unwrap_or_else(|(error, _)| panic!("{error}"));
    let is_archived = |host: &TestHost| {
        host.clock.advance(Duration::from_secs(10));
        keys(host).is_empty().then_some(())
    };
    complete(&host);
    host.eventually("it is archived", || is_archived(&host));
    complete(&host);
    let now = host.clock.now().0;
    let host = TestHost::start_at(host.stop(), now).unwrap_or_else(|(error, _)| panic!("{error}"));
    assert_eq!(keys(&host).len(), 1);
    host.eventually("so is the other", || is_archived(&host));
    let archived = transcripts(&host, "sessions/eden/archive");
    let text = std::fs::read_to_string(&archived[0]).expect("readable");
    assert_eq!((archived.len(), text.lines().count()), (1, 4));
    host.clock.advance(Duration::from_secs(3 * 86_400));
    host.eventually("its days are over", || {
        minutes(&host, 61);
        transcripts(&host, "sessions/eden/archive").is_empty().then_some(())
    });
}

#[test]
fn an_idle_session_of_a_thread_is_archived_after_its_days() {
    let host = TestHost::scripted(ECHO);
    let threads = ["agent:eden:slack:channel:c1:thread:1", "agent:eden:openai:kim"];
    let others = ["agent:eden:main", "agent:eden:slack:channel:c1", "agent:eden:slack:channel:c1:thread:2"];
    for (n, key) in threads.iter().chain(&others).enumerate() {
        send(&host, key, &format!("k{n}"));
    }
    host.call("sessions.patch", json!({ "key": others[2], "pinned": true })).expect("patched");
    host.clock.advance(Duration::from_secs(29 * 86_400));
    minutes(&host, 61);
    assert_eq!(keys(&host).len(), 5, "it may be needed yet");
    host.clock.advance(Duration::from_secs(2 * 86_400));
    host.eventually("they are archived", || {
        minutes(&host, 61);
        (keys(&host).len() == 3 && transcripts(&host, "sessions/eden/archive").len() == 2).then_some(())
    });
    assert!(others.iter().all(|key| keys(&host).iter().any(|listed| listed == key)), "{:?}", keys(&host));
}
