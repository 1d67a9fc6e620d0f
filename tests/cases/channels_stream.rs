//! People talk without a pause while the Discord adapter is swapped, and while the gateway is killed: the short form of
//! `cargo xtask bench channels`.

use chela_crash::channels::{Options, run};
use support::{TestDir, built};

fn options(dir: &TestDir, swaps: u32, kills: u32) -> Options {
    let (chela, scratch) = (built("chela"), dir.scratch().to_owned());
    Options { swaps, kills, a_second: 50, places: 20, seed: 7, chela, scratch }
}

#[test]
fn swaps_of_the_adapter_keep_the_socket_and_every_message() {
    let dir = TestDir::empty();
    let report = run(&options(&dir, 15, 0), |said| eprintln!("{said}")).expect("swaps");
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.messages >= 50, "enough was said: {report:#?}");
}

#[test]
fn kills_of_the_gateway_lose_no_message_and_repeat_none() {
    let dir = TestDir::empty();
    let report = run(&options(&dir, 0, 8), |said| eprintln!("{said}")).expect("lives that end by kills alone");
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.kill_messages >= 50 && report.kill_resumed >= 4, "enough happened: {report:#?}");
}
