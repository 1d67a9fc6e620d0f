//! Eight tools and a person who saves in three ways, on one task at once: nothing is lost, nothing doubled, no file torn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::TestHost;

#[test]
fn many_writers_and_an_editor_lose_nothing() {
    let host = TestHost::start();
    host.block_on(host.app().plugins().loaded());
    let over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        // Time goes on here: by it the gateway tells one version from another.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                host.clock.advance(Duration::from_millis(1));
            }
        });
        let report = host.block_on(chela_crash::editing::run(host.app(), &host.dir.state, Duration::from_secs(8)));
        over.store(true, Ordering::Relaxed);
        report.expect("every change is taken")
    });
    assert!(report.by_tools > 50 && report.by_hand > 6 && report.reads > 50, "{report:?}");
    assert_eq!((report.edits_lost, report.doubled, report.torn), (0, 0, 0), "{report:?}");
}
