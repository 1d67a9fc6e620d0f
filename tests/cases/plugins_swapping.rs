//! Changing what serves while it is asked: no call is lost, and a new version that fails gives the slot back by itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chela::plugins::{About, From};
use chela::policy::Conversation;
use serde_json::{Value, json};
use support::{TestHost, eventually, guest, guest_bytes, path_of};

fn steady() -> String {
    path_of(&guest("steady"))
}

fn unruly() -> String {
    path_of(&guest("unruly"))
}

fn restarted(host: TestHost) -> TestHost {
    TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("it starts again: {error}"))
}

#[test]
fn the_same_component_loaded_twice_is_unchanged() {
    let host = TestHost::start();
    let config = json!({ "category": "infra_ops" });
    assert_eq!(host.load("classifier", &steady(), config.clone()).expect("loaded")["outcome"], "serving");
    let swapped = host.told("plugin.swapped").len();
    assert_eq!(host.load("classifier", &steady(), config).expect("loaded")["outcome"], "unchanged");
    assert_eq!(host.told("plugin.swapped").len(), swapped);
    let other = host.load("classifier", &steady(), json!({ "category": "biz_strategy" })).expect("loaded");
    assert_eq!(other["outcome"], "serving", "another configuration is another version");
    assert_eq!(host.category("hello").as_deref(), Some("biz_strategy"));
}

#[test]
fn an_update_without_a_configuration_keeps_the_one_in_use() {
    let host = TestHost::start();
    host.load("classifier", &steady(), json!({ "category": "infra_ops" })).expect("loaded");
    let update = support::components::stamped(&guest_bytes("steady"), "new");
    host.upload("classifier", "steady.wasm", update).expect("loaded");
    assert_eq!(host.category("hello").as_deref(), Some("infra_ops"));
    // Another plugin's configuration means nothing to it.
    host.upload("classifier", "unruly.wasm", guest_bytes("unruly")).expect("loaded");
    assert_eq!(host.category("hello").as_deref(), Some("infra_ops"), "the answer of unruly");
}

#[test]
fn a_new_version_that_cannot_be_configured_never_serves() {
    let host = TestHost::with_classifier("steady", json!({}));
    let refused = host.load("classifier", &unruly(), json!({ "on": "configure", "do": "trap" }));
    assert!(refused.expect_err("refused").contains("unruly failed at taking up its configuration"));
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
    assert_eq!(host.told("plugin.swapped"), Vec::<Value>::new());
}

#[test]
fn a_new_version_that_traps_on_its_first_call_is_rolled_back_and_the_call_is_answered() {
    let host = TestHost::with_classifier("steady", json!({ "category": "infra_ops" }));
    host.load("classifier", &unruly(), json!({})).expect("loaded");
    assert_eq!(host.slot("classifier")["state"], "probation");
    let answered = host.classify("!trap");
    assert_eq!(answered.by.expect("answered by the version before").name, "steady");
    let told = host.told("plugin.rolled_back");
    assert_eq!(
        (told.len(), &told[0]["from"]["name"], &told[0]["plugin"]["name"]),
        (1, &json!("unruly"), &json!("steady"))
    );
    assert_eq!(host.told("plugin.trapped").len(), 1);
    assert_eq!(host.told("plugin.fallback"), Vec::<Value>::new(), "nobody had to fall back");
    let slot = host.slot("classifier");
    assert_eq!(slot["state"], "serving");
    assert!(slot["problem"].as_str().is_some_and(|said| said.starts_with("unruly 0.1.0 was rolled back: it trapped")));
    let host = restarted(host);
    assert_eq!(host.category("hello").as_deref(), Some("infra_ops"));
}

#[test]
fn a_rolled_back_upload_does_not_come_back_with_a_restart() {
    let host = TestHost::start();
    host.upload("classifier", "mine.wasm", guest_bytes("steady")).expect("loaded");
    // The file of the binding now holds the version that fails.
    host.upload("classifier", "mine.wasm", guest_bytes("unruly")).expect("loaded");
    assert_eq!(host.classify("!loop").by.expect("answered").name, "steady");
    let host = restarted(host);
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
}

#[test]
fn a_version_that_has_proven_itself_is_not_rolled_back() {
    let host = TestHost::with_classifier("steady", json!({}));
    host.load("classifier", &unruly(), json!({})).expect("loaded");
    for _ in 0..20 {
        assert_eq!(host.slot("classifier")["state"], "probation");
        host.classify("hello");
    }
    assert_eq!(host.slot("classifier")["state"], "serving");
    assert_eq!(host.classify("!trap").by, None);
    assert_eq!(host.slot("classifier")["plugin"]["name"], "unruly");
}

#[test]
fn a_probation_ends_with_its_time_and_nothing_is_gone_back_to() {
    let host = TestHost::with_classifier("steady", json!({}));
    host.load("classifier", &unruly(), json!({})).expect("loaded");
    host.clock.advance(Duration::from_secs(240));
    assert_eq!(host.slot("classifier")["state"], "probation", "nobody has asked it yet");
    host.eventually("its time is over", || {
        host.clock.advance(Duration::from_secs(61));
        (host.slot("classifier")["state"] == "serving").then_some(())
    });
    assert_eq!(host.classify("!trap").by, None);
    assert_eq!(host.slot("classifier")["plugin"]["name"], "unruly");
    assert_eq!(host.told("plugin.rolled_back"), Vec::<Value>::new());
}

#[test]
fn a_call_under_way_ends_on_the_version_that_it_began_on() {
    let slow = json!({ "source": unruly(), "limits": { "cpuMs": 5_000 } });
    let host = TestHost::start_with(|config| config["plugins"]["classifier"] = slow);
    host.block_on(host.plugins().loaded());
    let asked = host.plugins().clone();
    let conversation = Conversation { texts: vec!["!work".into()], ..Conversation::default() };
    host.block_on(async {
        let mut slow = Box::pin(async move { asked.categories(vec![conversation], &About::default()).await });
        // Under way once it was polled: before that it could come after the first load.
        tokio::select! {
            biased;
            _ = &mut slow => panic!("it takes its time"),
            () = std::future::ready(()) => {}
        }
        let slow = tokio::spawn(slow);
        while !slow.is_finished() {
            let load = chela::plugins::Load {
                slot: "classifier".parse().expect("a slot"),
                from: From::Source(steady()),
                config: None,
                shadow_only: false,
                fresh: false,
            };
            host.plugins().load(load).await.expect("loaded");
        }
        assert_eq!(slow.await.expect("ended").by.expect("answered").name, "unruly");
    });
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
}

#[test]
fn twenty_swaps_under_calls_lose_none_of_them() {
    let host = TestHost::with_classifier("steady", json!({}));
    host.block_on(host.plugins().loaded());
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|n| {
                let (host, over, answered) = (&host, &over, &answered);
                scope.spawn(move || {
                    let mut unanswered = 0;
                    let mut calls = 0;
                    while !over.load(Ordering::Relaxed) {
                        unanswered += usize::from(host.classify(&format!("call {calls} of {n}")).by.is_none());
                        calls += 1;
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    (calls, unanswered)
                })
            })
            .collect();
        for n in 0..20 {
            let config = json!({ "category": if n % 2 == 0 { "infra_ops" } else { "biz_strategy" } });
            let report = host.load("classifier", &steady(), config).expect("loaded");
            assert_eq!(report["outcome"], "serving");
            // Before the next one, or a call that waits could be overtaken by one swap after the other.
            let before = answered.load(Ordering::Relaxed);
            eventually("everybody is answered", || (answered.load(Ordering::Relaxed) >= before + 12).then_some(()));
        }
        over.store(true, Ordering::Relaxed);
        for caller in callers {
            let (calls, unanswered) = caller.join().expect("a caller that ends");
            assert!(calls > 0 && unanswered == 0, "{unanswered} of {calls} calls had no answer");
        }
    });
    assert_eq!(host.told("plugin.fallback"), Vec::<Value>::new());
    assert_eq!(host.told("plugin.rolled_back"), Vec::<Value>::new());
}

#[test]
fn calls_that_wait_for_a_version_that_is_rolled_back_are_answered_by_the_one_before() {
    let host = TestHost::with_classifier("steady", json!({}));
    host.load("classifier", &unruly(), json!({})).expect("loaded");
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(|| host.classify("!trap"))).collect();
        for caller in callers {
            assert_eq!(caller.join().expect("ended").by.expect("answered").name, "steady");
        }
    });
    assert_eq!(host.told("plugin.rolled_back").len(), 1);
}
