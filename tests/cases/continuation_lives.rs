//! Continuations over restarts, kills and crowds: nothing is doubled, nothing is forgotten, nobody is late.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use support::continuation::lonely;
use support::{Binary, TestDir, TestHost, eventually};

const BEGINS: &str = r#"
    { when: "build it", steps: [
        { call: { tool: "task_start", args: { description: "OAuth", steps: [{ content: "look" }, { content: "build" }] } } },
        { say: "begun" } ] },"#;

fn script() -> String {
    format!(
        r#"{{ rules: [ {BEGINS} {{ when: "slow", steps: [{{ say: "late", delayMs: 2000 }}] }} ], otherwise: "ok" }}"#
    )
}

/// The numbers of the prompts in an agent's transcripts, by task, in the order of the file. A gateway may be writing it.
fn numbers(dir: &TestDir, agent: &str) -> BTreeMap<String, Vec<u64>> {
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in dir.transcript_so_far(agent) {
        let key = row["idempotencyKey"].as_str().unwrap_or_default();
        if let Some((task, n)) =
            key.strip_prefix("continuation:").and_then(|rest| rest.strip_suffix(":user")?.split_once(':'))
        {
            found.entry(task.to_owned()).or_default().push(n.parse().expect("a number"));
        }
    }
    found
}

/// Each prompt is there once, and none is missing.
fn check_numbers(dir: &TestDir, agent: &str) -> u64 {
    let mut count = 0;
    for (task, numbers) in numbers(dir, agent) {
        let begin = numbers[0];
        assert_eq!(numbers, (begin..begin + numbers.len() as u64).collect::<Vec<_>>(), "{task}");
        count += numbers.len() as u64;
    }
    count
}

#[test]
fn counters_go_on_over_a_restart() {
    let mut host = TestHost::driven(&script(), |config| config["continuation"]["caps"]["inARow"] = json!(5));
    host.say("eden", "build it");
    let task = eventually("the task is there", || host.active("eden"));
    for nth in 1..=5 {
        host.planned("eden");
        host.pass(500);
        host.has_ended(&eventually("a prompt", || host.prompt_runs("eden").get(nth - 1).cloned()));
        host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("{error}"));
        host.block_on(host.plugins().loaded());
    }
    host.planned("eden");
    host.pass(500);
    // A restart on a manual clock is no time of quiet.
    eventually("it is blocked", || (host.standing(&task).1 == "limit").then_some(()));
    assert_eq!(check_numbers(&host.dir, "eden"), 5);
    let told: Vec<u64> =
        host.told("continuation.self_driving").iter().filter_map(|told| told["consecutiveCount"].as_u64()).collect();
    let mut distinct = told.clone();
    distinct.dedup();
    assert_eq!(distinct, [1, 2, 3, 4, 5], "{told:?}");
}

#[test]
fn a_kill_at_any_moment_doubles_no_prompt_and_forgets_none() {
    let dir = TestDir::scripted(&script(), |config| {
        lonely(config);
        config["continuation"]["delays"] = json!({ "selfDrivingMs": 5, "eventBasedMs": 10 });
        config["continuation"]["caps"] =
            json!({ "inARow": 1000, "withoutProgress": 1000, "inAll": 100000, "perDay": 100000, "tokens": 1000000000 });
    });
    let mut gateway = Binary::serve(&dir);
    let send = json!({ "sessionKey": "agent:eden:main", "message": "build it", "idempotencyKey": "first" });
    gateway.method(&dir, "chat.send", send).expect("accepted");
    let mut chance = Rng::with_seed(7);
    for _ in 0..6 {
        let before = check_numbers(&dir, "eden");
        eventually("it is kept at its task", || (dir.prompts("eden").len() as u64 > before + 3).then_some(()));
        std::thread::sleep(Duration::from_micros(chance.u64(0..20_000)));
        gateway.kill();
        check_numbers(&dir, "eden");
        gateway = Binary::serve(&dir);
    }
    assert_eq!(gateway.terminate().code, Some(0));
    assert!(check_numbers(&dir, "eden") > 20);
}

#[test]
fn a_thousand_agents_that_stop_at_once_are_all_told_at_their_time() {
    let host = TestHost::driven(&script(), |config| {
        let model = config["agents"]["list"][0].clone();
        let agents = (0..1_000).map(|n| {
            let mut agent = model.clone();
            (agent["id"], agent["role"]) = (json!(format!("worker-{n}")), json!("agent"));
            agent.as_object_mut().expect("an agent").remove("orchestrator");
            agent
        });
        config["agents"]["list"] = agents.collect::<Vec<Value>>().into();
        config["agents"]["default"] = json!("worker-0");
    });
    let names: Vec<String> = (0..1_000).map(|n| format!("worker-{n}")).collect();
    for name in &names {
        host.done(name, "task_start", json!({ "description": "OAuth", "steps": [{ "content": "look" }] }));
    }
    for name in &names {
        let params = json!({ "agentId": name, "message": "hello", "idempotencyKey": format!("hello-{name}") });
        host.call("agent", params).expect("accepted");
    }
    let at = host.clock.now().0 + 500;
    let shown = |name: &String| host.app().continuation().shown(&name.parse().expect("an id"));
    // In parts, since each wait has a limit of its own.
    for part in names.chunks(100) {
        eventually("all have stopped", || {
            part.iter().all(|name| shown(name)["next"] == json!({ "layer": "self-driving", "at": at })).then_some(())
        });
    }
    host.pass(499);
    assert!(names.iter().all(|name| shown(name)["last"].is_null()));
    host.pass(1);
    for part in names.chunks(100) {
        eventually("all are told", || part.iter().all(|name| shown(name)["last"]["action"] == "sent").then_some(()));
    }
    // On a clock that stands still every one was asked, answered and written down at the very moment.
    assert!(names.iter().all(|name| shown(name)["last"]["at"] == json!(at)));
    eventually("all is told", || (host.told("continuation.self_driving").len() == 1_000).then_some(()));
}

/// What happened to the agent of the random case, as the case knows it.
#[derive(Default)]
struct Known {
    aborted: bool,
    prompts: usize,
}

/// Waits, with the clock standing still, until what was on its way to the agent has come to its end.
fn come_to_rest(host: &TestHost) {
    eventually("the agent is at rest", || {
        let occupied = host.app().sessions().occupied().keys().any(|id| id.as_ref() == "eden");
        (!occupied && host.kept("eden")["busy"] == false).then_some(())
    });
}

#[test]
fn random_lives_of_a_real_gateway_keep_the_promises() {
    for seed in 0..4 {
        let mut chance = Rng::with_seed(seed);
        let mut host = TestHost::driven(&script(), |config| config["continuation"]["caps"]["inARow"] = json!(4));
        let mut known = Known::default();
        host.say("eden", "build it");
        for step in 0..40 {
            known.prompts = host.prompts("eden").len();
            let quiet = match chance.u8(0..10) {
                0 | 1 => {
                    let key = format!("hello-{seed}-{step}");
                    let params = json!({ "agentId": "eden", "message": "hello", "idempotencyKey": key });
                    host.call("agent", params).expect("accepted");
                    known.aborted = false;
                    false
                }
                2 => {
                    let key = format!("slow-{seed}-{step}");
                    let params = json!({ "agentId": "eden", "message": "slow", "idempotencyKey": key });
                    host.call("agent", params).expect("accepted");
                    known.aborted = false;
                    false
                }
                3 => {
                    host.call("chat.abort", json!({ "sessionKey": "agent:eden" })).expect("aborted");
                    come_to_rest(&host);
                    known.aborted = true;
                    true
                }
                4 => {
                    host.tool("eden", "task_block", json!({ "reason": "which?", "kind": "input" }));
                    false
                }
                5 => {
                    host.tool("eden", "task_resume", json!({}));
                    false
                }
                6 => {
                    host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("{error}"));
                    host.block_on(host.plugins().loaded());
                    false
                }
                _ => false,
            };
            for _ in 0..chance.u8(0..12) {
                host.pass(chance.u64(1..600));
                std::thread::sleep(Duration::from_millis(2));
            }
            check_numbers(&host.dir, "eden");
            let now = host.prompts("eden").len();
            assert!(
                !(quiet || known.aborted) || now <= known.prompts + usize::from(quiet),
                "seed {seed}: told after an abort"
            );
        }
        let counted = check_numbers(&host.dir, "eden");
        assert!(counted > 0, "seed {seed}: nothing was ever continued");
    }
}
