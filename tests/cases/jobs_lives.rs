//! Jobs over their life: restarts, cancels, further tries, sub-agents, files of others, many at once.

mod shell;

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use support::{TestDir, TestHost, eventually};

use super::jobs_flows::told_of;

const SCRIPT: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { when: "sub-agent agent:", steps: [{ say: "heard" }] },
    { when: "slow", steps: [{ say: "late answer", delayMs: 60000 }] },
    { when: "stuck", steps: [{ say: "never", delayMs: 290000 }] },
    { when: "broken", steps: [{ fail: { kind: "context_length", message: "too long", times: 99 } }] },
    { when: "pass it down", steps: [{ call: { tool: "sessions_spawn", args: { task: "delegate it" } } }, { say: "begun" }] },
    { when: "delegate it", steps: [{ call: { tool: "sessions_spawn", args: { task: "count the files", label: "counter" } } }, { say: "begun {{result.error}}" }] },
    { when: "delegate", steps: [{ call: { tool: "sessions_spawn", args: { task: "count the files", label: "counter" } } }, { say: "begun" }] },
    { when: "count", steps: [{ call: { tool: "task_start", args: { description: "x" } } }, { say: "42 {{result.error}}" }] },
  ], otherwise: "did: {{input}}" }"#;

fn quiet(config: &mut Value) {
    config["providers"]["demo"]["retries"] = json!(0);
    // Runs that wait for the clock are not waited for at a stop.
    config["limits"]["drainTimeoutMs"] = json!(0);
    for agent in config["agents"]["list"].as_array_mut().expect("a team") {
        agent["role"] = json!("agent");
    }
}

fn host() -> TestHost {
    TestHost::scripted_with(SCRIPT, quiet)
}

fn restarted(host: TestHost) -> TestHost {
    let now = host.clock.now().0;
    TestHost::start_at(host.stop(), now + 1_000).unwrap_or_else(|(error, _)| panic!("{error}"))
}

fn running(host: &TestHost, id: &str) {
    host.eventually("the job runs", || (host.job(id)["status"] == "RUNNING").then_some(()));
}

#[test]
fn a_job_is_a_file_that_people_read_and_editing_it_changes_nothing() {
    let host = host();
    let id = host.send_job("eden", "seum", "slow");
    running(&host, &id);
    let path = host.dir.state.jobs().join(format!("job-{id}.json"));
    let file =
        eventually("the file is there", || fs::read_to_string(&path).ok().filter(|text| text.contains("RUNNING")));
    let file: Value = serde_json::from_str(&file).expect("JSON");
    for key in [
        "jobId",
        "runId",
        "sessionKey",
        "targetSessionKey",
        "conversationId",
        "message",
        "maxTurns",
        "currentTurn",
        "retryCount",
        "maxRetries",
        "createdAt",
        "updatedAt",
        "resumeCount",
    ] {
        assert!(!file[key].is_null(), "{key}: {file:#}");
    }
    fs::write(&path, "{ nonsense").expect("edited");
    let job = host.job_ended(&id);
    assert_eq!(job["status"], "COMPLETED");
    let done = host.dir.state.jobs().join("done");
    eventually("the file has moved to its day", || {
        let days: Vec<_> = fs::read_dir(&done).into_iter().flatten().flatten().collect();
        (!path.exists() && days.iter().any(|day| day.path().join(format!("job-{id}.json")).exists())).then_some(())
    });
    assert_eq!(host.get(&format!("/api/jobs/{id}")).1["status"], "COMPLETED");
    let host = restarted(host);
    assert_eq!(host.job(&id), job, "it is kept");
}

#[test]
fn jobs_go_on_after_a_restart_and_no_turn_runs_twice() {
    let host = host();
    let id = host.send_job("eden", "seum", "slow");
    let waiting = host.send_job("ruda", "seum", "second");
    running(&host, &id);
    let host = restarted(host);
    let job = host.job_ended(&id);
    assert_eq!((&job["status"], &job["resumeCount"]), (&json!("COMPLETED"), &json!(1)));
    assert_eq!(host.job_ended(&waiting)["status"], "COMPLETED");
    let told = told_of(&host, &id, 6);
    assert_eq!(
        told,
        ["job.created", "a2a.send", "job.resumed", "a2a.response 0 seum", "a2a.complete", "job.completed"]
    );
    let asked: Vec<String> =
        host.history("seum").iter().filter(|row| row["role"] == "user").map(chela::sessions::text_of).collect();
    assert_eq!(asked, ["slow", "second"], "in order, each once");
    let host = restarted(host);
    assert_eq!(host.told_of(&id), told, "and nothing is told again");
}

#[test]
fn a_job_is_cancelled_whether_it_runs_or_waits() {
    let host = host();
    let runs = host.send_job("eden", "seum", "stuck");
    let waits = host.send_job("ruda", "seum", "second");
    running(&host, &runs);
    for id in [&waits, &runs] {
        let cancelled = host.call("jobs.cancel", json!({ "id": id })).expect("cancelled")["job"].clone();
        assert_eq!(
            (&cancelled["status"], &cancelled["lastError"]),
            (&json!("CANCELLED"), &json!("cancelled by owner"))
        );
    }
    assert_eq!(
        host.call("jobs.cancel", json!({ "id": runs })).expect("it is so already")["job"]["status"],
        "CANCELLED"
    );
    let ended = host.ended(&format!("{runs}:0"));
    assert_eq!(ended["error"], "aborted", "the run was stopped: {ended}");
    assert_eq!(host.told_of(&waits), ["job.created", "a2a.send", "a2a.complete", "job.cancelled"]);
    for (id, sender) in [(&waits, "ruda"), (&runs, "eden")] {
        let turn = host.job(id)["turns"][0].clone();
        assert_eq!((&turn["state"], &turn["error"]), (&json!("failed"), &json!("cancelled by owner")));
        let of_turn = |event: &Value| event["type"] == "a2a.delivery" && event["data"]["jobId"] == **id;
        let last = host.events().into_iter().rfind(of_turn).expect("told");
        assert_eq!((&last["data"]["state"], &last["data"]["at"]), (&json!("failed"), &turn["failedAt"]));
        host.eventually("the sender hears of it", || {
            let rows = host.history(sender);
            rows.iter().any(|row| chela::sessions::text_of(row).contains("owner님이 취소함")).then_some(())
        });
    }
    let unknown = host.call("jobs.cancel", json!({ "id": "nobody's" })).expect_err("unknown");
    assert!(unknown["message"].as_str().expect("why").contains("no job has the id"), "{unknown}");
}

#[test]
fn a_job_that_failed_is_taken_up_as_a_new_one() {
    let host = host();
    let id = host.send_job("eden", "seum", "broken");
    let failed = host.job_ended(&id);
    assert_eq!(failed["status"], "FAILED");
    let again = host.call("jobs.retry", json!({ "id": id })).expect("taken up")["job"].clone();
    assert_eq!((&again["retryOf"], &again["conversationId"]), (&json!(id), &failed["conversationId"]));
    let new = again["jobId"].as_str().expect("an id").to_owned();
    assert_eq!(host.job_ended(&new)["status"], "FAILED");
    assert_eq!(host.job(&id), failed, "the old one stays as it was");
    let fine = host.send_job("eden", "seum", "hello");
    host.job_ended(&fine);
    let refused = host.call("jobs.retry", json!({ "id": fine })).expect_err("it went well");
    assert!(refused["message"].as_str().expect("why").contains("is COMPLETED"), "{refused}");
    let listed = host.call("jobs.list", json!({ "status": ["failed"], "limit": 1 })).expect("a list");
    assert_eq!(listed["jobs"][0]["jobId"], new, "the newest first");
    let next = host
        .call("jobs.list", json!({ "status": "FAILED", "limit": 1, "cursor": listed["nextCursor"] }))
        .expect("a list");
    assert_eq!((&next["jobs"][0]["jobId"], &next["nextCursor"]), (&json!(id), &Value::Null));
    let bad = host.call("jobs.list", json!({ "status": "DONE" })).expect_err("no such status");
    assert!(bad["message"].as_str().expect("why").contains("it is one of PENDING"), "{bad}");
}

#[test]
fn a_job_is_taken_up_once_at_a_time_and_once_for_each_key() {
    let host = host();
    let id = host.send_job("eden", "seum", "stuck");
    host.call("jobs.cancel", json!({ "id": id })).expect("cancelled");
    let retry = |params: Value| host.call("jobs.retry", params);
    let keyed = || json!({ "id": id, "idempotencyKey": "again-1" });
    let first = retry(keyed()).expect("taken up")["job"]["jobId"].as_str().expect("an id").to_owned();
    assert_eq!(retry(keyed()).expect("the same")["job"]["jobId"], first);
    let refused = retry(json!({ "id": id })).expect_err("one goes on");
    assert!(refused["message"].as_str().expect("why").contains(&format!("job {first} takes up {id}")), "{refused}");
    host.call("jobs.cancel", json!({ "id": first })).expect("cancelled");
    assert_eq!(retry(keyed()).expect("the same, over or not")["job"]["status"], "CANCELLED");
    let second = retry(json!({ "id": id })).expect("taken up again")["job"]["jobId"].clone();
    assert!(second != *first && second != *id, "{second}");
}

#[test]
fn a_job_that_stands_still_for_too_long_is_given_up() {
    let host = TestHost::scripted_with(SCRIPT, |config| {
        quiet(config);
        config["a2a"]["staleMinutes"] = json!(1);
    });
    let id = host.send_job("eden", "seum", "stuck");
    let waits = host.send_job("ruda", "seum", "slow");
    running(&host, &id);
    host.clock.advance(Duration::from_secs(50));
    host.eventually("house is kept", || (host.clock.now().0 > 1_700_000_055_000).then_some(()));
    assert_eq!(host.job(&id)["status"], "RUNNING", "a minute has not passed");
    let job = host.job_ended(&id);
    assert_eq!((&job["status"], &job["turns"][0]["state"]), (&json!("ABANDONED"), &json!("failed")));
    assert!(job["finishedAt"].as_u64() < Some(1_700_000_290_000), "before its run would have ended: {job}");
    assert_eq!(told_of(&host, &id, 5)[2..], ["a2a.response 0 seum blocked", "a2a.complete", "job.abandoned"]);
    assert_eq!(host.ended(&format!("{id}:0"))["error"], "aborted", "its run was stopped");
    host.eventually("the sender hears of it", || {
        let rows = host.history("eden");
        rows.iter().any(|row| chela::sessions::text_of(row).contains("[NOTIFICATION] seum")).then_some(())
    });
    // Waiting is no fault: it waited as long as the first ran, and its own run is short enough.
    running(&host, &waits);
}

#[test]
fn the_times_of_a_lane_are_in_its_order_however_many_bring_messages() {
    let host = TestHost::scripted_with(SCRIPT, |config| {
        quiet(config);
        config["runs"]["queue"] = json!(2_000);
    });
    let session = chela::session_key::SessionKey::parse("seum").expect("a key");
    let sessions = host.app().sessions().clone();
    let asked = |key: String| chela::sessions::Asked::new(key, "agent", session.clone(), "stuck".into());
    host.block_on(sessions.accept(asked("first".into()))).expect("taken");
    let (clock, over) = (host.clock.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let stop = over.clone();
    let moving = std::thread::spawn(move || {
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            clock.advance(Duration::from_millis(1));
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    let callers: Vec<_> = (0..16)
        .map(|caller| {
            let messages: Vec<_> = (0..80).map(|nth| asked(format!("{caller}-{nth}"))).collect();
            let sessions = sessions.clone();
            host.spawn(async move {
                for message in messages {
                    let receipt = sessions.accept(message).await.expect("taken");
                    assert!(receipt.accepted_at.0 > 0);
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| host.block_on(caller).expect("all are taken"));
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    moving.join().expect("moved");
    let waited: Vec<u64> = sessions.waiting(&session).iter().map(|place| place.waiting_ms).collect();
    assert!(waited.len() > 1_000 && waited.is_sorted_by(|a, b| a >= b), "{waited:?}");
}

#[test]
fn a_sub_agent_s_conversation_is_its_own() {
    let host = host();
    let spawn = |session: &str| {
        let args = json!({ "task": "look", "agentId": "seum", "workSessionId": session });
        let spawned = host.tool("eden", "sessions_spawn", args);
        let id = spawned["runId"].as_str().expect("a job").to_owned();
        host.job_ended(&id)["conversationId"].clone()
    };
    let send = |session: &str| {
        let args = json!({ "agentId": "seum", "message": "hello", "timeoutSeconds": 0, "workSessionId": session });
        let sent = host.tool("eden", "sessions_send", args);
        host.job_ended(sent["runId"].as_str().expect("a job"));
        sent["conversationId"].clone()
    };
    let first = send("ws_one");
    assert_ne!(spawn("ws_one"), first);
    assert_eq!(send("ws_one"), first, "the two agents go on with theirs");
    let apart = spawn("ws_two");
    host.eventually("it is in the index", || {
        let (_, session) = host.get("/api/work-sessions/ws_two");
        let known =
            |thread: &Value| thread["conversationId"] == apart && thread["participants"] == json!(["eden", "seum"]);
        session["threads"].as_array().is_some_and(|threads| threads.iter().any(known)).then_some(())
    });
    assert_ne!(send("ws_two"), apart, "also where the index has nothing else");
}

#[test]
fn of_many_sub_agents_that_are_started_at_once_no_more_work_than_may() {
    let host = host();
    let body = json!({ "tool": "sessions_spawn", "sessionKey": "eden", "args": { "task": "stuck" } });
    let starting: Vec<_> = (0..24)
        .map(|_| {
            let (client, body) = (host.client(chela::port::Port::Gateway), body.clone());
            host.spawn(async move { client.invoke_tool(&body).await.expect("an answer") })
        })
        .collect();
    let answers: Vec<Value> = starting.into_iter().map(|task| host.block_on(task).expect("an answer")).collect();
    let (taken, refused): (Vec<&Value>, Vec<&Value>) =
        answers.iter().partition(|answer| answer["status"] == "accepted");
    assert_eq!((taken.len(), refused.len()), (8, 16), "{answers:?}");
    assert!(refused[0]["error"].as_str().expect("why").contains("a2a.spawn.children"), "{}", refused[0]);
}

#[test]
fn what_a_full_log_did_not_take_is_told_whole_after_a_kill() {
    const LIMIT: usize = 1024 * 1024;
    let dir = TestDir::scripted(SCRIPT, |config| {
        quiet(config);
        config["plugins"] = json!({ "classifier": null, "guards": [], "continuation": null });
    });
    // A log that has room for the start and little more.
    let line = format!("{{\"type\":\"old\",\"data\":\"{}\"}}\n", "x".repeat(500));
    fs::write(dir.state.event_log(), line.repeat((LIMIT - 900) / line.len())).expect("written");
    let mut command = std::process::Command::new("prlimit");
    command.arg(format!("--fsize={LIMIT}:unlimited")).args(["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(support::chela_command(&dir.state).get_program()).args(["serve", "--state-dir"]);
    let mut serving = support::Binary::spawn_command(&dir, {
        command.arg(dir.state.path());
        command
    });
    serving.wait_until_ready();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = serving.client(&dir.token());
    let args = json!({ "agentId": "seum", "message": "hello", "timeoutSeconds": 0 });
    let body = json!({ "tool": "sessions_send", "sessionKey": "eden", "args": args });
    let sent = runtime.block_on(client.invoke_tool(&body)).expect("an answer");
    let id = sent["runId"].as_str().expect("a job").to_owned();
    eventually("it has ended", || {
        let job = runtime.block_on(client.call("jobs.get", json!({ "id": id }))).expect("a job");
        (job["job"]["status"] == "COMPLETED").then_some(())
    });
    assert_eq!(runtime.block_on(client.get("/readyz")).expect("answered").status, 503, "the log is full");
    serving.kill();
    let now = chela::clock::Clock::system().now().0;
    let host = TestHost::start_at(dir, now).unwrap_or_else(|(error, _)| panic!("{error}"));
    let whole = ["job.created", "a2a.send", "a2a.response 0 seum", "a2a.complete", "job.completed"];
    host.eventually("all of it is told", || (host.told_of(&id) == whole).then_some(()));
}

#[test]
fn a_sub_agent_works_apart_without_tasks_and_its_result_comes_back() {
    let host = host();
    host.ask("eden", "delegate it");
    let jobs = host.call("jobs.list", json!({})).expect("a list");
    let id = jobs["jobs"][0]["jobId"].as_str().expect("a job").to_owned();
    let job = host.job_ended(&id);
    assert_eq!((&job["kind"], &job["status"]), (&json!("spawn"), &json!("COMPLETED")));
    let child = job["targetSessionKey"].as_str().expect("a session");
    assert!(child.starts_with("agent:eden:subagent:"), "{child}");
    assert_eq!(told_of(&host, &id, 4), ["job.created", "a2a.spawn", "a2a.spawn_result ok", "job.completed"]);
    let spawned = host.events().into_iter().find(|event| event["type"] == "a2a.spawn").expect("told");
    assert_eq!(
        (&spawned["data"]["eventRole"], &spawned["data"]["toSessionType"]),
        (&json!("delegation.subagent"), &json!("subagent"))
    );
    assert_eq!(spawned["data"]["depth"], 1, "one below the agent that started it");
    let session = spawned["data"]["workSessionId"].as_str().expect("a work session");
    host.eventually("its work session comes to rest with it", || {
        (host.get(&format!("/api/work-sessions/{session}")).1["status"] == "QUIET").then_some(())
    });
    let heard = host.eventually("the parent hears of it", || {
        host.history("eden").iter().map(chela::sessions::text_of).find(|text| text.contains("[NOTIFICATION]"))
    });
    assert!(
        heard.contains(child) && heard.contains("42") && heard.contains("sub-agent"),
        "no task tools for it: {heard}"
    );
    let mut deep = host.tool("eden", "sessions_spawn", json!({ "task": "slow" }));
    assert_eq!(deep["status"], "accepted");
    for _ in 0..7 {
        deep = host.tool("eden", "sessions_spawn", json!({ "task": "slow" }));
    }
    assert_eq!(deep["status"], "accepted", "eight at once");
    let ninth = host.tool("eden", "sessions_spawn", json!({ "task": "slow" }));
    assert!(ninth["error"].as_str().expect("why").contains("a2a.spawn.children"), "{ninth}");
}

#[test]
fn an_idle_session_of_a_sub_agent_is_archived_after_its_days() {
    let host = host();
    let spawned = |task: &str| {
        let accepted = host.tool("eden", "sessions_spawn", json!({ "task": task }));
        accepted["childSessionKey"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
    };
    let (idle, pinned) = (spawned("count the files"), spawned("count the files"));
    let listed = |key: &str| {
        let sessions = host.call("sessions.list", json!({ "limit": 500 })).expect("a list");
        sessions["sessions"].as_array().expect("a list").iter().find(|row| row["key"] == *key).cloned()
    };
    let id = host.eventually("both have ended", || {
        let ended = |key: &str| listed(key).filter(|row| row["status"] == "done" && row.get("lastRunId").is_some());
        ended(&pinned)?;
        Some(ended(&idle)?["sessionId"].as_str().expect("an id").to_owned())
    });
    host.eventually("no job is open", || {
        let open = host.call("jobs.list", json!({ "status": ["PENDING", "RUNNING"] })).expect("a list");
        open["jobs"].as_array().expect("a list").is_empty().then_some(())
    });
    host.call("sessions.patch", json!({ "key": pinned, "pinned": true })).expect("patched");
    let archived = host.dir.state.path().join(format!("sessions/eden/archive/{id}.jsonl"));
    host.clock.advance(Duration::from_secs(29 * 86_400));
    assert!(listed(&idle).is_some() && !archived.exists(), "it may be needed yet");
    host.clock.advance(Duration::from_secs(2 * 86_400));
    host.eventually("it is archived", || (listed(&idle).is_none() && archived.exists()).then_some(()));
    assert!(listed(&pinned).is_some() && listed("agent:eden:main").is_some(), "others stay");
}

#[test]
fn sub_agents_go_only_so_deep_and_the_refusal_names_the_setting() {
    let host = TestHost::scripted_with(SCRIPT, |config| {
        quiet(config);
        config["a2a"]["spawn"] = json!({ "depth": 1 });
    });
    host.ask("eden", "pass it down");
    let heard = host.eventually("the parent hears of it", || {
        host.history("eden").iter().map(chela::sessions::text_of).find(|text| text.contains("[NOTIFICATION]"))
    });
    assert!(heard.contains("sub-agents may be 1 deep (`a2a.spawn.depth`)"), "{heard}");
    let jobs = host.call("jobs.list", json!({})).expect("a list");
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(1), "the second was never made");
}

#[test]
fn an_agent_may_answer_several_conversations_at_once() {
    let host = TestHost::scripted_with(SCRIPT, |config| {
        quiet(config);
        config["agents"]["list"][2]["a2a"] = json!({ "concurrency": 2 });
    });
    let first = host.send_job("eden", "seum", "slow one");
    let second = host.send_job("ruda", "seum", "slow two");
    let args = json!({ "agentId": "seum", "message": "slow three", "timeoutSeconds": 0, "conversationId": "third" });
    let third = host.tool("ruda", "sessions_send", args)["runId"].as_str().expect("a job").to_owned();
    running(&host, &first);
    running(&host, &second);
    assert_eq!(host.job(&third)["status"], "PENDING", "two slots");
    let session = host.job(&third)["targetSessionKey"].clone();
    assert_eq!(session, "agent:seum:a2a:third", "each conversation has a session of its own");
    for id in [&first, &second, &third] {
        assert_eq!(host.job_ended(id)["status"], "COMPLETED");
    }
}

#[test]
fn files_of_others_are_taken_over_and_nonsense_is_set_aside() {
    let dir = TestDir::scripted(SCRIPT, quiet);
    let jobs = dir.state.jobs();
    fs::create_dir_all(&jobs).expect("made");
    let now = 1_700_000_000_000u64;
    let job = |id: &str, updated: u64| {
        json!({
            "jobId": id, "runId": id, "status": "RUNNING", "sessionKey": "eden", "targetSessionKey": "seum",
            "conversationId": "conv-1", "message": "from before", "maxTurns": 5, "currentTurn": 0, "retryCount": 0,
            "maxRetries": 3, "createdAt": updated, "updatedAt": updated, "resumeCount": 0,
        })
    };
    fs::write(jobs.join("job-fresh.json"), job("fresh", now - 60_000).to_string()).expect("written");
    fs::write(jobs.join("job-stale.json"), job("stale", now - 4_000_000).to_string()).expect("written");
    fs::write(jobs.join("job-broken.json"), "{ \"jobId\": ").expect("written");
    let mut gone = job("gone", now - 60_000);
    gone["targetSessionKey"] = json!("worker-1");
    gone["turns"] = json!([{ "turn": u32::MAX, "sessionKey": "x", "key": "x", "state": "waiting" }]);
    gone["rev"] = json!(u64::MAX);
    fs::write(jobs.join("job-gone.json"), gone.to_string()).expect("written");
    for (id, status) in [("done", "COMPLETED"), ("lost", "FAILED")] {
        let mut finished = job(id, now - 60_000);
        finished["status"] = json!(status);
        fs::write(jobs.join(format!("job-{id}.json")), finished.to_string()).expect("written");
    }
    let host = TestHost::start_at(dir, now).unwrap_or_else(|(error, _)| panic!("{error}"));
    let fresh = eventually("it is taken over", || {
        host.clock.advance(Duration::from_millis(50));
        let job = host.call("jobs.get", json!({ "id": "fresh" })).ok()?["job"].clone();
        (!job["finishedAt"].is_null()).then_some(job)
    });
    assert_eq!((&fresh["status"], &fresh["resumeCount"]), (&json!("COMPLETED"), &json!(1)));
    let ended = |id: &str| {
        host.eventually("it has ended", || Some(host.job(id)).filter(|job| !job["finishedAt"].is_null()))["status"]
            .clone()
    };
    assert_eq!((ended("stale"), ended("gone")), (json!("ABANDONED"), json!("FAILED")));
    assert_eq!(told_of(&host, "stale", 4)[1..], ["a2a.response 0 seum blocked", "a2a.complete", "job.abandoned"]);
    for (id, status) in [("done", "COMPLETED"), ("lost", "FAILED")] {
        assert_eq!(host.job(id)["status"], status, "what has ended elsewhere stays as it is");
        assert_eq!(host.told_of(id), [""; 0], "and is not told again");
    }
    let is_sent = |row: &&Value| row["role"] == "user" && chela::sessions::text_of(row).contains("from before");
    assert_eq!(host.history("seum").iter().filter(is_sent).count(), 1, "only what was unfinished is sent");
    assert!(jobs.join("job-broken.json.unreadable").exists());
    eventually("both ends are told", || {
        let events = host.events();
        let is_told = |kind: &str| events.iter().any(|event| event["type"] == kind);
        (is_told("job.abandoned") && is_told("job.failed")).then_some(())
    });
}

#[test]
fn jobs_end_also_where_their_files_cannot_be_written() {
    let dir = TestDir::scripted(SCRIPT, quiet);
    // Also the owner of everything cannot write below a file.
    fs::write(dir.state.jobs(), "in the way").expect("written");
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let id = host.send_job("eden", "seum", "hello");
    assert_eq!(host.job_ended(&id)["status"], "COMPLETED");
    let host = restarted(host);
    assert_eq!(host.job(&id)["status"], "COMPLETED");
    assert_eq!(fs::read_to_string(host.dir.state.jobs()).expect("still there"), "in the way");
}

#[test]
fn a_start_without_jobs_tells_nothing_of_jobs() {
    let host = restarted(host());
    host.events();
    assert_eq!(host.dir.event_types_of("job."), [""; 0]);
    assert_eq!(host.call("jobs.list", json!({})).expect("a list")["jobs"], json!([]));
}

#[test]
fn old_jobs_are_taken_out_after_their_time() {
    let host = host();
    let id = host.send_job("eden", "seum", "hello");
    host.job_ended(&id);
    host.clock.advance(Duration::from_secs(8 * 86_400));
    eventually("it is gone", || {
        host.clock.advance(Duration::from_secs(60));
        host.call("jobs.get", json!({ "id": id })).is_err().then_some(())
    });
    assert_eq!(host.call("jobs.list", json!({})).expect("a list")["jobs"], json!([]));
    assert_eq!(host.get(&format!("/api/jobs/{id}")).0, 404);
}

#[test]
fn agents_see_each_other_s_sessions_and_read_them() {
    let host = host();
    host.ask("seum", "hello there");
    let listed = host.tool("eden", "sessions_list", json!({ "agentId": "seum" }));
    let keys: Vec<&str> =
        listed["sessions"].as_array().expect("a list").iter().filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(keys, ["agent:seum:main"], "{listed}");
    let read = host.tool("eden", "sessions_history", json!({ "sessionKey": "agent:seum:main", "limit": 2 }));
    let text = read.to_string();
    assert!(text.contains("hello there") && text.contains("did: "), "{read}");
    for (tool, args) in [
        ("sessions_history", json!({ "sessionKey": "agent:seum:main", "limit": 0 })),
        ("sessions_history", json!({})),
        ("sessions_send", json!({ "agentId": "seum", "message": "x", "timeoutSeconds": 1_000_000_000 })),
        ("sessions_spawn", json!({ "task": "" })),
    ] {
        let body = json!({ "tool": tool, "sessionKey": "eden", "args": args });
        let refused = host.request("POST", "/tools/invoke", &[], body.to_string().as_bytes());
        assert_eq!(refused.status, 400, "{tool} {args}");
    }
    let unknown = host.tool("eden", "sessions_history", json!({ "sessionKey": "agent:nobody:main" }));
    assert_eq!(unknown["status"], "error", "{unknown}");
}

#[test]
fn more_turns_than_five_are_refused_by_the_configuration() {
    let dir = TestDir::scripted(SCRIPT, |config| {
        quiet(config);
        config["session"]["agentToAgent"]["maxPingPongTurns"] = json!(6);
    });
    let checked = support::chela(&dir.state, &["config", "check"]);
    assert_ne!(checked.code, Some(0));
    assert!(format!("{checked:?}").contains("maxPingPongTurns"), "{checked:?}");
}
