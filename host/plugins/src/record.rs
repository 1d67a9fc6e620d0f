//! What policies were asked and what plugins logged, on disk, written by a thread of its own.
//! Keeps true: each file is a ring of bounded size; a caller never waits for the disk. Never: loses count of what it had to drop.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use chela_storage::AppendLog;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::generation::{Generation, Identity};
use super::instance::Line;
use crate::bus::Bus;
use crate::clock::Timestamp;
use crate::event::Kind;
use crate::layout::StateDir;

/// Lines that may wait for the disk.
const WAITING_MAX: usize = 4_096;
/// How long entries gather before they are written together.
const GATHER: Duration = Duration::from_millis(50);
const PLUGIN_LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// How far back from a file's end records are looked for.
const TAIL_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// One decision of a policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    pub ts: Timestamp,
    pub export: String,
    /// Tells one input from another without its text.
    pub digest: String,
    pub component: Identity,
    pub micros: u64,
    pub input: Value,
    pub output: Value,
}

/// A decision on its way to the disk. Its line is made by the recorder's own thread: whoever asked has waited for the answer already.
pub(super) struct Decision {
    pub(super) ts: Timestamp,
    pub(super) export: &'static str,
    pub(super) digest: String,
    /// Whose it is, and in which slot.
    pub(super) by: Arc<Generation>,
    pub(super) micros: u64,
    /// Both are JSON already.
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) megabytes: u32,
}

/// A decision without its input and output, which follow it in the line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    ts: Timestamp,
    export: &'a str,
    digest: &'a str,
    component: &'a Identity,
    micros: u64,
}

pub(super) struct Recorder {
    dir: StateDir,
    sender: Mutex<Option<SyncSender<Entry>>>,
    dropped: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Entry {
    Lines {
        path: PathBuf,
        lines: Vec<Vec<u8>>,
        bytes_max: u64,
    },
    Decision(Box<Decision>),
    /// An event that nobody waits for.
    Event(Map<String, Value>),
    /// Answered when everything before it is in the files.
    Flush(SyncSender<()>),
}

impl Recorder {
    pub(super) fn start(dir: StateDir, bus: Bus) -> std::io::Result<Self> {
        let (sender, entries) = sync_channel(WAITING_MAX);
        let (aside, decisions) = (dir.corrupt_log(), dir.decisions());
        let thread = Builder::new()
            .name("chela-plugin-record".into())
            .spawn(move || write_all(&entries, &decisions, &aside, &bus))?;
        Ok(Self {
            dir,
            sender: Mutex::new(Some(sender)),
            dropped: Arc::new(AtomicU64::new(0)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Writes a decision down.
    pub(super) fn decision(&self, decision: Decision) {
        self.send(Entry::Decision(Box::new(decision)));
    }

    /// Tells of a decision when there is time; a caller does not wait for it.
    pub(super) fn tell(&self, facts: Map<String, Value>) {
        self.send(Entry::Event(facts));
    }

    pub(super) fn log(&self, slot: &str, plugin: &Identity, ts: Timestamp, lines: &[Line]) {
        let (name, version) = (&plugin.name, &plugin.version);
        let entry = |line: &Line| {
            let entry = json!({ "ts": ts, "level": line.level, "plugin": name, "version": version, "text": line.text });
            serde_json::to_vec(&entry).expect("a line is plain JSON")
        };
        // All lines of a call are one entry: a talkative plugin must not crowd out the decisions of others.
        let (path, lines) = (self.log_of(slot), lines.iter().map(entry).collect());
        self.send(Entry::Lines { path, lines, bytes_max: PLUGIN_LOG_BYTES_MAX });
    }

    fn send(&self, entry: Entry) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sender.as_ref().is_some_and(|sender| sender.try_send(entry).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that the disk was too slow for.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The newest decisions of a slot, oldest first. Waits for what is on its way to the disk: not for an async thread.
    pub(super) fn latest(&self, slot: &str, count: usize) -> Vec<Recorded> {
        self.flush();
        let lines = tail(&self.decisions_of(slot), count);
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The newest lines of a slot's log, oldest first.
    pub(super) fn log_lines(&self, slot: &str, count: usize) -> Vec<Value> {
        self.flush();
        let lines = tail(&self.log_of(slot), count);
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn flush(&self) {
        let (done, waited) = sync_channel(1);
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if sender.is_some_and(|sender| sender.send(Entry::Flush(done)).is_ok()) {
            if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
                thread.thread().unpark();
            }
            let _ = waited.recv();
        }
    }

    fn decisions_of(&self, slot: &str) -> PathBuf {
        decisions_in(&self.dir.decisions(), slot)
    }

    fn log_of(&self, slot: &str) -> PathBuf {
        self.dir.plugin_logs().join(format!("{}.ndjson", file_stem(slot)))
    }

    /// Writes what waits and ends the thread. Not for an async thread.
    pub(super) fn stop(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that records decisions had died");
        }
    }
}

/// The newest decisions of a slot that are in a state directory's files, oldest first; the gateway may be serving meanwhile.
pub fn recorded(dir: &StateDir, slot: &str, count: usize) -> Vec<Recorded> {
    let lines = tail(&decisions_in(&dir.decisions(), slot), count);
    lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn decisions_in(decisions: &Path, slot: &str) -> PathBuf {
    decisions.join(format!("{}.ndjson", file_stem(slot)))
}

/// A slot's name as part of a file's.
pub(super) fn file_stem(slot: &str) -> String {
    slot.replace(':', ".")
}

fn write_all(entries: &Receiver<Entry>, decisions: &Path, aside: &Path, bus: &Bus) {
    // After those who answer: of this thread alone, as Linux counts. Where it is refused, writing is as urgent as they are.
    let _ = rustix::process::setpriority_process(None, 10);
    let mut rings: HashMap<PathBuf, Ring> = HashMap::new();
    let mut failing = false;
    while let Ok(first) = entries.recv() {
        // What comes meanwhile is written with it: being woken and writing for every entry would cost the callers more than the calls. Somebody
        // who waits for the files ends it.
        if !matches!(first, Entry::Flush(_)) {
            std::thread::park_timeout(GATHER);
        }
        let mut gathered = Gathered::default();
        let all = std::iter::once(first).chain(entries.try_iter().take(WAITING_MAX));
        all.for_each(|entry| gathered.take(entry, decisions));
        for (path, (lines, bytes_max)) in gathered.lines {
            let written = match rings.get_mut(&path) {
                Some(ring) => ring.append(&lines, bytes_max, aside),
                None => Ring::open(&path, aside).and_then(|mut ring| {
                    let written = ring.append(&lines, bytes_max, aside);
                    rings.insert(path.clone(), ring);
                    written
                }),
            };
            if let Err(error) = &written
                && !failing
            {
                tracing::warn!(%error, path = %path.display(), "decisions and plugin logs are not written");
            }
            failing = written.is_err();
        }
        gathered.events.into_iter().for_each(|event| bus.tell(Kind::PolicyDecided, event));
        // Whoever waits for it may have gone.
        for done in gathered.waiting {
            let _ = done.send(());
        }
    }
}

/// Lines for each file, joined, and who waits for them.
#[derive(Default)]
struct Gathered {
    lines: HashMap<PathBuf, (Vec<u8>, u64)>,
    events: Vec<Map<String, Value>>,
    waiting: Vec<SyncSender<()>>,
}

impl Gathered {
    fn take(&mut self, entry: Entry, decisions: &Path) {
        match entry {
            Entry::Event(event) => self.events.push(event),
            Entry::Flush(done) => self.waiting.push(done),
            Entry::Lines { path, lines, bytes_max } => {
                let joined = self.begun(path, bytes_max);
                for (at, line) in lines.iter().enumerate() {
                    if at > 0 {
                        joined.push(b'\n');
                    }
                    joined.extend_from_slice(line);
                }
            }
            Entry::Decision(decision) => {
                let Decision { ts, export, digest, by, micros, input, output, megabytes } = &*decision;
                let joined = self.begun(decisions_in(decisions, &by.slot), u64::from(*megabytes) << 20);
                let head = Head { ts: *ts, export, digest, component: &by.identity, micros: *micros };
                serde_json::to_writer(&mut *joined, &head).expect("a decision is plain JSON");
                // The brace of its end comes after what follows.
                joined.pop();
                for part in [&b",\"input\":"[..], input, b",\"output\":", output, b"}"] {
                    joined.extend_from_slice(part);
                }
            }
        }
    }

    /// The lines of a file, with the end of the last one.
    fn begun(&mut self, path: PathBuf, bytes_max: u64) -> &mut Vec<u8> {
        let (joined, _) = self.lines.entry(path).or_insert_with(|| (Vec::new(), bytes_max));
        if !joined.is_empty() {
            joined.push(b'\n');
        }
        joined
    }
}

/// Two files of half the size: the one being written, and the one before it.
struct Ring {
    path: PathBuf,
    log: AppendLog,
    bytes: u64,
}

impl Ring {
    fn open(path: &Path, aside: &Path) -> std::io::Result<Self> {
        if let Some(dir) = path.parent() {
            chela_storage::make_private_dir(dir)?;
        }
        let (log, _) = AppendLog::open(path, aside)?;
        let bytes = fs::metadata(path)?.len();
        Ok(Self { path: path.to_owned(), log, bytes })
    }

    /// Appends lines that are joined by line ends.
    fn append(&mut self, lines: &[u8], bytes_max: u64, aside: &Path) -> std::io::Result<()> {
        let length = lines.len() as u64 + 1;
        if self.bytes > 0 && self.bytes + length > bytes_max / 2 {
            fs::rename(&self.path, before(&self.path))?;
            *self = Self::open(&self.path, aside)?;
        }
        self.log.append_lines(lines)?;
        self.bytes += length;
        Ok(())
    }
}

fn before(path: &Path) -> PathBuf {
    path.with_extension("ndjson.1")
}

/// The last lines of a ring, oldest first.
fn tail(path: &Path, count: usize) -> Vec<String> {
    let mut lines = last_lines(path, count);
    if lines.len() < count {
        let mut earlier = last_lines(&before(path), count - lines.len());
        earlier.append(&mut lines);
        lines = earlier;
    }
    lines
}

fn last_lines(path: &Path, count: usize) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        let from = length.saturating_sub(TAIL_BYTES_MAX);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
        if from > 0 {
            // The first line is cut.
            let whole = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
            bytes.drain(..whole);
        }
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_the_newest_and_stays_within_its_size() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let (path, aside) = (temp.path().join("slot.ndjson"), temp.path().join("aside"));
        let mut ring = Ring::open(&path, &aside).expect("opened");
        for n in 0..1_000 {
            ring.append(format!("{{\"n\":{n:04}}}").as_bytes(), 1_000, &aside).expect("written");
        }
        let size = |path: &Path| fs::metadata(path).expect("there").len();
        assert!(size(&path) + size(&before(&path)) <= 1_000);
        assert_eq!(tail(&path, 2), ["{\"n\":0998}", "{\"n\":0999}"]);
        let many = tail(&path, 50);
        assert_eq!(many.len(), 50, "reaches back into the file before");
        assert_eq!(many[0], "{\"n\":0950}");
    }
}
