//! Agents that never get anywhere: each ends blocked or done, never in a loop.

use serde_json::{Value, json};
use support::{TestHost, eventually, guest, path_of};

const BEGINS: &str = r#"
    { when: "build it", steps: [
        { call: { tool: "task_start", args: { description: "OAuth", steps: [{ content: "look" }, { content: "build" }] } } },
        { say: "begun" } ] },"#;

/// Lets time pass until the task is out of progress; gives its standing and how many prompts that took.
fn check(script: &str, edit: impl FnOnce(&mut Value)) -> (TestHost, (String, String, String), usize) {
    let host = TestHost::driven(script, edit);
    host.say("eden", "build it");
    let task = eventually("the task is there", || host.active("eden"));
    for turn in 0.. {
        assert!(turn < 100, "it goes on for ever: {:#} {:?}", host.kept("eden"), host.course());
        if host.standing(&task).0 != "in_progress" {
            break;
        }
        if !host.turn("eden") {
            // Nothing is planned any more: the task is about to be blocked.
            eventually("it is blocked", || (host.standing(&task).0 != "in_progress").then_some(()));
        }
    }
    let standing = host.standing(&task);
    host.pass(600_000);
    let prompts = host.prompts("eden").len();
    host.pass(600_000);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(host.prompts("eden").len(), prompts, "and nothing follows");
    (host, standing, prompts)
}

#[test]
fn who_ignores_every_prompt_is_blocked_after_twenty_in_a_row() {
    let (host, standing, prompts) = check(&format!(r#"{{ rules: [ {BEGINS} ], otherwise: "I am fine" }}"#), |_| {});
    let reason = "20 continuations in a row came to no progress";
    assert_eq!(standing, ("blocked".into(), "limit".into(), reason.into()));
    assert_eq!(prompts, 20);
    assert_eq!(host.told("continuation.self_driving").len(), 20);
    assert!(host.told("unblock.requested").is_empty(), "no agent is asked to lift what is for a person to lift");
    let metrics = host.request("GET", "/metrics", &[], b"");
    let text = String::from_utf8(metrics.body.to_vec()).expect("text");
    assert!(text.contains("chela_continuations_blocked_total{reason=\"limit\"} 1"), "{text}");
}

#[test]
fn who_always_claims_to_be_done_is_blocked() {
    let script = format!(
        r#"{{ rules: [ {BEGINS} {{ when: "self-driving", steps: [
            {{ call: {{ tool: "task_complete", args: {{ summary: "done" }} }} }}, {{ say: "done!" }} ] }} ] }}"#
    );
    let (_, standing, prompts) = check(&script, |_| {});
    assert_eq!((standing.1.as_str(), prompts), ("limit", 20), "{standing:?}");
}

#[test]
fn who_is_busy_for_ever_and_never_finishes_is_blocked() {
    let script = format!(
        r#"{{ rules: [ {BEGINS} {{ when: "self-driving", steps: [
            {{ call: {{ tool: "task_update", args: {{ progress: "still at it" }} }} }}, {{ say: "more" }} ] }} ] }}"#
    );
    let (host, standing, prompts) = check(&script, |config| config["continuation"]["caps"]["inAll"] = json!(30));
    assert_eq!((standing.1.as_str(), prompts), ("limit", 30), "{standing:?}");
    assert!(standing.2.starts_with("it was continued 30 times"), "{standing:?}");
    // A person resumes it, and it is tried again, as often.
    host.done("eden", "task_resume", json!({}));
    host.drive("it is continued again", || host.prompts("eden").len() > 30);
}

#[test]
fn the_tokens_of_a_task_have_an_end() {
    let script = format!(r#"{{ rules: [ {BEGINS} ], otherwise: "ok" }}"#);
    let (_, standing, prompts) = check(&script, |config| config["continuation"]["caps"]["tokens"] = json!(1_500));
    assert_eq!(standing.1, "limit");
    assert!(standing.2.contains("tokens") && prompts < 10, "{standing:?} {prompts}");
}

#[test]
fn who_fails_in_turns_is_blocked() {
    let odd: Vec<String> = (1..=20).step_by(2).map(|n| format!("\"loop {n}/20\"")).collect();
    let script = format!(
        r#"{{ rules: [ {BEGINS}
        {{ when: [{}], steps: [{{ fail: {{ kind: "server", message: "broken pipe", times: 99 }} }}] }},
        {{ when: "self-driving", steps: [{{ fail: {{ kind: "server", message: "out of memory", times: 99 }} }}] }} ] }}"#,
        odd.join(", ")
    );
    let (_, standing, prompts) = check(&script, |_| {});
    assert_eq!((standing.1.as_str(), prompts), ("limit", 20), "{standing:?}");
}

#[test]
fn the_same_error_again_and_again_is_waited_out_and_then_blocks_the_task() {
    let script = format!(
        r#"{{ rules: [ {BEGINS} {{ steps: [{{ fail: {{ kind: "server", message: "the model is down", times: 99 }} }}] }} ] }}"#
    );
    let (host, standing, prompts) = check(&script, |_| {});
    assert_eq!(standing.1, "error");
    assert!(standing.2.contains("the model is down"), "{standing:?}");
    assert_eq!(prompts, 6);
    let waits: Vec<u64> =
        host.told("continuation.backoff").iter().filter_map(|told| told["backoffMs"].as_u64()).collect();
    assert_eq!(waits, [60_000, 120_000, 240_000]);
}

#[test]
fn an_error_that_another_run_does_not_mend_is_not_run_into_again() {
    let script = format!(
        r#"{{ rules: [ {BEGINS} {{ steps: [{{ fail: {{ kind: "auth", message: "no such key", times: 99 }} }}] }} ] }}"#
    );
    let host = TestHost::driven(&script, |_| {});
    host.say("eden", "build it");
    let task = eventually("the task is there", || host.active("eden"));
    host.planned("eden");
    host.pass(500);
    eventually("the prompt has failed", || {
        (host.kept("eden")["last"]["reason"] == "the last run ended with an error that another run does not mend")
            .then_some(())
    });
    for _ in 0..20 {
        host.pass(60_000);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!((host.prompts("eden").len(), host.standing(&task).0.as_str()), (1, "in_progress"));
    host.say("eden", "and now?");
    eventually("it came again", || (host.standing(&task).1 == "error").then_some(()));
    assert!(host.standing(&task).2.contains("no such key"), "{:?}", host.standing(&task));
}

#[test]
fn a_component_that_always_sends_does_not_lift_a_cap() {
    let script = format!(r#"{{ rules: [ {BEGINS} ], otherwise: "ok" }}"#);
    let (_, standing, prompts) = check(&script, |config| {
        config["continuation"]["caps"]["inARow"] = json!(3);
        config["plugins"]["continuation"] = json!({ "source": path_of(&guest("unruly-continuation")) });
    });
    assert_eq!((standing.1.as_str(), prompts), ("limit", 3), "{standing:?}");
}

#[test]
fn switched_off_nothing_is_continued_and_switched_on_again_it_goes_on_where_it_was() {
    let host = TestHost::driven(&format!(r#"{{ rules: [ {BEGINS} ], otherwise: "ok" }}"#), |config| {
        config["continuation"]["enabled"] = json!(false);
    });
    host.say("eden", "build it");
    eventually("it is noted", || (host.kept("eden")["last"]["reason"] == "continuation is switched off").then_some(()));
    host.pass(600_000);
    assert_eq!(host.prompts("eden").len(), 0);
    host.dir.edit_config(|config| config["continuation"]["enabled"] = json!(true));
    host.drive("it goes on", || !host.prompts("eden").is_empty());
}
