//! The journal's directory: what its files are called and how they are read.
//! Keeps true: a name is one of ours or ignored; a line is read up to its limit, however long the file says it is.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Error;
use super::line::LINE_BYTES_MAX;
use crate::fs::{self, File, OpenOptions};

/// Fills what a segment has room for: JSON may end with it, and no line begins or ends with it.
pub(super) const ROOM: u8 = b' ';

/// Files of higher numbers are somebody else's.
const NUMBER_MAX: u64 = u64::MAX >> 2;

/// One file of the journal, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// All that lived before the segment of this number.
    Snapshot(u64),
    Segment(u64),
}

impl Name {
    pub fn number(self) -> u64 {
        match self {
            Self::Snapshot(number) | Self::Segment(number) => number,
        }
    }

    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.to_string())
    }

    fn parse(name: &str) -> Option<Self> {
        let (what, rest) = name.split_once('.')?;
        let number = rest.strip_suffix(".ndjson")?.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
        let parsed = match what {
            "state" => Self::Segment(number),
            "snapshot" => Self::Snapshot(number),
            _ => return None,
        };
        // `state.+12.ndjson` and the like are somebody else's.
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Snapshot(number) => write!(f, "snapshot.{number:08}.ndjson"),
            Self::Segment(number) => write!(f, "state.{number:08}.ndjson"),
        }
    }
}

/// Where a snapshot is written before it has its name; [`crate::sweep`] knows such names too.
pub(super) fn unfinished(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!(".chela-snapshot.{number:08}.tmp"))
}

/// What a directory holds of ours.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub snapshots: Vec<u64>,
    pub segments: Vec<u64>,
    pub unfinished: Vec<PathBuf>,
}

impl Listing {
    /// Everything that is listed, where it is.
    pub fn every_path(self, dir: &Path) -> Vec<PathBuf> {
        let segments = self.segments.into_iter().map(Name::Segment);
        let names = segments.chain(self.snapshots.into_iter().map(Name::Snapshot)).map(|name| name.path(dir));
        names.chain(self.unfinished).collect()
    }
}

pub(super) fn list(dir: &Path) -> Result<Listing, Error> {
    let failed = |source| Error::io("list", dir, source);
    let mut listing = Listing::default();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        match Name::parse(&name) {
            Some(Name::Snapshot(number)) => listing.snapshots.push(number),
            Some(Name::Segment(number)) => listing.segments.push(number),
            None if name.starts_with(".chela-") && name.ends_with(".tmp") => listing.unfinished.push(entry.path()),
            None => {}
        }
    }
    listing.snapshots.sort_unstable();
    listing.segments.sort_unstable();
    Ok(listing)
}

/// Removes what a snapshot of `number` made needless. All are tried; the first failure is told.
pub(super) fn remove_before(dir: &Path, number: u64) -> Result<(), Error> {
    let listing = list(dir)?;
    let segments = listing.segments.into_iter().map(Name::Segment);
    let old = segments.chain(listing.snapshots.into_iter().map(Name::Snapshot)).filter(|name| name.number() < number);
    let mut outcome = Ok(());
    for name in old {
        let path = name.path(dir);
        if let Err(source) = fs::remove_file(&path) {
            outcome = outcome.and(Err(Error::io("remove", &path, source)));
        }
    }
    outcome
}

pub(super) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| Error::io("flush", dir, source))
}

/// For a new file of ours that nobody else may read.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Reads a file line by line, with the place of each.
pub(super) struct Lines {
    reader: BufReader<File>,
    pub offset: u64,
    line: Vec<u8>,
}

/// A line as it is in the file.
pub(super) struct Line<'a> {
    pub offset: u64,
    /// Without the line end.
    pub bytes: &'a [u8],
    /// It had a line end and kept to the limit.
    pub ended: bool,
}

impl Line<'_> {
    /// Whether it is only room for what comes, at the end of a segment.
    pub fn is_room(&self) -> bool {
        !self.ended && self.bytes.len() < LINE_BYTES_MAX && self.bytes.iter().all(|byte| *byte == ROOM)
    }
}

impl Lines {
    pub fn new(file: File) -> Self {
        Self { reader: BufReader::with_capacity(64 * 1024, file), offset: 0, line: Vec::new() }
    }

    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let offset = self.offset;
        let read = (&mut self.reader).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.offset += read as u64;
        let ended = self.line.last() == Some(&b'\n');
        if ended {
            self.line.pop();
        }
        Ok(Some(Line { offset, bytes: &self.line, ended }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_would_write_are_ours() {
        for name in [Name::Segment(1), Name::Snapshot(12), Name::Segment(123_456_789)] {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        for name in
            ["state.1.ndjson", "state.+0000001.ndjson", "state.00000001.ndjson.bak", "other.00000001.ndjson", "x"]
        {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }
}
