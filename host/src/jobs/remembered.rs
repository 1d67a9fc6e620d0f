//! What is kept at hand of flows, no more than so much of it: what belongs to no job that goes on is forgotten, the oldest first.

use chela_storage::{Digest, Ordered, Table};

use crate::id::Packed;

/// What may be kept that no job holds; the index knows the others.
const REMEMBERED_MAX: usize = 100_000;

pub(super) struct Remembered {
    known: Table<Entry>,
    /// What no job holds, by when that began.
    idle: Ordered<u64, Digest>,
    next: u64,
    max: usize,
}

struct Entry {
    value: Packed,
    /// Jobs that go on and need it.
    held: u32,
    /// Its place among the idle ones.
    nth: u64,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { known: Table::default(), idle: Ordered::default(), next: 0, max: REMEMBERED_MAX }
    }
}

impl Remembered {
    pub(super) fn get(&self, key: Digest) -> Option<String> {
        self.known.get(key).map(|entry| entry.value.to_string())
    }

    /// It is this from now on.
    pub(super) fn put(&mut self, key: Digest, value: &str) {
        let held = self.known.remove(key).map_or(0, |old| {
            self.idle.remove(&old.nth);
            old.held
        });
        let nth = self.next();
        self.known.insert(key, Entry { value: value.into(), held, nth });
        if held == 0 {
            self.let_go(nth, key);
        }
    }

    /// What it is already, else this.
    pub(super) fn get_or_put(&mut self, key: Digest, value: String) -> String {
        if let Some(known) = self.get(key) {
            return known;
        }
        self.put(key, &value);
        value
    }

    /// A job that goes on needs it.
    pub(super) fn hold(&mut self, key: Digest) {
        if let Some(entry) = self.known.get_mut(key) {
            entry.held += 1;
            self.idle.remove(&entry.nth);
        }
    }

    /// One that held it does not go on any more.
    pub(super) fn release(&mut self, key: Digest) {
        let nth = self.next();
        let Some(entry) = self.known.get_mut(key).filter(|entry| entry.held > 0) else { return };
        entry.held -= 1;
        if entry.held == 0 {
            entry.nth = nth;
            self.let_go(nth, key);
        }
    }

    fn let_go(&mut self, nth: u64, key: Digest) {
        self.idle.insert(nth, key);
        while self.idle.len() > self.max
            && let Some((_, oldest)) = self.idle.pop_first()
        {
            self.known.remove(oldest);
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
        let [a, b, c, d] = ["a", "b", "c", "d"].map(Digest::of);
        let there = |known: &Remembered| [a, b, c, d].map(|key| known.get(key).is_some());
        known.put(a, "1");
        known.hold(a);
        known.hold(a);
        for key in [b, c, d] {
            known.put(key, "1");
        }
        assert_eq!(there(&known), [true, false, true, true], "two, and the one that is held");
        known.put(c, "2");
        known.release(a);
        assert_eq!(there(&known), [true, false, true, true], "another job holds it");
        known.release(a);
        assert_eq!(there(&known), [true, false, true, false], "what was said again is not the oldest");
        known.release(a);
        assert_eq!(known.get_or_put(c, "3".into()), "2");
        assert_eq!(known.get_or_put(d, "3".into()), "3");
        assert_eq!(there(&known), [true, false, false, true]);
        assert_eq!(known.known.len(), known.idle.len());
    }
}
