//! What all whole-host tests share: a gateway in this process on a manual clock, a gateway as a real process, and clients that behave
//! well or badly. Keeps true: a test that ends has left no task, no open file and no stray file behind.

mod binary;
pub mod browser;
pub mod chat;
pub mod components;
pub mod continuation;
mod dir;
pub mod events;
mod host;
mod humans;
mod jobs;
pub mod models;
pub mod pages;
mod plugins;
mod raw;
mod talk;
mod tasks;
mod tools;
pub mod webhook;
mod ws;

pub use discord_server as discord;
pub use networks::{slack, telegram};

pub use binary::{Binary, Finished, built, chela, chela_command};
pub use dir::TestDir;
pub use host::TestHost;
pub use plugins::{corpus, guest, guest_bytes, path_of, target};
pub use raw::RawHttp;
pub use talk::Talk;
pub use tools::{have, language_tools};
pub use ws::{WebSocket, WsRefused};

use std::time::{Duration, Instant};

/// Longer than anything takes on a machine that has much else to do; what comes sooner is not waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that another process or thread will do; fails with `what` after two minutes.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let waited = started.elapsed();
        assert!(waited < PATIENCE, "waited two minutes in vain until {what}");
        // Less and less often: a gateway whose clock stands still answers only so many questions.
        std::thread::sleep((waited / 100).clamp(Duration::from_millis(5), Duration::from_millis(100)));
    }
}
