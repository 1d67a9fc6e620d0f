//! Quarantine after many failures, and the commands of an operator: each does what it says or says why not, also over restarts.

use std::time::Duration;

use serde_json::{Value, json};
use support::components::{Handmade, stamped};
use support::{TestHost, guest, guest_bytes, path_of};

fn restarted(host: TestHost) -> TestHost {
    TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("it starts again: {error}"))
}

fn name(host: &TestHost) -> Value {
    host.slot("classifier")["plugin"]["name"].clone()
}

fn fail_ten_times(host: &TestHost) {
    for n in 1..=10 {
        assert_ne!(host.slot("classifier")["state"], "quarantined", "after {n} failures");
        host.classify("!trap");
    }
}

#[test]
fn ten_failures_in_a_minute_are_quarantine_and_release_ends_it() {
    let host = TestHost::with_classifier("unruly", json!({}));
    fail_ten_times(&host);
    assert_eq!(host.slot("classifier")["state"], "quarantined");
    let told = host.told("plugin.quarantined");
    assert_eq!((told.len(), &told[0]["plugin"]["name"]), (1, &json!("unruly")));
    assert_eq!(host.classify("hello").by, None, "not asked any more");
    assert_eq!(host.told("plugin.trapped").len(), 10);

    assert_eq!(host.operate("release", "classifier").expect("released")["state"], "serving");
    assert_eq!(host.told("plugin.released").len(), 1);
    for _ in 0..4 {
        assert_eq!(host.classify("hello").by.expect("asked again").name, "unruly");
    }
    let refused = host.operate("release", "classifier").expect_err("not twice");
    assert_eq!(refused, "the slot classifier is not in quarantine");
}

#[test]
fn failures_that_are_spread_out_are_borne() {
    let host = TestHost::with_classifier("unruly", json!({}));
    for _ in 0..30 {
        host.clock.advance(Duration::from_secs(7));
        host.classify("!decline");
    }
    assert_eq!(host.slot("classifier")["state"], "serving");
}

#[test]
fn a_component_in_quarantine_can_be_replaced() {
    let host = TestHost::with_classifier("unruly", json!({}));
    fail_ten_times(&host);
    host.load("classifier", &path_of(&guest("steady")), json!({})).expect("loaded");
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
}

#[test]
fn disabled_is_disabled_over_restarts_until_it_is_enabled() {
    let host = TestHost::with_classifier("steady", json!({}));
    assert_eq!(host.operate("disable", "classifier").expect("done")["outcome"], "disabled");
    assert_eq!(host.told("plugin.unloaded").pop().expect("told")["reason"], "disabled");
    assert_eq!(host.classify("hello").by, None);
    assert_eq!(host.told("plugin.fallback"), Vec::<Value>::new(), "as the operator wished");
    let host = restarted(host);
    assert_eq!(host.slot("classifier")["state"], "disabled");
    assert_eq!(host.classify("hello").by, None);
    assert_eq!(host.operate("enable", "classifier").expect("done")["state"], "serving");
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
    let host = restarted(host);
    assert_eq!(host.slot("classifier")["state"], "serving");
}

#[test]
fn what_an_operator_loaded_is_disabled_and_enabled_as_it_was() {
    let host = TestHost::start();
    host.load("classifier", &path_of(&guest("steady")), json!({ "category": "infra_ops" })).expect("loaded");
    host.operate("disable", "classifier").expect("disabled");
    host.operate("enable", "classifier").expect("enabled");
    assert_eq!(host.category("hello").as_deref(), Some("infra_ops"));
    host.operate("disable", "classifier").expect("disabled");
    let host = restarted(host);
    host.operate("enable", "classifier").expect("enabled");
    assert_eq!(host.category("hello").as_deref(), Some("infra_ops"));
}

#[test]
fn what_was_loaded_serves_after_a_restart_and_unload_gives_the_slot_back() {
    let host = TestHost::start();
    host.upload("classifier", "mine.wasm", guest_bytes("steady")).expect("loaded");
    assert!(host.dir.state.plugins().join("mine.wasm").is_file());
    let host = restarted(host);
    assert_eq!(name(&host), "steady");
    assert_eq!(host.operate("unload", "classifier").expect("done")["plugin"]["name"], "rules");
    let refused = host.operate("unload", "classifier").expect_err("nothing to unload");
    assert!(
        refused.starts_with("the slot classifier holds what chela.json binds; to serve nothing there"),
        "{refused}"
    );
    assert_eq!(name(&restarted(host)), "rules");
}

#[test]
fn a_changed_binding_in_the_configuration_wins_over_what_was_loaded() {
    let host = TestHost::start();
    host.load("classifier", &path_of(&guest("steady")), json!({})).expect("loaded");
    let unruly = json!({ "source": path_of(&guest("unruly")) });
    host.dir.edit_config(|config| config["plugins"]["classifier"] = unruly);
    host.eventually("the configuration's is served", || (name(&host) == "unruly").then_some(()));
    assert_eq!(name(&restarted(host)), "unruly");
}

#[test]
fn commands_that_have_nothing_to_do_say_so() {
    let host = TestHost::with_classifier("steady", json!({}));
    let check = |verb: &str, slot: &str, expected: &str| {
        let said = host.operate(verb, slot).expect_err("refused");
        assert!(said.starts_with(expected), "{verb} {slot}: {said}");
    };
    check("rollback", "classifier", "there is no version of classifier to roll back to");
    check("accept", "classifier", "no update of classifier waits to be accepted");
    check("release", "classifier", "the slot classifier is not in quarantine");
    for verb in ["rollback", "accept", "release", "unload", "disable", "enable"] {
        check(verb, "guard:none", "nothing is bound to the slot guard:none; `chela plugin load FILE");
    }
    assert_eq!(host.classify("hello").by.expect("unharmed").name, "steady");
}

#[test]
fn enabling_what_is_not_disabled_changes_nothing() {
    let host = TestHost::with_classifier("steady", json!({}));
    assert_eq!(host.operate("enable", "classifier").expect("done")["state"], "serving");
    assert_eq!(host.told("plugin.loaded").iter().filter(|event| event["slot"] == "classifier").count(), 1);
}

/// The same plugin, which now imports chance as well.
fn wider() -> Vec<u8> {
    let import = "import wasi:random/random@0.2.0;";
    let items = r#"(import "wasi:random/random@0.2.0" "get-random-u64" (func $chance (result i64)))"#;
    Handmade { import, imports: items, version: "2.0.0", category: "infra_ops", ..Handmade::default() }.component()
}

#[test]
fn an_update_that_imports_more_waits_until_it_is_accepted() {
    let host = TestHost::start();
    host.upload("classifier", "mine.wasm", Handmade::default().component()).expect("loaded");
    let said = host.upload("classifier", "mine.wasm", wider()).expect_err("it waits");
    assert!(
        said.contains("handmade imports more than the version it would replace (wasi:random/random@0.2.0)"),
        "{said}"
    );
    assert_eq!(host.category("hello").as_deref(), Some("qa_validation"), "the old one serves");
    assert_eq!(host.slot("classifier")["waiting"]["moreGrants"], json!(["wasi:random/random@0.2.0"]));
    assert_eq!(host.told("plugin.denied").len(), 1);

    assert_eq!(host.operate("accept", "classifier").expect("accepted")["plugin"]["version"], "2.0.0");
    assert_eq!(host.category("hello").as_deref(), Some("infra_ops"));
    assert_eq!(host.slot("classifier")["waiting"], Value::Null);
    host.operate("accept", "classifier").expect_err("nothing waits any more");
    // What was accepted is accepted: an update that imports as much does not wait.
    host.upload("classifier", "mine.wasm", stamped(&wider(), "again")).expect("loaded");
}

#[test]
fn a_rollback_goes_one_version_back_and_is_remembered() {
    let host = TestHost::start();
    let steady = path_of(&guest("steady"));
    host.load("classifier", &steady, json!({ "category": "infra_ops" })).expect("loaded");
    host.load("classifier", &path_of(&guest("unruly")), json!({})).expect("loaded");
    let report = host.operate("rollback", "classifier").expect("rolled back");
    assert_eq!((&report["plugin"]["name"], &report["replaced"]["name"]), (&json!("steady"), &json!("unruly")));
    assert_eq!(host.told("plugin.rolled_back").pop().expect("told")["from"]["name"], "unruly");
    let host = restarted(host);
    let answered = host.classify("hello");
    assert_eq!(
        (answered.by.expect("answered").name.as_str(), answered.answer.primary.as_deref()),
        ("steady", Some("infra_ops"))
    );
}

#[test]
fn a_rollback_finds_what_the_configuration_binds_too() {
    // A file of the configuration, whose file is gone by then.
    let host = TestHost::start_with(|config| config["plugins"]["classifier"] = Value::Null);
    let path = host.dir.scratch().join("own.wasm");
    std::fs::write(&path, guest_bytes("steady")).expect("written");
    host.dir.edit_config(|config| config["plugins"]["classifier"] = json!({ "source": path_of(&path) }));
    host.eventually("it serves", || (name(&host) == "steady").then_some(()));
    host.load("classifier", &path_of(&guest("unruly")), json!({})).expect("loaded");
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(host.operate("rollback", "classifier").expect("rolled back")["plugin"]["name"], "steady");
    let host = restarted(host);
    assert_eq!(name(&host), "steady");
}
