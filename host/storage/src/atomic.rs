//! Whole files: written beside, flushed, then put in place in one step.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::fs::{DirBuilder, File};
use crate::owner;

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

/// Files under way carry these, so that what a kill left can be told from all else.
const UNFINISHED: (&str, &str) = (".chela-", ".tmp");

/// Puts `bytes` at `path`, replacing what was there. Once it returns, a power cut does not undo it.
pub fn replace(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    write_beside(path, bytes, mode)?.persist(path)?;
    flush_directory(path)
}

/// New content beside a file that it will stand in for: written, but neither flushed nor in place.
#[derive(Debug)]
pub struct Draft(NamedTempFile);

/// What a draft took the place of.
#[derive(Debug)]
pub struct Replaced {
    /// As it was read after the change of places.
    pub bytes: Vec<u8>,
    /// Has no name any more; whoever had it open may still write to it.
    pub file: fs::File,
}

impl Draft {
    pub fn write(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<Self> {
        draft(path, bytes, mode).map(Self)
    }

    /// A power cut leaves the content whole from now on, wherever it is.
    pub fn flush(&self) -> io::Result<()> {
        self.0.as_file().sync_data()
    }

    /// What tells its file from every other.
    pub fn inode(&self) -> io::Result<u64> {
        self.0.as_file().metadata().map(|facts| facts.ino())
    }

    /// Puts it at `path`, whatever is there. For what can be made again: nothing is flushed.
    pub fn put(self, path: &Path) -> io::Result<()> {
        self.0.persist(path)?;
        Ok(())
    }

    /// Puts it at `path` only if nothing is there. The directory is not flushed.
    pub fn create(self, path: &Path) -> io::Result<()> {
        self.0.persist_noclobber(path)?;
        Ok(())
    }

    /// Puts it in the place of the file at `path`, in one step that loses nothing: what was there comes out. The directory is not flushed.
    pub fn exchange(self, path: &Path) -> io::Result<Replaced> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        let aside = self.0.into_temp_path();
        let mut file = match renameat_with(CWD, &*aside, CWD, path, RenameFlags::EXCHANGE) {
            Ok(()) => fs::File::open(&aside)?,
            // Not on this file system: what is saved between the two steps below is not seen.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let file = fs::File::open(path)?;
                aside.persist(path)?;
                file
            }
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Replaced { bytes, file })
    }
}

/// Puts `bytes` at `path` only if nothing is there: `AlreadyExists` otherwise, and the file there is untouched.
pub fn create_new(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    write_beside(path, bytes, mode)?.persist_noclobber(path)?;
    flush_directory(path)
}

/// Removes what a killed writer left unfinished in `dir`. Only for whoever owns the directory: a writer at work would lose its file.
pub fn sweep(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_unfinished(&name.to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a file of this name is one that is still being written, or that a killed writer left.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1)
}

/// Makes a directory that only its owner can enter, and those above it; one that is there keeps the rights its owner gave it. Once it
/// returns, a power cut does not undo it. It does not make certain what is inside: whoever puts a file there flushes the directory.
/// One that root makes belongs to whom the directory above it belongs to.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    make_dir(path, true)
}

/// The same for one that stays its maker's: what lies there is only trusted if nobody else can have put it there.
pub fn make_own_dir(path: &Path) -> io::Result<()> {
    make_dir(path, false)
}

fn make_dir(path: &Path, gives: bool) -> io::Result<()> {
    let is_there = crate::fs::exists(path)?;
    if !is_there && let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        // Certain before anything is made in it: then only the deepest can be one that a killed process made and did not flush.
        make_private_dir(above)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if !is_there && gives && cfg!(not(feature = "simulation")) {
        owner::give(path, folder_of(path))?;
    }
    if path.parent().is_none() {
        return Ok(());
    }
    match flush_directory(path) {
        // Whoever may not read the directory above has not made this one.
        Err(error) if is_there && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        outcome => outcome,
    }
}

fn write_beside(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<NamedTempFile> {
    let file = draft(path, bytes, mode)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn draft(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED.0)
        .suffix(UNFINISHED.1)
        .permissions(Permissions::from_mode(mode.bits()))
        .tempfile_in(folder_of(path))?;
    owner::give_draft(file.as_file(), path, folder_of(path))?;
    file.write_all(bytes)?;
    Ok(file)
}

pub(crate) fn flush_directory(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

// On real files.
#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;

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
        for (mode, bits) in [(Mode::Shared, 0o644), (Mode::Private, 0o600)] {
            replace(&path, b"one", mode).expect("first write");
            replace(&path, b"two", mode).expect("second write");
            assert_eq!(fs::read(&path).expect("readable"), b"two");
            assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, bits);
        }
        assert_eq!(names(dir.path()), ["chela.json"]);
    }

    #[test]
    fn directories_are_made_private_and_a_file_in_the_way_is_an_error() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let deep = dir.path().join("one/two/three");
        make_private_dir(&deep).expect("made");
        make_private_dir(&deep).expect("there already");
        for made in deep.ancestors().take(3) {
            assert_eq!(fs::metadata(made).expect("there").permissions().mode() & 0o777, 0o700);
        }
        fs::set_permissions(&deep, Permissions::from_mode(0o750)).expect("ours");
        make_private_dir(&deep).expect("there already");
        assert_eq!(fs::metadata(&deep).expect("there").permissions().mode() & 0o777, 0o750, "its owner's choice");
        fs::write(dir.path().join("file"), "").expect("written");
        make_private_dir(&dir.path().join("file")).expect_err("not a directory");
        make_private_dir(&dir.path().join("file/below")).expect_err("not below a file");
        make_private_dir(Path::new("/")).expect("always there");
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
    fn a_draft_changes_places_and_gives_what_was_there_also_when_it_is_written_later() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("task.md");
        let draft = |text: &str| Draft::write(&path, text.as_bytes(), Mode::Shared).expect("written");
        draft("one").create(&path).expect("created");
        assert_eq!(draft("x").create(&path).expect_err("there").kind(), io::ErrorKind::AlreadyExists);
        let mut editor = fs::OpenOptions::new().write(true).open(&path).expect("opened");
        let draft = draft("two");
        draft.flush().expect("flushed");
        let mut replaced = draft.exchange(&path).expect("exchanged");
        assert_eq!(replaced.bytes, b"one");
        editor.write_all(b"late").expect("written");
        io::Seek::rewind(&mut replaced.file).expect("rewound");
        let mut late = String::new();
        replaced.file.read_to_string(&mut late).expect("read");
        assert_eq!((late.as_str(), fs::read_to_string(&path).expect("read").as_str()), ("late", "two"));
        assert_eq!(names(dir.path()), ["task.md"]);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_leftover() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("taken");
        fs::create_dir_all(path.join("full")).expect("a directory in the way");
        replace(&path, b"new", Mode::Shared).expect_err("a directory is not replaced by a file");
        assert_eq!(names(dir.path()), ["taken"]);
    }

    #[test]
    fn a_sweep_takes_what_a_kill_left_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for name in [".chela-x1Y2z3.tmp", "chela.json", "notes.tmp", ".chela-rc"] {
            fs::write(dir.path().join(name), "").expect("written");
        }
        sweep(dir.path()).expect("swept");
        assert_eq!(names(dir.path()), [".chela-rc", "chela.json", "notes.tmp"]);
    }
}
