//! What is kept at hand of flows, no more than so much of it: what belongs to no job that goes on is forgotten, the oldest first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// What may be kept that no job holds; the index knows the others.
const REMEMBERED_MAX: usize = 100_000;

pub(super) struct Remembered<K> {
    known: HashMap<K, Entry>,
    /// What no job holds, by when that began.
    idle: BTreeMap<u64, K>,
    next: u64,
    max: usize,
}

struct Entry {
    value: String,
    /// Jobs that go on and need it.
    held: usize,
    /// Its place among the idle ones.
    nth: u64,
}

impl<K> Default for Remembered<K> {
    fn default() -> Self {
        Self { known: HashMap::new(), idle: BTreeMap::new(), next: 0, max: REMEMBERED_MAX }
    }
}

impl<K: Clone + Eq + Hash> Remembered<K> {
    pub(super) fn get(&self, key: &K) -> Option<&String> {
        self.known.get(key).map(|entry| &entry.value)
    }

    /// It is this from now on.
    pub(super) fn put(&mut self, key: K, value: String) {
        let held = self.known.remove(&key).map_or(0, |old| {
            self.idle.remove(&old.nth);
            old.held
        });
        let nth = self.next();
        self.known.insert(key.clone(), Entry { value, held, nth });
        if held == 0 {
            self.let_go(nth, key);
        }
    }

    /// What it is already, else this.
    pub(super) fn get_or_put(&mut self, key: K, value: String) -> String {
        if let Some(known) = self.get(&key) {
            return known.clone();
        }
        self.put(key, value.clone());
        value
    }

    /// A job that goes on needs it.
    pub(super) fn hold(&mut self, key: &K) {
        if let Some(entry) = self.known.get_mut(key) {
            entry.held += 1;
            self.idle.remove(&entry.nth);
        }
    }

    /// One that held it does not go on any more.
    pub(super) fn release(&mut self, key: &K) {
        let nth = self.next();
        let Some(entry) = self.known.get_mut(key).filter(|entry| entry.held > 0) else { return };
        entry.held -= 1;
        if entry.held == 0 {
            entry.nth = nth;
            self.let_go(nth, key.clone());
        }
    }

    fn let_go(&mut self, nth: u64, key: K) {
        self.idle.insert(nth, key);
        while self.idle.len() > self.max
            && let Some((_, oldest)) = self.idle.pop_first()
        {
            self.known.remove(&oldest);
        }
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first_and_what_a_job_holds_never() {
        let mut known = Remembered { max: 2, ..Remembered::default() };
        let there = |known: &Remembered<&str>| ["a", "b", "c", "d"].map(|key| known.get(&key).is_some());
        known.put("a", "1".into());
        known.hold(&"a");
        known.hold(&"a");
        for key in ["b", "c", "d"] {
            known.put(key, "1".into());
        }
        assert_eq!(there(&known), [true, false, true, true], "two, and the one that is held");
        known.put("c", "2".into());
        known.release(&"a");
        assert_eq!(there(&known), [true, false, true, true], "another job holds it");
        known.release(&"a");
        assert_eq!(there(&known), [true, false, true, false], "what was said again is not the oldest");
        known.release(&"a");
        assert_eq!(known.get_or_put("c", "3".into()), "2");
        assert_eq!(known.get_or_put("d", "3".into()), "3");
        assert_eq!(there(&known), [true, false, false, true]);
        assert_eq!(known.known.len(), known.idle.len());
    }
}
