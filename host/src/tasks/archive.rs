//! Finished tasks by month: `task-history/YYYY-MM.md`, whole files one after the other.
//! Keeps true: a text that was archived is there whole, and once in its month, also after a crash between archiving and removing its file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chela_storage::make_private_dir;
use chela_taskfile::{Document, History, archived};

use crate::clock::Timestamp;

/// A month that has grown past this is not read as a whole.
const MONTH_BYTES_MAX: u64 = 64 * 1024 * 1024;

fn folder(workspace: &Path) -> PathBuf {
    workspace.join("task-history")
}

/// Adds a task to the month, durably, unless it is there with the same text.
pub(super) fn append(
    workspace: &Path,
    id: &str,
    document: &Document,
    now: Timestamp,
) -> Result<(), (PathBuf, io::Error)> {
    let dir = folder(workspace);
    make_private_dir(&dir).map_err(|cause| (dir.clone(), cause))?;
    let path = dir.join(format!("{}.md", now.date().strftime("%Y-%m")));
    let append = || -> io::Result<()> {
        let there = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        // Another text of the same task is not the same: a torn one, or one from before it was taken up again.
        let same = |known: &str| known.trim_end() == document.to_string().trim_end();
        if History::of(&there).tasks.into_iter().any(|(known, range)| known == id && same(&there[range])) {
            return Ok(());
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let before = file.metadata()?.len();
        let text = archived(document, there.trim().is_empty());
        // Nothing may follow a line that a crash has cut off.
        let text = if there.is_empty() || there.ends_with('\n') { text } else { format!("\n{text}") };
        if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
            file.set_len(before)?;
            return Err(error);
        }
        fs::File::open(&dir)?.sync_all()
    };
    append().map_err(|cause| (path.clone(), cause))
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > MONTH_BYTES_MAX {
        return Err(io::Error::other(format!("larger than {MONTH_BYTES_MAX} bytes")));
    }
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The months there are, the newest first.
fn months(workspace: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(workspace)).into_iter().flatten().flatten();
    let mut months: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    months.sort();
    months.reverse();
    months
}

/// A finished task by its id.
pub(super) fn find(workspace: &Path, id: &str) -> Option<Document> {
    months(workspace).iter().find_map(|month| {
        let text = read(month).ok()?;
        let found = History::of(&text).tasks.into_iter().rev().find(|(known, _)| known == id);
        found.map(|(_, range)| Document::parse(&text[range]))
    })
}
