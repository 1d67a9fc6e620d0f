//! People, helpers and idle agents: who is let be, who is asked, and what becomes of tasks that nobody works on.

use serde_json::json;
use support::{TestHost, eventually};

const BEGINS: &str = r#"
    { when: "build it", steps: [
        { call: { tool: "task_start", args: { description: "OAuth", steps: [{ content: "look" }, { content: "build" }] } } },
        { say: "begun" } ] },"#;

fn host() -> TestHost {
    TestHost::driven(
        &format!(
            r#"{{ rules: [ {BEGINS} {{ when: "slow", steps: [{{ say: "late", delayMs: 600000 }}] }} ], otherwise: "ok" }}"#
        ),
        |_| {},
    )
}

/// Lets minutes pass, with time for what follows from each.
fn minutes(host: &TestHost, count: u64) {
    for _ in 0..count * 2 {
        host.pass(30_000);
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
}

#[test]
fn whom_a_person_aborted_is_let_be_until_that_person_speaks_again_over_a_restart_too() {
    let host = host();
    host.say("eden", "build it");
    host.planned("eden");
    host.call("chat.abort", json!({ "sessionKey": "agent:eden" })).expect("aborted");
    assert_eq!(host.kept("eden")["aborted"], true);
    minutes(&host, 10);
    assert_eq!(host.prompts("eden").len(), 0);
    let host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("{error}"));
    minutes(&host, 10);
    assert_eq!((host.prompts("eden").len(), &host.kept("eden")["aborted"]), (0, &json!(true)));
    // Another agent's word does not lift it.
    host.send_job("seum", "eden", "[NOTIFICATION] hello");
    minutes(&host, 5);
    assert_eq!(host.prompts("eden").len(), 0);
    host.say("eden", "go on, please");
    host.drive("it is continued", || !host.prompts("eden").is_empty());
}

#[test]
fn a_run_that_is_aborted_is_not_continued_and_a_cancelled_job_is_nobodys_word() {
    let host = host();
    host.say("eden", "build it");
    host.planned("eden");
    host.call("agent", json!({ "agentId": "eden", "message": "slow", "idempotencyKey": "slow" })).expect("accepted");
    eventually("it runs", || (host.kept("eden")["next"]["layer"] != "self-driving").then_some(()));
    host.call("sessions.abort", json!({ "runId": "slow" })).expect("aborted");
    host.has_ended("slow");
    minutes(&host, 5);
    assert_eq!(host.prompts("eden").len(), 0);
    host.say("eden", "so?");
    host.planned("eden");
    let job = host.send_job("seum", "eden", "slow");
    eventually("it runs", || (host.kept("eden")["next"]["layer"] != "self-driving").then_some(()));
    host.call("jobs.cancel", json!({ "id": job })).expect("cancelled");
    assert_eq!(host.kept("eden")["aborted"], false);
    host.drive("it is continued", || !host.prompts("eden").is_empty());
}

#[test]
fn a_task_that_waits_for_a_person_is_let_be() {
    let host = host();
    host.say("eden", "build it");
    host.planned("eden");
    host.done("eden", "task_block", json!({ "reason": "which key?", "kind": "input" }));
    minutes(&host, 100);
    assert_eq!((host.prompts("eden").len(), host.told("unblock.requested").len()), (0, 0));
}

#[test]
fn who_has_asked_a_person_something_else_is_let_wait_for_the_answer() {
    let host = TestHost::driven(&format!("{{ rules: [ {BEGINS} ], otherwise: 'ok' }}"), |config| {
        config["agents"]["list"][0]["role"] = json!("orchestrator");
    });
    let id = host.done("ruda", "ask_human", json!({ "question": "Which port?" }))["id"].clone();
    // In the session of the question it would be the answer.
    let begins = json!({ "sessionKey": "agent:ruda:direct:kim", "message": "build it", "idempotencyKey": "begins" });
    host.call("agent", begins).expect("accepted");
    host.has_ended("begins");
    host.pass(500);
    eventually("it is noted", || {
        (host.kept("ruda")["last"]["reason"] == "a question of the agent to a person is open").then_some(())
    });
    assert_eq!(host.prompts("ruda").len(), 0);
    host.call("human.answer", json!({ "id": id, "answer": "8080" })).expect("answered");
    host.drive("it is continued", || host.prompts("ruda").iter().any(|prompt| prompt.contains("SELF-DRIVING")));
}

#[test]
fn who_types_is_let_finish() {
    let host = host();
    host.say("eden", "build it");
    host.planned("eden");
    host.app().continuation().typed(&"eden".parse().expect("an id"));
    host.pass(500);
    eventually("it waits", || (host.planned("eden") == ("self-driving".into(), 9_500)).then_some(()));
    assert_eq!(host.prompts("eden").len(), 0);
    host.pass(9_500);
    eventually("it is continued", || (!host.prompts("eden").is_empty()).then_some(()));
}

#[test]
fn whoever_can_unblock_a_task_is_asked_three_times_and_then_a_person_is_to_be_asked() {
    let host = TestHost::driven(r#"{ otherwise: "ok" }"#, |config| {
        for agent in config["agents"]["list"].as_array_mut().expect("a team") {
            agent["role"] = json!(if agent["id"] == "eden" { "orchestrator" } else { "worker" });
        }
    });
    host.begin("seum", &["look"]);
    let helper = "ruda".to_owned();
    let block =
        json!({ "reason": "no key", "kind": "external", "unblocked_by": [helper], "unblock_action": "send it" });
    host.done("seum", "task_block", block);
    let told = |kind: &str, count: usize| {
        eventually(kind, || {
            host.pass(60_000);
            (host.told(kind).len() >= count).then_some(())
        });
    };
    (1..=4).for_each(|count| told("unblock.requested", count));
    told("unblock.failed", 1);
    minutes(&host, 40);
    let asked = eventually("three requests", || Some(host.prompts(&helper)).filter(|prompts| prompts.len() >= 3));
    assert_eq!(asked.len(), 3, "{asked:#?}");
    assert!(asked[2].contains("This is request 3 of 3") && asked[0].contains("no key"), "{asked:#?}");
    let escalated = eventually("the orchestrator hears of it", || host.prompts("eden").into_iter().next());
    assert!(escalated.contains("Ask a person") && escalated.contains("no key"), "{escalated}");
    let states: Vec<_> = host.told("unblock.requested").iter().map(|told| told["escalationState"].clone()).collect();
    assert_eq!(states, ["requested", "requested", "requested", "escalated"]);
    assert_eq!(host.told("unblock.failed").len(), 1);
    assert_eq!(host.prompts("eden"), [escalated]);

    host.done("seum", "task_resume", json!({}));
    host.done("seum", "task_block", json!({ "reason": "no key again", "kind": "external", "unblocked_by": [helper] }));
    minutes(&host, 40);
    let again = eventually("it is asked for anew", || host.prompts(&helper).into_iter().nth(3));
    assert!(again.contains("This is request 1 of 3") && again.contains("no key again"), "{again}");
}

#[test]
fn an_idle_agent_takes_up_its_backlog() {
    let host = host();
    host.done("eden", "task_backlog_add", json!({ "description": "tidy up", "steps": [{ "content": "sweep" }] }));
    minutes(&host, 6);
    let prompt = eventually("it is told", || host.prompts("eden").into_iter().next());
    assert!(prompt.contains("\"tidy up\"") && prompt.contains("in progress now"), "{prompt}");
    assert_eq!(host.told("task.backlog_picked").len(), 1);
    assert!(host.active("eden").is_some());
}

#[test]
fn a_task_that_nobody_works_on_is_asked_once_and_then_leaves_the_list() {
    for (zombies, kind, to) in
        [("abandon", "task.abandoned", "abandoned"), ("backlog", "task.backlog_added", "backlog")]
    {
        let host = TestHost::driven(&format!(r#"{{ rules: [ {BEGINS} ], otherwise: "ok" }}"#), |config| {
            config["continuation"]["poll"] = json!({ "zombies": zombies, "zombieHours": 1, "idleMs": 3_600_000 });
            config["continuation"]["delays"]["selfDrivingMs"] = json!(600_000);
            config["agents"]["list"]
                .as_array_mut()
                .expect("a team")
                .iter_mut()
                .for_each(|agent| agent["tools"] = json!(["files_*"]));
        });
        let task = host.begin("eden", &["look"]);
        minutes(&host, 70);
        let prompt = eventually("it is asked", || host.prompts("eden").into_iter().next());
        assert!(prompt.starts_with("[SYSTEM REMINDER - NO ACTIVITY]"), "{prompt}");
        eventually("it is told", || (host.told("zombie.detected").len() == 1).then_some(()));
        minutes(&host, 70);
        let told = eventually("it has left the list", || host.told(kind).into_iter().next());
        assert_eq!(told["taskId"], json!(task));
        assert_eq!(host.told("zombie.abandoned").iter().map(|told| &told["to"]).collect::<Vec<_>>(), [to]);
    }
}
