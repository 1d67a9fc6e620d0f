//! Whether a slot's component may go on: probation after a swap, quarantine after too many failures. Pure decisions.

use std::collections::VecDeque;
use std::time::Duration;

/// So many failures within the window end a component's service.
pub(super) const FAILURES_MAX: usize = 10;
pub(super) const WINDOW: Duration = Duration::from_secs(60);
/// A new version is on probation for so many answers, but no longer than the time.
pub(super) const PROBATION_CALLS: u32 = 20;
pub(super) const PROBATION_TIME: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(super) struct Health {
    /// When it failed lately, oldest first.
    failures: VecDeque<Duration>,
    probation: Option<Probation>,
    quarantined: bool,
}

#[derive(Debug)]
struct Probation {
    calls_left: u32,
    until: Duration,
}

/// What a failure leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    Fallback,
    RollBack,
    Quarantine,
}

impl Health {
    /// A component that has just taken over from another.
    pub(super) fn on_probation(now: Duration) -> Self {
        let probation = Probation { calls_left: PROBATION_CALLS, until: now + PROBATION_TIME };
        Self { probation: Some(probation), ..Self::default() }
    }

    /// Whether this answer ends the probation.
    pub(super) fn answered(&mut self, now: Duration) -> bool {
        let Some(probation) = &mut self.probation else { return false };
        probation.calls_left = probation.calls_left.saturating_sub(1);
        if probation.calls_left > 0 && now < probation.until {
            return false;
        }
        self.probation = None;
        true
    }

    /// Whether the probation's time is over; then it is no more.
    pub(super) fn expired(&mut self, now: Duration) -> bool {
        self.probation.take_if(|probation| now >= probation.until).is_some()
    }

    pub(super) fn failed(&mut self, now: Duration) -> Consequence {
        if self.quarantined {
            // Calls that were under way: it is told once.
            return Consequence::Fallback;
        }
        if self.probation.take_if(|probation| now < probation.until).is_some() {
            return Consequence::RollBack;
        }
        self.failures.push_back(now);
        while self.failures.front().is_some_and(|then| now.saturating_sub(*then) >= WINDOW) {
            self.failures.pop_front();
        }
        if self.failures.len() < FAILURES_MAX {
            return Consequence::Fallback;
        }
        self.quarantined = true;
        Consequence::Quarantine
    }

    pub(super) fn is_quarantined(&self) -> bool {
        self.quarantined
    }

    pub(super) fn is_on_probation(&self) -> bool {
        self.probation.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ten_failures_within_a_minute_are_quarantine() {
        let mut health = Health::default();
        for n in 0..9 {
            assert_eq!(health.failed(SECOND * n), Consequence::Fallback);
        }
        assert_eq!(health.failed(SECOND * 9), Consequence::Quarantine);
        assert!(health.is_quarantined());
    }

    #[test]
    fn nine_failures_in_every_minute_are_borne() {
        let mut health = Health::default();
        assert!((0..90).all(|n| health.failed(SECOND * 7 * n) == Consequence::Fallback));
    }

    #[test]
    fn a_failure_on_probation_rolls_back_and_one_after_it_does_not() {
        assert_eq!(Health::on_probation(SECOND).failed(SECOND * 2), Consequence::RollBack);
        let mut health = Health::on_probation(SECOND);
        let ends = (0..PROBATION_CALLS).filter(|_| health.answered(SECOND * 2)).count();
        assert_eq!(ends, 1, "it ends once");
        assert_eq!(health.failed(SECOND * 3), Consequence::Fallback);
        let mut late = Health::on_probation(SECOND);
        assert_eq!(late.failed(SECOND + PROBATION_TIME), Consequence::Fallback);
    }

    #[test]
    fn a_probation_is_over_with_its_time_whether_or_not_it_is_asked() {
        let mut idle = Health::on_probation(SECOND);
        assert!(!idle.expired(PROBATION_TIME) && idle.is_on_probation());
        assert!(idle.expired(SECOND + PROBATION_TIME) && !idle.is_on_probation());
        assert!(!idle.expired(SECOND * 2 + PROBATION_TIME), "it ends once");
        assert!(
            Health::on_probation(SECOND).answered(SECOND + PROBATION_TIME),
            "a first answer that comes late ends it"
        );
    }
}
