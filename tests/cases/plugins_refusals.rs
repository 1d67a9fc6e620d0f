//! What cannot become a plugin: each file is refused with its reason and what to change, and what served before still serves.

use std::fs;

use serde_json::{Value, json};
use support::components::{Handmade, dummy, importing};
use support::{TestHost, guest, guest_bytes, path_of};

/// A host with a steady classifier that bears little: what is refused is refused soon.
fn host() -> TestHost {
    let limits = json!({ "configureMs": 100 });
    let steady = json!({ "source": path_of(&guest("steady")), "limits": limits });
    TestHost::start_with(|config| config["plugins"]["classifier"] = steady)
}

/// Loading must fail with this reason at this stage, in the answer, the event and the slot, and change nothing.
fn check(host: &TestHost, bytes: &[u8], stage: &str, reason: &str) {
    check_with(host, bytes, json!({}), stage, reason);
}

fn check_with(host: &TestHost, bytes: &[u8], config: Value, stage: &str, reason: &str) {
    let path = host.dir.scratch().join("refused.wasm");
    fs::write(&path, bytes).expect("written");
    check_source(host, &path_of(&path), config, stage, reason);
}

fn check_source(host: &TestHost, source: &str, config: Value, stage: &str, reason: &str) {
    host.block_on(host.plugins().loaded());
    let rejected = host.told("plugin.rejected").len();
    let said = host.load("classifier", source, config).expect_err("refused");
    assert!(said.contains(reason), "{said}\nnot {reason}");
    let events = host.told("plugin.rejected");
    assert_eq!(events.len(), rejected + 1);
    let event = events.last().expect("an event");
    assert_eq!((&event["stage"], &event["reason"]), (&json!(stage), &json!(said)));
    let slot = host.slot("classifier");
    assert_eq!((&slot["state"], &slot["problem"]), (&json!("serving"), &json!(said)));
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
}

#[test]
fn a_file_that_is_no_whole_component_is_refused() {
    let host = host();
    let whole = guest_bytes("unruly");
    check(&host, b"#!/bin/sh\n", "inspect", "it is not WebAssembly (it starts with \"#!/bin/s\")");
    check(&host, b"", "inspect", "it is not WebAssembly (it starts with \"\")");
    check(&host, &whole[..6], "inspect", "it is broken or not whole (it ends early)");
    check(&host, &whole[..whole.len() / 2], "inspect", "it is broken or not whole");
    check(&host, &whole[..whole.len() - 1], "inspect", "it is broken or not whole");
    let bare = Handmade::default().bare_module();
    check(&host, &bare, "inspect", "it is a core module without component metadata; build it with the SDK");
}

#[test]
fn a_source_that_is_not_there_is_refused() {
    let host = host();
    check_source(&host, "nothing.wasm", json!({}), "read", "nothing.wasm (No such file or directory");
    check_source(&host, "/dev/zero", json!({}), "read", "/dev/zero (not a regular file)");
    let built_in = "no component named \"nothing\" is built in; there is builtin:continuation, ";
    check_source(&host, "builtin:nothing", json!({}), "read", built_in);
}

#[test]
fn a_core_module_with_component_metadata_is_made_into_a_component() {
    let host = host();
    let report = host.upload("classifier", "handmade.wasm", Handmade::default().module()).expect("loaded");
    assert_eq!((&report["outcome"], &report["plugin"]["name"]), (&json!("serving"), &json!("handmade")));
    assert_eq!(host.category("hello").as_deref(), Some("qa_validation"));
}

#[test]
fn a_component_of_another_version_is_refused_with_both_versions() {
    let host = host();
    let later = dummy("classifier", |wit| wit.replace("@0.1.0", "@0.2.0"));
    let said = "it was built for chela:policy@0.2.0, and this host speaks chela:policy@0.1.0; build it against";
    check(&host, &later, "inspect", said);
    let changed = dummy("classifier", |wit| wit.replace("@0.1.0", "@0.2.0").replace("reason: string,", ""));
    let difference = "(in classification: `categories`, result, ok, field `classifications`, element: ";
    check(&host, &changed, "inspect", difference);
}

#[test]
fn a_component_of_other_types_is_refused_with_the_first_difference() {
    let host = host();
    let lacks = dummy("classifier", |wit| wit.replace("confidence: f64,", ""));
    check(&host, &lacks, "inspect", "its classification differs from chela:policy@0.1.0: `categories`, result");
    check(&host, &lacks, "inspect", "the field `confidence` is missing");
    let more = dummy("classifier", |wit| wit.replace("heuristic,", "heuristic, guess,"));
    check(&host, &more, "inspect", "the case `guess` is not known");
    let float = dummy("classifier", |wit| wit.replace("confidence: f64,", "confidence: f32,"));
    check(&host, &float, "inspect", "field `confidence`: f32 instead of f64");
    let function = dummy("classifier", |wit| wit.replace("roles: func", "parts: func"));
    check(&host, &function, "inspect", "the function `roles` is missing");
}

#[test]
fn a_component_that_is_not_what_the_slot_takes_is_refused() {
    let host = host();
    let world = |items: &str| {
        let world = format!("\nworld odd {{ {items} }}\n");
        let whole = move |wit: &str| if wit.contains("world plugin") { format!("{wit}{world}") } else { wit.into() };
        dummy("odd", whole)
    };
    let missing = "it does not export chela:policy/lifecycle@0.1.0; export it, or use a macro of the SDK";
    check(&host, &world("export classification;"), "inspect", missing);
    check(
        &host,
        &world("export lifecycle;"),
        "inspect",
        "is no policy at all, and the slot classifier takes a classifier",
    );
    let nothing = "it exports no policy: a plugin exports one of chela:policy/classification, tool-guard or prompts";
    check(&host, &world("export run: func();"), "inspect", nothing);
    let guard = "is a guard, and the slot classifier takes a classifier";
    check(&host, &guest_bytes("unruly-guard"), "inspect", guard);
}

#[test]
fn a_component_that_imports_what_no_plugin_is_given_is_refused() {
    let host = host();
    let http = importing("wasi:http@0.2.0", "outgoing-handler", "handle: func();");
    check(
        &host,
        &http,
        "inspect",
        "it imports wasi:http/outgoing-handler@0.2.0, which no plugin is given; a policy has no network",
    );
    let sockets = importing("wasi:sockets@0.2.0", "tcp", "start-connect: func();");
    check(
        &host,
        &sockets,
        "inspect",
        "it imports wasi:sockets/tcp@0.2.0, which no plugin is given; a policy has no network",
    );
    let other = importing("foo:bar", "baz", "run: func();");
    check(
        &host,
        &other,
        "inspect",
        "it imports foo:bar/baz, which no plugin is given; what a policy needs to know is in its argument",
    );
}

#[test]
fn a_component_that_does_not_end_is_given_up_wherever_it_is() {
    let host = host();
    let endless = "loop $ever br $ever end";
    let start = Handmade { items: &format!("(func $start {endless}) (start $start)"), ..Handmade::default() };
    check(&host, &start.component(), "describe", "its `describe` failed: it passed its limit of cpu-time");
    let describe = Handmade { describe: endless, ..Handmade::default() };
    check(&host, &describe.component(), "describe", "its `describe` failed: it passed its limit of cpu-time");
    let configure = Handmade { configure: endless, ..Handmade::default() };
    check(
        &host,
        &configure.component(),
        "configure",
        "handmade failed at taking up its configuration: it passed its limit of cpu-time",
    );
}

#[test]
fn a_component_that_wants_too_much_from_the_start_is_refused() {
    let host = host();
    let memory = Handmade { pages: 1_000, ..Handmade::default() };
    check(&host, &memory.component(), "describe", "it passed its limit of memory: 63 MB wanted, 16 are allowed");
    let table = Handmade { items: "(table 1000000 funcref)", ..Handmade::default() };
    check(&host, &table.component(), "describe", "limit of tables: 1000000 elements wanted, 100000 are allowed");
    let start = Handmade { items: "(func $start unreachable) (start $start)", ..Handmade::default() };
    check(&host, &start.component(), "describe", "its `describe` failed: it trapped: ");
}

#[test]
fn a_component_that_presents_itself_badly_is_refused() {
    let host = host();
    let described = |name: &str, version: &str| Handmade { name, version, ..Handmade::default() }.component();
    check(&host, &described("my plugin", "1.0.0"), "describe", "its `describe` gives a bad name: letters, digits");
    check(&host, &described("", "1.0.0"), "describe", "its `describe` gives a bad name: letters, digits");
    check(&host, &described("handmade", ""), "describe", "its `describe` gives a bad version: ");
}

#[test]
fn a_configuration_that_the_component_refuses_is_told_with_its_place() {
    let host = host();
    let unruly = path_of(&guest("unruly"));
    let check = |config: Value, reason: &str| check_source(&host, &unruly, config, "configure", reason);
    check(json!({ "on": "configure", "do": "refuse" }), "unruly refuses its configuration at do: anything else");
    check(json!({ "on": 7 }), "unruly refuses its configuration at on: invalid type: integer `7`, expected a string");
    check(json!({ "of": "configure" }), "unruly refuses its configuration at of: unknown field `of`");
    check(
        json!({ "on": "configure", "do": "panic" }),
        "it trapped: wasm trap: wasm `unreachable` instruction executed: ",
    );
    check(json!({ "on": "configure", "do": "panic" }), "unruly was told to panic");
    check(json!({ "on": "configure", "do": "loop" }), "it passed its limit of cpu-time");
    check(json!({ "on": "configure", "do": "grow" }), "it passed its limit of memory");
}

#[test]
fn a_file_over_the_limit_or_with_another_hash_is_refused() {
    let host = TestHost::start_with(|config| {
        config["plugins"]["fileBytes"] = json!(150_000);
        let steady = json!({ "source": path_of(&guest("steady")) });
        config["plugins"]["classifier"] = steady;
        let hash = "0".repeat(64);
        let guard = json!({ "name": "pinned", "source": path_of(&guest("steady")), "sha256": hash });
        config["plugins"]["guards"] = json!([guard]);
    });
    check(&host, &vec![0; 150_001], "read", "refused.wasm is larger than 150000 bytes; raise `plugins.fileBytes`");
    let pinned = host.slot("guard:pinned");
    assert_eq!(pinned["state"], "failed");
    let problem = pinned["problem"].as_str().expect("a problem");
    let required = format!("and {} is required; install the right file, or change `sha256`", "0".repeat(64));
    assert!(problem.contains("its SHA-256 is ") && problem.contains(&required), "{problem}");
}
