//! Tells when a file, or any file of a directory, has been changed and its writer has finished.
//! Keeps true: a change is told once, after sizes and times have stood still. Never: reads a file.
//! Watches the directory, not the file: editors replace a file by renaming another over it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use crate::clock::Clock;

/// A file counts as written when its size and time have stood for so long.
const SETTLED: Duration = Duration::from_millis(200);
/// A writer that never rests is not waited for.
const SETTLING_MAX: u32 = 25;
/// Of a directory no more files than these are looked at.
const FILES_MAX: usize = 1_000;
/// Names of changed files that may wait to be looked at.
const NAMES_MAX: usize = 4_096;

pub struct Watcher {
    scope: Scope,
    clock: Clock,
    changes: mpsc::Receiver<()>,
    /// A change was told and not yet looked at.
    pending: bool,
    seen: Stamps,
    _watcher: Option<notify::RecommendedWatcher>,
}

#[derive(Clone)]
enum Scope {
    File(PathBuf),
    /// The files directly in it.
    Directory(PathBuf),
}

/// Size, change time and inode: the change time also moves when only the rights do.
type Stamp = (u64, i64, i64, u64);
type Stamps = BTreeMap<PathBuf, Stamp>;

impl Watcher {
    pub fn file(path: &Path, clock: Clock) -> Self {
        Self::new(Scope::File(path.to_owned()), clock)
    }

    pub fn directory(path: &Path, clock: Clock) -> Self {
        Self::new(Scope::Directory(path.to_owned()), clock)
    }

    fn new(scope: Scope, clock: Clock) -> Self {
        let (sender, changes) = mpsc::channel(1);
        let watcher = start(scope.clone(), sender)
            .inspect_err(|error| {
                let path = scope.path().display();
                tracing::warn!(%error, %path, "not watched; a change is seen after a restart, of the configuration also after SIGHUP");
            })
            .ok();
        Self { seen: scope.stamps(), scope, clock, changes, pending: false, _watcher: watcher }
    }

    /// Completes when something differs from the last time and has settled. Dropped halfway, it forgets nothing.
    pub async fn changed(&mut self) {
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

    async fn settle(&mut self) -> Stamps {
        let mut last = self.scope.stamps();
        for _ in 0..SETTLING_MAX {
            self.clock.sleep(SETTLED).await;
            let now = self.scope.stamps();
            if now == last {
                break;
            }
            last = now;
        }
        last
    }
}

impl Scope {
    fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Directory(path) => path,
        }
    }

    /// The directory that is watched.
    fn directory(&self) -> &Path {
        match self {
            Self::File(path) => path.parent().unwrap_or(Path::new(".")),
            Self::Directory(path) => path,
        }
    }

    fn concerns(&self, event: &notify::Event) -> bool {
        let named = match self {
            Self::File(path) => event.paths.iter().any(|p| p.file_name() == path.file_name()),
            Self::Directory(_) => true,
        };
        event.need_rescan() || (!event.kind.is_access() && named)
    }

    fn stamps(&self) -> Stamps {
        let paths: Vec<PathBuf> = match self {
            Self::File(path) => vec![path.clone()],
            Self::Directory(path) => {
                let entries = fs::read_dir(path).into_iter().flatten().flatten();
                entries.take(FILES_MAX).map(|entry| entry.path()).filter(|path| path.is_file()).collect()
            }
        };
        paths.into_iter().filter_map(|path| stamp(&path).map(|stamp| (path, stamp))).collect()
    }
}

/// Names of files in some directories that changed, as they come.
pub struct Changes {
    names: mpsc::Receiver<PathBuf>,
    /// So many came that some were not noted.
    missed: Arc<AtomicBool>,
    watcher: Option<notify::RecommendedWatcher>,
}

/// What may have changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    Files(BTreeSet<PathBuf>),
    /// Any file may have: look at all.
    Anything,
}

impl Changes {
    /// Watches nothing yet.
    pub fn start() -> Self {
        let (sender, names) = mpsc::channel(NAMES_MAX);
        let missed = Arc::new(AtomicBool::new(false));
        let seen = missed.clone();
        let told = move |event: notify::Result<notify::Event>| {
            let all = event.as_ref().map_or(true, notify::Event::need_rescan);
            let paths = event.ok().filter(|event| !event.kind.is_access()).map(|event| event.paths).unwrap_or_default();
            let full =
                paths.into_iter().any(|path| matches!(sender.try_send(path), Err(mpsc::error::TrySendError::Full(_))));
            if all || full {
                seen.store(true, Ordering::Relaxed);
                // Names nothing, and wakes whoever waits; where the queue is full, they are awake.
                let _ = sender.try_send(PathBuf::new());
            }
        };
        let watcher = notify::recommended_watcher(told).inspect_err(|error| not_watched(error, Path::new(""))).ok();
        Self { names, missed, watcher }
    }

    /// Watches the files directly in a directory too.
    pub fn add(&mut self, directory: &Path) {
        if let Some(watcher) = &mut self.watcher
            && let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive)
        {
            not_watched(&error, directory);
        }
    }

    /// Completes when something changed, with all that changed until then. Dropped halfway, it forgets nothing.
    pub async fn next(&mut self) -> Changed {
        let Some(first) = self.names.recv().await else {
            return std::future::pending().await;
        };
        let mut names = BTreeSet::from([first]);
        while let Ok(name) = self.names.try_recv() {
            names.insert(name);
        }
        if self.missed.swap(false, Ordering::Relaxed) { Changed::Anything } else { Changed::Files(names) }
    }
}

fn not_watched(error: &notify::Error, path: &Path) {
    tracing::warn!(%error, path = %path.display(), "not watched; changes by hand are seen when the task is next used, or after a restart");
}

fn start(scope: Scope, changes: mpsc::Sender<()>) -> notify::Result<notify::RecommendedWatcher> {
    let directory = scope.directory().to_owned();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.map_or(true, |event| scope.concerns(&event)) {
            // A full queue already says that something changed.
            let _ = changes.try_send(());
        }
    })?;
    watcher.watch(&directory, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let facts = fs::metadata(path).ok()?;
    Some((facts.len(), facts.ctime(), facts.ctime_nsec(), facts.ino()))
}
