//! What a prompt can say about a stop, each fact cut to its limit.
//! Keeps true: prompts, built in or own, see a request only through these facts. Never: decides.

use std::borrow::Cow;

use chela_sdk::continuation::{Layer, NextRequest};
use chela_sdk::{Step, StepStatus, Task};

use crate::decision::is_open;
use crate::text::{LINE_CHARS_MAX, NAME_CHARS_MAX, PARAGRAPH_CHARS_MAX, count_of, cut};

const STEPS_SHOWN_MAX: usize = 100;

pub struct Facts<'a> {
    pub layer: Layer,
    pub id: Cow<'a, str>,
    pub task: Cow<'a, str>,
    /// The checklist, a line each step; empty when the task has none.
    pub steps: String,
    pub remaining: usize,
    /// The step in progress.
    pub current: Option<Cow<'a, str>>,
    /// The first open step, in progress or not.
    pub first_open: Option<Cow<'a, str>>,
    /// Continuations in a row, or requests to unblock.
    pub count: u32,
    pub max: u32,
    pub idle: String,
    pub owner: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    pub reason: Cow<'a, str>,
    pub action: Cow<'a, str>,
    pub error: Cow<'a, str>,
    pub same_error: u32,
}

impl<'a> Facts<'a> {
    pub fn of(task: &'a Task, request: &'a NextRequest) -> Self {
        let (counters, blocker) = (&request.counters, request.blocker.as_ref());
        let content_of = |step: &'a Step| cut(&step.content, LINE_CHARS_MAX);
        let (count, max) = match request.layer {
            Layer::Unblock => (counters.requests, counters.requests_max),
            _ => (counters.in_a_row, counters.in_a_row_max),
        };
        Self {
            layer: request.layer,
            id: cut(&task.id, NAME_CHARS_MAX),
            task: cut(&task.description, PARAGRAPH_CHARS_MAX),
            steps: checklist(&task.steps, request.layer),
            remaining: task.steps.iter().filter(|step| is_open(step.status)).count(),
            current: task.steps.iter().find(|step| step.status == StepStatus::InProgress).map(content_of),
            first_open: task.steps.iter().find(|step| is_open(step.status)).map(content_of),
            count,
            max,
            idle: idle(request.layer, request.idle_ms),
            owner: cut(blocker.map_or(&request.agent.id, |blocker| &blocker.owner), NAME_CHARS_MAX),
            kind: cut(blocker.map_or("", |blocker| &blocker.kind), NAME_CHARS_MAX),
            reason: cut(blocker.map_or("", |blocker| &blocker.reason), PARAGRAPH_CHARS_MAX),
            action: cut(blocker.map_or("", |blocker| &blocker.action), PARAGRAPH_CHARS_MAX),
            error: cut(&request.last_error, LINE_CHARS_MAX),
            same_error: request.same_error,
        }
    }
}

fn checklist(steps: &[Step], layer: Layer) -> String {
    let shown = steps.iter().take(STEPS_SHOWN_MAX).map(|step| {
        let (id, content) = (cut(&step.id, NAME_CHARS_MAX), cut(&step.content, LINE_CHARS_MAX));
        format!("{} ({id}) {content}", marker(layer, step.status))
    });
    let mut lines: Vec<String> = shown.collect();
    if steps.len() > STEPS_SHOWN_MAX {
        lines.push(format!("… and {} more", steps.len() - STEPS_SHOWN_MAX));
    }
    lines.join("\n")
}

/// Self-driving shows its steps as emoji, the quieter layers as plain signs.
fn marker(layer: Layer, status: StepStatus) -> &'static str {
    let (emoji, plain) = match status {
        StepStatus::Done => ("✅", "✅"),
        StepStatus::InProgress => ("▶\u{fe0f}", "▶"),
        StepStatus::Skipped => ("⏭\u{fe0f}", "⏭"),
        StepStatus::Pending | StepStatus::Other => ("⬜", "□"),
    };
    if layer == Layer::SelfDriving { emoji } else { plain }
}

fn idle(layer: Layer, idle_ms: u64) -> String {
    let minutes = idle_ms / 60_000;
    match layer {
        Layer::Zombie => count_of(minutes / 60, "hour", "less than an hour"),
        _ => count_of(minutes, "minute", "less than a minute"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{blocker, request, steps};

    fn check(request: &NextRequest, look: impl Fn(&Facts) -> String, expected: &str) {
        let task = request.task.as_ref().expect("a task");
        assert_eq!(look(&Facts::of(task, request)), expected);
    }

    #[test]
    fn steps_have_the_markers_of_their_layer() {
        let signs = |facts: &Facts| facts.steps.lines().filter_map(|line| line.split(' ').next()).collect();
        check(&request(Layer::SelfDriving, steps("x>-.?")), signs, "✅▶️⏭️⬜⬜");
        check(&request(Layer::EventBased, steps("x>-.?")), signs, "✅▶⏭□□");
        check(&request(Layer::Zombie, steps("x>-.?")), signs, "✅▶⏭□□");
    }

    #[test]
    fn the_current_step_is_the_one_in_progress_and_else_there_is_none() {
        let current = |facts: &Facts| format!("{:?} {:?}", facts.current, facts.first_open);
        check(&request(Layer::Polling, steps("x.>")), current, r#"Some("do s3") Some("do s2")"#);
        check(&request(Layer::Polling, steps("x.")), current, r#"None Some("do s2")"#);
        check(&request(Layer::Polling, steps("x-")), current, "None None");
    }

    #[test]
    fn a_hundred_steps_are_shown_and_the_rest_counted() {
        let last = |facts: &Facts| facts.steps.lines().last().unwrap_or_default().to_owned();
        check(&request(Layer::Polling, steps(&".".repeat(100))), last, "□ (s100) do s100");
        check(&request(Layer::Polling, steps(&".".repeat(101))), last, "… and 1 more");
        let remaining = |facts: &Facts| facts.remaining.to_string();
        check(&request(Layer::Polling, steps(&".".repeat(5_000))), remaining, "5000");
    }

    #[test]
    fn long_texts_are_cut() {
        let mut request = NextRequest { blocker: Some(blocker("external")), ..request(Layer::Unblock, steps(">")) };
        let (long, task) = ("🦀".repeat(10_000), request.task.as_mut().expect("a task"));
        (task.id, task.description) = (long.clone(), long.clone());
        (task.steps[0].id, task.steps[0].content) = (long.clone(), long.clone());
        let why = request.blocker.as_mut().expect("a blocker");
        (why.owner, why.kind, why.reason, why.action) = (long.clone(), long.clone(), long.clone(), long.clone());
        request.last_error = long;
        let length = |text: &str| text.chars().count();
        check(&request, |facts| format!("{} {}", length(&facts.id), length(&facts.task)), "101 501");
        check(&request, |facts| length(&facts.steps).to_string(), "407");
        check(&request, |facts| length(facts.current.as_deref().unwrap_or_default()).to_string(), "301");
        check(&request, |facts| format!("{} {}", length(&facts.owner), length(&facts.kind)), "101 101");
        check(&request, |facts| format!("{} {}", length(&facts.reason), length(&facts.action)), "501 501");
        check(&request, |facts| length(&facts.error).to_string(), "301");
    }

    #[test]
    fn idle_time_is_in_minutes_and_for_zombies_in_hours() {
        let after = |layer, idle_ms| NextRequest { idle_ms, ..request(layer, steps(">")) };
        check(&after(Layer::Polling, 59_999), |facts| facts.idle.clone(), "less than a minute");
        check(&after(Layer::Polling, 200_000), |facts| facts.idle.clone(), "3 minutes");
        check(&after(Layer::Zombie, 86_400_000), |facts| facts.idle.clone(), "24 hours");
        check(&after(Layer::Zombie, u64::MAX), |facts| facts.idle.clone(), "5124095576030 hours");
    }

    #[test]
    fn requests_to_unblock_are_counted_apart() {
        let count = |facts: &Facts| format!("{}/{} {}", facts.count, facts.max, facts.owner);
        check(&request(Layer::Polling, steps(">")), count, "3/20 eden");
        let unblock = NextRequest { blocker: Some(blocker("external")), ..request(Layer::Unblock, steps(">")) };
        check(&unblock, count, "2/3 noah");
    }
}
