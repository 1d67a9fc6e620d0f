//! What an adapter keeps: lists with an end, and its whole state as JSON under the name of its form.
//! Keeps true: a list never grows past its limit, the oldest goes; a state of another form is refused by its name.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::State;

/// Adds to a list of limited length; the oldest goes.
pub fn push<T>(list: &mut VecDeque<T>, item: T, max: usize) {
    list.push_back(item);
    trim(list, max);
}

pub fn trim<T>(list: &mut VecDeque<T>, max: usize) {
    while list.len() > max {
        list.pop_front();
    }
}

/// The state as the host keeps it. Maps in it have strings or numbers for keys.
pub fn snapshot<T: Serialize>(schema: &str, state: &T) -> State {
    let bytes = serde_json::to_vec(state).expect("maps with numbers and strings for keys are JSON");
    State { schema: schema.into(), bytes }
}

pub fn restored<T: DeserializeOwned>(schema: &str, state: &State) -> Result<T, String> {
    if state.schema != schema {
        return Err(format!("the state is of the form `{}`; this version reads `{schema}`", state.schema));
    }
    serde_json::from_slice(&state.bytes).map_err(|error| format!("the state cannot be read: {error}"))
}

/// Ids that were taken lately, so that none is taken twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seen(VecDeque<String>);

impl Seen {
    const MAX: usize = 64;

    /// Notes an id; false when it was seen before.
    pub fn is_new(&mut self, id: &str) -> bool {
        if self.has(id) {
            return false;
        }
        push(&mut self.0, id.to_owned(), Self::MAX);
        true
    }

    pub fn has(&self, id: &str) -> bool {
        self.0.iter().any(|seen| seen == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_new_once_and_the_oldest_is_forgotten() {
        let mut seen = Seen::default();
        assert!(seen.is_new("a") && !seen.is_new("a") && seen.has("a"));
        assert!((0..Seen::MAX).all(|n| seen.is_new(&n.to_string())));
        assert!(!seen.has("a"));
        assert_eq!(seen.0.len(), Seen::MAX);
    }

    #[test]
    fn a_state_comes_back_and_another_form_is_refused() {
        let state = snapshot("mail/1", &vec![1, 2]);
        assert_eq!(restored::<Vec<u8>>("mail/1", &state), Ok(vec![1, 2]));
        assert!(restored::<Vec<u8>>("mail/2", &state).expect_err("refused").contains("mail/1"));
        assert!(restored::<String>("mail/1", &state).expect_err("refused").contains("cannot be read"));
    }
}
