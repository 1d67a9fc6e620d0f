//! Chance that repeats itself: the same seed and stream give the same draws on every machine.
//! Keeps true: only the words of ChaCha8, a published cipher, are used, and whole-number arithmetic of our own over them.
//! A library's ranges and distributions may change between its versions, and floating point between machines; a log
//! that a measurement names by its seed must not.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

pub struct Chance(ChaCha8Rng);

impl Chance {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut words = ChaCha8Rng::from_seed(key);
        words.set_stream(stream);
        Self(words)
    }

    /// A number from 0 up to, not including, `end`. The bias is below one in four billion over `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(end)) >> 32) as u32
    }

    pub fn between(&mut self, first: u32, last: u32) -> u32 {
        first + self.below(last - first + 1)
    }

    pub fn index(&mut self, length: usize) -> usize {
        self.below(u32::try_from(length).expect("tables here are short")) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// True in `share` of 1,000 cases.
    pub fn per_mille(&mut self, share: u32) -> bool {
        self.below(1_000) < share
    }

    /// Mostly short and sometimes three times the mean, as waits are.
    pub fn around(&mut self, mean: u64) -> u64 {
        let part = u64::from(self.0.next_u32());
        let squared = (part * part) >> 32;
        ((u128::from(mean) * u128::from(squared * 3)) >> 32) as u64
    }

    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn bits(&mut self) -> u128 {
        (u128::from(self.0.next_u64()) << 64) | u128::from(self.0.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_these_words_forever() {
        let mut chance = Chance::new(7, 0);
        let draws: Vec<u32> = (0..4).map(|_| chance.below(1_000)).collect();
        assert_eq!(draws, [172, 764, 916, 465]);
    }

    #[test]
    fn waits_have_the_mean_that_was_asked_for() {
        let mut chance = Chance::new(1, 0);
        let total: u64 = (0..20_000).map(|_| chance.around(1_000)).sum();
        assert!((950..1_050).contains(&(total / 20_000)), "{}", total / 20_000);
    }
}
