//! What the built-in prompts say: the two that drive an agent as a whole, the others by what they must hold.
//! Keeps true: a change of a word that agents act on fails here. Never: part of the component.

use super::*;
use crate::sample::{blocker, request, steps};
use crate::text::PROMPT_CHARS_MAX;
use chela_sdk::continuation::NextRequest;

fn prompt(request: &NextRequest) -> String {
    built_in(&Facts::of(request.task.as_ref().expect("a task"), request))
}

fn check(request: NextRequest, expected: &str) {
    assert_eq!(prompt(&request), expected);
}

fn check_holds(request: NextRequest, expected: &[&str]) {
    let prompt = prompt(&request);
    for text in expected {
        assert!(prompt.contains(text), "{text} is not in: {prompt}");
    }
}

fn after(layer: Layer, signs: &str, minutes: u64) -> NextRequest {
    NextRequest { idle_ms: minutes * 60_000, ..request(layer, steps(signs)) }
}

#[test]
fn self_driving_is_told_strongly() {
    let mut stopped = request(Layer::SelfDriving, steps("x->."));
    stopped.task.as_mut().expect("a task").description = "OAuth 로그인 구현".into();
    let expected = r#"[SYSTEM — SELF-DRIVING LOOP 3/20]

Task "OAuth 로그인 구현" — 2 steps remaining:

✅ (s1) do s1
⏭️ (s2) do s2
▶️ (s3) do s3
⬜ (s4) do s4

**Continue: do s3**

Rules:
- Complete the current step, then call task_update(action: "complete_step")
- Proceed immediately to the next step — do NOT stop
- If blocked, call task_update(action: "skip_step") and move on
- Only call task_complete when ALL steps are done"#;
    check(stopped, expected);
}

#[test]
fn the_event_based_prompt_reminds() {
    let expected = r#"[SYSTEM REMINDER - STEP CONTINUATION]

Task "OAuth" has incomplete steps:

✅ (s1) do s1
⏭ (s2) do s2
▶ (s3) do s3
□ (s4) do s4

Continue from: **do s3**

Use task_update(action: "complete_step", step_id: "...") when each step is done.
Do NOT call task_complete until all steps are done."#;
    check(request(Layer::EventBased, steps("x->.")), expected);
}

#[test]
fn without_a_current_step_the_next_one_is_started() {
    check_holds(request(Layer::SelfDriving, steps("x.")), &["\n\n**Start the next pending step.**\n\nRules:"]);
    check_holds(request(Layer::EventBased, steps("x.")), &["\n\nStart the next pending step.\n\nUse task_update"]);
}

#[test]
fn polling_says_how_long_nothing_happened() {
    let open = [
        "idle for 5 minutes. Task \"OAuth\" has incomplete steps:\n\n✅ (s1)",
        "Continue from: **do s2**",
        "task_block",
    ];
    check_holds(after(Layer::Polling, "x>", 5), &open);
    check_holds(after(Layer::Polling, "", 1), &["idle for 1 minute.", "has no steps", "task_complete", "task_block"]);
    check_holds(
        after(Layer::Polling, "x-", 3),
        &["none of its steps is open:\n\n✅ (s1)", "task_complete", "add_step"],
    );
}

#[test]
fn a_helper_is_told_whom_and_how_to_help() {
    let mut stuck = NextRequest { blocker: Some(blocker("external")), ..request(Layer::Unblock, Vec::new()) };
    let asked = [r#"Agent "noah" cannot go on with task "OAuth" (task_1)"#, "request 2 of 3", "Kind: external\n"];
    check_holds(stuck.clone(), &asked);
    check_holds(stuck.clone(), &["Reason: no API key\n", "Action wanted: send the key\n"]);
    stuck.blocker.as_mut().expect("a blocker").action.clear();
    check_holds(stuck, &["Action wanted: not stated; find out"]);
}

#[test]
fn the_backlog_is_picked_by_name() {
    let expected = r#"[SYSTEM REMINDER - BACKLOG]

You were idle, and task "OAuth" (task_1) of your backlog is in progress now.

Work on it now:
- Set its steps first: task_update(action: "set_steps", steps: [...])
- Proceed from step to step — do NOT stop before all steps are done"#;
    check(request(Layer::Backlog, Vec::new()), expected);
    let planned = request(Layer::Backlog, steps("."));
    check_holds(planned, &["now.\n\n□ (s1) do s1\n\nWork", "Go through its steps"]);
}

#[test]
fn a_zombie_is_told_what_will_happen() {
    let choices =
        ["no activity for 26 hours.", "\n\n▶ (s1) do s1\n\n", "- Continue", "task_block", "task_cancel", "abandoned"];
    check_holds(after(Layer::Zombie, ">", 26 * 60), &choices);
    check_holds(after(Layer::Zombie, "", 24 * 60), &["24 hours.\n\nDecide now:"]);
}

#[test]
fn the_last_error_is_told_with_its_first_characters() {
    let failed = |error: &str, same_error| NextRequest {
        last_error: error.into(),
        same_error,
        ..request(Layer::SelfDriving, steps(">"))
    };
    check_holds(failed("overloaded", 1), &["are done\n\nThe last run ended with an error: overloaded\n"]);
    check_holds(failed("overloaded", 2), &["with an error 2 times in a row: overloaded\n"]);
    check_holds(failed(&"오류".repeat(200), 1), &[&format!("error: {}…\n", "오류".repeat(150))]);
}

#[test]
fn a_hostile_description_is_cut_and_otherwise_left_as_it_is() {
    let described = |layer, description: &str| {
        let mut request = request(layer, steps(">"));
        request.task.as_mut().expect("a task").description = description.into();
        request
    };
    let huge = described(Layer::EventBased, &"x".repeat(10 << 20));
    check_holds(huge, &[&format!("Task \"{}…\" has", "x".repeat(500))]);
    let emoji = described(Layer::SelfDriving, &"👩‍💻".repeat(1_000));
    check_holds(emoji, &["…\" — 1 steps remaining"]);
    let braces = described(Layer::Polling, "{steps} {{task}} {0} {");
    check_holds(braces, &["Task \"{steps} {{task}} {0} {\" has"]);
}

#[test]
fn the_longest_built_in_prompt_stays_within_the_limit() {
    let mut request = request(Layer::Polling, steps(&">".repeat(1_000)));
    request.last_error = "x".repeat(1_000);
    let task = request.task.as_mut().expect("a task");
    task.description = "🦀".repeat(1_000);
    for step in &mut task.steps {
        (step.id, step.content) = ("🦀".repeat(1_000), "🦀".repeat(1_000));
    }
    assert!(prompt(&request).chars().count() < PROMPT_CHARS_MAX);
}
