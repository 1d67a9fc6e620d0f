//! Time, as every room sees it: the wall for people, the monotonic count for limits and waits.
//! Keeps true: a manual clock moves only when told, and wakes exactly those whose time has come. Never: read `SystemTime` elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Milliseconds since 1970, as in every file and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System { started: Instant },
    Manual { started: Timestamp, elapsed: Arc<watch::Sender<Duration>> },
}

impl Clock {
    pub fn system() -> Self {
        Self(Source::System { started: Instant::now() })
    }

    /// A clock that stands still until [`Clock::advance`].
    pub fn manual(started: Timestamp) -> Self {
        Self(Source::Manual { started, elapsed: Arc::new(watch::Sender::new(Duration::ZERO)) })
    }

    /// The time on the wall; it may jump when the machine's clock is set.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
            Source::Manual { started, elapsed } => {
                let passed = u64::try_from(elapsed.borrow().as_millis()).unwrap_or(u64::MAX);
                Timestamp(started.0.saturating_add(passed))
            }
        }
    }

    /// Time since this clock was made; it never goes back.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Source::System { started } => started.elapsed(),
            Source::Manual { elapsed, .. } => *elapsed.borrow(),
        }
    }

    pub async fn sleep(&self, duration: Duration) {
        match &self.0 {
            Source::System { .. } => tokio::time::sleep(duration).await,
            Source::Manual { elapsed, .. } => {
                let mut watched = elapsed.subscribe();
                let due = *watched.borrow() + duration;
                // The sender lives in `self`, so waiting cannot fail before it is over.
                let _ = watched.wait_for(|passed| *passed >= due).await;
            }
        }
    }

    /// Moves a manual clock on. The system's clock is not ours to move.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Manual { elapsed, .. } => elapsed.send_modify(|passed| *passed += by),
            Source::System { .. } => debug_assert!(false, "only a manual clock can be advanced"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_when_the_manual_clock_reaches_its_time() {
        let clock = Clock::manual(Timestamp(1_000));
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep(Duration::from_secs(5)).await;
                clock.now()
            }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(4));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        assert_eq!(sleeper.await.expect("the sleeper ends"), Timestamp(6_000));
    }
}
