//! Every file of `tests/*.json`: lists of inputs, and the lists of outputs that they must give.
//! Each is played twice: on one instance, and with another instance restored from the snapshot before every step.
//! `GOLDEN=write` writes what comes out; read the difference before it is kept.

#[path = "plain/plain.rs"]
mod plain;

use std::fs;
use std::path::{Path, PathBuf};

use chela_sdk::channel::{Channel, Request};
use chela_sdk::{Context, Plugin};
use discord::Discord;
use serde_json::{Value, json};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let entries = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    files
}

/// Plays a case; gives the outputs of each step, and the last state.
fn play(case: &Value, swaps: bool) -> (Vec<Value>, Discord) {
    let config = case["config"].to_string();
    let config = if case["config"].is_null() { "{}" } else { config.as_str() };
    let mut adapter = Discord::configure(config).expect("a good configuration");
    let mut connection = String::new();
    let mut outs = Vec::new();
    for step in case["steps"].as_array().expect("steps") {
        if swaps {
            let state = adapter.snapshot();
            adapter = Discord::configure(config).expect("a good configuration");
            adapter.restore(state).expect("its own state");
        }
        let now_ms = step["at"].as_u64().expect("a time");
        let inputs =
            step["in"].as_array().expect("inputs").iter().map(|input| plain::input(input, &connection)).collect();
        let context =
            Context { now_ms, seed: now_ms, deployment: "test".into(), locale: "en".into(), budget_ms: 1_000 };
        let outputs = adapter.handle(Request { context, inputs, attrs: Vec::new() }).expect("outputs");
        connection = outputs.iter().filter_map(plain::opened).next_back().unwrap_or(connection);
        outs.push(Value::Array(outputs.iter().map(plain::output).collect()));
    }
    (outs, adapter)
}

#[test]
fn inputs_give_the_outputs_that_were_agreed_on() {
    let files = files();
    assert!(files.len() >= 10, "the cases are there");
    for file in files {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let mut case: Value = serde_json::from_slice(&fs::read(&file).expect("readable")).expect("JSON");
        let (outs, _) = play(&case, false);
        if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
            for (step, out) in case["steps"].as_array_mut().expect("steps").iter_mut().zip(&outs) {
                step["out"] = out.clone();
            }
            let text = serde_json::to_string_pretty(&case).expect("JSON");
            fs::write(&file, text + "\n").expect("writable");
            continue;
        }
        for (nth, (step, out)) in case["steps"].as_array().expect("steps").iter().zip(&outs).enumerate() {
            let shown = |value: &Value| serde_json::to_string_pretty(value).expect("JSON");
            assert_eq!(shown(out), shown(&step["out"]), "{name}, step {nth}");
        }
        let (swapped, _) = play(&case, true);
        assert_eq!(json!(swapped), json!(outs), "{name}: another instance goes on in the same way");
    }
}

#[test]
fn the_token_is_only_ever_a_named_secret() {
    for file in files() {
        let case: Value = serde_json::from_slice(&fs::read(&file).expect("readable")).expect("JSON");
        let (outs, adapter) = play(&case, false);
        for out in outs.iter().flat_map(|out| out.as_array().into_iter().flatten()) {
            let text = out["send"].as_str().unwrap_or_default();
            assert!(
                !text.contains("\"token\"") || text.contains("\"token\":\"${secret discord-token json}\""),
                "{text}"
            );
        }
        let state = String::from_utf8(adapter.snapshot().bytes).expect("JSON");
        assert!(!state.contains("authorization"), "the state has no headers");
    }
}

/// `GOLDEN=snapshot` prints the state at the end of a case, for `tests/snapshots.ndjson` when a version is released.
#[test]
fn the_state_at_the_end_of_every_case_is_small_and_can_be_restored() {
    for file in files() {
        let case: Value = serde_json::from_slice(&fs::read(&file).expect("readable")).expect("JSON");
        let (_, adapter) = play(&case, false);
        let state = adapter.snapshot();
        assert_eq!(state.schema, "discord/1");
        assert!(state.bytes.len() < 20_000, "{} bytes", state.bytes.len());
        if std::env::var_os("GOLDEN").is_some_and(|word| word == "snapshot") {
            println!("{} {}", file.display(), String::from_utf8_lossy(&state.bytes));
        }
        let config = if case["config"].is_null() { "{}".into() } else { case["config"].to_string() };
        let mut other = Discord::configure(&config).expect("a good configuration");
        other.restore(state.clone()).expect("restored");
        assert_eq!(other.snapshot().bytes, state.bytes);
    }
}
