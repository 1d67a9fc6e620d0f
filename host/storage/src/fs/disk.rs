//! A simulated disk with its page cache: what a program sees, what a power cut would leave, and the faults between.
//! Owns files as inodes, names as an ordered list of changes not yet durable. Keeps true: only what was flushed is certain to survive; all
//! else survives by chance, block by block, in any order. Never: touches a real file; the code under test does not know it is here.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use super::faults::{Faults, Mutant};

#[derive(Debug, Default)]
pub(super) struct Inode {
    /// The path of a directory.
    pub directory: Option<PathBuf>,
    pub current: Vec<u8>,
    pub durable: Vec<u8>,
    /// When its bytes changed last, in calls of the disk.
    pub changed: u64,
    /// Blocks whose write-back failed: the kernel calls them clean, and no later flush writes them.
    pub lost: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Link { path: PathBuf, inode: u64 },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
    Unlink { path: PathBuf },
}

impl Change {
    fn is_in(&self, folder: &Path) -> bool {
        let path = match self {
            Self::Link { path, .. } | Self::Unlink { path } => path,
            Self::Rename { to, .. } => to,
        };
        path.parent() == Some(folder)
    }

    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link { path, inode } => drop(names.insert(path.clone(), *inode)),
            Self::Unlink { path } => drop(names.remove(path)),
            Self::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

/// One machine's disk. Install it with [`super::simulated::install`]; it belongs to one thread.
#[derive(Debug)]
pub struct Disk {
    pub faults: Faults,
    pub mutant: Option<Mutant>,
    /// Calls since the disk was made.
    pub calls: u64,
    pub(super) random: Rng,
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) names: BTreeMap<PathBuf, u64>,
    pub(super) durable_names: BTreeMap<PathBuf, u64>,
    pub(super) pending: Vec<Change>,
    /// Flushes that a mutant does later.
    pub(super) deferred: Vec<u64>,
    pub(super) boot: u64,
    pub(super) crashed: bool,
    next_inode: u64,
}

impl Disk {
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        let root = Inode { directory: Some("/".into()), ..Inode::default() };
        let names = BTreeMap::from([(PathBuf::from("/"), 0)]);
        Self {
            faults,
            mutant: None,
            calls: 0,
            random: Rng::with_seed(seed),
            inodes: BTreeMap::from([(0, root)]),
            durable_names: names.clone(),
            names,
            pending: Vec::new(),
            deferred: Vec::new(),
            boot: 0,
            crashed: false,
            next_inode: 1,
        }
    }

    /// Whether the machine stands still; every call fails until it starts again.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.crashed
    }

    /// The files below `folder`, as a program sees them, with their bytes.
    #[must_use]
    pub fn files(&self, folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let below = self.names.iter().filter(|(path, _)| path.parent() == Some(folder));
        let file = |(path, inode): (&PathBuf, &u64)| {
            let inode = self.inodes.get(inode).filter(|inode| inode.directory.is_none())?;
            Some((path.clone(), inode.current.clone()))
        };
        below.filter_map(file).collect()
    }

    /// Puts a directory there, durable, as if it had always been.
    pub fn place_dir(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.create(path, true)?;
        self.pending.pop();
        self.durable_names.insert(path.to_owned(), inode);
        Ok(())
    }

    /// Puts a file there, durable, as if it had always been: for damage that no crash makes. Its directory must be there.
    pub fn place(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let inode = self.find(path).or_else(|_| self.create(path, false))?;
        self.durable_names.insert(path.to_owned(), inode);
        self.inodes.insert(inode, Inode { current: bytes.to_vec(), durable: bytes.to_vec(), ..Inode::default() });
        Ok(())
    }

    /// Every call passes here first: it may be the last one, fail, or find that the kernel wrote something back.
    pub(super) fn enter(&mut self, boot: u64) -> io::Result<()> {
        if self.crashed || boot != self.boot {
            return Err(io::Error::other("the machine has stopped"));
        }
        self.calls += 1;
        if self.faults.crash_at == Some(self.calls) {
            self.crashed = true;
            return Err(io::Error::other("the machine stops here"));
        }
        if self.mutant == Some(Mutant::AckBeforeSync) {
            for inode in std::mem::take(&mut self.deferred) {
                self.flush(inode);
            }
        }
        if self.chance(self.faults.write_backs) {
            self.write_back();
        }
        Ok(())
    }

    /// A call that may also fail by itself.
    pub(super) fn enter_or_fail(&mut self, boot: u64) -> io::Result<()> {
        self.enter(boot)?;
        if self.chance(self.faults.io_errors) { Err(io_error()) } else { Ok(()) }
    }

    pub(super) fn create(&mut self, path: &Path, directory: bool) -> io::Result<u64> {
        self.parent_of(path)?;
        let inode = self.next_inode;
        self.next_inode += 1;
        let directory = directory.then(|| path.to_owned());
        self.inodes.insert(inode, Inode { directory, ..Inode::default() });
        self.change(Change::Link { path: path.to_owned(), inode });
        Ok(inode)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.parent_of(to)?;
        let inode = self.find(from)?;
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        self.change(Change::Unlink { path: path.to_owned() });
        if self.mutant == Some(Mutant::OldDroppedFirst) && !self.deferred.is_empty() {
            // The removal alone reaches the disk; the flush that should have come first is done by the next flush of the directory.
            self.durable_names.remove(path);
            self.deferred.clear();
        }
        Ok(())
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes as much as fits; nothing fits: ENOSPC. A failing device takes a part first.
    pub(super) fn write(&mut self, inode: u64, offset: usize, bytes: &[u8]) -> io::Result<usize> {
        if self.chance(self.faults.io_errors) {
            // A short count first, as a device does that fails in the middle; the next call of the loop fails.
            let part = self.random.usize(0..=bytes.len().saturating_sub(1));
            if part == 0 {
                return Err(io_error());
            }
            self.store(inode, offset, &bytes[..part]);
            return Ok(part);
        }
        let room = self.faults.capacity.map_or(bytes.len(), |capacity| {
            let used: usize = self.names.values().filter_map(|id| self.inodes.get(id)).map(|i| i.current.len()).sum();
            let held = self.inodes.get(&inode).map_or(0, |inode| inode.current.len().saturating_sub(offset));
            capacity.saturating_sub(used).saturating_add(held).min(bytes.len())
        });
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.store(inode, offset, &bytes[..room]);
        Ok(room)
    }

    pub(super) fn set_len(&mut self, inode: u64, len: usize) {
        let block = self.faults.block;
        if let Some(inode) = self.inodes.get_mut(&inode) {
            inode.changed = self.calls;
            inode.current.resize(len, 0);
            inode.lost.retain(|at| at * block < len);
        }
    }

    /// Flushes a file or a directory, as the mutant would have it.
    pub(super) fn sync(&mut self, inode: u64) -> io::Result<()> {
        let folder = self.inodes.get(&inode).and_then(|inode| inode.directory.clone());
        if self.chance(self.faults.io_errors) {
            self.fail_to_flush(inode);
            return if self.mutant == Some(Mutant::SwallowedSyncError) { Ok(()) } else { Err(io_error()) };
        }
        let renamed = |change: &Change| matches!(change, Change::Rename { .. });
        match self.mutant {
            Some(Mutant::NoFileSync) if folder.is_none() => {}
            Some(Mutant::NoDirectorySync) if folder.is_some() => {}
            Some(Mutant::AckBeforeSync) => self.deferred.push(inode),
            Some(Mutant::OldDroppedFirst)
                if folder.is_some() && self.deferred.is_empty() && self.pending.last().is_some_and(renamed) =>
            {
                self.deferred.push(inode);
            }
            _ => self.flush(inode),
        }
        Ok(())
    }

    pub(super) fn chance(&mut self, of_ten_thousand: u32) -> bool {
        of_ten_thousand > 0 && self.random.u32(0..10_000) < of_ten_thousand
    }

    fn parent_of(&self, path: &Path) -> io::Result<u64> {
        self.find(path.parent().unwrap_or(Path::new("/")))
    }

    fn store(&mut self, inode: u64, offset: usize, bytes: &[u8]) {
        let block = self.faults.block;
        if let Some(inode) = self.inodes.get_mut(&inode) {
            inode.changed = self.calls;
            let end = offset + bytes.len();
            if inode.current.len() < end {
                inode.current.resize(end, 0);
            }
            inode.current[offset..end].copy_from_slice(bytes);
            inode.lost.retain(|at| (at + 1) * block <= offset || at * block >= end);
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    fn flush(&mut self, inode: u64) {
        let block = self.faults.block;
        let Some(inode) = self.inodes.get_mut(&inode) else { return };
        if let Some(folder) = inode.directory.clone() {
            let (now, later) = std::mem::take(&mut self.pending).into_iter().partition(|change| change.is_in(&folder));
            self.pending = later;
            let now: Vec<Change> = now;
            now.iter().for_each(|change| change.apply(&mut self.durable_names));
        } else {
            inode.write_blocks(block, |_| true);
            let size = inode.current.len();
            inode.durable.resize(size, 0);
        }
    }
}

fn io_error() -> io::Error {
    io::Error::other("input/output error (simulated)")
}
