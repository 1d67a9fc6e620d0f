//! The guide for plugin authors says what is true: its code builds, and what it shows happens.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use support::{Binary, TestDir, chela, chela_command, guest};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

/// The blocks of a language in the guide, in order.
fn blocks(language: &str) -> Vec<String> {
    let guide = fs::read_to_string(root().join("docs/plugin-authoring.md")).expect("readable");
    let fence = format!("```{language}\n");
    guide.split(&fence).skip(1).map(|rest| rest.split("```").next().expect("its end").to_owned()).collect()
}

fn block(language: &str) -> String {
    blocks(language).swap_remove(0)
}

#[test]
fn the_code_of_the_guide_is_the_guest_that_is_built() {
    let built = fs::read_to_string(root().join("tests/guests/no-deletes/src/lib.rs")).expect("readable");
    assert_eq!(blocks("rust")[1], built);
}

#[test]
fn a_first_plugin_takes_ten_lines_in_every_language() {
    for language in ["rhai", "rust", "js", "python"] {
        // Lines of brackets alone and comments are no code.
        let is_code = |line: &str| line.contains(char::is_alphabetic) && !line.trim_start().starts_with("//");
        let own = block(language).lines().filter(|line| is_code(line)).count();
        assert!((3..=10).contains(&own), "{language} takes {own} lines");
    }
}

#[test]
fn the_code_in_other_languages_is_that_of_new_projects() {
    for (language, template) in [("js", "js/guard.js"), ("python", "python/guard.py")] {
        let written = fs::read_to_string(root().join("host/kit/templates").join(template)).expect("readable");
        assert!(written.contains(&block(language)), "{template} does not have what the guide shows");
    }
}

#[test]
fn the_five_minutes_of_the_guide_are_run_as_they_stand() {
    let dir = TestDir::empty();
    let serving = Binary::serve(&dir);
    let mut place = dir.scratch().to_owned();
    let commands = block("sh");
    let lines = commands.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && *line != "chela serve &").collect();
    assert!(lines.len() >= 6, "{commands}");
    for line in lines {
        if let Some(folder) = line.strip_prefix("cd ") {
            place = place.join(folder);
            continue;
        }
        let words = line.strip_prefix("chela ").expect("a command of ours").split_whitespace();
        let output = chela_command(&dir.state).current_dir(&place).args(words).output().expect("runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let slots = chela(&dir.state, &["plugin", "list", "--json"]).json();
    let slots = slots["slots"].as_array().expect("a list");
    assert!(slots.iter().any(|slot| slot["slot"] == "guard:no-deletes"), "{slots:?}");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn the_script_and_the_cases_of_the_guide_do_what_it_says() {
    let dir = TestDir::empty();
    let project = dir.scratch().join("mine");
    let made = chela_command(&dir.state)
        .args(["plugin", "new", "mine", "--world", "guard", "--lang", "script", "--into"])
        .arg(&project)
        .output()
        .expect("runs");
    assert!(made.status.success());
    // Scripts take any settings, so of the two cases only the first can be met.
    fs::write(project.join("tests/first.json"), block("json")).expect("written");
    let tested = chela(&dir.state, &["plugin", "test", &project.display().to_string(), "--json"]).json();
    let passed = |name: &str| {
        let cases = tested["cases"].as_array().expect("a list");
        cases.iter().find(|case| case["case"] == name).expect("a case of the guide")["passed"].clone()
    };
    assert_eq!((passed("other files stay"), passed("a wrong setting is refused")), (json!(true), json!(false)));
    fs::write(project.join("mine.rhai"), block("rhai")).expect("written");
    fs::write(
        project.join("tests/first.json"),
        json!({ "cases": [
            { "export": "before-tool-call", "input": { "tool": "files_delete", "arguments": { "path": "a" } }, "expect": { "verdict": "block" } },
            { "export": "before-tool-call", "input": { "tool": "files_delete", "arguments": { "path": "tmp/a" } }, "expect": { "verdict": "allow" } },
        ]})
        .to_string(),
    )
    .expect("written");
    let tested = chela(&dir.state, &["plugin", "test", &project.display().to_string(), "--json"]);
    let rows = tested.json()["cases"].as_array().expect("a list").clone();
    let own: Vec<_> = rows.iter().filter(|row| row["file"] == "tests/first.json").collect();
    assert!(own.iter().all(|row| row["passed"] == true), "{own:?}");
}

#[test]
fn a_component_is_signed_and_verified_as_the_guide_says() {
    let dir = TestDir::empty();
    let place = dir.scratch().join("no-deletes");
    fs::create_dir_all(place.join("build")).expect("made");
    fs::copy(guest("no-deletes"), place.join("build/no-deletes.wasm")).expect("copied");
    let commands =
        blocks("sh").into_iter().find(|block| block.contains("plugin sign")).expect("a block about signatures");
    let mut public = String::new();
    for line in commands.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        let words = line.strip_prefix("chela ").expect("a command of ours").replace("PUBLIC", &public);
        let output =
            chela_command(&dir.state).current_dir(&place).args(words.split_whitespace()).output().expect("runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        if words.contains("--new-key") {
            public = String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned();
        }
    }
    assert!(place.join("build/no-deletes.wasm.sig").is_file());
}

#[test]
fn the_first_plugin_is_inspected_tried_and_loaded_as_the_guide_says() {
    let dir = TestDir::empty();
    let file = guest("no-deletes").display().to_string();
    let inspected = chela(&dir.state, &["plugin", "inspect", &file, "--json"]).json();
    assert_eq!((&inspected["name"], &inspected["worlds"]), (&json!("no-deletes"), &json!(["guard"])));
    assert_eq!(inspected["grants"], json!([]));

    let attempt = |path: &str| {
        let input = dir.scratch().join("input.json");
        let call = json!({ "tool": "files_delete", "arguments": { "path": path }, "agent": { "id": "eden" } });
        fs::write(&input, call.to_string()).expect("written");
        let input = input.display().to_string();
        chela(&dir.state, &["plugin", "try", &file, "before-tool-call", "--input", &input, "--json"])
    };
    let blocked = attempt("src/main.rs");
    assert_eq!(blocked.json()["verdict"], "block");
    assert!(blocked.stderr.contains("eden wanted to delete src/main.rs"), "what it logs is shown: {}", blocked.stderr);
    assert_eq!(attempt("tmp/a").json()["verdict"], "allow");

    let serving = Binary::serve(&dir);
    let loaded = chela(&dir.state, &["plugin", "load", &file, "--slot", "guard:no-deletes", "--json"]).json();
    assert_eq!((&loaded["outcome"], &loaded["plugin"]["name"]), (&json!("serving"), &json!("no-deletes")));
    let bad = dir.scratch().join("bad.json5");
    fs::write(&bad, "{ scratch: 3 }").expect("written");
    let refused = chela_command(&dir.state)
        .args(["plugin", "load", &file, "--slot", "guard:no-deletes", "--config"])
        .arg(&bad)
        .output()
        .expect("runs");
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    let expected =
        "chela: no-deletes refuses its configuration at scratch: invalid type: integer `3`, expected a string";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(serving.terminate().code, Some(0));
}
