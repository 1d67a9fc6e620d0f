//! Live records, read back from where they are.
//! Keeps true: every read checks the line's checksum, so a disk that forgets is an error and never a wrong record; each line is read once
//! for all of its records that follow each other.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Error;
use super::files::Name;
use super::line::{self, Change, Entry, Saved};
use super::live::Place;
use crate::fs::File;

/// A live record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: String,
    /// The transaction that put it last.
    pub seq: u64,
    /// JSON.
    pub body: Vec<u8>,
}

/// The records of one kind; made by [`super::Journal::records`].
pub struct Records {
    places: VecDeque<Place>,
    reader: Reader,
}

impl Records {
    pub(super) fn new(dir: &Path, places: Vec<Place>) -> Self {
        Self { places: places.into(), reader: Reader::new(dir) }
    }
}

impl Iterator for Records {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.places.pop_front()?;
        let record = |_: &str, id: &str, body: &[u8]| Record { id: id.to_owned(), seq: place.seq, body: body.to_vec() };
        Some(self.reader.with(&place, record))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.places.len(), Some(self.places.len()))
    }
}

impl ExactSizeIterator for Records {}

/// Reads lines, and keeps the file and the line that it read last.
pub(super) struct Reader {
    dir: PathBuf,
    file: Option<(Name, File)>,
    /// Where `line` is from.
    at: Option<(Name, u64)>,
    line: Vec<u8>,
    /// The records of the line by their place in it, once somebody wants their names; a long line is parsed once.
    parts: Option<Vec<Option<Part>>>,
}

struct Part {
    order: (u64, u32),
    kind: String,
    id: String,
    body: Range<usize>,
}

impl Reader {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), file: None, at: None, line: Vec::new(), parts: None }
    }

    /// The record at `place`, which is the one of this name.
    pub fn named(&mut self, kind: &str, id: &str, place: &Place) -> Result<Record, Error> {
        let record = |there: (&str, &str), body: &[u8]| {
            (there == (kind, id)).then(|| Record { id: id.to_owned(), seq: place.seq, body: body.to_vec() })
        };
        let found = self.with(place, |kind, id, body| record((kind, id), body))?;
        found.ok_or_else(|| self.damaged(place, ANOTHER))
    }

    /// Gives the kind, the id and the body of the record at `place`.
    pub fn with<R>(&mut self, place: &Place, take: impl FnOnce(&str, &str, &[u8]) -> R) -> Result<R, Error> {
        self.load(place)?;
        let parts = self.parts.get_or_insert_with(|| parts(&self.line, place.file()));
        let nth = if matches!(place.file(), Name::Snapshot(_)) { 0 } else { place.nth as usize };
        match parts.get(nth) {
            Some(Some(part)) if part.order == place.order() => {
                Ok(take(&part.kind, &part.id, &self.line[part.body.clone()]))
            }
            _ => Err(self.damaged(place, ANOTHER)),
        }
    }

    fn load(&mut self, place: &Place) -> Result<(), Error> {
        let name = place.file();
        if self.at == Some((name, place.offset)) {
            return Ok(());
        }
        self.at = None;
        self.parts = None;
        let path = name.path(&self.dir);
        let failed = |source| Error::io("read", &path, source);
        let file = match self.file.take().filter(|(known, _)| *known == name) {
            Some((_, file)) => file,
            None => File::open(&path).map_err(failed)?,
        };
        self.line.resize(place.len as usize, 0);
        file.read_exact_at(&mut self.line, place.offset).map_err(failed)?;
        self.file = Some((name, file));
        if !line::is_whole(&self.line) {
            return Err(self.damaged(place, "the checksum of a line that was whole when it was opened is wrong"));
        }
        // Every line begins with the number of its transaction.
        if !self.line.starts_with(format!("{{\"seq\":{},", place.seq).as_bytes()) {
            return Err(self.damaged(place, ANOTHER));
        }
        self.at = Some((name, place.offset));
        Ok(())
    }

    fn damaged(&self, place: &Place, what: &str) -> Error {
        Error::Corrupt { path: place.file().path(&self.dir), offset: place.offset, what: what.into() }
    }
}

const ANOTHER: &str = "another record is where this one was";

fn parts(line: &[u8], file: Name) -> Vec<Option<Part>> {
    match file {
        Name::Segment(_) => {
            let Some(entry) = Entry::read(line) else { return Vec::new() };
            let part = |(change, nth): (Change, u32)| {
                let (kind, id) = (change.kind.into(), change.id.into());
                change.body.map(|body| Part { order: (entry.seq, nth), kind, id, body })
            };
            entry.changes.into_iter().zip(0..).map(part).collect()
        }
        Name::Snapshot(_) => {
            let Some(saved) = Saved::read(line) else { return Vec::new() };
            let order = (saved.seq, saved.nth);
            vec![Some(Part { order, kind: saved.kind.into(), id: saved.id.into(), body: saved.body })]
        }
    }
}
