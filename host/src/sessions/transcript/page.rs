//! Rows of a transcript, read from its end backwards: as many as somebody wants, whatever the file holds before them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

use crate::clock::Timestamp;

/// Reading backwards goes in steps of this.
const STEP_BYTES: u64 = 64 * 1024;
/// A line that such a piece begins in the middle of is most often shorter than this.
const SLACK_BYTES: usize = 4 * 1024;
/// A line past this is not ours.
const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(super) fn end_of_last_line(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(STEP_BYTES);
        let chunk = read_at(file, start, end)?;
        if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn read_at(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    // Room for what is held after it, and a byte to see that it is the end: nothing is copied for want of room.
    let mut bytes = Vec::with_capacity(usize::try_from(end - start).unwrap_or(0) + SLACK_BYTES);
    Read::by_ref(file).take(end - start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Rows of a transcript, oldest first, and where they begin in it.
#[derive(Debug)]
pub(in crate::sessions) struct Page<T = Value> {
    pub(in crate::sessions) rows: Vec<T>,
    pub(in crate::sessions) begin: u64,
}

impl<T> Page<T> {
    /// The last rows before `end`, at most `max`, as what `take` makes of each, as long as it says so; the one that it says no with is the first
    /// of the page.
    pub(super) fn read(
        file: &mut File,
        end: u64,
        max: usize,
        mut take: impl FnMut(Value) -> (T, bool),
    ) -> io::Result<Self> {
        // A line that is no row is passed over.
        let mut taken = |line: &[u8], rows: &mut Vec<T>| match serde_json::from_slice(line) {
            Ok(row) => {
                let (row, more) = take(row);
                rows.push(row);
                more
            }
            Err(_) => true,
        };
        let mut rows = Vec::new();
        let (mut begin, mut start, mut held) = (end, end, Vec::new());
        while rows.len() < max && begin > 0 {
            // One line at a time from behind; what is read before it is kept for the next.
            let line_end = held.len().saturating_sub(1);
            match held[..line_end].iter().rposition(|byte| *byte == b'\n') {
                _ if held.is_empty() && start == 0 => break,
                Some(at) => {
                    let more = taken(&held[at + 1..line_end], &mut rows);
                    held.truncate(at + 1);
                    begin = start + at as u64 + 1;
                    if !more {
                        break;
                    }
                }
                None if start == 0 => {
                    begin = 0;
                    taken(&held[..line_end], &mut rows);
                    break;
                }
                None if held.len() > LINE_BYTES_MAX => {
                    return Err(io::Error::other("a line is longer than any of ours"));
                }
                None => {
                    // Twice as much each time, so that a long line is not copied again and again.
                    let step = STEP_BYTES.max(held.len() as u64);
                    let before = start.saturating_sub(step);
                    let mut bytes = read_at(file, before, start)?;
                    bytes.append(&mut held);
                    (held, start) = (bytes, before);
                }
            }
        }
        rows.reverse();
        Ok(Self { rows, begin })
    }
}

/// The last rows of a file, as long as `go_on` says so of each; none where there is no file.
pub(in crate::sessions) fn tail(
    path: &Path,
    end: Option<u64>,
    max: usize,
    mut go_on: impl FnMut(&Value) -> bool,
) -> io::Result<Page> {
    tail_of(path, end, max, |row| {
        let more = go_on(&row);
        (row, more)
    })
}

/// The same, as what `take` makes of each row.
pub(in crate::sessions) fn tail_of<T>(
    path: &Path,
    end: Option<u64>,
    max: usize,
    take: impl FnMut(Value) -> (T, bool),
) -> io::Result<Page<T>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Page { rows: Vec::new(), begin: 0 }),
        Err(error) => return Err(error),
    };
    let length = end_of_last_line(&mut file)?;
    let end = end.map_or(length, |end| end.min(length));
    Page::read(&mut file, end, max, take)
}

/// The names of the rows that are not older than `oldest`.
pub(in crate::sessions) fn there(path: &Path, oldest: Timestamp) -> io::Result<HashSet<String>> {
    let mut there = HashSet::new();
    tail(path, None, usize::MAX, |row| {
        if let Some(id) = row["__openclaw"]["id"].as_str() {
            there.insert(id.to_owned());
        }
        row["timestamp"].as_u64().is_none_or(|at| at >= oldest.0)
    })?;
    Ok(there)
}
