//! Many short transcripts become one file. Keeps true: the rows of a session are in it once, on the disk, before its own file goes; what a crash
//! has left at the end, of sessions that still have a file of their own, is cut off and written again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::{Page, end_of_last_line, tail};

/// A transcript that is taken in; its rows say of which session they are.
#[derive(Clone, Debug)]
pub(in crate::sessions) struct Source {
    pub(in crate::sessions) path: PathBuf,
    pub(in crate::sessions) session: String,
}

/// Appends transcripts to a file and brings them to the disk. `is_left` tells of a row that its session still has a file of its own.
pub(in crate::sessions) fn gather(
    target: &Path,
    sources: &[Source],
    now: SystemTime,
    is_left: impl Fn(&Value) -> bool,
) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        chela_storage::make_private_dir(parent)?;
    }
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(target)?;
    let end = end_of_gathered(&mut file, is_left)?;
    file.set_len(end)?;
    file.seek(SeekFrom::End(0))?;
    let written = append(&file, sources).and_then(|()| file.set_modified(now)).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Where even this fails, the next try cuts it off.
        let _ = file.set_len(end);
        return Err(error);
    }
    target.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

fn append(file: &File, sources: &[Source]) -> io::Result<()> {
    let mut to = BufWriter::new(file);
    for source in sources {
        for mut row in tail(&source.path, None, usize::MAX, |_| true)?.rows {
            row["__openclaw"]["sessionId"] = json!(source.session);
            serde_json::to_writer(&mut to, &row)?;
            to.write_all(b"\n")?;
        }
    }
    to.flush()
}

fn end_of_gathered(file: &mut File, is_left: impl Fn(&Value) -> bool) -> io::Result<u64> {
    let mut end = end_of_last_line(file)?;
    loop {
        let last = Page::read(file, end, 1, |row| (row, true))?;
        match last.rows.first() {
            Some(row) if is_left(row) => end = last.begin,
            _ => return Ok(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::append_now;
    use super::*;

    #[test]
    fn a_session_is_there_once_whatever_a_crash_cut_off() {
        let temp = tempfile::tempdir().expect("a directory");
        let target = temp.path().join("archive/all.jsonl");
        let source = |name: &str| {
            let path = temp.path().join(format!("{name}.jsonl"));
            let rows = (0..3).map(|nth| json!({ "n": nth, "__openclaw": { "runId": name } })).collect();
            append_now(&path, rows).expect("written");
            Source { path, session: format!("id-{name}") }
        };
        let there = || -> Vec<(String, u64)> {
            let lines = fs::read_to_string(&target).expect("readable");
            let row = |line: &str| -> Value { serde_json::from_str(line).expect("a row") };
            let name =
                |row: Value| (row["__openclaw"]["sessionId"].as_str().expect("named").to_owned(), row["n"].as_u64());
            lines.lines().map(|line| name(row(line))).map(|(name, n)| (name, n.expect("a number"))).collect()
        };
        let all = |names: &[&str]| -> Vec<(String, u64)> {
            names.iter().flat_map(|name| (0..3).map(move |nth| (format!("id-{name}"), nth))).collect()
        };
        let (a, b, c) = (source("a"), source("b"), source("c"));
        gather(&target, &[a], SystemTime::UNIX_EPOCH, |_| true).expect("gathered");
        assert_eq!(there(), all(&["a"]));
        // What comes after the first was cut off before anybody relied on it.
        let is_left = |row: &Value| row["__openclaw"]["sessionId"] != "id-a";
        gather(&target, &[b.clone(), c.clone()], SystemTime::UNIX_EPOCH, is_left).expect("gathered");
        let mut torn = OpenOptions::new().append(true).open(&target).expect("there");
        torn.write_all(b"{\"n\":").expect("torn");
        gather(&target, &[c, b], SystemTime::UNIX_EPOCH, is_left).expect("gathered");
        assert_eq!(there(), all(&["a", "c", "b"]));
        let gone = Source { path: temp.path().join("none"), session: "none".into() };
        gather(&target, &[gone], SystemTime::UNIX_EPOCH, |_| false).expect("nothing to take in");
        assert_eq!(there().len(), 9);
    }
}
