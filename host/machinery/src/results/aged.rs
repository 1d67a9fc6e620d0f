//! Names by their age, each of a group: the oldest are found without a look at the others.
//! Keeps true: what is found costs what is found, but for groups that have more than they may.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::clock::Timestamp;

/// Names, with when each came and what else is known of it. A group is a session.
pub struct Aged<G, V> {
    of: HashMap<Arc<str>, (Timestamp, G, V)>,
    by_age: BTreeSet<(Timestamp, Arc<str>)>,
    counts: HashMap<G, usize>,
    /// Groups with more than `of_group_max`.
    crowded: HashSet<G>,
    of_group_max: usize,
}

impl<G: Clone + Eq + std::hash::Hash, V> Aged<G, V> {
    pub fn new(of_group_max: usize) -> Self {
        let (of, by_age, counts) = (HashMap::new(), BTreeSet::new(), HashMap::new());
        Self { of, by_age, counts, crowded: HashSet::new(), of_group_max }
    }

    pub fn insert(&mut self, name: &str, at: Timestamp, group: G, value: V) {
        self.remove(name);
        let name: Arc<str> = name.into();
        // The group as it is known: what many names share is there once.
        let group = self.counts.get_key_value(&group).map_or(group, |(known, _)| known.clone());
        let count = self.counts.entry(group.clone()).or_default();
        *count += 1;
        if *count > self.of_group_max {
            self.crowded.insert(group.clone());
        }
        self.by_age.insert((at, name.clone()));
        self.of.insert(name, (at, group, value));
    }

    /// Takes one out; whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some((name, (at, group, _))) = self.of.remove_entry(name) else { return false };
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

    pub fn contains(&self, name: &str) -> bool {
        self.of.contains_key(name)
    }

    pub fn get(&self, name: &str) -> Option<(&G, &V)> {
        self.of.get(name).map(|(_, group, value)| (group, value))
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
        is_kept: impl Fn(&str, Timestamp) -> bool,
    ) -> Vec<Arc<str>> {
        let names = || self.by_age.iter().filter(|(at, name)| !is_kept(name, *at));
        let aged = names().take_while(|(at, _)| *at < before).map(|(_, name)| name.clone());
        let aged: Vec<Arc<str>> = aged.take(at_most).collect();
        if !aged.is_empty() {
            return aged;
        }
        let past_total = self.of.len().saturating_sub(total_max).min(at_most);
        let past_total: Vec<Arc<str>> = names().take(past_total).map(|(_, name)| name.clone()).collect();
        if !past_total.is_empty() || self.crowded.is_empty() {
            return past_total;
        }
        let over = |group: &G| self.counts.get(group).copied().unwrap_or(0).saturating_sub(self.of_group_max);
        let mut left: HashMap<&G, usize> = self.crowded.iter().map(|group| (group, over(group))).collect();
        let mut is_over = |name: &Arc<str>| {
            let left = self.of.get(name).and_then(|(_, group, _)| left.get_mut(group));
            left.filter(|left| **left > 0).is_some_and(|left| {
                *left -= 1;
                true
            })
        };
        names().map(|(_, name)| name).filter(|name| is_over(name)).take(at_most).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_total_the_oldest_of_all_go_whatever_their_group() {
        let mut aged: Aged<u64, ()> = Aged::new(100);
        for n in 0..10u64 {
            aged.insert(&n.to_string(), Timestamp(n), n % 3, ());
        }
        let found = |aged: &Aged<u64, ()>, total: usize, max: usize| -> Vec<String> {
            let old = aged.old(Timestamp(0), total, max, |name, at| name == "1" || at >= Timestamp(5));
            old.iter().map(|name| name.to_string()).collect()
        };
        assert!(found(&aged, 10, 9).is_empty(), "as many as may");
        assert_eq!(found(&aged, 7, 9), ["0", "2", "3"]);
        assert_eq!(found(&aged, 7, 2), ["0", "2"], "a piece");
        assert_eq!(found(&aged, 0, 9), ["0", "2", "3", "4"], "those that are kept are not among them");
        assert_eq!((aged.len(), aged.is_empty()), (10, false));
    }

    #[test]
    fn the_old_go_then_those_that_are_too_many_and_none_that_is_kept() {
        let mut aged: Aged<&str, ()> = Aged::new(3);
        for n in 0..10u64 {
            aged.insert(&format!("a{n}"), Timestamp(n), "a", ());
            aged.insert(&format!("b{n}"), Timestamp(100 + n), if n < 3 { "b" } else { "c" }, ());
        }
        let found = |aged: &Aged<&str, ()>, before: u64, max: usize| -> Vec<String> {
            let old = aged.old(Timestamp(before), usize::MAX, max, |name, _| name == "a1");
            old.iter().map(|name| name.to_string()).collect()
        };
        assert_eq!(found(&aged, 4, 2), ["a0", "a2"], "a piece");
        assert_eq!(found(&aged, 4, 9), ["a0", "a2", "a3"]);
        ["a0", "a2", "a3"].iter().for_each(|name| assert!(aged.remove(name)));
        assert_eq!(
            found(&aged, 4, 9),
            ["a4", "a5", "a6", "a7", "b3", "b4", "b5", "b6"],
            "seven of a and of c, three may stay"
        );
        // The same name again is newer.
        aged.insert("a4", Timestamp(200), "b", ());
        assert_eq!((found(&aged, 5, 9).len(), aged.get("a4").map(|(group, ())| *group)), (8, Some("b")));
        for n in 0..10 {
            aged.remove(&format!("a{n}"));
            aged.remove(&format!("b{n}"));
        }
        assert!(aged.counts.is_empty() && aged.crowded.is_empty() && aged.by_age.is_empty() && !aged.remove("a1"));
    }
}
