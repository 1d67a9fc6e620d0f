//! What the old gateway lost, and ours must not: a real process is killed, and every accepted message is answered after all.

use std::time::Duration;

use serde_json::{Value, json};
use support::{Binary, TestDir, eventually};

const SCRIPT: &str = r#"{ rules: [
    { when: "tools", steps: [
        { say: "one", call: { tool: "files_write", args: { path: "a.md", content: "a" } } },
        { say: "two", call: { tool: "files_list", args: {} }, delayMs: 400 },
        { say: "done", delayMs: 400 } ] },
    { when: "slow", steps: [{ say: "late", delayMs: 1500 }] },
  ], otherwise: "You said: {{input}}" }"#;

fn send(gateway: &Binary, dir: &TestDir, key: &str, text: &str) -> Value {
    let params = json!({ "sessionKey": "agent:eden:main", "message": text, "idempotencyKey": key });
    gateway.method(dir, "chat.send", params).expect("accepted")
}

fn ended(gateway: &Binary, dir: &TestDir, key: &str) -> Value {
    eventually("the run has ended", || {
        let waited = gateway.method(dir, "agent.wait", json!({ "runId": key, "timeoutMs": 0 })).expect("answered");
        waited.get("endedAt").is_some().then_some(waited)
    })
}

fn texts(dir: &TestDir) -> Vec<String> {
    dir.transcript("eden").iter().map(chela::sessions::text_of).collect()
}

#[test]
fn a_run_that_was_answered_before_a_kill_is_answered_the_same_after_it() {
    let dir = TestDir::scripted(SCRIPT, |_| {});
    let gateway = Binary::serve(&dir);
    send(&gateway, &dir, "k", "hello");
    let before = ended(&gateway, &dir, "k");
    gateway.kill();
    let gateway = Binary::serve(&dir);
    let after = ended(&gateway, &dir, "k");
    assert_eq!(after, before, "agent.wait gives the stored result");
    assert_eq!(send(&gateway, &dir, "k", "hello")["status"], "ok", "the same key gives the same answer");
    assert_eq!(gateway.terminate().code, Some(0));
    assert_eq!(texts(&dir), ["hello", "You said: hello"], "and nothing ran twice");
}

#[test]
fn accepted_messages_run_after_a_kill_under_their_own_ids_and_in_their_order() {
    let dir = TestDir::scripted(SCRIPT, |_| {});
    let gateway = Binary::serve(&dir);
    for (key, text) in [("1", "slow"), ("2", "second"), ("3", "third")] {
        assert_eq!(send(&gateway, &dir, key, text)["status"], "started");
    }
    gateway.kill();
    let gateway = Binary::serve(&dir);
    assert_eq!(ended(&gateway, &dir, "3")["terminalReply"]["text"], "You said: third");
    assert_eq!(ended(&gateway, &dir, "1")["terminalReply"]["text"], "late");
    assert_eq!(gateway.terminate().code, Some(0));
    assert_eq!(texts(&dir), ["slow", "late", "second", "You said: second", "third", "You said: third"]);
}

#[test]
fn a_run_goes_on_from_its_last_recorded_step_whenever_it_is_killed() {
    for after_ms in [0, 150, 300, 500, 700, 900] {
        let dir = TestDir::scripted(SCRIPT, |_| {});
        let gateway = Binary::serve(&dir);
        send(&gateway, &dir, "t", "tools");
        std::thread::sleep(Duration::from_millis(after_ms));
        gateway.kill();
        let gateway = Binary::serve(&dir);
        assert_eq!(ended(&gateway, &dir, "t")["status"], "ok", "killed after {after_ms} ms");
        assert_eq!(gateway.terminate().code, Some(0));
        let rows = dir.transcript("eden");
        let roles: Vec<&str> = rows.iter().map(|row| row["role"].as_str().expect("a role")).collect();
        assert_eq!(
            roles,
            ["user", "assistant", "toolResult", "assistant", "toolResult", "assistant"],
            "killed after {after_ms} ms"
        );
        let numbers: Vec<u64> = rows.iter().map(|row| row["__openclaw"]["seq"].as_u64().expect("a number")).collect();
        assert_eq!(numbers, (1..=6).collect::<Vec<u64>>());
    }
}

#[test]
fn a_stop_records_what_runs_and_the_next_start_goes_on() {
    let dir = TestDir::scripted(SCRIPT, |config| config["limits"]["drainTimeoutMs"] = json!(100));
    let gateway = Binary::serve(&dir);
    send(&gateway, &dir, "1", "slow");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(gateway.terminate().code, Some(0));
    let gateway = Binary::serve(&dir);
    assert_eq!(ended(&gateway, &dir, "1")["terminalReply"]["text"], "late");
    assert_eq!(gateway.terminate().code, Some(0));
    assert_eq!(texts(&dir), ["slow", "late"]);
}

#[test]
fn a_message_is_sent_and_talked_over_from_the_shell() {
    let dir = TestDir::scripted(SCRIPT, |_| {});
    let gateway = Binary::serve(&dir);
    let sent = support::chela(&dir.state, &["send", "eden", "hello", "there", "--wait"]);
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "You said: hello there\n"), "{sent:?}");
    let again = support::chela(&dir.state, &["send", "eden", "once", "--wait", "--key", "mine", "--json"]);
    assert_eq!(again.json()["runId"], "mine");
    let wrong = support::chela(&dir.state, &["send", "nobody", "x"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("unknown agent id \"nobody\""), "{}", wrong.stderr);
    let mut chat = support::chela_command(&dir.state);
    let mut child = chat
        .args(["chat", "eden"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), b"good morning\n\ntools\n").expect("written");
    let said = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.starts_with("You said: good morning\n"), "{text}");
    assert!(text.contains("files_write") && text.contains("done"), "{text}");
    assert_eq!(gateway.terminate().code, Some(0));
}

/// Waits until the journal says a word, and then no longer.
fn until_journal_says(dir: &TestDir, word: &str) {
    let begun = std::time::Instant::now();
    while !journal(dir).contains(word) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the journal never says {word}");
    }
}

fn journal(dir: &TestDir) -> String {
    let files = std::fs::read_dir(dir.state.journal()).expect("a journal").flatten();
    files.map(|file| String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default()).into_owned()).collect()
}

#[test]
fn a_task_tool_that_a_kill_cut_off_acts_once_and_the_model_reads_its_answer() {
    const TASKS: &str = r#"{ rules: [{ when: "work", steps: [
        { call: { tool: "task_start", args: { description: "once" } } },
        { call: { tool: "task_update", args: { progress: "a line" } } },
        { say: "done" } ] }] }"#;
    let mut hits = 0;
    for _ in 0..40 {
        let dir = TestDir::scripted(TASKS, |_| {});
        let gateway = Binary::serve(&dir);
        send(&gateway, &dir, "t", "work");
        until_journal_says(&dir, "tool-result");
        gateway.kill();
        // Between the tool's own commit and the record of its result, or else this try does not count.
        let is_hit = !journal(&dir).contains(r#""step":"result""#);
        hits += u32::from(is_hit);
        let gateway = Binary::serve(&dir);
        assert_eq!(ended(&gateway, &dir, "t")["terminalReply"]["text"], "done");
        assert_eq!(gateway.terminate().code, Some(0));
        let rows = dir.transcript("eden");
        let results: Vec<String> =
            rows.iter().filter(|row| row["role"] == "toolResult").map(chela::sessions::text_of).collect();
        assert_eq!(results.len(), 2, "{results:?}");
        let answers: Vec<Value> =
            results.iter().map(|text| serde_json::from_str(text).expect("an answer is JSON")).collect();
        assert!(answers.iter().all(|answer| answer["success"] == true), "{answers:#?}");
        let tasks = std::fs::read_dir(dir.state.path().join("workspace-eden/tasks")).expect("a folder").count();
        assert_eq!(tasks, 1, "the task was begun once");
        let text = dir.task_text("eden", answers[0]["taskId"].as_str().expect("an id"));
        assert_eq!(text.matches("a line").count(), 1, "{text}");
        let left = journal(&dir);
        assert!(left.matches("tool-result").count() >= 2, "put, and dropped with the result");
        if hits == 3 {
            return;
        }
    }
    assert!(hits > 0, "no kill came between the two records");
}
