//! Time, as every room sees it: the wall for people, the monotonic count for limits and waits.
//! Keeps true: a manual clock moves only when told, and wakes exactly those whose time has come; what is reckoned in steady time does not
//! notice that somebody set the machine's clock. Never: read `SystemTime` elsewhere.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Zoned;
pub use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Milliseconds since 1970, as in every file and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The day in UTC; far times are as near as a calendar goes.
    pub fn date(self) -> Date {
        self.zoned().date()
    }

    /// The hour in UTC: `2026-11-16T09`.
    pub fn hour(self) -> String {
        self.zoned().strftime("%Y-%m-%dT%H").to_string()
    }

    /// A time as people write it: RFC 3339 such as `2026-11-16T09:00:00Z`, or a day, which begins at midnight UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let ms = match text.parse::<jiff::Timestamp>() {
            Ok(time) => time.as_millisecond(),
            Err(_) => text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond(),
        };
        u64::try_from(ms).ok().map(Self)
    }

    fn zoned(self) -> Zoned {
        let ms = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_zoned(TimeZone::UTC)
    }
}

/// As people and other tools write it: `2026-11-16T12:00:00.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.zoned().strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    }
}

#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System {
        began: Timestamp,
        started: Instant,
    },
    Manual {
        began: Timestamp,
        elapsed: Arc<watch::Sender<Duration>>,
        /// By how many milliseconds it was set.
        set: Arc<AtomicI64>,
    },
}

impl Clock {
    pub fn system() -> Self {
        Self(Source::System { began: wall(), started: Instant::now() })
    }

    /// A clock that stands still until [`Clock::advance`].
    pub fn manual(began: Timestamp) -> Self {
        Self(Source::Manual { began, elapsed: Arc::new(watch::Sender::new(Duration::ZERO)), set: Arc::default() })
    }

    /// The time on the wall; it may jump when the machine's clock is set.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { .. } => wall(),
            Source::Manual { set, .. } => Timestamp(self.steady().0.saturating_add_signed(set.load(Ordering::Relaxed))),
        }
    }

    /// The time on the wall as it was when this clock was made, and what has passed since: it does not jump. Waits that are longer than a
    /// task sleeps at a time are reckoned in it.
    pub fn steady(&self) -> Timestamp {
        let (Source::System { began, .. } | Source::Manual { began, .. }) = &self.0;
        let passed = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp(began.0.saturating_add(passed))
    }

    /// A time that was read off the wall, in steady time. Where it could have been before the clock was set as well as after, it is the
    /// later one: nothing is taken for older than it is.
    pub fn steady_of(&self, at: Timestamp) -> Timestamp {
        let (wall, steady) = (self.now().0, self.steady().0);
        let before_it_was_set = if wall >= steady { at.0 <= steady } else { at.0 > wall };
        if before_it_was_set { at } else { Timestamp((at.0 + steady).saturating_sub(wall)) }
    }

    /// A steady time as the wall will show it.
    pub fn wall_of(&self, steady: u64) -> u64 {
        (steady.saturating_add(self.now().0)).saturating_sub(self.steady().0)
    }

    /// Time since this clock was made; it never goes back.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Source::System { started, .. } => started.elapsed(),
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

    /// Sets a manual clock, as somebody sets that of a machine: the wall jumps, and nothing has passed.
    pub fn set_by(&self, ms: i64) {
        match &self.0 {
            Source::Manual { set, .. } => drop(set.fetch_add(ms, Ordering::Relaxed)),
            Source::System { .. } => debug_assert!(false, "only a manual clock can be set"),
        }
    }
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_as_people_do() {
        let check = |text: &str, ms: Option<u64>| assert_eq!(Timestamp::parse(text), ms.map(Timestamp), "{text}");
        check("2026-11-16T09:30:00Z", Some(1_794_821_400_000));
        check("2026-11-16T18:30:00+09:00", Some(1_794_821_400_000));
        check("1970-01-02", Some(86_400_000));
        check("1969-01-02", None);
        check("yesterday", None);
        assert_eq!(Timestamp(1_794_821_400_007).to_string(), "2026-11-16T09:30:00.007Z");
        assert_eq!((Timestamp(0).hour().as_str(), Timestamp(u64::MAX).date().year()), ("1970-01-01T00", 9999));
    }

    #[test]
    fn steady_time_does_not_notice_that_the_clock_was_set() {
        const DAY: u64 = 86_400_000;
        let began = 100 * DAY;
        for set in [DAY.cast_signed(), -DAY.cast_signed(), 0] {
            let clock = Clock::manual(Timestamp(began));
            clock.advance(Duration::from_millis(1_000));
            let (before, hour_ago) = (clock.now(), Timestamp(clock.now().0 - 3_600_000));
            clock.set_by(set);
            assert_eq!(clock.now().0, (began + 1_000).saturating_add_signed(set), "the wall shows what it was set to");
            assert_eq!(clock.steady(), before);
            assert_eq!(clock.steady_of(before), before, "what was written before, set by {set}");
            clock.advance(Duration::from_millis(500));
            let after = clock.now();
            clock.advance(Duration::from_millis(500));
            assert_eq!(clock.steady_of(after).0, began + 1_500, "what was written after, set by {set}");
            assert_eq!(clock.wall_of(began + 1_500), after.0);
            assert!(clock.steady_of(hour_ago) >= hour_ago, "never older than it is");
        }
    }

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
