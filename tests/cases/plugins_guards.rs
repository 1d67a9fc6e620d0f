//! Guards: their order, what each may change, and what happens to a tool call when one fails.

use chela::plugins::{About, Decision};
use chela::policy::{Step, StepStatus, Task, ToolCall};
use serde_json::{Map, Value, json};
use support::{TestHost, guest, path_of};

fn guards(guards: &[(&str, Option<&str>, Value)]) -> TestHost {
    let source = path_of(&guest("unruly-guard"));
    let guard = |(name, on_failure, config): &(&str, Option<&str>, Value)| {
        // As for the classifiers of the tests: a call is to have its time on a busy machine.
        let mut guard = json!({ "name": name, "source": source, "config": config, "limits": { "cpuMs": 500 } });
        if let Some(on_failure) = on_failure {
            guard["onFailure"] = json!(on_failure);
        }
        guard
    };
    let list: Vec<Value> = guards.iter().map(guard).collect();
    let host = TestHost::start_with(|config| config["plugins"]["guards"] = json!(list));
    host.block_on(host.plugins().loaded());
    host
}

fn ask(host: &TestHost, tool: &str, arguments: Value) -> Decision {
    let step = Step { id: "s1".into(), content: String::new(), status: StepStatus::Pending };
    let task = Task { steps: vec![step], ..Task::default() };
    let arguments = arguments.as_object().expect("an object").clone();
    let call = ToolCall { tool: tool.into(), arguments, task: Some(task), ..ToolCall::default() };
    let fits = |arguments: &Map<String, Value>| match arguments.contains_key("forbidden") {
        true => Err("`forbidden` is not allowed".to_owned()),
        false => Ok(()),
    };
    host.block_on(host.plugins().before_tool_call(call, &About::default(), fits))
}

/// What was decided, in a few words.
fn decided(host: &TestHost, tool: &str, arguments: Value) -> String {
    match ask(host, tool, arguments) {
        Decision::Run { arguments, warnings } => format!("run {} {warnings:?}", Value::Object(arguments)),
        Decision::Blocked { guard, block } => format!("{guard}: {} ({})", block.reason, block.remaining.join(",")),
    }
}

#[test]
fn guards_are_asked_in_order_and_see_what_earlier_ones_rewrote() {
    let mark = |mark: &str| json!({ "do": "mark", "mark": mark });
    let host = guards(&[("one", None, mark("1")), ("two", None, mark("2")), ("three", None, mark("3"))]);
    assert_eq!(decided(&host, "any", json!({})), r#"run {"marks":["1","2","3"]} []"#);
}

#[test]
fn one_component_serves_two_guards_with_two_configurations() {
    let host = guards(&[("a", None, json!({ "mark": "a" })), ("b", None, json!({ "do": "warn", "mark": "b" }))]);
    assert_eq!(decided(&host, "any", json!({})), r#"run {} ["b warns"]"#);
    assert_eq!(decided(&host, "any", json!({ "do": "block" })), "a: a says no ()");
    let hash = |slot: &str| host.slot(slot)["plugin"]["hash"].clone();
    assert_eq!(hash("guard:a"), hash("guard:b"));
}

#[test]
fn a_block_ends_the_asking_and_warnings_add_up() {
    let warn = |mark: &str| json!({ "do": "warn", "mark": mark });
    let host = guards(&[("one", None, warn("1")), ("two", None, warn("2"))]);
    assert_eq!(decided(&host, "any", json!({ "x": 1 })), r#"run {"x":1} ["1 warns", "2 warns"]"#);
    let host = guards(&[("one", None, json!({ "do": "block", "mark": "1" })), ("two", None, warn("2"))]);
    assert_eq!(decided(&host, "any", json!({})), "one: 1 says no ()");
    assert_eq!(host.slot("guard:two")["stats"]["calls"], 0);
}

/// A guard that fails as its configuration says.
fn failing(on_failure: Option<&str>, deed: &str) -> TestHost {
    guards(&[("g", on_failure, json!({ "do": deed, "mark": "g" }))])
}

#[test]
fn a_guard_that_fails_blocks_unless_the_operator_says_otherwise() {
    let failures = [
        ("panic", "it trapped: "),
        ("decline", "it gave no answer: internal: not today"),
        ("other", "its answer cannot be used: `other` is no verdict"),
        ("not-json", "its answer cannot be used: the rewritten arguments are no JSON object: EOF"),
        ("not-an-object", "its answer cannot be used: the rewritten arguments are no JSON object: invalid type"),
        ("unknown-step", "its answer cannot be used: the task has no step \"s99\""),
        ("long-reason", "its answer cannot be used: the reason has 300000 bytes, 262144 are allowed"),
    ];
    let host = guards(&[("g", None, json!({}))]);
    for (deed, reason) in failures {
        let said = decided(&host, "any", json!({ "do": deed }));
        assert!(said.starts_with("g: The guard g gave no answer, so the call does not run ("), "{said}");
        assert!(said.contains(reason), "{deed}: {said}");
    }
    assert_eq!(decided(&host, "any", json!({})), "run {} []");
}

#[test]
fn on_failure_decides_what_a_failing_guard_means() {
    let blocked = "g: Cannot complete task: 1 steps still incomplete (s1)";
    for deed in ["panic", "decline", "not-json"] {
        let host = failing(Some("allow"), deed);
        assert_eq!(decided(&host, "task_complete", json!({})), "run {} []", "{deed}");
        let host = failing(Some("builtin"), deed);
        assert_eq!(decided(&host, "task_complete", json!({})), blocked, "{deed}");
        assert_eq!(decided(&host, "task_update", json!({})), "run {} []", "{deed}");
        assert_eq!(host.told("plugin.fallback").len(), 1, "{deed}");
    }
}

#[test]
fn arguments_rewritten_to_what_the_tool_does_not_take_are_a_failure_of_the_guard() {
    let mark = json!({ "do": "mark", "mark": "g" });
    let given = json!({ "forbidden": true });
    let host = guards(&[("g", None, mark.clone())]);
    let said = decided(&host, "any", given.clone());
    let why = "it rewrote the arguments to what the tool does not take: `forbidden` is not allowed";
    assert!(said.contains(why), "{said}");
    assert_eq!(host.slot("guard:g")["stats"]["failures"]["invalid"], 1);
    let host = guards(&[("g", Some("allow"), mark.clone())]);
    assert_eq!(decided(&host, "any", given.clone()), r#"run {"forbidden":true} []"#, "as it was");
    let host = guards(&[("g", Some("builtin"), mark)]);
    let blocked = "g: Cannot complete task: 1 steps still incomplete (s1)";
    assert_eq!(decided(&host, "task_complete", given), blocked);
}

#[test]
fn a_guard_in_quarantine_or_that_never_loaded_still_means_what_on_failure_says() {
    let host = failing(None, "panic");
    for _ in 0..10 {
        decided(&host, "any", json!({}));
    }
    assert_eq!(host.slot("guard:g")["state"], "quarantined");
    let said = decided(&host, "any", json!({}));
    assert!(said.contains("does not run (it is in quarantine; `chela plugin release` ends that)"), "{said}");

    let host = TestHost::start_with(|config| {
        config["plugins"]["guards"] = json!([{ "name": "gone", "source": "gone.wasm" }]);
    });
    let said = decided(&host, "any", json!({}));
    assert!(said.contains("The guard gone gave no answer") && said.contains("gone.wasm"), "{said}");
}

#[test]
fn a_disabled_guard_is_not_asked() {
    let host = failing(None, "block");
    assert_eq!(decided(&host, "any", json!({})), "g: g says no ()");
    host.operate("disable", "guard:g").expect("disabled");
    assert_eq!(decided(&host, "any", json!({})), "run {} []");
    host.operate("enable", "guard:g").expect("enabled");
    assert_eq!(decided(&host, "any", json!({})), "g: g says no ()");
}

#[test]
fn a_guard_that_an_operator_adds_is_asked_last_and_over_restarts() {
    let host = guards(&[("one", None, json!({ "do": "mark", "mark": "1" }))]);
    let source = path_of(&guest("unruly-guard"));
    host.load("guard:extra", &source, json!({ "do": "mark", "mark": "x" })).expect("loaded");
    let both = r#"run {"marks":["1","x"]} []"#;
    assert_eq!(decided(&host, "any", json!({})), both);
    let host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("{error}"));
    assert_eq!(decided(&host, "any", json!({})), both);
    host.operate("unload", "guard:extra").expect("unloaded");
    assert_eq!(decided(&host, "any", json!({})), r#"run {"marks":["1"]} []"#);
    assert_eq!(host.slot("guard:extra"), Value::Null);
}

#[test]
fn an_agent_can_have_a_continuation_of_its_own() {
    let host = TestHost::start_with(|config| {
        let own = json!({ "source": "builtin:continuation", "config": { "extraInstructions": "Eden speaks softly." } });
        config["plugins"]["continuations"] = json!({ "eden": own });
    });
    let told = |agent: &str| {
        let agent = chela::policy::Actor { id: agent.into(), role: "agent".into(), session_key: "agent:x:main".into() };
        host.block_on(host.plugins().instructions(agent)).answer
    };
    assert!(told("eden").ends_with("Eden speaks softly."));
    assert!(!told("ruda").contains("softly") && !told("ruda").is_empty());
}
