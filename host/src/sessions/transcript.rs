//! Transcripts: one file a session, one JSON object a line, only ever appended to. One thread writes them all, another flushes them.
//! Keeps true: a row is written once and whole; what a crash tore is cut off, since the journal still has it. The last rows of a run that a
//! file does not take are written as soon as it takes them, before any others. A file that may have lost rows, or to which too many are owed,
//! takes none until it has been mended from the journal, which needs no restart.

mod disk;
mod gather;
mod page;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

pub(super) use disk::Ended;
use disk::{Batch, Disk, Report};
pub(super) use gather::{Source, gather};
use page::end_of_last_line;
pub(super) use page::{Page, tail, tail_of, there};

/// Work that may wait for the thread.
const QUEUE_MAX: usize = 4_096;
/// Files that are kept open.
const OPEN_MAX: usize = 256;
/// Rows are flushed to the disk after this; until then the journal has them too.
pub(super) const FLUSH_EVERY: Duration = Duration::from_secs(2);
/// Last rows of runs that wait for their files; what is past this is taken from the journal once its file can be mended.
const OWED_MAX: usize = 10_000;
/// Runs that have ended and wait for their files; what is past this waits for the next start.
const ENDED_MAX: usize = 10_000;
/// After this, a file that could not be mended is tried again.
const MEND_AGAIN: Duration = Duration::from_secs(20);

pub(super) enum Work {
    /// Appends what is not there yet.
    Append {
        path: PathBuf,
        rows: Vec<Value>,
        /// Nobody will ask for these again.
        last: bool,
        told: oneshot::Sender<io::Result<Vec<Value>>>,
    },
    /// Once what was appended is on the disk, this run needs its steps no more.
    Ended {
        run: Box<super::record::Run>,
        steps: u32,
        path: PathBuf,
    },
    /// Lets go of a file, which is about to be moved.
    Close {
        path: PathBuf,
        done: oneshot::Sender<()>,
    },
    /// Lets go of files that have all of their rows, on the disk, and tells which do.
    LetGo {
        paths: Vec<PathBuf>,
        whole: oneshot::Sender<Vec<PathBuf>>,
    },
    /// Everything asked for before this is in the files.
    Barrier(oneshot::Sender<()>),
    /// Brings the files to the disk.
    Flush,
    Stop(oneshot::Sender<()>),
}

/// The way to the thread.
#[derive(Clone)]
pub(super) struct Writer(mpsc::Sender<Work>);

impl Writer {
    /// Starts the threads; `settle` is told the runs whose rows have reached the disk.
    pub(super) fn start(
        settle: impl FnMut(Vec<(super::record::Run, u32)>) + Send + 'static,
        mend: Mend,
    ) -> io::Result<Self> {
        let (sender, work) = mpsc::channel(QUEUE_MAX);
        let thread = Thread::new(Disk::start(settle)?, mend);
        std::thread::Builder::new().name("chela-transcripts".into()).spawn(move || thread.run(work))?;
        Ok(Self(sender))
    }

    pub(super) async fn ask(&self, work: Work) {
        if self.0.send(work).await.is_err() {
            tracing::error!("the thread of transcripts has died");
        }
    }

    /// Has rows appended. `last`: what fails now is the thread's to write later.
    pub(super) async fn append(&self, path: PathBuf, rows: Vec<Value>, last: bool) -> Appended {
        let (told, appended) = oneshot::channel();
        self.ask(Work::Append { path, rows, last, told }).await;
        Appended(appended)
    }

    pub(super) async fn written(&self) {
        let (done, is_done) = oneshot::channel();
        self.ask(Work::Barrier(done)).await;
        let _ = is_done.await;
    }

    pub(super) async fn close(&self, path: PathBuf) {
        let (done, is_done) = oneshot::channel();
        self.ask(Work::Close { path, done }).await;
        let _ = is_done.await;
    }

    /// Those of the files that have all of their rows; nobody writes to them any more.
    pub(super) async fn let_go(&self, paths: Vec<PathBuf>) -> Vec<PathBuf> {
        let (whole, are_whole) = oneshot::channel();
        self.ask(Work::LetGo { paths, whole }).await;
        are_whole.await.unwrap_or_default()
    }

    pub(super) async fn stop(&self) {
        let (done, is_done) = oneshot::channel();
        self.ask(Work::Stop(done)).await;
        let _ = is_done.await;
    }
}

/// Rows on their way into a file.
pub(super) struct Appended(oneshot::Receiver<io::Result<Vec<Value>>>);

impl Appended {
    /// Waits for the rows, which have numbers then. Whoever is cut off meanwhile may ask again.
    pub(super) async fn done(&mut self) -> io::Result<Vec<Value>> {
        (&mut self.0).await.unwrap_or_else(|_| Err(io::Error::other("the thread of transcripts has died")))
    }
}

struct Open {
    file: File,
    /// The number of its last row.
    seq: u64,
    used: Instant,
}

/// The files that are open.
#[derive(Default)]
struct Files {
    open: HashMap<PathBuf, Open>,
    /// Those with rows that are not on the disk.
    dirty: HashSet<PathBuf>,
}

impl Files {
    /// Gives each row its number and writes it.
    fn append(&mut self, path: &Path, rows: &mut [Value]) -> io::Result<()> {
        let open = self.opened(path)?;
        let (mut text, mut seq) = (Vec::new(), open.seq);
        for row in rows {
            seq += 1;
            row["__openclaw"]["seq"] = json!(seq);
            serde_json::to_writer(&mut text, &row)?;
            text.push(b'\n');
        }
        let before = open.file.stream_position()?;
        if let Err(error) = open.file.write_all(&text) {
            // Half a row must not stay before the next one.
            open.file.set_len(before)?;
            open.file.seek(SeekFrom::End(0))?;
            return Err(error);
        }
        open.seq = seq;
        self.dirty.insert(path.to_owned());
        Ok(())
    }

    fn opened(&mut self, path: &Path) -> io::Result<&mut Open> {
        if !self.open.contains_key(path) {
            self.open.insert(path.to_owned(), open(path)?);
        }
        let open = self.open.get_mut(path).expect("it was put there");
        open.used = Instant::now();
        Ok(open)
    }

    /// Lets go of the file that was not used for longest, of those whose rows are on the disk or on their way there.
    fn close_one(&mut self) -> bool {
        let clean = self.open.iter().filter(|(path, _)| !self.dirty.contains(*path));
        let oldest = clean.min_by_key(|(_, open)| open.used).map(|(path, _)| path.clone());
        oldest.is_some_and(|oldest| self.open.remove(&oldest).is_some())
    }
}

/// Writes what a file lacks of runs that have ended, from the journal, and brings it to the disk.
pub(super) type Mend = Box<dyn FnMut(&Path, &[Ended]) -> io::Result<()> + Send>;

/// A file that may lack rows which nobody holds any more: the journal keeps them until it has been mended.
#[derive(Default)]
struct Refused {
    /// What was written may not be on the disk, whatever the file says now.
    unsure: bool,
    /// It has been mended. A run may have been under way then, so it is looked at once more, when the next has ended.
    mended: bool,
    again: Option<Instant>,
}

struct Thread {
    files: Files,
    disk: Disk,
    mend: Mend,
    refused: HashMap<PathBuf, Refused>,
    /// Last rows of runs that their files did not take, in order.
    owed: HashMap<PathBuf, Vec<Value>>,
    ended: Vec<Ended>,
}

impl Thread {
    fn new(disk: Disk, mend: Mend) -> Self {
        let (files, owed, refused) = (Files::default(), HashMap::new(), HashMap::new());
        Self { files, disk, mend, refused, owed, ended: Vec::new() }
    }

    fn run(mut self, mut work: mpsc::Receiver<Work>) {
        while let Some(work) = work.blocking_recv() {
            match work {
                Work::Append { path, rows, last, told } => drop(told.send(self.take(path, rows, last))),
                Work::Ended { run, steps, path } => self.end((*run, steps, path)),
                Work::Close { path, done } => {
                    if self.has_to_flush(&path) {
                        self.flush_now();
                    }
                    self.files.open.remove(&path);
                    self.owed.remove(&path);
                    self.refused.remove(&path);
                    self.ended.retain(|(_, _, other)| *other != path);
                    let _ = done.send(());
                }
                Work::LetGo { paths, whole } => drop(whole.send(self.let_go(paths))),
                Work::Barrier(done) => drop(done.send(())),
                Work::Flush => self.flush(),
                Work::Stop(done) => {
                    self.flush_now();
                    drop(self);
                    let _ = done.send(());
                    return;
                }
            }
        }
        self.flush_now();
    }

    /// Whether anything of a file may be on its way to the disk; nothing of one that nobody has used for long is.
    fn has_to_flush(&mut self, path: &Path) -> bool {
        let report = self.disk.report();
        self.hear(report);
        let lacks_rows = self.refused.contains_key(path) || self.owed.contains_key(path);
        let has_ended = |(_, _, other): &Ended| *other == *path;
        lacks_rows || self.disk.is_busy() || self.files.dirty.contains(path) || self.ended.iter().any(has_ended)
    }

    /// One flush for all of them.
    fn let_go(&mut self, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
        self.flush_now();
        let waiting: HashSet<&PathBuf> = self.ended.iter().map(|(_, _, path)| path).collect();
        let lacks = |path: &PathBuf| self.refused.contains_key(path) || self.owed.contains_key(path);
        paths.retain(|path| !waiting.contains(path) && !lacks(path) && !self.files.dirty.contains(path));
        for path in &paths {
            self.files.open.remove(path);
        }
        paths
    }

    fn end(&mut self, ended: Ended) {
        if self.ended.len() < ENDED_MAX {
            self.ended.push(ended);
        } else {
            tracing::warn!(
                run = ended.0.accepted.id,
                "too many runs wait for their transcripts; its rows are looked at by the next start"
            );
        }
    }

    /// Appends rows behind those that the file still lacks.
    fn take(&mut self, path: PathBuf, rows: Vec<Value>, last: bool) -> io::Result<Vec<Value>> {
        if self.refused.get(&path).is_some_and(|refused| !refused.mended) {
            // They would stand before those that it lacks. The last ones of a run are taken from the journal.
            return Err(io::Error::other("it lacks rows; they are written first"));
        }
        let mut all = self.owed.remove(&path).unwrap_or_default();
        let owed = all.len();
        all.extend(rows);
        match self.append(&path, &mut all) {
            Ok(()) => Ok(all.split_off(owed)),
            Err(error) => {
                if owed == 0 {
                    tracing::error!(%error, path = %path.display(), "a transcript takes no rows; the journal keeps them");
                }
                if !last {
                    all.truncate(owed);
                }
                self.owe(path, all);
                Err(error)
            }
        }
    }

    fn owe(&mut self, path: PathBuf, rows: Vec<Value>) {
        let all: usize = self.owed.values().map(Vec::len).sum();
        if all + rows.len() > OWED_MAX {
            self.refused.insert(path, Refused::default());
        } else if !rows.is_empty() {
            self.owed.insert(path, rows);
        }
    }

    /// What files did not take before may be taken now.
    fn pay(&mut self) {
        for path in self.owed.keys().cloned().collect::<Vec<_>>() {
            if self.take(path.clone(), Vec::new(), true).is_ok() {
                tracing::info!(path = %path.display(), "a transcript has the rows that it lacked");
            }
        }
    }

    fn append(&mut self, path: &Path, rows: &mut [Value]) -> io::Result<()> {
        let is_open = self.files.open.contains_key(path);
        if !is_open && self.files.open.len() >= OPEN_MAX && !self.files.close_one() {
            self.flush_now();
            self.files.close_one();
        }
        match self.files.append(path, rows) {
            // Another file makes room for this one.
            Err(error) if is_out_of_handles(&error) && self.files.close_one() => self.files.append(path, rows),
            appended => appended,
        }
    }

    /// Has what was appended brought to the disk, unless that is still going on; then the journal may let go of it.
    fn flush(&mut self) {
        let report = self.disk.report();
        self.hear(report);
        self.pay();
        if self.disk.is_busy() {
            return;
        }
        let mended = self.recover();
        let mut files = Vec::new();
        for path in std::mem::take(&mut self.files.dirty) {
            let Some(open) = self.files.open.get(&path) else { continue };
            match open.file.try_clone() {
                Ok(file) => files.push((path, file)),
                Err(error) => {
                    tracing::error!(%error, path = %path.display(), "a transcript is flushed later");
                    self.files.dirty.insert(path);
                }
            }
        }
        let waits = |path: &PathBuf| {
            self.refused.contains_key(path) || self.files.dirty.contains(path) || self.owed.contains_key(path)
        };
        let (kept, mut ended): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.ended).into_iter().partition(|(_, _, path)| waits(path));
        self.ended = kept;
        ended.extend(mended);
        if !files.is_empty() || !ended.is_empty() {
            self.disk.take(Batch { files, ended });
        }
    }

    /// Mends files that lack rows, where that is possible by now. Gives the runs that have all of theirs.
    fn recover(&mut self) -> Vec<Ended> {
        let (now, mut whole) = (Instant::now(), Vec::new());
        let paths: Vec<PathBuf> = self.refused.keys().cloned().collect();
        for path in paths {
            let Some(refused) = self.refused.get_mut(&path) else { continue };
            let (of_file, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.ended).into_iter().partition(|(_, _, other)| *other == path);
            self.ended = others;
            let is_due = refused.again.is_none_or(|again| again <= now) && (!refused.mended || !of_file.is_empty());
            if !is_due {
                self.ended.extend(of_file);
                continue;
            }
            // It is another file afterwards, or a longer one.
            self.files.open.remove(&path);
            let rewritten = if refused.unsure { rewrite(&path) } else { Ok(()) };
            match rewritten.and_then(|()| (self.mend)(&path, &of_file)) {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "a transcript has been mended from the journal");
                    if std::mem::replace(&mut refused.mended, true) {
                        self.refused.remove(&path);
                    } else {
                        (refused.unsure, refused.again) = (false, None);
                    }
                    whole.extend(of_file);
                }
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "a transcript cannot be mended yet");
                    refused.again = Some(now + MEND_AGAIN);
                    self.ended.extend(of_file);
                }
            }
        }
        whole
    }

    /// Waits until everything that was appended is on the disk.
    fn flush_now(&mut self) {
        let report = self.disk.wait();
        self.hear(report);
        self.flush();
        let report = self.disk.wait();
        self.hear(report);
    }

    fn hear(&mut self, report: Option<Report>) {
        let Some(report) = report else { return };
        for path in report.failed {
            // It must not be trusted any more: it is written anew, and the journal keeps its rows, those that are owed too.
            self.files.open.remove(&path);
            self.owed.remove(&path);
            self.refused.insert(path, Refused { unsure: true, ..Refused::default() });
        }
        report.unsettled.into_iter().for_each(|ended| self.end(ended));
    }
}

/// The process, or the machine, has no file handle left: one may be free a moment later.
pub(super) fn is_out_of_handles(error: &io::Error) -> bool {
    let [of_process, of_machine] = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    [of_process, of_machine].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Opens a transcript at its end, which a crash may have torn.
fn open(path: &Path) -> io::Result<Open> {
    if let Some(parent) = path.parent() {
        chela_storage::make_private_dir(parent)?;
    }
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let whole = end_of_last_line(&mut file)?;
    if whole != file.metadata()?.len() {
        tracing::warn!(path = %path.display(), "a torn end of a transcript was cut off; its row is written again");
        file.set_len(whole)?;
    }
    let last = Page::read(&mut file, whole, 1, |row| (row, true))?.rows.pop();
    let seq = last.and_then(|row| row["__openclaw"]["seq"].as_u64()).unwrap_or(0);
    file.seek(SeekFrom::End(0))?;
    Ok(Open { file, seq, used: Instant::now() })
}

/// Writes a file anew. After a flush that failed the system may take what it did not write for written: another flush of the same file says
/// nothing.
fn rewrite(path: &Path) -> io::Result<()> {
    let mut from = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        from => from?,
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = path.with_file_name(format!(".chela-{name}.tmp"));
    let mut written = || -> io::Result<()> {
        let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        io::copy(&mut from, &mut to)?;
        to.sync_all()?;
        std::fs::rename(&beside, path)
    };
    written().inspect_err(|_| {
        // It is written over at the next try.
        let _ = std::fs::remove_file(&beside);
    })
}

/// Appends rows and brings them to the disk, outside of the thread's own files.
pub(super) fn append_now(path: &Path, mut rows: Vec<Value>) -> io::Result<()> {
    let mut files = Files::default();
    if !rows.is_empty() {
        files.append(path, &mut rows)?;
    } else if !path.exists() {
        return Ok(());
    }
    files.opened(path)?.file.sync_all()?;
    if let Some(parent) = path.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
