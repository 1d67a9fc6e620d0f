//! Components of toolchains that import WASI: nothing to wait for, nothing to read, and the time and chance of the call.

use std::time::Duration;

use chela::policy::Source;
use serde_json::json;
use support::TestHost;

#[test]
fn every_wait_is_over_at_once_and_every_stream_is_empty() {
    let host = TestHost::with_classifier("waits", json!({}));
    for (deed, got) in
        [("!sleep", "an hour is over"), ("!poll", "ready: [0, 1], true"), ("!read", "0 bytes, then the end")]
    {
        assert_eq!(host.classify(deed).answer.reason, got, "{deed}");
    }
}

#[test]
fn polling_for_ever_and_asking_for_too_much_end_like_any_other_call() {
    let host = TestHost::with_classifier("waits", json!({}));
    for (deed, failure) in [("!poll-for-ever", "limit:cpu-time"), ("!random", "limit:randomness"), ("!exit", "trapped")]
    {
        let failed = host.classify(deed);
        assert_eq!((failed.by, failed.answer.source), (None, Source::Fallback), "{deed}");
        let slot = host.slot("classifier");
        assert_eq!(slot["stats"]["failures"][failure], 1, "{deed}: {}", slot["stats"]);
        assert_eq!(host.classify("hello").by.expect("answered").name, "waits", "after {deed}");
    }
    let trapped = host.told("plugin.trapped").pop().expect("told");
    assert!(trapped["reason"].as_str().is_some_and(|said| said.contains("it called exit")), "{trapped}");
}

#[test]
fn time_and_chance_are_those_of_the_call() {
    let host = TestHost::with_classifier("waits", json!({}));
    let ask = |text: &str| host.classify(text).answer.reason;
    let first = ask("hello");
    assert!(first.starts_with("1700000000000000000 ns, "), "{first}");
    // On an instance that was used, on one that another input was given to, and on a fresh one.
    for between in ["hello", "something else", "!exit", "!random", "hello"] {
        ask(between);
        assert_eq!(ask("hello"), first, "after {between}");
    }
    let other = ask("hallo");
    assert_ne!(other.split_once(", "), first.split_once(", "), "another input has another chance");
    host.clock.advance(Duration::from_secs(1));
    let later = ask("hello");
    assert!(later.starts_with("1700000001000000000 ns, "), "{later}");
    assert_eq!(later.split_once(", ").map(|(_, chance)| chance), first.split_once(", ").map(|(_, chance)| chance));
}

#[test]
fn what_it_imports_is_shown_as_its_grants() {
    let host = TestHost::with_classifier("waits", json!({}));
    let grants = host.slot("classifier")["grants"].clone();
    for interface in ["wasi:clocks/monotonic-clock@0.2.0", "wasi:random/random@0.2.0", "wasi:cli/exit@0.2.0"] {
        assert!(grants.as_array().expect("a list").contains(&json!(interface)), "{grants}");
    }
    assert_eq!(TestHost::with_classifier("steady", json!({})).slot("classifier")["grants"], json!([]));
}
