//! A real page in a real browser: signed in once the last kill of the warm-up is over, left open on what happens, and asked at the end whether
//! it is still live and what its script holds. Without Chromium there is none, which is said.

use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

use crate::Stop;
use crate::browser::Browser;
use crate::gateway::Open;

/// The script may hold so much more at the end, in percent.
const HEAP_GROWTH_MAX: f64 = 20.0;
/// What a page takes at first is no growth.
const SETTLES: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Page {
    pub page_heap_mb_begin: f64,
    pub page_heap_mb_end: f64,
}

impl Page {
    pub fn grew(&self) -> bool {
        self.page_heap_mb_end > self.page_heap_mb_begin * (1.0 + HEAP_GROWTH_MAX / 100.0)
    }
}

/// Opens it; none where there is no browser.
pub fn open(open: Open, stop: Stop) -> Option<JoinHandle<Page>> {
    let there = Command::new("chromium").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("there is no chromium here: no page is open in a browser");
        return None;
    }
    Some(std::thread::spawn(move || follow(&open, &stop)))
}

fn follow(open: &Open, stop: &Stop) -> Page {
    let hub = open.addresses.hub.expect("the hub listens");
    let browser = Browser::start();
    let tab = browser.tab();
    tab.open(&format!("http://{hub}/login"));
    tab.fill("#token", &open.token);
    tab.key("Enter");
    tab.until("somebody is signed in", "location.pathname === '/' && document.querySelector('#live')");
    tab.open(&format!("http://{hub}/events"));
    let is_live = "document.getElementById('live')?.hidden === false";
    tab.until("the page is live", is_live);
    wait(stop, SETTLES);
    let page_heap_mb_begin = tab.heap_mb();
    wait(stop, Duration::MAX);
    tab.until("the page is live to the end", is_live);
    Page { page_heap_mb_begin, page_heap_mb_end: tab.heap_mb() }
}

/// For so long, or until it is over.
fn wait(stop: &Stop, time: Duration) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < time && !*stop.borrow() {
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_holds_more_and_more_has_grown() {
        let check = |page_heap_mb_begin, page_heap_mb_end, grew| {
            assert_eq!(Page { page_heap_mb_begin, page_heap_mb_end }.grew(), grew, "{page_heap_mb_end}");
        };
        check(2.0, 2.3, false);
        check(2.0, 2.5, true);
        check(0.0, 0.0, false);
    }
}
