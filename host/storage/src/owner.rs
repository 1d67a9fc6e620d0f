//! Whom what root makes belongs to: whom the place belongs to, so that a command of root takes nothing from the user who serves.
//! Keeps true: only what was just made, or stands in for something of that owner, is given away; a link is never followed to it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown, lchown};
use std::path::Path;

/// Gives a new file to the owner of the one that it replaces at `path`, else of its folder.
pub(crate) fn give_draft(file: &File, path: &Path, folder: &Path) -> io::Result<()> {
    let replaces = fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file());
    give_file(file, if replaces { path } else { folder })
}

/// Gives a file that is open to the owner of `like`.
pub(crate) fn give_file(file: &File, like: &Path) -> io::Result<()> {
    match other_owner_of(like) {
        Some((user, group)) => fchown(file, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// Gives what was just made at `path` to the owner of `like`.
pub(crate) fn give(path: &Path, like: &Path) -> io::Result<()> {
    match other_owner_of(like) {
        Some((user, group)) => lchown(path, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// The owner, where we are root and it is somebody else.
fn other_owner_of(path: &Path) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let facts = fs::metadata(path).ok()?;
    (facts.uid() != 0).then(|| (facts.uid(), facts.gid()))
}

// On real files, and by root alone: nobody else can give anything away.
#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;
    use crate::{DirLock, Draft, Mode, create_new, make_own_dir, make_private_dir, replace};

    const NOBODY: u32 = 65_534;

    #[test]
    fn what_root_writes_belongs_to_whom_the_place_belongs_to() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().expect("a temporary directory");
        let owner = |path: &Path| fs::symlink_metadata(path).expect("there").uid();
        let dir = root.path().join("state");
        make_private_dir(&dir).expect("made");
        assert_eq!(owner(&dir), 0, "above it all is root's");
        lchown(&dir, Some(NOBODY), Some(NOBODY)).expect("root may");
        let path = |name: &str| dir.join(name);
        replace(&path("one"), b"1", Mode::Private).expect("written");
        create_new(&path("two"), b"2", Mode::Shared).expect("written");
        Draft::write(&path("three"), b"3", Mode::Shared).and_then(|draft| draft.put(&path("three"))).expect("put");
        make_private_dir(&path("a/b")).expect("made");
        drop(DirLock::take(&path("a/lock")).expect("taken"));
        for name in ["one", "two", "three", "a", "a/b", "a/lock"] {
            assert_eq!(owner(&path(name)), NOBODY, "{name}");
        }
        make_own_dir(&path("cache")).expect("made");
        assert_eq!(owner(&path("cache")), 0, "compiled code is its maker's alone");
        lchown(path("one"), Some(1), Some(1)).expect("root may");
        replace(&path("one"), b"2", Mode::Private).expect("written");
        assert_eq!(owner(&path("one")), 1, "the owner of the file itself counts first");
        lchown(path("one"), Some(0), Some(0)).expect("root may");
        replace(&path("one"), b"3", Mode::Private).expect("written");
        assert_eq!(owner(&path("one")), 0, "what is root's stays root's");
    }

    #[test]
    fn a_link_in_the_place_of_a_lock_is_not_followed() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let victim = root.path().join("victim");
        fs::write(&victim, "as it was").expect("written");
        std::os::unix::fs::symlink(&victim, root.path().join("lock")).expect("linked");
        DirLock::take(&root.path().join("lock")).expect_err("a link is no lock");
        assert_eq!(fs::read_to_string(&victim).expect("readable"), "as it was");
    }
}
