//! What is done about an agent, one sentence each.

use crate::{
    Agent, Answer, Begun, Blocked, By, Effect, End, Facts, Input, Layer, Look, Outcome, Poll, Rules, Stage, Stop,
    Timer, Why, step,
};

const START: u64 = 1_700_000_000_000;
const MINUTE: u64 = 60_000;

/// An agent, and what is around it.
struct Bench {
    agent: Agent,
    rules: Rules,
    now: u64,
    look: Look,
    n: u64,
}

fn facts(id: &str) -> Facts {
    Facts { id: id.into(), open_steps: 2, mark: 1, activity_at: START, session: "agent:eden:main".into() }
}

impl Bench {
    fn new() -> Self {
        let look = Look { task: Some(facts("task_1")), ..Look::default() };
        Self { agent: Agent::default(), rules: Rules::default(), now: START, look, n: 0 }
    }

    fn give(&mut self, input: Input) -> Vec<Effect> {
        let (agent, effects) = step(std::mem::take(&mut self.agent), input, self.now, &self.rules);
        self.agent = agent;
        effects.into_iter().filter(|effect| !matches!(effect, Effect::Keep { .. } | Effect::KeepAborted(_))).collect()
    }

    fn say(&mut self, by: By) {
        self.n += 1;
        let (run, order) = (format!("run-{}", self.n), self.n);
        assert_eq!(self.give(Input::Accepted { run: run.clone(), by, order }), []);
        assert_eq!(self.give(Input::Started { run, by, order }), []);
    }

    fn end(&mut self, outcome: Outcome) -> Vec<Effect> {
        let run = format!("run-{}", self.n);
        let end = End { run, by: By::Agent, at: self.now, outcome, tokens: 10, acted: false, compacted: false };
        self.give(Input::Ended { end, look: self.look.clone() })
    }

    /// A run, whatever it is about, that ends well and does nothing.
    fn run(&mut self) -> Vec<Effect> {
        self.say(By::Agent);
        self.end(Outcome::Ok)
    }

    fn failed(&mut self, said: &str, lasting: bool) -> Vec<Effect> {
        self.say(By::Agent);
        self.end(Outcome::Failed { said: said.into(), lasting })
    }

    /// The clock reaches the timer.
    fn due(&mut self) -> Vec<Effect> {
        self.now = self.agent.timer().expect("armed").due;
        self.give(Input::Due { look: self.look.clone() })
    }

    fn poll(&mut self) -> Vec<Effect> {
        self.give(Input::Poll(Poll { look: self.look.clone(), ..Poll::default() }))
    }

    fn answer(&mut self, answer: Answer) -> Vec<Effect> {
        let round = self.agent.round;
        self.give(Input::Answered { round, answer, look: self.look.clone() })
    }

    /// The policy says so, and the prompt is in its lane.
    fn send(&mut self) -> String {
        let effects = self.answer(Answer::Send("go on".into()));
        let [Effect::Send(send)] = &effects[..] else { panic!("{effects:?}") };
        let (round, key) = (send.round, send.key.clone());
        assert!(matches!(self.give(Input::Sent { round })[..], [Effect::TellSent { .. }]));
        key
    }

    fn armed(&self) -> Option<(Layer, u64)> {
        self.agent.timer().map(|Timer { due, layer }| (layer, due - self.now))
    }

    fn asks(effects: &[Effect]) -> Option<Layer> {
        match effects {
            [Effect::Ask(ask)] => Some(ask.layer),
            _ => None,
        }
    }
}

fn failed() -> Answer {
    Answer::Failed { why: "trapped".into(), plain: Some("go on".into()) }
}

#[test]
fn half_a_second_after_an_end_the_policy_is_asked_and_its_prompt_sent() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(), []);
    assert_eq!(bench.armed(), Some((Layer::SelfDriving, 500)));
    assert_eq!(Bench::asks(&bench.due()), Some(Layer::SelfDriving));
    let key = bench.send();
    assert_eq!(bench.armed(), None);
    let counts = bench.agent.counts("task_1").expect("counted");
    assert_eq!(key, format!("continuation:task_1:{}", counts.sent));
    assert!(counts.sent > START, "no number of another task of this name");
    assert_eq!((counts.in_a_row, counts.in_all, counts.tokens), (1, 1, 10));
}

#[test]
fn a_start_cancels_what_was_to_come() {
    let mut bench = Bench::new();
    bench.run();
    bench.say(By::Agent);
    assert_eq!(bench.armed(), None);
    bench.end(Outcome::Ok);
    bench.due();
    bench.say(By::Agent);
    assert_eq!(bench.answer(Answer::Send("late".into())), [], "an answer to a question that is over");
}

#[test]
fn what_stands_in_the_way_is_named() {
    let check = |change: &dyn Fn(&mut Bench), expected: Why| {
        let mut bench = Bench::new();
        bench.run();
        change(&mut bench);
        bench.now += 500;
        let look = bench.look.clone();
        let effects = bench.give(Input::Due { look });
        assert!(matches!(&effects[..], [Effect::Note { why, .. }] if *why == expected), "{effects:?}");
        assert_eq!(bench.armed(), None);
    };
    check(&|bench| bench.look.running = true, Why::Runs);
    check(&|bench| bench.look.waiting = 1, Why::Waits);
    check(&|bench| bench.look.subagents = 1, Why::SubagentRuns);
    check(&|bench| drop(bench.give(Input::Questions { open: 1 })), Why::Question);
    check(&|bench| bench.look.task.as_mut().expect("a task").open_steps = 0, Why::NoOpenSteps);
}

#[test]
fn a_task_that_is_not_in_progress_is_let_be() {
    let mut bench = Bench::new();
    bench.look.task = None;
    bench.look.waits_for_person = true;
    assert_eq!((bench.run(), bench.armed()), (vec![], None));
}

#[test]
fn a_skip_ends_the_round_until_the_task_changes_or_a_poll_asks_with_the_earlier_answer() {
    let mut bench = Bench::new();
    bench.run();
    bench.due();
    assert_eq!(bench.answer(Answer::Skip("waits for review".into())), []);
    assert_eq!(bench.armed(), None);
    bench.now += 3 * MINUTE;
    let effects = bench.poll();
    let [Effect::Ask(ask)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((ask.layer, ask.earlier.as_str()), (Layer::Polling, "skip: waits for review"));
    bench.answer(Answer::Skip("still".into()));
    bench.now += 3 * MINUTE;
    assert_eq!(bench.poll(), [], "the same question is not asked every two minutes");
    bench.look.task.as_mut().expect("a task").mark = 2;
    let look = bench.look.clone();
    assert_eq!(bench.give(Input::TaskChanged { look }), []);
    assert_eq!(bench.armed(), Some((Layer::SelfDriving, 500)));
}

#[test]
fn layer_three_fires_only_where_layer_two_could_not() {
    let mut bench = Bench::new();
    bench.run();
    bench.due();
    bench.answer(failed());
    assert_eq!(bench.armed(), Some((Layer::EventBased, 1_500)), "two seconds after the end");
    assert_eq!(Bench::asks(&bench.due()), Some(Layer::EventBased));
    bench.answer(failed());
    assert_eq!(bench.armed(), None);
    bench.now += 3 * MINUTE;
    assert_eq!(Bench::asks(&bench.poll()), Some(Layer::Polling));
    let effects = bench.answer(failed());
    assert!(matches!(&effects[..], [Effect::Send(send)] if send.prompt == "go on"), "the last resort is the plain one");
}

#[test]
fn a_prompt_that_was_refused_is_tried_once_more_unless_somebody_came_first() {
    let mut bench = Bench::new();
    bench.run();
    bench.due();
    bench.answer(Answer::Send("go on".into()));
    let round = bench.agent.round;
    bench.give(Input::Refused { round, busy: false, why: "full".into() });
    assert_eq!(bench.armed(), Some((Layer::EventBased, 1_500)));
    bench.due();
    bench.answer(Answer::Send("go on".into()));
    let round = bench.agent.round;
    bench.give(Input::Refused { round, busy: true, why: "busy".into() });
    assert_eq!(bench.armed(), None);
    assert_eq!(bench.agent.counts("task_1").expect("counted").in_all, 0, "what was not sent does not count");
}

#[test]
fn an_abort_holds_until_the_person_speaks_over_restarts_too() {
    let mut bench = Bench::new();
    bench.say(By::Person);
    bench.give(Input::Aborted { order: 1 });
    let effects = bench.end(Outcome::Aborted);
    assert!(matches!(effects[..], [Effect::Note { why: Why::Aborted, .. }]), "{effects:?}");
    let (counts, aborted) = (bench.agent.counts.clone(), bench.agent.aborted);
    bench.agent = Agent::kept(counts, aborted);
    let begun = Begun { look: bench.look.clone(), has_run: true, order: 1, ..Begun::default() };
    bench.give(Input::Begun(begun));
    assert_eq!(bench.armed(), None);
    bench.give(Input::Accepted { run: "early".into(), by: By::Person, order: 1 });
    assert!(bench.agent.is_aborted(), "what was said before does not lift it");
    bench.run();
    assert_eq!(bench.armed(), None, "nor does another agent");
    bench.say(By::Person);
    bench.end(Outcome::Ok);
    assert_eq!(bench.armed(), Some((Layer::SelfDriving, 500)));
}

#[test]
fn the_row_has_an_end_and_the_task_is_blocked_with_the_reason() {
    let mut bench = Bench::new();
    for _ in 0..20 {
        bench.run();
        bench.due();
        bench.send();
    }
    bench.run();
    let effects = bench.due();
    let [Effect::Stop { stop: Stop::Limit, reason, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(reason, "20 continuations in a row came to no progress");
}

#[test]
fn progress_begins_the_row_anew_and_the_caps_in_all_stay() {
    let mut bench = Bench::new();
    bench.rules.per_day_max = 1_000;
    for n in 0..200 {
        bench.look.task.as_mut().expect("a task").mark = n;
        bench.run();
        bench.due();
        bench.send();
    }
    bench.look.task.as_mut().expect("a task").mark = 1_000;
    bench.run();
    let effects = bench.due();
    assert!(matches!(&effects[..], [Effect::Stop { reason, .. }] if reason.contains("200 times")), "{effects:?}");
}

#[test]
fn a_minute_of_quiet_begins_the_row_anew_and_a_long_run_does_not() {
    let mut bench = Bench::new();
    bench.run();
    bench.due();
    bench.send();
    bench.say(By::Agent);
    bench.now += 10 * MINUTE;
    bench.end(Outcome::Ok);
    assert_eq!(bench.agent.counts("task_1").expect("counted").in_a_row, 1, "it ran all the while");
    bench.now += 2 * MINUTE;
    bench.say(By::Agent);
    assert_eq!(bench.agent.counts("task_1").expect("counted").in_a_row, 0);
}

#[test]
fn the_same_error_waits_longer_each_time_and_then_blocks_the_task() {
    let mut bench = Bench::new();
    for _ in 0..2 {
        assert_eq!(bench.failed("overloaded", false), []);
        assert!(bench.armed().is_some());
    }
    for wait in [1, 2, 4] {
        let effects = bench.failed("overloaded", false);
        assert!(matches!(effects[..], [Effect::TellBackoff { ms, .. }] if ms == wait * MINUTE), "{effects:?}");
        assert_eq!(bench.armed(), None);
        bench.now += wait * MINUTE - 1;
        assert_eq!(bench.poll(), []);
        bench.now += 3 * MINUTE;
        assert_eq!(Bench::asks(&bench.poll()), Some(Layer::Polling));
    }
    let effects = bench.failed("overloaded", false);
    let [Effect::Stop { stop: Stop::Error, reason, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(reason, "6 runs in a row ended with the same error: overloaded");
}

#[test]
fn an_error_that_lasts_is_not_run_into_again_and_blocks_the_task_if_it_is() {
    let mut bench = Bench::new();
    let effects = bench.failed("no key", true);
    assert!(matches!(effects[..], [Effect::Note { why: Why::Held, .. }]), "{effects:?}");
    assert_eq!(bench.armed(), None);
    let look = bench.look.clone();
    bench.give(Input::RulesChanged { look });
    assert!(bench.armed().is_some(), "another configuration may mend it");
    let effects = bench.failed("no key", true);
    assert!(matches!(effects[..], [Effect::Stop { stop: Stop::Error, .. }]), "{effects:?}");
}

#[test]
fn a_person_resumes_a_stopped_task_with_fresh_counts_and_an_agent_does_not() {
    let mut bench = Bench::new();
    bench.failed("no key", true);
    bench.failed("no key", true);
    let stopped = bench.look.task.take();
    let look = bench.look.clone();
    bench.give(Input::TaskChanged { look });
    bench.look.task = stopped;
    bench.say(By::Agent);
    let effects = bench.end(Outcome::Ok);
    assert!(
        matches!(effects[..], [Effect::Stop { stop: Stop::Error, .. }]),
        "the agent resumed it itself: {effects:?}"
    );
    bench.give(Input::Stopped { task: "task_1".into() });
    let look = bench.look.clone();
    assert_eq!(bench.give(Input::TaskChanged { look }), []);
    let counts = bench.agent.counts("task_1").expect("counted");
    assert_eq!((counts.stopped.as_ref(), counts.same_error, counts.held), (None, 0, false));
}

#[test]
fn who_types_is_let_finish_and_what_was_summed_up_waits_longer() {
    let mut bench = Bench::new();
    bench.run();
    bench.give(Input::Typed);
    assert_eq!(bench.due(), []);
    assert_eq!(bench.armed(), Some((Layer::SelfDriving, 9_500)));
    assert_eq!(Bench::asks(&bench.due()), Some(Layer::SelfDriving));
    let end = End {
        run: "r".into(),
        by: By::Agent,
        at: bench.now,
        outcome: Outcome::Ok,
        tokens: 0,
        acted: false,
        compacted: true,
    };
    let look = bench.look.clone();
    bench.give(Input::Ended { end, look });
    assert_eq!(bench.armed(), Some((Layer::SelfDriving, 5_500)));
}

#[test]
fn a_blocked_task_has_three_requests_then_a_person_is_to_be_asked_then_nobody() {
    let mut bench = Bench::new();
    bench.look.task = None;
    let mut stages = Vec::new();
    let (mut requests, mut escalated, mut failed) = (0, false, false);
    for _ in 0..200 {
        bench.now += 2 * MINUTE;
        let (id, activity_at) = ("task_2".into(), START);
        let blocked = Blocked { id, by_person: false, requests, escalated, failed, activity_at };
        let look = bench.look.clone();
        for effect in bench.give(Input::Poll(Poll { look, blocked: vec![blocked], ..Poll::default() })) {
            let Effect::Unblock { stage, .. } = effect else { panic!("{effect:?}") };
            stages.push(((bench.now - START) / MINUTE, stage));
            match stage {
                Stage::Request(n) => requests = n,
                Stage::Escalate => escalated = true,
                Stage::Fail => failed = true,
            }
        }
    }
    let asked = |n| Stage::Request(n);
    assert_eq!(stages, [(4, asked(1)), (34, asked(2)), (64, asked(3)), (94, Stage::Escalate), (124, Stage::Fail)]);
}

#[test]
fn a_dead_task_is_asked_once_for_a_sign_of_life_and_given_up_at_the_poll_after() {
    let mut bench = Bench::new();
    bench.now += 24 * 60 * MINUTE;
    assert_eq!(Bench::asks(&bench.poll()), Some(Layer::Zombie));
    bench.send();
    assert_eq!((bench.run(), bench.armed()), (vec![], None), "a run without a sign is none");
    bench.now += 2 * MINUTE;
    assert_eq!(bench.poll(), [], "not idle for long enough");
    bench.now += 2 * MINUTE;
    let effects = bench.poll();
    assert!(matches!(effects[..], [Effect::GiveUp { to_backlog: false, .. }]), "{effects:?}");
}

#[test]
fn an_idle_agent_picks_from_its_backlog() {
    let mut bench = Bench::new();
    bench.look.task = None;
    bench.now += 3 * MINUTE;
    let look = bench.look.clone();
    let poll = Poll { look, backlog: Some(facts("task_9")), ..Poll::default() };
    assert_eq!(Bench::asks(&bench.give(Input::Poll(poll))), Some(Layer::Backlog));
    assert!(bench.send().starts_with("continuation:task_9:"));
}

#[test]
fn a_restart_arms_as_if_a_run_had_just_ended_and_keeps_what_was_counted() {
    let mut bench = Bench::new();
    bench.run();
    bench.due();
    bench.send();
    let counts = bench.agent.counts.clone();
    let sent = counts["task_1"].sent;
    bench.agent = Agent::kept(counts, None);
    bench.now += 10;
    let begun = Begun { look: bench.look.clone(), has_run: true, last_run_at: START, ..Begun::default() };
    let effects = bench.give(Input::Begun(begun));
    assert!(matches!(effects[..], [Effect::TellSent { .. }]), "its event may not have been told: {effects:?}");
    assert_eq!(bench.armed(), Some((Layer::SelfDriving, 500)));
    bench.due();
    assert_eq!(bench.send(), format!("continuation:task_1:{}", sent + 1));
    bench.give(Input::Told { task: "task_1".into(), sent: sent + 1 });
    assert_eq!(bench.agent.counts("task_1").expect("counted").untold, None);
    let mut fresh = Bench::new();
    let begun = Begun { look: fresh.look.clone(), ..Begun::default() };
    fresh.give(Input::Begun(begun));
    assert_eq!(fresh.armed(), None, "an agent that never ran has not stopped");
}

#[test]
fn a_clock_that_was_set_back_while_nobody_served_holds_nothing_up() {
    let mut bench = Bench::new();
    bench.run();
    bench.due();
    bench.send();
    bench.agent = Agent::kept(bench.agent.counts.clone(), None);
    bench.now -= 24 * 60 * MINUTE;
    let last_run_at = START + MINUTE;
    let begun = Begun { look: bench.look.clone(), last_run_at, ..Begun::default() };
    bench.give(Input::Begun(begun));
    bench.now += 3 * MINUTE;
    assert_eq!(Bench::asks(&bench.poll()), Some(Layer::Polling), "idle since the start, whatever the file says");
    assert_eq!(bench.agent.counts("task_1").and_then(|counts| counts.continued_at), Some(bench.now - 3 * MINUTE));
}
