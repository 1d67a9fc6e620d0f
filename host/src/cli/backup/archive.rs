//! The archive: a tar file that begins with what it is, and ends with the checksum of every file in it.
//! Keeps true: what is read has passed every check before anybody sees it; no name in an archive leads out of where it is unpacked.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use super::gather::Gathered;
use crate::app::Stamp;
use crate::cli::progress::Amount;
use crate::clock::Timestamp;

pub(in crate::cli) const FORMAT: u32 = 1;
const HEAD: &str = "chela-backup.json";
const SUMS: &str = "chela-backup.sums";
/// Of what it says of itself no more is read.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
const SUMS_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// What an archive says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Head {
    pub(in crate::cli) format: u32,
    #[serde(flatten)]
    pub(in crate::cli) stamp: Stamp,
    pub(in crate::cli) at: Timestamp,
    pub(in crate::cli) files: usize,
    pub(in crate::cli) bytes: u64,
}

impl Head {
    /// What there is to do for whoever writes or reads all of it.
    pub(in crate::cli) fn all(&self) -> Amount {
        Amount { files: self.files, bytes: self.bytes }
    }
}

#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Error {
    #[error("this is no backup of chela: {0}")]
    Foreign(String),
    #[error(
        "the backup has the format {found}, and this version reads {FORMAT}; restore it with the version that made it"
    )]
    Format { found: u32 },
    #[error("the backup is damaged: {0}; take another one")]
    Damaged(String),
    #[error("cannot unpack {what}")]
    Unpack { what: String, source: io::Error },
}

/// Tells `told` of every piece and of the end of every file.
pub(super) fn write(
    out: &mut impl Write,
    head: &Head,
    gathered: Gathered,
    told: &mut dyn FnMut(Amount),
) -> io::Result<()> {
    let mut tar = tar::Builder::new(out);
    let at = head.at.0 / 1_000;
    append(&mut tar, HEAD, 0o600, at, &serde_json::to_vec_pretty(head)?)?;
    for (path, mode) in &gathered.folders {
        let mut header = header(EntryType::Directory, 0, *mode, at);
        tar.append_data(&mut header, format!("state/{path}"), io::empty())?;
    }
    let mut sums = String::new();
    for kept in gathered.files {
        let (path, bytes) = (kept.path.clone(), kept.bytes);
        let mut header = header(EntryType::Regular, bytes, kept.mode, kept.changed);
        let mut whole = Whole { inner: kept.open()?.take(bytes), left: bytes, hash: Sha256::new(), told: &mut *told };
        let appended = tar.append_data(&mut header, format!("state/{path}"), &mut whole);
        appended.map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
        (whole.told)(Amount::FILE);
        sums.push_str(&format!("{}  state/{path}\n", hex(whole.hash)));
    }
    append(&mut tar, SUMS, 0o600, at, sums.as_bytes())?;
    tar.finish()
}

fn append<W: Write>(tar: &mut tar::Builder<W>, name: &str, mode: u32, at: u64, bytes: &[u8]) -> io::Result<()> {
    let mut header = header(EntryType::Regular, bytes.len() as u64, mode, at);
    tar.append_data(&mut header, name, bytes)
}

fn header(kind: EntryType, bytes: u64, mode: u32, changed: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(mode);
    header.set_mtime(changed);
    header
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads exactly as much as was said, and what it was.
struct Whole<'a, R> {
    inner: R,
    left: u64,
    hash: Sha256,
    told: &'a mut dyn FnMut(Amount),
}

impl<R: Read> Read for Whole<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        if read == 0 && self.left > 0 && !into.is_empty() {
            return Err(io::Error::other("it got shorter while it was read; back up again"));
        }
        self.left -= read as u64;
        self.hash.update(&into[..read]);
        (self.told)(Amount::bytes(read));
        Ok(read)
    }
}

/// What an archive says of itself; for before anything is unpacked.
pub(in crate::cli) fn read_head(from: impl Read) -> Result<Head, Error> {
    let foreign = |error: io::Error| Error::Foreign(error.to_string());
    let mut archive = tar::Archive::new(from);
    let mut entries = archive.entries().map_err(foreign)?;
    let mut first = entries.next().ok_or_else(|| Error::Foreign("it is empty".into()))?.map_err(foreign)?;
    if &*first.path_bytes() != HEAD.as_bytes() {
        return Err(Error::Foreign(format!("it does not begin with {HEAD}")));
    }
    let mut text = String::new();
    (&mut first).take(HEAD_BYTES_MAX).read_to_string(&mut text).map_err(foreign)?;
    let head: Head = serde_json::from_str(&text).map_err(|error| Error::Foreign(format!("{HEAD}: {error}")))?;
    match head.format {
        FORMAT => Ok(head),
        found => Err(Error::Format { found }),
    }
}

/// Checks every file, and unpacks the state into a new directory where there is one; what is in `into` after an error is worth nothing.
/// Tells `told` of every piece and of the end of every file.
pub(in crate::cli) fn unpack(from: impl Read, into: Option<&Path>, told: &mut dyn FnMut(Amount)) -> Result<(), Error> {
    let damaged = |error: io::Error| Error::Damaged(error.to_string());
    let mut archive = tar::Archive::new(from);
    let (mut found, mut promised) = (BTreeMap::new(), None);
    let mut folders = Vec::new();
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = String::from_utf8(entry.path_bytes().into_owned());
        let name = name.map_err(|_| Error::Damaged("a name is not UTF-8".into()))?;
        if promised.is_some() {
            return Err(Error::Damaged(format!("{name} comes after the end")));
        }
        if name == HEAD {
            continue;
        }
        if name == SUMS {
            let mut text = String::new();
            (&mut entry).take(SUMS_BYTES_MAX).read_to_string(&mut text).map_err(damaged)?;
            promised = Some(text);
            continue;
        }
        let below = own_name(&name).ok_or_else(|| Error::Damaged(format!("{name:?} leads out of it")))?;
        let path = into.map(|into| into.join(below));
        let unpacked = |source| Error::Unpack { what: name.clone(), source };
        let mode = entry.header().mode().unwrap_or(0o600) & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => {
                if let Some(path) = path {
                    fs::create_dir_all(&path).map_err(unpacked)?;
                    folders.push((path, mode));
                }
            }
            EntryType::Regular => {
                let changed = entry.header().mtime().ok();
                let sum = match &path {
                    Some(path) => unpack_file(&mut entry, path, mode, changed, told).map_err(unpacked)?,
                    None => hex(summed(&mut entry, told, |_| Ok(())).map_err(damaged)?),
                };
                told(Amount::FILE);
                if found.insert(name.clone(), sum).is_some() {
                    return Err(Error::Damaged(format!("{name} is in it twice")));
                }
            }
            other => return Err(Error::Damaged(format!("{name} is of the kind {other:?}"))),
        }
    }
    let promised = promised.ok_or_else(|| Error::Damaged("its end is missing".into()))?;
    let promised: BTreeMap<String, String> = promised
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect();
    if let Some(name) = found.keys().chain(promised.keys()).find(|name| found.get(*name) != promised.get(*name)) {
        return Err(Error::Damaged(format!("{name} is not what was backed up")));
    }
    // Last, since a folder that cannot be written takes no files.
    for (path, mode) in folders {
        let set = fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o700));
        set.map_err(|source| Error::Unpack { what: path.display().to_string(), source })?;
    }
    Ok(())
}

fn unpack_file(
    from: &mut impl Read,
    path: &Path,
    mode: u32,
    changed: Option<u64>,
    told: &mut dyn FnMut(Amount),
) -> io::Result<String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let hash = summed(from, told, |piece| file.write_all(piece))?;
    // What is old stays old, for whoever looks at how the directory grows.
    let changed = changed.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    changed.map_or(Ok(()), |changed| file.set_modified(changed))?;
    file.sync_all()?;
    Ok(hex(hash))
}

/// Reads to the end, and hands every piece on.
fn summed(
    from: &mut impl Read,
    told: &mut dyn FnMut(Amount),
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Sha256> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hash),
            read => {
                hash.update(&buffer[..read]);
                take(&buffer[..read])?;
                told(Amount::bytes(read));
            }
        }
    }
}

/// The part below the state directory, if that is where a name leads.
fn own_name(name: &str) -> Option<&str> {
    let below = name.strip_prefix("state/")?;
    let inside = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
    (inside && !below.is_empty()).then_some(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::backup::gather::gather;
    use crate::layout::StateDir;

    #[test]
    fn no_name_leads_out() {
        let check = |name: &str, inside: bool| assert_eq!(own_name(name).is_some(), inside, "{name:?}");
        check("state/chela.json", true);
        check("state/logs/a", true);
        check("state/../etc/passwd", false);
        check("state//etc/passwd", false);
        check("/etc/passwd", false);
        check("state/", false);
        check("state", false);
        check("other/chela.json", false);
    }

    #[test]
    fn what_is_only_looked_at_is_held_to_the_same_as_what_is_unpacked() {
        let archive = |files: &[(&str, &str)], sums: &str| -> Vec<u8> {
            let mut tar = tar::Builder::new(Vec::new());
            for (name, text) in files {
                append(&mut tar, name, 0o600, 0, text.as_bytes()).expect("written");
            }
            append(&mut tar, SUMS, 0o600, 0, sums.as_bytes()).expect("written");
            tar.into_inner().expect("whole")
        };
        let sum = |text: &str| hex(Sha256::new().chain_update(text));
        let check = |bytes: &[u8], expected: Option<&str>| {
            let temp = tempfile::tempdir().expect("a directory");
            for into in [None, Some(temp.path())] {
                let said = unpack(bytes, into, &mut |_| ()).err().map(|error| error.to_string());
                match (&said, expected) {
                    (Some(said), Some(expected)) => assert!(said.contains(expected), "{said}"),
                    (said, expected) => assert_eq!(said.as_deref(), expected),
                }
            }
        };
        let sums = format!("{}  state/a\n", sum("one"));
        check(&archive(&[("state/a", "one")], &sums), None);
        check(&archive(&[("state/a", "two")], &sums), Some("is not what was backed up"));
        check(&archive(&[("state/a", "one"), ("state/b", "two")], &sums), Some("is not what was backed up"));
        check(&archive(&[], &sums), Some("is not what was backed up"));
        let twice = archive(&[("state/a", "two"), ("state/a", "one")], &sums);
        assert!(unpack(&twice[..], None, &mut |_| ()).expect_err("refused").to_string().contains("is in it twice"));
    }

    #[test]
    fn who_waits_hears_of_every_file_and_of_every_byte() {
        let (state, restored) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        fs::write(state.path().join("a"), "one").expect("written");
        fs::write(state.path().join("b"), vec![0; 100_000]).expect("written");
        let gathered = gather(&StateDir::new(state.path()), 8).expect("gathered");
        let head = Head { format: FORMAT, stamp: Stamp::ours(), at: Timestamp(0), files: 2, bytes: 100_003 };
        let (mut archive, mut done) = (Vec::<u8>::new(), Amount::default());
        write(&mut archive, &head, gathered, &mut |more| done += more).expect("written");
        assert_eq!(done, head.all());
        for into in [None, Some(restored.path())] {
            let mut done = Amount::default();
            unpack(&archive[..], into, &mut |more| done += more).expect("whole");
            assert_eq!(done, head.all(), "{into:?}");
        }
    }
}
