//! Threads that read conversations for prompts: as many as there are processors, and the same ones always. What a thread takes while it reads a
//! long conversation stays with it for the next, so it must not be any one of a crowd.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

/// Readings that may wait; whoever comes later waits for a place.
const WAITING_MAX: usize = 64;

type Reading = Box<dyn FnOnce() + Send>;

/// They end with this.
pub(super) struct Readers(mpsc::Sender<Reading>);

impl Readers {
    pub(super) fn start() -> io::Result<Self> {
        let (readings, waiting) = mpsc::channel::<Reading>(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let count = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        for n in 0..count {
            let waiting = waiting.clone();
            let next = move || waiting.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
            std::thread::Builder::new().name(format!("chela-reader-{n}")).spawn(move || {
                while let Some(reading) = next() {
                    // A fault of ours in one must not end the thread; the hook has told of it.
                    let _ = catch_unwind(AssertUnwindSafe(reading));
                }
            })?;
        }
        Ok(Self(readings))
    }

    /// What a reading comes to; none if it came to no end.
    pub(super) async fn read<T: Send + 'static>(&self, reading: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Box::new(move || drop(answer.send(reading())))).await.ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_readings_are_done_by_few_threads_and_one_that_fails_ends_none() {
        let readers = Readers::start().expect("threads");
        assert_eq!(readers.read(|| -> u32 { panic!("a reading that fails") }).await, None);
        let mut by = std::collections::BTreeSet::new();
        for n in 0..200 {
            let read = readers.read(move || (n, std::thread::current().name().map(str::to_owned)));
            let (read, thread) = read.await.expect("it is read");
            assert_eq!(read, n);
            by.insert(thread.expect("a name"));
        }
        let few = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        assert!(by.len() <= few && by.iter().all(|name| name.starts_with("chela-reader-")), "{by:?}");
    }
}
