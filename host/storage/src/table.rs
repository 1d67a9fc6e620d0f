//! Small values by the digests of their names, row beside row: of hundreds of thousands each takes little more than what it says.
//! Keeps true: past the first thousand, to grow moves no row; it looks at each of them once, in their order.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::Digest;

/// Rows that lie together.
const PIECE: usize = 1024;

#[derive(Debug)]
pub struct Table<V> {
    /// All full but the last.
    pieces: Vec<Vec<(Digest, V)>>,
    /// Where each row is, by its digest.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self { pieces: Vec::new(), places: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<V> Table<V> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[must_use]
    pub fn contains(&self, name: Digest) -> bool {
        self.place(name).is_some()
    }

    #[must_use]
    pub fn get(&self, name: Digest) -> Option<&V> {
        self.place(name).map(|at| &row(&self.pieces, at).1)
    }

    pub fn get_mut(&mut self, name: Digest) -> Option<&mut V> {
        let at = self.place(name)? as usize;
        Some(&mut self.pieces[at / PIECE][at % PIECE].1)
    }

    /// What was there before.
    pub fn insert(&mut self, name: Digest, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(name) {
            return Some(std::mem::replace(known, value));
        }
        self.push(name, value);
        None
    }

    pub fn get_or_insert(&mut self, name: Digest, value: V) -> &mut V {
        let at = self.place(name).unwrap_or_else(|| self.push(name, value)) as usize;
        &mut self.pieces[at / PIECE][at % PIECE].1
    }

    /// Takes one out; the last row takes its place.
    pub fn remove(&mut self, name: Digest) -> Option<V> {
        let Self { pieces, places, hasher } = self;
        let found = places.find_entry(hasher.hash_one(name), |at| row(pieces, *at).0 == name).ok()?;
        let at = found.remove().0 as usize;
        let last = pieces.last_mut()?;
        let moved = last.pop()?;
        if last.is_empty() {
            pieces.pop();
        }
        let from = places.len();
        if at == from {
            return Some(moved.1);
        }
        let place = places.find_mut(hasher.hash_one(moved.0), |place| *place as usize == from)?;
        *place = u32::try_from(at).ok()?;
        Some(std::mem::replace(&mut pieces[at / PIECE][at % PIECE], moved).1)
    }

    pub fn retain(&mut self, mut is_kept: impl FnMut(Digest, &V) -> bool) {
        // From the end: what takes the place of another has been looked at.
        for at in (0..self.len()).rev() {
            let (name, value) = &self.pieces[at / PIECE][at % PIECE];
            if !is_kept(*name, value) {
                let name = *name;
                self.remove(name);
            }
        }
    }

    /// All of them, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (Digest, &V)> {
        self.pieces.iter().flatten().map(|(name, value)| (*name, value))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.pieces.iter_mut().flatten().map(|(_, value)| value)
    }

    fn place(&self, name: Digest) -> Option<u32> {
        self.places.find(self.hasher.hash_one(name), |at| row(&self.pieces, *at).0 == name).copied()
    }

    fn push(&mut self, name: Digest, value: V) -> u32 {
        let at = u32::try_from(self.len()).expect("there is no memory for as many rows");
        match self.pieces.last_mut().filter(|last| last.len() < PIECE) {
            Some(last) => last.push((name, value)),
            None => {
                let mut piece = Vec::with_capacity(if self.pieces.is_empty() { 4 } else { PIECE });
                piece.push((name, value));
                self.pieces.push(piece);
            }
        }
        if self.places.len() == self.places.capacity() {
            // Left to itself it would look at the rows in the order of the old places, which is none.
            self.places = HashTable::with_capacity(2 * self.places.len() + 4);
            (0..at).for_each(|at| self.place_at(at));
        }
        self.place_at(at);
        at
    }

    /// There is room for it.
    fn place_at(&mut self, at: u32) {
        let Self { pieces, places, hasher } = self;
        let hash = |at: &u32| hasher.hash_one(row(pieces, *at).0);
        places.insert_unique(hash(&at), at, hash);
    }
}

fn row<V>(pieces: &[Vec<(Digest, V)>], at: u32) -> &(Digest, V) {
    let at = at as usize;
    &pieces[at / PIECE][at % PIECE]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn what_is_put_changed_and_taken_out_is_as_in_any_other_map() {
        let mut chance = fastrand::Rng::with_seed(7);
        let (mut table, mut model) = (Table::default(), HashMap::new());
        // It grows to some pieces and shrinks to one, again and again.
        for n in 0..60_000u32 {
            let name = Digest::of(&chance.u32(..4_000).to_string());
            let grows = n / 10_000 % 2 == 0;
            if chance.u32(..10) < if grows { 7 } else { 2 } {
                assert_eq!(table.insert(name, n), model.insert(name, n));
            } else {
                assert_eq!(table.remove(name), model.remove(&name));
            }
            assert_eq!((table.len(), table.get(name)), (model.len(), model.get(&name)));
        }
        table.values_mut().for_each(|value| *value += 1);
        model.values_mut().for_each(|value| *value += 1);
        let (known, new) = (*model.keys().next().expect("some are there"), Digest::of("new"));
        assert_eq!(*table.get_or_insert(known, 0), model[&known]);
        assert_eq!(*table.get_or_insert(new, 7), 7);
        assert_eq!((table.remove(new), table.contains(new)), (Some(7), false));
        table.retain(|_, value| value % 3 == 0);
        model.retain(|_, value| *value % 3 == 0);
        assert_eq!(table.iter().map(|(name, value)| (name, *value)).collect::<HashMap<_, _>>(), model);
        assert!(!table.is_empty());
        table.retain(|_, _| false);
        assert!(table.is_empty() && table.pieces.is_empty());
    }
}
