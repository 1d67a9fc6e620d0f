//! A log of lines: appended whole or not at all, repaired of a torn end when opened.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
    /// Bytes of an unfinished last line, now in the file for such bytes.
    pub bytes: u64,
    /// Where that line began.
    pub offset: u64,
}

impl AppendLog {
    /// Opens or creates `path`. A last line without its end was torn by a crash: it is moved to `aside`.
    pub fn open(path: &Path, aside: &Path) -> io::Result<(Self, Option<Repair>)> {
        let mut file = options().read(true).open(path)?;
        let size = file.seek(SeekFrom::End(0))?;
        let whole = end_of_last_line(&mut file, size)?;
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

    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Appends one line; `line` has no line end of its own. On an error the file is as before.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        debug_assert!(!line.contains(&b'\n'), "a line has no line end inside");
        self.append_lines(line)
    }

    /// Appends several lines at once, joined by line ends; all of them or none.
    pub fn append_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(lines.len() + 2);
        if self.torn {
            // Ends the torn line, so that it harms no other.
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(lines);
        bytes.push(b'\n');
        let before = self.file.metadata()?.len();
        match self.file.write_all(&bytes) {
            Ok(()) => {
                self.torn = false;
                Ok(())
            }
            Err(error) => {
                self.take_back(before, bytes.len() as u64);
                Err(error)
            }
        }
    }

    /// Flushes to the device.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// The disk is full or gone: what was written of a line must not stay, but the lines of others must.
    fn take_back(&mut self, before: u64, attempted: u64) {
        let Ok(now) = self.file.metadata().map(|facts| facts.len()) else {
            self.torn = true;
            return;
        };
        let only_ours = now > before && now < before + attempted;
        self.torn |= now != before && !(only_ours && self.file.set_len(before).is_ok());
    }
}

/// Appends the next `bytes` of `file` to `aside`, durable once it returns. What a full disk took of them is given back: each start tries
/// again, and would fill it a little more.
pub(crate) fn keep(file: &File, bytes: u64, aside: &Path) -> io::Result<()> {
    let mut kept = options().open(aside)?;
    let before = kept.metadata()?.len();
    let copied = io::copy(&mut file.take(bytes), &mut kept);
    let outcome = copied.and_then(|_| kept.write_all(b"\n")).and_then(|()| kept.sync_all());
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

/// The offset just after the last line end, reading back from the end.
fn end_of_last_line(file: &mut File, size: u64) -> io::Result<u64> {
    const STEP: u64 = 64 * 1024;
    let mut end = size;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        block.resize(usize::try_from(end - start).unwrap_or_default(), 0);
        file.read_exact(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
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

    /// What stays in the file when `written` reached it of an attempt at `ours` that failed.
    fn after_failure(before: &[u8], written: &[u8], ours: &[u8]) -> (Vec<u8>, bool) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("log");
        fs::write(&path, [before, written].concat()).expect("written");
        let mut log = AppendLog { file: options().open(&path).expect("opens"), torn: false };
        log.take_back(before.len() as u64, ours.len() as u64);
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
