//! Questions to people from end to end: a worker is stuck, its orchestrator asks, a person answers, and exactly that task goes on.

use serde_json::{Value, json};
use support::{TestHost, eventually};

const SCRIPT: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "passed on" }] },
    { agent: "ruda", when: "stuck on the port", steps: [{ say: "I ask for you.\n[NEED_HUMAN: Which port?]" }] },
    { agent: "ruda", when: "stuck on the name", steps: [{ say: "[NEED_HUMAN: Which name?]" }] },
    { agent: "ruda", when: "ask for nobody", steps: [{ say: "[NEED_HUMAN: Shall we go on?]" }] },
    { when: "goes on", steps: [{ say: "going on" }] },
    { when: "work on the port", steps: [
        { call: { tool: "task_start", args: { description: "port", steps: [{ content: "choose" }] } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the port", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
    { when: "work on the name", steps: [
        { call: { tool: "task_start", args: { description: "name" } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the name", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
  ], otherwise: "You said: {{input}}" }"#;

fn of_agent<'a>(questions: &'a [Value], agent: &str) -> &'a Value {
    let found = questions.iter().find(|question| question["taskAgentId"] == agent);
    found.unwrap_or_else(|| panic!("{agent} waits: {questions:#?}"))
}

#[test]
fn a_stuck_worker_waits_for_a_person_and_goes_on_with_the_answer() {
    let host = TestHost::scripted(SCRIPT);
    host.ask("eden", "work on the port");
    let question = host.asked(1).remove(0);
    let (id, task) = (question["id"].as_str().expect("an id"), question["taskId"].as_str().expect("a task"));
    assert_eq!(
        (&question["question"], &question["agentId"], &question["taskAgentId"], &question["nodeId"]),
        (&json!("Which port?"), &json!("ruda"), &json!("eden"), &json!(format!("task:{task}")))
    );
    assert!(question["runId"].is_string() && question["workSessionId"].is_string(), "{question:#}");
    let blocked = host.task(task);
    assert_eq!((&blocked["status"], &blocked["blockedKind"]), (&json!("blocked"), &json!("input")));
    assert_eq!(blocked["blockedReason"], "Which port?", "people read what it waits for: {blocked:#}");

    let row = host.history("agent:ruda:main").into_iter().find(|row| row["__openclaw"]["id"] == question["messageId"]);
    let row = row.expect("the row that asks");
    assert_eq!(row["content"][0]["text"], "I ask for you.");
    assert_eq!(
        (&row["content"][1]["text"], &row["content"][1]["humanQuery"]["id"]),
        (&json!("Which port?"), &json!(id))
    );
    let file = host.dir.state.human().join(format!("question-{id}.json"));
    eventually("people find the question as a file", || file.exists().then_some(()));

    let answered = host.call("human.answer", json!({ "taskId": task, "answer": "8080" })).expect("taken");
    assert_eq!(
        (&answered["question"]["state"], &answered["question"]["answer"]["by"]),
        (&json!("answered"), &json!("owner"))
    );
    host.settled(id);
    assert_eq!(host.task(task)["status"], "in_progress");
    host.eventually("the worker goes on", || {
        host.said("agent:eden:main").iter().any(|line| line == "assistant: going on").then_some(())
    });
    let resumed = host.said("agent:eden:main").into_iter().find(|line| line.contains("goes on")).expect("told");
    assert!(resumed.contains("Answer: 8080") && resumed.contains(task), "{resumed}");
    host.eventually("the orchestrator hears it", || {
        let said = host.said("agent:ruda:main");
        (said.contains(&"user: 8080".to_owned()) && said.contains(&"assistant: passed on".to_owned())).then_some(())
    });
    assert!(!file.exists(), "nobody is to answer it any more");
    let told = host.told_of_task(task);
    let about: Vec<&str> = told
        .iter()
        .map(String::as_str)
        .filter(|kind| {
            kind.starts_with("human_query")
                || ["task.blocked", "task.resumed", "task.resumed_after_human_query"].contains(kind)
        })
        .collect();
    assert_eq!(
        about,
        [
            "task.blocked",
            "human_query.requested",
            "human_query.answered",
            "task.resumed",
            "task.resumed_after_human_query"
        ]
    );
}

#[test]
fn several_workers_ask_at_once_and_each_answer_reaches_its_own_task() {
    let host = TestHost::scripted(SCRIPT);
    host.ask("eden", "work on the port");
    host.ask("seum", "work on the name");
    let open = host.asked(2);
    let (port, name) = (of_agent(&open, "eden").clone(), of_agent(&open, "seum").clone());
    let id = |question: &Value| question["id"].as_str().expect("an id").to_owned();
    let task = |question: &Value| question["taskId"].as_str().expect("a task").to_owned();

    let chat = json!({ "sessionKey": "agent:ruda:main", "message": "blue", "idempotencyKey": "chat-1" });
    let sent = host.call("chat.send", chat).expect("a message like any other");
    assert_eq!(sent["openQuestions"].as_array().map(Vec::len), Some(2), "{sent:#}");
    assert!(sent.get("humanQuery").is_none());
    host.ended("chat-1");
    assert_eq!(host.questions().len(), 2, "nothing was guessed");
    let row = host.history("agent:ruda:main").into_iter().find(|row| row["__openclaw"]["runId"] == "chat-1");
    let note = row.expect("the message")["provenance"]["note"].as_str().expect("the model is told").to_owned();
    assert!(note.contains(&id(&port)) && note.contains(&id(&name)), "{note}");

    let other = json!({ "id": id(&port), "taskId": task(&name), "answer": "x" });
    let refused = host.call("human.answer", other).expect_err("two different things are named");
    assert_eq!(refused["details"]["code"], "OTHER_QUESTION", "{refused}");
    host.call("human.answer", json!({ "taskId": task(&name), "answer": "crab" })).expect("taken");
    host.settled(&id(&name));
    assert_eq!(
        (host.task(&task(&name))["status"].as_str(), host.task(&task(&port))["status"].as_str()),
        (Some("in_progress"), Some("blocked"))
    );

    let chat = json!({ "sessionKey": "agent:ruda:main", "message": "8080", "idempotencyKey": "chat-2" });
    let sent = host.call("chat.send", chat.clone()).expect("the answer");
    assert_eq!(
        (&sent["status"], &sent["runId"], &sent["humanQuery"]["id"]),
        (&json!("started"), &json!("chat-2"), &json!(id(&port)))
    );
    host.settled(&id(&port));
    assert_eq!(host.ended("chat-2")["terminalReply"]["text"], "passed on", "its sender's key is the run");
    assert_eq!(host.call("chat.send", chat).expect("the same")["status"], "ok", "and the same key is the same message");
    assert_eq!(host.task(&task(&port))["status"], "in_progress");
    for (agent, right, wrong) in [("eden", "Answer: 8080", "crab"), ("seum", "Answer: crab", "8080")] {
        let said = host.eventually("it is read where it is meant", || {
            let said = host.said(&format!("agent:{agent}:main")).join("\n");
            said.contains(right).then_some(said)
        });
        assert!(!said.contains(wrong), "{agent}: {said}");
    }
}

#[test]
fn a_question_without_a_task_is_asked_and_answered_in_its_session_alone() {
    let host = TestHost::scripted(SCRIPT);
    host.ask("ruda", "ask for nobody");
    let question = host.asked(1).remove(0);
    assert_eq!((&question["taskId"], &question["nodeId"]), (&Value::Null, &json!("agent:ruda")));
    let elsewhere = json!({ "sessionKey": "agent:ruda:other", "message": "yes", "idempotencyKey": "elsewhere" });
    assert!(host.call("chat.send", elsewhere).expect("a message").get("humanQuery").is_none());
    assert_eq!(host.questions().len(), 1, "another conversation is no answer");
    let answer = json!({ "sessionKey": "main", "message": "yes", "idempotencyKey": "k", "agentId": "ruda" });
    assert_eq!(host.call("chat.send", answer).expect("the answer")["humanQuery"]["state"], "answered");
    let run = host.ended("k");
    assert_eq!(run["terminalReply"]["text"], "passed on");
    assert!(host.dir.event_types_of("task.").is_empty());
}

#[test]
fn everybody_who_looks_on_is_told() {
    let host = TestHost::scripted(SCRIPT);
    let mut talk = host.connect();
    host.ask("ruda", "ask for nobody");
    let id = host.asked(1)[0]["id"].as_str().expect("an id").to_owned();
    host.call("human.answer", json!({ "id": id, "answer": "yes" })).expect("taken");
    let heard = talk.until(|name, payload| name == "human.changed" && payload["reason"] == "answered");
    let changed: Vec<&Value> =
        heard.iter().filter(|(name, _)| name == "human.changed").map(|(_, payload)| payload).collect();
    assert_eq!((changed.len(), &changed[0]["reason"]), (2, &json!("requested")));
    assert!(changed.iter().all(|told| told["question"]["id"] == json!(id)), "{changed:#?}");
    let listed = host.call("question.list", json!({})).expect("a list");
    assert_eq!(listed, json!({ "questions": [] }), "and the old clients' list is empty again");
}
