//! What task tools refuse: by name, with what to do instead, and nothing half-written.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use support::TestHost;

fn rejected(host: &TestHost, body: &Value) -> (u16, String, String) {
    let (status, answer) = host.invoke(body);
    let text = |field: &str| answer["error"][field].as_str().unwrap_or_default().to_owned();
    assert_eq!(answer["ok"], false, "{answer}");
    (status, text("type"), text("message"))
}

#[test]
fn calls_that_no_tool_takes_are_refused_with_what_to_write() {
    let host = TestHost::start();
    let check = |body: Value, status: u16, kind: &str, said: &str| {
        let (found, found_kind, message) = rejected(&host, &body);
        assert_eq!((found, found_kind.as_str()), (status, kind), "{message}");
        assert!(message.contains(said), "{message}");
    };
    let invalid = "invalid_request";
    check(json!({ "tool": "exec" }), 404, "not_found", "Tool not available: exec");
    check(json!({}), 400, invalid, "tool is missing");
    check(json!([]), 400, invalid, "must be an object");
    check(json!({ "tool": "task_list", "args": [] }), 400, invalid, "args must be an object");
    check(json!({ "tool": 7 }), 400, invalid, "tool must be a text");
    check(json!({ "tool": "task_list", "sessionKey": "agent:nobody" }), 400, invalid, "no agent has the id \"nobody\"");
    check(json!({ "tool": "task_list", "sessionKey": "agent:eden:a//b" }), 400, invalid, "is not a session key");
    check(json!({ "tool": "task_update", "args": { "action": "explode" } }), 400, invalid, "action");
    check(json!({ "tool": "task_update", "args": { "stepid": "s1" } }), 400, invalid, "did you mean `step_id`");
    check(json!({ "tool": "task_start", "args": {} }), 400, invalid, "description");
    check(
        json!({ "tool": "task_start", "args": { "description": "x", "priority": "asap" } }),
        400,
        invalid,
        "priority",
    );
    let answer = host.request("POST", "/tools/invoke", &[], b"{");
    assert_eq!(answer.status, 400);
    let answer = host.request("POST", "/tools/invoke", &[("authorization", "Bearer wrong")], b"{}");
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (401, &json!("unauthorized")));
    let answer = host.request("GET", "/tools/invoke", &[], b"");
    assert_eq!(answer.status, 405);
    let huge = json!({ "tool": "task_start", "args": { "description": "x".repeat(3 << 20) } });
    let answer = host.request("POST", "/tools/invoke", &[], huge.to_string().as_bytes());
    assert_eq!(answer.status, 413);
}

#[test]
fn what_a_task_cannot_do_is_refused_and_its_file_stays_as_it_was() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b"]);
    let other = host.begin("seum", &["a"]);
    let text = host.dir.task_text("eden", &id);
    let check = |tool: &str, args: Value, said: &str| {
        let error = host.refused("eden", tool, args);
        assert!(error.contains(said), "{error}");
        assert_eq!(host.dir.task_text("eden", &id), text);
    };
    check(
        "task_update",
        json!({ "action": "complete_step", "step_id": "s9" }),
        "there is no step \"s9\"; the task has s1, s2",
    );
    check("task_update", json!({ "action": "reorder_steps", "steps_order": ["s1"] }), "s2 is missing");
    check("task_update", json!({ "action": "reorder_steps", "steps_order": ["s1", "s1"] }), "s1 is there twice");
    check("task_update", json!({ "action": "add_step", "step_content": "  " }), "needs a content");
    check("task_update", json!({ "action": "add_step", "step_content": "a\nb" }), "must be one line");
    check("task_update", json!({ "action": "add_step", "step_content": "- [x] a" }), "must not begin with a marker");
    check("task_update", json!({ "action": "set_steps", "steps": [] }), "at least one step");
    check("task_update", json!({ "action": "set_steps" }), "`steps` is missing");
    check("task_update", json!({ "action": "start_step" }), "`step_id` is missing");
    check("task_update", json!({ "step_id": "s1" }), "`action` is missing");
    check("task_update", json!({}), "say what changed");
    check("task_update", json!({ "progress": "" }), "is empty");
    check("task_update", json!({ "progress": "x".repeat(4_001) }), "4001 characters");
    check("task_update", json!({ "task_id": "../../etc/passwd", "progress": "x" }), "is not the id of a task");
    check("task_update", json!({ "task_id": "task_a/b", "progress": "x" }), "is not the id of a task");
    check("task_update", json!({ "task_id": "task_none", "progress": "x" }), "there is no task task_none");
    check("task_update", json!({ "task_id": other, "progress": "x" }), "belongs to seum");
    check("task_complete", json!({ "task_id": other }), "belongs to seum");
    check("task_start", json!({ "description": " " }), "`description` is missing");
    check("task_start", json!({ "description": "x".repeat(20_001) }), "20001 characters");
    check("task_block", json!({ "reason": " \n" }), "`reason` is missing");
    check("task_list", json!({ "agent_id": "nobody" }), "no agent has the id");
    check("task_list", json!({ "status": "odd" }), "there is no status \"odd\"");
    check("task_backlog_add", json!({ "description": "x", "assignee": "nobody" }), "no agent has the id");
    check("task_status", json!({ "task_id": "task_none" }), "there is no task task_none");
    check("plan_submit", json!({ "body": " " }), "needs a body");
    check("milestone_update", json!({ "milestone_id": "x" }), "there is no milestone x");
    check("milestone_create", json!({ "title": "" }), "`title` needs");
    assert_eq!(host.get("/api/agents/eden/tasks").1["tasks"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_sub_agent_may_not_use_task_tools() {
    let host = TestHost::start();
    let (status, answer) = host.invoke(
        &json!({ "tool": "task_start", "args": { "description": "x" }, "sessionKey": "agent:eden:subagent:7" }),
    );
    assert_eq!(status, 200);
    assert_eq!(answer["result"]["details"]["success"], false);
    assert!(
        answer["result"]["details"]["error"].as_str().is_some_and(|said| said.contains("sub-agents may not")),
        "{answer}"
    );
    assert_eq!(host.get("/api/tasks").1["total"], 0);
}

#[test]
fn a_read_only_file_or_directory_is_refused_and_nothing_changes() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b"]);
    let path = host.dir.task_file("eden", &id);
    let text = host.dir.task_text("eden", &id);
    let call = json!({ "tool": "task_update", "args": { "action": "complete_step" }, "sessionKey": "eden" });
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("ours");
    let (status, kind, message) = rejected(&host, &call);
    assert_eq!((status, kind.as_str()), (500, "tool_error"));
    assert!(message.contains("is read-only; allow writing with `chmod u+w`"), "{message}");
    assert_eq!((host.dir.task_text("eden", &id), &host.task(&id)["stepsProgress"]["done"]), (text.clone(), &json!(0)));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    host.done("eden", "task_update", json!({ "action": "complete_step" }));
    assert_eq!(host.task(&id)["stepsProgress"]["done"], 1);
}

#[test]
fn the_hubs_way_to_change_a_task_checks_what_it_is_given() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a", "b"]);
    let post = |body: Value| {
        let answer = host.request("POST", "/api/tasks/update", &[], body.to_string().as_bytes());
        (answer.status, answer.json())
    };
    let (status, answer) = post(json!({ "taskId": id, "agentId": "eden", "action": "complete_step", "stepId": "s1" }));
    assert_eq!((status, &answer["stepsProgress"]["done"]), (200, &json!(1)), "{answer}");
    let (status, _) =
        post(json!({ "taskId": id, "agentId": "eden", "action": "reorder_steps", "stepsOrder": ["s2", "s1"] }));
    assert_eq!(status, 200);
    let (status, _) = post(json!({ "taskId": id, "agentId": "eden", "progress": "허브에서" }));
    assert_eq!(status, 200);
    assert!(host.dir.task_text("eden", &id).contains("- 허브에서\n"));
    let check = |body: Value, field: &str, said: &str| {
        let (status, answer) = post(body);
        assert_eq!((status, &answer["error"]["field"]), (400, &json!(field)), "{answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| message.contains(said)), "{answer}");
    };
    check(json!({ "agentId": "eden", "progress": "x" }), "taskId", "required");
    check(json!({ "taskId": id, "progress": "x" }), "agentId", "required");
    check(json!({ "taskId": id, "agentId": "eden" }), "progress", "progress or action required");
    check(json!({ "taskId": id, "agentId": "eden", "progress": "x", "colour": 1 }), "colour", "no such field");
    check(json!({ "taskId": id, "agentId": "seum", "progress": "x" }), "taskId", "belongs to eden");
    check(json!({ "taskId": id, "agentId": "eden", "action": "explode" }), "body", "action");
}
