//! Tasks of a real gateway that is killed at any moment, that runs out of disk, and that is followed while it works.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::{Binary, TestDir, TestHost, WebSocket, chela_command, eventually, have};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn call(tool: &str, args: &Value) -> Value {
    json!({ "tool": tool, "args": args, "sessionKey": "agent:eden" })
}

#[test]
fn what_was_acknowledged_is_there_once_after_a_kill() {
    let dir = TestDir::with_config(|_| {});
    let token = dir.token();
    let runtime = runtime();
    let mut id = String::new();
    let mut lines: Vec<String> = Vec::new();
    for life in 0..6_u64 {
        let serving = Binary::serve(&dir);
        let client = serving.client(&token);
        if life == 0 {
            let started =
                runtime.block_on(client.invoke_tool(&call("task_start", &json!({ "description": "죽어도 남는 일" }))));
            id = started.expect("started")["taskId"].as_str().expect("an id").to_owned();
        }
        let (over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        let told = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let runtime = self::runtime();
                let mut told = Vec::new();
                for n in 0.. {
                    let line = format!("life {life} line {n}");
                    let args = json!({ "task_id": id, "progress": line });
                    match runtime.block_on(client.invoke_tool(&call("task_update", &args))) {
                        Ok(answer) => {
                            assert_eq!(answer["success"], true, "{answer}");
                            told.push(line);
                            count.store(told.len(), Ordering::Relaxed);
                        }
                        Err(_) => break,
                    }
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                told
            });
            std::thread::sleep(Duration::from_millis(60 + life * 37));
            // Few come in that time where the disk is slow.
            eventually("something is acknowledged", || {
                (count.load(Ordering::Relaxed) >= 4 || writer.is_finished()).then_some(())
            });
            serving.kill();
            over.store(true, Ordering::Relaxed);
            writer.join().expect("the writer ends")
        });
        lines.extend(told);
    }
    assert!(lines.len() > 20, "{} lines", lines.len());
    let serving = Binary::serve(&dir);
    let task = runtime.block_on(serving.client(&token).get(&format!("/api/tasks/{id}"))).expect("an answer").json();
    let progress: Vec<&str> = task["progress"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    let text = dir.task_text("eden", &id);
    for line in &lines {
        assert_eq!(progress.iter().filter(|known| *known == line).count(), 1, "{line}");
        assert!(text.contains(&format!("\n- {line}\n")), "{line} is in the file");
    }
    // At most the one line of each life that was never answered.
    assert!(progress.len() <= lines.len() + 1 + 6, "{} lines for {} answers", progress.len(), lines.len());
    let told = eventually("every change is told", || {
        let path = format!("/api/events?taskId={id}&type=task.updated&limit=500");
        let page = runtime.block_on(serving.client(&token).get(&path)).expect("an answer").json();
        let events = page["events"].as_array()?.clone();
        (events.len() >= lines.len().min(500)).then_some(events)
    });
    let mut ids: Vec<&Value> = told.iter().map(|event| &event["id"]).collect();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "each once");
    serving.terminate();
}

#[test]
fn a_full_disk_is_refused_with_nothing_half_written_and_work_goes_on_when_there_is_room() {
    if !have("mounts") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let token = dir.token();
    let workspace = dir.state.path().join("workspace-eden");
    fs::create_dir_all(&workspace).expect("made");
    let plain = chela_command(&dir.state);
    let script = format!(
        "mount -t tmpfs -o size=128k tmpfs '{0}' && mkdir '{0}/tasks' && {{ head -c 1000000 /dev/zero > '{0}/filler' 2>/dev/null; exec '{1}' serve --state-dir '{2}' --gateway 0 --monitor 0 --hub 0; }}",
        workspace.display(),
        plain.get_program().to_string_lossy(),
        dir.state.path().display(),
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]);
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut serving = Binary::spawn_command(&dir, command);
    serving.wait_until_ready();
    let runtime = runtime();
    let start = || {
        let body = call("task_start", &json!({ "description": "자리가 없는 일" })).to_string().into_bytes();
        let answer =
            runtime.block_on(serving.client(&token).send("POST".parse().expect("a verb"), "/tools/invoke", &[], body));
        answer.expect("an answer")
    };
    let list = || runtime.block_on(serving.client(&token).get("/api/agents/eden/tasks")).expect("an answer").json();
    let refused = start();
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (500, &json!("tool_error")), "{}", refused.json());
    let said = refused.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert!(said.contains("No space left on device") && said.contains("nothing was changed"), "{said}");
    assert_eq!(list()["tasks"], json!([]));
    // The mount is the gateway's own; this is the way in.
    let inside = format!("/proc/{}/root{}", serving.pid(), workspace.display());
    assert_eq!(fs::read_dir(format!("{inside}/tasks")).expect("readable").count(), 0, "nothing is left half-written");
    fs::remove_file(format!("{inside}/filler")).expect("room is made");
    let started = start();
    assert_eq!(started.json()["result"]["details"]["status"], "in_progress", "{}", started.json());
    assert_eq!(list()["tasks"].as_array().map(Vec::len), Some(1));
    serving.kill();
}

#[test]
fn followers_are_told_of_steps_and_of_blocked_completions() {
    let host = TestHost::start();
    host.get("/api/stats");
    let address = host.address(chela::port::Port::Monitor);
    let bearer = format!("Bearer {}", host.token);
    let mut socket =
        host.block_on(WebSocket::connect(address, "/ws", &[("authorization", &bearer)])).expect("a socket");
    let id = host.begin("eden", &["하나", "둘"]);
    host.done("eden", "task_update", json!({ "action": "complete_step" }));
    assert_eq!(host.tool("eden", "task_complete", json!({}))["success"], false);
    let mut seen: Vec<Value> = Vec::new();
    let next = |socket: &mut WebSocket, kind: &str, seen: &mut Vec<Value>| loop {
        let envelope = host.block_on(async { tokio::time::timeout(Duration::from_secs(120), socket.next()).await });
        let envelope = envelope.unwrap_or_else(|_| panic!("no {kind} among {seen:?}")).expect("it goes on");
        seen.push(envelope.clone());
        if envelope["type"] == kind {
            break envelope;
        }
    };
    let step = next(&mut socket, "task_step_update", &mut seen);
    assert_eq!((&step["agentId"], &step["taskId"]), (&json!("eden"), &json!(id)));
    assert_eq!((&step["data"]["event"], &step["data"]["stepId"]), (&json!("step_completed"), &json!("s1")));
    let counts = json!({ "total": 2, "done": 1, "inProgress": 1, "pending": 0, "skipped": 0 });
    assert_eq!(step["data"]["stepsProgress"], counts);
    let blocked = next(&mut socket, "continuation_event", &mut seen);
    assert_eq!(
        (&blocked["data"]["event"], &blocked["data"]["remainingSteps"]),
        (&json!("stop_guard_blocked"), &json!(1))
    );
}

#[test]
fn the_command_line_works_on_tasks_as_people_do() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    let run = |arguments: &[&str]| support::chela(&dir.state, arguments);
    let done = |arguments: &[&str]| {
        let finished = run(arguments);
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        finished.stdout
    };
    let started = run(&[
        "task",
        "start",
        "OAuth 로그인 구현",
        "--agent",
        "eden",
        "--priority",
        "high",
        "--step",
        "조사",
        "--step",
        "구현",
        "--json",
    ]);
    let id = started.json()["taskId"].as_str().expect("an id").to_owned();
    let list = done(&["tasks", "--agent", "eden"]);
    assert!(
        list.contains("in_progress")
            && list.contains("0/2")
            && list.contains("OAuth 로그인 구현")
            && list.contains(&id),
        "{list}"
    );
    assert!(done(&["task", "step", "done", "--agent", "eden"]).contains("next: (s2) 구현"));
    let refused = run(&["task", "complete", "--agent", "eden"]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(
        refused.stderr.contains("Cannot complete task: 1 steps still incomplete")
            && refused.stderr.contains("(s2) 구현"),
        "{}",
        refused.stderr
    );
    done(&["task", "step", "skip", "--why", "다음에", "--agent", "eden"]);
    assert!(done(&["task", "complete", "--summary", "끝", "--agent", "eden"]).contains("completed"));
    let shown = done(&["task", "show", &id]);
    assert!(
        shown.contains("✅ (s1) 조사") && shown.contains("⏭ (s2) 구현") && shown.contains("completed 끝"),
        "{shown}"
    );
    let wrong = run(&["task", "note", "x", "--task", "task_none", "--agent", "eden"]);
    assert_eq!(wrong.code, Some(1), "{wrong:#?}");
    assert!(wrong.stderr.contains("there is no task task_none"), "{}", wrong.stderr);
    let nobody = run(&["task", "show", "--agent", "nobody"]);
    assert_eq!(nobody.code, Some(1), "{nobody:#?}");
    assert!(done(&["task", "tools"]).contains("task_backlog_pick"));
    assert_eq!(run(&["tasks", "--agent", "nobody"]).code, Some(2));
    serving.terminate();
}
