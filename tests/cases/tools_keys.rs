//! Calls of tools by a key: answered again and made once, over restarts, and one key for one call only.

use std::time::Duration;

use chela::port::Port;
use serde_json::{Value, json};
use support::{Binary, TestDir, TestHost};

fn keyed(agent: &str, tool: &str, key: &str, args: &Value) -> Value {
    json!({ "tool": tool, "args": args, "sessionKey": format!("agent:{agent}"), "idempotencyKey": key })
}

fn details(host: &TestHost, body: &Value) -> Value {
    let (status, answer) = host.invoke(body);
    assert_eq!(status, 200, "{answer}");
    answer["result"]["details"].clone()
}

fn open_tasks(host: &TestHost) -> usize {
    host.done("eden", "task_list", json!({}))["tasks"].as_array().expect("a list").len()
}

#[test]
fn a_key_gives_the_same_answer_and_acts_once_over_a_restart() {
    let host = TestHost::scripted(r#"{ otherwise: "You said: {{input}}" }"#);
    let calls = [
        keyed("eden", "task_start", "a", &json!({ "description": "once" })),
        keyed("eden", "task_update", "b", &json!({ "progress": "a line" })),
        keyed("eden", "todo_add", "c", &json!({ "title": "milk" })),
        keyed("eden", "milestone_create", "d", &json!({ "title": "moon" })),
        keyed("eden", "plan_submit", "e", &json!({ "body": "first this, then that" })),
        keyed("eden", "files_write", "f", &json!({ "path": "a.md", "content": "a" })),
        keyed("eden", "sessions_send", "g", &json!({ "agentId": "seum", "message": "[NOTIFICATION] hello" })),
        keyed("eden", "task_resume", "h", &json!({ "task_id": "task_none" })),
    ];
    let first: Vec<Value> = calls.iter().map(|call| details(&host, call)).collect();
    assert!(first[..7].iter().all(|answer| answer["success"] == true), "{first:#?}");
    assert!(first[6]["reply"].as_str().is_some_and(|reply| reply.ends_with("hello")), "{}", first[6]);
    assert_eq!(first[7]["success"], false, "what was refused is refused again: {}", first[7]);
    let again: Vec<Value> = calls.iter().map(|call| details(&host, call)).collect();
    assert_eq!(again, first);
    let dir = host.stop();
    std::fs::write(dir.state.path().join("workspace-eden/a.md"), "changed since").expect("written");
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("the gateway starts: {error}"));
    let after: Vec<Value> = calls.iter().map(|call| details(&host, call)).collect();
    assert_eq!(after, first);
    assert_eq!(open_tasks(&host), 1);
    let text = host.dir.task_text("eden", first[0]["taskId"].as_str().expect("an id"));
    assert_eq!(text.matches("a line").count(), 1, "{text}");
    assert_eq!(host.tool("eden", "todo_list", json!({}))["todos"].as_array().map(Vec::len), Some(1));
    assert_eq!(host.tool("eden", "milestone_list", json!({}))["milestones"].as_array().map(Vec::len), Some(1));
    let plans = host.dir.state.path().join("workspace-eden/plans");
    assert_eq!(std::fs::read_dir(plans).expect("plans").count(), 1);
    assert_eq!(
        std::fs::read_to_string(host.dir.state.path().join("workspace-eden/a.md")).expect("there"),
        "changed since"
    );
    let asked = |row: &&Value| chela::sessions::text_of(row) == "[NOTIFICATION] hello";
    assert_eq!(host.history("seum").iter().filter(asked).count(), 1, "one message");
}

#[test]
fn the_same_key_for_another_call_is_refused_with_both_named() {
    let host = TestHost::start();
    details(&host, &keyed("eden", "todo_add", "k", &json!({ "title": "milk" })));
    let check = |body: Value, named: [&str; 2]| {
        let (status, answer) = host.invoke(&body);
        let said = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!((status, &answer["error"]["type"]), (400, &json!("invalid_request")), "{said}");
        assert!(named.iter().all(|name| said.contains(name)), "{said}");
    };
    check(keyed("seum", "todo_add", "k", &json!({ "title": "milk" })), ["agent:eden:main", "agent:seum:main"]);
    check(keyed("eden", "todo_set", "k", &json!({ "todo_id": "x", "status": "done" })), ["todo_add", "todo_set"]);
    check(keyed("eden", "todo_add", "", &json!({ "title": "milk" })), ["idempotencyKey", "1 to 200 bytes"]);
    check(
        keyed("eden", "todo_add", &"k".repeat(201), &json!({ "title": "milk" })),
        ["idempotencyKey", "1 to 200 bytes"],
    );
    let params = json!({ "name": "todo_add", "args": { "title": "milk" }, "agentId": "seum", "idempotencyKey": "k" });
    let error = host.call("tools.invoke", params.clone()).expect_err("refused");
    assert_eq!(error["code"], "INVALID_REQUEST");
    assert!(error["message"].as_str().is_some_and(|said| said.contains("agent:eden:main")), "{error}");
    // Over the socket and over HTTP it is one method.
    let same = json!({ "name": "todo_add", "args": { "title": "milk" }, "agentId": "eden", "idempotencyKey": "k" });
    assert_eq!(host.call("tools.invoke", same).expect("answered")["output"]["details"]["todo"]["title"], "milk");
    assert_eq!(host.tool("eden", "todo_list", json!({}))["todos"].as_array().map(Vec::len), Some(1));
    // What was never a call leaves its key free.
    let (status, _) = host.invoke(&keyed("eden", "files_write", "free", &json!({ "path": 7 })));
    assert_eq!(status, 400);
    assert_eq!(details(&host, &keyed("seum", "todo_add", "free", &json!({ "title": "tea" })))["success"], true);
}

#[test]
fn of_many_who_come_at_once_with_one_key_one_acts() {
    let host = TestHost::start();
    let client = host.client(Port::Gateway);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            let body = keyed("eden", "task_start", "k", &json!({ "description": "once" }));
            host.spawn(async move { client.invoke_tool(&body).await.expect("answered") })
        })
        .collect();
    let answers: Vec<Value> = calls.into_iter().map(|call| host.block_on(call).expect("ends")).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
    assert_eq!(open_tasks(&host), 1);
}

#[test]
fn answers_are_kept_for_as_long_as_results_of_runs() {
    let host = TestHost::start_with(|config| {
        config["runs"]["keepDays"] = json!(1);
        // Else a task that nobody works on for a day is given up.
        config["continuation"]["enabled"] = json!(false);
    });
    let call = keyed("eden", "task_start", "k", &json!({ "description": "again" }));
    let first = details(&host, &call);
    host.clock.advance(Duration::from_secs(2 * 86_400));
    host.eventually("it is swept", || {
        // Who sweeps may only have begun to wait after that.
        host.clock.advance(Duration::from_secs(3_600));
        let now = details(&host, &call);
        (now["taskId"] != first["taskId"]).then_some(())
    });
    assert_eq!(open_tasks(&host), 2);
}

#[test]
fn a_call_whose_answer_was_lost_in_a_kill_is_made_once() {
    for after_ms in [0_u64, 1, 2, 3, 5, 8, 13, 21] {
        let dir = TestDir::with_config(|_| {});
        let (token, body) = (dir.token(), keyed("eden", "task_start", "k", &json!({ "description": "once" })));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let gateway = Binary::serve(&dir);
        let client = gateway.client(&token);
        let heard = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(client.invoke_tool(&body)).ok()
            });
            std::thread::sleep(Duration::from_millis(after_ms));
            gateway.kill();
            asking.join().expect("it ends")
        });
        let gateway = Binary::serve(&dir);
        let client = gateway.client(&token);
        let answer = runtime.block_on(client.invoke_tool(&body)).expect("answered");
        if let Some(heard) = heard {
            assert_eq!(heard, answer, "killed after {after_ms} ms");
        }
        let list = json!({ "tool": "task_list", "args": {}, "sessionKey": "agent:eden" });
        let list = runtime.block_on(client.invoke_tool(&list)).expect("answered");
        assert_eq!(list["tasks"].as_array().map(Vec::len), Some(1), "killed after {after_ms} ms");
        assert_eq!(gateway.terminate().code, Some(0));
    }
}
