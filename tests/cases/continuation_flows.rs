//! Agents that stop with work left, as data: what the script says, what the gateway tells them, what comes of it.

use serde_json::{Value, json};
use support::{TestHost, eventually, guest, path_of};

/// A task of three steps whose first is done in the run that starts it.
const BEGINS: &str = r#"
    { when: "build it", steps: [
        { call: { tool: "task_start", args: { description: "OAuth", steps: [
            { content: "look" }, { content: "build" }, { content: "test" }] } } },
        { call: { tool: "task_update", args: { action: "complete_step" } } },
        { say: "one is done" } ] },"#;
/// What a good agent does when it is told to go on.
const FINISHES: &str = r#"
        { call: { tool: "task_update", args: { action: "complete_step" } } },
        { call: { tool: "task_update", args: { action: "complete_step" } } },
        { call: { tool: "task_complete", args: { summary: "done" } } },
        { say: "all done" }"#;

fn unruly(config: &mut Value, deeds: Value) {
    let binding = json!({ "source": path_of(&guest("unruly-continuation")), "config": deeds });
    config["plugins"]["continuation"] = binding;
}

/// One scenario: what a person says, how many half seconds pass, the first lines of the prompts, and the course of events.
fn check(script: &str, said: &str, prompts: &[&str], course: &[&str]) -> TestHost {
    let host = TestHost::driven(script, |_| {});
    host.say("eden", said);
    for nth in 0..prompts.len() {
        assert_eq!(host.planned("eden"), ("self-driving".into(), 500), "prompt {nth}");
        host.pass(499);
        assert_eq!(host.prompts("eden").len(), nth, "not a moment too soon");
        host.pass(1);
        eventually("the run of a prompt has ended", || {
            (host.prompts("eden").len() > nth && host.kept("eden")["last"]["action"] == "sent").then_some(())
        });
        host.has_ended(&host.prompt_runs("eden")[nth]);
    }
    host.pass(2_000);
    let heads: Vec<String> =
        host.prompts("eden").iter().map(|prompt| prompt.lines().next().unwrap_or_default().to_owned()).collect();
    assert_eq!(heads, prompts);
    let settled = eventually("everything is told", || Some(host.course()).filter(|told| told.len() >= course.len()));
    assert_eq!(settled, course);
    host
}

fn task_of(host: &TestHost) -> String {
    let started = host.events().into_iter().find(|event| event["type"] == "task.started").expect("started");
    started["data"]["taskId"].as_str().expect("an id").to_owned()
}

#[test]
fn who_finishes_in_one_run_hears_nothing() {
    let script = format!(
        r#"{{ rules: [ {{ when: "build it", steps: [
            {{ call: {{ tool: "task_start", args: {{ description: "OAuth", steps: [
                {{ content: "look" }}, {{ content: "build" }}] }} }} }}, {FINISHES} ] }} ] }}"#
    );
    check(&script, "build it", &[], &["task.started", "task.completed"]);
}

#[test]
fn who_stops_halfway_is_told_where_to_go_on_and_finishes() {
    let script = format!(r#"{{ rules: [ {BEGINS} {{ when: "self-driving loop 1/20", steps: [{FINISHES}] }} ] }}"#);
    let course = ["task.started", "continuation.self_driving", "task.completed"];
    let host = check(&script, "build it", &["[SYSTEM — SELF-DRIVING LOOP 1/20]"], &course);
    let prompt = &host.prompts("eden")[0];
    for line in ["Task \"OAuth\" — 2 steps remaining:", "✅ (s1) look", "▶️ (s2) build", "**Continue: build**"] {
        assert!(prompt.contains(line), "{prompt}");
    }
    let told = host.told("continuation.self_driving").remove(0);
    assert_eq!((&told["consecutiveCount"], &told["remainingSteps"]), (&json!(1), &json!(2)), "{told}");
    assert_eq!((&told["eventRole"], &told["layer"]), (&json!("orchestration.task"), &json!("self-driving")));
    assert!(told["workSessionId"].as_str().is_some_and(|id| id.starts_with("ws_")), "{told}");
    let metrics = host.request("GET", "/metrics", &[], b"");
    let text = String::from_utf8(metrics.body.to_vec()).expect("text");
    assert!(text.contains("chela_continuations_total{layer=\"self-driving\"} 1"), "{text}");
}

#[test]
fn a_plan_that_changes_on_the_way_is_the_plan_that_is_told() {
    let script = format!(
        r#"{{ rules: [ {BEGINS}
        {{ when: "self-driving loop 1/20", steps: [
            {{ call: {{ tool: "task_update", args: {{ action: "add_step", step_content: "refresh tokens" }} }} }},
            {{ call: {{ tool: "task_update", args: {{ action: "reorder_steps", steps_order: ["s1", "s4", "s2", "s3"] }} }} }},
            {{ say: "changed" }} ] }},
        {{ when: "self-driving loop 1/20 again", steps: [] }},
        {{ when: "refresh tokens", steps: [{FINISHES}] }} ] }}"#
    );
    let host = TestHost::driven(&script, |_| {});
    host.say("eden", "build it");
    host.planned("eden");
    host.pass(500);
    eventually("the plan has changed", || (host.task(&task_of(&host))["stepsProgress"]["total"] == 4).then_some(()));
    host.has_ended(&host.prompt_runs("eden")[0]);
    host.planned("eden");
    host.pass(500);
    let prompt = eventually("the second prompt", || host.prompts("eden").into_iter().nth(1));
    let order: Vec<usize> =
        ["(s1)", "(s4)", "(s2)", "(s3)"].iter().map(|id| prompt.find(id).expect("listed")).collect();
    assert!(order.is_sorted(), "{prompt}");
    assert!(prompt.starts_with("[SYSTEM — SELF-DRIVING LOOP 1/20]"), "progress begins the row anew: {prompt}");
}

#[test]
fn while_a_sub_agent_works_its_agent_is_let_wait_and_its_result_wakes_it() {
    let script = format!(
        r#"{{ rules: [
        {{ when: "build it", steps: [
            {{ call: {{ tool: "task_start", args: {{ description: "OAuth", steps: [{{ content: "look" }}, {{ content: "build" }}] }} }} }},
            {{ call: {{ tool: "sessions_spawn", args: {{ task: "explore the code", label: "explore" }} }} }},
            {{ say: "somebody looks" }} ] }},
        {{ when: "explore the code", steps: [{{ say: "found it", delayMs: 5000 }}] }},
        {{ when: "found it", steps: [{FINISHES}] }} ] }}"#
    );
    let host = TestHost::driven(&script, |_| {});
    host.say("eden", "build it");
    assert_eq!(host.planned("eden").0, "self-driving");
    host.pass(500);
    let note = eventually("it is said why nothing happens", || {
        let last = host.kept("eden")["last"].clone();
        (last["action"] == "skip").then_some(last)
    });
    assert_eq!(note["reason"], "a sub-agent of the agent works");
    host.eventually("the task is done", || host.active("eden").is_none().then_some(()));
    assert_eq!(host.told("continuation.self_driving").len() + host.told("continuation.sent").len(), 0);
    eventually("whoever asks why is told", || {
        let why = host.call("why", json!({ "id": task_of(&host) })).ok()?;
        let because = |event: &Value| event["data"]["reason"] == "a sub-agent of the agent works";
        why["decisions"].as_array()?.iter().any(because).then_some(())
    });
}

#[test]
fn who_claims_to_be_done_is_stopped_by_the_guard_and_told_to_go_on() {
    let script = format!(
        r#"{{ rules: [
        {{ when: "build it", steps: [
            {{ call: {{ tool: "task_start", args: {{ description: "OAuth", steps: [
                {{ content: "plan" }}, {{ content: "build" }}, {{ content: "test" }}] }} }} }},
            {{ call: {{ tool: "task_update", args: {{ action: "complete_step" }} }} }},
            {{ call: {{ tool: "task_complete", args: {{ summary: "done" }} }} }},
            {{ say: "oh" }} ] }},
        {{ when: "self-driving", steps: [{FINISHES}] }} ] }}"#
    );
    let course = ["task.started", "continuation.stop_guard_blocked", "continuation.self_driving", "task.completed"];
    check(&script, "build it", &["[SYSTEM — SELF-DRIVING LOOP 1/20]"], &course);
}

#[test]
fn a_message_in_between_takes_the_place_of_the_prompt() {
    let host = TestHost::driven(&format!(r#"{{ rules: [ {BEGINS} ], otherwise: "yes" }}"#), |_| {});
    host.say("eden", "build it");
    assert_eq!(host.planned("eden"), ("self-driving".into(), 500));
    host.pass(300);
    host.say("eden", "by the way");
    eventually("half a second after the last end", || {
        (host.planned("eden") == ("self-driving".into(), 500)).then_some(())
    });
    host.pass(499);
    assert_eq!(host.prompts("eden").len(), 0);
}

#[test]
fn what_the_first_layer_cannot_do_the_second_does_and_what_both_cannot_the_poll() {
    let script = format!(r#"{{ rules: [ {BEGINS} ], otherwise: "ok" }}"#);
    for deed in ["empty", "huge", "panic", "decline"] {
        let host = TestHost::driven(&script, |config| unruly(config, json!({ "layers": { "self-driving": deed } })));
        host.say("eden", "build it");
        host.planned("eden");
        host.pass(500);
        let second = eventually("the second layer has its turn", || {
            Some(host.planned("eden")).filter(|(layer, _)| layer == "event-based")
        });
        assert_eq!(second.1, 1_500, "two seconds after the end ({deed})");
        host.pass(1_500);
        let prompt = eventually("the second layer prompts", || host.prompts("eden").into_iter().next());
        assert!(prompt.starts_with("go on: event-based 1/20"), "{prompt}");
        eventually("it is told", || (host.told("continuation.sent").len() == 1).then_some(()));
        assert!(!host.told("plugin.fallback").is_empty(), "{deed} is told");
    }
    let host = TestHost::driven(&script, |config| {
        unruly(config, json!({ "layers": { "self-driving": "empty", "event-based": "huge", "polling": "decline" } }));
    });
    host.say("eden", "build it");
    host.planned("eden");
    host.pass(500);
    eventually("the second layer has its turn", || (host.planned("eden").0 == "event-based").then_some(()));
    host.pass(1_500);
    eventually("it could not either", || {
        let last = host.kept("eden")["last"].clone();
        (last["layer"] == "event-based" && last["action"] == "failed").then_some(())
    });
    assert_eq!(host.kept("eden")["next"]["layer"], "polling");
    host.drive("the poll says something in any case", || {
        host.pass(5_000);
        !host.prompts("eden").is_empty()
    });
    assert_eq!(host.prompts("eden")[0], "Continue the task \"OAuth\": 2 steps are open.");
}

#[test]
fn a_skip_or_a_backoff_ends_the_round_and_the_poll_knows_of_it() {
    let script = format!(r#"{{ rules: [ {BEGINS} ], otherwise: "ok" }}"#);
    for (deed, earlier) in [("skip", "skip: not now"), ("backoff", "backoff: 600000 ms")] {
        let host = TestHost::driven(&script, |config| unruly(config, json!({ "layers": { "self-driving": deed } })));
        host.say("eden", "build it");
        host.planned("eden");
        host.pass(500);
        eventually("it has answered", || (host.kept("eden")["last"]["action"] == deed).then_some(()));
        host.pass(5_000);
        assert_eq!(host.prompts("eden").len(), 0, "the second layer does not overrule the policy");
        host.drive("the poll prompts", || {
            host.pass(5_000);
            !host.prompts("eden").is_empty()
        });
        let prompt = host.prompts("eden").remove(0);
        assert_eq!(prompt, format!("go on: polling 1/20 earlier {earlier:?}"));
        assert_eq!(host.told("continuation.backoff").is_empty(), deed == "skip");
    }
}

#[test]
fn a_prompt_goes_to_the_session_that_started_the_task_and_over_a_restart_too() {
    let host = TestHost::driven(&format!(r#"{{ rules: [ {BEGINS} ], otherwise: "ok" }}"#), |_| {});
    let send = json!({ "sessionKey": "agent:eden:direct:mina", "message": "build it", "idempotencyKey": "hers" });
    host.call("chat.send", send).expect("accepted");
    host.has_ended("hers");
    host.planned("eden");
    let host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.block_on(host.plugins().loaded());
    assert_eq!(host.planned("eden"), ("self-driving".into(), 500), "as if the run had just ended");
    host.pass(500);
    eventually("her session has the prompt", || {
        let rows = host.history("agent:eden:direct:mina");
        rows.iter().any(|row| row["provenance"]["kind"] == "internal_system").then_some(())
    });
    assert!(host.history("agent:eden:main").is_empty());
}
