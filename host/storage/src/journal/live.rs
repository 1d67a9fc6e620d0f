//! What lives: each record's place on disk, and nothing of its body.
//! Keeps true: memory follows the number of records, not their bytes; the sum of what they would take in a snapshot is always known.

use std::collections::BTreeMap;
use std::ops::Range;

use super::files::Name;
use super::line::SEAL_BYTES;

/// Where a record's line is, and which change of it made the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub file: Name,
    pub offset: u64,
    /// Of the whole line, without its end.
    pub len: u32,
    pub seq: u64,
    pub nth: u32,
    /// Where the body is in the line.
    body: u32,
    body_len: u32,
    /// What the record takes in a snapshot, at most.
    weight: u32,
}

impl Place {
    pub fn new(
        file: Name,
        (offset, len): (u64, u32),
        (seq, nth): (u64, u32),
        kind: &str,
        id: &str,
        body: Range<usize>,
    ) -> Self {
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        // Never less than the line in a snapshot, or a fresh snapshot would already look half dead and be written again and again.
        let weight = short(kind.len() + 2 * id.len() + body.len()).saturating_add(110);
        Self { file, offset, len, seq, nth, body: short(body.start), body_len: short(body.len()), weight }
    }

    /// Where the body is in the line.
    pub fn body(&self) -> Range<usize> {
        self.body as usize..self.body as usize + self.body_len as usize
    }

    /// The record is now a line of a snapshot, which ends with its body.
    pub fn moved(&mut self, file: Name, offset: u64, len: u32) {
        (self.file, self.offset, self.len) = (file, offset, len);
        self.body = len.saturating_sub(SEAL_BYTES as u32 + self.body_len);
    }

    /// The order in which records came to be.
    pub fn order(&self) -> (u64, u32) {
        (self.seq, self.nth)
    }
}

type Records = BTreeMap<Box<str>, Place>;

#[derive(Debug, Default)]
pub(super) struct Live {
    kinds: BTreeMap<Box<str>, Records>,
    pub bytes: u64,
    pub count: usize,
}

impl Live {
    pub fn put(&mut self, kind: &str, id: &str, place: Place) {
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.into(), Records::new());
        }
        self.bytes += u64::from(place.weight);
        self.count += 1;
        let old = self.kinds.get_mut(kind).and_then(|records| match records.get_mut(id) {
            Some(known) => Some(std::mem::replace(known, place)),
            None => records.insert(id.into(), place),
        });
        self.forget(old);
    }

    pub fn drop(&mut self, kind: &str, id: &str) {
        let old = self.kinds.get_mut(kind).and_then(|records| records.remove(id));
        self.forget(old);
    }

    pub fn get(&self, kind: &str, id: &str) -> Option<Place> {
        self.kinds.get(kind)?.get(id).copied()
    }

    /// The records of one kind that a transaction after `seq` put, in the order in which they came to be.
    pub fn of_kind(&self, kind: &str, seq: u64) -> Vec<(&str, Place)> {
        let records = self.kinds.get(kind).into_iter().flatten().filter(|(_, place)| place.seq > seq);
        let mut places: Vec<(&str, Place)> = records.map(|(id, place)| (&**id, *place)).collect();
        places.sort_unstable_by_key(|(_, place)| place.order());
        places
    }

    pub fn all(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.kinds.values().flatten().map(|(_, place)| *place).collect();
        places.sort_unstable_by_key(Place::order);
        places
    }

    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().filter(|(_, records)| !records.is_empty()).map(|(kind, _)| &**kind)
    }

    pub fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.kinds.values_mut().flatten().map(|(_, place)| place)
    }

    fn forget(&mut self, old: Option<Place>) {
        if let Some(old) = old {
            self.bytes -= u64::from(old.weight);
            self.count -= 1;
        }
    }
}
