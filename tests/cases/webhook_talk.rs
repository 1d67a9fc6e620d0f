//! A program and agents talk by signed webhooks, through the real component: what is not signed, stale or too much is refused.

use serde_json::{Value, json};
use support::webhook::{KEY, Program, call, call_signed, message, sign};
use support::{TestHost, eventually};

const SCRIPT: &str = r#"{ rules: [
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "so it is" }] },
    { agent: "ruda", when: "ask me", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
  ], otherwise: "heard" }"#;

fn host(program: &Program, config: Value) -> TestHost {
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["webhook"] = program.channel(&config));
    goes_by(program, &host);
    host.channel_is("webhook", "ready");
    host
}

/// The program and the gateway have the same time.
fn goes_by(program: &Program, host: &TestHost) {
    let clock = host.clock.clone();
    program.goes_by(move || clock.now().0);
}

fn posted(host: &TestHost, program: &Program, count: usize) -> Vec<Value> {
    host.eventually("the answers are posted", || (program.messages().len() >= count).then_some(()));
    let messages = program.messages();
    assert_eq!(messages.len(), count, "{messages:#?}");
    messages
}

#[test]
fn a_signed_call_is_answered_to_the_address_and_taken_once() {
    let program = Program::start();
    let host = host(&program, json!({ "typing": true }));
    let hello = message(&host, "m1", "hello");
    assert_eq!(call(&host, &hello), (202, json!({ "status": "taken", "id": "m1" })));
    let messages = posted(&host, &program, 1);
    let of = |field: &str| messages[0][field].as_str().unwrap_or_default().to_owned();
    assert_eq!([of("text"), of("target"), of("replyTo")], ["heard", "channel:build", "m1"]);
    assert_eq!(call(&host, &hello), (202, json!({ "status": "known", "id": "m1" })));
    let mut thread = message(&host, "m2", "and here");
    thread["target"] = json!("channel:build:thread:7");
    call(&host, &thread);
    assert_eq!(posted(&host, &program, 2)[1]["target"], "channel:build:thread:7");
    let rows = host.history("agent:ruda:webhook:channel:build");
    assert_eq!(rows.iter().filter(|row| row["role"] == "user").count(), 1, "{rows:#?}");
    assert_eq!((program.unsigned(), program.stale()), (0, 0), "all that went out was signed, and of its time");
    host.eventually("it is told that somebody works", || (program.typed() > 0).then_some(()));
}

#[test]
fn what_is_not_signed_changed_stale_or_ahead_of_time_is_refused() {
    let program = Program::start();
    let host = host(&program, json!({}));
    let good = message(&host, "m1", "hello").to_string();
    let signature = format!("sha256={}", sign(KEY, good.as_bytes()));
    let check = |bytes: &[u8], signature: &str, status: u16, code: &str| {
        let (found, answer) = call_signed(&host, bytes, signature);
        assert_eq!((found, answer["error"]["code"].as_str()), (status, Some(code)), "{answer}");
    };
    check(good.as_bytes(), "", 401, "signature");
    check(good.as_bytes(), &format!("sha256={}", sign("another key", good.as_bytes())), 401, "signature");
    check(good.replace("hello", "hullo").as_bytes(), &signature, 401, "signature");
    let mut stale = message(&host, "m2", "hello");
    stale["at"] = json!(host.clock.now().0 - 301_000);
    assert_eq!(call(&host, &stale).0, 403);
    let mut ahead = message(&host, "m3", "hello");
    ahead["at"] = json!(host.clock.now().0 + 400_000);
    assert_eq!(call(&host, &ahead).0, 403);
    assert_eq!(call(&host, &json!({ "id": "m4" })).0, 400);
    assert_eq!(call_signed(&host, good.as_bytes(), &signature).0, 202, "the good one is taken");
    host.clock.advance(std::time::Duration::from_secs(600));
    assert_eq!(call_signed(&host, good.as_bytes(), &signature).0, 403, "and not again later");
    posted(&host, &program, 1);
    assert_eq!(host.channel("webhook")["received"], 1);
    let told: Vec<Value> = host.told("channel.refused").into_iter().filter(|told| told["what"] == "webhook").collect();
    assert!(told.iter().any(|told| told["reason"].as_str().is_some_and(|said| said.contains("401"))), "{told:#?}");
    assert!(told.iter().any(|told| told["reason"].as_str().is_some_and(|said| said.contains("403"))), "{told:#?}");
    assert!(!format!("{told:?}").contains("hello"), "no word of a body is told");
}

#[test]
fn a_flood_is_refused_and_does_no_harm() {
    let program = Program::start();
    let host = host(&program, json!({ "messagesPerMinute": 20 }));
    let mut taken = 0;
    for n in 0..60 {
        match call(&host, &message(&host, &format!("m{n}"), "hello")).0 {
            202 => taken += 1,
            429 => {}
            other => panic!("{other}"),
        }
    }
    assert!((20..=25).contains(&taken), "{taken}");
    posted(&host, &program, taken);
    assert_eq!(host.channel("webhook")["status"], "ready");
    assert_eq!(host.channel("webhook")["restarts"], 1);
    let told = host.told("channel.refused");
    let floods = told.iter().filter(|told| told["reason"].as_str().is_some_and(|said| said.contains("429"))).count();
    assert_eq!(floods, 1, "told once, however many: {told:#?}");
}

#[test]
fn faults_are_tried_again_in_order_and_refusals_are_for_good() {
    let program = Program::start();
    let host = host(&program, json!({}));
    program.fail_next(2, 503, None);
    call(&host, &message(&host, "m1", "one"));
    call(&host, &message(&host, "m2", "two"));
    let messages = posted(&host, &program, 2);
    assert_eq!([&messages[0]["replyTo"], &messages[1]["replyTo"]], [&json!("m1"), &json!("m2")]);
    program.lose_next_answers(1);
    call(&host, &message(&host, "m3", "three"));
    host.eventually("it is posted again under its id", || (program.repeated() == 1).then_some(()));
    posted(&host, &program, 3);
    assert_eq!(program.needless(), 0, "and nothing whose answer arrived");
    program.fail_next(1, 429, Some(2));
    call(&host, &message(&host, "m4", "four"));
    posted(&host, &program, 4);
    program.fail_next(1, 410, None);
    call(&host, &message(&host, "m5", "five"));
    let refused = host
        .eventually("it is told", || host.told("channel.refused").into_iter().find(|told| told["what"] == "delivery"));
    assert!(refused["reason"].as_str().is_some_and(|said| said.contains("410")), "{refused}");
    host.eventually("nothing waits", || (host.channel("webhook")["undelivered"] == 0).then_some(()));
}

#[test]
fn a_message_that_had_to_wait_is_signed_with_the_time_of_its_try() {
    let program = Program::start();
    let host = host(&program, json!({}));
    program.fail_next(1, 429, Some(900));
    call(&host, &message(&host, "m1", "hello"));
    host.eventually("it is to wait", || (program.fails() == 0).then_some(()));
    host.eventually("that is heard", || (host.channel("webhook")["undelivered"] == 1).then_some(()));
    // Who waits may only have begun to wait after that. While it is posted the time stands still.
    let mut looks = 0;
    eventually("it is posted", || {
        looks += 1;
        if looks % 200 == 40 {
            host.clock.advance(std::time::Duration::from_secs(1_200));
        }
        (program.messages().len() == 1).then_some(())
    });
    assert_eq!(program.stale(), 0);
    // A program whose clock is far off takes nothing, whoever signed it.
    let clock = host.clock.clone();
    program.goes_by(move || clock.now().0 + 400_000);
    call(&host, &message(&host, "m2", "hello"));
    host.eventually("it is refused", || (program.stale() == 1).then_some(()));
    assert_eq!(program.messages().len(), 1);
}

#[test]
fn a_question_goes_out_with_its_id_and_is_answered_by_it() {
    let program = Program::start();
    let host = host(&program, json!({}));
    call(&host, &message(&host, "m1", "ask me"));
    let asked = posted(&host, &program, 1).remove(0);
    let id = host.asked(1)[0]["id"].clone();
    assert_eq!((&asked["question"]["id"], &asked["text"]), (&id, &json!("Which port?")));
    let mut answer = message(&host, "m2", "the answer of a person");
    answer["answers"] = id;
    assert_eq!(call(&host, &answer).0, 202);
    host.eventually("the agent goes on", || {
        program.messages().iter().any(|posted| posted["text"] == "so it is").then_some(())
    });
    assert!(host.questions().is_empty());
}

#[test]
fn a_command_may_name_an_agent_and_is_answered_in_the_deployments_language() {
    let check = |locale: &str, expected: [&str; 4]| {
        let program = Program::start();
        let host = TestHost::scripted_with(SCRIPT, |file| {
            file["channels"]["webhook"] = program.channel(&json!({}));
            file["deployment"]["locale"] = json!(locale);
        });
        goes_by(&program, &host);
        host.channel_is("webhook", "ready");
        host.begin("seum", &["choose"]);
        let asked = [
            json!({ "name": "tasks" }),
            json!({ "name": "tasks", "arguments": { "agent": "seum" } }),
            json!({ "name": "tasks", "arguments": { "agent": "nobody" } }),
            json!({ "name": "questions" }),
        ];
        for (n, (command, expected)) in asked.iter().zip(expected).enumerate() {
            let mut body = message(&host, &format!("c{n}"), "");
            body["command"] = command.clone();
            assert_eq!(call(&host, &body).0, 202, "{command}");
            let said = posted(&host, &program, n + 1).remove(n);
            assert!(said["text"].as_str().is_some_and(|said| said.starts_with(expected)), "{command}: {said}");
        }
    };
    check(
        "en",
        [
            "ruda has no open task.",
            "- OAuth 로그인 구현 (",
            "There is no agent nobody; there are: ruda, ",
            "No question",
        ],
    );
    check(
        "ko",
        ["ruda: 열린 작업이 없습니다.", "- OAuth 로그인 구현 (", "nobody 에이전트는 없습니다.", "여기에는 열린 질문이"],
    );
}

#[test]
fn a_key_that_differs_needs_a_person() {
    let program = Program::start();
    let host = TestHost::scripted_with(SCRIPT, |file| {
        let mut channel = program.channel(&json!({}));
        channel["grants"]["secrets"]["webhook-key"]["value"] = json!("another key");
        file["channels"]["webhook"] = channel;
    });
    goes_by(&program, &host);
    host.channel_is("webhook", "ready");
    let send = json!({ "to": "channel:build", "channel": "webhook", "message": "hi", "idempotencyKey": "k" });
    host.call("send", send).expect("taken");
    host.channel_is("webhook", "needs-auth");
    assert_eq!((program.unsigned(), program.messages().len()), (1, 0));
    assert_eq!(host.channel("webhook")["undelivered"], 1, "it waits for the right key");
}
