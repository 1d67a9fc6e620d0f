//! One owner per state directory, for as long as its process lives.
//! The kernel frees the lock however the owner ends, so there is never a stale one to remove by hand.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

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
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { path: path.to_owned(), owner: owner_named_in(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
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
        drop(first);
        DirLock::take(&path).expect("free again");
    }
}
