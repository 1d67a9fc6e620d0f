//! Whole files: written beside, flushed, then put in place by one rename.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Who may read a file that we write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 0600: it holds a secret.
    Private,
    /// 0644.
    Shared,
}

impl Mode {
    fn bits(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Shared => 0o644,
        }
    }
}

/// Puts `bytes` at `path`, replacing what was there. Once it returns, a power cut does not undo it.
pub fn replace(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let beside = write_beside(path, bytes, mode)?;
    fs::rename(&beside, path).inspect_err(|_| discard(&beside))?;
    flush_directory(path)
}

/// Puts `bytes` at `path` only if nothing is there: `AlreadyExists` otherwise, and the file there is untouched.
pub fn create_new(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let beside = write_beside(path, bytes, mode)?;
    // A link, unlike a rename, never replaces.
    let linked = fs::hard_link(&beside, path);
    discard(&beside);
    linked?;
    flush_directory(path)
}

/// Makes a directory that only its owner can enter; one that is there keeps the rights its owner gave it.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_beside(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<PathBuf> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_file_name(format!(".{name}.{}.{serial}.tmp", std::process::id()));
    // A file of this name is of a process that died with our pid: nobody else writes it.
    discard(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode.bits()).open(&beside)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| discard(&beside))?;
    Ok(beside)
}

fn discard(beside: &Path) {
    // Best effort: a leftover is harmless and the caller already has the error that matters.
    let _ = fs::remove_file(beside);
}

fn flush_directory(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .expect("the directory is readable")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_replaced_file_has_the_new_content_the_mode_and_no_leftover() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("chela.json");
        replace(&path, b"one", Mode::Private).expect("first write");
        replace(&path, b"two", Mode::Private).expect("second write");
        assert_eq!(fs::read(&path).expect("readable"), b"two");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(names(dir.path()), ["chela.json"]);
    }

    #[test]
    fn creating_never_replaces() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("chela.json");
        create_new(&path, b"one", Mode::Private).expect("first write");
        let error = create_new(&path, b"two", Mode::Private).expect_err("the file is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("readable"), b"one");
        assert_eq!(names(dir.path()), ["chela.json"]);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_leftover() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("taken");
        fs::create_dir_all(path.join("full")).expect("a directory in the way");
        replace(&path, b"new", Mode::Shared).expect_err("a directory is not replaced by a file");
        assert_eq!(names(dir.path()), ["taken"]);
    }
}
