//! People talk without a pause while the adapters of the other networks are swapped, and while the gateway is killed: the short form of
//! `cargo xtask bench channels networks`.

use chela_crash::channels::Options;
use chela_crash::channels::networks::run;
use support::{TestDir, built};

fn check(name: &str) {
    let dir = TestDir::empty();
    let options = Options {
        swaps: 10,
        kills: 5,
        a_second: 50,
        places: 20,
        seed: 7,
        chela: built("chela"),
        scratch: dir.scratch().to_owned(),
    };
    let report = run(name, &options, |said| eprintln!("{said}")).expect("swaps, and lives that end by kills alone");
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.messages >= 40 && report.kill_messages >= 40, "enough was said: {report:#?}");
}

#[test]
fn telegram_goes_on_in_the_midst_of_a_poll_and_confirms_only_what_is_on_record() {
    check("telegram");
}

#[test]
fn slack_keeps_its_socket_and_reads_each_answer_once() {
    check("slack");
}

#[test]
fn a_webhook_is_answered_whichever_version_serves_and_its_receiver_has_each_answer_once() {
    check("webhook");
}
