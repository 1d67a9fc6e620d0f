//! The guide for plugin authors says what is true: its code builds, and what it shows happens.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use support::{Binary, TestDir, chela, chela_command, guest};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

#[test]
fn the_code_of_the_guide_is_the_guest_that_is_built() {
    let guide = fs::read_to_string(root().join("docs/plugin-authoring.md")).expect("readable");
    let shown = guide.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of Rust");
    let built = fs::read_to_string(root().join("tests/guests/no-deletes/src/lib.rs")).expect("readable");
    assert_eq!(shown, built);
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
