//! How many things a classifier is asked about at once: so many that a list stays far below the limit of a call, however slow it is.

use std::time::Duration;

/// What a list may take; a call is cut off at 50 ms of CPU time unless the deployment says otherwise.
const GOAL: Duration = Duration::from_millis(8);

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    at_once: usize,
    most: usize,
}

impl Pace {
    /// Begins with one, for nobody knows the classifier yet.
    pub(super) fn up_to(most: usize) -> Self {
        Self { at_once: 1, most }
    }

    pub(super) fn at_once(self) -> usize {
        self.at_once
    }

    /// Learns from a list of `count`.
    pub(super) fn took(&mut self, count: usize, took: Duration) {
        if took > GOAL {
            self.at_once = (count / 2).clamp(1, self.at_once);
        } else if count >= self.at_once && took < GOAL / 2 {
            self.at_once = (self.at_once * 2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the pace ends for a classifier that takes so long for each.
    fn check(micros_each: u64, expected: usize) {
        let mut pace = Pace::up_to(32);
        for _ in 0..20 {
            let count = pace.at_once();
            pace.took(count, Duration::from_micros(micros_each * count as u64));
        }
        assert_eq!(pace.at_once(), expected, "{micros_each}");
    }

    #[test]
    fn a_quick_classifier_gets_long_lists_and_a_slow_one_short_ones() {
        check(30, 32);
        check(400, 16);
        check(3_000, 2);
        check(40_000, 1);
    }

    #[test]
    fn a_list_that_was_short_for_want_of_more_says_nothing() {
        let mut pace = Pace::up_to(32);
        (0..3).for_each(|_| pace.took(pace.at_once(), Duration::ZERO));
        pace.took(2, Duration::ZERO);
        assert_eq!(pace.at_once(), 8);
        pace.took(8, Duration::from_millis(20));
        assert_eq!(pace.at_once(), 4);
    }
}
