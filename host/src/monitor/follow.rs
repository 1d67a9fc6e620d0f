//! Reads the event log forward, segment by segment, while somebody writes it.
//! Keeps true: every line is given once, whole, in the order of the log; a line too long to hold is counted, not held. Never: writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chela_storage::{Catalogue, Segment};

use super::index::Mark;
use super::line::LINE_BYTES_MAX;
use super::mend::mend;

/// So much is read at once; more than any line that is taken.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;
/// So much of a segment's beginning tells it from another, and so much before where it was read to that it still is what was read.
const HEAD_BYTES: usize = 256;
/// How old the length of the whole log may be that progress is told by.
const TOTAL_EVERY: Duration = Duration::from_secs(2);
/// A place in a segment is told by 32 bits.
const SEGMENT_BYTES_MAX: u64 = u32::MAX as u64;

pub(super) struct Follower {
    catalogue: Catalogue,
    marks: BTreeMap<u32, Mark>,
    current: Option<Current>,
    /// How long the log was in all, and when that was looked up.
    total: Option<(Instant, u64)>,
}

struct Current {
    path: PathBuf,
    /// It has the name of the one that is written, not of one that is closed.
    active: bool,
    file: File,
    reading: Reading,
    /// A later segment was seen: this one grows no more.
    over: bool,
}

/// How far a segment was read.
pub(super) struct Reading {
    number: u32,
    offset: u64,
    /// Where the line began that it is inside of, which is too long.
    long_from: Option<u64>,
    limits: Limits,
}

/// How much is read at once, and how long a line may be that is taken: less.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) chunk: usize,
    pub(super) line: usize,
}

const LIMITS: Limits = Limits { chunk: CHUNK_BYTES, line: LINE_BYTES_MAX };

/// Lines of one segment, and how far the reading got with them.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) buffer: Vec<u8>,
    pub(super) lines: Vec<(i64, Range<usize>)>,
    /// Lines that were too long to look at, or never ended.
    pub(super) unreadable: u64,
    pub(super) mark: Option<Mark>,
}

/// What there is after the last chunk.
pub(super) enum Next {
    Chunk,
    /// Nothing more for now.
    End,
    /// What was read before is not what lies there now: everything is to be read again.
    Changed,
}

impl Follower {
    pub(super) fn new(catalogue: Catalogue, marks: Vec<Mark>) -> Self {
        Self { catalogue, marks: marks.into_iter().map(|mark| (mark.number, mark)).collect(), current: None, total: None }
    }

    /// Whether the segments that were read are still the ones that lie there. Those that were removed from the beginning are given back.
    pub(super) fn check(&mut self) -> io::Result<Option<Vec<u32>>> {
        let segments: BTreeMap<u32, PathBuf> =
            self.segments()?.into_iter().map(|segment| (segment.number, segment.path)).collect();
        let first = segments.keys().next().copied().unwrap_or(u32::MAX);
        let mut removed = Vec::new();
        for (number, mark) in &self.marks {
            match segments.get(number) {
                None if *number < first && first != u32::MAX => removed.push(*number),
                None => return Ok(None),
                Some(path) if is_same(path, mark)? => {}
                Some(_) => return Ok(None),
            }
        }
        self.marks.retain(|number, _| !removed.contains(number));
        Ok(Some(removed))
    }

    /// The last of the segments that were read and have been removed from the beginning since; from now on they were never there.
    pub(super) fn removed(&mut self) -> io::Result<Option<u32>> {
        let Some(first) = self.segments()?.iter().map(|segment| segment.number).min() else { return Ok(None) };
        let last = self.marks.range(..first).next_back().map(|(number, _)| *number);
        self.marks.retain(|number, _| *number >= first);
        Ok(last)
    }

    fn segments(&mut self) -> io::Result<Vec<Segment>> {
        match self.catalogue.segments() {
            // The directory comes with the first event.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// How much was read of how much there is, in bytes.
    pub(super) fn progress(&mut self) -> io::Result<(u64, u64)> {
        let read = self.marks.values().map(|mark| mark.read_to).sum();
        // Asked for with every chunk of news, and a log of months has thousands of files.
        if let Some((_, total)) = self.total.filter(|(at, _)| at.elapsed() < TOTAL_EVERY) {
            return Ok((read, total.max(read)));
        }
        let mut total = 0;
        for segment in self.segments()? {
            total += std::fs::metadata(&segment.path).map_or(0, |facts| facts.len());
        }
        self.total = Some((Instant::now(), total));
        Ok((read, total))
    }

    /// Fills `chunk` with the next lines.
    pub(super) fn read(&mut self, chunk: &mut Chunk) -> io::Result<Next> {
        chunk.lines.clear();
        chunk.unreadable = 0;
        chunk.mark = None;
        loop {
            let Some(mut current) = self.take_current()? else { return Ok(Next::End) };
            let read = current.fill(chunk)?;
            if read > 0 && current.reading.take_lines(chunk) {
                chunk.mark = Some(self.mark(&current)?);
                self.current = Some(current);
                return Ok(Next::Chunk);
            }
            if current.over {
                // What is left of it is a line that never ended.
                chunk.unreadable += u64::from(current.reading.long_from.take().is_some() || read > 0);
                current.reading.offset += read as u64;
                self.mark(&current)?;
                continue;
            }
            // While the one that is written lies under its name there is no later one, and the directory need not be listed.
            let later = !current.is_written()?
                && self.segments()?.iter().any(|segment| segment.number > current.reading.number);
            if later {
                // It may have grown between our last look and the moment it was closed: once more, then the next.
                current.over = true;
                self.current = Some(current);
                continue;
            }
            let replaced = current.is_replaced()?;
            self.current = Some(current);
            return Ok(if replaced { Next::Changed } else { Next::End });
        }
    }

    fn take_current(&mut self) -> io::Result<Option<Current>> {
        if let Some(current) = self.current.take() {
            return Ok(Some(current));
        }
        let done = self.marks.keys().next_back().copied();
        let segments = self.segments()?;
        let is_next = |segment: &&Segment| match done {
            None => true,
            // The one that was read last may have grown; one that is over was left for good.
            Some(last) => segment.number > last || segment.number == last && self.has_more(segment),
        };
        let Some(segment) = segments.iter().find(is_next).or(segments.last()) else { return Ok(None) };
        let offset = self.marks.get(&segment.number).map_or(0, |mark| mark.read_to);
        let file = File::open(&segment.path)?;
        let reading = Reading::new(segment.number, offset, LIMITS);
        let (path, active) = (segment.path.clone(), !segment.closed);
        Ok(Some(Current { path, active, file, reading, over: false }))
    }

    fn has_more(&self, segment: &Segment) -> bool {
        let read_to = self.marks.get(&segment.number).map_or(0, |mark| mark.read_to);
        std::fs::metadata(&segment.path).is_ok_and(|facts| facts.len() > read_to)
    }

    fn mark(&mut self, current: &Current) -> io::Result<Mark> {
        let (number, read_to) = (current.reading.number, current.reading.read_to());
        let tail = tail_of(&current.file, read_to)?;
        let mark = match self.marks.remove(&number) {
            Some(mark) => Mark { read_to, tail, ..mark },
            None => {
                let length = HEAD_BYTES.min(usize::try_from(read_to).unwrap_or(HEAD_BYTES));
                let (head, head_len) = head_of(&current.file, length)?;
                Mark { number, head, head_len, read_to, tail }
            }
        };
        self.marks.insert(number, mark.clone());
        Ok(mark)
    }
}

impl Current {
    /// Reads on from where it stands; how many bytes there were.
    fn fill(&self, chunk: &mut Chunk) -> io::Result<usize> {
        let offset = self.reading.offset();
        // As much as there is: of a log that grows line by line, each look would otherwise clear a buffer for thousands.
        let left = self.file.metadata()?.len().saturating_sub(offset);
        let limit = usize::try_from(left).unwrap_or(usize::MAX).min(self.reading.limits.chunk);
        chunk.buffer.clear();
        chunk.buffer.resize(limit, 0);
        let mut filled = 0;
        while filled < limit {
            match self.file.read_at(&mut chunk.buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        chunk.buffer.truncate(filled);
        Ok(filled)
    }

    /// Whether it is the segment that is written.
    fn is_written(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        let there = std::fs::metadata(&self.path);
        Ok(self.active && there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
    }

    /// Whether another file lies under its name, or it was cut.
    fn is_replaced(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        if ours.len() < self.reading.offset {
            return Ok(true);
        }
        match std::fs::metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) != (ours.dev(), ours.ino())),
            // Between a rename and the next file there is none for a moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Reading {
    pub(super) fn new(number: u32, offset: u64, limits: Limits) -> Self {
        Self { number, offset, long_from: None, limits }
    }

    /// Where the next reading goes on.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Up to where everything was taken: where a reading after a restart begins.
    pub(super) fn read_to(&self) -> u64 {
        self.long_from.unwrap_or(self.offset)
    }

    /// Takes the whole lines of the buffer, which begins where this stands; false if there is none.
    pub(super) fn take_lines(&mut self, chunk: &mut Chunk) -> bool {
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &chunk.buffer[start..]) {
            let line = start..start + length;
            let at = self.offset + start as u64;
            let too_long = self.long_from.take().is_some() || length > self.limits.line || at > SEGMENT_BYTES_MAX;
            if too_long {
                chunk.unreadable += 1;
            } else if length > 0 {
                mend(&mut chunk.buffer[line.clone()]);
                let seq = (i64::from(self.number) << 32) | i64::try_from(at).unwrap_or(0);
                chunk.lines.push((seq, line));
            }
            start += length + 1;
        }
        // A line that does not fit into the whole buffer is longer than any that is taken.
        if start == 0 && chunk.buffer.len() == self.limits.chunk {
            self.long_from.get_or_insert(self.offset);
            start = chunk.buffer.len();
        }
        self.offset += start as u64;
        start > 0
    }
}

/// Whether a segment begins as it did, and says up to where it was read what it did: a power cut may take lines away that were read before
/// they were flushed, and others grow in their place.
fn is_same(path: &Path, mark: &Mark) -> io::Result<bool> {
    let file = File::open(path)?;
    let length = usize::try_from(mark.head_len).unwrap_or(0).min(HEAD_BYTES);
    let long_enough = file.metadata()?.len() >= mark.read_to;
    Ok(long_enough
        && head_of(&file, length)? == (mark.head.clone(), mark.head_len)
        && tail_of(&file, mark.read_to)? == mark.tail)
}

fn head_of(file: &File, length: usize) -> io::Result<(Vec<u8>, u64)> {
    Ok((hash_of(file, 0, length)?, length as u64))
}

fn tail_of(file: &File, read_to: u64) -> io::Result<Vec<u8>> {
    let length = HEAD_BYTES.min(usize::try_from(read_to).unwrap_or(HEAD_BYTES));
    hash_of(file, read_to - length as u64, length)
}

fn hash_of(file: &File, from: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, from)?;
    Ok(blake3::hash(&bytes).as_bytes()[..16].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn follower(dir: &Path, marks: Vec<Mark>) -> Follower {
        Follower::new(Catalogue::new(dir, "events", crate::bus::time_of), marks)
    }

    /// Everything there is now, as `seq: text`.
    fn drain(follower: &mut Follower) -> (Vec<String>, u64) {
        let (mut seen, mut unreadable, mut chunk) = (Vec::new(), 0, Chunk::default());
        loop {
            let next = follower.read(&mut chunk).expect("readable");
            unreadable += chunk.unreadable;
            for (seq, line) in &chunk.lines {
                let text = String::from_utf8_lossy(&chunk.buffer[line.clone()]);
                seen.push(format!("{}+{}: {text}", seq >> 32, seq & 0xffff_ffff));
            }
            match next {
                Next::Chunk => {}
                Next::End => return (seen, unreadable),
                Next::Changed => panic!("nothing was replaced"),
            }
        }
    }

    fn append(path: &Path, text: &str) {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("opens");
        file.write_all(text.as_bytes()).expect("written");
    }

    #[test]
    fn lines_come_once_across_growth_rotation_and_restarts() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let active = dir.path().join("events.ndjson");
        let mut first = follower(dir.path(), Vec::new());
        assert_eq!(drain(&mut first).0.len(), 0, "no log yet");
        append(&active, "a\nb\nc");
        assert_eq!(drain(&mut first).0, ["1+0: a", "1+2: b"], "the third is not whole");
        append(&active, "c\nd\n");
        fs::rename(&active, dir.path().join("events.2026-01.1.ndjson")).expect("closed");
        append(&active, "e\n");
        assert_eq!(drain(&mut first).0, ["1+4: cc", "1+7: d", "2+0: e"]);
        let marks: Vec<Mark> = first.marks.values().cloned().collect();
        append(&active, "f\n");
        let mut second = follower(dir.path(), marks);
        assert_eq!(second.check().expect("readable"), Some(Vec::new()));
        assert_eq!(drain(&mut second).0, ["2+2: f"]);
    }

    #[test]
    fn a_line_that_never_ended_or_is_too_long_is_counted() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let active = dir.path().join("events.ndjson");
        append(&active, "a\n");
        append(&active, &"x".repeat(10 * 1024 * 1024));
        append(&active, "\nb\n");
        append(&active, &"y".repeat(LINE_BYTES_MAX + 1));
        append(&active, "\nc\ntorn");
        fs::rename(&active, dir.path().join("events.2026-01.1.ndjson")).expect("closed");
        append(&active, "d\n");
        let (seen, unreadable) = drain(&mut follower(dir.path(), Vec::new()));
        let texts: Vec<&str> = seen.iter().filter_map(|line| line.split(": ").nth(1)).collect();
        assert_eq!((texts, unreadable), (vec!["a", "b", "c", "d"], 3));
    }

    #[test]
    fn a_restart_inside_a_line_that_is_too_long_takes_no_part_of_it_for_a_line() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let active = dir.path().join("events.ndjson");
        append(&active, "a\n");
        append(&active, &"x".repeat(CHUNK_BYTES + 10));
        let mut first = follower(dir.path(), Vec::new());
        assert_eq!(drain(&mut first), (vec!["1+0: a".to_owned()], 0));
        let marks: Vec<Mark> = first.marks.values().cloned().collect();
        append(&active, "y\nb\n");
        let (seen, unreadable) = drain(&mut follower(dir.path(), marks));
        assert_eq!((seen.len(), unreadable), (1, 1));
        assert!(seen[0].ends_with(": b"), "{seen:?}");
        assert_eq!(drain(&mut first), (seen, 1), "whoever goes on sees the same");
    }

    #[test]
    fn another_file_under_a_known_name_is_noticed_and_a_removed_beginning_is_not_missed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let segment = |number: u32| dir.path().join(format!("events.2026-01.{number}.ndjson"));
        for number in 1..=3 {
            append(&segment(number), &format!("line of {number}\n"));
        }
        let mut first = follower(dir.path(), Vec::new());
        assert_eq!(drain(&mut first).0.len(), 3);
        let marks: Vec<Mark> = first.marks.values().cloned().collect();
        fs::remove_file(segment(1)).expect("removed");
        assert_eq!(follower(dir.path(), marks.clone()).check().expect("readable"), Some(vec![1]));
        assert_eq!(first.removed().expect("readable"), Some(1), "whoever reads on notices as well");
        assert_eq!(first.removed().expect("readable"), None, "once");
        fs::write(segment(3), "another thing\n").expect("replaced");
        assert_eq!(follower(dir.path(), marks.clone()).check().expect("readable"), None);
        fs::write(segment(3), "line of 3\n").expect("as it was");
        fs::remove_file(segment(2)).expect("removed");
        assert_eq!(follower(dir.path(), marks[1..].to_vec()).check().expect("readable"), Some(vec![2]));
    }

    #[test]
    fn a_log_that_was_cut_or_replaced_while_it_is_read_is_noticed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let active = dir.path().join("events.ndjson");
        append(&active, "a\nb\n");
        let mut cut = follower(dir.path(), Vec::new());
        drain(&mut cut);
        fs::write(&active, "c\n").expect("cut");
        assert!(matches!(cut.read(&mut Chunk::default()).expect("readable"), Next::Changed));
        let mut replaced = follower(dir.path(), Vec::new());
        drain(&mut replaced);
        fs::rename(&active, dir.path().join("elsewhere")).expect("moved away");
        append(&active, "d\n");
        assert!(matches!(replaced.read(&mut Chunk::default()).expect("readable"), Next::Changed));
    }
}
