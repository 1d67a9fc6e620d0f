//! Directories of `std::fs` on a simulated disk: the names and signatures that the crate uses, nothing more.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::simulated::with;

#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
}

impl DirBuilder {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        with(|disk| {
            let boot = disk.boot;
            disk.enter_or_fail(boot)?;
            if disk.find(path).is_ok() {
                return if self.recursive { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) };
            }
            let missing: Vec<&Path> = path.ancestors().take_while(|folder| disk.find(folder).is_err()).collect();
            if missing.len() > 1 && !self.recursive {
                return Err(io::ErrorKind::NotFound.into());
            }
            missing.into_iter().rev().try_for_each(|folder| disk.create(folder, true).map(drop))
        })
    }
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, _: u32) -> &mut Self {
        self
    }
}

#[derive(Debug)]
pub struct DirEntry {
    path: PathBuf,
}

impl DirEntry {
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.path.file_name().unwrap_or_default().to_owned()
    }
}

pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    with(|disk| {
        let boot = disk.boot;
        disk.enter_or_fail(boot)?;
        Ok(disk.find(path.as_ref()).is_ok())
    })
}

pub fn read_dir(path: impl AsRef<Path>) -> io::Result<std::vec::IntoIter<io::Result<DirEntry>>> {
    let path = path.as_ref();
    with(|disk| {
        let boot = disk.boot;
        disk.enter_or_fail(boot)?;
        disk.find(path)?;
        let below = disk.names.keys().filter(|name| name.parent() == Some(path));
        let below: Vec<_> = below.map(|path| Ok(DirEntry { path: path.clone() })).collect();
        Ok(below.into_iter())
    })
}

pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    with(|disk| {
        let boot = disk.boot;
        disk.enter_or_fail(boot)?;
        disk.unlink(path.as_ref())
    })
}

pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    with(|disk| {
        let boot = disk.boot;
        disk.enter_or_fail(boot)?;
        disk.rename(from.as_ref(), to.as_ref())
    })
}
