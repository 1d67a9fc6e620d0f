//! `/ws`: events as they come, from a place on, and what becomes of those who do not read.

use std::time::Duration;

use chela::event::Kind;
use chela::port::Port;
use serde_json::{Value, json};
use support::{TestHost, WebSocket, eventually};

/// Whoever reads the log on has little of a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn follow(host: &TestHost, query: &str) -> WebSocket {
    let bearer = format!("Bearer {}", host.token);
    let (path, headers) = (format!("/ws{query}"), [("Authorization", bearer.as_str())]);
    let socket = WebSocket::connect(host.address(Port::Monitor), &path, &headers).await;
    socket.unwrap_or_else(|refused| panic!("refused: {refused:?}"))
}

/// The next event of this type, with its envelope; others are passed over.
async fn next_of(socket: &mut WebSocket, kind: &str) -> Value {
    loop {
        let told = tokio::time::timeout(PATIENCE, socket.next());
        let told = told.await.expect("there is news").expect("an envelope");
        if told["type"] == "event" && told["data"]["type"] == kind {
            return told;
        }
    }
}

fn emit(host: &TestHost, n: u64) {
    host.emit("eden", Kind::TaskUpdated, json!({ "n": n, "taskId": "task_1", "workSessionId": "ws_1" }));
}

#[test]
fn a_follower_is_told_what_happens_with_its_place_and_its_session() {
    let host = TestHost::start();
    // The index is there once this answers.
    host.get("/api/stats");
    let mut socket = host.block_on(follow(&host, ""));
    emit(&host, 1);
    let told = host.block_on(next_of(&mut socket, "task.updated"));
    assert_eq!((&told["agentId"], &told["taskId"]), (&json!("eden"), &json!("task_1")));
    assert_eq!((&told["data"]["data"]["n"], &told["data"]["data"]["workSessionId"]), (&json!(1), &json!("ws_1")));
    assert_eq!(told["seq"], told["data"]["seq"]);
    assert!(told["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')));
    let meaning = host.block_on(socket.next()).expect("an envelope");
    assert_eq!(
        (&meaning["type"], &meaning["data"]["event"], &meaning["seq"]),
        (&json!("task_update"), &json!("updated"), &told["seq"])
    );
    // What a follower was told, the API knows.
    let (_, page) = host.get("/api/events?taskId=task_1");
    assert_eq!(page["events"][0]["seq"], told["seq"]);
}

#[test]
fn changes_of_steps_and_continuations_are_told_by_the_words_of_those_who_show_them() {
    let host = TestHost::start();
    host.get("/api/stats");
    let mut socket = host.block_on(follow(&host, ""));
    let mut check = |kind: Kind, data: Value, expected: &[(&str, &str)]| {
        host.emit("eden", kind, data);
        let event = host.block_on(next_of(&mut socket, kind.as_str()));
        for (name, word) in expected {
            let meaning = host.block_on(socket.next()).expect("an envelope");
            assert_eq!((&meaning["type"], &meaning["data"]["event"]), (&json!(name), &json!(word)), "{meaning}");
            assert_eq!((&meaning["seq"], &meaning["taskId"]), (&event["seq"], &json!("task_1")));
        }
    };
    let step = |action: &str| {
        let progress = json!({ "total": 4, "done": 1, "inProgress": 1, "pending": 2, "skipped": 0 });
        json!({ "taskId": "task_1", "action": action, "stepId": "s1", "stepsProgress": progress })
    };
    for (action, word) in [
        ("set_steps", "steps_set"),
        ("add_step", "step_added"),
        ("start_step", "step_started"),
        ("complete_step", "step_completed"),
        ("skip_step", "step_skipped"),
        ("reorder_steps", "steps_reordered"),
    ] {
        check(Kind::TaskUpdated, step(action), &[("task_update", "updated"), ("task_step_update", word)]);
    }
    check(Kind::TaskUpdated, step("progress"), &[("task_update", "updated")]);
    let task = || json!({ "taskId": "task_1" });
    check(Kind::TaskCompleted, task(), &[("task_update", "completed")]);
    check(Kind::ContinuationSelfDriving, task(), &[("continuation_event", "self_driving_triggered")]);
    check(Kind::ContinuationStopGuardBlocked, task(), &[("continuation_event", "stop_guard_blocked")]);
    check(Kind::HumanQueryRequested, task(), &[("human_query", "requested")]);
    check(Kind::JobRetried, task(), &[("job_update", "retried")]);
}

#[test]
fn a_follower_goes_on_where_it_was_also_after_a_restart() {
    let host = TestHost::start();
    host.get("/api/stats");
    (1..=20).for_each(|n| emit(&host, n));
    let (_, page) = eventually("all are indexed", || {
        let (status, page) = host.get("/api/events?taskId=task_1&limit=20");
        (page["events"].as_array().map(Vec::len) == Some(20)).then_some((status, page))
    });
    let fifth = page["events"][15]["seq"].as_i64().expect("a place");
    assert_eq!(page["events"][15]["data"]["n"], 5);
    let rest = |host: &TestHost| {
        host.block_on(async {
            let mut socket = follow(host, &format!("?since={fifth}")).await;
            let mut seen = Vec::new();
            for _ in 0..15 {
                seen.push(next_of(&mut socket, "task.updated").await["data"]["data"]["n"].as_u64().expect("a number"));
            }
            seen
        })
    };
    assert_eq!(rest(&host), (6..=20).collect::<Vec<_>>());
    let again = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("it starts again: {error}"));
    assert_eq!(rest(&again), (6..=20).collect::<Vec<_>>());
}

#[test]
fn who_follows_from_now_on_is_told_nothing_old_though_the_log_is_still_being_read() {
    let host = TestHost::start();
    (1..=5_000).for_each(|n| emit(&host, n));
    let dir = host.stop();
    std::fs::remove_dir_all(dir.state.index()).expect("removed");
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("it starts again: {error}"));
    let mut socket = host.block_on(follow(&host, ""));
    emit(&host, 5_001);
    let told = host.block_on(next_of(&mut socket, "task.updated"));
    assert_eq!(told["data"]["data"]["n"], 5_001);
}

#[test]
fn many_follow_and_none_misses_an_event_while_those_who_do_not_read_are_let_go_with_a_reason() {
    const EVENTS: u64 = 4_000;
    let host = TestHost::start();
    host.get("/api/stats");
    let (mut readers, mut stalled) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        readers.push(host.block_on(follow(&host, "")));
    }
    for _ in 0..2 {
        stalled.push(host.block_on(follow(&host, "")));
    }
    let bus = host.app().bus().clone();
    let clock = host.clock.clone();
    let reading: Vec<_> = readers
        .into_iter()
        .map(|mut socket| {
            host.spawn(async move {
                for n in 0..EVENTS {
                    let told = next_of(&mut socket, "a2a.delivery").await;
                    assert_eq!(told["data"]["data"]["n"], n, "in order, none missing");
                }
            })
        })
        .collect();
    host.block_on(async {
        for n in 0..EVENTS {
            let facts = chela::bus::data(json!({ "n": n, "text": "x".repeat(200) }));
            bus.emit_event(chela::event::Event::of("eden", Kind::A2aDelivery, clock.now(), facts)).expect("taken");
            if n % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    // They wake up after the gateway's patience is over, and before it takes the reason away.
    eventually("both are let go", || {
        let metrics = host.request("GET", "/metrics", &[], b"").body;
        let count = "chela_refusals_total{reason=\"slow_follower\"} 2\n";
        String::from_utf8_lossy(&metrics).contains(count).then_some(())
    });
    for mut socket in stalled {
        let (count, reason) = host.block_on(async {
            let mut count = 0;
            while socket.next().await.is_some() {
                count += 1;
            }
            (count, socket.closed())
        });
        assert!(count < EVENTS, "it was let go before the end");
        let reason = reason.expect("a reason");
        assert!(reason.contains("too slow") && reason.contains("since="), "{reason}");
    }
    for reader in reading {
        host.block_on(reader).expect("a reader sees everything");
    }
}

#[test]
fn followers_are_told_that_the_gateway_stops() {
    let host = TestHost::start();
    host.get("/api/stats");
    let mut socket = host.block_on(follow(&host, ""));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let waiting = runtime.spawn(async move {
        while socket.next().await.is_some() {}
        socket.closed()
    });
    drop(host.stop());
    let reason = runtime.block_on(waiting).expect("it ends");
    assert!(reason.expect("a reason").contains("reconnect"));
}

#[test]
fn who_follows_without_a_token_is_let_go_when_reads_are_open_no_longer() {
    let host = TestHost::start_with(|config| config["monitor"]["openReads"] = json!(true));
    host.get("/api/stats");
    let without = || host.block_on(WebSocket::connect(host.address(Port::Monitor), "/ws", &[]));
    let mut stranger = without().unwrap_or_else(|refused| panic!("refused: {refused:?}"));
    let mut known = host.block_on(follow(&host, ""));
    emit(&host, 1);
    host.block_on(next_of(&mut stranger, "task.updated"));
    host.dir.edit_config(|config| config["monitor"]["openReads"] = json!(false));
    host.call("config.reload", json!({})).expect("read");
    host.block_on(async {
        let ending = async { while stranger.next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, ending).await.expect("it is let go");
    });
    assert!(stranger.closed().is_some_and(|reason| reason.contains("connect anew")), "{:?}", stranger.closed());
    assert_eq!(without().err().map(|refused| refused.status), Some(401));
    emit(&host, 2);
    let told = host.block_on(async {
        // It has not read the first one yet.
        next_of(&mut known, "task.updated").await;
        next_of(&mut known, "task.updated").await
    });
    assert_eq!(told["data"]["data"]["n"], 2, "who has a token goes on");
}

#[test]
fn what_is_no_place_or_no_token_is_refused() {
    let host = TestHost::start();
    let refused = |path: &str, headers: &[(&str, &str)]| {
        let socket = host.block_on(WebSocket::connect(host.address(Port::Monitor), path, headers));
        socket.map(|_| ()).expect_err("refused").status
    };
    let bearer = format!("Bearer {}", host.token);
    assert_eq!(refused("/ws", &[]), 401);
    assert_eq!(refused("/ws?since=then", &[("Authorization", &bearer)]), 400);
    assert_eq!(refused("/ws?from=5", &[("X-Task-Monitor-Token", &host.token)]), 400);
    assert_eq!(refused("/ws", &[("Authorization", &bearer), ("Origin", "https://evil.example")]), 403);
}
