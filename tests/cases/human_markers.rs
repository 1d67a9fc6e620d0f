//! `[NEED_HUMAN: …]` in what agents write: who may, what counts, and that nobody ever sees one.

use serde_json::{Value, json};
use support::TestHost;
use support::models::{ModelServer, Reply, Wire};

/// A gateway whose team is answered by a server of the test.
fn team(server: &ModelServer) -> TestHost {
    let provider = server.provider(Wire::Anthropic);
    TestHost::start_with(|config| {
        let model = provider["models"][0]["id"].as_str().expect("a model").to_owned();
        config["providers"] = json!({ "test": provider });
        config["agents"]["model"] = json!(format!("test/{model}"));
    })
}

#[test]
fn only_an_orchestrator_is_told_how_to_ask_people() {
    let server = ModelServer::start();
    let host = team(&server);
    host.dir.edit_config(|config| {
        let list = config["agents"]["list"].as_array_mut().expect("agents");
        list.push(json!({ "id": "mina", "role": "agent" }));
    });
    host.call("config.reload", json!({})).expect("taken");
    for (nth, (agent, told)) in [("ruda", true), ("eden", false), ("mina", false)].into_iter().enumerate() {
        host.ask(agent, "hello");
        let asked = server.request(nth + 1);
        let (system, tools) = (asked.system(), asked.bytes.clone());
        assert_eq!(system.contains("[NEED_HUMAN: <question>]"), told, "{agent}: {system}");
        let shown = String::from_utf8_lossy(&tools).contains("ask_human");
        assert_eq!(shown, told, "{agent} and the tool");
    }
}

#[test]
fn what_an_orchestrator_writes_asks_as_far_as_it_is_well_formed() {
    let hundred: String = (1..=100).map(|n| format!("[NEED_HUMAN: number {n}?]\n")).collect();
    let long = format!("[NEED_HUMAN: {}]", "x".repeat(2_100));
    let cases: [(&str, &[&str], &str); 12] = [
        ("Hello.\n[NEED_HUMAN: Which port?]", &["Which port?"], "Hello."),
        ("[NEED_HUMAN: a[0] or [b]?]", &["a[0] or [b]?"], ""),
        ("[NEED_HUMAN: one?]\nand\n[NEED_HUMAN: two?]", &["one?", "two?"], "and"),
        ("[NEED_HUMAN: over\ntwo lines?]", &["over\ntwo lines?"], ""),
        ("```\n[NEED_HUMAN: in code?]\n```", &[], "```\n[NEED_HUMAN: in code?]\n```"),
        ("> [NEED_HUMAN: quoted?]", &[], "> [NEED_HUMAN: quoted?]"),
        ("Write [NEED_HUMAN: x] to ask.", &[], "Write [NEED_HUMAN: x] to ask."),
        ("[NEED_HUMAN: never closed", &[], "[NEED_HUMAN: never closed"),
        ("[NEED_HUMAN:  ]", &[], "[NEED_HUMAN:  ]"),
        ("[NEED_HUMAN no colon]", &[], "[NEED_HUMAN no colon]"),
        (&long, &[], &long),
        (&hundred, &["number 1?", "number 2?", "number 3?", "number 4?", "number 5?"], ""),
    ];
    for (text, questions, visible) in cases {
        let server = ModelServer::start();
        let host = team(&server);
        server.reply(Reply::text(text));
        let ended = host.ask("ruda", "go");
        let rows = host.history("agent:ruda:main");
        let shown = rows.last().expect("an answer")["content"].as_array().expect("parts").clone();
        let plain: Vec<&Value> = shown.iter().filter(|part| part.get("humanQuery").is_none()).collect();
        assert_eq!(plain.first().map_or("", |part| part["text"].as_str().expect("text")), visible, "{text:?}");
        if questions.is_empty() {
            assert!(host.questions().is_empty(), "{text:?}");
            continue;
        }
        let question = host.asked(1).remove(0);
        assert_eq!(question["questions"], json!(questions), "{text:?}");
        let reply = ended["terminalReply"]["text"].as_str().expect("a reply");
        assert!(reply.contains(questions[0]) && !reply.contains("NEED_HUMAN"), "old clients read it: {reply:?}");
        if questions.len() > 1 {
            assert!(question["question"].as_str().expect("text").starts_with("1. "), "{question}");
        }
        let left_out = if text == hundred { 95 } else { 0 };
        assert_eq!(question["leftOut"], left_out, "the rest is told");
        host.ask("ruda", "what did you ask?");
    }
}

#[test]
fn the_model_reads_its_own_question_again_as_it_wrote_it() {
    let server = ModelServer::start();
    let host = team(&server);
    server.reply(Reply::text("Hello.\n[NEED_HUMAN: Which port?]"));
    host.ask("ruda", "go");
    host.asked(1);
    host.ask("ruda", "8080");
    let talk = server.request(2).talk();
    assert_eq!(talk[..2], ["user: go", "assistant: Hello.\n[NEED_HUMAN: Which port?]"]);
    assert!(talk[2].contains("The answer of a person (owner)") && talk[2].ends_with("8080"), "{talk:?}");
}

#[test]
fn whoever_reads_along_never_sees_a_marker_nor_a_piece_of_one() {
    let script = r#"{ rules: [{ when: "go", steps: [
        { say: "First I looked around for a while.\n[NEED_HUMAN: Which of the two [ports] is it to be?]\nThen I wait." } ] }] }"#;
    let host = TestHost::scripted(script);
    let mut talk = host.connect();
    talk.request("chat.send", json!({ "sessionKey": "agent:ruda:main", "message": "go", "idempotencyKey": "k" }))
        .expect("sent");
    let heard = talk.until_over("k");
    let mut texts = Vec::new();
    for (name, payload) in &heard {
        let text = match name.as_str() {
            "agent" if payload["stream"] == "assistant" => payload["data"]["text"].as_str(),
            "chat" if payload["state"] == "delta" => payload["message"]["content"][0]["text"].as_str(),
            _ => None,
        };
        texts.extend(text.map(str::to_owned));
        let said = payload.to_string();
        assert!(!said.contains("NEED_H"), "{name}: {said}");
        assert!(payload["data"].get("replace").is_none() && payload.get("replace").is_none(), "nothing is taken back");
    }
    assert!(texts.len() > 10, "it came in pieces: {texts:?}");
    assert!(
        texts
            .iter()
            .all(|text| !text.contains('[')
                && "First I looked around for a while.\nThen I wait.".starts_with(text.as_str())),
        "{texts:#?}"
    );
    let last = &heard.last().expect("the end").1["message"]["content"][0];
    assert_eq!(last["humanQuery"]["questions"], json!(["Which of the two [ports] is it to be?"]));
    assert_eq!(last["text"], "First I looked around for a while.\nThen I wait.\nWhich of the two [ports] is it to be?");
}

const WORKERS: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "may not ask", steps: [{ say: "I see." }] },
    { agent: "ruda", when: "delegate", steps: [
        { call: { tool: "sessions_send", args: { agentId: "eden", message: "stuck?", timeoutSeconds: 30 } } }, { say: "done" } ] },
    { agent: "eden", when: "stuck", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
  ], otherwise: "You said: {{input}}" }"#;

#[test]
fn a_workers_marker_goes_to_its_orchestrator_and_asks_nobody_else() {
    let host = TestHost::scripted(WORKERS);
    host.ask("eden", "are you stuck");
    host.eventually("the orchestrator is told", || {
        let said = host.said("agent:ruda:main");
        said.iter().any(|line| line.contains("may not ask people") && line.contains("Which port?")).then_some(())
    });
    let jobs = host.call("jobs.list", json!({})).expect("jobs")["jobs"].as_array().expect("jobs").clone();
    assert_eq!((jobs.len(), &jobs[0]["sessionKey"]), (1, &json!("agent:eden:main")), "once: {jobs:#?}");
    assert!(host.questions().is_empty() && host.dir.event_types_of("human_query").is_empty());
    assert!(
        host.said("agent:eden:main").contains(&"assistant: [NEED_HUMAN: Which port?]".to_owned()),
        "to a worker it is text"
    );
}

#[test]
fn a_marker_in_an_answer_that_the_orchestrator_reads_anyway_is_not_sent_again() {
    let host = TestHost::scripted(WORKERS);
    host.ask("ruda", "delegate");
    host.eventually("the exchange is over", || {
        let jobs = host.call("jobs.list", json!({})).expect("jobs")["jobs"].as_array().expect("jobs").clone();
        (jobs.len() == 1 && !jobs[0]["finishedAt"].is_null()).then_some(())
    });
    let said = host.said("agent:ruda:main");
    assert!(said.iter().any(|line| line == "user: [NEED_HUMAN: Which port?]"), "the reply itself: {said:#?}");
    assert!(!said.iter().any(|line| line.contains("may not ask people")), "{said:#?}");
    assert!(host.questions().is_empty(), "another's words are no question of its own");
}
