//! Plugins over HTTP: what serves, a component sent as a body, and refusals that say their stage.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use support::TestHost;

/// A default component as a file.
fn component(name: &str) -> Vec<u8> {
    let suite = std::env::current_exe().expect("the suite is a file");
    let target: PathBuf = suite.ancestors().nth(3).expect("in target/PROFILE/deps").into();
    fs::read(target.join("components").join(format!("{name}.wasm"))).expect("built by `cargo xtask test`")
}

fn post(host: &TestHost, path: &str, body: &[u8]) -> (u16, Value) {
    let answer = host.request("POST", path, &[], body);
    (answer.status, answer.json())
}

#[test]
fn the_slots_are_shown_with_what_serves_in_them() {
    let host = TestHost::start();
    host.block_on(host.app().plugins().loaded());
    let answer = host.request("GET", "/admin/plugins", &[], &[]).json();
    let row = |slot: &Value| json!([slot["slot"], slot["state"], slot["plugin"]["source"]]);
    let slots: Vec<Value> = answer["slots"].as_array().expect("a list").iter().map(row).collect();
    assert_eq!(
        slots,
        [
            json!(["classifier", "serving", "builtin:rules"]),
            json!(["guard:stop-guard", "serving", "builtin:stop-guard"]),
            json!(["continuation", "serving", "builtin:continuation"]),
        ]
    );
    assert_eq!(host.call("plugin.slots", json!({})).expect("the same by method")["slots"], answer["slots"]);
}

#[test]
fn a_component_sent_as_a_body_serves_and_is_kept_over_a_restart() {
    let host = TestHost::start();
    let (status, loaded) =
        post(&host, "/admin/plugins/upload?slot=guard:sent&name=sent.wasm", &component("stop-guard"));
    assert_eq!((status, &loaded["outcome"]), (200, &json!("serving")), "{loaded}");
    let dir = host.stop();
    assert!(dir.state.plugins().join("sent.wasm").is_file(), "installed under its name");
    let again = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    again.block_on(again.app().plugins().loaded());
    let slots = again.call("plugin.slots", json!({})).expect("slots")["slots"].clone();
    let sent = slots.as_array().expect("a list").iter().find(|slot| slot["slot"] == "guard:sent").cloned();
    assert_eq!(sent.expect("still bound")["state"], "serving");
}

#[test]
fn a_refused_component_says_its_stage_and_changes_nothing() {
    let host = TestHost::start();
    host.block_on(host.app().plugins().loaded());
    let before = host.call("plugin.slots", json!({})).expect("slots")["slots"][0]["plugin"].clone();
    let upload = |query: &str, body: &[u8]| {
        let (status, answer) = post(&host, &format!("/admin/plugins/upload?{query}"), body);
        let said = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
        (status, answer["error"]["details"]["stage"].as_str().unwrap_or_default().to_owned(), said)
    };
    let (status, stage, said) = upload("slot=classifier&name=x.wasm", b"hello, world");
    assert_eq!((status, stage.as_str()), (400, "inspect"), "{said}");
    assert!(said.contains("not WebAssembly"), "{said}");
    let (_, stage, said) = upload("slot=classifier&name=x.wasm", &component("stop-guard"));
    assert_eq!(stage, "inspect");
    assert_eq!(said, "x.wasm is a guard, and the slot classifier takes a classifier");
    let with_config = [&b"{\"a\":1}"[..], &component("stop-guard")].concat();
    let (_, stage, said) = upload("slot=guard:x&name=x.wasm&configBytes=7", &with_config);
    assert_eq!(
        (stage.as_str(), said.as_str()),
        ("configure", "stop-guard refuses its configuration: this plugin takes no configuration")
    );
    for (query, expected) in [
        ("slot=nowhere&name=x.wasm", "there is no slot \"nowhere\""),
        ("slot=classifier&name=../x.wasm", "the name must be a file name"),
        ("slot=classifier", "name"),
        ("slot=classifier&name=x.wasm&configBytes=9", "the configuration is no JSON object"),
        ("slot=classifier&name=x.wasm&configBytes=99999999", "shorter than configBytes"),
    ] {
        let (status, _, said) = upload(query, &component("rules"));
        assert_eq!(status, 400);
        assert!(said.contains(expected), "{query}: {said}");
    }
    assert_eq!(host.call("plugin.slots", json!({})).expect("slots")["slots"][0]["plugin"], before);
    let rejected = host.events().into_iter().filter(|event| event["type"] == "plugin.rejected").count();
    assert_eq!(rejected, 3);
}

#[test]
fn a_component_past_the_limit_of_size_is_refused_before_it_is_read() {
    let host = TestHost::start_with(|config| config["plugins"]["fileBytes"] = json!(50_000));
    let (status, answer) = post(&host, "/admin/plugins/upload?slot=guard:x&name=x.wasm", &component("stop-guard"));
    assert_eq!((status, &answer["error"]["code"]), (413, &json!("body_too_large")), "{answer}");
}

#[test]
fn every_verb_has_a_path_and_every_change_its_lines_in_the_audit_log() {
    let host = TestHost::start();
    host.block_on(host.app().plugins().loaded());
    let slot = br#"{"slot": "classifier"}"#;
    let outcome = |verb: &str, expected: u16| {
        let (status, answer) = post(&host, &format!("/admin/plugins/{verb}"), slot);
        assert_eq!(status, expected, "{verb}: {answer}");
        answer
    };
    assert_eq!(outcome("disable", 200)["outcome"], "disabled");
    assert_eq!(outcome("enable", 200)["state"], "serving");
    for (verb, said) in
        [("accept", "waits"), ("rollback", "roll back"), ("release", "quarantine"), ("unload", "chela.json")]
    {
        let refused = outcome(verb, 400);
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(said), "{verb}: {message}");
    }
    let (status, logs) = {
        let answer = host.request("GET", "/admin/plugins/logs?slot=classifier&lines=5", &[], &[]);
        (answer.status, answer.json())
    };
    assert_eq!((status, &logs["lines"]), (200, &json!([])));
    let audit = fs::read_to_string(host.dir.state.audit_log()).expect("readable");
    let asked = audit.lines().filter(|line| line.contains("\"method\":\"plugin.")).count();
    assert_eq!(asked, 6, "{audit}");
}
