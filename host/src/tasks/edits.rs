//! What people do to task files while the gateway works on them: taken up, merged, kept beside when it does not fit.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use chela_storage::{Draft, Mode};
use chela_taskfile::{Document, Outcome, Status, Task, distance, merge};
use serde_json::json;

use super::Error;
use super::file::{Read, contents, may_write};
use super::machine::facts;
use super::store::{Held, Place, Put, ROUNDS_MAX, Store, held_of};
use crate::clock::Timestamp;
use crate::event::{Event, Kind};

/// A file that is written in place counts as written when it has stood still for so long.
const STILL: Duration = Duration::from_millis(60);
const STILL_PATIENCE: Duration = Duration::from_secs(2);
/// Files that were replaced stay open for so long, for whoever still writes to them.
const LATE: Duration = Duration::from_secs(5);
const LATE_MAX: usize = 256;
/// A file that is gone may be on its way back.
const GONE: Duration = Duration::from_millis(100);

/// Why a task was cancelled whose file somebody took away. Who puts it back takes the task up again.
const REMOVED: &str = "its file was removed by hand";

/// A file that lost its name; somebody may still write to it.
pub(super) struct Late {
    task: String,
    file: File,
    known: Vec<u8>,
    /// Other bytes, when they were first seen.
    changed: Option<(Vec<u8>, Instant)>,
    until: Instant,
}

impl Store {
    /// Takes up what people did to a file since it was last read or written.
    pub(super) fn sync(&mut self, id: &str) -> Result<(), Error> {
        let Some(held) = self.held.get(id) else { return self.found(id) };
        let mut read = self.read(id);
        if matches!(read, Read::Gone) {
            if held.inode == 0 {
                return self.place_again(id);
            }
            // Some editors put the old file away before the new one is there.
            std::thread::sleep(GONE);
            read = self.read(id);
        }
        let (text, inode) = match read {
            Read::Gone => return self.removed(id),
            Read::Unreadable { said, inode } => return self.unreadable(id, said, inode),
            Read::Text { text, inode } => (text, inode),
        };
        if *text == *held.text {
            if held.inode != inode || held.problem.is_some() {
                let fresh = Held { versions: held.versions.clone(), ..held_of(id, Read::Text { text, inode }) };
                self.held.insert(id.to_owned(), fresh);
                self.show(id);
            }
            return Ok(());
        }
        let (text, inode) = match inode == held.inode {
            true => self.still(id)?.unwrap_or((text, inode)),
            false => (text, inode),
        };
        self.absorb(id, text.as_bytes(), Some(inode), 0)
    }

    /// Waits until a file that is being written in place stands still.
    fn still(&self, id: &str) -> Result<Option<(String, u64)>, Error> {
        let written = fs::metadata(self.path(id)).and_then(|facts| facts.modified());
        let stands = written.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > STILL));
        let from = Instant::now();
        let (mut last, mut since) = (None, from);
        while !stands && from.elapsed() < STILL_PATIENCE {
            let facts = fs::metadata(self.path(id))
                .ok()
                .map(|facts| (facts.len(), facts.mtime(), facts.mtime_nsec(), facts.ino()));
            if facts != last {
                (last, since) = (facts, Instant::now());
            } else if since.elapsed() >= STILL {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        match self.read(id) {
            Read::Text { text, inode } => Ok(Some((text, inode))),
            Read::Unreadable { .. } | Read::Gone => Ok(None),
        }
    }

    /// A file that was not there when we last looked.
    fn found(&mut self, id: &str) -> Result<(), Error> {
        // Most that is unknown was archived by us.
        if fs::symlink_metadata(self.path(id)).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(());
        }
        let read = match self.still(id)? {
            // Somebody is about to write it.
            Some((text, _)) if text.trim().is_empty() => return Ok(()),
            Some((text, inode)) => Read::Text { text, inode },
            None => self.read(id),
        };
        if matches!(read, Read::Gone) {
            return Ok(());
        }
        if let Read::Text { text, .. } = &read
            && let Some(over) = self.archive.find(id).map(|over| over.task())
            && is_from_before(&Document::parse(text).task(), &over)
        {
            return self.put_aside(id, &over);
        }
        self.held.insert(id.to_owned(), held_of(id, read));
        self.show(id);
        self.stale_current();
        Ok(())
    }

    /// A file of a task that has ended since its editor read it: its text is kept beside the tasks, and it brings nothing back.
    fn put_aside(&mut self, id: &str, over: &Task) -> Result<(), Error> {
        let (path, now) = (self.path(id), self.parts.clock.now());
        let failed = |cause| Error::file("put aside", &path, cause);
        for name in (0..100).map(|n| conflict_name(id, now, n)) {
            let beside = self.folder.join("tasks").join(&name);
            // The same file under another name: what is written to it meanwhile comes along.
            match fs::hard_link(&path, &beside) {
                Ok(()) => {
                    tracing::warn!(task = id, file = %beside.display(), "a save came after the task was over; it is kept beside the tasks");
                    fs::remove_file(&path).map_err(failed)?;
                    self.tell_conflict(over, now, &name, &["the task was over".to_owned()]);
                    return Ok(());
                }
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(failed(cause)),
            }
        }
        Err(failed(ErrorKind::AlreadyExists.into()))
    }

    fn unreadable(&mut self, id: &str, said: String, inode: u64) -> Result<(), Error> {
        if let Some(held) = self.held.get_mut(id) {
            held.problem = Some(said);
            held.inode = inode;
        }
        self.show(id);
        Ok(())
    }

    /// Makes a saved text and ours one. With `inode` it is what the file says now.
    pub(super) fn absorb(&mut self, id: &str, bytes: &[u8], inode: Option<u64>, round: usize) -> Result<(), Error> {
        let Ok(theirs) = std::str::from_utf8(bytes) else {
            return self.keep_aside(id, bytes, &["everything: it is not UTF-8".to_owned()]);
        };
        // An empty save is somebody's half-way state, not an edit.
        if theirs.trim().is_empty() {
            return Ok(());
        }
        let Some(held) = self.held.get(id).cloned() else {
            return self.keep_aside(id, bytes, &["the task was over".to_owned()]);
        };
        let was_malformed = held.problem.is_some() && inode.is_some();
        let found = held_of(id, Read::Text { text: theirs.to_owned(), inode: inode.unwrap_or(0) });
        match (&found.problem, inode) {
            // Nothing of ours is in it: it is what its writer says.
            (_, Some(_)) if held.versions.is_none() => return self.adopt(id, found),
            (Some(said), Some(inode)) => return self.unreadable(id, said.clone(), inode),
            (Some(said), None) => return self.keep_aside(id, bytes, std::slice::from_ref(said)),
            (None, _) => {}
        }
        // What lay in the file was what we know: whoever saved could see it.
        let was_in_step = inode.is_some() && held.inode != 0;
        let (base, is_undo) = self.nearest(id, &held, theirs, was_in_step)?;
        if is_undo {
            // Somebody else may have made the edit that is taken back.
            self.keep_aside(id, held.text.as_bytes(), &["what this save has taken back".to_owned()])?;
        }
        let ours = Document::parse(&held.text);
        let merged = merge(&Document::parse(&base), &ours, &Document::parse(theirs));
        let text = merged.document.to_string();
        if inode.is_some() && text != theirs {
            // Before anything is kept: it is tried again.
            may_write(&self.path(id))?;
        }
        if !merged.conflicts.is_empty() {
            self.keep_aside(id, bytes, &merged.conflicts)?;
        }
        let (before, after) = (held.task.clone(), merged.document.task());
        if text == *held.text && !was_malformed {
            return if inode.is_some() { self.rewrite(id, theirs.into(), round) } else { Ok(()) };
        }
        let ts = self.parts.clock.now();
        let kind = kind_of(&before, &after);
        let more = json!({ "source": "file", "action": "edited" });
        let told = vec![Event::of(self.agent.as_ref(), kind, ts, facts(&after, more))];
        let milestone = after.milestone_item.clone().filter(|_| kind == Kind::TaskCompleted);
        let file = match inode {
            Some(inode) if text == theirs => Place::There { inode },
            Some(_) => Place::Instead(theirs.into()),
            None => Place::Instead(held.text.clone()),
        };
        self.put(vec![Put { id: id.to_owned(), text, told, file, task: None, milestone, session: None }], round)?;
        let ended = self.held.get(id).is_some_and(|held| held.problem.is_none() && held.task.status.is_terminal());
        if ended {
            self.archive(id)?;
        }
        self.stale_current();
        Ok(())
    }

    /// Takes a file over as it is.
    fn adopt(&mut self, id: &str, found: Held) -> Result<(), Error> {
        let (task, is_well) = (found.task.clone(), found.problem.is_none());
        let before = self.held.insert(id.to_owned(), found);
        self.show(id);
        if is_well {
            let kind = before.map_or(Kind::TaskUpdated, |before| kind_of(&before.task, &task));
            let more = json!({ "source": "file", "action": "edited" });
            self.tell(Event::of(self.agent.as_ref(), kind, self.parts.clock.now(), facts(&task, more)));
        }
        if is_well && task.status.is_terminal() {
            self.archive(id)?;
        }
        self.stale_current();
        Ok(())
    }

    /// Writes a file that could not be written when its task was made.
    fn place_again(&mut self, id: &str) -> Result<(), Error> {
        let path = self.path(id);
        let Some(text) = self.held.get(id).map(|held| held.text.clone()) else { return Ok(()) };
        let place = || -> io::Result<u64> {
            let draft = Draft::write(&path, text.as_bytes(), Mode::Private)?;
            draft.flush()?;
            let inode = draft.inode()?;
            draft.create(&path).map(|()| inode)
        };
        let inode = place().map_err(|cause| Error::file("write", &path, cause))?;
        if let Some(held) = self.held.get_mut(id) {
            held.inode = inode;
        }
        Ok(())
    }

    /// Like [`Store::absorb`] for what lies in no file any more: whatever happens, it is kept.
    pub(super) fn absorb_or_keep(&mut self, id: &str, bytes: &[u8], round: usize) -> Result<(), Error> {
        self.absorb(id, bytes, None, round).or_else(|error| {
            tracing::warn!(task = id, error = &error as &dyn std::error::Error, "an edit could not be merged");
            self.keep_aside(id, bytes, &[error.to_string()])
        })
    }

    /// The version that a saved text shares the most with: what its editor began from. A text that was there before the last edit, which was
    /// a person's, is its undo, and began from the last one.
    fn nearest(&self, id: &str, held: &Held, theirs: &str, was_in_step: bool) -> Result<(String, bool), Error> {
        let activity = Document::parse(theirs).task().last_activity;
        // The host writes its time with every change: a version of the same time is the one, or one of few.
        let far_from = |text: &str| (Document::parse(text).task().last_activity != activity, distance(text, theirs));
        let mut nearest = (far_from(&held.text), held.text.to_string());
        if let Some(versions) = &held.versions {
            for (nth, text) in versions.texts(&self.parts.journal, &self.record_id(id))?.into_iter().enumerate() {
                if was_in_step && nth == 1 && activity == held.task.last_activity && text == theirs {
                    return Ok((held.text.to_string(), true));
                }
                let far = far_from(&text);
                if far < nearest.0 {
                    nearest = (far, text);
                }
            }
        }
        Ok((nearest.1, false))
    }

    /// Puts our text back where a file says an older one.
    fn rewrite(&mut self, id: &str, expected: Arc<str>, round: usize) -> Result<(), Error> {
        let path = self.path(id);
        let Some(text) = self.held.get(id).map(|held| held.text.clone()) else { return Ok(()) };
        may_write(&path)?;
        let write = || -> io::Result<(u64, chela_storage::Replaced)> {
            let draft = Draft::write(&path, text.as_bytes(), Mode::Private)?;
            draft.flush()?;
            let inode = draft.inode()?;
            Ok((inode, draft.exchange(&path)?))
        };
        let (inode, out) = write().map_err(|cause| Error::file("write", &path, cause))?;
        if let Some(held) = self.held.get_mut(id) {
            held.inode = inode;
        }
        if out.bytes != expected.as_bytes() && round < ROUNDS_MAX {
            return self.absorb(id, &out.bytes, None, round + 1);
        }
        self.keep_late(id, out.file, expected.as_bytes().to_vec());
        Ok(())
    }

    pub(super) fn keep_late(&mut self, id: &str, file: File, known: Vec<u8>) {
        if self.late.len() >= LATE_MAX {
            self.late.remove(0);
        }
        self.wait_for_me();
        self.late.push(Late { task: id.to_owned(), file, known, changed: None, until: Instant::now() + LATE });
    }

    /// Writes the mirror of the active task, and looks for what was written to files that have lost their name.
    pub(super) fn look_after(&mut self) -> Result<(), Error> {
        if self.stale {
            self.write_current();
        }
        let now = Instant::now();
        let mut whole = Vec::new();
        self.late.retain_mut(|late| {
            let bytes = contents(&late.file);
            match (&mut late.changed, bytes) {
                (_, Some(bytes)) if bytes.is_empty() || bytes == late.known => late.changed = None,
                (Some((seen, since)), Some(bytes)) if *seen == bytes => {
                    if since.elapsed() >= STILL {
                        whole.push((late.task.clone(), bytes));
                        return false;
                    }
                }
                (changed, Some(bytes)) => *changed = Some((bytes, now)),
                (_, None) => return false,
            }
            late.changed.is_some() || now < late.until
        });
        self.waits.store(!self.late.is_empty(), Ordering::Relaxed);
        for (id, bytes) in whole {
            self.absorb_or_keep(&id, &bytes, 0)?;
        }
        let over: Vec<String> =
            self.well().filter(|(_, task)| task.status.is_terminal()).map(|(id, _)| id.clone()).collect();
        over.iter().try_for_each(|id| self.archive(id))
    }

    /// Keeps a text that could not be merged, beside its task, and tells of it.
    pub(super) fn keep_aside(&self, id: &str, bytes: &[u8], parts: &[String]) -> Result<(), Error> {
        let now = self.parts.clock.now();
        for name in (0..100).map(|n| conflict_name(id, now, n)) {
            let path = self.folder.join("tasks").join(&name);
            match chela_storage::create_new(&path, bytes, Mode::Private) {
                Ok(()) => {
                    tracing::warn!(task = id, file = %path.display(), parts = ?parts, "an edit did not fit what came meanwhile; it is kept beside the task");
                    if let Some(held) = self.held.get(id) {
                        self.tell_conflict(&held.task, now, &name, parts);
                    }
                    return Ok(());
                }
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(Error::file("write", &path, cause)),
            }
        }
        Err(Error::file("write", &self.path(id), io::Error::from(ErrorKind::AlreadyExists)))
    }

    fn tell_conflict(&self, task: &Task, now: Timestamp, file: &str, parts: &[String]) {
        let more = json!({ "source": "file", "action": "conflict", "conflict": { "file": file, "parts": parts } });
        self.tell(Event::of(self.agent.as_ref(), Kind::TaskUpdated, now, facts(task, more)));
    }

    /// A person has taken a task's file away: the task is cancelled, and its text kept with the finished ones.
    pub(super) fn removed(&mut self, id: &str) -> Result<(), Error> {
        let Some(held) = self.held.get(id).cloned() else { return Ok(()) };
        let mut task = Task::clone(&held.task);
        let mut document = Document::parse(&held.text);
        if !task.status.is_terminal() {
            let reason = REMOVED.to_owned();
            task.status = Status::Cancelled;
            task.outcome = Some(Outcome { kind: "cancelled".into(), summary: String::new(), reason });
            task.last_activity = self.now();
            document.update(&task);
        }
        self.archive
            .append(id, &document, self.parts.clock.now())
            .map_err(|(path, cause)| Error::file("write", &path, cause))?;
        self.held.remove(id);
        self.ended.push(Arc::new(task.clone()));
        let ts = self.parts.clock.now();
        let more = json!({ "source": "file", "action": "removed", "reason": REMOVED });
        self.tell(Event::of(self.agent.as_ref(), Kind::TaskCancelled, ts, facts(&task, more)));
        self.over.extend(held.versions.map(|versions| (id.to_owned(), versions)));
        self.shown.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        self.stale_current();
        Ok(())
    }

    /// Whether an edit was seen and not yet taken up.
    pub(super) fn has_news(&self) -> bool {
        self.late.iter().any(|late| late.changed.is_some())
    }

    /// Looks at every file.
    pub(super) fn sync_all(&mut self) -> Result<(), Error> {
        let mut ids = self.ids_on_disk()?;
        ids.extend(self.held.keys().cloned());
        ids.sort();
        ids.dedup();
        ids.iter().for_each(|id| self.sync_or_say(id));
        Ok(())
    }

    /// Like [`Store::sync`]; one file that cannot be taken up holds up no other.
    pub(super) fn sync_or_say(&mut self, id: &str) {
        if let Err(error) = self.sync(id) {
            tracing::warn!(task = id, error = &error as &dyn std::error::Error, "an edit was not taken up");
        }
    }
}

/// Whether a file says what was so before its task was over: an editor that had it open has saved it.
fn is_from_before(found: &Task, over: &Task) -> bool {
    let was_removed = over.outcome.as_ref().is_some_and(|outcome| outcome.reason == REMOVED);
    !found.last_activity.is_empty() && found.last_activity < over.last_activity && !was_removed
}

/// The name of a text beside its task.
fn conflict_name(id: &str, now: Timestamp, nth: u32) -> String {
    let stamp = now.to_string().replace([':', '.'], "-");
    if nth == 0 { format!("{id}.conflict-{stamp}.md") } else { format!("{id}.conflict-{stamp}-{nth}.md") }
}

/// What an edit did to a task, as events say it.
fn kind_of(before: &Task, after: &Task) -> Kind {
    match &after.status {
        status if *status == before.status => Kind::TaskUpdated,
        Status::Completed => Kind::TaskCompleted,
        Status::Cancelled => Kind::TaskCancelled,
        Status::Failed => Kind::TaskFailed,
        Status::Abandoned => Kind::TaskAbandoned,
        _ => Kind::TaskUpdated,
    }
}
