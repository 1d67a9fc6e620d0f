//! Ids of messages that came lately: the same message twice is taken once. Bounded; what fell out is known by the session's own key.

use std::collections::{HashSet, VecDeque};

const KEPT: usize = 16_384;

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Seen {
    /// Whether it is new; from now on it is not.
    pub(crate) fn note(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }

    /// It was not taken after all: when it comes again it is new.
    pub(crate) fn forget(&mut self, id: &str) {
        if self.ids.remove(id) {
            self.order.retain(|known| known != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_id_is_new_once_and_old_ones_are_let_go() {
        let mut seen = Seen::default();
        assert!(seen.note("a") && !seen.note("a"));
        seen.forget("a");
        assert!(seen.note("a") && !seen.note("a"), "it was not taken");
        for n in 0..KEPT {
            assert!(seen.note(&n.to_string()));
        }
        assert!(seen.note("a"), "it fell out");
        assert_eq!((seen.ids.len(), seen.order.len()), (KEPT, KEPT));
    }
}
