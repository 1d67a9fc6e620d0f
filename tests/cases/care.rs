//! What a gateway that runs for a year needs: a doctor that mends what is safe, and an audit log that ends.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use chela::layout::StateDir;
use serde_json::{Value, json};
use support::components::Handmade;
use support::{Binary, Finished, TestDir, TestHost, chela, chela_command, eventually, have, path_of};

/// A user that every machine has.
const NOBODY: u32 = 65_534;

fn finding(finished: &Finished, check: &str) -> Value {
    let document = finished.json();
    let found = document["findings"].as_array().expect("findings").iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no finding {check} in {document:#}")).clone()
}

#[test]
fn the_doctor_mends_what_is_safe_to_mend_and_only_when_told() {
    let dir = TestDir::with_config(|_| {});
    Binary::serve(&dir).terminate();
    let left = dir.state.path().join(".chela-half.tmp");
    fs::write(&left, "half").expect("written");
    fs::write(dir.state.run_file(), r#"{"pid":1,"version":"0","gateway":null,"monitor":null,"hub":null}"#)
        .expect("written");
    fs::set_permissions(dir.state.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    fs::set_permissions(dir.state.journal(), fs::Permissions::from_mode(0o755)).expect("ours");
    let looked = chela(&dir.state, &["doctor", "--json"]);
    assert_eq!(finding(&looked, "leftovers")["state"], "warning");
    assert_eq!(finding(&looked, "rights")["state"], "warning");
    assert!(left.exists() && dir.state.run_file().exists(), "it only looked");
    let mended = chela(&dir.state, &["doctor", "--fix", "--json"]);
    assert_eq!(finding(&mended, "leftovers")["state"], "good", "{mended:?}");
    assert_eq!(finding(&mended, "rights")["state"], "good", "{mended:?}");
    assert!(!left.exists() && !dir.state.run_file().exists());
    let mode = fs::metadata(dir.state.journal()).expect("there").permissions().mode();
    assert_eq!(mode & 0o077, 0);
    Binary::serve(&dir).terminate();
}

#[test]
fn an_index_that_is_none_is_removed_and_made_again_and_what_is_of_nobody_is_named() {
    let dir = TestDir::with_config(|_| {});
    Binary::serve(&dir).terminate();
    fs::write(dir.state.event_index(), "this is no index at all, whatever its name").expect("written");
    fs::create_dir(dir.state.path().join("workspace-gone")).expect("made");
    let looked = chela(&dir.state, &["doctor", "--json"]);
    assert_eq!((looked.code, &finding(&looked, "index")["state"]), (Some(1), &json!("wrong")), "{looked:?}");
    let orphans = finding(&looked, "orphans");
    assert!(orphans["detail"].as_str().is_some_and(|said| said.contains("workspace-gone")), "{orphans}");
    let mended = chela(&dir.state, &["doctor", "--fix", "--json"]);
    assert_eq!(finding(&mended, "index")["state"], "good", "{mended:?}");
    let serving = Binary::serve(&dir);
    assert_eq!(chela(&dir.state, &["events", "--limit", "1", "--json"]).code, Some(0));
    serving.terminate();
}

#[test]
fn what_was_set_aside_or_is_of_no_session_is_named() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    assert_eq!(chela(&dir.state, &["send", "ruda", "good morning", "--wait"]).code, Some(0));
    serving.terminate();
    let told = || {
        let looked = chela(&dir.state, &["doctor", "--json"]).json();
        let findings = looked["findings"].as_array().cloned().unwrap_or_default();
        let of = |check: &str| -> String {
            findings.iter().filter(|one| one["check"] == check).map(|one| one["detail"].to_string()).collect()
        };
        (of("leftovers"), of("orphans"))
    };
    assert_eq!(told(), (String::new(), String::new()), "nothing is lost");
    let beside = format!("{}.before-17", dir.state.path().display());
    for folder in [&*beside, &dir.scratch().join(".chela-restore-x").display().to_string()] {
        fs::create_dir(folder).expect("made");
    }
    fs::write(dir.state.sessions().join("ruda/lost.jsonl"), "{}\n").expect("written");
    fs::create_dir_all(dir.state.jobs()).expect("made");
    fs::write(dir.state.jobs().join(".job-x.json.tmp"), "half").expect("written");
    let (left, orphans) = told();
    for name in [".before-17", ".chela-restore-x", ".job-x.json.tmp"] {
        assert!(left.contains(name), "{name}: {left}");
    }
    assert!(orphans.contains("ruda/lost.jsonl") && orphans.matches(".jsonl").count() == 1, "{orphans}");
}

#[test]
fn what_root_changes_stays_the_service_users_own() {
    if !have("root") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    assert_eq!(chela(&dir.state, &["send", "ruda", "good morning", "--wait"]).code, Some(0));
    serving.terminate();
    let path = dir.state.path().to_owned();
    let all = || dir.files().into_iter().map(|name| path.join(name)).chain([path.clone()]);
    fs::remove_dir_all(dir.state.run()).expect("ours");
    all().for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)).expect("root may"));
    let journal = fs::read_dir(dir.state.journal()).expect("there").flatten().next().expect("a segment").path();
    let mut bytes = fs::read(&journal).expect("readable");
    bytes[20] ^= 1;
    fs::write(&journal, &bytes).expect("written");
    for arguments in [
        &["config", "set", "deployment.name", "second"][..],
        &["doctor", "--fix"],
        &["plugin", "compile", "builtin:stop-guard"],
    ] {
        let done = chela(&dir.state, arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    }
    let of_root: Vec<_> = all().filter(|path| fs::symlink_metadata(path).expect("there").uid() != NOBODY).collect();
    assert!(of_root.is_empty(), "{of_root:?}");
    assert!(all().any(|path| path.to_string_lossy().contains("journal.damaged-")), "it was mended");
    fs::write(path.join("by-hand.token"), "secret").expect("written");
    fs::set_permissions(path.join("by-hand.token"), fs::Permissions::from_mode(0o600)).expect("ours");
    let owners = finding(&chela(&dir.state, &["doctor", "--json"]), "owners");
    assert!(owners["detail"].as_str().is_some_and(|said| said.contains("by-hand.token")), "{owners}");
}

#[test]
fn root_does_not_serve_what_belongs_to_another_user() {
    if !have("root") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let path = dir.state.path().to_owned();
    let all = || -> Vec<_> { dir.files().into_iter().map(|name| path.join(name)).chain([path.clone()]).collect() };
    let give = || all().iter().for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)).expect("root may"));
    let refused = |state: &StateDir, flags: &[&str]| {
        give();
        let before = all();
        let mut command = chela_command(state);
        command.args(["serve", "--gateway", "0", "--monitor", "0", "--hub", "0"]).args(flags);
        let refused = Binary::spawn_command(&dir, command).finished();
        assert_eq!(refused.code, Some(78), "{refused:?}");
        let remedy = format!("`runuser -u nobody -- chela serve --state-dir {}`", state.path().display());
        assert!(refused.stderr.contains(&remedy), "{remedy}: {refused:?}");
        assert_eq!(all(), before, "nothing was made");
        assert!(all().iter().all(|path| fs::symlink_metadata(path).expect("there").uid() == NOBODY));
    };
    refused(&dir.state, &[]);
    // One that root would make there would not be root's either.
    refused(&StateDir::new(path.join("below/state")), &[]);
    fs::rename(dir.state.config(), dir.state.old_config()).expect("root may");
    refused(&dir.state, &["--adopt"]);
}

#[test]
fn root_looks_at_components_without_the_cache_of_the_services_user() {
    if !have("root") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let cache = dir.state.plugin_cache();
    fs::create_dir_all(&cache).expect("made");
    for path in [dir.state.path().to_owned(), dir.state.plugins(), cache.clone()] {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let (component, input) = (dir.scratch().join("handmade.wasm"), dir.scratch().join("input.json"));
    fs::write(&component, Handmade::default().component()).expect("written");
    fs::write(&input, r#"{ "texts": ["hello"] }"#).expect("written");
    let (component, input) = (path_of(&component), path_of(&input));
    for arguments in
        [&["plugin", "inspect", &*component][..], &["plugin", "try", &*component, "categories", "--input", &*input]]
    {
        let done = chela(&dir.state, arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    }
    assert_eq!(fs::read_dir(&cache).expect("there").count(), 0, "nothing of root's is put there");
}

#[test]
fn a_certificate_that_the_service_alone_is_given_is_no_fault() {
    let dir = TestDir::with_config(|config| {
        config["tls"] = json!({ "certificate": { "credential": "certificate" }, "key": { "credential": "key" } });
    });
    let looked = chela(&dir.state, &["doctor", "--json"]);
    let told = finding(&looked, "certificate");
    assert_eq!((looked.code, &told["state"]), (Some(0), &json!("warning")), "{looked:?}");
    assert!(told["detail"].as_str().is_some_and(|said| said.contains("LoadCredential=")), "{told}");
    // Whoever is given some, and not this one, will not be able to serve.
    let mut command = chela_command(&dir.state);
    let output = command.args(["doctor", "--json"]).env("CREDENTIALS_DIRECTORY", dir.scratch()).output();
    let stdout = String::from_utf8(output.expect("runs").stdout).expect("UTF-8");
    let given = Finished { code: None, stdout, stderr: String::new() };
    assert_eq!(finding(&given, "certificate")["state"], "wrong", "{given:?}");
}

#[test]
fn the_doctor_leaves_alone_what_a_serving_gateway_uses() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    let half = dir.state.path().join(".chela-half.tmp");
    fs::write(&half, "half").expect("written");
    let mended = chela(&dir.state, &["doctor", "--fix", "--json"]);
    assert_eq!(mended.code, Some(0), "{mended:?}");
    assert!(half.exists() && dir.state.run_file().exists(), "somebody is at work");
    fs::remove_file(half).expect("ours");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn the_doctor_names_secrets_that_are_missing_and_a_clock_that_went_back() {
    let dir = TestDir::with_config(|config| {
        config["providers"]["local"] =
            json!({ "kind": "openai", "baseUrl": "http://127.0.0.1:1/v1", "key": { "file": "none.key" } });
        config["traces"]["headers"] = json!({ "authorization": { "file": "none.header" } });
    });
    Binary::serve(&dir).terminate();
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    let log = fs::File::options().append(true).open(dir.state.event_log()).expect("there");
    log.set_modified(ahead).expect("ours");
    let looked = chela(&dir.state, &["doctor", "--json"]);
    let secrets = finding(&looked, "secrets");
    for place in ["providers.local.key", "traces.headers.authorization"] {
        assert!(secrets["detail"].as_str().is_some_and(|said| said.contains(place)), "{secrets}");
    }
    let clock = finding(&looked, "clock");
    assert!(
        clock["state"] == "warning" && clock["remedy"].as_str().is_some_and(|said| said.contains("timedatectl")),
        "{clock}"
    );
}

#[test]
fn without_a_gateway_the_doctor_looks_at_the_files_of_components() {
    let dir = TestDir::with_config(|_| {});
    let file = dir.scratch().join("mine.wasm");
    let write = || fs::write(&file, Handmade::default().component()).expect("written");
    let told = |state: &str, expected: &str| {
        let looked = chela(&dir.state, &["doctor", "--json"]);
        let told = finding(&looked, "plugins");
        assert_eq!((looked.code, &told["state"]), (Some(i32::from(state == "wrong")), &json!(state)), "{looked:?}");
        assert!(told["detail"].as_str().is_some_and(|said| said.contains(expected)), "{told}");
        let remedy = told["remedy"].as_str().expect("words");
        assert!(state == "good" || remedy.contains("`chela plugin load FILE --slot classifier`"), "{told}");
    };
    let configure = |plugins: Value| dir.edit_config(|config| config["plugins"] = plugins);
    let mine = || json!({ "source": path_of(&file) });
    told("good", "3 components are there");
    configure(json!({ "classifier": mine() }));
    told("wrong", "mine.wasm");
    write();
    told("good", "3 components are there");
    configure(json!({ "classifier": { "source": path_of(&file), "sha256": "0".repeat(64) } }));
    told("wrong", "is required; install the right file");
    configure(json!({ "classifier": mine(), "signatures": { "require": true } }));
    told("wrong", "it has no signature");
    configure(json!({ "classifier": mine() }));
    let serving = Binary::serve(&dir);
    eventually("it is loaded", || {
        let listed = chela(&dir.state, &["plugin", "list", "--json"]).json();
        let source = listed["slots"][0]["plugin"]["source"].as_str()?.to_owned();
        source.ends_with("mine.wasm").then_some(())
    });
    serving.terminate();
    fs::remove_file(&file).expect("ours");
    told("warning", "what served last would serve on");
    // Bound by a command, over what is configured: its copy is as good as its file.
    configure(json!({}));
    write();
    let serving = Binary::serve(&dir);
    let loaded = chela(&dir.state, &["plugin", "load", &path_of(&file), "--slot", "classifier"]);
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    serving.terminate();
    fs::remove_file(dir.state.plugins().join("mine.wasm")).expect("it was put there");
    told("good", "3 components are there");
    fs::remove_dir_all(dir.state.plugin_store()).expect("ours");
    told("wrong", "cannot read");
    fs::write(dir.state.plugin_bindings(), "{").expect("written");
    let damaged = finding(&chela(&dir.state, &["doctor", "--json"]), "plugins");
    assert!(damaged["detail"].as_str().is_some_and(|said| said.contains("bindings.json cannot be used")), "{damaged}");
    assert!(damaged["remedy"].as_str().is_some_and(|said| said.contains("backup")), "{damaged}");
}

#[test]
fn whatever_the_doctor_finds_it_says_what_to_do() {
    let found = |dir: &TestDir, spoiled: &str, check: &str| {
        let looked = chela(&dir.state, &["doctor", "--json"]);
        let document = looked.json();
        let findings = document["findings"].as_array().expect("findings").clone();
        let bad: Vec<&Value> = findings.iter().filter(|finding| finding["state"] != "good").collect();
        assert!(bad.iter().any(|finding| finding["check"] == check), "{spoiled}: no {check} in {document:#}");
        for finding in bad {
            assert!(finding["remedy"].as_str().is_some_and(|said| said.len() > 8), "{spoiled}: {finding}");
        }
        let wrong = findings.iter().any(|finding| finding["state"] == "wrong");
        assert_eq!((looked.code, &document["healthy"]), (Some(i32::from(wrong)), &json!(!wrong)), "{spoiled}");
    };
    found(&TestDir::empty(), "there is nothing", "state directory");
    let spoil = |spoiled: &str, check: &str, spoil: &dyn Fn(&TestDir)| {
        let dir = TestDir::with_config(|_| {});
        Binary::serve(&dir).terminate();
        spoil(&dir);
        found(&dir, spoiled, check);
    };
    let write = |path: std::path::PathBuf, text: &str| fs::write(path, text).expect("written");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    spoil("a wrong key", "configuration", &|dir| dir.edit_config(|config| config["lisen"] = json!(1)));
    spoil("no configuration", "configuration", &|dir| fs::remove_file(dir.state.config()).expect("ours"));
    spoil("a configuration for all to read", "configuration", &|dir| {
        fs::set_permissions(dir.state.config(), fs::Permissions::from_mode(0o644)).expect("ours");
    });
    spoil("no UTF-8", "configuration", &|dir| dir.write_config(b"{ \"gateway\": \xff }"));
    spoil("a stamp of later", "version", &|dir| write(dir.state.stamp(), r#"{"layout":7,"version":"9.0.0"}"#));
    spoil("a stamp that is none", "version", &|dir| write(dir.state.stamp(), "no stamp"));
    spoil("a port that is taken", "hub port", &|dir| {
        dir.edit_config(|config| config["hub"]["listen"] = json!(address))
    });
    spoil("todos that are none", "todos", &|dir| write(dir.state.todos(), "{"));
    spoil("a torn log", "event log", &|dir| {
        let log = fs::read_to_string(dir.state.event_log()).expect("there");
        write(dir.state.event_log(), log.trim_end());
    });
    spoil("a task that is none", "task files", &|dir| {
        let folder = dir.state.path().join("workspace-eden/tasks");
        fs::create_dir_all(folder.join("task_x.md")).expect("made");
    });
    spoil("nobody who asks people", "questions to people", &|dir| {
        dir.edit_config(|config| config["agents"] = json!({ "list": [{ "id": "eden", "role": "agent" }] }));
    });
    spoil("a gateway that was killed", "gateway", &|dir| drop(Binary::serve(dir).kill()));
    // Of a component that does not load the gateway tells, while it serves.
    let dir = TestDir::with_config(|config| config["plugins"]["classifier"] = json!({ "source": "bad.wasm" }));
    fs::create_dir_all(dir.state.plugins()).expect("made");
    write(dir.state.plugins().join("bad.wasm"), "none");
    let serving = Binary::serve(&dir);
    eventually("it has looked at it", || {
        let listed = chela(&dir.state, &["plugin", "list", "--json"]).json();
        (listed["slots"][0]["state"] == "failed").then_some(())
    });
    found(&dir, "a component that is none", "plugins");
    serving.terminate();
}

#[test]
fn the_audit_log_is_closed_by_month_and_forgotten_when_it_is_too_old() {
    // The fifteenth of November 2023, and the months after it.
    const NOVEMBER: u64 = 1_700_000_000_000;
    const DAY: u64 = 86_400_000;
    let at = |dir: TestDir, day: u64| {
        let host = TestHost::start_at(dir, NOVEMBER + day * DAY).unwrap_or_else(|(error, _)| panic!("{error}"));
        host.call("config.reload", json!({})).expect("a change");
        host.stop()
    };
    let dir = TestDir::with_config(|config| config["audit"]["keepDays"] = json!(100));
    let dir = at(dir, 0);
    let dir = at(dir, 5);
    let names = |dir: &TestDir| -> Vec<String> {
        dir.files().into_iter().filter(|name| name.starts_with("logs/audit")).collect()
    };
    assert_eq!(names(&dir), ["logs/audit.ndjson"]);
    let dir = at(dir, 30);
    assert_eq!(names(&dir), ["logs/audit.2023-11.ndjson", "logs/audit.ndjson"]);
    let closed = fs::read_to_string(dir.state.logs().join("audit.2023-11.ndjson")).expect("kept");
    assert_eq!(closed.lines().count(), 4, "{closed}");
    let dir = at(dir, 120);
    assert_eq!(names(&dir), ["logs/audit.2023-12.ndjson", "logs/audit.ndjson"], "what is older than asked for is gone");
    // A month that the clock made end twice overwrites nothing.
    let dir = at(dir, 30);
    let dir = at(dir, 120);
    assert!(names(&dir).contains(&"logs/audit.2023-12.1.ndjson".to_owned()), "{:?}", names(&dir));
}
