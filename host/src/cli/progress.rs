//! How far something long has come, on one line that is written over and taken away at the end.
//! Keeps true: nothing is written where standard error is no terminal, or where a program reads the answer.

use std::io::{IsTerminal, Write};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use super::Output;

/// Between two lines. What is over sooner says nothing.
const EVERY: Duration = Duration::from_secs(1);

/// Files, and what is in them: so many more, so many by now, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Amount {
    pub(super) const FILE: Self = Self { files: 1, bytes: 0 };

    pub(super) fn bytes(bytes: usize) -> Self {
        Self { files: 0, bytes: bytes as u64 }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        self.files += more.files;
        self.bytes += more.bytes;
    }
}

pub(super) struct Progress {
    doing: &'static str,
    all: Amount,
    done: Amount,
    /// When the next line is due; none where nobody would see it.
    due: Option<Instant>,
    /// Characters of the line that stands there.
    shown: usize,
}

impl Progress {
    pub(super) fn new(output: Output, doing: &'static str, all: Amount) -> Self {
        let is_seen = !output.json && std::io::stderr().is_terminal();
        let due = is_seen.then(|| Instant::now() + EVERY);
        Self { doing, all, done: Amount::default(), due, shown: 0 }
    }

    pub(super) fn more(&mut self, more: Amount) {
        self.done += more;
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.write(&line(self.doing, self.done, self.all));
            self.due = Some(Instant::now() + EVERY);
        }
    }

    fn write(&mut self, line: &str) {
        let text = over(self.shown, line);
        self.shown = line.chars().count();
        // A terminal that has gone is no reason to stop.
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown > 0 {
            self.write("");
        }
    }
}

fn line(doing: &str, done: Amount, all: Amount) -> String {
    let (files, mb) = (done.files, done.bytes >> 20);
    format!("{doing}: {files} of {} files, {mb} of {} MB", all.files, all.bytes >> 20)
}

/// A line over one of so many characters; an empty one leaves nothing of it.
fn over(shown: usize, line: &str) -> String {
    let blank = " ".repeat(shown.saturating_sub(line.chars().count()));
    let back = if line.is_empty() { "\r" } else { "" };
    format!("\r{line}{blank}{back}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_of_how_much() {
        let check = |done: (usize, u64), all: (usize, u64), expected: &str| {
            let amount = |(files, bytes): (usize, u64)| Amount { files, bytes };
            assert_eq!(line("backing up", amount(done), amount(all)), expected);
        };
        check((0, 0), (1, 10), "backing up: 0 of 1 files, 0 of 0 MB");
        check((3, 5 << 20), (2_000, 20 << 30), "backing up: 3 of 2000 files, 5 of 20480 MB");
    }

    #[test]
    fn a_line_takes_the_place_of_the_one_before_and_leaves_nothing_at_the_end() {
        let check = |shown: usize, line: &str, expected: &str| assert_eq!(over(shown, line), expected);
        check(0, "12 MB", "\r12 MB");
        check(5, "123 MB", "\r123 MB");
        check(8, "1 MB", "\r1 MB    ");
        check(6, "", "\r      \r");
    }

    #[test]
    fn a_program_that_reads_the_answer_is_shown_no_line() {
        let mut progress = Progress::new(Output { json: true }, "restoring", Amount::FILE);
        progress.more(Amount::bytes(7));
        assert_eq!((progress.due, progress.shown, progress.done.bytes), (None, 0, 7));
    }
}
