//! What lives: each record's place on disk, and nothing of its name or its body.
//! Keeps true: memory follows the number of records, not their names and bodies; the sum of what they would take in a snapshot is always known.

use std::collections::BTreeMap;
use std::ops::Range;

use super::files::Name;
use crate::{Digest, Table};

/// Where a record's line is, and which change of it made the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    file: File,
    pub offset: u64,
    pub seq: u64,
    /// Of the whole line, without its end.
    pub len: u32,
    pub nth: u32,
    /// Of its body.
    body_len: u32,
}

/// The name of a file in eight bytes: twice its number, and one more if it is a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct File(u64);

impl From<Name> for File {
    fn from(name: Name) -> Self {
        Self(name.number() << 1 | u64::from(matches!(name, Name::Segment(_))))
    }
}

impl Place {
    pub fn new(file: Name, (offset, len): (u64, u32), (seq, nth): (u64, u32), body: Range<usize>) -> Self {
        let body_len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        Self { file: file.into(), offset, len, seq, nth, body_len }
    }

    pub fn file(&self) -> Name {
        match self.file.0 & 1 {
            0 => Name::Snapshot(self.file.0 >> 1),
            _ => Name::Segment(self.file.0 >> 1),
        }
    }

    /// The record is now a line of a snapshot.
    pub fn moved(&mut self, file: Name, offset: u64, len: u32) {
        (self.file, self.offset, self.len) = (file.into(), offset, len);
    }

    /// The order in which records came to be.
    pub fn order(&self) -> (u64, u32) {
        (self.seq, self.nth)
    }

    /// What a record of this name takes in a snapshot, at most. Never less than its line there, or a fresh snapshot would already look half
    /// dead and be written again and again.
    fn weight(&self, kind: &str, id: &str) -> u64 {
        (kind.len() + 2 * id.len() + 110) as u64 + u64::from(self.body_len)
    }
}

type Records = Table<Place>;

#[derive(Debug, Default)]
pub(super) struct Live {
    kinds: BTreeMap<Box<str>, Records>,
    pub bytes: u64,
    pub count: usize,
}

impl Live {
    pub fn put(&mut self, kind: &str, id: &str, place: Place) {
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.into(), Records::default());
        }
        self.bytes += place.weight(kind, id);
        self.count += 1;
        let old = self.kinds.get_mut(kind).and_then(|records| records.insert(Digest::of(id), place));
        self.forget(kind, id, old);
    }

    pub fn drop(&mut self, kind: &str, id: &str) {
        let old = self.kinds.get_mut(kind).and_then(|records| records.remove(Digest::of(id)));
        self.forget(kind, id, old);
    }

    pub fn get(&self, kind: &str, id: Digest) -> Option<Place> {
        self.kinds.get(kind)?.get(id).copied()
    }

    /// The records of one kind that a transaction after `seq` put, in the order in which they came to be.
    pub fn of_kind(&self, kind: &str, seq: u64) -> Vec<Place> {
        let records = self.kinds.get(kind).into_iter().flat_map(Records::iter);
        let mut places: Vec<Place> = records.map(|(_, place)| *place).filter(|place| place.seq > seq).collect();
        places.sort_unstable_by_key(Place::order);
        places
    }

    pub fn all(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.kinds.values().flat_map(Records::iter).map(|(_, place)| *place).collect();
        places.sort_unstable_by_key(Place::order);
        places
    }

    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().filter(|(_, records)| !records.is_empty()).map(|(kind, _)| &**kind)
    }

    pub fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.kinds.values_mut().flat_map(Records::values_mut)
    }

    fn forget(&mut self, kind: &str, id: &str, old: Option<Place>) {
        if let Some(old) = old {
            self.bytes -= old.weight(kind, id);
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_tells_its_file_in_few_bytes() {
        for name in [Name::Snapshot(0), Name::Segment(0), Name::Snapshot(7), Name::Segment(u64::MAX >> 1)] {
            assert_eq!(Place::new(name, (1, 2), (3, 4), 5..9).file(), name);
        }
        assert!(size_of::<Place>() <= 40);
    }

    #[test]
    fn what_is_put_again_or_dropped_weighs_nothing_any_more() {
        let mut live = Live::default();
        let place = |seq: u64, len: usize| Place::new(Name::Segment(1), (0, 100), (seq, 0), 10..10 + len);
        live.put("job", "a", place(2, 10));
        live.put("job", "b", place(1, 20));
        let both = live.bytes;
        live.put("job", "a", place(3, 90));
        assert_eq!((live.count, live.bytes), (2, both + 80));
        assert_eq!(live.of_kind("job", 0), [place(1, 20), place(3, 90)]);
        assert_eq!(live.get("run", Digest::of("a")), None);
        ["a", "b", "c"].iter().for_each(|id| live.drop("job", id));
        assert_eq!((live.count, live.bytes, live.kinds().count()), (0, 0, 0));
    }
}
