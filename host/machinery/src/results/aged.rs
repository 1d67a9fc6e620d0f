//! Names by their age, each of a group: the oldest are found without a look at the others.
//! Keeps true: what is found costs what is found, but for groups that have more than they may.

use std::collections::{HashMap, HashSet};

use chela_storage::{Digest, Ordered, Table};

use crate::clock::Timestamp;

/// Names by their digests, with when each came. A group is a session.
pub struct Aged<G> {
    of: Table<(Timestamp, G)>,
    by_age: Ordered<(Timestamp, Digest), ()>,
    counts: HashMap<G, usize>,
    /// Groups with more than `of_group_max`.
    crowded: HashSet<G>,
    of_group_max: usize,
}

impl<G: Clone + Eq + std::hash::Hash> Aged<G> {
    pub fn new(of_group_max: usize) -> Self {
        let (of, by_age) = (Table::default(), Ordered::default());
        Self { of, by_age, counts: HashMap::new(), crowded: HashSet::new(), of_group_max }
    }

    pub fn insert(&mut self, name: Digest, at: Timestamp, group: G) {
        self.remove(name);
        // The group as it is known: what many names share is there once.
        let group = self.counts.get_key_value(&group).map_or(group, |(known, _)| known.clone());
        let count = self.counts.entry(group.clone()).or_default();
        *count += 1;
        if *count > self.of_group_max {
            self.crowded.insert(group.clone());
        }
        self.by_age.insert((at, name), ());
        self.of.insert(name, (at, group));
    }

    /// Takes one out; whether it was there.
    pub fn remove(&mut self, name: Digest) -> bool {
        let Some((at, group)) = self.of.remove(name) else { return false };
        self.by_age.remove(&(at, name));
        if let Some(count) = self.counts.get_mut(&group) {
            *count -= 1;
            if *count <= self.of_group_max {
                self.crowded.remove(&group);
            }
            if *count == 0 {
                self.counts.remove(&group);
            }
        }
        true
    }

    pub fn contains(&self, name: Digest) -> bool {
        self.of.contains(name)
    }

    pub fn group(&self, name: Digest) -> Option<&G> {
        self.of.get(name).map(|(_, group)| group)
    }

    pub fn len(&self) -> usize {
        self.of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Names from before a time, then the oldest past `total_max`, then the oldest of groups that have too many; at most so many, and none
    /// that is kept.
    pub fn old(
        &self,
        before: Timestamp,
        total_max: usize,
        at_most: usize,
        is_kept: impl Fn(Digest, Timestamp) -> bool,
    ) -> Vec<Digest> {
        let names = || self.by_age.iter().map(|(key, ())| key).filter(|(at, name)| !is_kept(*name, *at));
        let aged = names().take_while(|(at, _)| *at < before).map(|(_, name)| *name);
        let aged: Vec<Digest> = aged.take(at_most).collect();
        if !aged.is_empty() {
            return aged;
        }
        let past_total = self.of.len().saturating_sub(total_max).min(at_most);
        let past_total: Vec<Digest> = names().take(past_total).map(|(_, name)| *name).collect();
        if !past_total.is_empty() || self.crowded.is_empty() {
            return past_total;
        }
        let over = |group: &G| self.counts.get(group).copied().unwrap_or(0).saturating_sub(self.of_group_max);
        let mut left: HashMap<&G, usize> = self.crowded.iter().map(|group| (group, over(group))).collect();
        let is_over = |name: &Digest| {
            let left = self.of.get(*name).and_then(|(_, group)| left.get_mut(group));
            left.filter(|left| **left > 0).is_some_and(|left| {
                *left -= 1;
                true
            })
        };
        names().map(|(_, name)| *name).filter(is_over).take(at_most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found to be old, as those of `names` whose digests they are.
    fn found<G: Clone + Eq + std::hash::Hash>(
        aged: &Aged<G>,
        names: &[String],
        (before, total_max, at_most): (u64, usize, usize),
        is_kept: impl Fn(Digest, Timestamp) -> bool,
    ) -> Vec<String> {
        let old = aged.old(Timestamp(before), total_max, at_most, is_kept);
        let name = |digest: &Digest| names.iter().find(|name| Digest::of(name) == *digest).cloned();
        old.iter().map(|digest| name(digest).expect("one of them")).collect()
    }

    #[test]
    fn past_the_total_the_oldest_of_all_go_whatever_their_group() {
        let mut aged: Aged<u64> = Aged::new(100);
        let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        for (name, n) in names.iter().zip(0..) {
            aged.insert(Digest::of(name), Timestamp(n), n % 3);
        }
        let found = |total: usize, max: usize| {
            found(&aged, &names, (0, total, max), |name, at| name == Digest::of("1") || at >= Timestamp(5))
        };
        assert!(found(10, 9).is_empty(), "as many as may");
        assert_eq!(found(7, 9), ["0", "2", "3"]);
        assert_eq!(found(7, 2), ["0", "2"], "a piece");
        assert_eq!(found(0, 9), ["0", "2", "3", "4"], "those that are kept are not among them");
        assert_eq!((aged.len(), aged.is_empty()), (10, false));
    }

    #[test]
    fn the_old_go_then_those_that_are_too_many_and_none_that_is_kept() {
        let mut aged: Aged<&str> = Aged::new(3);
        let names: Vec<String> = (0..10).flat_map(|n| [format!("a{n}"), format!("b{n}")]).collect();
        for n in 0..10u64 {
            aged.insert(Digest::of(&format!("a{n}")), Timestamp(n), "a");
            aged.insert(Digest::of(&format!("b{n}")), Timestamp(100 + n), if n < 3 { "b" } else { "c" });
        }
        let found = |aged: &Aged<&str>, before: u64, max: usize| {
            found(aged, &names, (before, usize::MAX, max), |name, _| name == Digest::of("a1"))
        };
        assert_eq!(found(&aged, 4, 2), ["a0", "a2"], "a piece");
        assert_eq!(found(&aged, 4, 9), ["a0", "a2", "a3"]);
        ["a0", "a2", "a3"].iter().for_each(|name| assert!(aged.remove(Digest::of(name))));
        assert_eq!(
            found(&aged, 4, 9),
            ["a4", "a5", "a6", "a7", "b3", "b4", "b5", "b6"],
            "seven of a and of c, three may stay"
        );
        // The same name again is newer, and of another group.
        aged.insert(Digest::of("a4"), Timestamp(200), "b");
        assert_eq!((found(&aged, 5, 9).len(), aged.counts["b"]), (8, 4));
        for name in names {
            aged.remove(Digest::of(&name));
        }
        assert!(aged.counts.is_empty() && aged.crowded.is_empty() && aged.by_age.is_empty() && aged.is_empty());
        assert!(!aged.remove(Digest::of("a1")));
    }
}
