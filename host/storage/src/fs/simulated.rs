//! Files of `std::fs` on a simulated disk: the names and signatures that the crate uses, nothing more.
//! Keeps true: each call passes the disk's gate, so each can be the last. Never: outlives a restart; a handle from before it is dead.

use std::cell::RefCell;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::disk::Disk;
use super::faults::Mutant;

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

/// Makes `disk` the one that this thread's files are on, in place of the one before.
pub fn install(disk: Disk) {
    DISK.set(Some(disk));
}

/// The disk of this thread. Panics without one: nothing simulated runs without a disk.
pub fn with<R>(act: impl FnOnce(&mut Disk) -> R) -> R {
    DISK.with_borrow_mut(|disk| act(disk.as_mut().expect("a disk is installed on this thread")))
}

/// Whether this run believes every checksum.
pub(crate) fn ignores_checksums() -> bool {
    DISK.with_borrow(|disk| disk.as_ref().is_some_and(|disk| disk.mutant == Some(Mutant::NoChecksum)))
}

#[derive(Debug)]
pub struct File {
    inode: u64,
    boot: u64,
    position: AtomicU64,
    append: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    len: u64,
    changed: u64,
}

impl Metadata {
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// A call of the disk takes a millisecond.
    pub fn modified(&self) -> io::Result<SystemTime> {
        Ok(UNIX_EPOCH + Duration::from_millis(self.changed))
    }
}

impl File {
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path)
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        with(|disk| {
            disk.enter_or_fail(self.boot)?;
            let changed = disk.inodes.get(&self.inode).map_or(0, |inode| inode.changed);
            Ok(Metadata { len: self.size(disk) as u64, changed })
        })
    }

    pub fn set_len(&self, len: u64) -> io::Result<()> {
        with(|disk| {
            disk.enter_or_fail(self.boot)?;
            disk.set_len(self.inode, index(len));
            Ok(())
        })
    }

    pub fn sync_all(&self) -> io::Result<()> {
        with(|disk| {
            disk.enter(self.boot)?;
            disk.sync(self.inode)
        })
    }

    pub fn sync_data(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn size(&self, disk: &Disk) -> usize {
        disk.inodes.get(&self.inode).map_or(0, |inode| inode.current.len())
    }
}

impl FileExt for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        with(|disk| {
            disk.enter_or_fail(self.boot)?;
            let bytes = disk.inodes.get(&self.inode).map_or(&[][..], |inode| &inode.current);
            let rest = bytes.get(index(offset)..).unwrap_or_default();
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        with(|disk| {
            disk.enter(self.boot)?;
            // As Linux has it: a file opened for appending takes no other place.
            let place = if self.append { self.size(disk) } else { index(offset) };
            disk.write(self.inode, place, bytes)
        })
    }
}

impl Read for &File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(into, self.position.load(Relaxed))?;
        self.position.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

impl Write for &File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.append {
            self.position.store(with(|disk| self.size(disk)) as u64, Relaxed);
        }
        let count = self.write_at(bytes, self.position.load(Relaxed))?;
        self.position.fetch_add(count as u64, Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(place) => (place, 0),
            SeekFrom::End(by) => (with(|disk| self.size(disk)) as u64, by),
            SeekFrom::Current(by) => (self.position.load(Relaxed), by),
        };
        let place = from.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?;
        self.position.store(place, Relaxed);
        Ok(place)
    }
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
}

impl OpenOptions {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn read(&mut self, _: bool) -> &mut Self {
        self
    }

    pub fn write(&mut self, _: bool) -> &mut Self {
        self
    }

    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        with(|disk| {
            let boot = disk.boot;
            disk.enter_or_fail(boot)?;
            let inode = match disk.find(path) {
                Ok(_) if self.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
                Ok(inode) => inode,
                Err(_) if self.create || self.create_new => disk.create(path, false)?,
                Err(error) => return Err(error),
            };
            if self.truncate {
                disk.set_len(inode, 0);
            }
            Ok(File { inode, boot, position: AtomicU64::new(0), append: self.append })
        })
    }
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, _: u32) -> &mut Self {
        self
    }

    fn custom_flags(&mut self, _: i32) -> &mut Self {
        self
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
