//! Tells when a file has been changed and its writer has finished.
//! Watches the directory, not the file: editors replace a file by renaming another over it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use crate::clock::Clock;

/// A file counts as written when its size and time have stood for so long.
const SETTLED: Duration = Duration::from_millis(200);
/// A writer that never rests is not waited for.
const SETTLING_MAX: u32 = 25;

pub(super) struct Watcher {
    path: PathBuf,
    clock: Clock,
    changes: mpsc::Receiver<()>,
    /// A change was told and not yet looked at.
    pending: bool,
    seen: Option<Stamp>,
    _watcher: Option<notify::RecommendedWatcher>,
}

/// Size, change time and inode: the change time also moves when only the rights do.
type Stamp = (u64, i64, i64, u64);

impl Watcher {
    pub(super) fn new(path: &Path, clock: Clock) -> Self {
        let (sender, changes) = mpsc::channel(1);
        let watcher = start(path, sender)
            .inspect_err(|error| {
                tracing::warn!(%error, "the configuration is not watched; after a change send SIGHUP or call config.reload");
            })
            .ok();
        Self { path: path.to_owned(), clock, changes, pending: false, seen: stamp(path), _watcher: watcher }
    }

    /// Completes when the file differs from the last time and has settled. Dropped halfway, it forgets nothing.
    pub(super) async fn changed(&mut self) {
        loop {
            if !self.pending && self.changes.recv().await.is_none() {
                // Nothing watches, so nothing will ever change.
                std::future::pending::<()>().await;
            }
            self.pending = true;
            let settled = self.settle().await;
            self.pending = false;
            if settled != self.seen {
                self.seen = settled;
                return;
            }
        }
    }

    async fn settle(&mut self) -> Option<Stamp> {
        let mut last = stamp(&self.path);
        for _ in 0..SETTLING_MAX {
            self.clock.sleep(SETTLED).await;
            let now = stamp(&self.path);
            if now == last {
                break;
            }
            last = now;
        }
        last
    }
}

fn start(path: &Path, changes: mpsc::Sender<()>) -> notify::Result<notify::RecommendedWatcher> {
    let name = path.file_name().map(ToOwned::to_owned);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let ours = match event {
            Ok(event) => {
                event.need_rescan()
                    || (!event.kind.is_access() && event.paths.iter().any(|p| p.file_name() == name.as_deref()))
            }
            Err(_) => true,
        };
        if ours {
            // A full queue already says that something changed.
            let _ = changes.try_send(());
        }
    })?;
    let directory = path.parent().unwrap_or(Path::new("."));
    watcher.watch(directory, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let facts = fs::metadata(path).ok()?;
    Some((facts.len(), facts.ctime(), facts.ctime_nsec(), facts.ino()))
}
