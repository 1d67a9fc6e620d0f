//! Agents that ask models over HTTP, in the formats of both vendors: streams, tools, failures, keys, windows and limits.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chela::port::Port;
use serde_json::{Value, json};
use support::models::{ANSWER_TOKENS, End, KEY, MODEL, ModelServer, PROMPT_TOKENS, Reply, Wire, line};
use support::{RawHttp, TestDir, TestHost, eventually};

const MAIN: &str = "agent:ruda:main";

/// The demo team, whose models a [`ModelServer`] stands for.
struct Team {
    // First, so that it lets go of its connections before their other end does.
    host: TestHost,
    server: ModelServer,
    sent: AtomicUsize,
}

impl Team {
    /// Agents that ask by this wire.
    fn start(wire: Wire) -> Self {
        Self::start_with(wire, |_| {})
    }

    /// Likewise, with a configuration that `edit` has changed: the providers are called like their kinds.
    fn start_with(wire: Wire, edit: impl FnOnce(&mut Value)) -> Self {
        Self::start_in(TestDir::with_config(|_| {}), wire, edit)
    }

    fn start_in(dir: TestDir, wire: Wire, edit: impl FnOnce(&mut Value)) -> Self {
        let server = ModelServer::start();
        dir.edit_config(|config| {
            for wire in Wire::BOTH {
                config["providers"][wire.kind()] = server.provider(wire);
            }
            config["agents"]["model"] = json!(format!("{}/{MODEL}", wire.kind()));
            edit(config);
        });
        let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("the gateway starts: {error}"));
        Self { host, server, sent: AtomicUsize::new(0) }
    }

    fn workspace(&self) -> PathBuf {
        self.host.dir.state.path().join("workspace-ruda")
    }

    fn send_to(&self, session: &str, text: &str) -> String {
        let key = format!("run-{}", self.sent.fetch_add(1, Ordering::Relaxed));
        let params = json!({ "message": text, "idempotencyKey": key, "sessionKey": session });
        let accepted = self.host.call("agent", params).expect("accepted");
        assert_eq!(accepted["status"], "accepted", "{accepted}");
        accepted["runId"].as_str().expect("an id").to_owned()
    }

    /// Sends a message to the main session and gives the id of its run.
    fn send(&self, text: &str) -> String {
        self.send_to(MAIN, text)
    }

    /// How a run has ended, as `agent.wait` tells; the clock stands still.
    fn ended(&self, run: &str) -> Value {
        self.ended_while(run, Duration::ZERO)
    }

    /// Likewise, while the clock moves on.
    fn ended_in_time(&self, run: &str) -> Value {
        self.ended_while(run, Duration::from_millis(50))
    }

    fn ended_while(&self, run: &str, step: Duration) -> Value {
        let client = self.host.client(Port::Gateway).with_patience(Duration::from_secs(30));
        let ended = self.host.block_on(async {
            let waiting = client.call("agent.wait", json!({ "runId": run, "timeoutMs": 86_400_000 }));
            tokio::pin!(waiting);
            loop {
                tokio::select! {
                    ended = &mut waiting => break ended,
                    () = tokio::time::sleep(Duration::from_millis(5)) => self.host.clock.advance(step),
                }
            }
        });
        ended.unwrap_or_else(|error| panic!("the run {run} does not end: {error}"))
    }

    fn reply(&self, text: &str) -> String {
        reply_of(&self.ended(&self.send(text)))
    }

    fn reply_in_time(&self, text: &str) -> String {
        reply_of(&self.ended_in_time(&self.send(text)))
    }

    /// Why a message comes to no reply.
    fn error(&self, text: &str) -> String {
        error_of(&self.ended(&self.send(text)))
    }

    fn error_in_time(&self, text: &str) -> String {
        error_of(&self.ended_in_time(&self.send(text)))
    }

    fn abort(&self, run: &str) {
        let aborted = self.host.call("chat.abort", json!({ "sessionKey": MAIN, "runId": run })).expect("answered");
        assert_eq!(aborted["runIds"], json!([run]), "{aborted}");
        let ended = self.ended(run);
        assert_eq!((&ended["status"], &ended["error"]), (&json!("error"), &json!("aborted")), "{ended}");
    }

    fn session(&self) -> Value {
        self.host.call("sessions.describe", json!({ "key": MAIN })).expect("answered")["session"].clone()
    }

    fn history(&self) -> Vec<Value> {
        let history = self.host.call("chat.history", json!({ "sessionKey": MAIN })).expect("answered");
        history["messages"].as_array().expect("rows").clone()
    }

    /// The history, one line a row: `user: hello`.
    fn talk(&self) -> Vec<String> {
        self.history().iter().map(line).collect()
    }
}

fn reply_of(ended: &Value) -> String {
    assert_eq!(ended["status"], "ok", "{ended}");
    ended["terminalReply"]["text"].as_str().expect("a reply").to_owned()
}

fn error_of(ended: &Value) -> String {
    assert_eq!(ended["status"], "error", "{ended}");
    ended["error"].as_str().expect("a reason").to_owned()
}

#[test]
fn the_provider_of_the_tests_refuses_what_vendors_refuse() {
    let server = ModelServer::start();
    let check = |path: &str, headers: &str, body: &Value, expected: &str| {
        let body = body.to_string();
        let length = body.len();
        let mut raw = RawHttp::connect(server.address());
        raw.send(format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n{body}"));
        assert_eq!(raw.read_status(), format!("HTTP/1.1 {expected}"), "{path} {headers} {body}");
    };
    let messages = json!([{ "role": "user", "content": "hello" }]);
    let good = json!({ "model": MODEL, "max_tokens": 5, "stream": true, "messages": messages });
    let whole = json!({ "model": MODEL, "max_tokens": 5, "stream": false, "messages": messages });
    let json = "content-type: application/json\r\n";
    let anthropic = format!("{json}anthropic-version: 2023-06-01\r\nx-api-key: {KEY}\r\n");
    let openai = format!("{json}authorization: Bearer {KEY}\r\n");
    for (wire, headers) in [(Wire::Anthropic, &anthropic), (Wire::OpenAi, &openai)] {
        check(wire.path(), headers, &good, "200 OK");
        check(wire.path(), headers, &whole, "400 Refused");
        check(wire.path(), json, &good, "401 Refused");
        check("/v1/elsewhere", headers, &good, "404 Refused");
    }
    assert_eq!(server.count(), 8);
}

#[test]
fn a_streamed_answer_arrives_whole_and_its_tokens_are_counted() {
    let text = "날씨를 확인할게요 🌤.\nIt comes in pieces, and is cut within a character.";
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        team.server.reply(Reply::text(text));
        assert_eq!(team.reply("hello"), text);
        assert_eq!(team.talk(), ["user: hello".to_owned(), format!("assistant: {text}")]);
        let check = |answers: u64| {
            let session = team.session();
            let counted = ["inputTokens", "outputTokens", "totalTokens"].map(|key| session[key].as_u64());
            let expected = [answers * PROMPT_TOKENS, answers * ANSWER_TOKENS, PROMPT_TOKENS + ANSWER_TOKENS];
            assert_eq!(counted, expected.map(Some), "{session}");
            assert_eq!((&session["modelProvider"], &session["model"]), (&json!(wire.kind()), &json!(MODEL)));
        };
        check(1);
        assert_eq!(team.reply("and again"), "ok");
        check(2);
    }
}

#[test]
fn a_tool_is_called_and_its_result_goes_back_in_the_vendors_format() {
    let args = json!({ "path": "notes/a.md", "content": "안녕" });
    let result = json!({ "success": true, "path": "notes/a.md", "bytes": 6 }).to_string();
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        team.server.reply(Reply::text("I note it.").and_call("files_write", args.clone()));
        team.server.reply(Reply::text("Done."));
        assert_eq!(team.reply("note it"), "Done.");
        assert_eq!(fs::read_to_string(team.workspace().join("notes/a.md")).expect("written"), "안녕");
        let expected = match wire {
            Wire::Anthropic => json!([
                { "role": "user", "content": [{ "type": "text", "text": "note it" }] },
                { "role": "assistant", "content": [
                    { "type": "text", "text": "I note it." },
                    { "type": "tool_use", "id": "toolu_1", "name": "files_write", "input": args },
                ] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_1", "content": result }] },
            ]),
            Wire::OpenAi => {
                let function = json!({ "name": "files_write", "arguments": args.to_string() });
                let call = json!({ "id": "call_1", "type": "function", "function": function });
                json!([
                    { "role": "user", "content": "note it" },
                    { "role": "assistant", "content": "I note it.", "tool_calls": [call] },
                    { "role": "tool", "tool_call_id": "call_1", "content": result },
                ])
            }
        };
        assert_eq!(json!(team.server.request(2).messages()), expected);
        let roles: Vec<Value> = team.history().iter().map(|row| row["role"].clone()).collect();
        assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"]);
    }
}

#[test]
fn every_call_of_an_answer_gets_its_result_and_a_failed_one_says_so() {
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        team.server.reply(Reply::call("files_list", json!({})).and_call("no_such_tool", json!({ "a": 1 })));
        assert_eq!(team.reply("look around"), "ok");
        let messages = team.server.request(2).messages();
        let (listed, failed, is_marked) = match wire {
            Wire::Anthropic => {
                let results = &messages[2]["content"];
                (&results[0]["content"], &results[1]["content"], results[1]["is_error"] == true)
            }
            Wire::OpenAi => {
                let said = messages[3]["content"].as_str().expect("a text");
                (&messages[2]["content"], &messages[3]["content"], said.starts_with("error: "))
            }
        };
        let has = |result: &Value, part: &str| result.as_str().is_some_and(|text| text.contains(part));
        assert!(has(listed, "\"success\":true"), "{messages:?}");
        assert!(has(failed, "Tool not available: no_such_tool") && is_marked, "{messages:?}");
    }
}

#[test]
fn a_provider_that_asks_for_time_gets_it_before_it_is_asked_again() {
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        team.server.reply(Reply::busy(7));
        team.server.reply(Reply::status(500, "Internal server error"));
        team.server.reply(Reply::text("Now."));
        let run = team.send("hello");
        team.server.request(1);
        let begun = team.host.clock.elapsed();
        let asked = |times: usize| {
            let look = || (team.server.count() >= times).then(|| team.host.clock.elapsed());
            team.host.eventually("it is asked again", look)
        };
        let second = asked(2);
        assert!(second - begun >= Duration::from_secs(7), "after {:?}", second - begun);
        // One step of the clock may lie between a request and the look at it.
        let third = asked(3);
        assert!(third - second >= Duration::from_millis(900), "after {:?}", third - second);
        assert_eq!(reply_of(&team.ended_in_time(&run)), "Now.");
        assert_eq!(team.talk(), ["user: hello", "assistant: Now."]);
    }
}

#[test]
fn what_may_pass_is_asked_again_and_then_given_up_with_its_cause() {
    for wire in Wire::BOTH {
        let team = Team::start_with(wire, |config| config["providers"][wire.kind()]["retries"] = json!(2));
        let check = |reply: Reply, said: &str| {
            let before = team.server.count();
            team.server.otherwise(reply);
            let error = team.error_in_time("hello");
            assert!(error.starts_with(said), "{error}");
            assert_eq!(team.server.count(), before + 3, "{said}");
        };
        check(Reply::status(500, "Internal server error"), "the provider answered 500: Internal server error");
        check(Reply::status(529, "Overloaded"), "the provider answered 529: Overloaded");
        check(Reply::busy(1), "the provider answered 429: slow down");
        let begun = || Reply::text("I was about to say");
        check(begun().then(End::Error("Overloaded")), "the provider failed while it answered: Overloaded");
        check(begun().then(End::Broken), "the answer broke off: ");
        assert_eq!(team.talk(), ["user: hello"; 5], "nothing of a broken answer stays");
        assert_eq!(team.session()["status"], "failed");
    }
}

#[test]
fn a_provider_that_is_not_there_is_named() {
    let team = Team::start_with(Wire::OpenAi, |config| {
        config["providers"]["openai"]["baseUrl"] = json!("http://127.0.0.1:1/v1");
        config["providers"]["openai"]["retries"] = json!(1);
    });
    let error = team.error_in_time("hello");
    assert!(error.starts_with("the provider cannot be reached: "), "{error}");
}

#[test]
fn what_cannot_pass_is_not_asked_again() {
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        let check = |reply: Reply, said: &str| {
            let before = team.server.count();
            team.server.reply(reply);
            assert_eq!(team.error("hello"), said);
            assert_eq!(team.server.count(), before + 1, "{said}");
        };
        let full = "prompt is too long: 210000 tokens > 200000 maximum";
        check(Reply::status(400, full), &format!("the provider answered 400: {full}"));
        check(Reply::status(404, "no such model"), "the provider answered 404: no such model");
        check(Reply::status(403, "no access"), "the provider refused the key (403): no access");
        check(Reply::long(33 * 1024 * 1024), "the provider sent an answer of more than 33554432 bytes");
        assert_eq!(team.talk(), ["user: hello"; 4]);
    }
}

#[test]
fn an_answer_that_breaks_is_asked_for_again_and_nothing_of_it_stays() {
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        let args = json!({ "path": "a.md", "content": "too early" });
        for end in [End::Error("Overloaded"), End::Broken] {
            team.server.reply(Reply::text("I was about").and_call("files_write", args.clone()).then(end));
            team.server.reply(Reply::text("Whole."));
            assert_eq!(team.reply_in_time("hello"), "Whole.");
        }
        assert_eq!(team.talk(), ["user: hello", "assistant: Whole.", "user: hello", "assistant: Whole."]);
        assert_eq!(team.server.count(), 4);
        assert!(!team.workspace().join("a.md").exists(), "a call of a broken answer is not made");
    }
}

#[test]
fn an_answer_too_long_to_keep_ends_its_run_all_the_same() {
    let team = Team::start(Wire::Anthropic);
    team.server.reply(Reply::long(9 * 1024 * 1024));
    let run = team.send("hello");
    team.ended(&run);
    assert_eq!(team.reply("and now?"), "ok", "the session goes on");
}

/// Asks with a wrong key, which the provider repeats, and looks for it wherever something is shown or kept.
fn check_hidden(wire: Wire, secret: &str) {
    let team = Team::start_with(wire, |config| config["providers"][wire.kind()]["key"] = json!(secret));
    let error = team.error("hello");
    assert!(error.starts_with("the provider refused the key (401): Incorrect API key provided: "), "{error}");
    let asked = team.server.request(1);
    assert!(asked.headers.iter().any(|(_, value)| value.ends_with(secret)), "the provider was told");
    assert_eq!(team.server.count(), 1, "a key that was refused is not tried again");
    let shown = json!([error, team.history(), team.session(), team.host.events()]).to_string();
    assert!(!shown.contains(secret), "{shown}");
    let dir = team.host.stop();
    for path in dir.files().iter().filter(|path| *path != "chela.json" && !path.starts_with("plugins/")) {
        let bytes = fs::read(dir.state.path().join(path)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{path} has the key");
    }
}

#[test]
fn a_refused_key_is_not_tried_again_and_never_shown() {
    Wire::BOTH.into_iter().for_each(|wire| check_hidden(wire, "sk-proj-9d1f6b3a70c24e58"));
}

#[test]
fn a_key_that_looks_like_words_is_never_shown_either() {
    check_hidden(Wire::OpenAi, "correct-horse-battery-staple");
}

#[test]
fn a_key_comes_from_a_file_and_what_is_missing_is_named() {
    let dir = TestDir::with_config(|_| {});
    let file = dir.scratch().join("model.key");
    let allow = |mode: u32| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its owner's");
    fs::write(&file, format!("{KEY}\nsecond line\n")).expect("written");
    allow(0o600);
    let key = json!({ "file": file });
    let team = Team::start_in(dir, Wire::Anthropic, |config| config["providers"]["anthropic"]["key"] = key);
    assert_eq!(team.reply("hello"), "ok");
    assert_eq!(team.server.request(1).header("x-api-key"), Some(KEY));
    let check = |said: &str| {
        let error = team.error("hello");
        assert!(error.starts_with("providers.anthropic.key: ") && error.contains(said), "{error}");
    };
    allow(0o644);
    check("everyone can read");
    fs::remove_file(&file).expect("removed");
    check("cannot read");
    let missing = json!({ "env": "CHELA_NO_SUCH_VARIABLE" });
    team.host.dir.edit_config(|config| config["providers"]["anthropic"]["key"] = missing);
    team.host.call("config.reload", json!({})).expect("reloaded");
    check("the environment variable CHELA_NO_SUCH_VARIABLE is not set");
    assert_eq!(team.server.count(), 1, "without a key nobody is asked");
}

#[test]
fn a_provider_that_falls_silent_is_given_up_in_time() {
    for wire in Wire::BOTH {
        let team = Team::start_with(wire, |config| {
            config["providers"][wire.kind()]["silenceTimeoutMs"] = json!(1_000);
            config["providers"][wire.kind()]["retries"] = json!(0);
        });
        team.server.reply(Reply::text("I was about").then(End::Stalled));
        assert_eq!(team.error_in_time("hello"), "the provider did not go on with its answer within 1000 ms");
        team.server.reply(Reply::Silent);
        let run = team.send("hello");
        team.server.request(2);
        team.host.clock.advance(Duration::from_secs(121));
        assert_eq!(error_of(&team.ended(&run)), "the provider did not begin its answer within 120000 ms");
        eventually("nobody waits for it any more", || (team.server.open() == 0).then_some(()));
        assert_eq!(team.talk(), ["user: hello", "user: hello"], "nothing of a broken answer stays");
    }
}

#[test]
fn an_abort_ends_a_stalled_answer_and_its_connection() {
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        for stalled in [Reply::Silent, Reply::text("I was about").then(End::Stalled)] {
            team.server.reply(stalled);
            let asked = team.server.count();
            let run = team.send("hello");
            team.server.request(asked + 1);
            team.abort(&run);
            eventually("the connection is closed", || (team.server.open() == 0).then_some(()));
            assert_eq!(team.session()["status"], "killed");
            assert_eq!(team.reply("still there?"), "ok", "the session goes on");
        }
    }
}

#[test]
fn a_stalled_model_holds_up_no_other_session() {
    let team = Team::start(Wire::Anthropic);
    team.server.when("stall", Reply::text("I was about").then(End::Stalled));
    let stalled = team.send("please stall");
    team.server.request(1);
    let behind = team.send("behind it");
    for session in ["agent:ruda:other", "agent:eden:main"] {
        assert_eq!(reply_of(&team.ended(&team.send_to(session, "hello"))), "ok");
    }
    let history = team.host.call("chat.history", json!({ "sessionKey": MAIN })).expect("answered");
    assert_eq!(history["pendingInputs"]["items"][0]["runId"], json!(behind), "its own session waits");
    team.abort(&stalled);
    assert_eq!(reply_of(&team.ended(&behind)), "ok");
}

#[test]
fn models_to_fall_back_to_are_asked_in_their_order() {
    let team = Team::start_with(Wire::Anthropic, |config| {
        Wire::BOTH.into_iter().for_each(|wire| config["providers"][wire.kind()]["retries"] = json!(0));
        config["agents"]["fallbacks"] = json!(["openai/second", "anthropic/third"]);
    });
    team.server.reply(Reply::status(529, "Overloaded"));
    team.server.reply(Reply::text("I was about").then(End::Broken));
    team.server.reply(Reply::text("From the third."));
    assert_eq!(team.reply("hello"), "From the third.");
    assert_eq!(team.talk(), ["user: hello", "assistant: From the third."]);
    let asked: Vec<Value> =
        team.server.requests().iter().map(|asked| json!([asked.path, asked.json["model"]])).collect();
    let (anthropic, openai) = (Wire::Anthropic.path(), Wire::OpenAi.path());
    assert_eq!(json!(asked), json!([[anthropic, MODEL], [openai, "second"], [anthropic, "third"]]));
    assert_eq!(team.session()["model"], "third");
    for said in ["one", "two", "three"] {
        team.server.reply(Reply::status(500, said));
    }
    assert_eq!(team.error("again"), "the provider answered 500: three");
    assert_eq!(team.server.request(4).json["model"], MODEL, "each run begins with the first");
}

#[test]
fn a_greeting_is_a_small_request_with_the_agents_own_instructions_and_role() {
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        fs::write(team.workspace().join("AGENTS.md"), "Speak like a crab: 집게.\n").expect("written");
        team.reply("hello");
        let asked = team.server.request(1);
        assert!(asked.bytes.len() < 8_192, "{} bytes", asked.bytes.len());
        assert_eq!(asked.talk(), ["user: hello"]);
        let (system, tools) = (asked.system(), asked.tools());
        for part in
            ["You are Ruda, agent `ruda`", "role orchestrator", "eden (Eden, worker)", "Speak like a crab: 집게."]
        {
            assert!(system.contains(part), "{part:?} in {system}");
        }
        for name in ["task_start", "files_write", "sessions_send", "tool_describe", "tool_call"] {
            assert!(tools.iter().any(|tool| tool == name), "{name} in {tools:?}");
        }
    }
}

#[test]
fn what_was_said_before_is_in_the_next_request_of_that_session_alone() {
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        team.server.reply(Reply::text("One."));
        team.reply("first");
        team.reply("second");
        assert_eq!(team.server.request(2).talk(), ["user: first", "assistant: One.", "user: second"]);
        team.ended(&team.send_to("agent:ruda:other", "third"));
        assert_eq!(team.server.request(3).talk(), ["user: third"]);
    }
}

#[test]
fn a_run_that_calls_tools_for_ever_ends_at_its_limit_of_steps() {
    for wire in Wire::BOTH {
        let team = Team::start_with(wire, |config| config["agents"]["list"][0]["limits"] = json!({ "steps": 3 }));
        team.server.otherwise(Reply::call("files_list", json!({})));
        assert_eq!(team.error("look"), "the run took 3 steps, which is as many as may (`limits.steps`)");
        assert_eq!(team.server.count(), 3);
        team.server.otherwise(Reply::text("ok"));
        assert_eq!(team.reply("and now?"), "ok", "the next run counts anew");
    }
}

/// Talks until the window is full, after a first answer of the model, and looks at what is left of it.
fn check_summed_up(wire: Wire, first: Reply) {
    let team = Team::start_with(wire, |config| {
        let model = json!({ "id": MODEL, "contextWindow": 8_000, "maxTokens": 500 });
        config["providers"][wire.kind()]["models"] = json!([model]);
        config["agents"]["list"][0]["tools"] = json!(["files_list"]);
    });
    team.server.when("Summarise this conversation", Reply::text("They spoke of crabs."));
    team.server.reply(first);
    let long = "crab ".repeat(980);
    let is_summary = |row: &Value| row["__openclaw"]["kind"] == "compaction";
    let said = (1..9).find(|nth| {
        team.reply(&format!("{nth} {long}"));
        team.history().iter().any(is_summary)
    });
    let said = said.expect("the window is full after a few messages");
    let summary = team.history().into_iter().find(is_summary).expect("a row of its own");
    assert_eq!(line(&summary), "system: They spoke of crabs.");
    let requests = team.server.requests();
    let [.., before, asked, after] = requests.as_slice() else { panic!("more than two requests") };
    assert!(asked.talk().iter().any(|text| text.contains("user: 1 crab")), "all of it is summed up");
    let expected = format!("user: [Summary of the conversation so far]\nThey spoke of crabs.\n\n{said} {long}");
    assert_eq!(after.talk(), [expected]);
    assert!(after.bytes.len() < before.bytes.len(), "{} after {}", after.bytes.len(), before.bytes.len());
}

#[test]
fn a_window_that_is_full_is_summed_up_for_all_to_see() {
    Wire::BOTH.into_iter().for_each(|wire| check_summed_up(wire, Reply::text("ok")));
}

#[test]
fn a_conversation_with_calls_of_tools_is_summed_up_too() {
    Wire::BOTH.into_iter().for_each(|wire| check_summed_up(wire, Reply::call("files_list", json!({}))));
}

#[test]
fn a_conversation_is_summed_up_on_demand() {
    for wire in Wire::BOTH {
        let team = Team::start(wire);
        let compact = || team.host.call("sessions.compact", json!({ "key": MAIN }));
        assert_eq!(compact().expect("answered")["compacted"], false, "nothing was said");
        team.reply("crabs walk sideways");
        team.server.reply(Reply::status(400, "no"));
        assert!(compact().is_err(), "what the model refuses is told");
        team.server.when("Summarise this conversation", Reply::text("They spoke of crabs."));
        assert_eq!(compact().expect("summed up"), json!({ "ok": true, "key": MAIN, "compacted": true }));
        assert_eq!(compact().expect("answered")["compacted"], false, "nothing new was said");
        team.reply("and then?");
        let last = team.server.requests().pop().expect("asked");
        assert_eq!(last.talk(), ["user: [Summary of the conversation so far]\nThey spoke of crabs.\n\nand then?"]);
        let summaries = team.history().iter().filter(|row| row["__openclaw"]["kind"] == "compaction").count();
        assert_eq!(summaries, 1, "a row of its own");
    }
}

#[test]
fn a_model_that_is_fallen_back_to_gets_what_fits_its_own_window() {
    let team = Team::start_with(Wire::Anthropic, |config| {
        let model = |id: &str, window: u64| json!({ "id": id, "contextWindow": window, "maxTokens": 500 });
        config["providers"]["anthropic"]["models"] =
            json!([model(MODEL, 100_000), model("tiny", 1_000), model("narrow", 8_000)]);
        config["providers"]["anthropic"]["retries"] = json!(0);
        config["agents"]["fallbacks"] = json!(["anthropic/tiny", "anthropic/narrow"]);
        config["agents"]["list"][0]["tools"] = json!(["files_list"]);
    });
    let long = "crab ".repeat(980);
    for nth in 1..6 {
        team.reply(&format!("{nth} {long}"));
    }
    team.server.reply(Reply::status(529, "Overloaded"));
    team.reply(&format!("6 {long}"));
    let requests = team.server.requests();
    let [.., first, second] = requests.as_slice() else { panic!("more than two requests") };
    assert_eq!((&first.json["model"], &second.json["model"]), (&json!(MODEL), &json!("narrow")), "not the tiny one");
    let has = |talk: Vec<String>, nth: u32| talk.iter().any(|text| text.contains(&format!("{nth} crab")));
    assert!(has(first.talk(), 1) && has(first.talk(), 6));
    assert!(!has(second.talk(), 1) && has(second.talk(), 6));
}
