//! Messages, runs and sessions: in order, once, bounded, and told as clients rely on it.

use serde_json::{Value, json};
use support::TestHost;

const ECHO: &str = r#"{ otherwise: "You said: {{input}}" }"#;
/// Waits for the clock, so that a test decides when it ends.
const SLOW: &str =
    r#"{ rules: [{ when: "slow", steps: [{ say: "late", delayMs: 10000 }] }], otherwise: "You said: {{input}}" }"#;

fn send(host: &TestHost, key: &str, text: &str) -> Value {
    let params = json!({ "sessionKey": "agent:eden:main", "message": text, "idempotencyKey": key });
    host.call("chat.send", params).expect("accepted")
}

/// Waits until it runs; one that does not wait for the clock may have ended by then.
fn running(host: &TestHost, key: &str) {
    support::eventually("it runs", || {
        let row = host.call("sessions.describe", json!({ "key": "agent:eden:main" })).expect("answered");
        let waited = || host.call("agent.wait", json!({ "runId": key, "timeoutMs": 0 })).expect("answered");
        let runs = row["session"]["activeRunIds"] == json!([key]);
        (runs || waited().get("endedAt").is_some()).then_some(())
    });
}

#[test]
fn an_answer_comes_with_events_in_the_order_that_clients_rely_on() {
    let host = TestHost::scripted(ECHO);
    let mut talk = host.connect();
    let params = json!({ "sessionKey": "agent:eden:main", "message": "hello", "idempotencyKey": "k1" });
    assert_eq!(talk.request("chat.send", params).expect("accepted")["runId"], "k1");
    let heard = talk.until_over("k1");
    let words: Vec<String> = heard
        .iter()
        .filter(|(_, payload)| payload["runId"] == "k1")
        .map(|(name, payload)| {
            let state = payload["state"].as_str().or(payload["data"]["phase"].as_str()).or(payload["stream"].as_str());
            let role = payload["message"]["role"].as_str().filter(|_| name == "session.message");
            format!("{name} {}", state.or(role).unwrap_or_default())
        })
        .filter(|word| !word.starts_with("sessions.changed"))
        .collect();
    let mut once: Vec<&str> = words.iter().map(String::as_str).collect();
    once.dedup();
    let firsts: Vec<&str> = vec![
        "chat status",
        "agent preparing_context",
        "chat delta",
        "session.message user",
        "agent start",
        "agent model",
    ];
    assert_eq!(once[..6], firsts[..], "{words:#?}");
    let lasts = ["agent usage", "session.message assistant", "agent finishing", "agent end", "chat final"];
    assert_eq!(once[once.len() - 5..], lasts, "{words:#?}");
    let last = &heard.last().expect("heard").1;
    assert_eq!(last["message"]["content"][0]["text"], "You said: hello");
    let rows = host.history("eden");
    assert_eq!(rows.iter().map(|row| row["role"].as_str().expect("a role")).collect::<Vec<_>>(), ["user", "assistant"]);
    assert_eq!(rows[1]["__openclaw"]["seq"], 2);
}

#[test]
fn the_same_key_is_the_same_run_whatever_comes_between() {
    let host = TestHost::scripted(SLOW);
    assert_eq!(send(&host, "a", "slow")["status"], "started");
    assert_eq!(send(&host, "a", "slow")["status"], "in_flight");
    host.ended("a");
    assert_eq!(send(&host, "a", "slow")["status"], "ok");
    let again = json!({ "agentId": "eden", "message": "slow", "idempotencyKey": "a" });
    let other_method = host.call("agent", again).expect_err("another method");
    assert!(other_method["message"].as_str().expect("a message").contains("sent by chat.send"), "{other_method}");
    let elsewhere = json!({ "sessionKey": "agent:seum:main", "message": "slow", "idempotencyKey": "a" });
    let other_session = host.call("chat.send", elsewhere).expect_err("another session");
    let said = other_session["message"].as_str().expect("a message");
    assert!(said.contains("agent:eden:main") && said.contains("agent:seum:main"), "{said}");
    assert_eq!(host.history("eden").len(), 2, "one run");
    let dir = host.stop();
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    assert_eq!(send(&host, "a", "slow")["status"], "ok");
    let waited = host.call("agent.wait", json!({ "runId": "a" })).expect("known");
    assert_eq!(waited["terminalReply"]["text"], "late");
    assert_eq!(host.history("eden").len(), 2, "still one");
}

#[test]
fn agent_answers_twice_and_a_wait_for_nothing_ends_at_once() {
    let host = TestHost::scripted(ECHO);
    let mut talk = host.connect();
    let id = talk.send("agent", json!({ "agentId": "seum", "message": "hi", "idempotencyKey": "x" }));
    assert_eq!(talk.answer(&id).expect("first")["status"], "accepted");
    let last = talk.answer(&id).expect("second");
    assert_eq!((&last["status"], &last["result"]["payloads"][0]["text"]), (&json!("ok"), &json!("You said: hi")));
    let waited = talk.request("agent.wait", json!({ "runId": "nobody's" })).expect("answered");
    assert_eq!(waited["status"], "timeout");
    assert!(waited["error"].as_str().expect("why").starts_with("not_found"));
}

#[test]
fn a_message_that_says_nothing_is_refused_and_runs_nothing() {
    let host = TestHost::scripted(ECHO);
    for (method, to) in [("chat.send", "sessionKey"), ("sessions.send", "key"), ("agent", "sessionKey")] {
        for text in ["", " \n\t"] {
            let key = format!("{method}-{}", text.len());
            let params = json!({ to: "agent:eden:main", "message": text, "idempotencyKey": key });
            let refused = host.call(method, params).expect_err("nothing was said");
            assert!(refused["message"].as_str().expect("a message").starts_with("the message is empty"), "{refused}");
        }
    }
    assert!(
        host.call("sessions.list", json!({})).expect("answered")["sessions"].as_array().expect("a list").is_empty()
    );
}

#[test]
fn a_session_runs_one_message_after_the_other_and_others_do_not_wait() {
    let host = TestHost::scripted_with(SLOW, |config| config["runs"]["queue"] = json!(2));
    send(&host, "1", "slow");
    running(&host, "1");
    send(&host, "2", "second");
    send(&host, "3", "third");
    let full = host
        .call("chat.send", json!({ "sessionKey": "eden", "message": "x", "idempotencyKey": "4" }))
        .expect_err("full");
    assert!(full["message"].as_str().expect("why").contains("2 messages wait in agent:eden:main already"), "{full}");
    let found = host.call("chat.history", json!({ "sessionKey": "eden" })).expect("answered");
    assert_eq!(found["pendingInputs"]["total"], 2);
    assert_eq!(
        (&found["pendingInputs"]["items"][1]["runId"], &found["pendingInputs"]["items"][1]["place"]),
        (&json!("3"), &json!(2))
    );
    assert_eq!(found["inFlightRun"]["runId"], "1");
    let elsewhere = host.call("agent", json!({ "agentId": "seum", "message": "hi", "idempotencyKey": "s" }));
    elsewhere.expect("accepted");
    support::eventually("another session has answered", || {
        let waited = host.call("agent.wait", json!({ "runId": "s", "timeoutMs": 0 })).expect("answered");
        (waited["status"] == "ok").then_some(())
    });
    host.ended("3");
    let texts: Vec<String> = host.history("eden").iter().map(chela::sessions::text_of).collect();
    assert_eq!(texts, ["slow", "late", "second", "You said: second", "third", "You said: third"]);
}

#[test]
fn what_runs_and_what_waits_can_be_stopped() {
    let host = TestHost::scripted(SLOW);
    let mut talk = host.connect();
    send(&host, "1", "slow");
    running(&host, "1");
    send(&host, "2", "second");
    let one = talk.request("chat.abort", json!({ "sessionKey": "eden", "runId": "2" })).expect("stopped");
    assert_eq!(one, json!({ "ok": true, "aborted": true, "runIds": ["2"] }));
    assert_eq!(host.ended("2")["error"], "aborted");
    let all = talk.request("chat.abort", json!({ "sessionKey": "eden", "preserveSideRuns": true })).expect("stopped");
    assert_eq!(all["runIds"], json!(["1"]));
    let heard = talk.until_over("1");
    assert_eq!(heard.last().expect("heard").1["state"], "aborted");
    let waited = host.ended("1");
    assert_eq!((&waited["status"], &waited["stopReason"]), (&json!("error"), &json!("rpc")));
    assert_eq!(send(&host, "3", "go on")["status"], "started");
    assert_eq!(host.ended("3")["status"], "ok");
    let none = talk.request("chat.abort", json!({ "sessionKey": "eden" })).expect("nothing to stop");
    assert_eq!(none["aborted"], false);
}

#[test]
fn what_a_stop_cuts_off_is_in_the_transcript_once() {
    let calls = r#"{ say: "again", calls: [{ tool: "todo_list", args: {} }, { tool: "todo_list", args: {} }] },"#;
    let host = TestHost::scripted(&format!("{{ rules: [{{ steps: [{}] }}] }}", calls.repeat(50)));
    let mut talk = host.connect();
    for nth in 0..40 {
        let run = format!("cut-{nth}");
        send(&host, &run, "go");
        running(&host, &run);
        // Each a little later than the one before: between two rows, in the middle of one, while a step is recorded.
        std::thread::sleep(std::time::Duration::from_micros(nth * 170));
        talk.request("chat.abort", json!({ "sessionKey": "eden", "runId": run })).expect("stopped");
        host.ended(&run);
    }
    assert!(once_each(&host) > 100);
}

#[test]
fn a_run_that_was_interrupted_and_waits_is_stopped_with_what_it_did() {
    let script =
        r#"{ rules: [{ steps: [{ call: { tool: "todo_list", args: {} } }, { say: "late", delayMs: 60000 }] }] }"#;
    let host = TestHost::scripted_with(script, |config| config["limits"]["drainTimeoutMs"] = json!(0));
    for (agent, run) in [("seum", "first"), ("eden", "second")] {
        host.call("chat.send", json!({ "sessionKey": agent, "message": "go", "idempotencyKey": run }))
            .expect("accepted");
        host.eventually("its call is answered", || (host.history(agent).len() == 3).then_some(()));
    }
    let dir = host.stop();
    dir.edit_config(|config| config["runs"]["concurrency"] = json!(1));
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let stopped = host.call("chat.abort", json!({ "sessionKey": "eden", "runId": "second" })).expect("stopped");
    assert_eq!(stopped["runIds"], json!(["second"]));
    assert_eq!(host.ended("second")["error"], "aborted", "it had run");
    assert_eq!(once_each(&host), 3);
    let rows = host.history("eden");
    assert!(rows.iter().all(|row| row["__openclaw"]["withdrawn"].is_null()), "{rows:?}");
    let usage = host.call("sessions.describe", json!({ "key": "agent:eden:main" })).expect("answered");
    assert!(usage["session"]["inputTokens"].as_u64().is_some_and(|tokens| tokens > 0), "{usage}");
}

/// How many rows the transcripts of Eden have, each of them once.
fn once_each(host: &TestHost) -> usize {
    let files = std::fs::read_dir(host.dir.state.path().join("sessions/eden")).expect("a folder").flatten();
    let texts: Vec<String> = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    let rows = texts.iter().flat_map(|text| text.lines()).filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ids: Vec<String> = rows.filter_map(|row| row["__openclaw"]["id"].as_str().map(str::to_owned)).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "no row twice");
    all
}

#[test]
fn tools_are_called_and_told_to_those_who_watch() {
    let script = r#"{ rules: [{ when: "write", steps: [
        { say: "I write.", call: { tool: "files_write", args: { path: "a.md", content: "{{input}}" } } },
        { call: { tool: "tool_call", args: { tool: "todo_list", args: {} } } },
        { call: { tool: "tool_describe", args: { tool: "task_block" } } },
        { call: { tool: "exec", args: {} } },
        { say: "Written: {{result.error}}" } ] }] }"#;
    let host = TestHost::scripted(script);
    let mut talk = host.connect();
    talk.request("chat.send", json!({ "sessionKey": "eden", "message": "write this", "idempotencyKey": "w" }))
        .expect("accepted");
    let heard = talk.until_over("w");
    let tools: Vec<String> = heard
        .iter()
        .filter(|(_, payload)| payload["stream"] == "tool" && payload["data"]["phase"] == "result")
        .map(|(_, payload)| {
            format!("{} {}", payload["data"]["name"].as_str().expect("a name"), payload["data"]["isError"])
        })
        .collect();
    assert_eq!(tools, ["files_write false", "tool_call false", "tool_describe false", "exec true"]);
    let reply = heard.last().expect("heard").1["message"]["content"][0]["text"].clone();
    assert_eq!(reply, "Written: Tool not available: exec");
    let written = std::fs::read_to_string(host.dir.state.path().join("workspace-eden/a.md")).expect("written");
    assert_eq!(written, "write this");
}

#[test]
fn agents_speak_to_each_other_within_bounds() {
    let script = r#"{ rules: [
        { agent: "ruda", when: "ask", steps: [{ call: { tool: "sessions_send", args: { agentId: "eden", message: "what is it?" } } }, { say: "Eden: {{result.reply}}" }] },
        { agent: "eden", when: "what", steps: [{ say: "a crab" }] },
        { agent: "seum", when: "loop", steps: [{ call: { tool: "sessions_send", args: { agentId: "seum", message: "loop" } } }, { say: "{{result.error}}" }] },
        { agent: "ruda", when: "around", steps: [{ call: { tool: "sessions_send", args: { sessionKey: "agent:eden:main", message: "back" } } }, { say: "{{result.status}}" }] },
        { agent: "eden", when: "back", steps: [{ call: { tool: "sessions_send", args: { agentId: "ruda", message: "hello again" } } }, { say: "{{result.reason}}" }] },
      ] }"#;
    let host = TestHost::scripted_with(script, |config| config["runs"]["concurrency"] = json!(1));
    assert_eq!(
        host.ask("ruda", "ask")["terminalReply"]["text"],
        "Eden: a crab",
        "one place is enough: who waits gives it back"
    );
    let rows = host.history("eden");
    assert_eq!(rows[0]["provenance"]["sourceSessionKey"], "agent:ruda:main");
    assert!(host.ask("seum", "loop")["terminalReply"]["text"].as_str().expect("said").contains("your own session"));
    assert_eq!(host.ask("ruda", "around")["terminalReply"]["text"], "ok");
    let said = host.history("eden").iter().map(chela::sessions::text_of).collect::<Vec<_>>();
    assert!(said.contains(&"would_deadlock".to_owned()), "{said:?}");
}

#[test]
fn runs_have_limits_of_steps_and_time() {
    let script = r#"{ rules: [
        { when: "for ever", steps: [ { call: { tool: "files_list", args: {} } }, { call: { tool: "files_list", args: {} } }, { call: { tool: "files_list", args: {} } }, { say: "done" } ] },
        { when: "slow", steps: [{ say: "late", delayMs: 500000 }] } ] }"#;
    let host = TestHost::scripted_with(script, |config| {
        // Of two agents: the clock moves while a run is waited for, and the first of them must not come to its time on a busy machine.
        config["agents"]["list"][1]["limits"] = json!({ "steps": 2 });
        config["agents"]["list"][0]["limits"] = json!({ "timeMs": 10_000 });
    });
    let stopped = host.ask("eden", "for ever");
    assert!(stopped["error"].as_str().expect("why").contains("2 steps"), "{stopped}");
    let late = host.ask("ruda", "slow");
    assert_eq!((&late["status"], &late["error"]), (&json!("timeout"), &json!("the run took longer than 10000 ms")));
    assert_eq!(host.ask("seum", "for ever")["status"], "ok", "others have their own limits");
}

#[test]
fn history_comes_in_pages_and_sessions_are_labelled_reset_and_deleted() {
    let host = TestHost::scripted(ECHO);
    for n in 0..5 {
        send(&host, &format!("k{n}"), &format!("message {n}"));
        host.ended(&format!("k{n}"));
    }
    let page = host.call("chat.history", json!({ "sessionKey": "eden", "limit": 4 })).expect("rows");
    assert_eq!((&page["totalMessages"], &page["hasMore"]), (&json!(10), &json!(true)));
    assert_eq!(page["messages"][0]["content"][0]["text"], "message 3");
    let before = json!({ "sessionKey": "eden", "limit": 4, "before": page["nextBefore"] });
    let before = host.call("chat.history", before).expect("rows");
    assert_eq!(before["messages"][3]["content"][0]["text"], "You said: message 2");
    let delta = host.call("chat.history", json!({ "sessionKey": "eden", "cursor": "8" })).expect("rows");
    assert_eq!((&delta["kind"], delta["messages"].as_array().map(Vec::len)), (&json!("delta"), Some(2)));
    assert_eq!(
        host.call("chat.history", json!({ "sessionKey": "eden", "cursor": "99" })).expect("told")["kind"],
        "reset"
    );
    let patched = host
        .call("sessions.patch", json!({ "key": "eden", "label": "Garden", "model": "demo/other" }))
        .expect("patched");
    assert_eq!(patched["resolved"]["model"], "other");
    assert!(host.call("sessions.patch", json!({ "key": "eden", "model": "gone/x" })).is_err());
    assert_eq!(host.call("sessions.resolve", json!({ "label": "Garden" })).expect("found")["key"], "agent:eden:main");
    host.call("sessions.reset", json!({ "key": "eden" })).expect("reset");
    assert_eq!(host.history("eden").len(), 11, "nothing is lost, and a row says so");
    let made = host.call("sessions.create", json!({ "agentId": "eden", "message": "first" })).expect("made");
    let key = made["key"].as_str().expect("a key").to_owned();
    assert!(key.starts_with("agent:eden:dashboard:"));
    host.ended(made["runId"].as_str().expect("a run"));
    let deleted = host.call("sessions.delete", json!({ "key": key })).expect("deleted");
    let kept = deleted["archived"][0].as_str().expect("a file");
    assert!(std::fs::read_to_string(kept).expect("kept").contains("You said: first"));
    let main = host.call("sessions.delete", json!({ "key": "agent:eden:main" })).expect_err("main");
    assert_eq!(main["message"], "Cannot delete the main session (agent:eden:main).");
    let listed = host.call("sessions.list", json!({ "agentId": "eden" })).expect("listed");
    assert_eq!((&listed["totalCount"], &listed["sessions"][0]["label"]), (&json!(1), &json!("Garden")));
    let dir = host.stop();
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let listed = host.call("sessions.list", json!({})).expect("listed");
    assert_eq!(listed["sessions"][0]["label"], "Garden");
    assert_eq!(host.history("eden").len(), 11);
}

#[test]
fn an_agent_is_a_model_for_clients_of_the_chat_api() {
    let host = TestHost::scripted(ECHO);
    let auth = format!("Bearer {}", host.token);
    let post = |body: Value| {
        let headers = [("authorization", auth.as_str()), ("content-type", "application/json")];
        host.request("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes())
    };
    let whole = post(
        json!({ "model": "eden", "messages": [{ "role": "system", "content": "Be kind." }, { "role": "user", "content": "hi" }] }),
    );
    assert_eq!(whole.json()["choices"][0]["message"]["content"], "You said: hi");
    assert!(whole.json()["usage"]["total_tokens"].as_u64().expect("counted") > 0);
    let streamed = post(
        json!({ "model": "agent:eden", "stream": true, "user": "kim", "messages": [{ "role": "user", "content": [{ "type": "text", "text": "two words" }] }] }),
    );
    let body = String::from_utf8_lossy(&streamed.body).into_owned();
    let pieces = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let text: String = pieces
        .map(|data| serde_json::from_str::<Value>(data).expect("JSON"))
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(text, "You said: two words");
    assert!(body.trim_end().ends_with("data: [DONE]"), "{body}");
    assert_eq!(host.history("agent:eden:openai:kim").len(), 2);
    let models = host.get("/v1/models").1;
    assert_eq!(models["data"][0]["id"], "ruda");
    for (body, status) in [
        (json!({ "model": "nobody", "messages": [{ "role": "user", "content": "x" }] }), 400),
        (json!({ "model": "eden", "messages": [] }), 400),
        (json!({ "model": "eden", "messages": [{ "role": "assistant", "content": "x" }] }), 400),
    ] {
        let refused = post(body);
        assert_eq!(refused.status, status);
        assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
    }
}

#[test]
fn the_configuration_is_patched_with_its_comments_and_only_from_what_was_read() {
    let host = TestHost::start();
    let whole = std::fs::read_to_string(host.dir.state.config()).expect("readable");
    host.dir.write_config(format!("// keep me\n{whole}").as_bytes());
    host.call("config.reload", json!({})).expect("read");
    let read = host.call("config.get", json!({})).expect("read");
    let patch = |raw: &str, base: &Value| host.call("config.patch", json!({ "raw": raw, "baseHash": base }));
    let done = patch("{ deployment: { name: 'crabs' }, gateway: { auth: { token: '[redacted]' } } }", &read["hash"])
        .expect("patched");
    assert_eq!(done["changedPaths"], json!(["deployment.name"]));
    let text = std::fs::read_to_string(host.dir.state.config()).expect("readable");
    assert!(text.starts_with("// keep me\n") && text.contains("\"crabs\"") && text.contains(&host.token), "{text}");
    let check = |raw: &str, base: &Value, expected: &str| {
        let refused = patch(raw, base).expect_err("refused");
        assert!(refused["message"].as_str().expect("why").contains(expected), "{refused}");
    };
    check("{}", &Value::Null, "config base hash required");
    check("{ deployment: { name: 'x' } }", &read["hash"], "has changed since it was read");
    check("{ gateway: { listen: 7 } }", &done["hash"], "gateway.listen: must be of type string");
    check("{ agents: { model: 'gone/x' } }", &done["hash"], "no provider is called `gone`");
    check("{ nonsense", &done["hash"], "raw: ");
    let unchanged = std::fs::read_to_string(host.dir.state.config()).expect("readable");
    assert_eq!(unchanged, text);
}

#[test]
fn a_change_of_the_configuration_leaves_what_runs_alone() {
    let script = r#"{ rules: [{ when: "slow", steps: [{ say: "late", delayMs: 20000 }] }] }"#;
    let host = TestHost::scripted(script);
    let key = json!({ "agentId": "eden", "message": "slow", "idempotencyKey": "runs" });
    host.call("agent", key).expect("accepted");
    host.eventually("it runs", || (host.history("eden").len() == 1).then_some(()));
    for (edit, taken) in [(json!("Eden the second"), true), (json!(7), false)] {
        host.dir.edit_config(|config| config["agents"]["list"][1]["name"] = edit);
        let wanted = if taken { "config.applied" } else { "config.refused" };
        host.eventually(wanted, || host.dir.event_types().iter().any(|kind| kind == wanted).then_some(()));
    }
    let ended = host.ended("runs");
    assert_eq!((&ended["status"], &ended["terminalReply"]["text"]), (&json!("ok"), &json!("late")));
    assert_eq!(host.history("eden").len(), 2, "it ran once");
}
