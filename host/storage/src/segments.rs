//! A log in segments: one file that grows, and closed ones that never change again. Readers see one continuous log.
//! Owns the names of the files. Keeps true: a segment's number is its place in the log for as long as it is there; what was flushed stays.
//! Never: knows what a line says (the caller tells when one was written), or flushes again after a flush that failed.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::append::{AppendLog, Refusal, Repair, UNFLUSHED_MAX, make_certain};
use crate::atomic::flush_directory;
use crate::fs::{self, File};

/// The time in a line, in milliseconds since 1970.
pub type TimeOf = fn(line: &[u8]) -> Option<u64>;

/// A calendar month, so that closed segments carry one in their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    pub year: i16,
    pub month: i8,
}

/// Of a foreign file, so much is read to find the time of its first line.
const HEAD_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub number: u32,
    pub path: PathBuf,
    /// Nothing is appended to it any more.
    pub closed: bool,
}

/// Finds the segments of a log, and tells them apart when a writer renames one.
#[derive(Debug)]
pub struct Catalogue {
    dir: PathBuf,
    stem: String,
    time_of: TimeOf,
    /// First times of files that others have named.
    first_times: HashMap<PathBuf, u64>,
}

impl Catalogue {
    pub fn new(dir: &Path, stem: &str, time_of: TimeOf) -> Self {
        Self { dir: dir.to_owned(), stem: stem.to_owned(), time_of, first_times: HashMap::new() }
    }

    /// Every segment in the order of the log. Ours carry their number; files that others closed come before them, by the time of their first
    /// line. A foreign file that came too late to be numbered is no part of the log.
    pub fn segments(&mut self) -> io::Result<Vec<Segment>> {
        let active = self.dir.join(format!("{}.ndjson", self.stem));
        let (mut ours, mut foreign, mut is_active) = (Vec::new(), Vec::new(), false);
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if !(name.starts_with(&self.stem) && name.ends_with(".ndjson")) {
                continue;
            }
            match number_in(name, &self.stem) {
                _ if path == active => is_active = true,
                Some(number) => ours.push(Segment { number, path, closed: true }),
                None => foreign.push((self.first_time(&path)?, path)),
            }
        }
        foreign.sort();
        ours.sort_by_key(|segment| segment.number);
        let first_of_ours = ours.first().map_or(u32::MAX, |segment| segment.number);
        let numbered = foreign.into_iter().zip(1..first_of_ours);
        let mut all: Vec<Segment> =
            numbered.map(|((_, path), number)| Segment { number, path, closed: true }).chain(ours).collect();
        if is_active {
            let number = all.last().map_or(1, |last| last.number + 1);
            all.push(Segment { number, path: active, closed: false });
        }
        Ok(all)
    }

    fn first_time(&mut self, path: &Path) -> io::Result<u64> {
        if let Some(known) = self.first_times.get(path) {
            return Ok(*known);
        }
        let file = File::open(path)?;
        let mut head = Vec::new();
        (&file).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        let told = head.split(|byte| *byte == b'\n').find_map(self.time_of);
        let first = match told {
            Some(time) => time,
            None => {
                let changed = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(changed.as_millis()).unwrap_or(u64::MAX)
            }
        };
        self.first_times.insert(path.to_owned(), first);
        Ok(first)
    }
}

/// `7` in `stem.2026-11.7.ndjson`.
fn number_in(name: &str, stem: &str) -> Option<u32> {
    let inside = name.strip_prefix(stem)?.strip_prefix('.')?.strip_suffix(".ndjson")?;
    let (month, number) = inside.split_once('.')?;
    let (year, month) = month.split_once('-')?;
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(year, 4) && digits(month, 2)).then(|| number.parse().ok())?.filter(|number| *number > 0)
}

/// Why the log did not take what it was given.
#[derive(Debug)]
pub enum LogError {
    /// It may take it later: what was given is not in the log, also not after a crash, but for the first `written` bytes, which are whole
    /// lines.
    Append { written: usize, cause: io::Error },
    /// What the disk holds is not known any more: only opening the log again tells.
    Flush(io::Error),
}

/// The one appender of a log.
#[derive(Debug)]
pub struct SegmentLog {
    catalogue: Catalogue,
    segment_bytes: u64,
    active: AppendLog,
    path: PathBuf,
    number: u32,
    month: Option<Month>,
    month_of: fn(u64) -> Month,
    /// Bytes of the active segment that no flush has reached.
    unflushed: usize,
    broken: bool,
}

impl SegmentLog {
    /// Opens or creates the log; an end that a crash has torn goes to `aside`. Every line that is there is durable once it returns.
    pub fn open(
        catalogue: Catalogue,
        aside: &Path,
        segment_bytes: u64,
        month_of: fn(u64) -> Month,
    ) -> io::Result<(Self, Option<Repair>)> {
        let mut catalogue = catalogue;
        let path = catalogue.dir.join(format!("{}.ndjson", catalogue.stem));
        // A process that was killed may have closed a segment without this; its name must be certain before another file takes the old one.
        flush_directory(&path)?;
        let (active, repair) = AppendLog::open(&path, aside)?;
        make_certain(&path)?;
        flush_directory(&path)?;
        let number = catalogue.segments()?.last().map_or(1, |last| last.number);
        let mut head = Vec::new();
        File::open(&path)?.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        let month = head.split(|byte| *byte == b'\n').find_map(catalogue.time_of).map(month_of);
        let log = Self { catalogue, segment_bytes, active, path, number, month, month_of, unflushed: 0, broken: false };
        Ok((log, repair))
    }

    /// Appends whole lines, each with its line end. `now` closes the segment of a month that is over.
    pub fn append(&mut self, lines: &[u8], now: u64) -> Result<(), LogError> {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\n"), "whole lines");
        self.check()?;
        let mut written = 0;
        let month = (self.month_of)(now);
        while written < lines.len() {
            let rest = &lines[written..];
            match self.make_room(rest, month).and_then(|fitting| self.write(&rest[..fitting])) {
                Ok(appended) => written += appended,
                Err(LogError::Append { cause, .. }) => return Err(LogError::Append { written, cause }),
                Err(broken @ LogError::Flush(_)) => return Err(broken),
            }
        }
        Ok(())
    }

    /// How many bytes of `lines` go into the active segment, which is a new one if the old one is full or its month over.
    fn make_room(&mut self, lines: &[u8], month: Month) -> Result<usize, LogError> {
        let refused = |cause| LogError::Append { written: 0, cause };
        let len = self.active.bytes().map_err(refused)?;
        // A clock that was set back closes nothing.
        let is_over = self.month.is_some_and(|of_first| month > of_first);
        let room = usize::try_from(self.segment_bytes.saturating_sub(len)).unwrap_or(usize::MAX);
        if len > 0 && (is_over || room < first_line(lines)) {
            self.rotate(month)?;
            return self.make_room(lines, month);
        }
        if len == 0 || self.month.is_none() {
            self.month = Some(month);
        }
        // So that opening knows how far back a crash may have reached.
        if self.unflushed > 0 && self.unflushed + first_line(lines) > UNFLUSHED_MAX {
            self.flush()?;
        }
        Ok(fitting(lines, room.min(UNFLUSHED_MAX - self.unflushed)))
    }

    fn write(&mut self, lines: &[u8]) -> Result<usize, LogError> {
        match self.active.try_append(&lines[..lines.len() - 1]) {
            Ok(()) => {
                self.unflushed += lines.len();
                Ok(lines.len())
            }
            Err(Refusal::TakenBack(cause)) => Err(LogError::Append { written: 0, cause }),
            Err(Refusal::Unknown(cause)) => Err(self.stop(cause)),
        }
    }

    /// Closes the active segment and begins the next.
    fn rotate(&mut self, now: Month) -> Result<(), LogError> {
        self.flush()?;
        let refused = |cause| LogError::Append { written: 0, cause };
        let Month { year, month } = self.month.unwrap_or(now);
        let name = format!("{}.{year:04}-{month:02}.{}.ndjson", self.catalogue.stem, self.number);
        let closed = self.catalogue.dir.join(name);
        fs::rename(&self.path, &closed).map_err(refused)?;
        // The new name is certain before another file takes the old one: a power cut that kept only the latter would lose the segment.
        flush_directory(&self.path).map_err(|cause| self.stop(cause))?;
        match AppendLog::create(&self.path) {
            Ok(active) => self.active = active,
            Err(cause) => {
                // The old one goes on: a log without an active segment would lose what comes. Its name is certain before more is written:
                // nobody mends the end of a closed segment.
                let back = fs::rename(&closed, &self.path).and_then(|()| flush_directory(&self.path));
                back.map_err(|cause| self.stop(cause))?;
                return Err(refused(cause));
            }
        }
        self.number += 1;
        self.month = None;
        flush_directory(&self.path).map_err(|cause| self.stop(cause))
    }

    /// Removes segments from the beginning on whose lines are all from before a time, or that are more than `bytes_max` together with those
    /// after them; gives how many. The latest closed one stays, since the active one is counted from it, and so does what another has named,
    /// with everything after it.
    pub fn forget(&mut self, before: u64, bytes_max: u64) -> io::Result<usize> {
        let segments = self.catalogue.segments()?;
        let sizes: Vec<u64> = segments.iter().map(|segment| size_of(&segment.path)).collect::<io::Result<_>>()?;
        let (mut removed, mut bytes) = (0, sizes.iter().sum::<u64>());
        for ((old, next), size) in segments.iter().zip(segments.iter().skip(1)).zip(&sizes) {
            let is_ours = old.path.file_name().and_then(|name| name.to_str());
            let is_ours = is_ours.is_some_and(|name| number_in(name, &self.catalogue.stem).is_some());
            if !is_ours || !next.closed || (bytes <= bytes_max && self.catalogue.first_time(&next.path)? >= before) {
                break;
            }
            fs::remove_file(&old.path)?;
            bytes -= size;
            self.catalogue.first_times.remove(&old.path);
            removed += 1;
        }
        Ok(removed)
    }

    fn check(&self) -> Result<(), LogError> {
        if self.broken { Err(LogError::Flush(io::Error::other("an earlier flush failed"))) } else { Ok(()) }
    }

    /// Flushes to the device. A log whose flush failed takes nothing more.
    pub fn flush(&mut self) -> Result<(), LogError> {
        self.check()?;
        self.active.sync().map_err(|cause| self.stop(cause))?;
        self.unflushed = 0;
        Ok(())
    }

    fn stop(&mut self, cause: io::Error) -> LogError {
        self.broken = true;
        LogError::Flush(cause)
    }
}

fn size_of(path: &Path) -> io::Result<u64> {
    Ok(File::open(path)?.metadata()?.len())
}

/// How many bytes are whole lines that fit; the first line always does.
fn fitting(lines: &[u8], room: usize) -> usize {
    if lines.len() <= room {
        return lines.len();
    }
    lines[..room].iter().rposition(|byte| *byte == b'\n').map_or_else(|| first_line(lines), |at| at + 1)
}

fn first_line(lines: &[u8]) -> usize {
    lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| at + 1)
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;
    use std::fs;

    /// Lines of these tests are their own time.
    fn time_of(line: &[u8]) -> Option<u64> {
        std::str::from_utf8(line).ok()?.split(' ').next()?.parse().ok()
    }

    /// Months of a hundred milliseconds.
    fn month_of(time: u64) -> Month {
        Month { year: 2026, month: i8::try_from(1 + time / 100).expect("few months") }
    }

    fn log(dir: &Path, segment_bytes: u64) -> SegmentLog {
        let catalogue = Catalogue::new(dir, "events", time_of);
        SegmentLog::open(catalogue, &dir.join("aside"), segment_bytes, month_of).expect("opens").0
    }

    fn names(dir: &Path) -> Vec<(u32, String)> {
        let segments = Catalogue::new(dir, "events", time_of).segments().expect("listed");
        let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
        segments.iter().map(|segment| (segment.number, name(&segment.path))).collect()
    }

    fn everything(dir: &Path) -> String {
        let segments = Catalogue::new(dir, "events", time_of).segments().expect("listed");
        segments.iter().map(|segment| fs::read_to_string(&segment.path).expect("readable")).collect()
    }

    #[test]
    fn what_is_old_is_forgotten_in_whole_segments_and_the_others_keep_their_numbers() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut log = log(dir.path(), 8);
        log.append(b"1 a\n2 b\n3 c\n4 d\n5 e\n6 f\n7 g\n8 h\n", 1).expect("appended");
        assert_eq!(names(dir.path()).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(
            log.forget(3, u64::MAX).expect("looked"),
            0,
            "a line of the first is not older than its next one's first"
        );
        assert_eq!(log.forget(4, u64::MAX).expect("looked"), 1);
        assert_eq!(log.forget(1_000, u64::MAX).expect("looked"), 1, "the latest closed one stays");
        assert_eq!(names(dir.path()).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4]);
        log.append(b"9 i\n", 1).expect("appended");
        assert_eq!(everything(dir.path()), "5 e\n6 f\n7 g\n8 h\n9 i\n");
        assert_eq!(names(dir.path()).last().map(|(number, _)| *number), Some(5));
    }

    #[test]
    fn past_so_many_bytes_the_oldest_segments_are_forgotten() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut log = log(dir.path(), 8);
        log.append(b"1 a\n2 b\n3 c\n4 d\n5 e\n6 f\n7 g\n8 h\n", 1).expect("appended");
        assert_eq!(log.forget(0, 32).expect("looked"), 0, "as much as may be");
        assert_eq!(log.forget(0, 31).expect("looked"), 1);
        assert!(everything(dir.path()).starts_with("3 c\n"));
        assert_eq!(log.forget(0, 0).expect("looked"), 1, "the latest closed one stays");
        assert_eq!(everything(dir.path()), "5 e\n6 f\n7 g\n8 h\n");
    }

    #[test]
    fn nothing_is_forgotten_behind_a_file_of_another() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("events.old.ndjson"), "1 z\n").expect("written");
        let mut log = log(dir.path(), 8);
        log.append(b"2 b\n3 c\n4 d\n5 e\n6 f\n7 g\n", 1).expect("appended");
        assert_eq!(log.forget(1_000, u64::MAX).expect("looked"), 0);
        assert!(everything(dir.path()).starts_with("1 z\n2 b\n"));
    }

    #[test]
    fn segments_are_closed_when_full_and_read_as_one_log() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut log = log(dir.path(), 12);
        log.append(b"1 a\n2 b\n", 1).expect("appended");
        log.append(b"3 c\n4 d\n5 a long line\n6 e\n", 1).expect("appended");
        assert_eq!(everything(dir.path()), "1 a\n2 b\n3 c\n4 d\n5 a long line\n6 e\n");
        let expected =
            ["events.2026-01.1.ndjson", "events.2026-01.2.ndjson", "events.2026-01.3.ndjson", "events.ndjson"];
        let found = names(dir.path());
        assert_eq!(found.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), expected);
        assert_eq!(found.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn a_month_that_is_over_closes_its_segment_and_a_clock_set_back_does_not() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut first = log(dir.path(), 1_000);
        first.append(b"10 a\n", 10).expect("appended");
        drop(first);
        let mut second = log(dir.path(), 1_000);
        second.append(b"120 b\n", 120).expect("appended");
        second.append(b"90 c\n", 90).expect("appended");
        let named: Vec<String> = names(dir.path()).into_iter().map(|(_, name)| name).collect();
        assert_eq!(named, ["events.2026-01.1.ndjson", "events.ndjson"]);
        assert_eq!(fs::read_to_string(dir.path().join("events.ndjson")).expect("readable"), "120 b\n90 c\n");
    }

    #[test]
    fn an_empty_segment_is_of_the_month_of_its_first_line() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut log = log(dir.path(), 1_000);
        // As if the disk had been full since last month.
        log.month = Some(month_of(10));
        log.append(b"120 a\n", 120).expect("appended");
        log.append(b"121 b\n", 121).expect("appended");
        assert_eq!(names(dir.path()), [(1, "events.ndjson".to_owned())]);
    }

    #[test]
    fn what_waits_for_a_flush_has_an_end() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut log = log(dir.path(), u64::MAX);
        let lines = b"1 a line of some length\n".repeat(UNFLUSHED_MAX / 10);
        log.append(&lines, 1).expect("appended");
        assert!(log.unflushed > 0 && log.unflushed <= UNFLUSHED_MAX, "{}", log.unflushed);
        let long = [vec![b'x'; 2 * UNFLUSHED_MAX].as_slice(), b"\n"].concat();
        log.append(&long, 1).expect("appended");
        assert_eq!(log.unflushed, long.len(), "a line is never cut, and waits alone");
        assert!(everything(dir.path()).into_bytes() == [lines, long].concat());
    }

    #[test]
    fn files_that_others_closed_come_first_in_the_order_of_their_times() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("events-2025.ndjson"), "not a time\n7 x\n").expect("written");
        fs::write(dir.path().join("events.old.ndjson"), "5 y\n").expect("written");
        fs::write(dir.path().join("events.ndjson"), "9 z\n").expect("written");
        fs::write(dir.path().join("other.ndjson"), "1 w\n").expect("written");
        let mut log = log(dir.path(), 4);
        log.append(b"11 a\n", 11).expect("appended");
        let expected = [
            (1, "events.old.ndjson".to_owned()),
            (2, "events-2025.ndjson".to_owned()),
            (3, "events.2026-01.3.ndjson".to_owned()),
            (4, "events.ndjson".to_owned()),
        ];
        assert_eq!(names(dir.path()), expected);
        fs::write(dir.path().join("events-late.ndjson"), "8 v\n").expect("written");
        assert_eq!(names(dir.path()), expected, "there is no number left before ours");
    }

    #[test]
    fn only_our_own_names_carry_numbers() {
        let check = |name: &str, expected: Option<u32>| assert_eq!(number_in(name, "events"), expected, "{name}");
        check("events.2026-11.7.ndjson", Some(7));
        check("events.2026-11.0.ndjson", None);
        check("events.2026-1.7.ndjson", None);
        check("events.2026-11.ndjson", None);
        check("events.ndjson", None);
        check("events.2026-11.x.ndjson", None);
    }
}
