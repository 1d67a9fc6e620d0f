//! A real gateway is killed between question, answer and resume: nothing is lost, nothing happens twice, and the right task goes on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Binary, TestDir, chela, eventually};

const SCRIPT: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "passed on" }] },
    { agent: "ruda", when: "stuck", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
    { agent: "eden", when: "goes on", steps: [{ say: "going on" }] },
    { agent: "eden", when: "work", steps: [
        { call: { tool: "task_start", args: { description: "port" } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
  ] }"#;

fn journal(dir: &TestDir) -> String {
    let files = std::fs::read_dir(dir.state.journal()).into_iter().flatten().flatten();
    files.map(|file| String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default()).into_owned()).collect()
}

/// Kills the gateway as soon as its journal says a word.
fn kill_when_journal_says(gateway: Binary, dir: &TestDir, word: &str) {
    let begun = Instant::now();
    while !journal(dir).contains(word) {
        assert!(begun.elapsed() < Duration::from_secs(120), "the journal never says {word}");
    }
    gateway.kill();
}

fn questions(gateway: &Binary, dir: &TestDir) -> Vec<Value> {
    let listed = gateway.method(dir, "human.pending", json!({ "all": true })).expect("a list");
    listed["questions"].as_array().expect("questions").clone()
}

fn in_phase(gateway: &Binary, dir: &TestDir, phase: &str) -> Value {
    eventually("the question stands so", || {
        let all = questions(gateway, dir);
        assert!(all.len() <= 1, "asked once: {all:#?}");
        all.into_iter().next().filter(|question| question["phase"] == phase)
    })
}

fn texts(dir: &TestDir, agent: &str) -> Vec<String> {
    dir.transcript_so_far(agent).iter().map(chela::sessions::text_of).collect()
}

/// Every event of the question and its task, each once.
fn told(dir: &TestDir) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let wanted = ["task.blocked", "task.resumed", "task.resumed_after_human_query"];
    let kind = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    let once: Vec<String> =
        dir.events().iter().filter(|event| seen.insert(event["id"].to_string())).map(kind).collect();
    once.into_iter().filter(|kind| kind.starts_with("human_query") || wanted.contains(&kind.as_str())).collect()
}

#[test]
fn whenever_it_is_killed_a_question_is_asked_once_and_its_answer_arrives_once() {
    // Where the kill comes: the question with the end of its run, its record, its task blocked, waiting, the answer, the resumed task, delivered.
    let phases = [
        ("asking", "question-ask"),
        ("asking", r#""phase":"asking""#),
        ("asking", "human_query.requested"),
        ("asking", r#""phase":"open""#),
        ("answering", r#""phase":"resuming""#),
        ("answering", "Task resumed"),
        ("answering", r#""phase":"telling""#),
        ("answering", r#""phase":"done""#),
    ];
    for (act, word) in phases {
        let dir = TestDir::scripted(SCRIPT, |_| {});
        let gateway = Binary::serve(&dir);
        let work = json!({ "sessionKey": "agent:eden:main", "message": "work", "idempotencyKey": "w" });
        gateway.method(&dir, "chat.send", work).expect("accepted");
        let gateway = if act == "asking" {
            kill_when_journal_says(gateway, &dir, word);
            Binary::serve(&dir)
        } else {
            gateway
        };
        let question = in_phase(&gateway, &dir, "open");
        let task = question["taskId"].as_str().expect("a task").to_owned();
        let shown = chela(&dir.state, &["task", "show", &task, "--json"]);
        assert!(shown.stdout.contains("blocked"), "{word}: {shown:?}");
        let answer = json!({ "id": question["id"], "answer": "8080" });
        let gateway = if act == "answering" {
            let (token, params) = (dir.token(), answer.clone());
            let client = gateway.client(&token);
            // Who answers may hear nothing: the gateway dies meanwhile.
            let answering = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(client.call("human.answer", params)).is_ok()
            });
            kill_when_journal_says(gateway, &dir, word);
            let heard = answering.join().expect("it ends");
            let gateway = Binary::serve(&dir);
            if !heard {
                // Whoever heard nothing answers again; it may have been taken, or not.
                let _ = gateway.method(&dir, "human.answer", answer.clone());
            }
            gateway
        } else {
            gateway.method(&dir, "human.answer", answer.clone()).expect("taken");
            gateway
        };
        let done = in_phase(&gateway, &dir, "done");
        assert_eq!(done["answer"]["text"], "8080", "{word}");
        let error = gateway.method(&dir, "human.answer", answer).expect_err("the first stands").to_string();
        assert!(error.contains("already"), "{word}: {error}");
        eventually("both go on", || {
            let went = texts(&dir, "eden").contains(&"going on".to_owned());
            (went && texts(&dir, "ruda").contains(&"passed on".to_owned())).then_some(())
        });
        assert_eq!(gateway.terminate().code, Some(0));
        let count = |agent: &str, text: &str| texts(&dir, agent).iter().filter(|said| said.contains(text)).count();
        assert_eq!((count("ruda", "Which port?"), count("ruda", "8080")), (1, 1), "{word}: {:#?}", texts(&dir, "ruda"));
        assert_eq!(
            (count("eden", "Answer: 8080"), count("eden", "going on")),
            (1, 1),
            "{word}: {:#?}",
            texts(&dir, "eden")
        );
        assert_eq!(
            told(&dir),
            [
                "task.blocked",
                "human_query.requested",
                "human_query.answered",
                "task.resumed",
                "task.resumed_after_human_query"
            ],
            "{word}"
        );
        let text = dir.task_text("eden", &task);
        assert_eq!(
            (text.matches("Task blocked").count(), text.matches("Task resumed").count()),
            (1, 1),
            "{word}: {text}"
        );
    }
}

#[test]
fn the_demo_team_asks_a_person_and_the_shell_answers() {
    let dir = TestDir::with_config(|_| {});
    let gateway = Binary::serve(&dir);
    assert_eq!(chela(&dir.state, &["questions"]).stdout, "nobody waits for an answer\n");
    let sent = chela(&dir.state, &["send", "ruda", "Give", "the", "service", "a", "hostname", "--wait"]);
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "Eden sets it up.\n"), "{sent:?}");
    let listed = eventually("a person is asked", || {
        let listed = chela(&dir.state, &["questions", "--json"]).json();
        let open = listed["questions"].as_array().is_some_and(|open| open.len() == 1 && open[0]["phase"] == "open");
        open.then_some(listed)
    });
    let question = &listed["questions"][0];
    let (id, task) = (question["id"].as_str().expect("an id"), question["taskId"].as_str().expect("a task"));
    assert_eq!(question["taskAgentId"], "eden");
    let text = chela(&dir.state, &["questions"]).stdout;
    assert!(text.contains(id) && text.contains("Under which name"), "{text}");
    let empty = chela(&dir.state, &["answer", id, " "]);
    assert!(empty.code == Some(1) && empty.stderr.contains("empty"), "{empty:?}");
    let answered = chela(&dir.state, &["answer", id, "crab.example.org"]);
    assert_eq!(answered.stdout, format!("ruda is told, and task {task} goes on\n"), "{answered:?}");
    let again = chela(&dir.state, &["answer", task, "other"]);
    assert!(again.code == Some(1) && again.stderr.contains("crab.example.org"), "{again:?}");
    eventually("the task is done", || {
        let shown = chela(&dir.state, &["task", "show", task, "--json"]);
        shown.stdout.contains("completed").then_some(())
    });
    assert!(chela(&dir.state, &["questions", "--all"]).stdout.contains("answered"));
    // The last word comes after the call that completes the task.
    let said = eventually("the last word is said", || {
        let said = gateway.method(&dir, "task.conversation", json!({ "taskId": task })).expect("a conversation");
        let said = said["turns"].to_string();
        said.contains("Done: the service has the name").then_some(said)
    });
    for part in ["Please set up the service", "I am stuck", "crab.example.org"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(gateway.terminate().code, Some(0));
}
