//! Whether an agent that stopped is prompted at all.
//! Keeps true: an agent is not prompted where there is nothing for it to do, where a person is waited for, or sooner
//! than its errors allow. Never: writes a prompt.

use chela_sdk::continuation::{Action, Layer, NextRequest};
use chela_sdk::{StepStatus, Task};

use crate::is_subagent;

const BACKOFF_FROM: u32 = 3;
const BACKOFF_MS_FIRST: u64 = 60_000;
const BACKOFF_MS_MAX: u64 = 30 * 60_000;

/// The task to prompt about, or what to do instead.
pub fn task_to_prompt(request: &NextRequest) -> Result<&Task, Action> {
    if is_subagent(&request.agent.session_key) {
        return skip("a sub-agent answers to the agent that started it");
    }
    let needs_open_steps = match request.layer {
        Layer::SelfDriving | Layer::EventBased => true,
        Layer::Polling | Layer::Unblock | Layer::Backlog | Layer::Zombie => false,
        Layer::Other => return skip("a layer that this version does not know"),
    };
    let Some(task) = &request.task else {
        return skip("no task is at hand");
    };
    if task.status == "blocked" && request.blocker.as_ref().is_some_and(|blocker| blocker.kind == "input") {
        return skip("the task waits for a person");
    }
    if needs_open_steps && !task.steps.iter().any(|step| is_open(step.status)) {
        return skip("the task has no open steps");
    }
    if request.layer == Layer::Unblock && request.blocker.is_none() {
        return skip("nothing says why the task is blocked");
    }
    match backoff_ms(request.same_error) {
        // Once the agent has rested that long, the next try is due; else the answer would be the same for ever.
        Some(wait_ms) if request.idle_ms < wait_ms && !request.last_error.is_empty() => Err(Action::Backoff(wait_ms)),
        Some(_) | None => Ok(task),
    }
}

/// A status of a later version counts as open.
pub fn is_open(status: StepStatus) -> bool {
    !matches!(status, StepStatus::Done | StepStatus::Skipped)
}

/// How long to wait after so many runs in a row with the same error: nothing at first, then a minute, doubling.
fn backoff_ms(same_error: u32) -> Option<u64> {
    let doublings = same_error.checked_sub(BACKOFF_FROM)?;
    let wait_ms = 2_u64.checked_pow(doublings).and_then(|factor| factor.checked_mul(BACKOFF_MS_FIRST));
    Some(wait_ms.unwrap_or(BACKOFF_MS_MAX).min(BACKOFF_MS_MAX))
}

fn skip(reason: &str) -> Result<&Task, Action> {
    Err(Action::Skip(reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{blocker, request, steps};

    fn check(request: NextRequest, expected: &str) {
        let answer = match task_to_prompt(&request) {
            Ok(task) => format!("prompt {}", task.id),
            Err(Action::Skip(reason)) => format!("skip {reason}"),
            Err(Action::Backoff(wait_ms)) => format!("backoff {wait_ms}"),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(answer, expected);
    }

    fn without_task(layer: Layer) -> NextRequest {
        NextRequest { task: None, ..request(layer, Vec::new()) }
    }

    fn blocked(layer: Layer, kind: &str) -> NextRequest {
        let mut request = NextRequest { blocker: Some(blocker(kind)), ..request(layer, steps(">")) };
        request.task.as_mut().expect("a task").status = "blocked".into();
        request
    }

    fn failing(layer: Layer, same_error: u32, idle_ms: u64) -> NextRequest {
        NextRequest { last_error: "overloaded".into(), same_error, idle_ms, ..request(layer, steps(">")) }
    }

    #[test]
    fn open_steps_are_continued() {
        check(request(Layer::SelfDriving, steps("x>-.")), "prompt task_1");
        check(request(Layer::EventBased, steps("x.")), "prompt task_1");
        check(request(Layer::EventBased, steps("x?")), "prompt task_1");
    }

    #[test]
    fn the_fast_layers_skip_without_open_steps() {
        for layer in [Layer::SelfDriving, Layer::EventBased] {
            check(request(layer, Vec::new()), "skip the task has no open steps");
            check(request(layer, steps("x-")), "skip the task has no open steps");
        }
    }

    #[test]
    fn the_slow_layers_need_no_steps() {
        check(request(Layer::Polling, Vec::new()), "prompt task_1");
        check(request(Layer::Backlog, Vec::new()), "prompt task_1");
        check(request(Layer::Zombie, steps("xx")), "prompt task_1");
    }

    #[test]
    fn every_layer_skips_without_a_task() {
        for layer in
            [Layer::SelfDriving, Layer::EventBased, Layer::Polling, Layer::Unblock, Layer::Backlog, Layer::Zombie]
        {
            check(without_task(layer), "skip no task is at hand");
        }
    }

    #[test]
    fn a_layer_of_a_later_version_is_skipped() {
        check(request(Layer::Other, steps(">")), "skip a layer that this version does not know");
    }

    #[test]
    fn a_task_that_waits_for_a_person_is_left_alone() {
        for layer in [Layer::SelfDriving, Layer::Polling, Layer::Unblock, Layer::Zombie] {
            check(blocked(layer, "input"), "skip the task waits for a person");
        }
        check(blocked(Layer::Unblock, "dependency"), "prompt task_1");
    }

    #[test]
    fn a_request_to_unblock_needs_to_know_why() {
        check(request(Layer::Unblock, steps(">")), "skip nothing says why the task is blocked");
    }

    #[test]
    fn a_subagent_is_never_continued() {
        let mut request = request(Layer::SelfDriving, steps(">"));
        request.agent.session_key = "agent:eden:subagent:7".into();
        check(request, "skip a sub-agent answers to the agent that started it");
    }

    #[test]
    fn the_same_error_three_times_backs_off_in_every_layer() {
        check(failing(Layer::SelfDriving, 2, 500), "prompt task_1");
        check(failing(Layer::SelfDriving, 3, 500), "backoff 60000");
        check(failing(Layer::EventBased, 4, 2_000), "backoff 120000");
        check(failing(Layer::Polling, 5, 180_000), "backoff 240000");
        check(failing(Layer::Backlog, u32::MAX, 180_000), "backoff 1800000");
    }

    #[test]
    fn an_agent_that_rested_long_enough_is_tried_again() {
        check(failing(Layer::Polling, 3, 59_999), "backoff 60000");
        check(failing(Layer::Polling, 3, 60_000), "prompt task_1");
        check(failing(Layer::Zombie, u32::MAX, 86_400_000), "prompt task_1");
    }

    #[test]
    fn runs_that_ended_well_do_not_back_off() {
        check(NextRequest { same_error: 9, ..request(Layer::SelfDriving, steps(">")) }, "prompt task_1");
    }

    #[test]
    fn the_wait_doubles_up_to_half_an_hour() {
        const MINUTE: u64 = 60_000;
        let table =
            [(0, None), (1, None), (2, None), (3, Some(1)), (4, Some(2)), (5, Some(4)), (6, Some(8)), (7, Some(16))];
        for (same_error, minutes) in table {
            assert_eq!(backoff_ms(same_error), minutes.map(|count: u64| count * MINUTE), "{same_error}");
        }
        for same_error in [8, 9, 50, 66, 67, 1_000, u32::MAX] {
            assert_eq!(backoff_ms(same_error), Some(30 * MINUTE), "{same_error}");
        }
    }
}
