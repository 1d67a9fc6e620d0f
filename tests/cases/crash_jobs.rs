//! SIGKILL while agents talk to each other: the short form of `cargo xtask crash jobs`.

use chela_crash::jobs::{Options, run};
use support::{TestDir, built};

#[test]
fn flows_end_once_whenever_the_gateway_is_killed() {
    let dir = TestDir::empty();
    let options =
        Options { kills: 12, cuts: 0, seed: 7, flows: 60, chela: built("chela"), scratch: dir.scratch().to_owned() };
    let report = run(&options, |said| eprintln!("{said}")).expect("lives that end by kills alone");
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.jobs > 20 && report.turns > 40, "enough happened: {report:#?}");
}
