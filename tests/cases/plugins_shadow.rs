//! Recorded inputs: a new version is tried on them before it serves, beside the one that does.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use chela::plugins::From;
use serde_json::{Value, json};
use support::components::stamped;
use support::{TestHost, guest, guest_bytes, path_of};

/// A host that has classified a few texts as `infra_ops`.
fn asked(texts: &[&str]) -> TestHost {
    let host = TestHost::with_classifier("steady", json!({ "category": "infra_ops" }));
    for text in texts {
        assert_eq!(host.category(text).as_deref(), Some("infra_ops"));
    }
    host
}

fn shadow(host: &TestHost, guest_name: &str, config: Value) -> Result<Value, String> {
    host.load_with("classifier", From::Source(path_of(&guest(guest_name))), Some(config), true)
}

#[test]
fn a_shadow_tells_what_would_change_and_changes_nothing() {
    let host = asked(&["one", "two", "three"]);
    let files = host.dir.files();
    let report = shadow(&host, "steady", json!({ "category": "biz_strategy" })).expect("tried");
    assert_eq!(report["outcome"], "shadow");
    assert_eq!((&report["shadow"]["replayed"], &report["shadow"]["changed"]), (&json!(3), &json!(3)));
    let change = &report["shadow"]["changes"][0];
    let primary = |side: &str| change[side][0]["primary"].clone();
    assert_eq!((primary("before"), primary("after")), (json!("infra_ops"), json!("biz_strategy")));

    let slot = host.slot("classifier");
    assert_eq!((&slot["state"], &slot["plugin"]["name"]), (&json!("serving"), &json!("steady")));
    assert_eq!(host.told("plugin.swapped"), Vec::<Value>::new());
    assert_eq!(host.category("four").as_deref(), Some("infra_ops"));
    let kept = |files: &[String]| files.iter().filter(|path| path.ends_with(".wasm")).count();
    assert_eq!(kept(&host.dir.files()), kept(&files));
    host.operate("rollback", "classifier").expect_err("nothing was replaced");
}

#[test]
fn a_version_that_decides_the_same_changes_nothing_recorded() {
    let host = asked(&["one", "two"]);
    host.clock.advance(std::time::Duration::from_secs(5));
    let update = stamped(&guest_bytes("steady"), "new");
    let report = host.upload("classifier", "steady.wasm", update).expect("loaded");
    // Its reason names the time and the seed: both were given again as they had been.
    assert_eq!(report["shadow"], json!({ "replayed": 2, "changed": 0, "changes": [] }));
}

#[test]
fn a_version_that_fails_on_a_recorded_input_is_refused() {
    let host = asked(&["hello", "!panic"]);
    let refused = host.load("classifier", &path_of(&guest("unruly")), json!({})).expect_err("refused");
    assert!(refused.starts_with("unruly fails on a recorded input (categories "), "{refused}");
    assert!(refused.contains("unruly was told to panic"), "{refused}");
    assert_eq!(host.told("plugin.rejected").pop().expect("told")["stage"], "shadow");
    assert_eq!(host.category("hello").as_deref(), Some("infra_ops"));
}

#[test]
fn inputs_survive_a_restart_and_are_for_their_owner_alone() {
    let host = asked(&["one", "two", "three"]);
    let dir = host.stop();
    let path = dir.state.decisions().join("classifier.ndjson");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let report = shadow(&host, "steady", json!({ "category": "biz_strategy" })).expect("tried");
    assert_eq!(report["shadow"]["replayed"], 3);
}

#[test]
fn nothing_is_recorded_where_that_is_off() {
    let steady = json!({ "source": path_of(&guest("steady")) });
    let host = TestHost::start_with(|config| {
        config["plugins"]["classifier"] = steady;
        config["decisions"]["record"] = json!("off");
    });
    assert!(host.classify("a secret word").by.is_some() && host.classify("!trap").by.is_some());
    let report = host.load("classifier", &path_of(&guest("unruly")), json!({})).expect("loaded unseen");
    assert_eq!(report["shadow"]["replayed"], 0);
    let dir = host.stop();
    assert_eq!(fs::read_dir(dir.state.decisions()).expect("readable").count(), 0);
}
