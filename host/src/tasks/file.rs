//! Task files as bytes: which ones there are, what one says, and whether it may be replaced.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use chela_taskfile::is_good_id;

use super::Error;

/// A larger file is listed, not read; a task does not grow past it.
pub(super) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A file as it was read.
pub(super) enum Read {
    Text { text: String, inode: u64 },
    Unreadable { said: String, inode: u64 },
    Gone,
}

/// The id of the task that a file of `tasks/` is about; none for any other file.
pub(super) fn id_of_name(name: &str) -> Option<&str> {
    name.strip_suffix(".md").filter(|id| is_good_id(id))
}

pub(super) fn read_file(path: &Path) -> Read {
    let read = || -> io::Result<(Vec<u8>, u64, u64)> {
        // Neither a pipe that never answers nor a way out of the workspace.
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(io::Error::other("it is no plain file"));
        }
        let bytes = if facts.len() > FILE_BYTES_MAX { Vec::new() } else { contents(&file).unwrap_or_default() };
        Ok((bytes, facts.len(), facts.ino()))
    };
    match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => Read::Gone,
        Err(error) => Read::Unreadable { said: format!("it cannot be read: {error}"), inode: 0 },
        Ok((_, len, inode)) if len > FILE_BYTES_MAX => {
            Read::Unreadable { said: format!("it has {len} bytes; at most {FILE_BYTES_MAX} are read"), inode }
        }
        Ok((bytes, _, inode)) => match String::from_utf8(bytes) {
            Ok(text) => Read::Text { text, inode },
            Err(error) => {
                let said = format!("byte {} is not UTF-8; save the file as UTF-8", error.utf8_error().valid_up_to());
                Read::Unreadable { said, inode }
            }
        },
    }
}

/// All bytes of an open file, from its beginning.
pub(super) fn contents(file: &File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    while (bytes.len() as u64) <= FILE_BYTES_MAX {
        match file.read_at(&mut piece, bytes.len() as u64) {
            Ok(0) => return Some(bytes),
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(bytes)
}

pub(super) fn inode_of(file: &File) -> u64 {
    file.metadata().map_or(0, |facts| facts.ino())
}

/// A file that its owner made read-only is not replaced behind their back.
pub(super) fn may_write(path: &Path) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(facts) if facts.permissions().mode() & 0o200 == 0 => Err(Error::ReadOnly { path: path.to_owned() }),
        _ => Ok(()),
    }
}
