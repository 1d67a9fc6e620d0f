//! People in a chat network and agents talk: in, out, back to the right place, once each.

use serde_json::{Value, json};
use support::chat::{Chat, relay};
use support::{TestHost, eventually};

const SCRIPT: &str = r#"{ rules: [
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "so it is" }] },
    { agent: "ruda", when: "ask me", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "who builds", steps: [{ say: "@seum, please build it." }] },
    { agent: "seum", when: "please build it", steps: [{ say: "built" }] },
    { when: "the exchange is over", steps: [{ say: "It is built." }] },
    { agent: "ruda", when: "have it counted", steps: [
        { call: { tool: "sessions_spawn", args: { task: "count the files" } } }, { say: "It is being counted." }] },
    { when: "count the files", steps: [{ say: "there are twelve" }] },
    { agent: "ruda", when: "there are twelve", steps: [{ say: "Twelve files, they say." }] },
    { when: "be silent", steps: [{ say: "NO_REPLY" }] },
    { agent: "ruda", when: "open the shop", steps: [
        { call: { tool: "sessions_send", args: { agentId: "seum", message: "deploy the shop", timeoutSeconds: 0 } } }, { say: "It is on its way." }] },
    { agent: "seum", when: "deploy the shop", steps: [
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "the shop has no name", timeoutSeconds: 0 } } }, { say: "I wait for the name." }] },
    { agent: "ruda", when: "the shop has no name", steps: [{ say: "I ask whoever wants it.\n[NEED_HUMAN: What is it called?]" }] },
    { when: "fail now", steps: [{ fail: { kind: "auth", message: "the key is wrong" } }] },
  ], otherwise: "heard" }"#;

#[test]
fn a_message_is_answered_where_it_was_written_and_once() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.message(1, "hello");
    chat.message(1, "hello");
    host.eventually("the answer is there", || (!chat.delivered().is_empty()).then_some(()));
    chat.message(2, "be silent");
    chat.send(json!({ "op": "message", "id": "m3", "seq": 3, "text": "and here", "target": "channel:9:thread:4" }));
    host.eventually("the next is answered", || (chat.heard("deliver").len() == 2).then_some(()));
    let sent = chat.heard("deliver");
    let of = |frame: &Value| {
        [&frame["text"], &frame["target"], &frame["replyTo"]]
            .map(|value| value.as_str().map(str::to_owned).expect("a text"))
    };
    assert_eq!(of(&sent[0]), ["heard", "channel:7", "m1"]);
    assert_eq!(of(&sent[1]), ["heard", "channel:9:thread:4", "m3"]);
    let rows = host.eventually("the silent one is there", || {
        let rows = host.history("agent:ruda:relay:channel:7");
        rows.iter().any(|row| row["content"].to_string().contains("be silent")).then_some(rows)
    });
    assert_eq!(rows.iter().filter(|row| row["role"] == "user").count(), 2, "{rows:#?}");
    assert!(!host.history("agent:ruda:relay:channel:9:thread:4").is_empty());
    host.eventually("it is seen that somebody works", || {
        let typing = chat.heard("typing");
        (typing.iter().any(|frame| frame["typing"] == true) && typing.last()?["typing"] == false).then_some(())
    });
    host.eventually("all is counted", || {
        let view = host.channel("relay");
        (view["received"] == 3 && view["delivered"] == 2 && view["undelivered"] == 0).then_some(())
    });
    assert_eq!(chat.opened().len(), 1);
}

#[test]
fn what_is_not_meant_for_an_agent_is_left_alone() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.send(json!({ "op": "message", "id": "a", "seq": 1, "text": "aside", "aside": true }));
    chat.send(json!({ "op": "message", "id": "c", "seq": 3, "text": "in private", "target": "direct:55" }));
    host.eventually("what is meant is answered", || (chat.delivered().len() == 1).then_some(()));
    assert_eq!(chat.heard("deliver")[0]["target"], "direct:55");
    assert!(!host.history("agent:ruda:direct:55").is_empty());
    assert!(host.history("agent:ruda:relay:channel:7").is_empty());
}

#[test]
fn a_program_that_the_adapter_listens_to_is_answered_for_a_while() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    let say = |n: u64, bot: bool| {
        chat.send(json!({ "op": "message", "id": format!("m{n}"), "seq": n, "text": "again", "bot": bot }));
    };
    (1..=12).for_each(|n| say(n, true));
    host.eventually("it is told that it is enough", || {
        let told = host.told("channel.refused");
        told.iter().any(|told| told["reason"].to_string().contains("messages of programs")).then_some(())
    });
    host.eventually("ten are answered", || (chat.delivered().len() == 10).then_some(()));
    say(13, false);
    host.eventually("a person is", || (chat.delivered().len() == 11).then_some(()));
    say(14, true);
    host.eventually("and then the program is again", || (chat.delivered().len() == 12).then_some(()));
    assert_eq!(host.channel("relay")["received"], 12);
}

#[test]
fn an_agent_that_mentions_another_in_a_channel_begins_a_job_whose_end_is_told_there() {
    let chat = Chat::start();
    let host = TestHost::scripted_with(SCRIPT, |file| {
        file["channels"]["relay"] = relay(&chat, json!({}));
        // What a worker has to tell goes to its orchestrator, and to nobody else.
        file["agents"]["list"][2]["role"] = json!("agent");
    });
    host.channel_is("relay", "ready");
    chat.message(1, "who builds it?");
    let routed = host.eventually("a job began", || host.told("a2a.auto_route").pop());
    assert_eq!((&routed["fromAgent"], &routed["toAgent"]), (&json!("ruda"), &json!("seum")), "{routed}");
    host.eventually("its end is told where people talk", || (chat.delivered().len() == 2).then_some(()));
    assert_eq!(chat.heard("deliver")[1]["target"], "channel:7");
    assert_eq!(host.told("a2a.auto_route").len(), 1);
}

#[test]
fn what_began_in_a_direct_message_ends_there() {
    let chat = Chat::start();
    let host = TestHost::scripted_with(SCRIPT, |file| {
        file["channels"]["relay"] = relay(&chat, json!({}));
        file["agents"]["list"][2]["role"] = json!("agent");
    });
    host.channel_is("relay", "ready");
    let ask = json!({ "op": "message", "id": "m1", "seq": 1, "text": "who builds it?", "target": "direct:55" });
    chat.send(ask);
    host.eventually("its end is told to who asked", || (chat.delivered().len() == 2).then_some(()));
    assert_eq!(chat.delivered()[1], "built");
    assert_eq!(chat.heard("deliver")[1]["target"], "direct:55");
}

#[test]
fn what_is_said_to_the_result_of_a_sub_agent_is_told_where_it_was_begun() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.message(1, "have it counted");
    host.eventually("both are told", || (chat.delivered().len() == 2).then_some(()));
    assert_eq!(chat.delivered(), ["It is being counted.", "Twelve files, they say."]);
    assert_eq!(chat.heard("deliver")[1]["target"], "channel:7");
}

#[test]
fn a_question_is_shown_in_the_channel_of_its_session_whoever_began_its_run() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.message(1, "hello");
    host.eventually("the session is there", || (chat.delivered() == ["heard"]).then_some(()));
    let say = |key: &str, text: &str| {
        let session = "agent:ruda:relay:channel:7";
        host.call("chat.send", json!({ "sessionKey": session, "message": text, "idempotencyKey": key }))
            .expect("taken");
        host.ended(key);
    };
    say("k1", "hello from the hub");
    say("k2", "ask me");
    let asked = host.eventually("the question is there", || chat.heard("deliver").get(1).cloned());
    assert_eq!((&asked["text"], &asked["target"]), (&json!("Which port?"), &json!("channel:7")), "and nothing else is");
    assert_eq!(asked["question"], host.asked(1)[0]["id"]);
    chat.message(2, "8080");
    host.eventually("it is answered there", || host.questions().is_empty().then_some(()));
    let closed = host.eventually("what asked says so", || chat.heard("edit").first().cloned());
    assert_eq!(closed["text"], "Which port?\n\nAnswered by Mina: 8080");
}

/// What an orchestrator asks for a worker, on the way of something that was wanted in a channel, is asked in a session that has no people.
fn asked_on_the_way(chat: &Chat, target: &str) -> (TestHost, Value) {
    let host = TestHost::with_relay(chat, SCRIPT, json!({}));
    chat.send(json!({ "op": "message", "id": "m1", "seq": 1, "text": "open the shop", "target": target }));
    let asked = host.eventually("the question is there", || {
        chat.heard("deliver").into_iter().find(|delivery| !delivery["question"].is_null())
    });
    assert_eq!((&asked["text"], &asked["target"]), (&json!("What is it called?"), &json!(target)), "and nothing else");
    let question = host.asked(1)[0].clone();
    assert_eq!(asked["question"], question["id"]);
    let rows = host.history("ruda");
    assert!(rows.iter().any(|row| row["content"].to_string().contains("I ask whoever wants it")), "{rows:#?}");
    (host, question)
}

#[test]
fn what_is_asked_on_the_way_of_something_is_asked_where_that_was_wanted() {
    for target in ["direct:55", "channel:7"] {
        let chat = Chat::start();
        let (host, question) = asked_on_the_way(&chat, target);
        // In the session of the place nothing is open, so that this is a message like any other.
        chat.send(json!({ "op": "message", "id": "m2", "seq": 2, "text": "thanks", "target": target }));
        host.eventually("it is heard", || chat.delivered().contains(&"heard".to_owned()).then_some(()));
        assert_eq!(host.questions().len(), 1);
        let answer = json!({ "op": "message", "id": "m3", "seq": 3, "text": "Shell", "target": target, "answers": "" });
        chat.send(answer);
        host.eventually("it is passed on", || chat.delivered().contains(&"Passed on.".to_owned()).then_some(()));
        let closed = host.eventually("what asked says so", || chat.heard("edit").first().cloned());
        assert_eq!(closed["text"], "What is it called?\n\nAnswered by Mina: Shell");
        let given = host.question(question["id"].as_str().expect("an id"))["answer"].clone();
        assert_eq!(given["text"], "Shell", "{given}");
    }
}

#[test]
fn a_failure_is_told_where_it_was_asked() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.message(1, "fail now");
    host.eventually("it is told", || (chat.delivered().len() == 1).then_some(()));
    assert!(chat.delivered()[0].starts_with("This did not work"), "{:?}", chat.delivered());
}

#[test]
fn a_question_that_is_asked_in_a_channel_is_answered_there() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.message(1, "ask me");
    host.eventually("the question is there", || (chat.delivered() == ["Which port?"]).then_some(()));
    host.asked(1);
    chat.message(2, "8080");
    host.eventually("the answer is taken", || (chat.delivered().len() == 2).then_some(()));
    assert_eq!(chat.delivered()[1], "so it is");
    chat.message(3, "ask me again");
    let asked = host.eventually("it is asked again", || chat.heard("deliver").get(2).cloned());
    let id = host.asked(1)[0]["id"].clone();
    assert_eq!(asked["question"], id, "a network may offer a way to answer it");
    chat.send(json!({ "op": "message", "id": "m4", "seq": 4, "text": "9090", "target": "direct:5", "answers": id }));
    host.eventually("it is answered from elsewhere by its name", || (host.questions().is_empty()).then_some(()));
    host.eventually("who answered is told, and who asked goes on", || {
        let told: Vec<Value> = chat.heard("deliver").iter().map(|frame| frame["text"].clone()).collect();
        told.contains(&json!("Passed on.")).then_some(())
    });
    let closed =
        |at: usize| host.eventually("what asked says that it is answered", || chat.heard("edit").get(at).cloned());
    assert_eq!(
        (&closed(0)["text"], &closed(0)["edits"]),
        (&json!("Which port?\n\nAnswered by Mina: 8080"), &json!(["1"]))
    );
    assert_eq!(
        (&closed(1)["text"], &closed(1)["question"]),
        (&json!("Which port?\n\nAnswered by Mina: 9090"), &Value::Null)
    );
    let over = host.call("human.pending", json!({ "all": true })).expect("a list");
    let question = &over["questions"][1];
    assert_eq!((&question["state"], &question["answer"]["text"]), (&json!("answered"), &json!("8080")), "{question:#}");
    assert_eq!(question["answer"]["by"], "Mina");
}

#[test]
fn messages_are_sent_by_operators_tried_again_and_refused_for_good() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.results(json!({ "error": "not now", "retry": true }));
    let send = |key: &str, to: &str| {
        host.call("send", json!({ "to": to, "channel": "relay", "message": key, "idempotencyKey": key }))
    };
    send("first", "channel:7").expect("taken");
    host.eventually("it is tried again", || (chat.heard("deliver").len() == 2).then_some(()));
    host.eventually("it is delivered", || (host.channel("relay")["delivered"] == 1).then_some(()));
    assert_eq!(chat.heard("deliver")[0]["id"], chat.heard("deliver")[1]["id"], "the same delivery");
    chat.results(json!({ "error": "no such place" }));
    send("second", "channel:8").expect("taken");
    let refused = host.eventually("it is told that it was refused", || host.told("channel.refused").pop());
    assert_eq!((&refused["what"], &refused["reason"]), (&json!("delivery"), &json!("no such place")));
    assert_eq!(host.channel("relay")["undelivered"], 0);
    assert!(
        send("x", "nowhere").expect_err("refused")["message"]
            .as_str()
            .expect("words")
            .contains("no place of a channel")
    );
    let unknown =
        host.call("send", json!({ "to": "channel:1", "channel": "none", "message": "x", "idempotencyKey": "k" }));
    assert_eq!(unknown.expect_err("refused")["message"], "unsupported channel: none");
    let old = host.call("channels.status", json!({})).expect("a status");
    assert_eq!(
        (&old["channelOrder"], &old["channelAccounts"]["relay"][0]["connected"]),
        (&json!(["relay"]), &json!(true))
    );
    assert_eq!(host.get("/api/channels").1["channels"][0]["status"], "ready");
}

#[test]
fn a_key_stands_for_one_message_to_one_place_over_restarts_too() {
    let (chat, other) = (Chat::start(), Chat::start());
    let host = TestHost::scripted_with(SCRIPT, |file| {
        file["channels"]["relay"] = relay(&chat, json!({}));
        file["channels"]["other"] = relay(&other, json!({}));
    });
    host.channel_is("relay", "ready");
    host.channel_is("other", "ready");
    let ask = |channel: &str, to: &str| json!({ "to": to, "channel": channel, "message": "a release", "idempotencyKey": "release-1" });
    let first = host.call("send", ask("relay", "channel:7")).expect("taken");
    host.eventually("it is delivered", || (host.channel("relay")["delivered"] == 1).then_some(()));
    assert_eq!(host.call("send", ask("relay", "channel:7")).expect("the same"), first);
    for (channel, to) in [("relay", "channel:8"), ("other", "channel:7")] {
        let refused = host.call("send", ask(channel, to)).expect_err("another place");
        assert_eq!(refused["code"], "INVALID_REQUEST", "{refused}");
        let said = refused["message"].as_str().expect("words").to_owned();
        assert!(said.contains("relay channel:7") && said.contains(&format!("{channel} {to}")), "{said}");
    }
    let dir = host.stop();
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    host.channel_is("relay", "ready");
    assert_eq!(host.call("send", ask("relay", "channel:7")).expect("the same"), first);
    assert_eq!(host.call("send", ask("relay", "channel:8")).expect_err("another place")["code"], "INVALID_REQUEST");
    host.clock.advance(std::time::Duration::from_secs(8 * 86_400));
    host.channel_is("relay", "ready");
    assert_eq!(chat.delivered().len(), 1, "once in all that time");
    host.call("send", ask("relay", "channel:8")).expect("after a week it is a key like any other");
    host.eventually("it is delivered", || (chat.delivered().len() == 2).then_some(()));
}

#[test]
fn what_could_not_be_delivered_is_delivered_after_a_restart() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    (0..6).for_each(|_| chat.results(json!({ "error": "not now", "retry": true })));
    chat.message(1, "hello");
    host.eventually("it is tried", || (!chat.heard("deliver").is_empty()).then_some(()));
    let dir = host.stop();
    let before = chat.heard("deliver").len();
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    assert_eq!(host.channel("relay")["undelivered"], 1);
    host.eventually("it is delivered in the end", || {
        host.clock.advance(std::time::Duration::from_secs(60));
        (host.channel("relay")["undelivered"] == 0).then_some(())
    });
    assert!(chat.heard("deliver").len() > before);
    let hello = eventually("it has said hello again", || chat.heard("hello").get(1).cloned());
    assert_eq!(hello["seq"], 1, "it goes on from its checkpoint");
    chat.message(1, "hello");
    chat.message(2, "more");
    host.eventually("what is new is answered", || {
        chat.heard("deliver").iter().any(|frame| frame["replyTo"] == "m2").then_some(())
    });
    assert_eq!(host.history("agent:ruda:relay:channel:7").iter().filter(|row| row["role"] == "user").count(), 2);
}

#[test]
fn whom_a_person_types_to_is_told_to_go_on_once_that_person_is_done() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    host.begin("ruda", &["choose"]);
    host.say("ruda", "hello");
    assert_eq!(host.planned("ruda").1, 500);
    chat.send(json!({ "op": "types", "target": "channel:7" }));
    chat.send(json!({ "op": "say", "text": "after it" }));
    eventually("the adapter has heard both", || (!chat.heard("said").is_empty()).then_some(()));
    host.pass(500);
    eventually("it is put off", || (host.planned("ruda").1 > 5_000).then_some(()));
    assert!(host.prompts("ruda").is_empty());
    host.pass(10_000);
    eventually("it is told to go on", || (host.prompts("ruda").len() == 1).then_some(()));
}
