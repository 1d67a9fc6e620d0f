//! What the tests of every channel adapter share: cases of inputs and outputs, and values that nobody expects.
//! A case is a file of `tests/*.json`: lists of inputs, and the lists of outputs that they must give. Each is played twice: on one instance,
//! and with another instance restored from the snapshot before every step. `GOLDEN=write` writes what comes out; read the difference
//! before it is kept.

pub mod plain;
mod spoil;

use std::fs;
use std::path::{Path, PathBuf};

use chela_sdk::channel::{Channel, Input, Output, Request, State};
use chela_sdk::{Context, Plugin};
use serde_json::{Value, json};

pub use spoil::spoil;

/// The cases of an adapter.
pub struct Golden {
    /// The adapter's own directory: `env!("CARGO_MANIFEST_DIR")`.
    pub folder: &'static str,
    /// The form of its state.
    pub schema: &'static str,
}

/// What a state may take, at the end of a case.
const STATE_BYTES_MAX: usize = 20_000;

/// One call of an adapter.
pub fn handle<A: Channel>(adapter: &mut A, now_ms: u64, inputs: Vec<Input>) -> Vec<Output> {
    let context = Context { now_ms, seed: now_ms, deployment: "test".into(), locale: "en".into(), budget_ms: 1_000 };
    adapter.handle(Request { context, inputs, attrs: Vec::new() }).expect("outputs")
}

impl Golden {
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(Path::new(self.folder).join("tests")).expect("readable");
        let entries = entries.map(|entry| entry.expect("an entry").path());
        let mut files: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
        files.sort();
        assert!(files.len() >= 10, "the cases are there");
        files
    }

    /// Every case, by the name of its file.
    fn cases(&self) -> impl Iterator<Item = (PathBuf, Value)> {
        self.files().into_iter().map(|file| {
            let case = serde_json::from_slice(&fs::read(&file).expect("readable"));
            let case = case.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            (file, case)
        })
    }

    /// Inputs give the outputs that were agreed on, whichever instance takes them.
    pub fn check<A: Channel>(&self) {
        let writes = std::env::var_os("GOLDEN").is_some_and(|word| word == "write");
        for (file, mut case) in self.cases() {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            let (outs, _) = play::<A>(&case, false);
            if writes {
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
            let (swapped, _) = play::<A>(&case, true);
            assert_eq!(json!(swapped), json!(outs), "{name}: another instance goes on in the same way");
        }
    }

    /// The state at the end of every case is small and can be restored. `GOLDEN=snapshot` prints it, for `tests/snapshots.ndjson` when a
    /// version is released.
    pub fn check_states<A: Channel>(&self) {
        for (file, case) in self.cases() {
            let (_, adapter) = play::<A>(&case, false);
            let state = adapter.snapshot();
            assert_eq!(state.schema, self.schema);
            assert!(state.bytes.len() < STATE_BYTES_MAX, "{}: {} bytes", file.display(), state.bytes.len());
            if std::env::var_os("GOLDEN").is_some_and(|word| word == "snapshot") {
                println!("{} {}", file.display(), String::from_utf8_lossy(&state.bytes));
            }
            let mut other = A::configure(&config_of(&case)).expect("a good configuration");
            other.restore(state.clone()).expect("restored");
            assert_eq!(other.snapshot().bytes, state.bytes);
        }
    }

    /// Snapshots of released versions are read by this one.
    pub fn check_released<A: Channel>(&self) {
        let file = Path::new(self.folder).join("tests/snapshots.ndjson");
        let released = fs::read_to_string(file).expect("the snapshots of released versions");
        assert!(!released.trim().is_empty());
        for line in released.lines() {
            let mut adapter = A::configure("{}").expect("a good configuration");
            let state = State { schema: self.schema.into(), bytes: line.as_bytes().to_vec() };
            adapter.restore(state).expect("what a released version kept is read");
            let again = adapter.snapshot();
            assert!(again.bytes.len() > 100, "and it is not left out: {}", String::from_utf8_lossy(&again.bytes));
        }
        let mut adapter = A::configure("{}").expect("a good configuration");
        for (schema, bytes) in [("other/1", "{}"), (self.schema, "["), (self.schema, "7")] {
            let state = State { schema: schema.into(), bytes: bytes.into() };
            assert!(adapter.restore(state).is_err(), "{schema} {bytes}");
        }
        let later = State { schema: self.schema.into(), bytes: br#"{"later": true}"#.to_vec() };
        adapter.restore(later).expect("fields of a later version are left alone");
    }

    /// Every output of every case, in plain words, and the last state of each as text.
    pub fn outputs<A: Channel>(&self) -> (Vec<Value>, Vec<String>) {
        let (mut all, mut states) = (Vec::new(), Vec::new());
        for (_, case) in self.cases() {
            let (outs, adapter) = play::<A>(&case, false);
            all.extend(outs.iter().flat_map(|out| out.as_array().cloned().unwrap_or_default()));
            states.push(String::from_utf8(adapter.snapshot().bytes).expect("JSON"));
        }
        (all, states)
    }
}

fn config_of(case: &Value) -> String {
    if case["config"].is_null() { "{}".to_owned() } else { case["config"].to_string() }
}

/// Plays a case; gives the outputs of each step, and the adapter at its end.
fn play<A: Channel>(case: &Value, swaps: bool) -> (Vec<Value>, A) {
    let config = config_of(case);
    let make = || <A as Plugin>::configure(&config).expect("a good configuration");
    let (mut adapter, mut connection, mut outs) = (make(), String::new(), Vec::new());
    for step in case["steps"].as_array().expect("steps") {
        if swaps {
            let state = adapter.snapshot();
            adapter = make();
            adapter.restore(state).expect("its own state");
        }
        let inputs = step["in"].as_array().expect("inputs").iter();
        let inputs = inputs.map(|input| plain::input(input, &connection)).collect();
        let outputs = handle(&mut adapter, step["at"].as_u64().expect("a time"), inputs);
        connection = outputs.iter().filter_map(plain::opened).next_back().unwrap_or(connection);
        outs.push(Value::Array(outputs.iter().map(plain::output).collect()));
    }
    (outs, adapter)
}
