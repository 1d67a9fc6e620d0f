//! Files that are copied into `plugins/` while the gateway serves: taken up when they are whole and good, else refused by name.

use std::fs;

use serde_json::{Value, json};
use support::components::stamped;
use support::{TestDir, TestHost, chela, guest, guest_bytes, path_of};

const RULES: &str = r#"{
    // One rule that nothing else has.
    rules: [{ category: "legal_compliance", keywords: ["zebra"], weight: 10 }],
}"#;

/// A host whose classifier is a file of `plugins/`.
fn host() -> TestHost {
    let dir = with_file("mine.wasm", &guest_bytes("steady"));
    let binding = json!({ "source": "mine.wasm", "config": {} });
    dir.edit_config(|config| config["plugins"]["classifier"] = binding);
    start(dir)
}

fn with_file(name: &str, bytes: &[u8]) -> TestDir {
    let dir = TestDir::with_config(|_| {});
    fs::create_dir_all(dir.state.plugins()).expect("made");
    fs::write(dir.state.plugins().join(name), bytes).expect("written");
    dir
}

fn start(dir: TestDir) -> TestHost {
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("the gateway starts: {error}"));
    host.block_on(host.plugins().loaded());
    host
}

fn write(host: &TestHost, name: &str, bytes: &[u8]) {
    fs::write(host.dir.state.plugins().join(name), bytes).expect("written");
}

fn name(host: &TestHost) -> Value {
    host.slot("classifier")["plugin"]["name"].clone()
}

/// Makes the gateway look at every file: another slot's file has changed, and is taken up after the classifier's.
fn look_at_all(host: &TestHost) {
    write(host, "guard.wasm", &guest_bytes("unruly-guard"));
    host.load("guard:extra", "guard.wasm", json!({})).expect("loaded");
    let hash = || host.slot("guard:extra")["plugin"]["hash"].clone();
    let before = hash();
    write(host, "guard.wasm", &stamped(&guest_bytes("unruly-guard"), "changed"));
    host.eventually("all files were looked at", || (hash() != before).then_some(()));
}

/// Waits for the next refusal; gives its reason.
fn refusal(host: &TestHost, count: usize) -> String {
    host.eventually("it is refused", || (host.told("plugin.rejected").len() == count).then_some(()));
    host.told("plugin.rejected").pop().expect("told")["reason"].as_str().expect("a reason").to_owned()
}

#[test]
fn a_bound_file_that_is_overwritten_is_taken_up() {
    let host = host();
    assert_eq!(name(&host), "steady");
    write(&host, "mine.wasm", &guest_bytes("unruly"));
    let told = host.eventually("the new one serves", || host.told("plugin.swapped").pop());
    assert_eq!((&told["plugin"]["name"], &told["replaced"]["name"]), (&json!("unruly"), &json!("steady")));
    assert_eq!(name(&host), "unruly");
    let host = start(host.stop());
    assert_eq!(name(&host), "unruly");
}

#[test]
fn a_half_written_file_is_refused_once_and_the_old_one_serves_until_it_is_whole() {
    let host = host();
    let whole = guest_bytes("unruly");
    write(&host, "mine.wasm", &whole[..whole.len() / 2]);
    assert!(refusal(&host, 1).contains("it is broken or not whole"));
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
    // Another file's change is no reason to tell it again.
    look_at_all(&host);
    assert_eq!(host.told("plugin.rejected").len(), 1);
    write(&host, "mine.wasm", &whole);
    host.eventually("the whole one serves", || (name(&host) == "unruly").then_some(()));
    assert_eq!(host.told("plugin.rejected").len(), 1);
    assert_eq!(host.slot("classifier")["problem"], Value::Null);
}

#[test]
fn a_file_that_is_put_back_has_no_problem_any_more() {
    let host = host();
    write(&host, "mine.wasm", b"not a component");
    refusal(&host, 1);
    assert!(host.slot("classifier")["problem"].is_string());
    write(&host, "mine.wasm", &guest_bytes("steady"));
    host.eventually("it is as it was", || host.slot("classifier")["problem"].is_null().then_some(()));
    assert_eq!(host.told("plugin.swapped").len(), 0);
}

#[test]
fn a_bound_file_that_was_bad_at_the_start_is_taken_up_when_it_is_good() {
    let dir = with_file("mine.wasm", b"not yet");
    dir.edit_config(|config| config["plugins"]["classifier"] = json!({ "source": "mine.wasm" }));
    let host = start(dir);
    assert_eq!(host.slot("classifier")["state"], "failed");
    assert_eq!(host.classify("hello").by, None, "the gateway answers for it");
    write(&host, "mine.wasm", &guest_bytes("steady"));
    host.eventually("it serves", || (name(&host) == "steady").then_some(()));
}

#[test]
fn a_new_file_is_installed_and_bound_to_nothing() {
    let host = host();
    write(&host, "new.wasm", &guest_bytes("unruly"));
    host.eventually("it is listed", || (host.plugins().installed() == ["new.wasm"]).then_some(()));
    assert_eq!(name(&host), "steady");
    host.load("classifier", "new.wasm", json!({})).expect("loaded by its name");
    assert_eq!(host.plugins().installed(), ["mine.wasm"], "no longer bound");
}

#[test]
fn a_pinned_file_that_changes_is_refused_and_the_old_one_serves() {
    let dir = with_file("mine.wasm", &guest_bytes("steady"));
    let inspected = chela(&dir.state, &["plugin", "inspect", &path_of(&guest("steady")), "--json"]).json();
    let sha256 = inspected["sha256"].as_str().expect("a hash").to_owned();
    dir.edit_config(|config| config["plugins"]["classifier"] = json!({ "source": "mine.wasm", "sha256": sha256 }));
    let host = start(dir);
    assert_eq!(name(&host), "steady");
    let pinned = host.slot("classifier")["plugin"]["hash"].clone();
    write(&host, "mine.wasm", &stamped(&guest_bytes("steady"), "not the pinned one"));
    let said = refusal(&host, 1);
    assert!(said.contains(&format!("and {sha256} is required")), "{said}");
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
    let host = start(host.stop());
    let slot = host.slot("classifier");
    assert_eq!((&slot["state"], &slot["plugin"]["hash"]), (&json!("serving"), &pinned), "the copy of the pinned one");
    assert!(slot["problem"].as_str().is_some_and(|said| said.contains("is required")), "{slot}");
}

#[test]
fn a_rule_file_is_used_when_it_comes_changes_and_goes() {
    let host = start(TestDir::with_config(|_| {}));
    let category = || host.category("the zebra in the zebra house");
    assert_ne!(category().as_deref(), Some("legal_compliance"));
    write(&host, "rules.json5", RULES.as_bytes());
    host.eventually("the rules are used", || (category().as_deref() == Some("legal_compliance")).then_some(()));
    write(&host, "rules.json5", RULES.replace("legal_compliance", "biz_strategy").as_bytes());
    host.eventually("the change is used", || (category().as_deref() == Some("biz_strategy")).then_some(()));
    fs::remove_file(host.dir.state.rules()).expect("removed");
    host.eventually("they are gone", || (category().as_deref() != Some("biz_strategy")).then_some(()));
    assert_eq!(host.told("plugin.rejected"), Vec::<Value>::new());
}

#[test]
fn a_rule_file_with_a_mistake_is_refused_with_its_place_and_the_old_rules_serve() {
    let host = start(TestDir::with_config(|_| {}));
    write(&host, "rules.json5", RULES.as_bytes());
    let category = || host.category("the zebra in the zebra house");
    host.eventually("the rules are used", || (category().as_deref() == Some("legal_compliance")).then_some(()));
    write(&host, "rules.json5", RULES.replace("weight: 10", "weight: 10 :").as_bytes());
    let said = refusal(&host, 1);
    look_at_all(&host);
    assert_eq!(host.told("plugin.rejected").len(), 1, "told once");
    assert!(said.contains("rules.json5 cannot be used: ") && said.contains("line 3 column"), "{said}");
    assert_eq!(category().as_deref(), Some("legal_compliance"));
    // A rule that means nothing is told by its place in the file.
    write(&host, "rules.json5", RULES.replace("10", "\"much\"").as_bytes());
    let said = refusal(&host, 2);
    assert!(said.starts_with("rules refuses its configuration at rules[0].weight: "), "{said}");
    assert_eq!(category().as_deref(), Some("legal_compliance"));
    write(&host, "rules.json5", RULES.as_bytes());
    host.eventually("all is well", || host.slot("classifier")["problem"].is_null().then_some(()));
}

#[test]
fn a_rule_for_a_category_that_the_deployment_lacks_is_refused_until_it_has_it() {
    let host = start(TestDir::with_config(|_| {}));
    let category = || host.category("the zebra in the zebra house");
    write(&host, "rules.json5", RULES.as_bytes());
    host.eventually("the rules are used", || (category().as_deref() == Some("legal_compliance")).then_some(()));
    write(&host, "rules.json5", RULES.replace("legal_compliance", "zoo").as_bytes());
    let said = refusal(&host, 1);
    let expected = "rules: its configuration names at rules[0].category the category \"zoo\", which this deployment does not \
                    have; write one of engineering_build, infra_ops, ";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(category().as_deref(), Some("legal_compliance"), "what served still serves");
    host.dir.edit_config(|config| {
        let categories = config["categories"].as_array_mut().expect("a table");
        categories.push(json!({ "key": "zoo", "ko": "동물원", "en": "Zoo" }));
    });
    host.eventually("the category is there", || (category().as_deref() == Some("zoo")).then_some(()));
    // One that leaves the deployment later is told, and takes no other rule with it.
    let dir = host.stop();
    dir.edit_config(|config| drop(config["categories"].as_array_mut().expect("a table").pop()));
    let host = start(dir);
    let slot = host.slot("classifier");
    assert_eq!((&slot["state"], &slot["plugin"]["name"]), (&json!("serving"), &json!("rules")));
    assert!(slot["problem"].as_str().is_some_and(|said| said.contains("the category \"zoo\"")), "{slot}");
    assert_ne!(host.category("the zebra in the zebra house").as_deref(), Some("zoo"));
}

#[test]
fn a_rule_file_that_was_bad_at_the_start_is_taken_up_when_it_is_mended() {
    let host = start(with_file("rules.json5", b"{ rules: ["));
    let slot = host.slot("classifier");
    assert_eq!(
        (&slot["state"], &slot["plugin"]["name"]),
        (&json!("serving"), &json!("rules")),
        "the default meanwhile"
    );
    assert!(slot["problem"].as_str().is_some_and(|said| said.contains("rules.json5 cannot be used")), "{slot}");
    write(&host, "rules.json5", RULES.as_bytes());
    let category = || host.category("the zebra in the zebra house");
    host.eventually("the rules are used", || (category().as_deref() == Some("legal_compliance")).then_some(()));
}

#[test]
fn a_dropped_file_that_is_rolled_back_is_not_taken_up_again() {
    let host = host();
    write(&host, "mine.wasm", &guest_bytes("unruly"));
    host.eventually("the new one serves", || (name(&host) == "unruly").then_some(()));
    assert_eq!(host.classify("!trap").by.expect("answered").name, "steady");
    look_at_all(&host);
    assert_eq!(name(&host), "steady");
    assert_eq!(name(&start(host.stop())), "steady", "nor by a restart");
}
