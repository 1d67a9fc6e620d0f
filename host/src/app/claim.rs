//! Makes a state directory ours. Keeps true: one gateway per directory; one of the old system is not touched; root serves its own alone.

use std::fs;
use std::os::unix::fs::MetadataExt;

use chela_storage::{DirLock, LockError};

use super::{Error, stamp};
use crate::config::Starter;
use crate::layout::StateDir;
use crate::run::{Encryption, RunFile};
use crate::settings;

/// Refuses what belongs to another user, where we are root: of what a gateway writes, logs and transcripts would be root's, and the service
/// whose directory it is could not start any more. What is not there yet will belong to whom the place belongs to.
pub(super) fn is_ours_to_serve(dir: &StateDir) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let found = dir.path().ancestors().find_map(|place| Some((place, fs::metadata(place).ok()?)));
    let Some((place, facts)) = found.filter(|(_, facts)| facts.uid() != 0) else { return Ok(()) };
    let (user, group, state) = (facts.uid(), facts.gid(), dir.path().display());
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let (owner, way) = match name_in(&users, user) {
        Some(name) => (name.to_owned(), format!("runuser -u {name} --")),
        // From a directory of users elsewhere, or one that systemd makes for a service alone.
        None => (format!("user {user}"), format!("setpriv --reuid={user} --regid={group} --clear-groups")),
    };
    let command = format!("{way} chela serve --state-dir {state}");
    Err(Error::OfAnother { place: place.to_owned(), owner, command })
}

/// The name of a user in the text of `/etc/passwd`.
fn name_in(users: &str, number: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next().filter(|name| !name.is_empty())?;
        (parts.nth(1)?.parse::<u32>().ok()? == number).then_some(name)
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_where_the_machine_has_a_name_for_it() {
        let users = "root:x:0:0:root:/root:/bin/bash\n\n:x:7:7::/:\nchela:x:998:997::/var/lib/chela:/usr/sbin/nologin\nshort:x\n";
        let check = |number: u32, expected: Option<&str>| assert_eq!(name_in(users, number), expected, "{number}");
        check(0, Some("root"));
        check(998, Some("chela"));
        check(997, None);
        check(7, None);
    }
}
