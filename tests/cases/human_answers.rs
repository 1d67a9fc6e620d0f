//! Asking by the tool, answers that are none, deadlines, lists; and parameters that nobody should send.

use std::time::Duration;

use serde_json::{Value, json};
use support::TestHost;

const SCRIPT: &str = r#"{ rules: [
    { agent: "ruda", when: "ask twice", steps: [
        { call: { tool: "ask_human", args: { question: "Which port?" } } },
        { call: { tool: "ask_human", args: { question: "Which name?" } } }, { say: "asked" } ] },
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "which way", steps: [{ say: "[NEED_HUMAN: Left or right?]" }] },
  ], otherwise: "You said: {{input}}" }"#;

fn host() -> TestHost {
    TestHost::scripted(SCRIPT)
}

fn ask(host: &TestHost, args: Value) -> String {
    host.done("ruda", "ask_human", args)["id"].as_str().expect("an id").to_owned()
}

fn answer(host: &TestHost, params: Value) -> Result<Value, Value> {
    host.call("human.answer", params)
}

fn restarted(host: TestHost) -> TestHost {
    let now = host.clock.now().0;
    TestHost::start_at(host.stop(), now + 1_000).unwrap_or_else(|(error, _)| panic!("{error}"))
}

#[test]
fn the_tool_asks_like_the_marker_and_only_for_orchestrators() {
    let host = host();
    let task = host.begin("ruda", &["choose"]);
    host.ask("ruda", "ask twice");
    let question = host.asked(1).remove(0);
    assert_eq!(question["questions"], json!(["Which port?", "Which name?"]), "a task has one open question");
    assert_eq!((&question["taskId"], host.task(&task)["blockedKind"].as_str()), (&json!(task), Some("input")));
    let said = host.refused("eden", "ask_human", json!({ "question": "may I?" }));
    assert!(said.contains("only an orchestrator asks people") && said.contains("`ruda`"), "{said}");
    let said = host.refused("ruda", "ask_human", json!({ "question": "x", "taskId": "task_nowhere" }));
    assert!(said.contains("no open task task_nowhere"), "{said}");
    let (status, refused) =
        host.invoke(&json!({ "tool": "ask_human", "args": { "question": "x".repeat(2_001) }, "sessionKey": "ruda" }));
    assert_eq!(status, 400, "{refused}");
    assert!(host.refused("ruda", "ask_human", json!({ "question": "  " })).contains("says nothing"));

    let other = host.begin("eden", &["b"]);
    let id = ask(&host, json!({ "question": "Which colour?", "taskId": other }));
    assert_eq!(host.task(&other)["status"], "blocked", "another's task may be named");
    answer(&host, json!({ "id": id, "answer": "blue" })).expect("taken");
    host.settled(&id);
    assert_eq!(
        (host.task(&other)["status"].as_str(), host.task(&task)["status"].as_str()),
        (Some("in_progress"), Some("blocked"))
    );
    let keyed =
        json!({ "tool": "ask_human", "args": { "question": "once?" }, "sessionKey": "ruda", "idempotencyKey": "q" });
    let (first, second) = (host.invoke(&keyed).1, host.invoke(&keyed).1);
    assert_eq!(first, second, "the same call asks once");
}

#[test]
fn answers_that_are_none_are_refused_and_say_why() {
    let host = host();
    let id = ask(&host, json!({ "question": "Which port?" }));
    let code = |params: Value| {
        let error = answer(&host, params.clone()).expect_err("refused");
        assert_eq!(error["code"], "INVALID_REQUEST", "{params}: {error}");
        (
            error["details"]["code"].as_str().unwrap_or_default().to_owned(),
            error["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(code(json!({ "id": "nothing", "answer": "x" })).0, "UNKNOWN_QUESTION");
    assert_eq!(code(json!({ "taskId": "task_none", "answer": "x" })).0, "UNKNOWN_QUESTION");
    assert_eq!(code(json!({ "runId": "run-of-nobody", "answer": "x" })).0, "UNKNOWN_QUESTION");
    assert_eq!(code(json!({ "id": id, "runId": "run-of-nobody", "answer": "x" })).0, "OTHER_QUESTION");
    assert!(code(json!({ "answer": "x" })).1.contains("say which question"));
    assert!(code(json!({ "id": id, "answer": " \n\t" })).1.contains("empty"));
    assert!(code(json!({ "id": id, "answer": "x".repeat(16_001) })).1.contains("at most 16000"));
    assert_eq!(host.question(&id)["state"], "requested", "none of it has changed anything");

    answer(&host, json!({ "id": id, "answer": "8080" })).expect("the first");
    let (word, said) = code(json!({ "id": id, "answer": "9090" }));
    assert_eq!(word, "QUESTION_ANSWERED");
    assert!(said.contains("by owner") && said.contains("8080"), "{said}");
    assert_eq!(host.settled(&id)["answer"]["text"], "8080", "the first stands");
    let path = format!("/api/human-queries/{id}/answer");
    let post = |path: &str, body: &[u8]| host.request("POST", path, &[], body);
    assert_eq!(post(&path, br#"{"answer":"late"}"#).status, 409);
    assert_eq!(post("/api/human-queries/none/answer", br#"{"answer":"x"}"#).status, 404);
    for body in [&b""[..], b"{", b"[]", b"null", br#"{"answer":1}"#, br#"{"answer":"x","by":"me"}"#, br#"{"text":"x"}"#]
    {
        assert_eq!(post(&path, body).status, 400, "{}", String::from_utf8_lossy(body));
    }
    let huge = format!("{{\"answer\":\"{}\"}}", "x".repeat(300_000));
    assert_eq!(post(&path, huge.as_bytes()).status, 413);
}

#[test]
fn two_who_answer_at_once_are_told_which_was_first() {
    let host = host();
    let id = ask(&host, json!({ "question": "Which port?" }));
    let answers: Vec<_> = (0..8)
        .map(|n| {
            let client = host.client(chela::port::Port::Gateway);
            let params = json!({ "id": id, "answer": format!("answer {n}") });
            host.spawn(async move { client.call("human.answer", params).await.is_ok() })
        })
        .collect();
    let taken =
        answers.into_iter().filter(|_| true).map(|one| host.block_on(one).expect("it ends")).filter(|ok| *ok).count();
    assert_eq!(taken, 1);
    host.settled(&id);
    let heard = || -> Vec<String> {
        host.said("agent:ruda:main").into_iter().filter(|line| line.starts_with("user: answer")).collect()
    };
    host.eventually("the answer is in the transcript", || (!heard().is_empty()).then_some(()));
    assert_eq!(heard().len(), 1, "{:?}", heard());
}

#[test]
fn lists_are_narrowed_and_go_on_where_a_page_ended() {
    let host = host();
    let tasks: Vec<String> = ["eden", "seum"].into_iter().map(|agent| host.begin(agent, &["a"])).collect();
    for (n, task) in tasks.iter().enumerate() {
        ask(&host, json!({ "question": format!("number {n}?"), "taskId": task }));
    }
    let free = ask(&host, json!({ "question": "for nobody?" }));
    let list = |params: Value| host.call("human.pending", params).expect("a list");
    let count = |params: Value| list(params)["questions"].as_array().expect("questions").len();
    assert_eq!(count(json!({})), 3);
    assert_eq!(count(json!({ "agentId": "ruda" })), 3, "who asked");
    assert_eq!(count(json!({ "agentId": "eden" })), 1, "whose task waits");
    assert_eq!(count(json!({ "taskId": tasks[1] })), 1);
    assert_eq!(count(json!({ "runId": "nobody's" })), 0);
    let first = list(json!({ "limit": 2 }));
    let second = list(json!({ "limit": 2, "cursor": first["nextCursor"] }));
    let ids = |page: &Value| {
        page["questions"].as_array().expect("questions").iter().map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((ids(&first).len(), ids(&second).len(), second.get("nextCursor")), (2, 1, None));
    assert!(!ids(&first).contains(&ids(&second)[0]));
    answer(&host, json!({ "id": free, "answer": "x" })).expect("taken");
    assert_eq!((count(json!({})), count(json!({ "all": true }))), (2, 3));
    let (_, document) = host.get("/api/openapi.json");
    let whole = json!({ "$ref": "#/components/schemas/HumanQuery", "components": document["components"] });
    let schema = jsonschema::validator_for(&whole).expect("a schema");
    assert!(schema.is_valid(&host.question(&free)), "as the document says: {}", host.question(&free));
    let (status, page) = host.get("/api/human-queries?limit=1");
    assert_eq!((status, page["humanQueries"].as_array().map(Vec::len)), (200, Some(1)));
    let (_, page) =
        host.get(&format!("/api/human-queries?state=answered,expired&agentId=ruda&cursor={}", "9999999999999:z"));
    assert_eq!(page["humanQueries"][0]["id"], json!(free));
    let old = host.call("question.list", json!({ "agentId": "ruda" })).expect("a list");
    assert_eq!(
        (old["questions"].as_array().map(Vec::len), &old["questions"][0]["status"]),
        (Some(2), &json!("pending"))
    );
    for query in [
        "state=open",
        "cursor=x",
        "limit=0",
        "limit=501",
        "what=1",
        "taskId=",
        "agentId=a,b",
        "state=answered&state=expired",
    ] {
        assert_eq!(host.get(&format!("/api/human-queries?{query}")).0, 400, "{query}");
    }
}

#[test]
fn hostile_parameters_are_refused_before_anything_happens() {
    let host = host();
    let id = ask(&host, json!({ "question": "Which port?" }));
    for (method, params) in [
        ("human.answer", json!({ "id": id, "answer": 5 })),
        ("human.answer", json!({ "id": [id], "answer": "x" })),
        ("human.answer", json!({ "id": "", "answer": "x" })),
        ("human.answer", json!({ "id": "x".repeat(257), "answer": "x" })),
        ("human.answer", json!({ "id": id, "answer": "x", "by": "somebody" })),
        ("human.answer", json!({ "id": "../../chela.json", "answer": "x" })),
        ("human.pending", json!({ "limit": 0 })),
        ("human.pending", json!({ "limit": 501 })),
        ("human.pending", json!({ "limit": -1 })),
        ("human.pending", json!({ "cursor": "nonsense" })),
        ("human.pending", json!({ "all": "yes" })),
        ("human.pending", json!({ "everything": true })),
        ("human.get", json!({ "id": "nope" })),
        ("human.get", json!({})),
        ("task.conversation", json!({ "taskId": "../../chela" })),
        ("task.conversation", json!({ "taskId": "task_x", "cursor": "a.b.c.d" })),
        ("task.conversation", json!({ "taskId": "task_x", "runId": "r" })),
        ("task.conversation", json!({ "taskId": "" })),
    ] {
        let error = host.call(method, params.clone()).expect_err("refused");
        assert_eq!(error["code"], "INVALID_REQUEST", "{method} {params}: {error}");
    }
    assert_eq!(host.question(&id)["state"], "requested");
    assert_eq!(host.get("/api/tasks/..%2F..%2Fchela/conversation").0, 404);
    assert_eq!(host.get("/api/tasks/task_x/conversation?cursor=zz").0, 400);
}

#[test]
fn a_deadline_gives_the_default_answer_once_the_clock_says_so_also_after_a_restart() {
    let host = host();
    let task = host.begin("ruda", &["a"]);
    let id = ask(&host, json!({ "question": "Which port?", "deadlineMinutes": 30, "defaultAnswer": "8080" }));
    host.clock.advance(Duration::from_secs(29 * 60));
    let host = restarted(host);
    assert_eq!(host.asked(1)[0]["state"], "requested");
    host.clock.advance(Duration::from_secs(60));
    let settled = host.settled(&id);
    assert_eq!((&settled["state"], &settled["answer"]["by"]), (&json!("answered"), &json!("deadline")));
    assert_eq!(host.task(&task)["status"], "in_progress");
    let told: Vec<String> =
        host.told_of_task(&task).into_iter().filter(|kind| kind.starts_with("human_query")).collect();
    assert_eq!(told, ["human_query.requested", "human_query.expired", "human_query.answered"]);
    host.eventually("who asked reads it", || host.said("agent:ruda:main").contains(&"user: 8080".into()).then_some(()));
}

#[test]
fn a_deadline_without_an_answer_escalates_once_or_lets_go_as_the_configuration_says() {
    let host = TestHost::scripted_with(SCRIPT, |config| config["human"]["deadlineMinutes"] = json!(10));
    let id = ask(&host, json!({ "question": "Which port?" }));
    host.clock.advance(Duration::from_secs(601));
    host.eventually("it is told", || host.question(&id)["escalatedAt"].is_u64().then_some(()));
    let host = restarted(host);
    host.clock.advance(Duration::from_secs(6_000));
    host.eventually("it stays open", || (host.question(&id)["state"] == "requested").then_some(()));
    let mut seen = std::collections::HashSet::new();
    let told: Vec<Value> = host
        .events()
        .into_iter()
        .filter(|event| event["type"] == "human_query.expired" && seen.insert(event["id"].to_string()))
        .collect();
    assert_eq!((told.len(), &told[0]["data"]["outcome"]), (1, &json!("escalated")));
    answer(&host, json!({ "id": id, "answer": "late, but good" })).expect("it is still open");
    drop(host);

    let host = TestHost::scripted_with(SCRIPT, |config| {
        config["human"] = json!({ "deadlineMinutes": 10, "onDeadline": "expire" })
    });
    let task = host.begin("ruda", &["a"]);
    let id = ask(&host, json!({ "question": "Which port?" }));
    host.clock.advance(Duration::from_secs(601));
    assert_eq!(host.settled(&id)["state"], "expired");
    assert_eq!(host.task(&task)["status"], "in_progress", "it goes on without");
    let error = answer(&host, json!({ "id": id, "answer": "too late" })).expect_err("over");
    assert_eq!(error["details"]["code"], "QUESTION_EXPIRED", "{error}");
}

#[test]
fn a_question_ends_with_its_task_and_a_task_that_is_busy_elsewhere_waits_its_turn() {
    let host = host();
    let task = host.begin("eden", &["a"]);
    let id = ask(&host, json!({ "question": "Which port?", "taskId": task }));
    host.done("eden", "task_cancel", json!({ "task_id": task, "reason": "not wanted" }));
    let settled = host.settled(&id);
    assert_eq!((&settled["state"], &settled["reason"]), (&json!("expired"), &json!("its task is over")));

    let first = host.begin("eden", &["a"]);
    let id = ask(&host, json!({ "question": "Which name?", "taskId": first }));
    let (second, third) = (host.begin("eden", &["b"]), host.begin("eden", &["c"]));
    answer(&host, json!({ "id": id, "answer": "crab" })).expect("taken");
    host.settled(&id);
    assert_eq!(
        (host.task(&first)["status"].as_str(), host.task(&second)["status"].as_str()),
        (Some("pending"), Some("in_progress"))
    );
    host.done("eden", "task_cancel", json!({ "task_id": second }));
    assert_eq!(
        (host.task(&first)["status"].as_str(), host.task(&third)["status"].as_str()),
        (Some("in_progress"), Some("pending")),
        "who has its answer comes first"
    );
}

#[test]
fn the_answer_resumes_a_named_task_in_the_session_that_started_it() {
    let host = host();
    let args = json!({ "description": "name the service", "steps": [{ "content": "choose" }] });
    let started = host.invoke(&json!({ "tool": "task_start", "args": args, "sessionKey": "agent:eden:direct:kim" })).1;
    let task = started["result"]["details"]["taskId"].as_str().expect("a task").to_owned();
    let id = ask(&host, json!({ "question": "Which name?", "taskId": task }));
    answer(&host, json!({ "id": id, "answer": "crab" })).expect("taken");
    host.settled(&id);
    let told = |key: &str| host.history(key).iter().any(|row| chela::sessions::text_of(row).contains("crab"));
    host.eventually("it is told where it is worked on", || told("agent:eden:direct:kim").then_some(()));
    assert!(!told("agent:eden:main"), "and nowhere else");
}

#[test]
fn an_open_question_keeps_its_work_session_also_without_a_task() {
    let host = host();
    let sent = |session: Option<&str>| {
        let mut args = json!({ "agentId": "ruda", "message": "which way", "timeoutSeconds": 0 });
        if let Some(session) = session {
            args["workSessionId"] = json!(session);
            args["message"] = json!("and what else");
        }
        let id = host.tool("eden", "sessions_send", args)["runId"].as_str().expect("a job").to_owned();
        host.job_ended(&id)
    };
    let archived = |id: &str| {
        host.clock.advance(Duration::from_secs(7 * 86_400));
        host.eventually("it is archived", || {
            (host.get(&format!("/api/work-sessions/{id}")).1["status"] == "ARCHIVED").then_some(())
        });
    };
    let first = sent(None);
    let session = first["workSessionId"].as_str().expect("a work session");
    let question = host.asked(1).remove(0);
    assert_eq!((&question["workSessionId"], &question["taskId"]), (&json!(session), &Value::Null));
    archived(session);
    assert_eq!(sent(Some(session))["workSessionId"], session, "somebody is still asked about it");
    let id = question["id"].as_str().expect("an id");
    answer(&host, json!({ "id": id, "answer": "left" })).expect("taken");
    host.settled(id);
    archived(session);
    let later = sent(Some(session));
    assert_ne!(later["workSessionId"], session);
    assert_eq!(later["previousWorkSessionId"], session);
}

#[test]
fn a_client_of_the_chat_api_answers_in_the_session_that_goes_on() {
    let script = r#"{ rules: [
        { when: "the answer of a person", steps: [{ say: "Good." }] },
        { when: "set it up", steps: [{ say: "Let me see.\n[NEED_HUMAN: Which port?]" }] } ], otherwise: "What?" }"#;
    let host = TestHost::scripted(script);
    let auth = format!("Bearer {}", host.token);
    let say = |user: &str, text: &str| {
        let body = json!({ "model": "ruda", "user": user, "messages": [{ "role": "user", "content": text }] });
        let headers = [("authorization", auth.as_str()), ("content-type", "application/json")];
        let answer = host.request("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes()).json();
        answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(say("kim", "set it up"), "Let me see.\nWhich port?");
    let id = host.asked(1)[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(say("lee", "8081"), "What?", "another's session is another's");
    assert_eq!(host.asked(1).len(), 1);
    assert_eq!(say("kim", "8080"), "Good.");
    let question = host.settled(&id);
    assert_eq!((&question["state"], &question["answer"]["text"]), (&json!("answered"), &json!("8080")));
    assert_eq!(say("kim", "thanks"), "What?", "what follows is ordinary talk");
}

#[test]
fn an_answer_that_is_longer_than_a_message_may_be_is_cut_and_not_lost() {
    let host = TestHost::scripted_with(SCRIPT, |file| file["runs"]["messageBytes"] = json!(1_024));
    let id = ask(&host, json!({ "question": "Which port?" }));
    answer(&host, json!({ "id": id, "answer": "8080 ".repeat(400) })).expect("taken");
    host.settled(&id);
    host.eventually("the asker reads it", || {
        let rows = host.history("agent:ruda:main");
        rows.iter().any(|row| row["content"].to_string().contains("8080 8080")).then_some(())
    });
}
