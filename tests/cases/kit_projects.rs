//! The author kit: a new project in an empty directory, built, tested, measured, loaded, compared; and everything that can be wrong with it.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};

use serde_json::{Value, json};
use support::components::dummy;
use support::{Binary, Finished, TestDir, TestHost, chela, chela_command, eventually, path_of};

fn plugin(dir: &TestDir, arguments: &[&str]) -> Finished {
    chela(&dir.state, &[&["plugin"], arguments].concat())
}

fn finished(command: &mut Command) -> Finished {
    let output = command.output().expect("the binary runs");
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn refused(finished: Finished, code: i32, expected: &str) {
    assert_eq!(finished.code, Some(code), "{finished:#?}");
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
}

/// A new project below the scratch directory; gives its path.
fn new(dir: &TestDir, world: &str, language: &str, name: &str) -> String {
    let into = path_of(&dir.scratch().join(name));
    let made = plugin(dir, &["new", name, "--world", world, "--lang", language, "--into", &into]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    into
}

fn write(project: &str, path: &str, text: &str) {
    fs::write(Path::new(project).join(path), text).expect("written");
}

/// Everything passes; gives the report.
fn passes(dir: &TestDir, project: &str) -> Value {
    let tested = plugin(dir, &["test", project, "--json"]);
    assert_eq!(tested.code, Some(0), "{tested:#?}");
    let report = tested.json();
    assert_eq!(report["failed"], 0);
    report
}

#[test]
fn a_script_of_every_world_builds_passes_is_measured_and_loads() {
    let dir = TestDir::empty();
    let serving = Binary::serve(&dir);
    for (world, slot) in [("classifier", "classifier"), ("guard", "guard:mine-guard"), ("continuation", "continuation")]
    {
        let name = format!("mine-{world}");
        let project = new(&dir, world, "script", &name);
        assert_eq!(plugin(&dir, &["build", &project]).code, Some(0));
        let report = passes(&dir, &project);
        let files: Vec<&str> =
            report["cases"].as_array().expect("a list").iter().filter_map(|case| case["file"].as_str()).collect();
        assert!(files.contains(&"tests/first.json") && files.contains(&"conformance"), "{files:?}");
        let measured = plugin(&dir, &["bench", &project, "--calls", "50", "--json"]).json();
        assert!(measured["cases"][0]["p99Micros"].as_f64().is_some_and(|micros| micros > 0.0), "{measured}");
        let script = path_of(&Path::new(&project).join(format!("{name}.rhai")));
        let loaded = plugin(&dir, &["load", &script, "--slot", slot, "--json"]).json();
        assert_eq!((&loaded["outcome"], &loaded["slot"]), (&json!("serving"), &json!(slot)));
    }
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn names_worlds_and_places_that_will_not_do_are_refused() {
    let dir = TestDir::empty();
    let attempt = |name: &str, world: &str, language: &str| {
        let mut command = chela_command(&dir.state);
        finished(command.current_dir(dir.scratch()).args(["plugin", "new", name, "--world", world, "--lang", language]))
    };
    refused(attempt("no deletes", "guard", "rust"), 1, "as in \"no-deletes\"");
    refused(
        attempt("guard", "guard", "rust"),
        1,
        "\"guard\" is the name of something else; add a word, as in \"my-guard\"",
    );
    refused(attempt("rules", "classifier", "js"), 1, "\"rules\" is the name of something else");
    refused(attempt("mine", "channel", "script"), 2, "a script is a policy, and a channel needs a state of its own");
    refused(attempt("mine", "guards", "rust"), 2, "write classifier, guard, continuation or channel");
    refused(attempt("mine", "guard", "perl"), 2, "write rust, js, python or script");
    assert_eq!(attempt("mine", "guard", "script").code, Some(0));
    refused(attempt("mine", "guard", "script"), 1, "mine is there already");
    refused(plugin(&dir, &["build", &path_of(dir.scratch())]), 1, "has no plugin.json");
}

#[test]
fn a_missing_tool_is_named_with_what_to_install() {
    let dir = TestDir::empty();
    let check = |language: &str, expected: &str| {
        let project = new(&dir, "guard", language, &format!("mine-{language}"));
        let mut command = chela_command(&dir.state);
        command.args(["plugin", "build", &project]).env("PATH", "/nowhere");
        refused(finished(&mut command), 1, expected);
        refused(plugin(&dir, &["test", &project]), 1, "run `chela plugin build` first");
    };
    check("rust", "`cargo` is not here; install Rust");
    check("js", "`node` is not here; install Node.js");
    check("python", "`python3` is not here; install Python");
}

#[test]
fn a_rust_without_the_wasm_target_says_how_to_add_it() {
    let dir = TestDir::empty();
    let project = new(&dir, "guard", "rust", "mine");
    let tools = dir.scratch().join("tools");
    fs::create_dir(&tools).expect("made");
    for tool in ["cargo", "rustc"] {
        let path = tools.join(tool);
        fs::write(&path, "#!/bin/sh\necho /nowhere\n").expect("written");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    }
    let mut command = chela_command(&dir.state);
    command.args(["plugin", "build", &project]).env("PATH", format!("{}:/bin:/usr/bin", tools.display()));
    refused(finished(&mut command), 1, "run `rustup target add wasm32-unknown-unknown`");
}

#[test]
fn a_case_that_is_written_wrongly_is_refused_with_its_path() {
    let dir = TestDir::empty();
    let project = new(&dir, "guard", "script", "mine");
    let check = |text: &str, expected: &str| {
        write(&project, "tests/second.json", text);
        refused(plugin(&dir, &["test", &project]), 1, expected);
    };
    check(r#"{"cases": [{"exprt": "x"}]}"#, "tests/second.json: cases[0].exprt: unknown field `exprt`");
    let input = r#"{"cases": [{"export": "before-tool-call", "input": {"agent": {"naem": "eden"}}, "expect": {}}]}"#;
    check(
        input,
        "tests/second.json: cases[0].input: the input does not fit `before-tool-call`: at agent.naem: unknown field",
    );
    check(
        r#"{"cases": [{"export": "next", "input": {}, "expect": {}}]}"#,
        "cases[0].export: a guard has no function \"next\"",
    );
    check("{", "tests/second.json: EOF while parsing");
    write(&project, "plugin.json", r#"{"name": "mine", "world": "gaurd", "language": "script"}"#);
    refused(plugin(&dir, &["test", &project]), 1, "plugin.json at world: unknown variant `gaurd`");
}

#[test]
fn a_case_that_is_not_met_fails_with_the_place_of_the_difference() {
    let dir = TestDir::empty();
    let project = new(&dir, "guard", "script", "mine");
    let cases = json!({ "cases": [
        { "name": "wrong", "export": "before-tool-call", "input": { "tool": "files_read" }, "expect": { "verdict": "block" } },
        { "name": "no failure", "export": "before-tool-call", "input": { "tool": "files_read" }, "fails": "never" },
        { "name": "settings", "config": { "scratch": "x/" }, "export": "before-tool-call",
          "input": { "tool": "files_delete", "arguments": { "path": "x/1" } }, "expect": { "verdict": "allow" } },
        { "name": "no refusal", "config": { "scratch": "x/" }, "refuses": "anything" },
    ]});
    write(&project, "tests/second.json", &cases.to_string());
    let tested = plugin(&dir, &["test", &project, "--json"]);
    assert_eq!(tested.code, Some(1), "{tested:#?}");
    let report = tested.json();
    assert_eq!(report["failed"], 3);
    let said = |name: &str| {
        let cases = report["cases"].as_array().expect("a list");
        cases.iter().find(|case| case["case"] == name).expect("there")["said"].as_str().map(str::to_owned)
    };
    assert_eq!(said("wrong").as_deref(), Some("verdict is \"allow\"; expected \"block\""));
    assert!(said("no failure").is_some_and(|said| said.contains("expected a failure")));
    assert_eq!(said("settings"), None);
    assert!(said("no refusal").is_some_and(|said| said.contains("it takes this configuration")));
    let people = plugin(&dir, &["test", &project]);
    assert!(people.stdout.contains("FAILED tests/second.json wrong\n       verdict is"), "{}", people.stdout);
}

#[test]
fn what_every_guard_is_asked_finds_one_that_answers_what_the_host_refuses() {
    let dir = TestDir::empty();
    let project = new(&dir, "guard", "script", "mine");
    write(&project, "mine.rhai", "fn before_tool_call(request) { block(\"no\", [], [\"s999\"]) }");
    write(&project, "tests/first.json", r#"{"cases": [{"refuses": "nothing"}]}"#);
    let report = plugin(&dir, &["test", &project, "--json"]).json();
    let conformance: Vec<&Value> =
        report["cases"].as_array().expect("a list").iter().filter(|case| case["file"] == "conformance").collect();
    assert!(conformance.iter().all(|case| case["passed"] == false), "{report}");
    assert!(conformance[0]["said"].as_str().is_some_and(|said| said.contains("the task has no step")), "{report}");
}

#[test]
fn two_versions_are_compared_on_what_was_recorded() {
    let old = "fn categories(c) { category(\"infra_ops\") }";
    let host = TestHost::start_with(|config| {
        config["plugins"]["classifier"] = json!({ "source": "builtin:script", "config": { "script": old } });
    });
    for text in ["배포한다", "hello"] {
        assert_eq!(host.category(text).as_deref(), Some("infra_ops"));
    }
    let dir = host.stop();
    let script = |name: &str, text: &str| {
        let path = dir.scratch().join(name);
        fs::write(&path, text).expect("written");
        path_of(&path)
    };
    let new = "fn categories(c) { if c.text.contains(\"배포\") { throw \"모른다\" } else { \"infra_ops\" } }";
    let (old, new) = (script("old.rhai", old), script("new.rhai", new));
    let compare = ["compare", &old, &new, "--recorded", "--slot", "classifier"];
    let report = plugin(&dir, &[&compare[..], &["--json"]].concat()).json();
    assert_eq!((&report["replayed"], &report["changed"]), (&json!(2), &json!(1)), "{report}");
    let change = &report["changes"][0];
    assert_eq!(change["a"][0]["primary"], "infra_ops");
    assert!(change["b"]["failed"].as_str().is_some_and(|said| said.contains("모른다")), "{change}");
    let table = plugin(&dir, &compare).stdout;
    assert!(
        table.contains("infra_ops: the script says infra_ops") && table.contains("1 of 2 recorded inputs"),
        "{table}"
    );
    let none = plugin(&dir, &["compare", &old, &new, "--recorded", "--slot", "continuation"]);
    refused(none, 1, "nothing is recorded for continuation");
}

#[test]
fn a_component_of_another_wit_is_refused_with_both_versions() {
    let dir = TestDir::empty();
    let project = new(&dir, "guard", "rust", "mine");
    fs::create_dir(Path::new(&project).join("build")).expect("made");
    let file = Path::new(&project).join("build/mine.wasm");
    fs::write(&file, dummy("guard", |wit| wit.replace("@0.1.0", "@0.2.0"))).expect("written");
    let said = "it was built for chela:policy@0.2.0, and this host speaks chela:policy@0.1.0; build it against";
    refused(plugin(&dir, &["test", &project]), 1, said);
    refused(plugin(&dir, &["bench", &project]), 1, said);
    refused(plugin(&dir, &["inspect", &path_of(&file)]), 1, said);
    fs::write(&file, dummy("guard", |wit| wit.replace("remaining: list<string>,", ""))).expect("written");
    refused(plugin(&dir, &["test", &project]), 1, "the field `remaining` is missing");
    fs::write(&file, dummy("classifier", str::to_owned)).expect("written");
    refused(plugin(&dir, &["test", &project]), 1, "mine.wasm");
}

/// A process that ends with the test.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_is_saved_is_loaded_and_a_mistake_leaves_what_served() {
    let dir = TestDir::empty();
    let serving = Binary::serve(&dir);
    let project = new(&dir, "guard", "script", "mine");
    let told = dir.scratch().join("told");
    let mut dev = chela_command(&dir.state);
    dev.args(["plugin", "dev", &project, "--json"]).stdout(File::create(&told).expect("a file"));
    let watching = Watching(dev.spawn().expect("the binary runs"));
    let round = |count: usize| -> Value {
        eventually(&format!("round {count} is told"), || {
            let text = fs::read_to_string(&told).expect("readable");
            // What is after the last end of a line is still being written.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            whole.lines().nth(count).map(|line| serde_json::from_str(line).expect("JSON, a line each"))
        })
    };
    let serves = || {
        let listed = plugin(&dir, &["list", "--json"]).json();
        let slots = listed["slots"].as_array().expect("a list").clone();
        slots.into_iter().find(|slot| slot["slot"] == "guard:mine").unwrap_or_default()
    };
    let first = round(0);
    assert_eq!((&first["outcome"], &first["loaded"]["slot"]), (&json!("loaded"), &json!("guard:mine")), "{first}");
    let since = serves()["plugin"].clone();

    write(&project, "mine.rhai", "fn before_tool_call(request) {\n    allow(\n}");
    let second = round(1);
    assert_eq!(second["outcome"], "failed", "{second}");
    assert!(second["said"].as_str().is_some_and(|said| said.contains("mine.rhai line 3, column 1: ")), "{second}");
    write(&project, "mine.rhai", "fn before_tool_call(request) { allow() }");
    let third = round(2);
    assert!(third["said"].as_str().is_some_and(|said| said.contains("FAILED tests/first.json")), "{third}");
    assert_eq!(serves()["plugin"], since, "what does not pass is not loaded");
    assert_eq!(serves()["problem"], Value::Null, "nor even tried");

    write(
        &project,
        "tests/first.json",
        r#"{"cases": [{"export": "before-tool-call", "input": {}, "expect": {"verdict": "allow"}}]}"#,
    );
    assert_eq!(round(3)["outcome"], "loaded");
    drop(watching);
    assert_eq!(serving.terminate().code, Some(0));
}
