//! Finished tasks by month: `task-history/YYYY-MM.md`, whole files one after the other; a month that is full goes on in `YYYY-MM.2.md`.
//! Keeps true: a text that was archived is there whole, and once in its month, also after a crash between archiving and removing its file.
//! To append costs what is appended, and to look for an id what has changed since the last look: where tasks stand is kept in memory, within a limit.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chela_storage::make_private_dir;
use chela_taskfile::{Document, History, archived, month_file, month_of};

use crate::clock::Timestamp;

/// A month goes on in another file past this, which is what readers of whole files take.
const PART_BYTES_MAX: u64 = 1024 * 1024;
/// Of files that others have written, no longer task is read.
const TASK_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Of a line no more is looked at: an id is shorter.
const LINE_BYTES_MAX: usize = 512;
const SCAN_BYTES: usize = 128 * 1024;
/// Places that are remembered of one agent: four megabytes. The files of the oldest months are read again when they are needed.
const PLACES_MAX: usize = 250_000;

/// The history of one agent.
pub(super) struct Archive {
    dir: PathBuf,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By month and part, the oldest first.
    files: BTreeMap<(String, u32), Arc<Places>>,
    #[cfg(test)]
    scanned: u64,
}

/// Where the tasks of a file stand.
struct Places {
    seen: Facts,
    /// Up to the end of the last whole line.
    whole_to: u64,
    /// A hash of each id, and where its task begins, in the order of the file.
    tasks: Vec<(u64, u64)>,
}

/// What tells that a file is as it was.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Facts {
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl Facts {
    fn of(facts: &Metadata) -> Self {
        Self { inode: facts.ino(), len: facts.len(), changed: (facts.mtime(), facts.mtime_nsec()) }
    }
}

impl Archive {
    pub(super) fn new(workspace: &Path) -> Self {
        Self { dir: workspace.join("task-history"), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task to the month, durably, unless it is there with the same text.
    pub(super) fn append(&self, id: &str, document: &Document, now: Timestamp) -> Result<(), (PathBuf, io::Error)> {
        make_private_dir(&self.dir).map_err(|cause| (self.dir.clone(), cause))?;
        let month = now.date().strftime("%Y-%m").to_string();
        let mut known = self.known();
        let last = match self.last_part(&mut known, &month, id, document) {
            Ok(Some(last)) => last,
            Ok(None) => return Ok(()),
            Err(cause) => return Err((self.dir.join(month_file(&month, 1)), cause)),
        };
        let room = archived(document, false).len() as u64;
        let part = match fs::metadata(self.dir.join(month_file(&month, last))) {
            Ok(facts) if facts.len() > 0 && facts.len() + room > PART_BYTES_MAX => last + 1,
            _ => last,
        };
        let path = self.dir.join(month_file(&month, part));
        write_behind(&path, document).map_err(|cause| (path.clone(), cause))?;
        // What cannot be looked at now is looked at when somebody asks.
        let _ = known.grown((month, part), &path);
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(|cause| (path, cause))
    }

    /// The last file of a month; none if one of them has this text of the task.
    fn last_part(&self, known: &mut Known, month: &str, id: &str, document: &Document) -> io::Result<Option<u32>> {
        let text = document.to_string();
        // Another text of the same task is not the same: a torn one, or one from before it was taken up again.
        let same = |there: &String| there.trim_end() == text.trim_end();
        let mut part = 0;
        loop {
            let path = self.dir.join(month_file(month, part + 1));
            let texts = match known.texts((month.to_owned(), part + 1), &path, id) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(part.max(1))),
                texts => texts?,
            };
            if texts.iter().any(same) {
                return Ok(None);
            }
            part += 1;
        }
    }

    /// A finished task by its id.
    pub(super) fn find(&self, id: &str) -> Option<Document> {
        let mut known = self.known();
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut files: Vec<((String, u32), PathBuf)> = entries
            .map(|entry| entry.path())
            .filter_map(|path| {
                let (month, part) = month_of(path.file_name()?.to_str()?)?;
                Some(((month.to_owned(), part), path))
            })
            .collect();
        files.sort();
        files.into_iter().rev().find_map(|(place, path)| {
            let texts = known.texts(place, &path, id).ok()?;
            texts.last().map(|text| Document::parse(text))
        })
    }
}

impl Known {
    /// What a file says of a task, the oldest text first.
    fn texts(&mut self, place: (String, u32), path: &Path, id: &str) -> io::Result<Vec<String>> {
        let places = self.places(place, path)?;
        let hash = hash_of(id);
        let mut texts = Vec::new();
        for (at, (_, from)) in places.tasks.iter().enumerate().filter(|(_, (known, _))| *known == hash) {
            let to = places.tasks.get(at + 1).map_or(places.seen.len, |(_, next)| *next);
            if to - from > TASK_BYTES_MAX {
                continue;
            }
            let mut bytes = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
            File::open(path)?.read_exact_at(&mut bytes, *from)?;
            let text = String::from_utf8_lossy(&bytes);
            let found = History::of(&text).tasks.into_iter().find(|(known, _)| known == id);
            texts.extend(found.map(|(_, range)| text[range].to_owned()));
        }
        Ok(texts)
    }

    /// Where the tasks of a file stand, from memory if it is as it was.
    fn places(&mut self, place: (String, u32), path: &Path) -> io::Result<Arc<Places>> {
        let facts = Facts::of(&fs::metadata(path)?);
        if let Some(places) = self.files.get(&place).filter(|places| places.seen == facts) {
            return Ok(places.clone());
        }
        self.look(place, path, 0, Vec::new())
    }

    /// Something was appended by us: only that is read.
    fn grown(&mut self, place: (String, u32), path: &Path) -> io::Result<()> {
        let (from, tasks) = match self.files.remove(&place) {
            Some(places) => (places.whole_to, Arc::unwrap_or_clone(places).tasks),
            None => (0, Vec::new()),
        };
        self.look(place, path, from, tasks).map(drop)
    }

    fn look(
        &mut self,
        place: (String, u32),
        path: &Path,
        from: u64,
        mut tasks: Vec<(u64, u64)>,
    ) -> io::Result<Arc<Places>> {
        let mut file = File::open(path)?;
        let seen = Facts::of(&file.metadata()?);
        file.seek(SeekFrom::Start(from))?;
        let whole_to = scan(file, from, &mut tasks)?;
        #[cfg(test)]
        {
            self.scanned += seen.len - from;
        }
        let places = Arc::new(Places { seen, whole_to, tasks });
        self.files.insert(place, places.clone());
        while self.files.values().map(|places| places.tasks.len()).sum::<usize>() > PLACES_MAX {
            self.files.pop_first();
        }
        Ok(places)
    }
}

impl Clone for Places {
    fn clone(&self) -> Self {
        Self { seen: self.seen, whole_to: self.whole_to, tasks: self.tasks.clone() }
    }
}

fn hash_of(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Notes where tasks begin; gives the end of the last whole line.
fn scan(file: File, from: u64, tasks: &mut Vec<(u64, u64)>) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(SCAN_BYTES, file);
    let (mut at, mut line_from, mut line) = (from, from, Vec::new());
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(line_from);
        }
        let end = memchr::memchr(b'\n', buffer);
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        line.extend_from_slice(&piece[..piece.len().min(LINE_BYTES_MAX - line.len())]);
        let used = piece.len() + usize::from(end.is_some());
        reader.consume(used);
        at += used as u64;
        if end.is_none() {
            continue;
        }
        if let Some(id) = line.strip_prefix(b"# Task:") {
            tasks.push((hash_of(String::from_utf8_lossy(id).trim()), line_from));
        }
        line.clear();
        line_from = at;
    }
}

/// Appends a task to a file and brings it to the disk.
fn write_behind(path: &Path, document: &Document) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let before = file.metadata()?.len();
    let mut last = [b'\n'];
    if before > 0 {
        file.read_exact_at(&mut last, before - 1)?;
    }
    let text = archived(document, before == 0);
    // Nothing may follow a line that a crash has cut off.
    let text = if last == [b'\n'] { text } else { format!("\n{text}") };
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        file.set_len(before)?;
        return Err(error);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use chela_taskfile::Task;

    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn document(id: &str, said: &str) -> Document {
        Document::of(&Task::new(id, said, "now"))
    }

    fn text_of(workspace: &Path, name: &str) -> String {
        fs::read_to_string(workspace.join("task-history").join(name)).unwrap_or_default()
    }

    #[test]
    fn a_text_is_there_once_whoever_archives_it_again() {
        let temp = tempfile::tempdir().expect("a directory");
        let archive = Archive::new(temp.path());
        archive.append("task_a", &document("task_a", "one"), NOW).expect("archived");
        archive.append("task_b", &document("task_b", "two"), NOW).expect("archived");
        archive.append("task_a", &document("task_a", "one"), NOW).expect("there already");
        let again = Archive::new(temp.path());
        again.append("task_a", &document("task_a", "one"), NOW).expect("there already");
        again.append("task_a", &document("task_a", "another"), NOW).expect("archived");
        let month = text_of(temp.path(), "2023-11.md");
        assert_eq!(month.matches("# Task: task_a\n").count(), 2, "{month}");
        assert_eq!(
            again.find("task_a").map(|found| found.to_string()),
            Some(document("task_a", "another").to_string())
        );
        assert_eq!(again.find("task_b").map(|found| found.to_string()), Some(document("task_b", "two").to_string()));
        assert!(again.find("task_c").is_none());
    }

    #[test]
    fn to_append_and_to_miss_cost_what_has_changed() {
        let temp = tempfile::tempdir().expect("a directory");
        let archive = Archive::new(temp.path());
        let mut written = 0;
        for n in 0..200 {
            let id = format!("task_{n}");
            archive.append(&id, &document(&id, &"x".repeat(1_000)), NOW).expect("archived");
            assert!(archive.find("task_none").is_none());
            written = text_of(temp.path(), "2023-11.md").len() as u64;
        }
        assert!(written > 200_000 && archive.known().scanned == written, "each byte is looked at once");
        // A person may change it: it is looked at as a whole.
        let path = temp.path().join("task-history/2023-11.md");
        let edited = text_of(temp.path(), "2023-11.md").replace("# Task: task_7\n", "# Task: task_by_hand\n");
        fs::write(&path, edited).expect("saved");
        assert!(archive.find("task_7").is_none() && archive.find("task_by_hand").is_some());
    }

    #[test]
    fn a_full_month_goes_on_in_another_file() {
        let temp = tempfile::tempdir().expect("a directory");
        let archive = Archive::new(temp.path());
        let long = "y".repeat(400_000);
        for n in 0..25 {
            let id = format!("task_{n}");
            archive.append(&id, &document(&id, &long), NOW).expect("archived");
        }
        for n in 0..25 {
            let id = format!("task_{n}");
            archive.append(&id, &document(&id, &long), NOW).expect("there already");
            let found = archive.find(&id).map(|found| found.to_string());
            assert_eq!(found, Some(document(&id, &long).to_string()), "{id}");
        }
        let names = |n: u32| text_of(temp.path(), &month_file("2023-11", n)).matches("# Task:").count();
        assert_eq!((1..=14).map(names).sum::<usize>(), 25);
        assert_eq!((names(1), names(2), names(13), names(14)), (2, 2, 1, 0));
    }

    #[test]
    fn nothing_follows_a_line_that_was_cut_off() {
        let temp = tempfile::tempdir().expect("a directory");
        let archive = Archive::new(temp.path());
        archive.append("task_a", &document("task_a", "one"), NOW).expect("archived");
        let path = temp.path().join("task-history/2023-11.md");
        let cut = text_of(temp.path(), "2023-11.md");
        fs::write(&path, &cut[..cut.len() - 3]).expect("cut");
        archive.append("task_a", &document("task_a", "one"), NOW).expect("archived whole");
        let found = archive.find("task_a").map(|found| found.to_string());
        assert_eq!(found, Some(document("task_a", "one").to_string()));
    }
}
