//! Jobs where something else ends or is small: a stop that waits for runs, a sender that left, bounds of messages and of depth.

use std::time::Duration;

use serde_json::{Value, json};
use support::{Binary, TestDir, TestHost, eventually};

fn plain(config: &mut Value) {
    config["providers"]["demo"]["retries"] = json!(0);
    for agent in config["agents"]["list"].as_array_mut().expect("a team") {
        agent["role"] = json!("agent");
    }
}

fn host(script: &str, change: impl FnOnce(&mut Value)) -> TestHost {
    TestHost::scripted_with(script, |config| {
        plain(config);
        config["limits"]["drainTimeoutMs"] = json!(0);
        change(config);
    })
}

/// What a session has heard and said.
fn lines(host: &TestHost, session: &str) -> Vec<String> {
    host.history(session).iter().map(chela::sessions::text_of).collect()
}

#[test]
fn what_an_agent_asks_of_another_while_a_gateway_drains_is_done_by_the_next() {
    let script = r#"{ rules: [
        { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
        { when: "tell them", steps: [
            { delayMs: 1500, call: { tool: "sessions_send", args: { agentId: "seum", message: "look at it", timeoutSeconds: 0 } } },
            { say: "told: {{result}}" },
        ] },
      ], otherwise: "did: {{input}}" }"#;
    let dir = TestDir::scripted(script, plain);
    let mut gateway = Binary::serve(&dir);
    let asked = json!({ "agentId": "eden", "message": "tell them", "idempotencyKey": "tell" });
    gateway.method(&dir, "agent", asked.clone()).expect("accepted");
    gateway.signal(rustix::process::Signal::TERM);
    eventually("it drains", || gateway.stderr().contains("stopping").then_some(()));
    assert_eq!(gateway.finished().code, Some(0));
    let gateway = Binary::serve(&dir);
    let job = eventually("the job has ended", || {
        let list = gateway.method(&dir, "jobs.list", json!({})).expect("a list");
        list["jobs"].as_array().expect("jobs").first().filter(|job| !job["finishedAt"].is_null()).cloned()
    });
    assert_eq!((&job["status"], &job["message"]), (&json!("COMPLETED"), &json!("look at it")));
    let told = eventually("who told them has ended", || {
        let told = gateway.method(&dir, "agent.wait", json!({ "runId": "tell", "timeoutMs": 0 })).expect("answered");
        told.get("endedAt").is_some().then_some(told)
    });
    assert_eq!(told["status"], "ok", "{told}");
    gateway.terminate();
}

#[test]
fn a_sub_agent_that_is_begun_on_the_result_of_another_is_no_deeper() {
    let script = r#"{ rules: [
        { when: "tallied", steps: [{ say: "heard" }] },
        { when: "[NOTIFICATION]", steps: [{ call: { tool: "sessions_spawn", args: { task: "tally" } } }, { say: "second: {{result.status}} {{result.error}}" }] },
        { when: "tally", steps: [{ say: "tallied" }] },
        { when: "count", steps: [{ say: "42" }] },
        { when: "begin", steps: [{ call: { tool: "sessions_spawn", args: { task: "count" } } }, { say: "first" }] },
      ], otherwise: "heard" }"#;
    let host = host(script, |config| config["a2a"]["spawn"] = json!({ "depth": 1 }));
    host.ask("eden", "begin");
    host.eventually("the second is begun", || {
        lines(&host, "eden").iter().any(|line| line.contains("second: accepted")).then_some(())
    });
}

#[test]
fn who_no_longer_waits_hears_of_a_failure_by_message() {
    let script = r#"{ rules: [
        { when: "ask and wait", steps: [{ call: { tool: "sessions_send", args: { agentId: "seum", message: "broken", timeoutSeconds: 300 } } }, { say: "done" }] },
        { when: "broken", steps: [{ delayMs: 20000, fail: { kind: "context_length", message: "too long", times: 99 } }] },
      ], otherwise: "heard" }"#;
    let host = host(script, |_| {});
    host.call("agent", json!({ "agentId": "eden", "message": "ask and wait", "idempotencyKey": "waits" })).expect("ok");
    let id = host.eventually("the job runs", || {
        let list = host.call("jobs.list", json!({ "status": ["RUNNING"] })).expect("a list");
        list["jobs"][0]["jobId"].as_str().map(str::to_owned)
    });
    host.call("chat.abort", json!({ "sessionKey": "agent:eden:main" })).expect("aborted");
    host.ended("waits");
    assert_eq!(host.job_ended(&id)["status"], "FAILED");
    host.eventually("the sender hears of it", || {
        lines(&host, "eden").iter().any(|line| line.contains("[NOTIFICATION] seum")).then_some(())
    });
}

#[test]
fn who_waits_goes_on_waiting_after_a_restart() {
    let script = r#"{ rules: [
        { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
        { when: "ask and wait", steps: [{ call: { tool: "sessions_send", args: { agentId: "seum", message: "slow", timeoutSeconds: 300 } } }, { say: "heard: {{result.status}}" }] },
        { when: "slow", steps: [{ say: "late", delayMs: 20000 }] },
      ], otherwise: "heard" }"#;
    let host = host(script, |_| {});
    host.call("agent", json!({ "agentId": "eden", "message": "ask and wait", "idempotencyKey": "waits" })).expect("ok");
    host.eventually("the job runs", || {
        let list = host.call("jobs.list", json!({ "status": ["RUNNING"] })).expect("a list");
        list["jobs"][0]["jobId"].as_str().map(str::to_owned)
    });
    let now = host.clock.now().0;
    let host = TestHost::start_at(host.stop(), now + 1_000).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.ended("waits");
    let lines = lines(&host, "eden");
    assert!(lines.iter().any(|line| line == "heard: ok"), "{lines:?}");
}

#[test]
fn a_long_result_reaches_its_parent_also_where_people_must_be_brief() {
    let long = "word ".repeat(600);
    let script = format!(r#"{{ rules: [{{ when: "count", steps: [{{ say: "{long}" }}] }}], otherwise: "heard" }}"#);
    let host = host(&script, |config| config["runs"]["messageBytes"] = json!(1024));
    let job = host.tool("eden", "sessions_spawn", json!({ "task": "count" }))["runId"].clone();
    assert_eq!(host.job_ended(job.as_str().expect("a job"))["status"], "COMPLETED");
    host.eventually("the parent hears it all", || {
        lines(&host, "eden")
            .iter()
            .any(|line| line.contains("[NOTIFICATION]") && line.contains(long.trim()))
            .then_some(())
    });
}

#[test]
fn a_sub_agent_that_records_its_steps_is_not_given_up() {
    // Each far below the three minutes, also where a busy machine takes a while to record it; all of them are far more.
    let steps = [r#"{ delayMs: 20000, call: { tool: "sessions_list", args: {} } }"#; 14].join(", ");
    let script =
        format!(r#"{{ rules: [{{ when: "count", steps: [{steps}, {{ say: "42" }}] }}], otherwise: "heard" }}"#);
    let host = host(&script, |config| {
        config["a2a"]["staleMinutes"] = json!(3);
        config["runs"]["limits"]["timeMs"] = json!(3_600_000);
    });
    let job = host.tool("eden", "sessions_spawn", json!({ "task": "count" }))["runId"].clone();
    let id = job.as_str().expect("a job");
    let ended = host.eventually("a job has ended", || {
        host.clock.advance(Duration::from_millis(500));
        Some(host.job(id)).filter(|job| !job["finishedAt"].is_null())
    });
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
}

#[test]
fn agents_are_told_when_a_list_leaves_sessions_out() {
    let host = host(r#"{ otherwise: "heard" }"#, |_| {});
    for nth in 0..52 {
        let said = json!({ "sessionKey": format!("agent:seum:direct:peer{nth}"), "message": "hi", "idempotencyKey": format!("k{nth}") });
        host.call("chat.send", said).expect("accepted");
    }
    let listed = host.tool("eden", "sessions_list", json!({ "agentId": "seum" }));
    assert_eq!((listed["sessions"].as_array().map(Vec::len), &listed["more"]), (Some(50), &json!(2)), "{listed}");
}
