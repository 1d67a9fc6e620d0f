//! Signed components: made by the command line, required by a deployment, refused by name; what served before serves on.

use std::fs;

use serde_json::{Value, json};
use support::components::stamped;
use support::{Binary, Finished, TestDir, TestHost, chela, eventually, guest_bytes, path_of};

fn plugin(dir: &TestDir, arguments: &[&str]) -> Finished {
    chela(&dir.state, &[&["plugin"], arguments].concat())
}

fn refused(finished: Finished, expected: &str) {
    assert_eq!(finished.code, Some(1), "{finished:#?}");
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
}

/// A key in the scratch directory; gives its file and its public half.
fn key(dir: &TestDir, name: &str) -> (String, String) {
    let file = path_of(&dir.scratch().join(name));
    let made = plugin(dir, &["sign", "--new-key", &file, "--json"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    (file, made.json()["public"].as_str().expect("a public key").to_owned())
}

/// A component in the scratch directory.
fn component(dir: &TestDir, name: &str, bytes: &[u8]) -> String {
    let file = path_of(&dir.scratch().join(name));
    fs::write(&file, bytes).expect("written");
    file
}

#[test]
fn a_component_is_signed_and_verified() {
    let dir = TestDir::empty();
    let (file, public) = key(&dir, "mine.key");
    refused(plugin(&dir, &["sign", "--new-key", &file]), "mine.key is there already");
    let steady = component(&dir, "steady.wasm", &guest_bytes("steady"));
    refused(plugin(&dir, &["verify", &steady]), "has no signature");
    let signed = plugin(&dir, &["sign", &steady, "--key", &file, "--json"]).json();
    assert_eq!((&signed["manifest"]["name"], &signed["public"]), (&json!("steady"), &json!(public)));
    let verified = plugin(&dir, &["verify", &steady, "--key", &public, "--json"]).json();
    assert_eq!((&verified["manifest"], &verified["key"]), (&signed["manifest"], &json!(public)));
    let (_, other) = key(&dir, "other.key");
    refused(plugin(&dir, &["verify", &steady, "--key", &other]), "which `plugins.signatures.keys` does not name");
    let changed = stamped(&guest_bytes("steady"), "changed");
    fs::write(&steady, changed).expect("written");
    refused(plugin(&dir, &["verify", &steady]), "its signature is of another file");
    assert_eq!(plugin(&dir, &["sign", &steady, "--key", &file]).code, Some(0), "an old signature is no hindrance");
    refused(plugin(&dir, &["sign", &steady, "--key", &steady]), "cannot read");
}

#[test]
fn a_deployment_that_requires_signatures_takes_those_it_knows_and_names_what_it_refuses() {
    let dir = TestDir::with_config(|_| {});
    let (mine, public) = key(&dir, "mine.key");
    let (strange, _) = key(&dir, "strange.key");
    let (lost, lost_public) = key(&dir, "lost.key");
    let known = stamped(&guest_bytes("steady"), "revoked");
    let bad = component(&dir, "bad.wasm", &known);
    let sha256 = plugin(&dir, &["inspect", &bad, "--json"]).json()["sha256"].clone();
    dir.edit_config(|config| {
        config["plugins"]["signatures"] = json!({
            "require": true, "keys": { "mine": public, "lost": lost_public }, "revoked": [lost_public, sha256],
        });
    });
    let serving = Binary::serve(&dir);
    let load = |file: &str| plugin(&dir, &["load", file, "--slot", "classifier", "--json"]);
    let serves = || plugin(&dir, &["list", "--json"]).json()["slots"][0]["plugin"]["name"].clone();

    let steady = component(&dir, "steady.wasm", &guest_bytes("steady"));
    let failed = |finished: Finished, expected: &str| {
        assert_eq!(finished.code, Some(1), "{finished:#?}");
        let said = finished.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(expected), "{said}");
        assert_eq!(serves(), "rules", "what served still serves");
    };
    failed(load(&steady), "it has no signature, and this deployment takes signed plugins only");
    let sign = |file: &str, key: &str| assert_eq!(plugin(&dir, &["sign", file, "--key", key]).code, Some(0));
    sign(&steady, &strange);
    failed(load(&steady), "which `plugins.signatures.keys` does not name");
    sign(&steady, &lost);
    failed(load(&steady), "which `plugins.signatures.revoked` names");
    sign(&bad, &mine);
    failed(load(&bad), "is in `plugins.signatures.revoked`");
    sign(&steady, &mine);
    let loaded = load(&steady);
    assert_eq!(loaded.json()["outcome"], "serving", "{loaded:#?}");
    assert_eq!(plugin(&dir, &["load", "builtin:rules", "--slot", "classifier"]).code, Some(0), "our own need nobody");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn a_signature_that_comes_after_its_file_is_enough_and_is_kept_over_a_restart() {
    let dir = TestDir::with_config(|_| {});
    let (mine, public) = key(&dir, "mine.key");
    let signed = component(&dir, "steady.wasm", &guest_bytes("steady"));
    assert_eq!(plugin(&dir, &["sign", &signed, "--key", &mine]).code, Some(0));
    dir.edit_config(|config| {
        config["plugins"]["signatures"] = json!({ "require": true, "keys": { "mine": public } });
        config["plugins"]["classifier"] = json!({ "source": "steady.wasm" });
    });
    fs::create_dir_all(dir.state.plugins()).expect("made");
    let beside = |name: &str| dir.state.plugins().join(name);
    let (file, signature) = (beside("steady.wasm"), beside("steady.wasm.sig"));
    fs::copy(&signed, &file).expect("copied");
    let start = |dir: TestDir| {
        let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("the gateway starts: {error}"));
        host.block_on(host.plugins().loaded());
        host
    };
    let host = start(dir);
    assert_eq!(host.slot("classifier")["state"], "failed");
    fs::copy(format!("{signed}.sig"), &signature).expect("copied");
    host.eventually("it serves", || (host.slot("classifier")["plugin"]["name"] == "steady").then_some(()));
    let dir = host.stop();
    // Its file is gone; the copy that is kept has its signature beside it.
    fs::remove_file(&file).expect("removed");
    fs::remove_file(&signature).expect("removed");
    let host = start(dir);
    assert_eq!(host.slot("classifier")["plugin"]["name"], "steady", "{}", host.slot("classifier"));
    assert_ne!(host.slot("classifier")["problem"], Value::Null);
}

#[test]
fn a_version_without_a_signature_leaves_none_of_the_version_before() {
    let dir = TestDir::with_config(|_| {});
    let (mine, _) = key(&dir, "mine.key");
    let steady = component(&dir, "steady.wasm", &guest_bytes("steady"));
    assert_eq!(plugin(&dir, &["sign", &steady, "--key", &mine]).code, Some(0));
    let serving = Binary::serve(&dir);
    let load = || plugin(&dir, &["load", &steady, "--slot", "classifier", "--json"]).json()["outcome"].clone();
    assert_eq!(load(), "serving");
    let installed = dir.state.plugins().join("steady.wasm.sig");
    assert!(installed.is_file(), "it goes along");
    fs::write(&steady, stamped(&guest_bytes("steady"), "unsigned")).expect("written");
    fs::remove_file(format!("{steady}.sig")).expect("removed");
    assert_eq!(load(), "serving");
    assert!(!installed.exists());
    assert_eq!(serving.terminate().code, Some(0));
    let serving = Binary::serve(&dir);
    // A gateway serves before its plugins do.
    let slot = eventually("it is loaded, or refused", || {
        let slot = plugin(&dir, &["list", "--json"]).json()["slots"][0].clone();
        (slot["state"] != "loading").then_some(slot)
    });
    assert_eq!((&slot["plugin"]["name"], &slot["problem"]), (&json!("steady"), &Value::Null), "{slot}");
    assert_eq!(serving.terminate().code, Some(0));
}
