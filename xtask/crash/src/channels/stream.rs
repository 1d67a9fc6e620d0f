//! People who write so many messages a second, each with a number, whoever is there to hear them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use discord_server::{CROWD, Discord, Said, Writer};

/// Numbers of messages, by the ids that the network gave them.
pub type Numbers = BTreeMap<u64, u64>;

pub struct Stream {
    ends: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    said: Arc<Mutex<Numbers>>,
    writing: std::thread::JoinHandle<()>,
}

impl Stream {
    pub fn start(discord: &Discord, a_second: u32, places: u64) -> Self {
        let (ends, count, said) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Arc::default());
        let writing = std::thread::spawn({
            let (ends, count, said, writer) = (ends.clone(), count.clone(), Arc::clone(&said), discord.writer());
            move || write(&writer, a_second, places, &ends, &count, &said)
        });
        Self { ends, count, said, writing }
    }

    /// Messages so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends it; gives all that was said.
    pub fn stop(self) -> Numbers {
        self.ends.store(true, Ordering::Relaxed);
        // Whoever panicked has told so; what was said before still counts.
        let _ = self.writing.join();
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn write(writer: &Writer, a_second: u32, places: u64, ends: &AtomicBool, count: &AtomicU64, said: &Mutex<Numbers>) {
    let started = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let id = writer.say(Said::to_bot(&words(number)).within(CROWD + number % places));
        said.lock().unwrap_or_else(PoisonError::into_inner).insert(id, number);
        // By the clock, so that a moment without the processor is made up for.
        let due = started + Duration::from_secs(1) * u32::try_from(number + 1).unwrap_or(u32::MAX) / a_second;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// What a message says.
fn words(number: u64) -> String {
    format!("what of m-{number:08}?")
}

/// The number of the message that a text is.
pub(super) fn number_in(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("m-")?;
    rest.get(..8)?.parse().ok()
}
