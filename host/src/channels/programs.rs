//! Programs that an adapter listens to: they are answered for a while, and then a person has to say something, so that two of them never talk
//! for ever. Pure.

use std::collections::HashMap;

use crate::clock::Timestamp;

/// Messages of programs that are heard at a place in a row.
pub(super) const IN_A_ROW: u32 = 10;
/// After so long without one they are heard again.
const REST_MS: u64 = 3_600_000;
/// Places that are remembered; the one that was silent longest is forgotten first.
const PLACES_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Programs {
    /// By place: how many in a row, and when the last one came.
    places: HashMap<String, (u32, Timestamp)>,
}

impl Programs {
    /// Whether a message is to be heard at a place.
    pub(super) fn hears(&mut self, place: &str, is_program: bool, now: Timestamp) -> bool {
        if !is_program {
            self.places.remove(place);
            return true;
        }
        self.make_room(place);
        let (heard, last) = self.places.entry(place.to_owned()).or_insert((0, now));
        if now.0.saturating_sub(last.0) > REST_MS {
            *heard = 0;
        }
        *last = now;
        *heard = heard.saturating_add(1);
        *heard <= IN_A_ROW
    }

    fn make_room(&mut self, place: &str) {
        if self.places.len() < PLACES_MAX || self.places.contains_key(place) {
            return;
        }
        let oldest = self.places.iter().min_by_key(|(_, (_, last))| *last).map(|(place, _)| place.clone());
        oldest.map(|oldest| self.places.remove(&oldest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_heard_until_it_is_a_persons_turn() {
        let (mut programs, now) = (Programs::default(), Timestamp(1_000_000));
        for _ in 0..IN_A_ROW {
            assert!(programs.hears("a", true, now));
        }
        assert!(!programs.hears("a", true, now), "enough of it");
        assert!(programs.hears("b", true, now), "elsewhere it is another talk");
        assert!(programs.hears("a", false, now), "a person is always heard");
        assert!(programs.hears("a", true, now), "and then programs are again");
    }

    #[test]
    fn only_silence_lets_them_speak_again() {
        let mut programs = Programs::default();
        let mut now = 1_000_000;
        for n in 0..3 * IN_A_ROW {
            assert_eq!(programs.hears("a", true, Timestamp(now)), n < IN_A_ROW);
            now += REST_MS;
        }
        assert!(programs.hears("a", true, Timestamp(now + 1)));
    }

    #[test]
    fn places_have_an_end() {
        let mut programs = Programs::default();
        for n in 0..PLACES_MAX as u64 + 10 {
            assert!(programs.hears(&n.to_string(), true, Timestamp(n)));
        }
        assert!(programs.places.len() == PLACES_MAX && !programs.places.contains_key("0"));
    }
}
