//! The way out of a damaged journal: what is whole in it is written into a new one, and the old one is kept beside it.
//! Keeps true: the old directory is not changed, and has its name until the new one is whole and durable. Never: runs by itself.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::files::{self, Lines, Name};
use super::line::{self, Entry, Saved};
use super::recover;
use super::{Error, Record, Records};
use crate::fs::{self, File};
use crate::{make_private_dir, owner};

/// What could be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    pub records: usize,
    /// Lines that say nothing any more.
    pub lost: u64,
    /// Where the damaged journal is now.
    pub aside: PathBuf,
}

/// Reads a journal without changing it, and counts its records. A torn end is no damage: opening mends it.
pub fn check(dir: &Path) -> Result<usize, Error> {
    match fs::exists(dir) {
        Ok(false) => Ok(0),
        Ok(true) => recover::read(dir).map(|found| found.live.count),
        Err(source) => Err(Error::io("read", dir, source)),
    }
}

/// The live records of a kind, read without changing anything.
pub fn records(dir: &Path, kind: &str) -> Result<Vec<Record>, Error> {
    let found = recover::read(dir)?;
    Records::new(dir, found.live.of_kind(kind, 0)).collect()
}

/// Makes a new journal in `dir` of what is whole in the one there, which becomes `aside`. Whoever calls holds the lock of the state directory.
pub fn salvage(dir: &Path, aside: &Path) -> Result<Salvaged, Error> {
    let listing = files::list(dir)?;
    let snapshot = listing.snapshots.last().copied();
    let segments = listing.segments.iter().copied().filter(|number| snapshot.is_none_or(|first| *number >= first));
    let mut kept = Kept::default();
    for name in snapshot.map(Name::Snapshot).into_iter().chain(segments.map(Name::Segment)) {
        kept.read(dir, name)?;
    }
    let number = listing.segments.iter().chain(&listing.snapshots).max().copied().unwrap_or(0) + 1;
    let fresh = dir.with_extension("mended");
    make_private_dir(&fresh).map_err(|source| Error::io("create", &fresh, source))?;
    for left in files::list(&fresh)?.every_path(&fresh) {
        fs::remove_file(&left).map_err(|source| Error::io("remove", &left, source))?;
    }
    let (records, lost) = (kept.records.len(), kept.lost);
    kept.write(&fresh, number)?;
    give(&fresh, dir)?;
    change_places(&fresh, dir).map_err(|source| Error::io("put in place", &fresh, source))?;
    fs::rename(&fresh, aside).map_err(|source| Error::io("set aside", &fresh, source))?;
    files::sync_dir(recover::parent(dir))?;
    Ok(Salvaged { records, lost, aside: aside.to_owned() })
}

/// The new one belongs to whom the old one belongs to, also if root mends it.
fn give(fresh: &Path, old: &Path) -> Result<(), Error> {
    if cfg!(feature = "simulation") {
        return Ok(());
    }
    let files = files::list(fresh)?.every_path(fresh);
    let mut all = std::iter::once(fresh.to_owned()).chain(files);
    all.try_for_each(|path| owner::give(&path, old).map_err(|source| Error::io("give away", &path, source)))
}

/// In one step: at no moment is there no journal, which an open would take for a new one.
fn change_places(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Where a record stands in the order of all, and what it says.
type Body = ((u64, u32), Vec<u8>);

/// Everything that lives, as far as it can be told.
#[derive(Default)]
struct Kept {
    records: BTreeMap<(String, String), Body>,
    seq: u64,
    lost: u64,
}

impl Kept {
    fn read(&mut self, dir: &Path, name: Name) -> Result<(), Error> {
        let path = name.path(dir);
        let failed = |source: io::Error| Error::io("read", &path, source);
        let mut lines = Lines::new(File::open(&path).map_err(failed)?);
        while let Some(line) = lines.next().map_err(failed)? {
            let is_head = matches!(name, Name::Snapshot(_)) && line.offset == 0;
            let known = line.ended && line::is_whole(line.bytes) && (is_head || self.take(name, line.bytes));
            self.lost += u64::from(!known && !line.is_room());
        }
        Ok(())
    }

    /// Takes up what a line says; false if that cannot be told.
    fn take(&mut self, name: Name, line: &[u8]) -> bool {
        match name {
            Name::Snapshot(_) => {
                let Some(saved) = Saved::read(line) else { return false };
                let order = (saved.seq, saved.nth);
                self.put(saved.kind, &saved.id, order, &line[saved.body]);
            }
            Name::Segment(_) => {
                let Some(entry) = Entry::read(line) else { return false };
                for (change, nth) in entry.changes.into_iter().zip(0..) {
                    match change.body {
                        Some(body) => self.put(change.kind, &change.id, (entry.seq, nth), &line[body]),
                        None => drop(self.records.remove(&(change.kind.to_owned(), change.id.into_owned()))),
                    }
                }
                self.seq = self.seq.max(entry.seq);
            }
        }
        true
    }

    fn put(&mut self, kind: &str, id: &str, order: (u64, u32), body: &[u8]) {
        self.seq = self.seq.max(order.0);
        self.records.insert((kind.to_owned(), id.to_owned()), (order, body.to_vec()));
    }

    /// Writes a snapshot of it all and the empty segment after it, durably.
    fn write(self, dir: &Path, number: u64) -> Result<(), Error> {
        let mut records: Vec<_> = self.records.into_iter().collect();
        records.sort_by_key(|(_, (order, _))| *order);
        // Two that a damaged file gave one place are told apart again.
        let mut text = Vec::new();
        let count = records.len() as u64;
        let (mut before, mut seq) = (None, self.seq);
        let mut lines = Vec::new();
        for ((kind, id), ((at, nth), body)) in &records {
            let order = match before {
                Some((last, last_nth)) if (last, last_nth) >= (*at, *nth) => (last, last_nth + 1),
                _ => (*at, *nth),
            };
            before = Some(order);
            seq = seq.max(order.0);
            line::write_saved(&mut lines, order, kind, id, body);
        }
        line::write_head(&mut text, number, count, seq);
        text.append(&mut lines);
        for (name, bytes) in [(Name::Segment(number), &[][..]), (Name::Snapshot(number), &text)] {
            let path = name.path(dir);
            let written = files::create_new(&path).and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            });
            written.map_err(|source| Error::io("write", &path, source))?;
        }
        files::sync_dir(dir)
    }
}
