//! SIGKILL while events are emitted: the short form of `cargo xtask crash events`.

use chela_crash::{Options, run};
use support::{TestDir, built};

#[test]
fn what_was_acknowledged_before_a_kill_is_there_in_order_once_and_the_index_shows_it() {
    let dir = TestDir::empty();
    let options = Options {
        kills: 12,
        seed: 7,
        kills_between_checks: 12,
        worker: built("chela-crash"),
        chela: built("chela"),
        scratch: dir.scratch().to_owned(),
    };
    let report = run(&options, |said| eprintln!("{said}")).expect("lives that end by kills alone");
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.acknowledged > 100 && report.segments > 1, "enough happened to be lost: {report:#?}");
}
