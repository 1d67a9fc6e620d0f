//! Makes a state directory ours. Keeps true: one gateway per directory; one of the old system is not touched.

use chela_storage::{DirLock, LockError};

use super::{Error, stamp};
use crate::config::Starter;
use crate::layout::StateDir;
use crate::run::{Encryption, RunFile};
use crate::settings;

/// Makes the state directory ours for as long as the lock lives, unless it is the old system's.
pub(super) fn claim(dir: &StateDir) -> Result<DirLock, Error> {
    if dir.old_config().exists() && !dir.config().exists() {
        return Err(Error::Foreign { path: dir.path().to_owned() });
    }
    take(dir)
}

/// Takes the lock, and clears away what a killed owner left.
pub(super) fn take(dir: &StateDir) -> Result<DirLock, Error> {
    stamp::check(dir)?;
    for path in [dir.path().to_owned(), dir.logs(), dir.run(), dir.index()] {
        chela_storage::make_private_dir(&path).map_err(|cause| Error::Directory { path, cause })?;
    }
    let lock = DirLock::take(&dir.lock()).map_err(|error| match error {
        LockError::Held { owner, .. } => Error::Served { path: dir.path().to_owned(), owner },
        LockError::Io { path, source } => Error::Directory { path, cause: source },
    })?;
    stamp::renew(dir)?;
    // Until we are ready, the run file of a killed gateway would name the wrong one.
    let cleared = RunFile::remove(dir)
        .and_then(|()| Encryption::write(None, dir))
        .and_then(|()| chela_storage::sweep(dir.path()))
        .and_then(|()| chela_storage::sweep(&dir.run()));
    cleared.map_err(|cause| Error::Directory { path: dir.path().to_owned(), cause })?;
    Ok(lock)
}

/// Whether a first configuration had to be written. Addresses of the command line are for this start alone and stay out of it.
pub(super) fn ensure_config(dir: &StateDir) -> Result<bool, Error> {
    if dir.config().exists() {
        return Ok(false);
    }
    settings::create(dir, &Starter::default())?;
    Ok(true)
}
