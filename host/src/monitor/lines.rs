//! Reads single lines of the log by their place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use chela_storage::Catalogue;

use super::mend::mend;

/// Segments that are kept open.
const OPEN_MAX: usize = 64;

pub(super) struct Lines(Mutex<Files>);

struct Files {
    catalogue: Catalogue,
    open: BTreeMap<u32, Arc<File>>,
}

impl Lines {
    pub(super) fn new(catalogue: Catalogue) -> Self {
        Self(Mutex::new(Files { catalogue, open: BTreeMap::new() }))
    }

    /// The bytes of the line at `seq`, as they were taken into the index.
    pub(super) fn read(&self, seq: i64, len: usize) -> io::Result<Vec<u8>> {
        let number = u32::try_from(seq >> 32).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        self.file(number)?.read_exact_at(&mut bytes, seq.unsigned_abs() & 0xffff_ffff)?;
        mend(&mut bytes);
        Ok(bytes)
    }

    /// The place after which comes what is not in the log yet.
    pub(super) fn end(&self) -> io::Result<i64> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = files.catalogue.segments()?.last().cloned() else { return Ok(0) };
        let bytes = std::fs::metadata(&last.path)?.len();
        let end = (i64::from(last.number) << 32) + i64::try_from(bytes).map_err(io::Error::other)?;
        Ok((end - 1).max(0))
    }

    /// Once the log was read anew, what a number stood for may have changed.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open.clear();
    }

    /// Segments up to this one were removed: while one is open, the disk keeps it.
    pub(super) fn forget_up_to(&self, number: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open.retain(|open, _| *open > number);
    }

    fn file(&self, number: u32) -> io::Result<Arc<File>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.open.get(&number) {
            return Ok(file.clone());
        }
        let segments = files.catalogue.segments()?;
        let segment = segments.iter().find(|segment| segment.number == number);
        let segment = segment.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the segment was removed"))?;
        let file = Arc::new(File::open(&segment.path)?);
        if files.open.len() >= OPEN_MAX {
            // The oldest events are asked for least.
            files.open.pop_first();
        }
        files.open.insert(number, file.clone());
        Ok(file)
    }
}
