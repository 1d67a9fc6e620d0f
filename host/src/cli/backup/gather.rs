//! Opens the files of a state directory and notes how long each is: a log that grows on, a file that is replaced or taken away, is still
//! the one of that moment. Where there are more than may be open at once, those that changed last are opened, and of the others it is
//! noted which file it was: one that is another by the time it is read is refused. Left out: what is made from the rest again, what is
//! only there while a gateway serves, and half-written files.

use std::cmp::Reverse;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::process::{Resource, getrlimit};

use crate::cli::restore;
use crate::layout::StateDir;

pub(super) struct Gathered {
    /// Folders first named before what is in them.
    pub(super) folders: Vec<(String, u32)>,
    pub(super) files: Vec<Kept>,
    /// Links, pipes, names that are no text, and what a restore set aside.
    pub(super) skipped: Vec<String>,
}

pub(super) struct Kept {
    /// Below the state directory.
    pub(super) path: String,
    source: Source,
    pub(super) bytes: u64,
    pub(super) mode: u32,
    pub(super) changed: u64,
}

enum Source {
    Opened(File),
    Noted(PathBuf, Which),
}

/// Which file it was. A number is given to another file soon after its own is gone, so its birth counts too, where there is one.
#[derive(PartialEq, Eq)]
struct Which {
    device: u64,
    number: u64,
    born: Option<SystemTime>,
}

impl Which {
    fn of(facts: &Metadata) -> Self {
        Self { device: facts.dev(), number: facts.ino(), born: facts.created().ok() }
    }
}

/// A file that was only noted is not there any more, or is another.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} was replaced or taken away while others were copied; back up again, or let more files be open at once (`ulimit -n`)", path.display()
)]
pub(super) struct Changed {
    path: PathBuf,
}

impl Changed {
    /// Whether this is why something failed.
    pub(super) fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

impl Kept {
    /// The file of that moment, for reading its first `bytes`.
    pub(super) fn open(self) -> io::Result<File> {
        let (path, which) = match self.source {
            Source::Opened(file) => return Ok(file),
            Source::Noted(path, which) => (path, which),
        };
        let changed = |path: &Path| io::Error::other(Changed { path: path.to_owned() });
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(changed(&path)),
            opened => opened.map_err(|error| named(&path, error))?,
        };
        let facts = file.metadata().map_err(|error| named(&path, error))?;
        // Who only grows is still the one of that moment.
        if Which::of(&facts) == which && facts.len() >= self.bytes { Ok(file) } else { Err(changed(&path)) }
    }
}

/// For the archive, standard streams, folders that are looked at and the way to the gateway.
const OPEN_ELSEWHERE: u64 = 48;

/// How many files may be open at once for a backup.
pub(super) fn open_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(OPEN_ELSEWHERE)).unwrap_or(usize::MAX)
}

/// All that is kept, with `open_max` files open at most.
pub(super) fn gather(dir: &StateDir, open_max: usize) -> io::Result<Gathered> {
    let derived = [dir.index(), dir.plugin_cache(), dir.run()];
    let mut gathered = Gathered { folders: Vec::new(), files: Vec::new(), skipped: Vec::new() };
    let (mut left, mut found) = (vec![dir.path().to_owned()], Vec::new());
    while let Some(folder) = left.pop() {
        let entries = match fs::read_dir(&folder) {
            // Taken away since it was named.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| named(&folder, error))?,
        };
        for entry in entries {
            let path = entry.map_err(|error| named(&folder, error))?.path();
            let below = path.strip_prefix(dir.path()).unwrap_or(&path);
            let Some(name) = below.to_str().filter(|name| !name.chars().any(char::is_control)) else {
                gathered.skipped.push(below.to_string_lossy().into_owned());
                continue;
            };
            let unfinished =
                below.file_name().is_some_and(|name| chela_storage::is_unfinished(&name.to_string_lossy()));
            if derived.contains(&path) || unfinished || name.starts_with(restore::DRAFT) {
                continue;
            }
            if name.starts_with(restore::ASIDE) {
                gathered.skipped.push(name.to_owned());
                continue;
            }
            match fs::symlink_metadata(&path) {
                Ok(facts) if facts.is_dir() => {
                    gathered.folders.push((name.to_owned(), facts.mode() & 0o777));
                    left.push(path);
                }
                Ok(facts) if facts.is_file() => found.push((name.to_owned(), path.clone(), facts)),
                Ok(_) => gathered.skipped.push(name.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(named(&path, error)),
            }
        }
    }
    // What was changed last is what is changed next.
    found.sort_by_key(|(_, _, facts)| Reverse((facts.mtime(), facts.mtime_nsec())));
    let noted = found.split_off(found.len().min(open_max));
    for (name, path, _) in found {
        gathered.files.extend(open(&path, name)?);
    }
    gathered.files.extend(noted.into_iter().map(|(name, path, facts)| {
        let which = Which::of(&facts);
        kept(name, Source::Noted(path, which), &facts)
    }));
    gathered.files.sort_by(|one, other| one.path.cmp(&other.path));
    gathered.folders.sort();
    gathered.skipped.sort();
    Ok(gathered)
}

fn open(path: &Path, name: String) -> io::Result<Option<Kept>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(path, error)),
    };
    let facts = file.metadata().map_err(|error| named(path, error))?;
    Ok(Some(kept(name, Source::Opened(file), &facts)))
}

fn kept(path: String, source: Source, facts: &Metadata) -> Kept {
    let changed = u64::try_from(facts.mtime()).unwrap_or_default();
    Kept { path, source, bytes: facts.len(), mode: facts.mode() & 0o777, changed }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn text(kept: Kept) -> io::Result<String> {
        let (mut text, bytes) = (String::new(), kept.bytes);
        kept.open()?.take(bytes).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn past_what_may_be_open_a_file_that_grew_is_as_it_was_and_one_that_is_another_is_refused() {
        let root = tempfile::tempdir().expect("a directory");
        let path = |name: &str| root.path().join(name);
        for name in ["grown", "replaced", "gone", "same"] {
            fs::write(path(name), name).expect("written");
        }
        for (open_max, are_there) in [(4, 4), (0, 2)] {
            let gathered = gather(&StateDir::new(root.path()), open_max).expect("gathered");
            let mut log = fs::OpenOptions::new().append(true).open(path("grown")).expect("a log");
            log.write_all(b" and more").expect("written");
            fs::write(path("draft"), "another").expect("written");
            fs::rename(path("draft"), path("replaced")).expect("replaced");
            fs::remove_file(path("gone")).expect("ours");
            let read: Vec<_> = gathered.files.into_iter().map(|kept| (kept.path.clone(), text(kept))).collect();
            let there: Vec<&String> = read.iter().filter_map(|(_, text)| text.as_ref().ok()).collect();
            assert_eq!(there.len(), are_there, "{read:?}");
            for (name, text) in &read {
                match text {
                    Ok(text) => assert!(text.starts_with(name.as_str()) && !text.contains("another"), "{name}: {text}"),
                    Err(error) => assert!(Changed::is_in(error), "{name}: {error}"),
                }
            }
            for name in ["grown", "replaced", "gone"] {
                fs::write(path(name), name).expect("written");
            }
        }
    }
}
