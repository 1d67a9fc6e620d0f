//! Flows as data: what happens, and what is told of it.

use crate::*;

const NOW: u64 = 1_000_000;

fn new(message: &str) -> New {
    New {
        job_id: "j".into(),
        session_key: "agent:eden:main".into(),
        target_session_key: "agent:seum:main".into(),
        conversation_id: "c".into(),
        work_session_id: Some("ws_1".into()),
        chain: Chain::begin("chain".into(), "eden", NOW),
        message: message.into(),
        max_turns: 5,
        max_retries: 3,
        ..New::default()
    }
}

fn discord(place: &str) -> Place {
    Place { channel: "discord".into(), place: place.into(), thread: None }
}

fn answer(reply: &str) -> Input {
    Input::Answered { reply: reply.into() }
}

fn failure(error: &str, transient: bool) -> Input {
    Input::Failed { status: WaitStatus::Error, error: Some(error.into()), transient }
}

/// What an event says.
fn facts(happened: &Happened) -> serde_json::Value {
    serde_json::from_str(happened.data.get()).expect("an object")
}

/// An effect in one word or two.
fn word(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Send(message) => format!("send {} to {}", message.key, agent_of(&message.session_key)),
        Effect::Notify(message) => format!("notify {}", agent_of(&message.session_key)),
        Effect::Post { .. } => "post".into(),
        Effect::Abort { run, .. } => format!("abort {run}"),
        Effect::Overdue { run, .. } => format!("overdue {run}"),
        Effect::Tell(Happened { what: What::Delivery, .. }) => return None,
        Effect::Tell(happened) => {
            let facts = facts(happened);
            let turn = facts.get("turn").filter(|_| happened.what == What::Response);
            let blocked = if facts.get("outcome").is_some() { " blocked" } else { "" };
            match turn {
                Some(turn) => format!("{:?} {turn} by {}{blocked}", happened.what, happened.agent),
                None => format!("{:?}", happened.what),
            }
        }
    })
}

fn words_of(next: &Next) -> Vec<String> {
    next.effects.iter().filter_map(word).collect()
}

/// Plays a flow: what each input leads to, and how it stands at the end.
fn check(new: New, inputs: Vec<Input>, expected: &[&str], end: (Status, u32)) -> Job {
    let rules = Rules::default();
    let first = create(new, &rules, NOW);
    let mut told = words_of(&first);
    let mut job = first.job;
    for (at, input) in (1..).zip(inputs) {
        let next = step(&job, input, &rules, NOW + at * 1_000);
        told.extend(next.iter().flat_map(words_of));
        job = next.map_or(job, |next| next.job);
    }
    assert_eq!(told, expected);
    assert_eq!((job.status, job.current_turn), end);
    job
}

#[test]
fn an_exchange_goes_back_and_forth_until_one_side_has_nothing_to_say() {
    let inputs = vec![
        Input::Delivered,
        answer("did it"),
        answer("thanks, and the tests?"),
        answer("green"),
        answer("REPLY_SKIP"),
    ];
    let job = check(
        new("please do it"),
        inputs,
        &[
            "JobCreated",
            "Send",
            "send j:0 to seum",
            "Response 0 by seum",
            "send j:1 to eden",
            "Response 1 by eden",
            "send j:2 to seum",
            "Response 2 by seum",
            "send j:3 to eden",
            "Complete",
            "JobCompleted",
        ],
        (Status::Completed, 3),
    );
    assert_eq!(job.announce.state, AnnounceState::NoChannel);
    assert_eq!(job.turns.len(), 4);
    assert_eq!(job.finished_at, Some(NOW + 5_000));
}

#[test]
fn an_exchange_ends_at_its_last_turn() {
    let mut asked = new("go on");
    asked.max_turns = 99;
    let inputs = (0..9).map(|n| answer(&format!("word {n}"))).collect();
    let job = check(
        asked,
        inputs,
        &[
            "JobCreated",
            "Send",
            "send j:0 to seum",
            "Response 0 by seum",
            "send j:1 to eden",
            "Response 1 by eden",
            "send j:2 to seum",
            "Response 2 by seum",
            "send j:3 to eden",
            "Response 3 by eden",
            "send j:4 to seum",
            "Response 4 by seum",
            "send j:5 to eden",
            "Response 5 by eden",
            "Complete",
            "JobCompleted",
        ],
        (Status::Completed, 5),
    );
    assert_eq!(job.max_turns, 5, "five is the most");
}

#[test]
fn a_notification_is_answered_once_and_an_empty_answer_is_told_as_none() {
    let once = ["JobCreated", "Send", "send j:0 to seum", "Response 0 by seum", "Complete", "JobCompleted"];
    check(new("[NOTIFICATION] the build is green"), vec![answer("noted")], &once, (Status::Completed, 0));
    check(new("please [NO_REPLY_NEEDED]"), vec![answer("ok")], &once, (Status::Completed, 0));
    check(new("and?"), vec![answer("fine [NO_REPLY_NEEDED]")], &once, (Status::Completed, 0));
    let none = ["JobCreated", "Send", "send j:0 to seum", "Response 0 by seum blocked", "Complete", "JobCompleted"];
    check(new("and?"), vec![answer(" ")], &none, (Status::Completed, 0));
}

#[test]
fn people_in_a_channel_are_told_what_the_target_writes_or_nothing() {
    let mut asked = new("[NOTIFICATION] x");
    asked.announce = Announced::Channel(discord("channel:1"));
    let begin = ["JobCreated", "Send", "send j:0 to seum", "Response 0 by seum", "send j:announce to seum"];
    let told: Vec<&str> = begin.iter().copied().chain(["post", "Complete", "JobCompleted"]).collect();
    let job = check(asked.clone(), vec![answer("ok"), answer("All is done.")], &told, (Status::Completed, 0));
    assert_eq!(job.announce.state, AnnounceState::Queued);
    let quiet: Vec<&str> = begin.iter().copied().chain(["Complete", "JobCompleted"]).collect();
    let job = check(asked.clone(), vec![answer("ok"), answer("ANNOUNCE_SKIP")], &quiet, (Status::Completed, 0));
    assert_eq!(job.announce.state, AnnounceState::Skipped);
    let job = check(asked, vec![answer("ok"), failure("gone", false)], &quiet, (Status::Completed, 0));
    assert_eq!((job.announce.state, job.last_error.as_deref()), (AnnounceState::Failed, Some("gone")));
}

#[test]
fn people_who_began_a_chain_hear_that_a_flow_of_it_came_to_nothing() {
    let rules = Rules::default();
    let posts_of = |kind: Kind, announce: Announced, began: Option<&str>| {
        let chain = Chain::begin("chain".into(), "ruda", NOW).in_place(began.map(discord));
        let chain = chain.forward("eden", Used::default(), &Limits::default(), NOW).expect("it may go on");
        let job = create(New { kind, chain, announce, ..new("x") }, &rules, NOW).job;
        let next = step(&job, failure("gone", false), &rules, NOW).expect("it fails");
        let post = |effect: Effect| match effect {
            Effect::Post { to, text } => {
                assert!(!text.contains("[outcome]") && text.contains("gone"), "{text}");
                Some(to.place)
            }
            _ => None,
        };
        next.effects.into_iter().filter_map(post).collect::<Vec<_>>()
    };
    let posts = |announce: Announced, began: Option<&str>| posts_of(Kind::Send, announce, began);
    let orchestrator = || Announced::Session { session_key: "agent:ruda:main".into() };
    assert_eq!(posts(Announced::Nobody, Some("direct:mina")), ["direct:mina"]);
    assert_eq!(posts(orchestrator(), Some("channel:7")), ["channel:7"]);
    assert_eq!(posts(Announced::Channel(discord("channel:1")), Some("channel:7")), ["channel:1"], "and only once");
    assert!(posts(orchestrator(), None).is_empty());
    let of_sub_agent = |began: Option<&str>| posts_of(Kind::Spawn, orchestrator(), began);
    assert_eq!(of_sub_agent(Some("channel:7")), ["channel:7"], "beside the parent, people hear of it");
    assert!(of_sub_agent(None).is_empty());
}

#[test]
fn what_may_pass_is_tried_three_times_more_each_under_its_own_key() {
    let mut inputs = Vec::new();
    for _ in 0..3 {
        inputs.extend([Input::Delivered, failure("overloaded", true), Input::Due]);
    }
    inputs.push(failure("overloaded", true));
    let job = check(
        new("x"),
        inputs,
        &[
            "JobCreated",
            "Send",
            "send j:0 to seum",
            "JobRetried",
            "send j:0~1 to seum",
            "JobRetried",
            "send j:0~2 to seum",
            "JobRetried",
            "send j:0~3 to seum",
            "Response 0 by seum blocked",
            "Complete",
            "JobFailed",
            "notify eden",
        ],
        (Status::Failed, 0),
    );
    let keys: Vec<&str> = job.turns[0].attempts.iter().map(|attempt| attempt.key.as_str()).collect();
    assert_eq!(keys, ["j:0", "j:0~1", "j:0~2"]);
    assert_eq!(job.last_error.as_deref(), Some("overloaded"));
}

#[test]
fn what_does_not_pass_by_itself_is_not_tried_again() {
    let told = [
        "JobCreated",
        "Send",
        "send j:0 to seum",
        "Response 0 by seum blocked",
        "Complete",
        "JobFailed",
        "notify eden",
    ];
    check(new("x"), vec![failure("context_length", false)], &told, (Status::Failed, 0));
    let mut awaited = new("x");
    awaited.awaited_until = Some(NOW + 30_000);
    check(awaited, vec![failure("context_length", false)], &told[..6], (Status::Failed, 0));
}

#[test]
fn a_run_that_takes_too_long_is_given_up_without_a_further_try() {
    let told = [
        "JobCreated",
        "Send",
        "send j:0 to seum",
        "overdue j:0",
        "Response 0 by seum blocked",
        "Complete",
        "JobFailed",
        "notify eden",
    ];
    let job = check(new("x"), vec![Input::Delivered, Input::TimedOut, answer("late")], &told, (Status::Failed, 0));
    let data = facts(&late(&job, "agent:seum:main", "j:0", "late"));
    assert_eq!((&data["late"], &data["fromAgent"]), (&true.into(), &"seum".into()));
}

#[test]
fn a_job_is_cancelled_wherever_it_stands() {
    let cancel = || Input::Cancel { by: "operator".into() };
    let waiting = ["JobCreated", "Send", "send j:0 to seum", "abort j:0", "Complete", "JobCancelled", "notify eden"];
    check(new("x"), vec![cancel()], &waiting, (Status::Cancelled, 0));
    let between = ["JobCreated", "Send", "send j:0 to seum", "JobRetried", "Complete", "JobCancelled", "notify eden"];
    check(new("x"), vec![failure("busy", true), cancel(), Input::Due], &between, (Status::Cancelled, 0));
    let mut awaited = new("x");
    awaited.awaited_until = Some(NOW + 30_000);
    check(awaited, vec![cancel()], &waiting[..6], (Status::Cancelled, 0));
    let mut announced = new("[NOTIFICATION] x");
    announced.announce = Announced::Channel(discord("channel:1"));
    let answered = [
        "JobCreated",
        "Send",
        "send j:0 to seum",
        "Response 0 by seum",
        "send j:announce to seum",
        "abort j:announce",
        "Complete",
        "JobCancelled",
    ];
    check(announced, vec![answer("ok"), cancel()], &answered, (Status::Cancelled, 0));
}

#[test]
fn a_message_that_is_given_up_has_failed_and_is_told_so() {
    let rules = Rules::default();
    let given_up = |before: Vec<Input>, input: Input| {
        let first = create(new("x"), &rules, NOW).job;
        let job = before.into_iter().fold(first, |job, input| step(&job, input, &rules, NOW).expect("a step").job);
        let next = step(&job, input, &rules, NOW + 7).expect("it is given up");
        let turn = &next.job.turns[0];
        assert_eq!((turn.state, turn.failed_at), (DeliveryState::Failed, Some(NOW + 7)));
        let told = next.effects.iter().find_map(|effect| match effect {
            Effect::Tell(told) if told.what == What::Delivery => Some(facts(told)),
            _ => None,
        });
        let told = told.expect("it is told");
        assert_eq!((&told["state"], &told["at"]), (&"failed".into(), &(NOW + 7).into()));
        (turn.error.clone().expect("why"), turn.attempts.len())
    };
    let cancel = || Input::Cancel { by: "owner".into() };
    let cancelled = ("cancelled by owner".to_owned(), 0);
    assert_eq!(given_up(vec![], cancel()), cancelled);
    assert_eq!(given_up(vec![Input::Delivered], cancel()), cancelled);
    assert_eq!(given_up(vec![failure("busy", true)], cancel()), (cancelled.0, 1), "also between two tries");
    assert_eq!(given_up(vec![Input::Delivered], Input::Stale).0, "nothing has happened to it for too long");
}

#[test]
fn a_job_whose_message_is_worked_on_has_just_changed() {
    let rules = Rules::default();
    let job = create(new("x"), &rules, NOW).job;
    let next = step(&job, Input::Delivered, &rules, NOW + 9).expect("a step");
    assert_eq!((next.job.updated_at, next.durable), (NOW + 9, false));
}

#[test]
fn a_sub_agent_reports_to_its_parent_alone() {
    let mut asked = new("count the files");
    asked.kind = Kind::Spawn;
    asked.target_session_key = "agent:eden:subagent:7".into();
    let told = ["JobCreated", "Spawn", "send j:0 to eden", "SpawnResult", "notify eden", "JobCompleted"];
    check(asked.clone(), vec![answer("42")], &told, (Status::Completed, 0));
    let told = ["JobCreated", "Spawn", "send j:0 to eden", "SpawnResult", "JobFailed", "notify eden"];
    check(asked, vec![failure("no", false)], &told, (Status::Failed, 0));
}

#[test]
fn a_start_resumes_and_an_end_stays() {
    let told = [
        "JobCreated",
        "Send",
        "send j:0 to seum",
        "JobResumed",
        "send j:0 to seum",
        "Response 0 by seum",
        "send j:1 to eden",
    ];
    let job =
        check(new("x"), vec![Input::Delivered, Input::Resumed, Input::Due, answer("y")], &told, (Status::Pending, 1));
    assert_eq!(job.resume_count, 1);
    let stale = [
        "JobCreated",
        "Send",
        "send j:0 to seum",
        "abort j:0",
        "Response 0 by seum blocked",
        "Complete",
        "JobAbandoned",
        "notify eden",
    ];
    check(new("x"), vec![Input::Stale, Input::Stale, answer("y"), Input::Resumed], &stale, (Status::Abandoned, 0));
}

#[test]
fn a_flow_that_failed_is_taken_up_from_its_first_unanswered_turn() {
    let rules = Rules::default();
    let mut job = create(new("x"), &rules, NOW).job;
    for input in [answer("one"), answer("two"), failure("gone", false)] {
        job = step(&job, input, &rules, NOW).expect("a step").job;
    }
    assert_eq!((job.status, job.current_turn), (Status::Failed, 2));
    let next = again(&job, "k".into(), &rules, NOW + 9);
    assert_eq!(words_of(&next), ["JobCreated", "Send", "send k:2 to seum"]);
    assert_eq!(next.job.retry_of.as_deref(), Some("j"));
    assert_eq!(next.job.conversation_id, "c");
    let Some(Effect::Send(message)) = next.effects.iter().find(|effect| matches!(effect, Effect::Send(_))) else {
        panic!("nothing is sent")
    };
    assert_eq!(message.text, "two", "what was answered before is what is asked now");
}

#[test]
fn a_flow_that_was_answered_is_not_asked_again_for_the_sake_of_its_announcement() {
    let rules = Rules::default();
    let mut asked = new("[NOTIFICATION] x");
    asked.announce = Announced::Channel(discord("channel:1"));
    let mut job = create(asked, &rules, NOW).job;
    for input in [answer("done"), Input::Cancel { by: "operator".into() }] {
        job = step(&job, input, &rules, NOW).expect("a step").job;
    }
    assert_eq!(words_of(&again(&job, "k".into(), &rules, NOW)), ["JobCreated", "Send", "send k:announce to seum"]);
}

#[test]
fn tries_are_further_apart_each_time_and_not_all_at_once() {
    let rules = Rules::default();
    let wait = |id: &str, tries: usize| {
        let mut job = create(New { job_id: id.into(), ..new("x") }, &rules, NOW).job;
        for _ in 0..tries {
            job = step(&job, Input::Due, &rules, NOW).expect("sent").job;
            job = step(&job, failure("busy", true), &rules, NOW).expect("failed").job;
        }
        job.next_try_at.expect("another try") - NOW
    };
    let waits: Vec<u64> = (1..=3).map(|tries| wait("j", tries)).collect();
    assert!(
        (1_000..=2_000).contains(&waits[0])
            && (2_000..=4_000).contains(&waits[1])
            && (4_000..=8_000).contains(&waits[2])
    );
    let apart: std::collections::BTreeSet<u64> = (0..20).map(|n| wait(&format!("job-{n}"), 1)).collect();
    assert!(apart.len() > 10, "{apart:?}");
}

/// Whatever happens, in whatever order: a flow ends, its end stays, no key is sent twice unless it was never taken, and the record reads back.
#[test]
fn whatever_happens_a_flow_keeps_its_promises() {
    let rules = Rules::default();
    for seed in 0..20_000 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut asked = new(if chance.bool() { "do it" } else { "[NOTIFICATION] x" });
        asked.max_turns = chance.u32(0..9);
        asked.kind = if chance.u8(0..4) == 0 { Kind::Spawn } else { Kind::Send };
        if chance.bool() {
            asked.announce = Announced::Channel(discord("1"));
        }
        let first = create(asked, &rules, NOW);
        let mut sent: Vec<String> = keys(&first);
        let mut job = first.job;
        let mut ended = None;
        for at in 0..200 {
            let input = match chance.u8(0..20) {
                0..8 => answer(["done", "REPLY_SKIP", "", "ANNOUNCE_SKIP", "[NOTIFICATION]"][chance.usize(0..5)]),
                8..11 => Input::Delivered,
                11..14 => failure("busy", true),
                14 => failure("gone", false),
                15 => Input::TimedOut,
                16 => Input::Resumed,
                17 if job.next_try_at.is_some() => Input::Due,
                18 if chance.u8(0..9) == 0 => Input::Cancel { by: "o".into() },
                19 if chance.u8(0..9) == 0 => Input::Stale,
                _ => Input::Delivered,
            };
            let next = step(&job, input, &rules, NOW + at);
            if let Some(end) = &ended {
                assert!(next.is_none(), "seed {seed}: a finished job changed");
                assert_eq!(&job, end);
                continue;
            }
            let Some(next) = next else { continue };
            assert_eq!(next.job.rev, job.rev + u64::from(next.durable), "seed {seed}");
            assert!(next.job.current_turn >= job.current_turn && next.job.current_turn <= 5, "seed {seed}");
            sent.extend(keys(&next));
            job = next.job;
            let text = serde_json::to_string(&job).expect("plain JSON");
            assert_eq!(serde_json::from_str::<Job>(&text).expect("it reads back"), job);
            ended = job.status.is_terminal().then(|| job.clone());
        }
        let count = sent.len();
        sent.sort();
        sent.dedup();
        assert_eq!(sent.len(), count, "seed {seed}: a key was sent twice: {sent:?}");
        assert!(ended.is_some(), "seed {seed}: no end after 200 things that happened");
    }
}

fn keys(next: &Next) -> Vec<String> {
    let of = |effect: &Effect| match effect {
        Effect::Send(message) | Effect::Notify(message) => Some(message.key.clone()),
        _ => None,
    };
    next.effects.iter().filter_map(of).collect()
}

#[test]
fn how_a_flow_began_is_told_from_its_record_alone() {
    let (rules, place) = (Rules::default(), || Announced::Channel(discord("channel:7")));
    let beginnings = [
        new("look"),
        New { announce: place(), awaited_until: Some(NOW + 9), cause: Some("call".into()), ..new("look") },
        New { kind: Kind::AutoRoute, parent_conversation_id: Some("p".into()), ..new(&"long ".repeat(4_000)) },
        New { kind: Kind::Spawn, label: Some("count".into()), task_id: Some("t".into()), depth: 2, ..new("count") },
        New { previous_work_session_id: Some("ws_0".into()), ..new("[NO_REPLY_NEEDED] so it is") },
    ];
    for beginning in beginnings {
        let begun = create(beginning, &rules, NOW);
        let told = begun.effects.iter().filter_map(|effect| match effect {
            Effect::Tell(happened) => Some(happened.clone()),
            _ => None,
        });
        let record = serde_json::to_string(&begun.job).expect("JSON");
        let read: Job = serde_json::from_str(&record).expect("a job");
        assert_eq!(read, begun.job);
        assert_eq!(told_as_begun(&read), Some(told.collect()), "{record}");
        let gone_on = step(&begun.job, answer("done"), &rules, NOW + 1).expect("a step").job;
        assert_eq!(told_as_begun(&gone_on), None);
        let cancelled = step(&begun.job, Input::Cancel { by: "owner".into() }, &rules, NOW + 1).expect("a step").job;
        assert_eq!(told_as_begun(&again(&cancelled, "k".into(), &rules, NOW + 2).job), None, "it takes up another");
    }
}
