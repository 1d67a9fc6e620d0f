//! A log of lines: appended whole or not at all, repaired of a torn end when opened.
//! Keeps true: what was refused is not there, also after a power cut, or the caller is told that nobody knows. Never: holds a zero byte.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::atomic::flush_directory;
use crate::fs::{File, OpenOptions};

/// One appender of one file. The file is plain lines, so that people and other tools can read it, and others may append too.
#[derive(Debug)]
pub struct AppendLog {
    file: File,
    /// A part of a line is at the end and could not be cut off.
    torn: bool,
}

/// What opening had to mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Bytes that a crash left unfinished, now in the file for such bytes.
    pub bytes: u64,
    /// Where their first line began.
    pub offset: u64,
}

/// Why lines were not appended.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The file is as before, also after a power cut.
    TakenBack(io::Error),
    /// Some of it may be there.
    Unknown(io::Error),
}

/// So much at the end of a file may be lost in a crash or full of holes. An appender that promises more flushes before it has written more,
/// but for a single line that is longer. The simulation's lines are small.
pub(crate) const UNFLUSHED_MAX: usize = if cfg!(feature = "simulation") { 1024 } else { 1024 * 1024 };

impl AppendLog {
    /// Opens or creates `path`. What a crash has torn is moved to `aside`: a last line without its end, and everything from a hole on that
    /// it left among the lines not yet flushed. A hole reads as zeros, which no line holds.
    pub fn open(path: &Path, aside: &Path) -> io::Result<(Self, Option<Repair>)> {
        let mut file = options().read(true).open(path)?;
        let size = file.metadata()?.len();
        let hole = find_zero(&file, unproven(&file, size)?, size)?;
        let whole = end_of_last_line(&file, hole.unwrap_or(size))?;
        let repair = (whole < size).then_some(Repair { bytes: size - whole, offset: whole });
        if repair.is_some() {
            file.seek(SeekFrom::Start(whole))?;
            // Kept first, cut second: a crash in between keeps the bytes twice, never loses them.
            keep(&file, size - whole, aside)?;
            file.set_len(whole)?;
            file.sync_all()?;
        }
        Ok((Self { file, torn: false }, repair))
    }

    /// A new log; one that is there is refused.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: options().create_new(true).open(path)?, torn: false })
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Appends one line; `line` has no line end of its own. On an error the file is as before.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        debug_assert!(!line.contains(&b'\n'), "a line has no line end inside");
        self.append_lines(line)
    }

    /// Appends several lines at once, joined by line ends; all of them or none.
    pub fn append_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        self.try_append(lines).map_err(|refusal| match refusal {
            Refusal::TakenBack(cause) | Refusal::Unknown(cause) => cause,
        })
    }

    pub(crate) fn try_append(&mut self, lines: &[u8]) -> Result<(), Refusal> {
        debug_assert!(!lines.contains(&0), "a zero is the mark of a hole");
        let mut bytes = Vec::with_capacity(lines.len() + 2);
        if self.torn {
            // Ends the torn line, so that it harms no other.
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(lines);
        bytes.push(b'\n');
        let before = self.bytes().map_err(Refusal::TakenBack)?;
        match self.file.write_all(&bytes) {
            Ok(()) => {
                self.torn = false;
                Ok(())
            }
            Err(cause) if self.take_back(before, bytes.len() as u64) => Err(Refusal::TakenBack(cause)),
            Err(cause) => Err(Refusal::Unknown(cause)),
        }
    }

    /// Flushes to the device.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// The disk is full or gone: what was written of a line must not stay, but the lines of others must. Flushed as well: what was refused
    /// must not come back with the next start, nor mix with what is written in its place. False if nobody knows what is there.
    fn take_back(&mut self, before: u64, attempted: u64) -> bool {
        let Ok(now) = self.bytes() else {
            self.torn = true;
            return false;
        };
        if now == before {
            return true;
        }
        let only_ours = now > before && now < before + attempted;
        let taken = only_ours && self.file.set_len(before).is_ok();
        self.torn |= !taken;
        taken && self.file.sync_data().is_ok()
    }
}

/// Makes the whole lines at the end of a log certain. After a flush that failed the kernel calls pages clean which it never wrote, and
/// shows them until the power is cut; written again they are dirty, and the flush is an honest one.
pub(crate) fn make_certain(path: &Path) -> io::Result<()> {
    // Not by the handle that appends, which writes at no other place.
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let size = file.metadata()?.len();
    write_again(&file, unproven(&file, size)?, size)?;
    file.sync_all()
}

/// Writes a part of a file over itself.
pub(crate) fn write_again(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    let mut bytes = Vec::new();
    while at < to {
        bytes.resize(usize::try_from((to - at).min(1024 * 1024)).unwrap_or_default(), 0);
        file.read_exact_at(&mut bytes, at)?;
        file.write_all_at(&bytes, at)?;
        at += bytes.len() as u64;
    }
    Ok(())
}

/// Appends the next `bytes` of `file` to `aside`, durable once it returns. What a full disk took of them is given back: each start tries
/// again, and would fill it a little more.
pub(crate) fn keep(file: &File, bytes: u64, aside: &Path) -> io::Result<()> {
    let mut kept = options().open(aside)?;
    let before = kept.metadata()?.len();
    let copied = io::copy(&mut file.take(bytes), &mut kept);
    let outcome = copied.and_then(|_| kept.write_all(b"\n")).and_then(|()| kept.sync_all());
    let outcome = outcome.and_then(|()| flush_directory(aside));
    if outcome.is_err() {
        // The first failure is the one to tell.
        let _ = kept.set_len(before);
    }
    outcome
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options
}

/// Where the part begins that a flush may not have reached.
fn unproven(file: &File, size: u64) -> io::Result<u64> {
    let last_line = end_of_last_line(file, size.saturating_sub(1))?;
    Ok(last_line.min(size.saturating_sub(UNFLUSHED_MAX as u64)))
}

const STEP: u64 = 64 * 1024;

/// The first zero within a part of a file.
fn find_zero(file: &File, from: u64, to: u64) -> io::Result<Option<u64>> {
    let mut start = from;
    while start < to {
        let block = read_block(file, start, to.min(start + STEP))?;
        if let Some(at) = block.iter().position(|byte| *byte == 0) {
            return Ok(Some(start + at as u64));
        }
        start += block.len() as u64;
    }
    Ok(None)
}

/// The offset just after the last line end before `end`, reading back from there.
fn end_of_last_line(file: &File, end: u64) -> io::Result<u64> {
    let mut end = end;
    while end > 0 {
        let start = end.saturating_sub(STEP);
        let block = read_block(file, start, end)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn read_block(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut block = vec![0; usize::try_from(to - from).unwrap_or_default()];
    file.read_exact_at(&mut block, from)?;
    Ok(block)
}

// On real files.
#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;
    use std::fs;

    fn check(before: &[u8], log: &[u8], aside: &[u8]) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (path, corrupt) = (dir.path().join("log"), dir.path().join("corrupt"));
        fs::write(&path, before).expect("a log of another life");
        let (mut opened, repair) = AppendLog::open(&path, &corrupt).expect("the log opens");
        assert_eq!(repair.is_some(), !aside.is_empty());
        opened.append(b"next").expect("appended");
        assert_eq!(fs::read(&path).expect("readable"), [log, b"next\n"].concat());
        assert_eq!(fs::read(&corrupt).unwrap_or_default(), aside);
    }

    #[test]
    fn a_torn_last_line_is_set_aside_and_all_others_are_kept() {
        check(b"", b"", b"");
        check(b"one\n", b"one\n", b"");
        check(b"one\ntw", b"one\n", b"tw\n");
        check(b"on", b"", b"on\n");
        let long = vec![b'x'; 200_000];
        check(&[b"one\n", long.as_slice()].concat(), b"one\n", &[long.as_slice(), b"\n"].concat());
    }

    #[test]
    fn from_a_hole_on_nothing_is_believed_unless_it_was_flushed_long_ago() {
        check(b"one\ntw\0\0\0ee\nfour\n", b"one\n", b"tw\0\0\0ee\nfour\n\n");
        check(b"one\n\0\0\0", b"one\n", b"\0\0\0\n");
        check(b"\0\n", b"", b"\0\n\n");
        let proven = [b"one\n\0\n", b"line\n".repeat(UNFLUSHED_MAX / 5 + 1).as_slice()].concat();
        check(&proven, &proven, b"");
    }

    #[test]
    fn writing_the_end_of_a_log_again_changes_nothing() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("log");
        for size in [0, 5, UNFLUSHED_MAX, 3 * UNFLUSHED_MAX + 5] {
            let lines: Vec<u8> = b"1234\n".iter().copied().cycle().take(size - size % 5).collect();
            fs::write(&path, &lines).expect("written");
            make_certain(&path).expect("flushed");
            assert!(fs::read(&path).expect("readable") == lines, "{size}");
        }
    }

    /// What stays in the file when `written` reached it of an attempt at `ours` that failed.
    fn after_failure(before: &[u8], written: &[u8], ours: &[u8]) -> (Vec<u8>, bool) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("log");
        fs::write(&path, [before, written].concat()).expect("written");
        let mut log = AppendLog { file: options().open(&path).expect("opens"), torn: false };
        let known = log.take_back(before.len() as u64, ours.len() as u64);
        assert_eq!(known, !log.torn);
        (fs::read(&path).expect("readable"), log.torn)
    }

    #[test]
    fn a_failed_append_takes_back_its_own_part_and_nobody_elses() {
        assert_eq!(after_failure(b"one\n", b"", b"two\n"), (b"one\n".to_vec(), false));
        assert_eq!(after_failure(b"one\n", b"tw", b"two\n"), (b"one\n".to_vec(), false));
        let others = b"a line of another writer\n";
        assert_eq!(after_failure(b"one\n", others, b"two\n"), ([b"one\n", others.as_slice()].concat(), true));
    }

    #[test]
    fn a_torn_line_that_had_to_stay_is_ended_before_the_next() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("log");
        fs::write(&path, "one\ntw").expect("written");
        let mut log = AppendLog { file: options().open(&path).expect("opens"), torn: true };
        log.append(b"three").expect("appended");
        log.append(b"four").expect("appended");
        assert_eq!(fs::read(&path).expect("readable"), b"one\ntw\nthree\nfour\n");
    }
}
