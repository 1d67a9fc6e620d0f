//! Which dispatches of the gateway's session were taken.
//! Keeps true: `last` is the highest number below which none is missing, so that a resume asks again for what never came; a number
//! is new once.

use serde::{Deserialize, Serialize};

/// Numbers past a gap that are remembered; past them the gap is taken for one that is never filled.
const AHEAD_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sequence {
    last: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ahead: Vec<u64>,
}

impl Sequence {
    /// A new session begins with this number.
    pub fn begin(&mut self, number: u64) {
        *self = Self { last: number, ahead: Vec::new() };
    }

    /// What a heartbeat or a resume says; none before the first dispatch.
    pub fn last(&self) -> Option<u64> {
        (self.last > 0).then_some(self.last)
    }

    /// Takes a number; false when it was taken before.
    pub fn take(&mut self, number: u64) -> bool {
        if number <= self.last || self.ahead.contains(&number) {
            return false;
        }
        self.ahead.push(number);
        if self.last == 0 || self.ahead.len() > AHEAD_MAX {
            self.last = self.ahead.iter().copied().min().unwrap_or(number).saturating_sub(1);
        }
        while let Some(at) = self.ahead.iter().position(|ahead| *ahead == self.last.saturating_add(1)) {
            self.last = self.ahead.swap_remove(at);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: &[u64], taken: &[u64], last: Option<u64>) {
        let mut sequence = Sequence::default();
        let new: Vec<u64> = numbers.iter().copied().filter(|number| sequence.take(*number)).collect();
        assert_eq!(new, taken);
        assert_eq!(sequence.last(), last);
    }

    #[test]
    fn each_number_is_taken_once_in_any_order() {
        check(&[1, 2, 3], &[1, 2, 3], Some(3));
        check(&[1, 2, 2, 1], &[1, 2], Some(2));
        check(&[1, 3, 2, 3, 4], &[1, 3, 2, 4], Some(4));
        check(&[], &[], None);
    }

    #[test]
    fn what_is_missing_is_asked_for_again() {
        check(&[1, 2, 5, 6], &[1, 2, 5, 6], Some(2));
    }

    #[test]
    fn a_gap_that_is_never_filled_does_not_hold_for_ever() {
        let numbers: Vec<u64> = [1].into_iter().chain(3..=80).collect();
        check(&numbers, &numbers, Some(80));
        check(&[u64::MAX, 1], &[u64::MAX], Some(u64::MAX));
    }
}
