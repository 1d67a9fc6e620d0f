//! What a gateway stands on is taken away while it serves: file handles, a directory that can be written, the time of day. What is open
//! goes on, what cannot be kept is refused by name, nothing that was accepted is lost, and no restart is needed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use support::{Binary, RawHttp, TestDir, TestHost, chela_command, eventually, have};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// How many files a process may have open, as it is now; `set` changes that.
fn open_files(pid: u32, set: Option<&str>) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it lives");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("such a limit");
    let before = line.split_whitespace().nth(3).expect("a soft limit").to_owned();
    if let Some(set) = set {
        let done = Command::new("prlimit").arg(format!("--nofile={set}:")).args(["--pid", &pid.to_string()]).status();
        assert!(done.expect("prlimit runs").success());
    }
    before
}

#[test]
fn without_file_handles_what_is_open_goes_on_and_the_rest_waits_until_there_are_some() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = serving.client(&dir.token());
    let mut socket = runtime.block_on(client.open()).expect("connected");
    let mut ask = |method: &str, params: Value| runtime.block_on(socket.request(method, params));
    let backlog = |key: &str| {
        json!({
            "name": "task_backlog_add", "args": { "description": format!("task {key}") }, "sessionKey": "agent:eden:main",
            "idempotencyKey": key,
        })
    };
    let send = |key: &str| json!({ "sessionKey": "agent:seum:main", "message": "good morning", "idempotencyKey": key });
    ask("tools.invoke", backlog("before")).expect("there are handles");
    ask("chat.send", send("sent-before")).expect("there are handles");

    let before = open_files(serving.pid(), Some("1"));
    ask("health", json!({})).expect("who is connected is answered");
    let accepted: Vec<String> =
        (0..5).map(|nth| format!("sent-{nth}")).filter(|key| ask("chat.send", send(key)).is_ok()).collect();
    let tried = ask("tools.invoke", backlog("without")).map(|answer| answer.to_string());
    let said = tried.unwrap_or_else(|error| error.to_string());
    assert!(said.contains("Too many open files") || said.contains("\"ok\":true"), "by name, or done: {said}");
    let mut waiting = RawHttp::connect(serving.address());
    waiting.send(HEALTH);
    eventually("it is said", || serving.stderr().contains("cannot accept a connection").then_some(()));

    open_files(serving.pid(), Some(&before));
    let answer = waiting.read_to_end();
    assert!(answer.starts_with("HTTP/1.1 200"), "who waited is answered: {answer}");
    for key in accepted.iter().map(String::as_str).chain(["sent-before"]) {
        let ended = eventually("what was accepted has ended", || {
            let answer = ask("agent.wait", json!({ "runId": key, "timeoutMs": 0 })).expect("answered");
            answer.get("endedAt").is_some().then_some(answer)
        });
        assert_eq!(ended["status"], "ok", "{ended}");
    }
    let rows = eventually("the transcript has all of it", || {
        let history = ask("chat.history", json!({ "sessionKey": "agent:seum:main" })).expect("answered");
        let rows = history["messages"].as_array().map(Vec::len)?;
        (rows >= 2 * (accepted.len() + 1)).then_some(rows)
    });
    assert_eq!(rows, 2 * (accepted.len() + 1), "each once");
    for key in ["before", "without", "after"] {
        ask("tools.invoke", backlog(key)).expect("there are handles again");
    }
    let tasks = runtime.block_on(client.get("/api/tasks?limit=500")).expect("answered").json();
    assert_eq!(tasks["tasks"].as_array().map(Vec::len), Some(3), "each once: {tasks}");
    runtime.block_on(socket.close());
    let ended = serving.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("cannot accept a connection").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("connections are accepted again"), "{}", ended.stderr);
}

/// Everything below a directory, itself included.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let mut next = 0;
    while let Some(folder) = found.get(next).cloned() {
        next += 1;
        if folder.is_dir() {
            let entries = fs::read_dir(&folder).expect("readable");
            found.extend(entries.map(|entry| entry.expect("an entry").path()).filter(|path| !path.is_symlink()));
        }
    }
    found
}

/// The gateway as somebody to whom rights mean something: root is above them.
fn serve_as_nobody(dir: &TestDir) -> Binary {
    const NOBODY: u32 = 65534;
    let mut command = chela_command(&dir.state);
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(dir.scratch(), fs::Permissions::from_mode(0o755)).expect("ours");
        let (program, copy) = (PathBuf::from(command.get_program()), dir.scratch().join("chela"));
        // By another process: a child of some other test could hold the copy open for writing, and then it cannot be run.
        assert!(Command::new("cp").arg(program).arg(&copy).status().expect("cp runs").success());
        below(dir.state.path()).iter().for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)).expect("given away"));
        command = Command::new(copy);
        command.env("CHELA_STATE_DIR", dir.state.path()).uid(NOBODY).gid(NOBODY);
    }
    command.arg("serve");
    let mut serving = Binary::spawn_command(dir, command);
    serving.wait_until_ready();
    serving
}

#[test]
fn a_directory_that_becomes_read_only_refuses_what_it_cannot_keep_until_it_can_be_written_again() {
    let dir = TestDir::with_config(|_| {});
    let serving = serve_as_nobody(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = serving.client(&dir.token());
    let tool = |tool: &str, args: Value, key: &str| {
        let body = json!({ "tool": tool, "args": args, "sessionKey": "agent:eden", "idempotencyKey": key });
        let answer = runtime.block_on(client.invoke_tool(&body));
        answer.map_err(|error| error.to_string()).and_then(|answer| match answer["success"] == json!(true) {
            true => Ok(answer),
            false => Err(answer.to_string()),
        })
    };
    let steps = json!({ "description": "OAuth", "steps": [{ "content": "look" }, { "content": "build" }] });
    let task = tool("task_start", steps, "start").expect("it can be written")["taskId"].clone();
    let done = |key: &str| tool("task_update", json!({ "task_id": task, "action": "complete_step" }), key);
    let send = |key: &str| {
        let params = json!({ "sessionKey": "agent:seum:main", "message": "good morning", "idempotencyKey": key });
        runtime.block_on(client.call("chat.send", params))
    };
    send("sent-before").expect("it can be written");

    let rights: Vec<(PathBuf, u32)> = below(dir.state.path())
        .into_iter()
        .filter_map(|path| fs::metadata(&path).ok().map(|facts| (path, facts.permissions().mode())))
        .collect();
    let set = |mask: u32| {
        for (path, mode) in &rights {
            // What the gateway itself has replaced meanwhile is none of ours.
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode & mask));
        }
    };
    set(!0o222);
    let refused = done("while-read-only").expect_err("it cannot be written");
    assert!(refused.contains("read-only") || refused.contains("Permission denied"), "by name: {refused}");
    let accepted: Vec<String> = (0..3).map(|nth| format!("sent-{nth}")).filter(|key| send(key).is_ok()).collect();
    let shown = runtime.block_on(client.get("/api/tasks?limit=5")).expect("reads are answered").json();
    assert_eq!(shown["tasks"][0]["stepsProgress"]["done"], 0, "nothing half done: {shown}");
    assert_eq!(runtime.block_on(client.get("/healthz")).expect("an answer").status, 200, "it lives");

    set(!0);
    done("while-read-only").expect("the same call again, now that it can be written");
    let shown = runtime.block_on(client.get("/api/tasks?limit=5")).expect("reads are answered").json();
    assert_eq!(shown["tasks"][0]["stepsProgress"]["done"], 1, "once: {shown}");
    for key in accepted.iter().map(String::as_str).chain(["sent-before"]) {
        let ended = eventually("what was accepted has ended", || {
            let asked = json!({ "runId": key, "timeoutMs": 0 });
            let answer = runtime.block_on(client.call("agent.wait", asked)).expect("answered");
            answer.get("endedAt").is_some().then_some(answer)
        });
        assert_eq!(ended["status"], "ok", "{ended}");
    }
    let ended = serving.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_start_on_a_file_system_that_is_read_only_names_it() {
    if !have("mounts") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let plain = chela_command(&dir.state);
    let script = format!(
        "mount --bind '{0}' '{0}' && mount -o remount,bind,ro '{0}' && exec '{1}' serve",
        dir.state.path().display(),
        plain.get_program().to_string_lossy(),
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]);
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = Binary::spawn_command(&dir, command).finished();
    assert_eq!(ended.code, Some(73), "{}", ended.stderr);
    assert!(ended.stderr.contains("Read-only file system"), "{}", ended.stderr);
    assert!(ended.stderr.contains(&dir.state.path().display().to_string()), "{}", ended.stderr);
}

/// Has every call of this kind fail so on this file from now on, until the process or what is given back ends.
fn failing(pid: u32, file: &Path, call: &str, error: &str) -> std::process::Child {
    let (traced, injected) = (format!("trace={call}"), format!("inject={call}:error={error}"));
    let mut failing = Command::new("strace");
    failing.args(["-f", "-qq", "-o", "/dev/null", "-e", &traced, "-e", &injected]);
    failing.arg("-P").arg(file.canonicalize().expect("a file")).args(["-p", &pid.to_string()]);
    let failing = failing.spawn().expect("strace runs");
    eventually("every thread is watched", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
        let watched = |thread: fs::DirEntry| {
            // A thread that has just ended needs none.
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            !status.contains("TracerPid:\t0")
        };
        threads.flatten().all(watched).then_some(())
    });
    failing
}

#[test]
fn a_journal_that_cannot_be_flushed_ends_the_gateway_which_goes_on_from_what_is_durable() {
    if !have("strace") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let mut serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut socket = runtime.block_on(serving.client(&dir.token()).open()).expect("connected");
    let backlog = |key: &str| {
        json!({
            "name": "task_backlog_add", "args": { "description": format!("task {key}") }, "sessionKey": "agent:eden:main",
            "idempotencyKey": key,
        })
    };
    runtime.block_on(socket.request("tools.invoke", backlog("before"))).expect("the disk is well");
    // Holds the end up, so that there is time to look.
    let under_way = RawHttp::begin(serving.address(), &dir.token(), 100);
    let journal = dir.state.journal().join("state.00000001.ndjson");
    let mut failing = failing(serving.pid(), &journal, "fdatasync", "EIO");
    let told = match runtime.block_on(socket.request("tools.invoke", backlog("while-failing"))) {
        Ok(answer) => answer.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(told.contains("could not be flushed"), "whoever asked is told: {told}");
    let health = runtime.block_on(socket.request("health", json!({}))).expect("who is connected is answered");
    assert!(health["failing"].as_array().is_some_and(|parts| parts.contains(&json!("journal"))), "{health}");
    drop(under_way);
    let ended = serving.finished();
    assert_eq!(ended.code, Some(73), "{}", ended.stderr);
    assert!(ended.stderr.contains("could not be flushed"), "it says why: {}", ended.stderr);
    failing.wait().expect("it ended with the gateway");

    let serving = Binary::serve(&dir);
    let client = serving.client(&dir.token());
    for key in ["before", "while-failing"] {
        runtime.block_on(client.call("tools.invoke", backlog(key))).expect("the disk is well");
    }
    let tasks = runtime.block_on(client.get("/api/tasks?limit=500")).expect("answered").json();
    assert_eq!(tasks["tasks"].as_array().map(Vec::len), Some(2), "each once: {tasks}");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn a_disk_that_takes_no_line_of_a_change_makes_the_gateway_unready_until_it_does() {
    if !have("strace") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = serving.client(&dir.token());
    let reload = || runtime.block_on(client.call("config.reload", json!({})));
    let ready = || {
        let answer = runtime.block_on(client.get("/readyz")).expect("answered");
        (answer.status, answer.json()["failing"].clone())
    };
    reload().expect("the disk is well");
    let mut failing = failing(serving.pid(), &dir.state.audit_log(), "write", "EROFS");
    for _ in 0..2 {
        reload().expect_err("nothing is changed without its line");
    }
    assert_eq!(ready(), (503, json!(["audit-log"])));
    let strace = rustix::process::Pid::from_child(&failing);
    rustix::process::kill_process(strace, rustix::process::Signal::TERM).expect("ours");
    failing.wait().expect("it ends");
    eventually("it is ready by itself", || (ready() == (200, json!([]))).then_some(()));
    reload().expect("the disk is well again");
    let audit = fs::read_to_string(dir.state.audit_log()).expect("an audit log");
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 5, "{audit}");
    assert_eq!((&lines[2]["refused"], &lines[2]["outcomes"]), (&json!(2), &json!(0)), "{audit}");
    assert!(lines[2]["missingSince"].as_u64() <= lines[2]["ts"].as_u64(), "{audit}");
    assert_eq!(serving.terminate().code, Some(0));
}

const SCRIPT: &str = r#"{ rules: [
    { when: "build it", steps: [
        { call: { tool: "task_start", args: { description: "OAuth" } } }, { say: "begun" } ] },
  ], otherwise: "ok" }"#;

#[test]
fn a_clock_that_is_set_by_a_day_ends_no_wait_and_gives_no_task_up() {
    const DAY: i64 = 86_400_000;
    let host = TestHost::driven(SCRIPT, |_| {});
    host.say("eden", "build it");
    let task = eventually("the task is there", || host.active("eden"));
    // The news of the run's end may be on its way: only then is it known what comes next.
    host.let_be("eden");
    for (nth, set) in [DAY, -2 * DAY, DAY].into_iter().enumerate() {
        let planned = |host: &TestHost| {
            eventually("it is looked at again", || {
                host.kept("eden")["next"]["at"].as_u64().map(|at| at - host.clock.now().0)
            })
        };
        let before = planned(&host);
        host.clock.set_by(set);
        assert_eq!(planned(&host), before, "set by {set}, it waits as long as before");
        assert_eq!(host.say("seum", "good morning")["status"], "ok", "set by {set}, who writes is answered");
        eventually("it is asked how it goes on", || {
            host.turn("eden");
            (host.prompts("eden").len() > nth).then_some(())
        });
    }
    let course = host.course();
    assert!(!course.iter().any(|kind| kind.starts_with("zombie.") || kind == "task.abandoned"), "{course:?}");
    assert_eq!(host.standing(&task).0, "in_progress");
    eventually("all events are shown", || {
        let shown = host.get("/api/events?limit=500").1["events"].as_array().map(Vec::len);
        (shown == Some(host.events().len())).then_some(())
    });
    // Nor does a restart at the new time hold anything up.
    host.clock.set_by(-DAY);
    let at = host.clock.now().0;
    let host = TestHost::start_at(host.stop(), at).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.block_on(host.plugins().loaded());
    let count = host.prompts("eden").len();
    eventually("it is asked how it goes on", || {
        host.turn("eden");
        (host.prompts("eden").len() > count).then_some(())
    });
}
