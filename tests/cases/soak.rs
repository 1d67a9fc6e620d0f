//! Everything at once, for a little while and with kills: the short form of `cargo xtask soak`, which looks at growth too.

use std::process::Command;

use serde_json::Value;
use support::{TestDir, built, target};

#[test]
fn work_talk_swaps_and_followers_lose_nothing_when_the_gateway_is_killed() {
    let dir = TestDir::empty();
    let mut soak = Command::new(built("chela-soak"));
    soak.args(["--minutes", "0.6", "--rate", "40", "--swap-seconds", "2", "--kills", "2", "--seed", "7", "--chela"]);
    soak.arg(built("chela")).arg("--components").arg(target().join("components")).arg("--below").arg(dir.scratch());
    let output = soak.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let of = |name: &str| figures[name].as_u64().unwrap_or_else(|| panic!("no {name} in {figures}"));
    // Growth and times are for a quiet machine and half an hour; these hold at any time.
    for lost in [
        "flows_lost",
        "flows_failed",
        "flows_unfinished",
        "runs_lost",
        "tasks_lost",
        "chat_unanswered",
        "chat_answered_twice",
        "calls_refused",
        "events_refused",
        "swaps_refused",
        "told_out_of_order",
    ] {
        assert_eq!(of(lost), 0, "{lost}: {said}");
    }
    assert_eq!(of("kills"), 3, "{said}");
    assert!(of("runs") > 5 && of("flows") > 5 && of("chat_messages") > 5 && of("swaps") > 2, "{figures}");
    assert!(of("told") > 20, "{figures}");
}
