//! What happened, over all seeds: a count for each name.

use std::collections::BTreeMap;
use std::ops::AddAssign;

#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    pub fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// A simulation in which something never happens proves nothing about it.
    pub fn assert_happened(&self, all: &[&str]) {
        for what in all {
            assert!(self.get(what) > 100, "{what} happened {} times: {self:?}", self.get(what));
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        other.0.into_iter().for_each(|(what, count)| self.add(what, count));
    }
}
