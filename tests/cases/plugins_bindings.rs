//! What is bound stays bound: over restarts, rollbacks, files that change, and updates that wait.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use support::components::{Handmade, importing};
use support::{TestHost, guest, guest_bytes, path_of};

/// The same plugin, which now imports chance as well.
fn wider() -> Vec<u8> {
    let import = "import wasi:random/random@0.2.0;";
    let items = r#"(import "wasi:random/random@0.2.0" "get-random-u64" (func $chance (result i64)))"#;
    Handmade { import, imports: items, version: "2.0.0", category: "infra_ops", ..Handmade::default() }.component()
}

fn restarted(host: TestHost) -> TestHost {
    let host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    host.block_on(host.plugins().loaded());
    host
}

/// Lets a file's watcher see what there is to see.
fn let_settle(host: &TestHost) {
    for _ in 0..20 {
        host.clock.advance(Duration::from_millis(100));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn version(host: &TestHost) -> Value {
    host.slot("classifier")["plugin"]["version"].clone()
}

#[test]
fn a_file_that_brings_down_who_looks_at_it_is_refused_and_loading_goes_on() {
    // A component that imports a type equal to a function's; its decoder ends in a panic.
    let bytes = [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0, 7, 5, 1, 0x40, 0, 1, 0, 0x0a, 7, 1, 0, 1, 0x74, 3, 0, 0];
    let host = TestHost::with_classifier("steady", json!({}));
    let said = host.upload("classifier", "odd.wasm", bytes.to_vec()).expect_err("refused");
    assert!(said.contains("odd.wasm: it is broken or not whole"), "{said}");
    assert_eq!(host.classify("hello").by.expect("unharmed").name, "steady");
    host.load("classifier", &path_of(&guest("unruly")), json!({})).expect("the next one is loaded");
}

#[test]
fn an_update_that_waits_goes_on_waiting_over_a_restart() {
    let host = TestHost::start();
    host.upload("classifier", "mine.wasm", Handmade::default().component()).expect("loaded");
    fs::write(host.dir.state.plugins().join("mine.wasm"), wider()).expect("dropped");
    host.eventually("it waits", || (!host.slot("classifier")["waiting"].is_null()).then_some(()));
    let host = restarted(host);
    assert_eq!(version(&host), Handmade::default().version);
    assert_eq!(host.slot("classifier")["waiting"]["moreGrants"], json!(["wasi:random/random@0.2.0"]));
    host.operate("disable", "classifier").expect("disabled");
    host.operate("enable", "classifier").expect("enabled");
    assert_eq!(version(&host), Handmade::default().version, "nor does this let it in");
    host.operate("accept", "classifier").expect("accepted");
    assert_eq!(version(&host), "2.0.0");
}

#[test]
fn an_accepted_upload_becomes_the_file_and_stays() {
    let host = TestHost::start();
    host.upload("classifier", "mine.wasm", Handmade::default().component()).expect("loaded");
    host.upload("classifier", "mine.wasm", wider()).expect_err("it waits");
    host.operate("accept", "classifier").expect("accepted");
    let_settle(&host);
    assert_eq!(version(&host), "2.0.0");
    assert!(fs::read(host.dir.state.plugins().join("mine.wasm")).expect("readable") == wider());
}

#[test]
fn trying_in_the_shadow_leaves_no_trace() {
    let host = TestHost::start();
    host.upload("classifier", "mine.wasm", Handmade::default().component()).expect("loaded");
    let from = || chela::plugins::From::Bytes { name: "mine.wasm".into(), bytes: wider().into(), signature: None };
    host.load_with("classifier", from(), None, true).expect("tried");
    host.load_with("classifier", from(), Some(json!({})), true).expect("tried");
    let slot = host.slot("classifier");
    assert_eq!((&slot["waiting"], &slot["problem"]), (&Value::Null, &Value::Null));
    host.operate("accept", "classifier").expect_err("nothing waits");
}

#[test]
fn rules_that_were_rolled_back_are_taken_up_once_they_are_mended() {
    let rules = |weight: u32| {
        format!("{{ rules: [{{ category: 'legal_compliance', keywords: ['zebra'], weight: {weight} }}] }}")
    };
    let host = TestHost::start();
    host.block_on(host.plugins().loaded());
    let category = |host: &TestHost| host.category("a zebra");
    fs::write(host.dir.state.rules(), rules(9)).expect("dropped");
    host.eventually("they are used", || (category(&host).as_deref() == Some("legal_compliance")).then_some(()));
    host.operate("rollback", "classifier").expect("rolled back");
    assert_eq!(category(&host), None);
    let host = restarted(host);
    assert_eq!(category(&host), None, "not by a restart");
    let said = host.slot("classifier")["problem"].clone();
    assert!(said.as_str().is_some_and(|said| said.contains("rolled back before")), "{said}");
    fs::write(host.dir.state.rules(), rules(10)).expect("mended");
    host.eventually("they are used", || (category(&host).as_deref() == Some("legal_compliance")).then_some(()));
}

#[test]
fn a_version_that_was_gone_back_to_is_not_left_again_at_its_first_failure() {
    let host = TestHost::start();
    host.load("classifier", &path_of(&guest("unruly")), json!({})).expect("loaded");
    host.load("classifier", &path_of(&guest("steady")), json!({})).expect("loaded");
    host.operate("rollback", "classifier").expect("rolled back");
    assert_eq!(host.slot("classifier")["state"], "serving", "it has proven itself");
    host.classify("!trap");
    assert_eq!(host.slot("classifier")["plugin"]["name"], "unruly");
}

#[test]
fn enabling_what_cannot_be_loaded_leaves_it_disabled() {
    let host = TestHost::start();
    let path = host.dir.state.plugins().join("mine.wasm");
    host.upload("guard:mine", "mine.wasm", guest_bytes("unruly-guard")).expect("loaded");
    host.operate("disable", "guard:mine").expect("disabled");
    fs::write(&path, b"no component").expect("damaged");
    fs::remove_dir_all(host.dir.state.plugin_store()).expect("its copy is gone as well");
    host.operate("enable", "guard:mine").expect_err("it cannot be loaded");
    assert_eq!(host.slot("guard:mine")["state"], "disabled");
    let host = restarted(host);
    assert_eq!(host.slot("guard:mine")["state"], "disabled");
}

#[test]
fn inputs_that_were_recorded_do_not_keep_a_slot_empty_at_the_start() {
    let host = TestHost::with_classifier("steady", json!({}));
    host.classify("!trap");
    let dir = host.stop();
    let binding = json!({ "source": path_of(&guest("unruly")) });
    dir.edit_config(|config| config["plugins"]["classifier"] = binding);
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.block_on(host.plugins().loaded());
    assert_eq!(host.slot("classifier")["plugin"]["name"], "unruly");
}

#[test]
fn interfaces_of_wasi_that_are_not_there_are_refused_by_name() {
    let host = TestHost::with_classifier("steady", json!({}));
    let asking = importing("wasi:random@0.2.0", "dice", "roll: func() -> u64;");
    let said = host.upload("classifier", "asking.wasm", asking).expect_err("refused");
    assert!(said.contains("it imports wasi:random/dice@0.2.0"), "{said}");
}

#[test]
fn what_the_gateway_decides_in_place_of_a_guard_is_in_the_log() {
    let host =
        TestHost::start_with(|config| config["plugins"]["guards"] = json!([{ "name": "bad", "source": "none.wasm" }]));
    let call = chela::policy::ToolCall { tool: "files_read".into(), ..Default::default() };
    let about = chela::plugins::About { task: Some("task_1".into()), ..Default::default() };
    host.block_on(host.plugins().before_tool_call(call, &about, |_| Ok(())));
    let told = host.told("policy.decided").pop().expect("told");
    assert_eq!(
        (&told["plugin"], &told["taskId"], &told["answer"]["verdict"]),
        (&Value::Null, &json!("task_1"), &json!("block"))
    );
    assert!(told["reason"].as_str().is_some_and(|said| said.contains("none.wasm")), "{told}");
}

#[test]
fn a_file_dropped_beside_it_ends_no_quarantine_and_a_bad_one_is_told_once() {
    let host = TestHost::with_classifier("unruly", json!({}));
    (0..10).for_each(|_| drop(host.classify("!trap")));
    assert_eq!(host.slot("classifier")["state"], "quarantined");
    host.dir.edit_config(|config| {
        config["plugins"]["guards"] = json!([{ "name": "absent", "source": "absent.wasm" }]);
    });
    host.eventually("the guard is refused", || (host.told("plugin.rejected").len() == 1).then_some(()));
    fs::write(host.dir.state.plugins().join("other.wasm"), b"anything").expect("dropped");
    host.eventually("it was looked at", || (host.plugins().installed() == ["other.wasm"]).then_some(()));
    let_settle(&host);
    assert_eq!(host.slot("classifier")["state"], "quarantined");
    assert_eq!(host.told("plugin.rejected").len(), 1);
}
