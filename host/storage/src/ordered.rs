//! A map in the order of its keys, for keys that come nearly in that order: what is put at the end fills its pieces.
//! Keeps true: one in or out moves no more than a piece; pieces that have become small become one.

/// Rows that lie together, at most.
const PIECE: usize = 256;

#[derive(Debug)]
pub struct Ordered<K, V> {
    /// None is empty.
    pieces: Vec<Vec<(K, V)>>,
    len: usize,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Self { pieces: Vec::new(), len: 0 }
    }
}

impl<K: Ord, V> Ordered<K, V> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (piece, at) = self.place(key);
        Some(&mut self.pieces[piece][at.ok()?].1)
    }

    /// What was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (mut piece, at) = self.place(&key);
        let mut at = match at {
            Ok(at) => return Some(std::mem::replace(&mut self.pieces[piece][at].1, value)),
            Err(at) => at,
        };
        self.len += 1;
        let rows_of = |piece: usize| self.pieces.get(piece).map(Vec::len);
        let (is_full, is_behind) = (rows_of(piece) == Some(PIECE), rows_of(piece).is_none_or(|rows| rows == at));
        match rows_of(piece + 1) {
            None if is_behind && (is_full || piece == self.pieces.len()) => {
                // The first piece grows with what is in it: most maps stay small.
                self.pieces.push(Vec::with_capacity(if self.pieces.is_empty() { 4 } else { PIECE }));
                (piece, at) = (self.pieces.len() - 1, 0);
            }
            // What comes a little late leaves the piece before the last one full.
            None if is_full => (piece, at) = self.split(piece, at.max(PIECE / 2), at),
            Some(rows) if is_full && is_behind && rows < PIECE => (piece, at) = (piece + 1, 0),
            Some(_) if is_full => (piece, at) = self.split(piece, PIECE / 2, at),
            _ => {}
        }
        self.pieces[piece].insert(at, (key, value));
        None
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (piece, at) = self.place(key);
        let (_, value) = self.pieces.get_mut(piece)?.remove(at.ok()?);
        self.len -= 1;
        if self.pieces[piece].is_empty() {
            self.pieces.remove(piece);
        } else {
            self.join(piece);
            self.join(piece.saturating_sub(1));
        }
        Some(value)
    }

    /// Takes the first one out.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let rows = self.pieces.first_mut()?;
        let first = rows.remove(0);
        if rows.is_empty() {
            self.pieces.remove(0);
        }
        self.len -= 1;
        Some(first)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.pieces.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Those whose keys are less than this one.
    pub fn before(&self, key: &K) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let (piece, at) = self.place(key);
        let (whole, rest) = self.pieces.split_at(piece);
        let part = rest.first().map_or(&[][..], |rows| &rows[..at.unwrap_or_else(|at| at)]);
        whole.iter().flatten().chain(part).map(|(key, value)| (key, value))
    }

    /// Makes two of a piece, and gives where among them the place `at` is now.
    fn split(&mut self, piece: usize, half: usize, at: usize) -> (usize, usize) {
        let upper = self.pieces[piece].split_off(half);
        self.pieces.insert(piece + 1, upper);
        if at > half { (piece + 1, at - half) } else { (piece, at) }
    }

    /// Makes one of a piece and the next if both are small.
    fn join(&mut self, piece: usize) {
        if self.pieces.get(piece + 1).is_some_and(|next| self.pieces[piece].len() + next.len() <= PIECE / 2) {
            let mut next = self.pieces.remove(piece + 1);
            self.pieces[piece].append(&mut next);
        }
    }

    /// The piece that a key is in or would be put into, and where in it.
    fn place(&self, key: &K) -> (usize, Result<usize, usize>) {
        let after = self.pieces.partition_point(|rows| rows[0].0 <= *key);
        let piece = after.saturating_sub(1);
        let rows = self.pieces.get(piece).map_or(&[][..], Vec::as_slice);
        (piece, rows.binary_search_by(|(known, _)| known.cmp(key)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_put_changed_and_taken_out_is_as_in_any_other_map() {
        let mut chance = fastrand::Rng::with_seed(7);
        let (mut ordered, mut model) = (Ordered::default(), BTreeMap::new());
        for n in 0..60_000u32 {
            let key = chance.u32(..6_000);
            let grows = n / 10_000 % 2 == 0;
            match chance.u32(..10) {
                0 if grows => assert_eq!(ordered.pop_first(), model.pop_first()),
                chosen if chosen < if grows { 8 } else { 2 } => {
                    assert_eq!(ordered.insert(key, n), model.insert(key, n));
                }
                _ => assert_eq!(ordered.remove(&key), model.remove(&key)),
            }
            assert_eq!((ordered.len(), ordered.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(ordered.get_mut(&key), model.get_mut(&key));
            if n % 500 == 0 {
                assert!(ordered.iter().eq(model.iter()) && ordered.iter().rev().eq(model.iter().rev()));
                assert!(ordered.before(&key).rev().eq(model.range(..key).rev()), "before {key}");
            }
        }
        assert!(ordered.pieces.iter().all(|rows| !rows.is_empty() && rows.len() <= PIECE));
        let keys: Vec<u32> = model.keys().copied().collect();
        keys.iter().for_each(|key| assert!(ordered.remove(key).is_some()));
        assert_eq!((ordered.pieces.len(), ordered.pop_first()), (0, None));
    }

    #[test]
    fn what_comes_in_order_fills_its_pieces_and_what_is_left_of_many_takes_few() {
        let mut ordered = Ordered::default();
        (0..10 * PIECE).for_each(|key| assert!(ordered.insert(key, ()).is_none()));
        assert_eq!(ordered.pieces.len(), 10);
        (0..10 * PIECE).filter(|key| key % 16 != 0).for_each(|key| assert!(ordered.remove(&key).is_some()));
        assert!(ordered.pieces.len() <= 3, "{} pieces", ordered.pieces.len());
        // Nearly in order: each somewhere among eight.
        let (mut chance, mut nearly) = (fastrand::Rng::with_seed(7), Ordered::default());
        let mut keys: Vec<usize> = (0..10 * PIECE).collect();
        keys.chunks_mut(8).for_each(|part| chance.shuffle(part));
        keys.iter().for_each(|key| assert!(nearly.insert(*key, ()).is_none()));
        assert!(nearly.pieces.len() <= 12, "{} pieces", nearly.pieces.len());
        // The other way round: each is put before all others.
        let mut falling = Ordered::default();
        (0..10 * PIECE).rev().for_each(|key| assert!(falling.insert(key, ()).is_none()));
        assert!(falling.pieces.len() <= 20 && falling.iter().map(|(key, ())| *key).eq(0..10 * PIECE));
    }
}
