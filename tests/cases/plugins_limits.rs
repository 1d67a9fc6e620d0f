//! Components that do not end, hoard, trap or answer nonsense: each fails by name, is answered for, and harms nobody else.

use std::time::Duration;

use chela::event::Role;
use chela::plugins::About;
use chela::policy::{Actor, Conversation, EventFacts, Source};
use serde_json::{Value, json};
use support::components::Handmade;
use support::{TestHost, guest, path_of};

/// Long enough that failures do not add up, and that every fallback is told.
fn pass_a_minute(host: &TestHost) {
    host.clock.advance(Duration::from_secs(61));
}

/// Asks for `deed`; it must fail in this way, and the next call must be answered.
fn check(host: &TestHost, deed: &str, kind: &str, reason: &str) {
    pass_a_minute(host);
    let failures = |host: &TestHost| host.slot("classifier")["stats"]["failures"][kind].as_u64().unwrap_or(0);
    let before = failures(host);
    let failed = host.classify(deed);
    assert_eq!((failed.by, failed.answer.source), (None, Source::Fallback), "{deed}");
    assert_eq!((failed.answer.primary, failed.answer.confidence), (None, 0.0), "{deed}");
    assert_eq!(failures(host), before + 1, "{deed}: {}", host.slot("classifier")["stats"]);
    let fallback = host.told("plugin.fallback").pop().expect("told");
    assert!(fallback["reason"].as_str().is_some_and(|said| said.contains(reason)), "{deed}: {fallback}");
    let told = match kind.split_once(':') {
        Some((_, limit)) => Some(("plugin.limit", json!(limit))),
        None => (kind == "trapped").then_some(("plugin.trapped", Value::Null)),
    };
    if let Some((kind, limit)) = told {
        let event = host.told(kind).pop().expect("an event");
        assert_eq!((&event["limit"], &event["slot"]), (&limit, &json!("classifier")), "{deed}");
        assert_eq!(event["reason"], fallback["reason"], "{deed}");
    }
    let next = host.classify("what is next");
    assert_eq!(next.by.map(|by| by.name), host.slot("classifier")["plugin"]["name"].as_str().map(str::to_owned));
    assert!(next.answer.primary.is_some(), "answered after {deed}");
}

#[test]
fn a_call_that_passes_a_limit_is_ended_by_name_and_the_next_one_is_answered() {
    let host = TestHost::with_classifier("unruly", json!({}));
    check(&host, "!loop", "limit:cpu-time", "it passed its limit of cpu-time: ");
    check(&host, "!grow", "limit:memory", "MB wanted, 16 are allowed");
    check(&host, "!recurse", "limit:stack", "limit of stack: the calls nest too deep");
    check(&host, "!huge-list", "limit:result-size", "it handed over more data than one call may");
    check(&host, "!huge-string", "limit:result-size", "it handed over more data than one call may");
}

#[test]
fn a_trap_ends_one_instance_and_another_answers() {
    let host = TestHost::with_classifier("unruly", json!({}));
    check(&host, "!trap", "trapped", "wasm `unreachable` instruction executed");
    for _ in 0..8 {
        check(&host, "!trap", "trapped", "it trapped: ");
    }
    assert_eq!(host.slot("classifier")["state"], "serving");
}

#[test]
fn the_words_of_a_panic_reach_the_failure_and_the_log() {
    let host = TestHost::with_classifier("unruly", json!({}));
    // Also when it came after more lines than are kept.
    for (count, deed) in ["!panic", "!flood-and-panic"].iter().enumerate() {
        check(&host, deed, "trapped", "unruly was told to panic");
        let logged = host.logged("classifier");
        let found = logged.iter().filter(|line| line.contains("unruly was told to panic")).count();
        assert_eq!(found, count + 1, "{deed}");
    }
}

#[test]
fn an_answer_that_breaks_the_rules_of_its_world_is_no_answer() {
    let host = TestHost::with_classifier("unruly", json!({}));
    check(&host, "!wrong-count", "invalid", "2 classifications for 1 conversations");
    check(&host, "!none", "invalid", "0 classifications for 1 conversations");
    check(&host, "!unknown-category", "invalid", "\"no_such_category\" is not in the deployment's table");
    check(&host, "!unknown-secondary", "invalid", "\"no_such_category\" is not in the deployment's table");
    check(&host, "!nan", "invalid", "the confidence NaN is not between 0 and 1");
    check(&host, "!too-sure", "invalid", "the confidence 2 is not between 0 and 1");
    check(&host, "!other", "invalid", "the source must be `rule` or `heuristic`");
    check(&host, "!many-tags", "invalid", "sub-tags are at most 8 of 40 characters each");
    check(&host, "!long-tag", "invalid", "sub-tags are at most 8 of 40 characters each");
    check(&host, "!decline", "declined", "it gave no answer: internal: not today");
    assert_eq!(host.told("plugin.trapped").len() + host.told("plugin.limit").len(), 0);
}

#[test]
fn roles_of_a_component_that_fails_are_those_of_the_session_keys() {
    let host = TestHost::with_classifier("unruly", json!({}));
    let ask = |kind: &str| {
        pass_a_minute(&host);
        let event = EventFacts { event_type: kind.into(), ..EventFacts::default() };
        let answered = host.block_on(host.plugins().roles(vec![event]));
        (answered.answer, answered.by.map(|by| by.name))
    };
    assert_eq!(ask("a2a.spawn"), (vec![Role::Conversation], Some("unruly".into())));
    for deed in ["!loop", "!trap", "!other", "!wrong-count", "!huge-list", "!decline"] {
        assert_eq!(ask(deed), (vec![Role::Delegation], None), "{deed}");
    }
    assert_eq!(ask("a2a.spawn").1, Some("unruly".into()));
    let failures = host.slot("classifier")["stats"]["failures"].clone();
    let expected = json!({ "declined": 1, "invalid": 2, "limit:cpu-time": 1, "limit:result-size": 1, "trapped": 1 });
    assert_eq!(failures, expected);
}

#[test]
fn what_one_call_hands_over_is_not_charged_to_the_next() {
    let host = TestHost::with_classifier("unruly", json!({}));
    // Ten times a megabyte, where one call may hand over four.
    for _ in 0..10 {
        assert_eq!(host.classify("!long-string").answer.reason.len(), 1_000, "cut, but answered");
    }
}

#[test]
fn a_megabyte_of_log_lines_is_cut_and_the_rest_is_counted() {
    let host = TestHost::with_classifier("unruly", json!({}));
    assert_eq!(host.category("!log-flood").as_deref(), Some("infra_ops"), "answered all the same");
    let logged = host.logged("classifier");
    assert!(logged[0].starts_with("0000 x"), "{}", logged[0]);
    let bytes: usize = logged.iter().map(String::len).sum();
    assert!((60_000..70_000).contains(&bytes), "{bytes} bytes");
    let dropped = 1_000 - (logged.len() - 1);
    assert_eq!(logged.last().expect("lines"), &format!("{dropped} more lines of this call were dropped"));

    assert_eq!(host.category("!error-flood").as_deref(), Some("infra_ops"));
    let errors: usize = host.logged("classifier")[logged.len()..].iter().map(String::len).sum();
    assert!((60_000..75_000).contains(&errors), "errors are cut too: {errors} bytes");

    assert_eq!(host.category("!long-line").as_deref(), Some("infra_ops"));
    let last = host.logged("classifier").pop().expect("a line");
    assert!(last.ends_with("y … (cut)") && last.len() < 8_300, "{} bytes", last.len());
}

#[test]
fn endless_calls_of_one_slot_hold_up_no_other() {
    let host = TestHost::start_with(|config| {
        let binding = json!({ "source": path_of(&guest("unruly")), "limits": { "cpuMs": 3_000 } });
        config["plugins"]["classifier"] = binding;
    });
    host.block_on(host.plugins().loaded());
    let endless = || {
        let asked = host.plugins().clone();
        let conversation = Conversation { texts: vec!["!loop".into()], ..Conversation::default() };
        tokio::spawn(async move { asked.categories(vec![conversation], &About::default()).await })
    };
    host.block_on(async {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let endless: Vec<_> = (0..cores.max(2)).map(|_| endless()).collect();
        for _ in 0..20 {
            let answered = host.plugins().instructions(Actor::default()).await;
            assert_eq!(answered.by.map(|by| by.name).as_deref(), Some("continuation"));
        }
        assert!(endless.iter().all(|call| !call.is_finished()), "they were answered beside them");
        for call in endless {
            assert_eq!(call.await.expect("ended").by, None);
        }
    });
}

#[test]
fn a_small_answer_that_points_to_one_string_ten_thousand_times_is_not_copied() {
    // Twenty gigabytes for the host, one megabyte for the guest.
    let aliases = "
        i32.const 2060 i32.const 2097152 i32.store  i32.const 2064 i32.const 10000 i32.store
        loop $more
            local.get $n i32.const 16 i32.mul i32.const 2097152 i32.add i32.const 131072 i32.store
            local.get $n i32.const 16 i32.mul i32.const 2097156 i32.add i32.const 1000000 i32.store
            local.get $n i32.const 16 i32.mul i32.const 2097160 i32.add i32.const 131072 i32.store
            local.get $n i32.const 16 i32.mul i32.const 2097164 i32.add i32.const 1000000 i32.store
            local.get $n i32.const 1 i32.add local.tee $n i32.const 10000 i32.lt_u br_if $more
        end";
    let host = handmade(&Handmade { categories: aliases, ..Handmade::default() });
    let failed = host.classify("anything");
    assert_eq!(failed.by, None);
    assert_eq!(host.told("plugin.limit").pop().expect("told")["limit"], "result-size");
}

#[test]
fn an_answer_that_breaks_the_component_model_is_a_failure_like_any_other() {
    let not_utf8 = Handmade { reason: b"\xff\xfe", ..Handmade::default() };
    let out_of_bounds = Handmade {
        categories: "i32.const 2052 i32.const -8 i32.store  i32.const 2056 i32.const 9 i32.store",
        ..Handmade::default()
    };
    let no_such_case = Handmade { categories: "i32.const 4096 i32.const 7 i32.store8", ..Handmade::default() };
    for component in [not_utf8, out_of_bounds, no_such_case] {
        let host = handmade(&component);
        for _ in 0..3 {
            assert_eq!(host.classify("anything").by, None);
        }
        let slot = host.slot("classifier");
        assert_eq!((&slot["state"], &slot["stats"]["failures"]["invalid"]), (&json!("serving"), &json!(3)), "{slot}");
    }
}

fn handmade(component: &Handmade<'_>) -> TestHost {
    let host = TestHost::start_with(|config| config["plugins"]["classifier"] = Value::Null);
    host.upload("classifier", "handmade.wasm", component.component()).expect("loaded");
    host
}
