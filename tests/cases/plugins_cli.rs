//! `chela plugin`: looking at components without a gateway, changing a gateway's, and the exit codes of both.

use std::fs;

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use support::components::{Handmade, dummy, importing};
use support::{Binary, Finished, TestDir, chela, chela_command, guest, guest_bytes, path_of};

/// Runs `chela plugin …`.
fn plugin(dir: &TestDir, arguments: &[&str]) -> Finished {
    chela(&dir.state, &[&["plugin"], arguments].concat())
}

fn refused(finished: Finished, code: i32, expected: &str) {
    assert_eq!(finished.code, Some(code), "{finished:#?}");
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
}

fn file(dir: &TestDir, name: &str, content: &[u8]) -> String {
    let path = dir.scratch().join(name);
    fs::write(&path, content).expect("written");
    path_of(&path)
}

#[test]
fn inspect_tells_what_a_component_is() {
    let dir = TestDir::empty();
    let found = plugin(&dir, &["inspect", &path_of(&guest("waits")), "--json"]);
    assert_eq!(found.code, Some(0), "{found:#?}");
    let found = found.json();
    assert_eq!((&found["name"], &found["version"]), (&json!("waits"), &json!("0.1.0")));
    assert_eq!((&found["worlds"], &found["form"]), (&json!(["classifier"]), &json!("component")));
    assert_eq!(found["interfaceVersion"], "0.1.0");
    assert!(found["grants"].as_array().expect("a list").contains(&json!("wasi:cli/exit@0.2.0")), "{found}");
    assert_eq!(found["bytes"], guest_bytes("waits").len());
    assert_eq!(dir.files(), Vec::<String>::new(), "and makes nothing");
}

#[test]
fn inspect_refuses_by_its_exit_code_too() {
    let dir = TestDir::empty();
    refused(plugin(&dir, &["inspect"]), 2, "required");
    refused(plugin(&dir, &["inspect", "/nothing.wasm"]), 1, "cannot read /nothing.wasm");
    let half = file(&dir, "half.wasm", &guest_bytes("steady")[..10_000]);
    refused(plugin(&dir, &["inspect", &half]), 1, "it is broken or not whole");
}

#[test]
fn try_calls_one_function_with_one_input() {
    let dir = TestDir::empty();
    let input = file(&dir, "input.json", br#"{ "texts": ["hello"] }"#);
    let steady = path_of(&guest("steady"));
    let answer = plugin(&dir, &["try", &steady, "categories", "--input", &input, "--json"]);
    assert_eq!((answer.code, &answer.json()["primary"]), (Some(0), &json!("docs_knowledge")));
    let config = file(&dir, "config.json5", b"{ category: 'infra_ops' }");
    let answer = plugin(&dir, &["try", &steady, "categories", "--input", &input, "--config", &config, "--json"]);
    assert_eq!(answer.json()["primary"], "infra_ops");
    assert_eq!(dir.files(), Vec::<String>::new(), "and makes nothing");
}

#[test]
fn a_conversation_from_the_shell_has_its_category() {
    let dir = TestDir::empty();
    let mut command = chela_command(&dir.state);
    command.args(["plugin", "try", "builtin:rules", "categories", "--input", "-", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary runs");
    let input = r#"{"texts":["배포 후 장애 대응이 필요합니다"]}"#;
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("read");
    let output = child.wait_with_output().expect("it ends");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &answer["primary"]), (Some(0), &json!("infra_ops")), "{answer}");
}

#[test]
fn try_says_what_went_wrong_and_fails() {
    let dir = TestDir::empty();
    let unruly = path_of(&guest("unruly"));
    let attempt = |export: &str, input: &str| {
        let input = file(&dir, "input.json", input.as_bytes());
        plugin(&dir, &["try", &unruly, export, "--input", &input])
    };
    refused(plugin(&dir, &["try", &unruly, "categories"]), 2, "--input");
    refused(attempt("categories", r#"{ "texts": ["!panic"] }"#), 1, "unruly was told to panic");
    refused(attempt("categories", r#"{ "texts": ["!loop"] }"#), 1, "it passed its limit of ");
    refused(attempt("categories", r#"{ "texts": ["!nan"] }"#), 1, "the confidence NaN is not between 0 and 1");
    refused(attempt("categories", r#"{ "words": [] }"#), 2, "the input does not fit `categories`: at conversations[0]");
    refused(attempt("categories", "{ texts"), 2, "input.json is not JSON: key must be a string at line 1 column 3");
    refused(attempt("categories", "[]"), 2, "--input: the input must be a JSON object");
    refused(attempt("categorise", "{}"), 2, "there is no such function; there are roles, categories, ");
    refused(attempt("next", "{}"), 1, "is a classifier, and the slot try takes a continuation");
}

#[test]
fn a_word_that_means_nothing_is_refused_before_anything_is_done() {
    // No gateway serves: what is wrong in itself is told first.
    let dir = TestDir::with_config(|_| {});
    let steady = path_of(&guest("steady"));
    let input = file(&dir, "input.json", br#"{ "texts": ["hello"] }"#);
    let bad = file(&dir, "bad.json5", b"{ category: ");
    let list = file(&dir, "list.json5", b"[]");
    let unknown = "no such component is built in; there is builtin:continuation, ";
    refused(plugin(&dir, &["inspect", "builtin:ruels"]), 2, unknown);
    refused(plugin(&dir, &["compile", "builtin:ruels"]), 2, unknown);
    refused(plugin(&dir, &["try", "builtin:ruels", "categories", "--input", &input]), 2, unknown);
    refused(plugin(&dir, &["load", "builtin:ruels", "--slot", "classifier"]), 2, unknown);
    let slot = "write `classifier`, `guard:NAME`, `continuation`, `continuation:AGENT` or `channel:NAME`";
    refused(plugin(&dir, &["load", &steady, "--slot", "guards"]), 2, slot);
    refused(plugin(&dir, &["load", &steady, "--slot", "guard:Mine"]), 2, slot);
    refused(plugin(&dir, &["unload", "clasifier"]), 2, slot);
    refused(plugin(&dir, &["logs", "guard"]), 2, slot);
    let with = |config: &str| plugin(&dir, &["try", &steady, "categories", "--input", &input, "--config", config]);
    refused(with(&bad), 2, "--config: ");
    refused(with(&bad), 2, "bad.json5 is not JSON5: ");
    refused(with(&list), 2, "list.json5 must hold an object");
    let load = |file: &str, config: &str| plugin(&dir, &["load", file, "--slot", "classifier", "--config", config]);
    refused(load(&steady, &bad), 2, "bad.json5 is not JSON5: ");
    let other = plugin(&dir, &["load", &input, "--slot", "classifier"]);
    refused(other, 2, "input.json is neither a .wasm nor a .rhai file; give a component or a script");
}

#[test]
fn commands_for_a_gateway_say_that_there_is_none() {
    let dir = TestDir::with_config(|_| {});
    let steady = path_of(&guest("steady"));
    for arguments in [
        &["list"][..],
        &["load", &steady, "--slot", "classifier"],
        &["load", "builtin:rules", "--slot", "classifier"],
        &["unload", "classifier"],
        &["disable", "classifier"],
        &["enable", "classifier"],
        &["accept", "classifier"],
        &["rollback", "classifier"],
        &["release", "classifier"],
        &["logs", "classifier"],
    ] {
        refused(plugin(&dir, arguments), 69, "no gateway serves ");
    }
    refused(plugin(&dir, &["load", &steady]), 2, "--slot");
    refused(plugin(&dir, &["swap", &steady]), 2, "unrecognized subcommand");
}

#[test]
fn a_serving_gateway_is_changed_from_the_shell() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    let steady = path_of(&guest("steady"));
    let config = file(&dir, "config.json5", b"{ category: 'infra_ops' }");
    let loaded = plugin(&dir, &["load", &steady, "--slot", "classifier", "--config", &config, "--json"]);
    assert_eq!(loaded.code, Some(0), "{loaded:#?}");
    assert_eq!((&loaded.json()["outcome"], &loaded.json()["replaced"]["name"]), (&json!("serving"), &json!("rules")));
    let again = plugin(&dir, &["load", &steady, "--slot", "classifier", "--config", &config]);
    assert!(again.stdout.starts_with("steady 0.1.0 serves classifier already"), "{again:#?}");

    let slot = |name: &str| {
        let listed = plugin(&dir, &["list", "--json"]);
        assert_eq!(listed.code, Some(0), "{listed:#?}");
        let slots = listed.json()["slots"].clone();
        slots.as_array().expect("a list").iter().find(|slot| slot["slot"] == name).cloned().unwrap_or(Value::Null)
    };
    assert_eq!(
        (&slot("classifier")["state"], &slot("classifier")["plugin"]["source"]),
        (&json!("probation"), &json!("steady.wasm"))
    );

    let guard = path_of(&guest("unruly-guard"));
    let wrong = plugin(&dir, &["load", &guard, "--slot", "classifier"]);
    refused(wrong, 1, "unruly-guard.wasm is a guard, and the slot classifier takes a classifier");
    refused(plugin(&dir, &["release", "classifier"]), 1, "the slot classifier is not in quarantine");

    assert_eq!(plugin(&dir, &["disable", "classifier"]).stdout.trim(), "classifier: disabled");
    assert_eq!(slot("classifier")["state"], "disabled");
    assert_eq!(plugin(&dir, &["enable", "classifier"]).stdout.trim(), "classifier: serving");
    assert_eq!(plugin(&dir, &["unload", "classifier"]).code, Some(0));
    assert_eq!(slot("classifier")["plugin"]["name"], "rules");
    serving.terminate();
}

#[test]
fn what_cannot_be_a_plugin_is_refused_in_the_shell_and_what_serves_goes_on() {
    let dir = TestDir::with_config(|config| {
        config["plugins"]["classifier"] = json!({ "source": path_of(&guest("steady")) });
        config["plugins"]["fileBytes"] = json!(300_000);
    });
    let serving = Binary::serve(&dir);
    let served = || {
        let slots = plugin(&dir, &["list", "--json"]).json()["slots"].clone();
        json!([slots[0]["state"], slots[0]["plugin"]["name"]])
    };
    let steady = guest_bytes("steady");
    let world = |items: &str| {
        let world = format!("\nworld odd {{ {items} }}\n");
        dummy("odd", move |wit| if wit.contains("world plugin") { format!("{wit}{world}") } else { wit.into() })
    };
    let files: [(&str, Vec<u8>, &str); 8] = [
        ("text.wasm", b"#!/bin/sh\n".to_vec(), "it is not WebAssembly (it starts with"),
        ("half.wasm", steady[..steady.len() / 2].to_vec(), "it is broken or not whole"),
        ("guard.wasm", guest_bytes("unruly-guard"), "is a guard, and the slot classifier takes a classifier"),
        (
            "later.wasm",
            dummy("classifier", |wit| wit.replace("@0.1.0", "@0.2.0")),
            "it was built for chela:policy@0.2.0, and this host speaks chela:policy@0.1.0; build it against",
        ),
        (
            "sockets.wasm",
            importing("wasi:sockets@0.2.0", "tcp", "start-connect: func();"),
            "it imports wasi:sockets/tcp@0.2.0, which no plugin is given",
        ),
        ("bare.wasm", world("export classification;"), "it does not export chela:policy/lifecycle@0.1.0; export it"),
        ("module.wasm", Handmade::default().bare_module(), "it is a core module without component metadata; build it"),
        (
            "large.wasm",
            vec![0; 300_001],
            "is too large for this deployment; make it smaller, or raise `plugins.fileBytes`",
        ),
    ];
    for (name, bytes, expected) in files {
        let path = file(&dir, name, &bytes);
        refused(plugin(&dir, &["load", &path, "--slot", "classifier"]), 1, expected);
        assert_eq!(served(), json!(["serving", "steady"]), "after {name}");
    }
    let config = file(&dir, "config.json5", b"{ category: 7 }");
    let load = |source: &str| plugin(&dir, &["load", source, "--slot", "classifier", "--config", &config]);
    refused(load(&path_of(&guest("steady"))), 1, "steady refuses its configuration at category: invalid type");
    let script = file(&dir, "mine.rhai", b"fn categories(conversation) {\n    category(\"infra_ops\"\n}");
    let refusal = "script refuses its configuration at mine.rhai line 3, column 1: ";
    refused(plugin(&dir, &["load", &script, "--slot", "classifier"]), 1, refusal);
    assert_eq!(served(), json!(["serving", "steady"]));
    assert_eq!(serving.terminate().code, Some(0));
}
