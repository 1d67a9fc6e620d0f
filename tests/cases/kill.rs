//! SIGKILL at any moment: the next start always works, with nothing lost and no step by hand.

use std::process::Command;
use std::time::Instant;

use support::{Binary, TestDir, chela_command, have};

#[test]
fn a_start_killed_at_any_moment_leaves_a_directory_that_the_next_start_takes() {
    let dir = TestDir::empty();
    let mut token: Option<String> = None;
    // From before anything was done to well after it is ready, however fast this machine is.
    let span = {
        let other = TestDir::empty();
        let started = Instant::now();
        drop(Binary::serve(&other));
        started.elapsed() * 2
    };
    const ROUNDS: u32 = 30;
    for round in 1..=ROUNDS {
        let mut serving = Binary::spawn(&dir, &["--gateway", "0", "--monitor", "0", "--hub", "0"]);
        std::thread::sleep(span * (round - 1) / ROUNDS);
        if round == ROUNDS {
            // However busy this machine has become, one of them is killed while it serves.
            serving.wait_until_ready();
        }
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
    let (mut before, mut after) = (0, 0);
    for call in ["fsync", "?rename,?renameat,renameat2", "?link,linkat", "?unlink,unlinkat"] {
        for step in 1.. {
            assert!(step < 50, "{call} is called without end");
            let dir = TestDir::empty();
            let mut traced = Command::new("strace");
            traced.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            traced.args(["-e", &format!("inject={call}:signal=SIGKILL:when={step}")]);
            traced.arg(chela_command(&dir.state).get_program()).args(["init", "--state-dir"]).arg(dir.state.path());
            if traced.output().expect("strace runs").status.success() {
                break;
            }
            if dir.state.config().exists() {
                after += 1;
                dir.token();
            } else {
                before += 1;
            }
            // The next start needs no help, and sweeps up.
            assert_eq!(Binary::serve(&dir).terminate().code, Some(0), "{call} {step}");
        }
    }
    assert!(before > 0 && after > 0, "kills fell before ({before}) and after ({after}) the file was in place");
}
