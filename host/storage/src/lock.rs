//! One owner per state directory, for as long as its process lives.
//! The kernel frees the lock however the owner ends, so there is never a stale one to remove by hand.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::owner;

/// How long a lock may be held by somebody who is not its owner.
const PATIENCE: Duration = Duration::from_secs(1);

/// Held while this value lives.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another process{} holds {}", owner.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), path.display())]
    Held { path: PathBuf, owner: Option<u32> },
    #[error("cannot lock {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl DirLock {
    /// Takes the lock. Whoever only looks (see [`DirLock::is_held`]) holds it for a moment, and so does a child of the owner before that runs
    /// its program; so a refusal is asked about again.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let mut file = open(path).map_err(failed)?;
        let patience = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < patience => sleep(Duration::from_millis(10)),
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Held { path: path.to_owned(), owner: owner_named_in(&mut file) });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        // The pid is for the message to whoever comes second; the lock does not depend on it.
        let write_pid = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write_pid(&mut file).map_err(failed)?;
        Ok(Self { _file: file })
    }

    /// Whether a process holds the lock now.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // Root locks a directory of others, who could have put a link there.
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).expect("flags of the system fit its own type");
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(no_link).open(path)?;
    let facts = file.metadata()?;
    if facts.uid() == 0
        && facts.nlink() == 1
        && let Some(folder) = path.parent()
    {
        owner::give_file(&file, folder)?;
    }
    Ok(file)
}

fn owner_named_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_holds_the_lock_until_it_is_dropped() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("lock");
        let first = DirLock::take(&path).expect("the first takes it");
        match DirLock::take(&path) {
            Err(LockError::Held { owner, .. }) => assert_eq!(owner, Some(std::process::id())),
            other => panic!("the second must be refused, not {other:?}"),
        }
        assert!(DirLock::is_held(&path).expect("readable"));
        drop(first);
        assert!(!DirLock::is_held(&path).expect("readable"));
        DirLock::take(&path).expect("free again");
    }
}
