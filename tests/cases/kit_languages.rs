//! Projects in languages that are built: made in an empty directory, built by their own tools, tested, and loaded into a gateway, one of
//! each world. What makes components of JavaScript and Python is installed by `cargo xtask languages`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::{Binary, Finished, TestDir, chela, chela_command, have, language_tools, path_of, target};

/// Each world with the slot that its project is loaded into.
const WORLDS: [(&str, &str); 4] = [
    ("classifier", "classifier"),
    ("guard", "guard:mine"),
    ("continuation", "continuation"),
    ("channel", "channel:mine"),
];

/// What is kept from run to run: crates that were built, components of languages that take long, and compiled code.
fn kept(name: &str) -> PathBuf {
    let folder = target().join("kit").join(name);
    fs::create_dir_all(&folder).expect("made");
    folder
}

/// A state directory whose slots allow the memory that engines need.
fn roomy() -> TestDir {
    let limits = json!({ "memoryMb": 128 });
    let dir = TestDir::with_config(|config| {
        config["plugins"] = json!({
            "classifier": { "source": "builtin:rules", "limits": limits },
            "guards": [{ "name": "mine", "source": "builtin:stop-guard", "limits": limits }],
            "continuation": { "source": "builtin:continuation", "limits": limits },
        });
        config["channels"]["mine"] = json!({ "config": { "url": "wss://chat.example/socket" }, "limits": limits });
    });
    let cache = kept("cache");
    fs::set_permissions(&cache, PermissionsExt::from_mode(0o700)).expect("for us alone");
    fs::create_dir_all(dir.state.plugins()).expect("made");
    symlink(&cache, dir.state.plugin_cache()).expect("linked");
    dir
}

fn plugin(dir: &TestDir, arguments: &[&str]) -> Finished {
    let finished = chela(&dir.state, &[&["plugin"], arguments].concat());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished
}

/// A new project, with the tools of its language where an author's first build would install them. Each test has names of its own:
/// those of Rust share what they were built into.
fn project(dir: &TestDir, language: &str, world: &str, name: &str) -> PathBuf {
    let project = dir.scratch().join(name);
    plugin(dir, &["new", name, "--world", world, "--lang", language, "--into", &path_of(&project)]);
    match language {
        "js" => symlink(language_tools("js").join("node_modules"), project.join("node_modules")).expect("linked"),
        "python" => symlink(language_tools("python"), project.join(".venv")).expect("linked"),
        // The crates are those that this repository was built with.
        _ => drop(fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock"), project.join("Cargo.lock"))),
    }
    project
}

fn build(dir: &TestDir, project: &Path) {
    let mut command: Command = chela_command(&dir.state);
    command.args(["plugin", "build"]).arg(project).env("CARGO_TARGET_DIR", kept("target"));
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Builds a project, unless its very files were built before: most of a minute for JavaScript.
fn build_once(dir: &TestDir, project: &Path, language: &str, name: &str) {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = vec![project.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable").map(|entry| entry.expect("an entry")) {
            let kind = entry.file_type().expect("a kind");
            match () {
                () if kind.is_dir() => folders.push(entry.path()),
                () if kind.is_file() => files.push(entry.path()),
                // A link leads to the tools.
                () => {}
            }
        }
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        digest.update(path_of(file.strip_prefix(project).expect("within")));
        digest.update(fs::read(&file).expect("readable"));
    }
    let digest: String = digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let before = kept("components").join(format!("{language}-{name}-{digest}.wasm"));
    let component = project.join(format!("build/{name}.wasm"));
    if before.is_file() {
        fs::create_dir(project.join("build")).expect("made");
        fs::copy(before, component).expect("copied");
        return;
    }
    build(dir, project);
    // Seen whole or not at all, also by a run beside this one.
    let beside = before.with_extension(std::process::id().to_string());
    fs::copy(component, &beside).and_then(|_| fs::rename(beside, before)).expect("kept");
}

/// Its cases pass, and it serves.
fn passes_and_serves(dir: &TestDir, project: &Path, slot: &str) {
    let name = project.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
    let component = path_of(&project.join(format!("build/{name}.wasm")));
    // Ahead, as is advised for large ones: on a busy machine they take longer than a gateway waits.
    plugin(dir, &["compile", &component]);
    let report = plugin(dir, &["test", &path_of(project), "--json"]).json();
    let files: Vec<&Value> = report["cases"].as_array().expect("a list").iter().map(|case| &case["file"]).collect();
    assert!(files.contains(&&json!("tests/first.json")) && files.contains(&&json!("conformance")), "{report}");
    let inspected = plugin(dir, &["inspect", &component, "--json"]).json();
    let world = slot.split(':').next().expect("a world");
    assert_eq!((&inspected["name"], &inspected["worlds"]), (&json!(name), &json!([world])));
    let loaded = plugin(dir, &["load", &component, "--slot", slot, "--json"]).json();
    assert_eq!((&loaded["outcome"], &loaded["plugin"]["name"]), (&json!("serving"), &json!(name)));
}

/// One of the blocks of a language in the guide.
fn block(language: &str, at: usize) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plugin-authoring.md");
    let guide = fs::read_to_string(guide).expect("readable");
    let fence = format!("```{language}\n");
    let mut blocks = guide.split(&fence).skip(1);
    blocks.nth(at).and_then(|rest| rest.split("```").next()).expect("a block of the language").to_owned()
}

#[test]
fn rust_goes_from_nothing_to_serving_in_every_world() {
    if !have("wasm-target") {
        return;
    }
    let dir = roomy();
    let serving = Binary::serve(&dir);
    for (world, slot) in WORLDS {
        let project = project(&dir, "rust", world, &format!("my-{world}"));
        build(&dir, &project);
        passes_and_serves(&dir, &project, slot);
    }
    // The cases of a channel that the guide shows.
    let channel = dir.scratch().join("my-channel");
    let shown = block("json", 1);
    assert!(shown.contains("\"handle\""), "{shown}");
    fs::write(channel.join("tests/guide.json"), shown).expect("written");
    plugin(&dir, &["test", &path_of(&channel)]);
    let mut dev = chela_command(&dir.state);
    let project = dir.scratch().join("my-guard");
    dev.args(["plugin", "dev", "--once", "--json"]).arg(&project).env("CARGO_TARGET_DIR", kept("target"));
    let told: Value = serde_json::from_slice(&dev.output().expect("the binary runs").stdout).expect("JSON");
    assert_eq!((&told["outcome"], &told["loaded"]["slot"]), (&json!("loaded"), &json!("guard:my-guard")), "{told}");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn the_first_rust_of_the_guide_is_a_guard() {
    if !have("wasm-target") {
        return;
    }
    let dir = roomy();
    let project = project(&dir, "rust", "guard", "short-guard");
    fs::write(project.join("src/lib.rs"), block("rust", 0)).expect("written");
    let case = |tool: &str, verdict: &str| json!({ "export": "before-tool-call", "input": { "tool": tool }, "expect": { "verdict": verdict } });
    let cases = json!({ "cases": [
        case("files_delete", "block"), case("files_read", "allow"), { "config": { "a": 1 }, "refuses": "no configuration" },
    ]});
    fs::write(project.join("tests/first.json"), cases.to_string()).expect("written");
    build(&dir, &project);
    plugin(&dir, &["test", &path_of(&project)]);
}

#[test]
fn a_mistake_in_rust_is_told_and_what_was_built_stays() {
    if !have("wasm-target") {
        return;
    }
    let dir = roomy();
    let project = project(&dir, "rust", "guard", "wrong-guard");
    build(&dir, &project);
    let component = project.join("build/wrong-guard.wasm");
    let before = fs::read(&component).expect("built");
    let source = fs::read_to_string(project.join("src/lib.rs")).expect("readable");
    fs::write(project.join("src/lib.rs"), source.replace("fn before_tool_call", "fn before_tool_cal"))
        .expect("written");
    let mut command = chela_command(&dir.state);
    command.args(["plugin", "build"]).arg(&project).env("CARGO_TARGET_DIR", kept("target"));
    let output = command.output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("before_tool_cal") && said.contains("cargo could not build it"), "{said}");
    assert_eq!(fs::read(&component).expect("still there"), before);
}

fn check(language: &str, tool: &str) {
    if !have(tool) {
        return;
    }
    let dir = roomy();
    let serving = Binary::serve(&dir);
    for (world, slot) in WORLDS {
        let name = format!("my-{world}");
        let project = project(&dir, language, world, &name);
        build_once(&dir, &project, language, &name);
        passes_and_serves(&dir, &project, slot);
    }
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn javascript_is_built_tested_and_serves_in_every_world() {
    check("js", "componentize-js");
}

#[test]
fn python_is_built_tested_and_serves_in_every_world() {
    check("python", "componentize-py");
}
