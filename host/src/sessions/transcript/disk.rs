//! Brings appended rows to the disk on a thread of its own, since a hundred files take longer than a run may wait for one row.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::super::record::Run;

/// A run that has ended, how many steps it has, and where its rows are.
pub(in crate::sessions) type Ended = (Run, u32, PathBuf);

/// Files that rows were appended to, and the runs that ended with them.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) files: Vec<(PathBuf, File)>,
    pub(super) ended: Vec<Ended>,
}

/// What became of a batch.
pub(super) struct Report {
    /// Files whose rows did not reach the disk.
    pub(super) failed: HashSet<PathBuf>,
    /// Runs whose rows are among those.
    pub(super) unsettled: Vec<Ended>,
}

/// The way to the thread. One batch is under way at a time.
pub(super) struct Disk {
    batches: SyncSender<Batch>,
    reports: Receiver<Report>,
    busy: bool,
}

impl Disk {
    /// Starts the thread; `settle` is told the runs whose rows have reached the disk.
    pub(super) fn start(mut settle: impl FnMut(Vec<(Run, u32)>) + Send + 'static) -> io::Result<Self> {
        let (batches, work) = sync_channel::<Batch>(1);
        let (told, reports) = sync_channel(1);
        let thread = std::thread::Builder::new().name("chela-transcripts-disk".into());
        thread.spawn(move || {
            while let Ok(batch) = work.recv() {
                let (report, settled) = bring(batch);
                if !settled.is_empty() {
                    settle(settled);
                }
                if told.send(report).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { batches, reports, busy: false })
    }

    /// What became of the batch under way, if that is known by now.
    pub(super) fn report(&mut self) -> Option<Report> {
        let report = self.reports.try_recv().ok()?;
        self.busy = false;
        Some(report)
    }

    /// Waits until the batch under way has been brought to the disk.
    pub(super) fn wait(&mut self) -> Option<Report> {
        if !self.busy {
            return None;
        }
        let report = self.reports.recv().ok();
        self.busy = false;
        report
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Hands a batch over; the one before it has been reported.
    pub(super) fn take(&mut self, batch: Batch) {
        match self.batches.send(batch) {
            Ok(()) => self.busy = true,
            Err(_) => tracing::error!("the thread that flushes transcripts has died; the journal keeps their rows"),
        }
    }
}

fn bring(batch: Batch) -> (Report, Vec<(Run, u32)>) {
    let mut failed = HashSet::new();
    for (path, file) in batch.files {
        if let Err(error) = file.sync_data() {
            tracing::error!(%error, path = %path.display(), "a transcript did not reach the disk; the journal keeps its rows");
            failed.insert(path);
        }
    }
    let (unsettled, settled): (Vec<_>, Vec<_>) =
        batch.ended.into_iter().partition(|(_, _, path)| failed.contains(path));
    let settled = settled.into_iter().map(|(run, steps, _)| (run, steps)).collect();
    (Report { failed, unsettled }, settled)
}
