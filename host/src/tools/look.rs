//! What people and programs see of a workspace: a folder's entries, or a part of a file. Never: writes, or follows a way out of it.

use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;

use super::files::{self, Error, READ_BYTES_MAX, ReadFile};

/// As much of a file as is shown at once.
pub const PART_BYTES_MAX: u64 = READ_BYTES_MAX;
/// With less, one character might not fit into a part.
pub const PART_BYTES_MIN: u64 = 4;
const PATH_BYTES_MAX: usize = 1_000;
/// Entries of one folder that are told of.
const ENTRIES_MAX: usize = 10_000;

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Names with their kind: `directory`, `file` or `link`.
    Folder {
        entries: Vec<(String, String)>,
        more: bool,
    },
    File {
        text: String,
        bytes: u64,
        next: Option<u64>,
    },
}

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum Unseen {
    #[error("there is no {0:?} in the workspace")]
    Missing(String),
    /// It leads out of the workspace, is no text, or cannot be a path.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Unreadable(String),
}

impl From<Error> for Unseen {
    fn from(error: Error) -> Self {
        match error {
            Error::Missing { path } => Self::Missing(path),
            Error::Io { path, cause } if cause.kind() == std::io::ErrorKind::NotADirectory => Self::Missing(path),
            Error::Io { ref cause, .. }
                if matches!(cause.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidFilename) =>
            {
                Self::Refused(error.to_string())
            }
            error @ Error::Io { .. } => Self::Unreadable(error.to_string()),
            error => Self::Refused(error.to_string()),
        }
    }
}

/// Looks at `path` of a workspace; an empty one is the workspace itself. Waits for the disk.
pub fn look(workspace: &Path, path: &str, offset: u64, limit: u64) -> Result<Seen, Unseen> {
    if path.len() > PATH_BYTES_MAX {
        return Err(Unseen::Refused(format!("a path has at most {PATH_BYTES_MAX} bytes")));
    }
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let root = match rustix::fs::open(workspace, flags, Mode::empty()) {
        Ok(root) => root,
        // Its agent has not begun: nothing is there yet.
        Err(Errno::NOENT) if path.is_empty() => return Ok(Seen::Folder { entries: Vec::new(), more: false }),
        Err(cause) => return Err(files::failed(path, cause).into()),
    };
    match files::listed(&root, path, ENTRIES_MAX) {
        Ok((entries, more)) => {
            let entries = entries.into_iter().map(|(name, kind)| (name, kind.to_owned())).collect();
            Ok(Seen::Folder { entries, more })
        }
        // What is no folder may be a file; what is neither says so itself.
        Err(Error::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotADirectory => {
            let limit = Some(limit.clamp(PART_BYTES_MIN, PART_BYTES_MAX));
            let part = Value::Object(files::read(&root, ReadFile { path: path.to_owned(), offset, limit })?);
            Ok(Seen::File {
                text: part["content"].as_str().unwrap_or_default().to_owned(),
                bytes: part["size"].as_u64().unwrap_or_default(),
                next: part["nextOffset"].as_u64(),
            })
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(root: &Path, path: &str, expected: &str) {
        let said = look(root, path, 0, PART_BYTES_MAX).expect_err(path).to_string();
        assert!(said.contains(expected), "{path}: {said}");
    }

    #[test]
    fn folders_are_listed_and_files_are_read_in_parts() {
        let temp = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(temp.path().join("notes")).expect("made");
        std::fs::write(temp.path().join("notes/a.md"), "안녕 world").expect("written");
        let folder = |name: &str, kind: &str| Seen::Folder { entries: vec![(name.into(), kind.into())], more: false };
        assert_eq!(look(temp.path(), "", 0, 64).expect("listed"), folder("notes", "directory"));
        assert_eq!(look(temp.path(), "notes", 0, 64).expect("listed"), folder("a.md", "file"));
        let part = |text: &str, next| Seen::File { text: text.into(), bytes: 12, next };
        assert_eq!(look(temp.path(), "notes/a.md", 0, 1).expect("read"), part("안", Some(3)));
        assert_eq!(look(temp.path(), "notes/a.md", 3, 64).expect("read"), part("녕 world", None));
    }

    #[test]
    fn nothing_outside_is_seen_and_what_is_not_there_is_said() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path().join("workspace");
        assert_eq!(look(&root, "", 0, 64).expect("empty"), Seen::Folder { entries: Vec::new(), more: false });
        check(&root, "a.md", "there is no");
        std::fs::create_dir(&root).expect("made");
        std::fs::write(temp.path().join("secret"), "s").expect("written");
        std::fs::write(root.join("odd"), [0xff, 0xfe]).expect("written");
        std::os::unix::fs::symlink("/etc/passwd", root.join("passwd")).expect("linked");
        std::os::unix::fs::symlink("..", root.join("up")).expect("linked");
        for path in ["../secret", "up/secret", "/etc/passwd", "passwd"] {
            check(&root, path, "leads out of the workspace");
        }
        check(&root, "gone", "there is no");
        check(&root, "odd/below", "there is no");
        check(&root, "odd", "not a file of text");
        check(&root, "a\0b", "cannot be used");
        check(&root, &"x".repeat(5_000), "at most");
        check(&root, &"x".repeat(500), "cannot be used");
    }
}
