//! Flows between agents as data: what the script says, what is told of it, how the job ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::{TestHost, eventually};

/// Eden asks, Seum answers; an exchange ends when Eden has nothing more to say.
const POLITE: &str = r#"{ rules: [
    { agent: "eden", when: "agent-to-agent turn 1", steps: [{ say: "and the tests?" }] },
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { when: "silent", steps: [{ say: "" }] },
    { when: "slow", steps: [{ say: "late answer", delayMs: 400000 }] },
    { when: "soon", steps: [{ say: "soon answer", delayMs: 30000 }] },
    { when: "broken", steps: [{ fail: { kind: "context_length", message: "too long", times: 99 } }] },
    { when: "busy", steps: [{ fail: { kind: "overloaded", message: "busy", times: 99 } }] },
  ], otherwise: "did: {{input}}" }"#;

/// A script in which nobody has the last word.
const CHATTY: &str = r#"{ otherwise: "go on" }"#;

fn quiet(config: &mut Value) {
    config["providers"]["demo"]["retries"] = json!(0);
    // Runs that wait for the clock are not waited for at a stop.
    config["limits"]["drainTimeoutMs"] = json!(0);
    for agent in config["agents"]["list"].as_array_mut().expect("a team") {
        agent["role"] = json!("agent");
    }
}

fn host(script: &str) -> TestHost {
    TestHost::scripted_with(script, quiet)
}

/// What is told of a job, once it is so much: that a job has ended is seen a moment before it is told.
pub(super) fn told_of(host: &TestHost, id: &str, count: usize) -> Vec<String> {
    eventually(&format!("{count} things are told of {id}"), || {
        Some(host.told_of(id)).filter(|told| told.len() >= count)
    })
}

/// Sends without waiting and compares what is told of the job until it has ended.
fn check(script: &str, message: &str, expected: &[&str], status: &str) -> (TestHost, Value) {
    let host = host(script);
    let id = host.send_job("eden", "seum", message);
    let job = host.job_ended(&id);
    assert_eq!(told_of(&host, &id, expected.len()), expected, "{job:#}");
    assert_eq!(job["status"], status);
    (host, job)
}

#[test]
fn a_message_is_answered_and_the_exchange_goes_on_until_somebody_is_done() {
    let (host, job) = check(
        POLITE,
        "please do it",
        &["job.created", "a2a.send", "a2a.response 0 seum", "a2a.response 1 eden", "a2a.complete", "job.completed"],
        "COMPLETED",
    );
    assert_eq!((&job["currentTurn"], &job["maxTurns"], &job["phase"]), (&json!(2), &json!(5), &json!("done")));
    assert_eq!(job["announce"]["state"], "no-channel", "and that is visible");
    let id = job["jobId"].as_str().expect("an id");
    assert_eq!(job["turns"][0]["key"], format!("{id}:0"));
    let states: Vec<String> = host
        .events()
        .iter()
        .filter(|event| event["type"] == "a2a.delivery" && event["data"]["turn"] == 0)
        .map(|event| event["data"]["state"].as_str().expect("a state").to_owned())
        .collect();
    assert_eq!(states, ["stored", "delivered", "answered"]);
    let send = host.events().into_iter().find(|event| event["type"] == "a2a.send").expect("told")["data"].clone();
    assert_eq!(
        (&send["fromAgent"], &send["toAgent"], &send["message"]),
        (&json!("eden"), &json!("seum"), &json!("please do it"))
    );
    assert_eq!((&send["eventRole"], &send["fromSessionType"]), (&json!("conversation.main"), &json!("main")));
    assert_eq!((&send["hop"], &send["targetSessionKey"]), (&json!(1), &json!("agent:seum:main")));
    let waited = host.call("agent.wait", json!({ "runId": id, "timeoutMs": 0 })).expect("known by the job's id");
    let reply = waited["terminalReply"]["text"].as_str().expect("a reply");
    assert!(
        reply.starts_with("did: [Message from another agent's session agent:eden:main")
            && reply.ends_with("please do it"),
        "{reply}"
    );
}

#[test]
fn nobody_goes_back_and_forth_more_than_five_times_and_notifications_not_at_all() {
    let responses: Vec<String> =
        (0..=5).map(|turn| format!("a2a.response {turn} {}", if turn % 2 == 0 { "seum" } else { "eden" })).collect();
    let mut expected = vec!["job.created", "a2a.send"];
    expected.extend(responses.iter().map(String::as_str));
    expected.extend(["a2a.complete", "job.completed"]);
    check(CHATTY, "talk to me", &expected, "COMPLETED");
    let once = ["job.created", "a2a.send", "a2a.response 0 seum", "a2a.complete", "job.completed"];
    check(CHATTY, "[NOTIFICATION] the build is green", &once, "COMPLETED");
    check(CHATTY, "[NO_REPLY_NEEDED] fyi", &once, "COMPLETED");
}

#[test]
fn what_does_not_pass_is_told_in_words_and_to_the_sender() {
    let (host, job) = check(
        POLITE,
        "broken",
        &["job.created", "a2a.send", "a2a.response 0 seum blocked", "a2a.complete", "job.failed"],
        "FAILED",
    );
    let response = host.events().into_iter().find(|event| event["type"] == "a2a.response").expect("told");
    let said = response["data"]["replyPreview"].as_str().expect("words");
    assert!(said.starts_with("[outcome] blocked: 응답을 받지 못했습니다 ("), "{said}");
    assert_eq!(response["data"]["waitStatus"], "error");
    assert!(job["lastError"].as_str().expect("why").contains("too long"), "{job}");
    let told = host.eventually("the sender hears of it", || {
        let rows = host.history("eden");
        rows.iter().map(chela::sessions::text_of).find(|text| text.contains("[NOTIFICATION] seum"))
    });
    assert!(told.contains("broken"), "{told}");
    let (_, job) = check(
        POLITE,
        "silent",
        &["job.created", "a2a.send", "a2a.response 0 seum blocked", "a2a.complete", "job.completed"],
        "COMPLETED",
    );
    assert!(job["lastError"].is_null());
}

#[test]
fn what_may_pass_is_tried_three_times_more() {
    let (_, job) = check(
        POLITE,
        "busy",
        &[
            "job.created",
            "a2a.send",
            "job.retried",
            "job.retried",
            "job.retried",
            "a2a.response 0 seum blocked",
            "a2a.complete",
            "job.failed",
        ],
        "FAILED",
    );
    let tries = job["turns"][0]["attempts"].as_array().expect("tries");
    assert_eq!(tries.len(), 3);
    assert_eq!(tries[0]["transient"], true);
}

#[test]
fn a_run_that_takes_too_long_is_given_up_and_its_late_reply_is_told() {
    let host = host(POLITE);
    let id = host.send_job("eden", "seum", "slow");
    let job = host.job_ended(&id);
    assert_eq!((&job["status"], &job["turns"][0]["state"]), (&json!("FAILED"), &json!("failed")));
    host.eventually("the late reply is told", || {
        host.clock.advance(Duration::from_secs(10));
        host.told_of(&id).iter().any(|word| word == "a2a.response 0 seum late").then_some(())
    });
    let told = host.told_of(&id);
    let end = ["a2a.response 0 seum blocked", "a2a.complete", "job.failed", "a2a.response 0 seum late"];
    assert_eq!(told[2..], end, "{told:?}");
    assert_eq!(host.job(&id), job, "a finished job does not change");
}

#[test]
fn a_sender_that_waits_gets_the_reply_or_hears_that_it_still_runs() {
    let host = host(POLITE);
    let now =
        host.tool("eden", "sessions_send", json!({ "agentId": "seum", "message": "please", "timeoutSeconds": 9 }));
    assert_eq!(now["status"], "ok", "{now}");
    assert!(now["reply"].as_str().is_some_and(|reply| reply.ends_with("please")), "{now}");
    let (clock, answered) = (host.clock.clone(), Arc::new(AtomicBool::new(false)));
    let done = answered.clone();
    let moving = std::thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            clock.advance(Duration::from_millis(50));
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let late = host.tool("eden", "sessions_send", json!({ "target": "seum", "message": "soon", "timeoutSeconds": 1 }));
    answered.store(true, Ordering::Relaxed);
    moving.join().expect("moved");
    assert_eq!((&late["status"], &late["sentBeforeError"]), (&json!("timeout"), &json!(true)), "{late}");
    let id = late["runId"].as_str().expect("a job").to_owned();
    let job = host.job_ended(&id);
    assert_eq!(job["status"], "COMPLETED", "the flow goes on");
    let told = host.told_of(&id);
    assert_eq!(told[..3], ["job.created", "a2a.send", "a2a.response 0 seum"], "and is told in every case: {told:?}");
}

#[test]
fn who_may_not_send_and_what_is_not_there_is_refused_and_nothing_is_told() {
    let host = TestHost::scripted_with(POLITE, |config| {
        quiet(config);
        config["tools"]["agentToAgent"]["allow"] = json!(["ruda->*"]);
    });
    let of_flows = |kind: &String| kind.starts_with("a2a.") || kind.starts_with("job.");
    let refused = |session: &str, args: Value| host.tool(session, "sessions_send", args);
    let forbidden = refused("eden", json!({ "agentId": "seum", "message": "x" }));
    assert_eq!(forbidden["status"], "forbidden");
    assert!(forbidden["error"].as_str().expect("why").contains("`eden->seum`"), "{forbidden}");
    for (args, expected) in [
        (json!({ "agentId": "nobody", "message": "x" }), "no agent has the id"),
        (json!({ "sessionKey": "agent:eden:direct:kim", "message": "x" }), "there is no session"),
        (json!({ "agentId": "ruda", "message": "x" }), "your own session"),
        (json!({ "agentId": "eden", "message": "  " }), "the message is empty"),
        (json!({ "agentId": "eden", "message": "x".repeat(300_000) }), "at most 262144 bytes"),
        (json!({ "agentId": "eden", "message": "x", "workSessionId": "a b" }), "workSessionId has 1 to 128"),
        (json!({ "message": "x" }), "name one target"),
    ] {
        let answer = refused("ruda", args);
        assert_eq!(answer["status"], "error", "{answer}");
        assert!(answer["error"].as_str().expect("why").contains(expected), "{answer}");
    }
    let body = json!({ "tool": "sessions_send", "sessionKey": "ruda", "args": { "agentId": "eden", "message": "x", "timeoutSeconds": -1 } });
    let negative = host.request("POST", "/tools/invoke", &[], body.to_string().as_bytes());
    assert_eq!(negative.status, 400);
    let huge = json!({ "agentId": "eden", "message": "x".repeat(10_000_000) });
    let huge = json!({ "name": "sessions_send", "agentId": "ruda", "args": huge });
    let huge = host.connect().request("tools.invoke", huge);
    assert!(format!("{huge:?}").contains("at most 262144 bytes"), "{huge:?}");
    host.events();
    assert!(!host.dir.event_types().iter().any(of_flows), "nothing of it is told");
    assert_eq!(host.call("jobs.list", json!({})).expect("a list")["jobs"], json!([]));
}

#[test]
fn messages_that_go_round_in_a_circle_end_with_the_way_they_went() {
    let circle = r#"{ rules: [
        { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
        { agent: "ruda", steps: [{ call: { tool: "sessions_send", args: { agentId: "eden", message: "pass it on", timeoutSeconds: 0 } } }, { say: "{{result.status}} {{result.error}}" }] },
        { agent: "eden", steps: [{ call: { tool: "sessions_send", args: { agentId: "seum", message: "pass it on", timeoutSeconds: 0 } } }, { say: "{{result.status}} {{result.error}}" }] },
        { agent: "seum", steps: [{ call: { tool: "sessions_send", args: { agentId: "ruda", message: "pass it on", timeoutSeconds: 0 } } }, { say: "{{result.status}} {{result.error}}" }] },
    ] }"#;
    let host = host(circle);
    host.ask("ruda", "begin");
    let refused = host.eventually("the circle is cut", || {
        let texts = ["ruda", "eden", "seum"].map(|agent| host.history(agent));
        texts.iter().flatten().map(chela::sessions::text_of).find(|text| text.contains("goes no further"))
    });
    assert!(refused.contains("ruda -> eden -> seum -> ruda"), "{refused}");
    host.eventually("every job has ended", || {
        let jobs = host.call("jobs.list", json!({ "status": "PENDING,RUNNING" })).expect("a list");
        jobs["jobs"].as_array().expect("jobs").is_empty().then_some(())
    });
    let jobs = host.call("jobs.list", json!({ "limit": 500 })).expect("a list");
    assert_eq!(jobs["jobs"].as_array().expect("jobs").len(), 8, "eight hops, by default");
}

#[test]
fn what_one_message_causes_stays_in_one_work_session() {
    let fan = r#"{ rules: [
        { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
        { agent: "ruda", steps: [
            { call: { tool: "sessions_send", args: { agentId: "eden", message: "part one", timeoutSeconds: 9 } } },
            { call: { tool: "sessions_send", args: { agentId: "seum", message: "part two", timeoutSeconds: 9 } } },
            { say: "both are back" }] },
        { agent: "eden", steps: [{ call: { tool: "task_start", args: { description: "do part one" } } }, { say: "done" }] },
    ], otherwise: "done too" }"#;
    let host = host(fan);
    let ended = host.ask("ruda", "split it up");
    assert_eq!(ended["terminalReply"]["text"], "both are back");
    let events = host.events();
    let sessions: std::collections::BTreeSet<&str> = events
        .iter()
        .filter(|event| ["a2a.send", "task.started"].contains(&event["type"].as_str().unwrap_or_default()))
        .map(|event| event["data"]["workSessionId"].as_str().expect("a work session"))
        .collect();
    assert_eq!(sessions.len(), 1, "fan-out, and the task that came of it: {sessions:?}");
    let again = host.tool(
        "ruda",
        "sessions_send",
        json!({
            "agentId": "eden", "message": "more", "timeoutSeconds": 0, "workSessionId": sessions.first(),
        }),
    );
    let first =
        events.iter().find(|event| event["type"] == "a2a.send" && event["data"]["toAgent"] == "eden").expect("sent");
    assert_eq!(again["conversationId"], first["data"]["conversationId"], "two agents keep their conversation");
    let listed = host.eventually("the session is shown", || {
        let (_, page) = host.get("/api/work-sessions");
        let all = |rows: &&Vec<Value>| {
            rows.iter().any(|row| row["participants"].as_array().is_some_and(|who| who.len() == 3))
        };
        page["workSessions"].as_array().filter(all).cloned()
    });
    assert_eq!(listed.len(), 1, "{listed:?}");
}
