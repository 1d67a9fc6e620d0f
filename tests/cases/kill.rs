//! SIGKILL at any moment: the next start always works, with nothing lost and no step by hand.

use std::fs;
use std::process::Command;
use std::time::Duration;

use support::{Binary, TestDir, chela_command, have};

#[test]
fn a_start_killed_at_any_moment_leaves_a_directory_that_the_next_start_takes() {
    let dir = TestDir::empty();
    let mut token: Option<String> = None;
    for round in 0..30_u64 {
        let serving = Binary::spawn(&dir, &["--gateway", "0", "--monitor", "0", "--hub", "0"]);
        // From before anything was done to well after it was ready.
        std::thread::sleep(Duration::from_millis(round * 2));
        serving.kill();
        if dir.state.config().exists() {
            let now = dir.token();
            assert_eq!(*token.get_or_insert(now.clone()), now, "a token once written is kept");
        }
    }
    let serving = Binary::serve(&dir);
    assert_eq!(serving.terminate().code, Some(0));
    let types = dir.event_types();
    assert_eq!(types.last().map(String::as_str), Some("gateway.stopped"));
    assert!(types.iter().filter(|kind| *kind == "gateway.started").count() > 1, "some starts got far: {types:?}");
}

#[test]
fn a_kill_between_any_two_steps_of_the_first_write_never_leaves_half_a_configuration() {
    if !have("strace") {
        return;
    }
    let mut seen = [false; 2];
    for call in ["openat", "fsync", "link,linkat", "unlink,unlinkat"] {
        for step in 1..=4 {
            let dir = TestDir::empty();
            let plain = chela_command(&dir.state);
            let mut traced = Command::new("strace");
            traced.args(["-f", "-o", "/dev/null", "-P"]).arg(dir.state.path());
            traced.args(["-P"]).arg(dir.state.config());
            traced.args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:signal=SIGKILL:when={step}")]);
            traced.arg(plain.get_program()).args(["init", "--state-dir"]).arg(dir.state.path());
            traced.output().expect("strace runs");
            let written = dir.state.config().exists();
            seen[usize::from(written)] = true;
            if written {
                dir.token();
            }
            let mut again = chela_command(&dir.state);
            let again = again.args(["serve", "--gateway", "0", "--monitor", "0", "--hub", "0"]);
            let mut serving = Binary::spawn_command(&dir, std::mem::replace(again, Command::new("true")));
            serving.wait_until_ready();
            assert_eq!(serving.terminate().code, Some(0), "{call} {step}");
            let leftover = fs::read_dir(dir.state.path()).expect("readable").flatten();
            let leftover: Vec<_> = leftover.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
            assert!(leftover.iter().filter(|name| name.ends_with(".tmp")).count() <= 1, "{leftover:?}");
        }
    }
    assert_eq!(seen, [true, true], "kills fell both before and after the file was in place");
}
