//! Opening: reads the newest snapshot and all segments after it, tells a torn end from damage, and mends only the former.
//! Keeps true: everything is read and judged before anything is changed; what is reported as there is durable before it is reported.
//! Never: takes a file that cannot be read for one that is not there.
//!
//! A tear. Several transactions are written at once, and until their flush returns, their pages reach the disk in any order: a hole with
//! whole lines after it is a lawful outcome of a crash. Every line names the first one of its group, and a group is written only after
//! the flush before it returned. So a hole is damage exactly if a whole line after it is of a later group; else nobody was told of
//! anything from the hole on, and it is cut.

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::files::{self, Lines, Name, ROOM};
use super::line::{self, Change, Entry, Head, Saved};
use super::live::{Live, Place};
use super::{Cut, Error};
use crate::append::{keep, write_again};
use crate::fs::{self, File, OpenOptions};
use crate::make_private_dir;

/// What is on disk.
#[derive(Debug)]
pub(super) struct Found {
    pub live: Live,
    pub seq: u64,
    pub snapshot: Option<u64>,
    /// The segment to append to.
    pub active: u64,
    /// Where its whole lines end; what follows is torn, or room.
    pub end: u64,
    /// Where the room after them ends.
    pub room: u64,
    pub sizes: BTreeMap<Name, u64>,
    /// Where its last group begins.
    group: u64,
    unfinished: Vec<PathBuf>,
    fresh: bool,
}

pub(super) fn recover(dir: &Path, aside: &Path) -> Result<(Found, File, Option<Cut>), Error> {
    make_private_dir(dir).map_err(|source| Error::io("create", dir, source))?;
    let found = read(dir)?;
    files::sync_dir(parent(dir))?;
    let (file, cut) = mend(dir, &found, aside)?;
    Ok((found, file, cut))
}

pub(super) fn read(dir: &Path) -> Result<Found, Error> {
    let listing = files::list(dir)?;
    let snapshot = listing.snapshots.last().copied();
    let first = snapshot.unwrap_or(1);
    let mut reading = Reading { dir, live: Live::default(), seq: 0, sizes: BTreeMap::new() };
    if let Some(number) = snapshot {
        reading.snapshot(number)?;
    }
    let segments: Vec<u64> = listing.segments.into_iter().filter(|number| *number >= first).collect();
    for (number, expected) in segments.iter().zip(first..) {
        if *number != expected {
            return Err(corrupt(dir, Name::Segment(expected), 0, "the segment is missing, and later ones are there"));
        }
    }
    if segments.is_empty() && snapshot.is_some() {
        return Err(corrupt(
            dir,
            Name::Segment(first),
            0,
            "the segment is missing, and the snapshot before it is there",
        ));
    }
    let mut last = Tail::default();
    for number in &segments {
        last = reading.segment(*number, segments.last() == Some(number))?;
    }
    Ok(Found {
        live: reading.live,
        seq: reading.seq,
        snapshot,
        active: segments.last().copied().unwrap_or(first),
        end: last.end,
        room: last.room,
        sizes: reading.sizes,
        group: last.group,
        unfinished: listing.unfinished,
        fresh: segments.is_empty(),
    })
}

/// How a segment ends.
#[derive(Default)]
struct Tail {
    /// Where the whole lines end.
    end: u64,
    /// Where the room after them ends.
    room: u64,
    /// Where the last group begins.
    group: u64,
}

struct Reading<'a> {
    dir: &'a Path,
    live: Live,
    seq: u64,
    sizes: BTreeMap<Name, u64>,
}

impl Reading<'_> {
    fn open(&self, name: Name) -> Result<Lines, Error> {
        let path = name.path(self.dir);
        File::open(&path).map(Lines::new).map_err(|source| Error::io("read", &path, source))
    }

    fn snapshot(&mut self, number: u64) -> Result<(), Error> {
        let name = Name::Snapshot(number);
        let mut lines = self.open(name)?;
        let (mut head, mut before, mut count) = (None, None, 0);
        while let Some(line) = lines.next().map_err(|source| Error::io("read", &name.path(self.dir), source))? {
            let damaged = |what| corrupt(self.dir, name, line.offset, what);
            if !line.ended || !line::is_whole(line.bytes) {
                return Err(damaged("the checksum is wrong"));
            }
            let Some((last, _)) = head else {
                let first: Head =
                    serde_json::from_slice(line.bytes).map_err(|_| damaged("not the head of a snapshot"))?;
                if first.snapshot != number {
                    return Err(damaged("the head is that of another snapshot"));
                }
                head = Some((first.seq, first.records));
                continue;
            };
            let saved = Saved::read(line.bytes).ok_or_else(|| damaged("not a record of this version"))?;
            let order = (saved.seq, saved.nth);
            if before >= Some(order) || saved.seq > last {
                return Err(damaged("the record is out of order"));
            }
            before = Some(order);
            count += 1;
            let at = (line.offset, u32::try_from(line.bytes.len()).unwrap_or(u32::MAX));
            let place = Place::new(name, at, order, saved.body);
            self.live.put(saved.kind, &saved.id, place);
        }
        match head {
            Some((seq, records)) if records == count && self.live.count as u64 == count => self.seq = seq,
            _ => return Err(corrupt(self.dir, name, lines.offset, "the snapshot ends before all of its records")),
        }
        self.sizes.insert(name, lines.offset);
        Ok(())
    }

    fn segment(&mut self, number: u64, is_last: bool) -> Result<Tail, Error> {
        let name = Name::Segment(number);
        let mut lines = self.open(name)?;
        // The first line of the group under way: its number and its place.
        let mut group = (0, 0);
        let failed = |source| Error::io("read", &name.path(self.dir), source);
        while let Some(line) = lines.next().map_err(failed)? {
            let (offset, expected) = (line.offset, self.seq + 1);
            let damaged = |what| corrupt(self.dir, name, offset, what);
            if line.is_room() {
                self.sizes.insert(name, offset);
                return Ok(Tail { end: offset, room: offset + line.bytes.len() as u64, group: group.1 });
            }
            let whole = line.ended && line::is_whole(line.bytes);
            // A checksum is never right by chance: such a line was written by somebody else, or by a later version.
            let read = || Entry::read(line.bytes).ok_or_else(|| damaged("not a transaction of this version"));
            match whole.then(read).transpose()? {
                Some(entry) if entry.seq == expected => {
                    if entry.group == expected {
                        group = (expected, offset);
                    } else if entry.group != group.0 {
                        return Err(damaged("the transaction is of a group that did not begin here"));
                    }
                    let at = (offset, u32::try_from(line.bytes.len()).unwrap_or(u32::MAX));
                    apply(&mut self.live, name, at, entry);
                    self.seq = expected;
                }
                unfit => {
                    let what = if unfit.is_some() { "a transaction is missing before this one" } else { HOLE };
                    let proof = unfit.is_some_and(|entry| entry.group > expected);
                    if !is_last || proof || has_proof(&mut lines, expected).map_err(failed)? {
                        return Err(damaged(what));
                    }
                    self.sizes.insert(name, lines.offset);
                    return Ok(Tail { end: offset, room: offset, group: group.1 });
                }
            }
        }
        self.sizes.insert(name, lines.offset);
        Ok(Tail { end: lines.offset, room: lines.offset, group: group.1 })
    }
}

const HOLE: &str = "the checksum is wrong, and what follows was written when this line was durable";

/// Whether a whole line further on was written when `seq` was already durable. Reads to the end of the file.
fn has_proof(lines: &mut Lines, seq: u64) -> io::Result<bool> {
    while let Some(line) = lines.next()? {
        let is_later = || Entry::read(line.bytes).is_some_and(|entry| entry.group > seq);
        if line.ended && line::is_whole(line.bytes) && is_later() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn apply(live: &mut Live, name: Name, at: (u64, u32), entry: Entry) {
    for (change, nth) in entry.changes.into_iter().zip(0..) {
        let Change { kind, id, body } = change;
        match body {
            Some(body) => live.put(kind, &id, Place::new(name, at, (entry.seq, nth), body)),
            None => live.drop(kind, &id),
        }
    }
}

/// Makes certain what was read: cuts a torn end, flushes the last group, and removes what nobody needs.
fn mend(dir: &Path, found: &Found, aside: &Path) -> Result<(File, Option<Cut>), Error> {
    let name = Name::Segment(found.active);
    let path = name.path(dir);
    if found.fresh {
        let file = files::create_new(&path).map_err(|source| Error::io("create", &path, source))?;
        files::sync_dir(dir)?;
        return sweep(dir, found).map(|()| (file, None));
    }
    let failed = |source| Error::io("mend", &path, source);
    let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
    let size = found.sizes.get(&name).copied().unwrap_or(found.end);
    let bytes = if found.end < size { torn(&file, found.end, size).map_err(failed)? } else { 0 };
    let cut = (found.end < size).then(|| Cut { path: path.clone(), offset: found.end, bytes });
    if cut.is_some() {
        file.seek(SeekFrom::Start(found.end)).map_err(failed)?;
        // Kept first, cut second: a crash in between keeps the bytes twice, never loses them.
        keep(&file, bytes, aside).map_err(|source| Error::io("write", aside, source))?;
    }
    // Also the room: a flush that failed may have left it in memory alone, and a segment whose room turns out to be something else after it
    // was closed would look damaged.
    if found.end < size.max(found.room) {
        file.set_len(found.end).map_err(failed)?;
    }
    // The last group was read, perhaps from memory alone: after a flush that failed the kernel calls its pages clean and would never
    // write them. Written again, they are dirty, and the flush is an honest one.
    write_again(&file, found.group, found.end).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    files::sync_dir(dir)?;
    sweep(dir, found)?;
    Ok((file, cut))
}

/// How much of what follows the whole lines is not room.
fn torn(file: &File, end: u64, size: u64) -> io::Result<u64> {
    const BLOCK: u64 = 64 * 1024;
    let (mut to, mut block) = (size, Vec::new());
    while to > end {
        let from = to.saturating_sub(BLOCK).max(end);
        block.resize(usize::try_from(to - from).unwrap_or(0), 0);
        file.read_exact_at(&mut block, from)?;
        if let Some(last) = block.iter().rposition(|byte| *byte != ROOM) {
            return Ok(from + last as u64 + 1 - end);
        }
        to = from;
    }
    Ok(0)
}

fn sweep(dir: &Path, found: &Found) -> Result<(), Error> {
    for path in &found.unfinished {
        fs::remove_file(path).map_err(|source| Error::io("remove", path, source))?;
    }
    found.snapshot.map_or(Ok(()), |number| files::remove_before(dir, number))
}

fn corrupt(dir: &Path, name: Name, offset: u64, what: &str) -> Error {
    Error::Corrupt { path: name.path(dir), offset, what: what.to_owned() }
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
