//! Compiled code on disk, and what instances leave behind: a restart compiles nothing, damage is compiled again, nothing adds up.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use support::{TestDir, TestHost, chela_command, corpus, eventually};

/// The compiled file of the one component that did not come with the binary.
fn compiled(dir: &TestDir) -> PathBuf {
    let entries = fs::read_dir(dir.state.plugin_cache()).expect("readable");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert_eq!(files.len(), 2, "with what is known of it, and nothing of the compiling is left: {files:?}");
    files.remove(0)
}

fn start(dir: TestDir) -> TestHost {
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    assert_eq!(host.classify("hello").by.expect("answered").name, "steady");
    host
}

#[test]
fn a_restart_compiles_nothing() {
    let dir = TestHost::with_classifier("steady", json!({})).stop();
    let inode = |dir: &TestDir| fs::metadata(compiled(dir)).expect("there").ino();
    let before = inode(&dir);
    let dir = start(dir).stop();
    assert_eq!(inode(&dir), before);
}

#[test]
fn compiled_code_that_is_damaged_or_of_another_build_is_compiled_again() {
    let mut dir = TestHost::with_classifier("steady", json!({})).stop();
    let good = fs::read(compiled(&dir)).expect("readable");
    let engine = good.windows(3).position(|window| window == b"\x0248").expect("the version of the engine");
    let mut of_another = good.clone();
    of_another[engine + 2] = b'7';
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for damaged in [&[][..], b"not machine code", &good[..good.len() / 2], &of_another, &flipped] {
        let path = compiled(&dir);
        fs::write(&path, damaged).expect("written");
        dir = start(dir).stop();
        assert_eq!(compiled(&dir), path);
        assert!(fs::read(&path).expect("readable") == good, "compiled again");
    }
}

#[test]
fn who_compiles_holds_itself_to_a_gigabyte_of_memory() {
    let dir = TestDir::empty();
    let (large, compiled) = (dir.scratch().join("large.wasm"), dir.scratch().join("large.cwasm"));
    // It takes seconds, so there is time to look.
    fs::write(&large, corpus("0.1.0", "classifier-js")).expect("written");
    let mut command = chela_command(&dir.state);
    // As the gateway has it compile: memory that is only set aside counts as well.
    command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    let mut child =
        command.args(["plugin", "compile"]).arg(&large).arg("--to").arg(&compiled).spawn().expect("it runs");
    // What it had before it began comes on top.
    let gigabyte = 1_u64 << 30;
    let about_one = gigabyte..gigabyte + gigabyte / 4;
    eventually("the limit holds", || {
        let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).expect("it still compiles");
        let line = limits.lines().find(|line| line.starts_with("Max data size")).expect("a line of the system's");
        let mut limits = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        limits.any(|limit| about_one.contains(&limit)).then_some(())
    });
    child.kill().and_then(|()| child.wait()).expect("a child of ours");
}

#[test]
fn the_same_input_has_the_same_answer_on_a_fresh_and_on_a_used_instance() {
    for name in ["steady", "waits", "unruly"] {
        let host = TestHost::with_classifier(name, json!({}));
        let ask = |host: &TestHost| {
            let texts = ["서버 배포가 실패했습니다", "please review the contract", "hello"];
            texts.map(|text| host.classify(text).answer)
        };
        let first = ask(&host);
        (0..5).for_each(|_| assert_eq!(ask(&host), first, "{name}, used"));
        host.operate("disable", "classifier").expect("disabled");
        host.operate("enable", "classifier").expect("enabled");
        assert_eq!(ask(&host), first, "{name}, fresh");
    }
    let host = TestHost::start();
    let ask = |host: &TestHost| ["the deployment failed", "계약서 검토", ""].map(|text| host.classify(text));
    let first = ask(&host);
    assert!(first.iter().all(|answered| answered.by.as_ref().is_some_and(|by| by.name == "rules")));
    (0..5).for_each(|_| assert_eq!(ask(&host), first));
    let host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("{error}"));
    assert_eq!(ask(&host), first);
}

#[test]
fn ten_thousand_failures_leave_nothing_behind() {
    let host = TestHost::with_classifier("unruly", json!({}));
    // Without what is mapped from files: that is code, also of other tests.
    let resident_mb = || {
        let pages = fs::read_to_string("/proc/self/statm").expect("readable");
        let pages: Vec<usize> = pages.split(' ').take(3).map(|pages| pages.parse().expect("a number")).collect();
        (pages[1] - pages[2]) * 4 / 1024
    };
    let fail = |count: usize| {
        for _ in 0..count {
            // Slowly enough that it stays in service.
            host.clock.advance(Duration::from_secs(7));
            assert_eq!(host.classify("!trap").by, None);
        }
    };
    fail(500);
    let before = resident_mb();
    fail(9_500);
    // Other tests share the process, and give back what they take; a leak of every instance would be gigabytes, and stay.
    eventually("nothing of it is left in memory", || (resident_mb() < before + 300).then_some(()));
    let slot = host.slot("classifier");
    assert_eq!((&slot["state"], &slot["stats"]["failures"]["trapped"]), (&json!("serving"), &json!(10_000)));
    assert_eq!(host.classify("hello").by.expect("answered").name, "unruly");
}
