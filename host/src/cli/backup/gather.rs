//! Opens the files of a state directory and notes how long each is: a log that grows on, a file that is replaced or taken away, is still
//! the one of that moment. Left out: what is made from the rest again, what is only there while a gateway serves, and half-written files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::layout::StateDir;

pub(super) struct Gathered {
    /// Folders first named before what is in them.
    pub(super) folders: Vec<(String, u32)>,
    pub(super) files: Vec<Kept>,
    /// Links, pipes and names that are no text.
    pub(super) skipped: Vec<String>,
}

pub(super) struct Kept {
    /// Below the state directory.
    pub(super) path: String,
    pub(super) file: File,
    pub(super) bytes: u64,
    pub(super) mode: u32,
    pub(super) changed: u64,
}

pub(super) fn gather(dir: &StateDir) -> io::Result<Gathered> {
    let derived = [dir.index(), dir.plugin_cache(), dir.run()];
    let mut gathered = Gathered { folders: Vec::new(), files: Vec::new(), skipped: Vec::new() };
    let mut left = vec![dir.path().to_owned()];
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
            if derived.contains(&path) || unfinished {
                continue;
            }
            match fs::symlink_metadata(&path) {
                Ok(facts) if facts.is_dir() => {
                    gathered.folders.push((name.to_owned(), facts.mode() & 0o777));
                    left.push(path);
                }
                Ok(facts) if facts.is_file() => gathered.files.extend(open(&path, name)?),
                Ok(_) => gathered.skipped.push(name.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(named(&path, error)),
            }
        }
    }
    gathered.files.sort_by(|one, other| one.path.cmp(&other.path));
    gathered.folders.sort();
    gathered.skipped.sort();
    Ok(gathered)
}

fn open(path: &Path, name: &str) -> io::Result<Option<Kept>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(path, error)),
    };
    let facts = file.metadata().map_err(|error| named(path, error))?;
    let (bytes, mode) = (facts.len(), facts.mode() & 0o777);
    let changed = u64::try_from(facts.mtime()).unwrap_or_default();
    Ok(Some(Kept { path: name.to_owned(), file, bytes, mode, changed }))
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
