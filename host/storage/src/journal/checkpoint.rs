//! A checkpoint in three steps, so that copying does not stop commits: begin (a new segment), write (on any thread), finish.
//! Keeps true: a snapshot has its name only when it is whole and durable, and old files go only after that. Never: reads a file that can
//! still change.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{self, Name};
use super::line;
use super::live::Place;
use super::read::Reader;
use super::{Error, Journal};
use crate::fs::{self, OpenOptions};

/// All that lived when it was begun. Dropping it gives the checkpoint up.
#[derive(Debug)]
pub struct Checkpoint {
    dir: PathBuf,
    number: u64,
    seq: u64,
    places: Vec<Place>,
    running: Arc<()>,
}

/// A durable snapshot that the journal does not use yet.
#[derive(Debug)]
pub struct Written {
    number: u64,
    /// The records in their order, and where each line is now.
    lines: Vec<((u64, u32), u64, u32)>,
    bytes: u64,
    _running: Arc<()>,
}

impl Written {
    #[must_use]
    pub fn records(&self) -> usize {
        self.lines.len()
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Journal {
    /// Whether a checkpoint is worth its while: the dead outweigh the living.
    #[must_use]
    pub fn wants_checkpoint(&self) -> bool {
        let dead = self.bytes().saturating_sub(self.live.bytes);
        let worth = dead > self.live.bytes && dead >= self.options.dead_bytes_min;
        worth && self.broken.is_none() && self.checkpoint.strong_count() == 0
    }

    /// Closes the active segment and takes note of what lives.
    pub fn begin_checkpoint(&mut self) -> Result<Checkpoint, Error> {
        self.check()?;
        if self.checkpoint.strong_count() > 0 {
            return Err(Error::CheckpointRunning);
        }
        // A snapshot is never written over another of the same number, which is being read.
        if self.end > 0 || self.snapshot == Some(self.active) {
            self.rotate()?;
        }
        let running = Arc::new(());
        self.checkpoint = Arc::downgrade(&running);
        Ok(Checkpoint { dir: self.dir.clone(), number: self.active, seq: self.seq, places: self.live.all(), running })
    }

    /// Takes the snapshot into use, then removes what it replaces. A failure leaves old files, which the next checkpoint or start removes.
    pub fn finish_checkpoint(&mut self, written: Written) -> Result<(), Error> {
        let name = Name::Snapshot(written.number);
        let is_old = |place: &Place| place.file().number() < written.number;
        let find = |place: &Place| written.lines.binary_search_by_key(&place.order(), |(order, ..)| *order);
        if self.live.places_mut().any(|place| is_old(place) && find(place).is_err()) {
            let what = "the snapshot lacks a live record".to_owned();
            return Err(Error::Corrupt { path: name.path(&self.dir), offset: 0, what });
        }
        for place in self.live.places_mut().filter(|place| is_old(place)) {
            if let Ok(at) = find(place) {
                let (_, offset, len) = written.lines[at];
                place.moved(name, offset, len);
            }
        }
        self.snapshot = Some(written.number);
        self.sizes.retain(|name, _| name.number() >= written.number);
        self.sizes.insert(name, written.bytes);
        files::remove_before(&self.dir, written.number)
    }
}

impl Checkpoint {
    /// Writes the snapshot; it takes as long as reading and writing every live record takes.
    pub fn write(self) -> Result<Written, Error> {
        let unfinished = files::unfinished(&self.dir, self.number);
        let outcome = self.write_to(&unfinished);
        if outcome.is_err() {
            // The next start removes it if this does not.
            let _ = fs::remove_file(&unfinished);
        }
        let (lines, bytes) = outcome?;
        files::sync_dir(&self.dir)?;
        Ok(Written { number: self.number, lines, bytes, _running: self.running })
    }

    #[expect(clippy::type_complexity, reason = "it is the field of `Written`")]
    fn write_to(&self, unfinished: &Path) -> Result<(Vec<((u64, u32), u64, u32)>, u64), Error> {
        const FLUSH_BYTES: usize = 1024 * 1024;
        let failed = |source: io::Error| Error::io("write", unfinished, source);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(unfinished).map_err(failed)?;
        let mut reader = Reader::new(&self.dir);
        let (mut lines, mut text, mut written) = (Vec::with_capacity(self.places.len()), Vec::new(), 0);
        line::write_head(&mut text, self.number, self.places.len() as u64, self.seq);
        for place in &self.places {
            let start = text.len();
            reader.with(place, |kind, id, body| line::write_saved(&mut text, place.order(), kind, id, body))?;
            let len = u32::try_from(text.len() - start - 1).unwrap_or(u32::MAX);
            lines.push((place.order(), written + start as u64, len));
            if text.len() >= FLUSH_BYTES {
                file.write_all(&text).map_err(failed)?;
                written += text.len() as u64;
                text.clear();
            }
        }
        file.write_all(&text).map_err(failed)?;
        written += text.len() as u64;
        file.sync_all().map_err(failed)?;
        fs::rename(unfinished, Name::Snapshot(self.number).path(&self.dir)).map_err(failed)?;
        Ok((lines, written))
    }
}
