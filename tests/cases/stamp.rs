//! Which version a state directory is of: noted at each start, brought up, and never taken backwards.

use std::fs;

use serde_json::{Value, json};
use support::{Binary, TestDir, chela};

#[test]
fn a_directory_says_which_version_served_it_and_one_of_before_is_taken_as_it_is() {
    let dir = TestDir::with_config(|_| {});
    Binary::serve(&dir).terminate();
    let stamp = || -> Value { serde_json::from_slice(&fs::read(dir.state.stamp()).expect("a stamp")).expect("JSON") };
    let ours = json!({ "layout": 1, "version": env!("CARGO_PKG_VERSION") });
    assert_eq!(stamp(), ours);
    fs::remove_file(dir.state.stamp()).expect("ours");
    let serving = Binary::serve(&dir);
    assert_eq!(stamp(), ours, "directories of before there were stamps are of the first layout");
    serving.terminate();
    fs::write(dir.state.stamp(), json!({ "layout": 1, "version": "0.0.9" }).to_string()).expect("written");
    let serving = Binary::serve(&dir);
    assert_eq!(stamp(), ours);
    let ended = serving.terminate();
    assert!(ended.stderr.contains("another version served this directory before"), "{}", ended.stderr);
}

#[test]
fn a_directory_of_a_later_version_is_refused_and_not_touched() {
    let dir = TestDir::with_config(|_| {});
    Binary::serve(&dir).terminate();
    fs::write(dir.state.stamp(), json!({ "layout": 2, "version": "9.1.0", "more": true }).to_string())
        .expect("written");
    let shape = || -> Vec<(String, u64)> {
        let length = |path: &String| fs::metadata(dir.state.path().join(path)).map_or(0, |facts| facts.len());
        dir.files().into_iter().map(|path| (path.clone(), length(&path))).collect()
    };
    let before = shape();
    for command in [&["serve", "--gateway", "0", "--monitor", "0", "--hub", "0"][..], &["doctor"]] {
        let refused = chela(&dir.state, command);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains("was written by chela 9.1.0 (layout 2)"), "{said}");
        assert!(said.contains("install 9.1.0 or later again"), "{said}");
        assert_eq!(refused.code, Some(if command[0] == "serve" { 78 } else { 1 }));
    }
    assert_eq!(shape(), before);
    fs::write(dir.state.stamp(), "no stamp").expect("written");
    let refused = chela(&dir.state, &["serve"]);
    assert!(refused.code == Some(78) && refused.stderr.contains("state.json"), "{}", refused.stderr);
}
