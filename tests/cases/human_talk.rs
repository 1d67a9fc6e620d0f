//! What is said for a task: every turn of orchestrator and agent, whole and in order, also when what is derived is gone.

use std::fs;

use serde_json::{Value, json};
use support::TestHost;

const SCRIPT: &str = r#"{ rules: [
    { when: "agent-to-agent turn 1", steps: [{ say: "Ask me when you are stuck." }] },
    { when: "agent-to-agent turn 2", steps: [{ say: "I shall." }] },
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "Good, 8080 it is." }] },
    { agent: "ruda", when: "which port", steps: [{ say: "I do not know either.\n[NEED_HUMAN: Which port?]" }] },
    { agent: "ruda", when: "set it up", steps: [
        { call: { tool: "sessions_send", args: { agentId: "eden", message: "Please build the server", timeoutSeconds: 0 } } }, { say: "Eden does it." } ] },
    { agent: "eden", when: "goes on", steps: [{ say: "It runs on 8080." }] },
    { agent: "eden", when: "build the server", steps: [
        { say: "I begin.", call: { tool: "task_start", args: { description: "server" } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "Tell me: which port?", timeoutSeconds: 0 } } },
        { say: "I wait for the port." } ] },
  ], otherwise: "You said: {{input}}" }"#;

fn talked() -> (TestHost, String) {
    let host =
        TestHost::scripted_with(SCRIPT, |config| config["session"]["agentToAgent"]["maxPingPongTurns"] = json!(2));
    host.ask("ruda", "set it up");
    let question = host.asked(1).remove(0);
    let (id, task) = (question["id"].as_str().expect("an id"), question["taskId"].as_str().expect("a task").to_owned());
    host.call("human.answer", json!({ "id": id, "answer": "8080" })).expect("taken");
    host.settled(id);
    let has =
        |agent: &str, text: &str| host.said(&format!("agent:{agent}:main")).iter().any(|line| line.contains(text));
    host.eventually("all is said", || {
        let said = has("eden", "It runs on 8080") && has("ruda", "Good, 8080 it is");
        let jobs = host.call("jobs.list", json!({})).expect("jobs")["jobs"].as_array().expect("jobs").clone();
        let over = jobs.iter().all(|job| !job["finishedAt"].is_null());
        let busy = host.call("status", json!({})).expect("status")["runs"] != json!(0);
        (said && over && !busy).then_some(())
    });
    (host, task)
}

fn conversation(host: &TestHost, task: &str) -> Vec<Value> {
    let found = host.call("task.conversation", json!({ "taskId": task })).expect("a conversation");
    assert_eq!(found["taskId"], task);
    assert!(found["workSessionId"].is_string(), "{found:#}");
    found["turns"].as_array().expect("turns").clone()
}

fn lines(turns: &[Value]) -> Vec<String> {
    let line = |turn: &Value| {
        format!("{}: {}", turn["role"].as_str().unwrap_or_default(), turn["content"].as_str().unwrap_or_default())
    };
    turns.iter().map(line).filter(|line| !line.ends_with(": ")).collect()
}

#[test]
fn every_turn_of_a_task_is_there_once_and_in_order() {
    let (host, task) = talked();
    let turns = conversation(&host, &task);
    let said = lines(&turns);
    for expected in [
        "orchestrator: Please build the server",
        "agent: I begin.",
        "agent: Tell me: which port?",
        "agent: I wait for the port.",
        "orchestrator: I do not know either.\nWhich port?",
        "human: 8080",
        "orchestrator: Good, 8080 it is.",
        "agent: It runs on 8080.",
    ] {
        assert_eq!(said.iter().filter(|line| *line == expected).count(), 1, "{expected:?} once in {said:#?}");
    }
    let place =
        |text: &str| said.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text} in {said:#?}"));
    assert!(place("build the server") < place("I begin.") && place("I begin.") < place("Tell me"), "{said:#?}");
    assert!(place("Tell me") < place("do not know") && place("do not know") < place("human: 8080"), "{said:#?}");
    assert!(place("human: 8080") < place("It runs on 8080"), "{said:#?}");
    for (at, turn) in turns.iter().enumerate() {
        assert_eq!((&turn["turnIndex"], &turn["taskId"]), (&json!(at), &json!(task)));
        assert!(turn["runId"].is_string() && turn["timestamp"].is_u64(), "{turn:#}");
    }
    let times: Vec<u64> = turns.iter().filter_map(|turn| turn["timestamp"].as_u64()).collect();
    assert!(times.is_sorted());
    let asked = turns.iter().find(|turn| turn.get("humanQuery").is_some()).expect("the question is marked");
    assert_eq!(asked["humanQuery"]["questions"], json!(["Which port?"]));

    let run = turns[0]["runId"].as_str().expect("a run");
    let narrowed = host.call("task.conversation", json!({ "taskId": task, "runId": run })).expect("of this run");
    assert_eq!(narrowed["turns"].as_array().map(Vec::len), Some(turns.len()));
    let wrong =
        host.call("task.conversation", json!({ "taskId": task, "runId": "somebody's" })).expect_err("no part in it");
    assert!(wrong["message"].as_str().unwrap_or_default().contains("has no part in task"), "{wrong}");

    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let (status, page) = host.get(&format!("/api/tasks/{task}/conversation?limit=3{cursor}"));
        assert_eq!(status, 200, "{page}");
        paged.extend(page["turns"].as_array().expect("turns").clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, turns, "page by page it is the same");
}

#[test]
fn what_is_derived_may_be_deleted_and_is_the_same_again() {
    let (host, task) = talked();
    host.done("eden", "task_update", json!({ "progress": "more" }));
    let pending = host.done("ruda", "ask_human", json!({ "question": "And the name?", "taskId": task }));
    let before = (conversation(&host, &task), host.asked(1));
    let now = host.clock.now().0;
    let dir = host.stop();
    let open: Value = serde_json::from_slice(
        &fs::read(dir.state.human().join(format!("question-{}.json", pending["id"].as_str().expect("an id"))))
            .expect("a file"),
    )
    .expect("JSON");
    assert_eq!(open, before.1[0], "the file says what the gateway says");
    for derived in [dir.state.human(), dir.state.dialogues(), dir.state.index()] {
        fs::remove_dir_all(&derived).unwrap_or_else(|error| panic!("{}: {error}", derived.display()));
    }
    let host = TestHost::start_at(dir, now + 1_000).unwrap_or_else(|(error, _)| panic!("{error}"));
    assert_eq!(conversation(&host, &task), before.0);
    assert_eq!(host.asked(1), before.1);
    let file = host.dir.state.human().join(format!("question-{}.json", pending["id"].as_str().expect("an id")));
    host.eventually("the file is there again", || file.exists().then_some(()));
    let events = host.get(&format!("/api/events?taskId={task}&limit=100")).1;
    let asked = events["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter(|event| event["type"] == "human_query.requested")
        .count();
    assert_eq!(asked, 2, "and the index tells both questions again");
}

#[test]
fn open_questions_are_known_from_the_log_when_the_journal_is_gone() {
    let (host, task) = talked();
    host.done("eden", "task_update", json!({ "progress": "more" }));
    host.done("ruda", "ask_human", json!({ "question": "And the name?", "taskId": task, "deadlineMinutes": 600 }));
    host.done("ruda", "ask_human", json!({ "question": "And the colour?", "taskId": task }));
    // How often it was changed, and when, is the journal's own.
    let stands = |host: &TestHost| {
        let mut question = host.asked(1).remove(0);
        question.as_object_mut().expect("an object").retain(|key, _| !["rev", "updatedAt"].contains(&key.as_str()));
        question
    };
    let before = (conversation(&host, &task), stands(&host));
    assert_eq!(before.1["questions"], json!(["And the name?", "And the colour?"]));
    let now = host.clock.now().0;
    let dir = host.stop();
    for lost in [dir.state.journal(), dir.state.human(), dir.state.dialogues(), dir.state.index()] {
        fs::remove_dir_all(&lost).unwrap_or_else(|error| panic!("{}: {error}", lost.display()));
    }
    let host = TestHost::start_at(dir, now + 1_000).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.eventually("it is taken up", || (stands(&host) == before.1).then_some(()));
    assert_eq!(conversation(&host, &task), before.0);
    let id = before.1["id"].as_str().expect("an id");
    host.call("human.answer", json!({ "id": id, "answer": "blue, and Kim" })).expect("taken");
    host.settled(id);
    host.eventually("who asked reads it", || {
        host.said("agent:ruda:main").iter().any(|line| line.contains("blue, and Kim")).then_some(())
    });
    assert_eq!(host.task(&task)["status"], "in_progress", "and the task that waited goes on");
    let host = TestHost::start_at(host.stop(), now + 2_000).unwrap_or_else(|(error, _)| panic!("{error}"));
    assert!(host.questions().is_empty(), "answered is answered");
}
