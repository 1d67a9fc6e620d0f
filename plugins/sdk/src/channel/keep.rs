//! What an adapter keeps: lists with an end, and its whole state as JSON under the name of its form.
//! Keeps true: a list never grows past its limit, the oldest goes; a state of another form is refused by its name.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

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
    // As much as most have, so that it is not moved while it grows.
    let mut bytes = Vec::with_capacity(8 * 1024);
    serde_json::to_writer(&mut bytes, state).expect("maps with numbers and strings for keys are JSON");
    State { schema: schema.into(), bytes }
}

pub fn restored<T: DeserializeOwned>(schema: &str, state: &State) -> Result<T, String> {
    if state.schema != schema {
        return Err(format!("the state is of the form `{}`; this version reads `{schema}`", state.schema));
    }
    serde_json::from_slice(&state.bytes).map_err(|error| format!("the state cannot be read: {error}"))
}

/// A part of the state that seldom changes: its JSON is made once, and again after a change. A list whose elements never change is one of
/// such parts: only the new one is written.
#[derive(Clone, Debug, Default)]
pub struct Seldom<T> {
    value: T,
    json: RefCell<Option<Box<RawValue>>>,
}

impl<T> From<T> for Seldom<T> {
    fn from(value: T) -> Self {
        Self { value, json: RefCell::default() }
    }
}

impl<T> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.json.take();
        &mut self.value
    }
}

impl<T: PartialEq> PartialEq for Seldom<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Serialize> Serialize for Seldom<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = self.json.borrow_mut();
        if json.is_none() {
            *json = Some(to_raw_value(&self.value).map_err(S::Error::custom)?);
        }
        json.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Seldom<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

/// Ids that were taken lately, so that none is taken twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seen(Seldom<VecDeque<String>>);

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
    fn what_seldom_changes_is_written_as_it_is_now() {
        let mut list = Seldom::<Vec<u8>>::default();
        let written = |list: &Seldom<Vec<u8>>| serde_json::to_string(list).expect("JSON");
        assert_eq!(written(&list), "[]");
        list.push(7);
        assert_eq!((written(&list), written(&list)), ("[7]".into(), "[7]".into()));
        let read: Seldom<Vec<u8>> = serde_json::from_str("[7]").expect("it reads back");
        assert_eq!(read, list);
        list.clear();
        assert_eq!(written(&list), "[]");
    }

    #[test]
    fn a_state_comes_back_and_another_form_is_refused() {
        let state = snapshot("mail/1", &vec![1, 2]);
        assert_eq!(restored::<Vec<u8>>("mail/1", &state), Ok(vec![1, 2]));
        assert!(restored::<Vec<u8>>("mail/2", &state).expect_err("refused").contains("mail/1"));
        assert!(restored::<String>("mail/1", &state).expect_err("refused").contains("cannot be read"));
    }
}
