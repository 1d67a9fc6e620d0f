//! The task tools, from the door to the file: steps, guards, dependencies, backlog, plans, milestones.

use std::fs;

use serde_json::{Value, json};
use support::{TestHost, eventually, guest, path_of};

const STEPS: [&str; 4] =
    ["기존 auth 구조 파악", "Google OAuth strategy 추가", "GitHub OAuth callback 구현", "통합 테스트 통과 확인"];

fn update(action: &str, more: Value) -> Value {
    let mut args = json!({ "action": action });
    args.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    args
}

/// `s1x s2>`: every step with its marker.
fn steps(host: &TestHost, id: &str) -> String {
    let marker = |step: &Value| match step["status"].as_str() {
        Some("done") => "x",
        Some("in_progress") => ">",
        Some("skipped") => "-",
        _ => " ",
    };
    let task = host.task(id);
    let steps = task["steps"].as_array().expect("steps").iter();
    steps.map(|step| format!("{}{}", step["id"].as_str().expect("an id"), marker(step))).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_task_goes_from_start_over_its_steps_to_the_history() {
    let host = TestHost::start();
    let started = host.done("eden", "task_start", json!({ "description": "OAuth 로그인 구현", "priority": "high" }));
    let id = started["taskId"].as_str().expect("an id").to_owned();
    assert_eq!((&started["status"], started.get("stepsProgress")), (&json!("in_progress"), None));
    let set: Vec<Value> = STEPS.iter().map(|content| json!({ "content": content })).collect();
    let set = host.done("eden", "task_update", update("set_steps", json!({ "steps": set })));
    assert_eq!(set["stepsProgress"], json!({ "total": 4, "done": 0, "inProgress": 1, "pending": 3, "skipped": 0 }));
    let done = host.done("eden", "task_update", update("complete_step", json!({ "step_id": "s1" })));
    assert_eq!(done["currentStep"], json!({ "id": "s2", "content": STEPS[1] }));
    host.done("eden", "task_update", update("add_step", json!({ "step_content": "Token refresh 로직 추가" })));
    host.done("eden", "task_update", update("reorder_steps", json!({ "steps_order": ["s1", "s2", "s5", "s3", "s4"] })));
    assert_eq!(steps(&host, &id), "s1x s2> s5  s3  s4 ");
    host.done("eden", "task_update", update("start_step", json!({ "step_id": "s3" })));
    host.done("eden", "task_update", update("skip_step", json!({ "step_id": "s5", "progress": "2차에서 진행" })));
    host.done("eden", "task_update", json!({ "progress": "자유 형식 로그" }));
    assert_eq!(steps(&host, &id), "s1x s2  s5- s3> s4 ");
    let text = host.dir.task_text("eden", &id);
    let expected = [
        "## Steps\n\n- [x] (s1) 기존 auth 구조 파악\n- [ ] (s2) Google OAuth strategy 추가\n- [-] (s5) Token refresh 로직 추가\n- [>] (s3) GitHub",
        "- Task started\n- [s1] 기존 auth 구조 파악 — 완료\n- [s3] GitHub OAuth callback 구현 — 시작\n- [s5] 2차에서 진행\n- 자유 형식 로그\n",
        "- **Status:** in_progress\n- **Priority:** high\n",
    ];
    for part in expected {
        assert!(text.contains(part), "{part} in {text}");
    }
    eventually("the current task is mirrored", || {
        let current = fs::read_to_string(host.dir.state.path().join("workspace-eden/CURRENT_TASK.md")).expect("there");
        (current.starts_with("<!-- Made from tasks/") && current.ends_with(&text)).then_some(())
    });
    for step in ["s3", "s4", "s2"] {
        host.done("eden", "task_update", update("complete_step", json!({ "step_id": step })));
    }
    let completed = host.done("eden", "task_complete", json!({ "summary": "OAuth 로그인 구현 완료" }));
    assert_eq!(completed["status"], "completed");
    assert!(!host.dir.task_file("eden", &id).exists());
    let over = host.task(&id);
    assert_eq!((&over["status"], &over["outcome"]["summary"]), (&json!("completed"), &json!("OAuth 로그인 구현 완료")));
    assert_eq!(over["stepsProgress"]["done"], 4);
    let month = host.dir.state.path().join("workspace-eden/task-history/2023-11.md");
    assert!(fs::read_to_string(month).expect("archived").contains(&format!("# Task: {id}\n")));
    let (_, history) = host.get("/api/agents/eden/history");
    assert_eq!(history["tasks"][0]["id"], json!(id));
    let kinds: Vec<Value> = host
        .events()
        .iter()
        .filter(|event| event["data"]["taskId"] == json!(id))
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&json!("task.started")), Some(&json!("task.completed"))));
    let step = host.events().into_iter().find(|event| event["data"]["action"] == "complete_step").expect("told");
    assert_eq!((&step["data"]["stepId"], &step["data"]["stepsProgress"]["done"]), (&json!("s1"), &json!(1)));
    assert_eq!(step["data"]["eventRole"], "orchestration.task");
    assert_eq!(
        host.refused("eden", "task_complete", json!({})),
        "no task is in progress; begin one with task_start, or name one by task_id"
    );
}

#[test]
fn completion_is_blocked_while_steps_are_open_exactly_as_documented() {
    let host = TestHost::start();
    let id = host.begin("eden", &STEPS);
    host.done("eden", "task_update", update("complete_step", json!({})));
    let blocked = host.tool("eden", "task_complete", json!({ "summary": "계획 정리 완료" }));
    let step = |n: usize, status: &str| json!({ "id": format!("s{n}"), "content": STEPS[n - 1], "status": status });
    let expected = json!({
        "success": false,
        "blocked_by": "stop_guard",
        "error": "Cannot complete task: 3 steps still incomplete",
        "remaining_steps": [step(2, "in_progress"), step(3, "pending"), step(4, "pending")],
        "instructions": [
            "Complete remaining steps: task_update(action: 'complete_step', step_id: 'sN')",
            "Or skip them: task_update(action: 'skip_step', step_id: 'sN')",
            "Or force complete: task_complete(force_complete: 'true')",
        ],
    });
    assert_eq!(blocked, expected);
    let progress = host.task(&id)["progress"].clone();
    let last = progress.as_array().and_then(|lines| lines.last()).cloned();
    assert_eq!(last, Some(json!("⚠ task_complete blocked by Stop Guard: 3 steps remaining")));
    let told = host.told("continuation.stop_guard_blocked").pop().expect("told");
    assert_eq!((&told["taskId"], &told["remainingSteps"]), (&json!(id), &json!(3)));
    for word in [json!("true"), json!(true)] {
        let answer = host.done("eden", "task_complete", json!({ "force_complete": word }));
        assert_eq!((&answer["status"], answer["warning"].is_string()), (&json!("completed"), true));
        let over = host.task(answer["taskId"].as_str().expect("an id"));
        let lines = over["progress"].as_array().expect("lines").clone();
        assert!(lines.contains(&json!("⚠ Force completed with 3 steps remaining: s2, s3, s4")), "{lines:?}");
        host.begin("eden", &STEPS);
        host.done("eden", "task_update", update("complete_step", json!({})));
    }
}

#[test]
fn every_tool_call_passes_the_guards_in_order_and_rewritten_arguments_are_checked_again() {
    let source = path_of(&guest("unruly-guard"));
    let host = TestHost::start_with(|config| {
        config["plugins"]["guards"] = json!([
            { "name": "first", "source": source, "config": { "do": "warn", "mark": "first" } },
            { "name": "second", "source": source, "config": {} },
        ]);
    });
    host.block_on(host.plugins().loaded());
    let answer = host.done("eden", "task_start", json!({ "description": "x" }));
    assert_eq!(answer["warning"], "first warns");
    host.load("guard:second", &source, json!({ "do": "block" })).expect("loaded");
    let blocked = host.tool("eden", "todo_add", json!({ "title": "x" }));
    assert_eq!((&blocked["blocked_by"], &blocked["success"]), (&json!("second"), &json!(false)));
    // A guard that adds what no tool takes has failed, and a failed guard blocks.
    host.load("guard:second", &source, json!({ "do": "mark", "mark": "x" })).expect("loaded");
    let blocked = host.tool("eden", "todo_add", json!({ "title": "x" }));
    assert_eq!(blocked["blocked_by"], "second", "{blocked}");
    assert_eq!(host.get("/api/todos").1, json!({ "todos": [] }));
}

#[test]
fn one_task_is_in_progress_and_the_next_starts_when_it_ends() {
    let host = TestHost::start();
    let first = host.begin("eden", &[]);
    let second = host.done("eden", "task_start", json!({ "description": "둘째" }));
    assert_eq!(second["status"], "pending");
    assert!(second["message"].as_str().is_some_and(|said| said.contains(&first)), "{second}");
    let backlog = host.done("eden", "task_backlog_add", json!({ "description": "나중", "priority": "low" }));
    let completed = host.done("eden", "task_complete", json!({}));
    assert_eq!(completed["nextTaskId"], second["taskId"]);
    assert_eq!(host.get("/api/agents/eden/current").1["task"]["id"], second["taskId"]);
    let cancelled = host.done("eden", "task_cancel", json!({ "reason": "필요 없음" }));
    assert_eq!(cancelled["nextTaskId"], backlog["taskId"]);
    assert_eq!(
        host.task(second["taskId"].as_str().expect("an id"))["outcome"],
        json!({ "kind": "cancelled", "reason": "필요 없음" })
    );
    let types: Vec<String> =
        host.events().iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect();
    assert!(types.contains(&"task.backlog_picked".to_owned()), "{types:?}");
}

#[test]
fn a_task_waits_for_those_of_others_and_starts_when_they_are_completed() {
    let host = TestHost::start();
    let first = host.begin("seum", &[]);
    let waiting = host.done("eden", "task_start", json!({ "description": "뒤에", "depends_on": [first] }));
    assert_eq!(waiting["status"], "pending");
    let id = waiting["taskId"].as_str().expect("an id").to_owned();
    assert!(host.refused("eden", "task_resume", json!({ "task_id": id })).contains(&format!("waits for {first}")));
    host.done("seum", "task_complete", json!({}));
    assert_eq!(host.task(&id)["status"], "in_progress");
    let over = host.done("eden", "task_backlog_add", json!({ "description": "x", "depends_on": [first] }));
    assert_eq!(over["status"], "backlog");
    let unknown = host.refused("eden", "task_start", json!({ "description": "x", "depends_on": ["task_nowhere"] }));
    assert_eq!(unknown, "depends_on: there is no task task_nowhere");
}

#[test]
fn blocking_resuming_approving_and_picking_change_the_file_and_are_told() {
    let host = TestHost::start();
    let id = host.begin("eden", &["a"]);
    let args =
        json!({ "reason": "키가\n없음", "kind": "external", "unblocked_by": ["seum"], "unblock_action": "키 발급" });
    host.done("eden", "task_block", args);
    let (_, blocked) = host.get("/api/agents/eden/blocked");
    let task = &blocked["tasks"][0];
    assert_eq!((&task["blockedReason"], &task["blockedKind"]), (&json!("키가 없음"), &json!("external")));
    assert_eq!((&task["unblockedBy"], &task["unblockedAction"]), (&json!(["seum"]), &json!("키 발급")));
    assert_eq!((&task["unblockRequestCount"], &task["escalationState"]), (&json!(0), &json!("none")));
    host.done("eden", "task_resume", json!({ "progress": "키 받음" }));
    assert_eq!(host.task(&id).get("blockedReason"), None);
    assert!(host.dir.task_text("eden", &id).contains("- Task resumed: 키 받음\n"));
    let asked = host.done("eden", "task_start", json!({ "description": "배포", "requires_approval": true }));
    assert_eq!(asked["status"], "pending_approval");
    let approved = host.done("seum", "task_approve", json!({ "task_id": asked["taskId"] }));
    assert_eq!(approved["status"], "pending");
    let types: Vec<Value> = host.events().iter().map(|event| event["type"].clone()).collect();
    for kind in ["task.blocked", "task.resumed", "task.approved"] {
        assert!(types.contains(&json!(kind)), "{kind}");
    }
    assert!(host.refused("eden", "task_backlog_pick", json!({})).contains("the backlog is empty"));
}

#[test]
fn a_work_session_is_explicit_or_new_and_an_archived_one_is_followed_by_another() {
    let host = TestHost::start();
    let first = host.begin("eden", &[]);
    let session = host.task(&first)["workSessionId"].as_str().expect("a session").to_owned();
    assert!(session.starts_with("ws_"));
    host.done("eden", "task_complete", json!({}));
    let named = host.done("eden", "task_start", json!({ "description": "이어서", "work_session_id": session }));
    assert_eq!(host.task(named["taskId"].as_str().expect("an id"))["workSessionId"], json!(session));
    let other = host.done("eden", "task_start", json!({ "description": "다른 일" }));
    assert_ne!(host.task(other["taskId"].as_str().expect("an id"))["workSessionId"], json!(session));
    for _ in 0..2 {
        host.done("eden", "task_cancel", json!({}));
    }
    host.clock.advance(std::time::Duration::from_secs(60 * 60 * 24 * 3));
    host.eventually("the session is archived", || {
        let (status, found) = host.get(&format!("/api/work-sessions/{session}"));
        (status == 200 && found["status"] == "ARCHIVED").then_some(())
    });
    let after = host.done("eden", "task_start", json!({ "description": "다시", "work_session_id": session }));
    let task = host.task(after["taskId"].as_str().expect("an id"));
    assert_ne!(task["workSessionId"], json!(session));
    assert_eq!(task["previousWorkSessionId"], json!(session));
}

#[test]
fn plans_are_handed_in_and_decided_once() {
    let host = TestHost::start();
    let id = host.begin("eden", &[]);
    let plan = host.done("eden", "plan_submit", json!({ "body": "1. 조사\n2. 구현" }))["planId"]
        .as_str()
        .expect("an id")
        .to_owned();
    let shown = |host: &TestHost| host.get("/api/agents/eden/plans").1["plans"][0].clone();
    assert_eq!((&shown(&host)["taskId"], &shown(&host)["status"]), (&json!(id), &json!("submitted")));
    host.done("seum", "plan_reject", json!({ "plan_id": plan, "reason": "순서가 다름" }));
    assert_eq!(shown(&host)["status"], "rejected");
    assert!(host.refused("seum", "plan_approve", json!({ "plan_id": plan })).contains("is rejected already"));
    assert!(host.refused("seum", "plan_approve", json!({ "plan_id": "plan_../x" })).contains("there is no plan"));
    let types: Vec<Value> = host.events().iter().map(|event| event["type"].clone()).collect();
    assert!(types.contains(&json!("plan.submitted")) && types.contains(&json!("plan.rejected")));
}

#[test]
fn a_completed_task_marks_its_milestone_item_at_once_or_at_a_later_try() {
    let host = TestHost::start();
    let milestone = host.done("eden", "milestone_create", json!({ "title": "1차 출시" }))["milestone"]["id"].clone();
    let item = |title: &str| {
        host.done("eden", "milestone_item_add", json!({ "milestone_id": milestone, "title": title }))["item"]["id"]
            .clone()
    };
    let (first, second) = (item("로그인"), item("결제"));
    let status = |item: &Value| {
        let (_, all) = host.get("/api/milestones");
        let items = all["milestones"][0]["items"].as_array().expect("items").clone();
        items.into_iter().find(|known| known["id"] == *item).map(|known| known["status"].clone())
    };
    host.done("eden", "task_start", json!({ "description": "로그인", "milestone_item_id": first }));
    host.done("eden", "task_complete", json!({}));
    assert_eq!(status(&first), Some(json!("done")));
    host.done("eden", "task_start", json!({ "description": "결제", "milestone_item_id": second }));
    let path = host.dir.state.milestones();
    let good = fs::read_to_string(&path).expect("written");
    fs::write(&path, "{ not json").expect("broken");
    host.done("eden", "task_complete", json!({}));
    let told = host.told("milestone.sync_failed").pop().expect("told");
    assert!(told["error"].as_str().is_some_and(|said| said.contains("milestones.json")), "{told}");
    let dir = host.stop();
    fs::write(&path, good).expect("mended");
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.eventually("the item is marked after all", || {
        let (_, all) = host.get("/api/milestones");
        (all["milestones"][0]["items"][1]["status"] == "done").then_some(())
    });
}

#[test]
fn todos_and_milestones_keep_what_others_wrote_into_their_files() {
    let host = TestHost::start();
    let path = host.dir.state.todos();
    fs::write(&path, r#"{"todos":[{"id":"t1","title":"old","colour":"red"}],"version":3}"#).expect("written");
    host.done("eden", "todo_set", json!({ "todo_id": "t1", "status": "done" }));
    host.done("eden", "todo_add", json!({ "title": "new" }));
    let kept: Value = serde_json::from_str(&fs::read_to_string(&path).expect("there")).expect("JSON");
    assert_eq!(
        (&kept["version"], &kept["todos"][0]["colour"], &kept["todos"][0]["status"]),
        (&json!(3), &json!("red"), &json!("done"))
    );
    assert_eq!(host.tool("eden", "todo_list", json!({}))["todos"].as_array().map(Vec::len), Some(2));
    assert!(
        host.refused("eden", "todo_set", json!({ "todo_id": "t9", "status": "done" })).contains("there is no todo t9")
    );
}

#[test]
fn nobody_approves_their_own_but_another_agent_or_a_person_does() {
    let script = r#"{ rules: [
        { agent: "eden", when: "plan it", steps: [
            { call: { tool: "plan_submit", args: { body: "first this, then that" } } },
            { call: { tool: "plan_approve", args: { plan_id: "{{result.planId}}" } } },
            { call: { tool: "plan_reject", args: { plan_id: "{{result.planId}}", reason: "x" } } },
            { say: "{{result.planId}}" } ] },
        { agent: "eden", when: "begin", steps: [
            { call: { tool: "task_start", args: { description: "risky", requires_approval: true } } },
            { call: { tool: "task_approve", args: { task_id: "{{result.taskId}}" } } },
            { say: "{{result.taskId}}" } ] },
        { agent: "ruda", when: "task_", steps: [
            { call: { tool: "task_approve", args: { task_id: "{{input}}" } } }, { say: "done" } ] },
      ], otherwise: "ok" }"#;
    let host = TestHost::scripted(script);
    let refusals = || {
        let rows = host.history("eden");
        let results = rows.iter().filter(|row| row["role"] == "toolResult").map(chela::sessions::text_of);
        results.filter(|text| text.contains("nobody approves or rejects their own work")).count()
    };
    let said = |ended: &Value| ended["terminalReply"]["text"].as_str().expect("a reply").to_owned();
    let plan = said(&host.ask("eden", "plan it"));
    assert_eq!(refusals(), 2);
    host.done("eden", "plan_approve", json!({ "plan_id": plan }));
    let task = said(&host.ask("eden", "begin"));
    assert_eq!((refusals(), &host.task(&task)["status"]), (3, &json!("pending_approval")));
    host.ask("ruda", &task);
    assert_eq!(host.task(&task)["status"], "in_progress", "another agent's word counts");
}
