//! The task files of one agent: read, changed and merged with what people save meanwhile.
//! Owns `tasks/` and `CURRENT_TASK.md` of a workspace. Keeps true: a change is in the journal before it is in the file; a file that came out
//! of its place with other text than was read is merged, never dropped; what cannot be merged lies beside it.
//! Never: runs on an async thread.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use chela_storage::{Draft, Mode, make_private_dir, replace};
use chela_taskfile::{Document, Status, Task};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::archive::Archive;
use super::edits::Late;
use super::file::{FILE_BYTES_MAX, Read, id_of_name, inode_of, may_write, read_file};
use super::machine::{Board, Changed, Decided, Op, active_of};
use super::milestones;
use super::record::{self, Version, Versions};
use super::{Error, View};
use crate::bus::Bus;
use crate::clock::Clock;
use crate::event::Event;
use crate::id::AgentId;
use crate::journal::{self, Transaction};
use crate::results::Keep;
use crate::session_key::SessionKey;

/// A workspace has no more open tasks than these.
const TASKS_MAX: usize = 20_000;
/// A task grows to this while it is open.
const GROWN_BYTES_MAX: u64 = FILE_BYTES_MAX - 64 * 1024;
/// Somebody who saves again and again while we merge is left to the next look.
pub(super) const ROUNDS_MAX: usize = 8;

/// What a store is built on.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) journal: journal::Handle,
    pub(super) bus: Bus,
    pub(super) clock: Clock,
    /// Told when a store has something to look after.
    pub(super) busy: Arc<Notify>,
}

/// Open tasks as everybody may see them, without waiting for a disk.
pub(super) type Shown = Arc<RwLock<BTreeMap<String, Arc<View>>>>;

pub(super) struct Store {
    pub(super) agent: AgentId,
    pub(super) folder: PathBuf,
    /// Its finished tasks.
    pub(super) archive: Arc<Archive>,
    pub(super) parts: Parts,
    pub(super) held: BTreeMap<String, Held>,
    pub(super) shown: Shown,
    pub(super) late: Vec<Late>,
    /// Whether there is anything to look after, for whoever looks without the lock.
    pub(super) waits: Arc<AtomicBool>,
    /// `CURRENT_TASK.md` is to be written.
    pub(super) stale: bool,
    /// Tasks that are over; their records go when their events have reached the log.
    pub(super) over: Vec<(String, Versions)>,
    /// The last transaction of this store.
    pub(super) seq: u64,
    /// Tasks that ended and that nobody has looked after yet.
    pub(super) ended: Vec<Arc<Task>>,
}

#[derive(Clone)]
pub(super) struct Held {
    pub(super) text: Arc<str>,
    pub(super) task: Arc<Task>,
    pub(super) problem: Option<String>,
    /// Of the file that we last read or wrote.
    pub(super) inode: u64,
    pub(super) versions: Option<Versions>,
}

/// A new text of a task.
pub(super) struct Put {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) told: Vec<Event>,
    pub(super) file: Place,
    /// What it says, where that is known.
    pub(super) task: Option<Task>,
    /// The item to be marked because of it.
    pub(super) milestone: Option<String>,
    /// The session that starts it.
    pub(super) session: Option<String>,
}

/// The call that causes a change: its answer goes into the journal with it.
#[derive(Default)]
pub(super) struct Cause<'a> {
    pub(super) keep: Option<&'a Keep>,
    /// What the guards have said about it.
    pub(super) warning: Option<&'a str>,
    /// Its answer, where that is not the change's own.
    pub(super) answer: Option<&'a Map<String, Value>>,
    /// Where it is made.
    pub(super) session: Option<&'a SessionKey>,
}

pub(super) enum Place {
    New,
    /// It takes the place of a file that says this.
    Instead(Arc<str>),
    /// The file says it already.
    There {
        inode: u64,
    },
}

impl Store {
    /// Reads every task of a workspace and mends what a crash or an edit left between file and journal.
    pub(super) fn open(
        agent: AgentId,
        folder: PathBuf,
        parts: Parts,
        shown: Shown,
        mut known: BTreeMap<String, Versions>,
    ) -> Result<Self, Error> {
        let tasks = folder.join("tasks");
        make_private_dir(&tasks).map_err(|cause| Error::file("make", &tasks, cause))?;
        chela_storage::sweep(&tasks).map_err(|cause| Error::file("sweep", &tasks, cause))?;
        let mut store = Self {
            agent,
            archive: Arc::new(Archive::new(&folder)),
            folder,
            parts,
            held: BTreeMap::new(),
            shown,
            late: Vec::new(),
            waits: Arc::default(),
            stale: false,
            over: Vec::new(),
            seq: 0,
            ended: Vec::new(),
        };
        let mut differing = Vec::new();
        for id in store.ids_on_disk()? {
            let versions = known.remove(&id);
            let mut held = held_of(&id, store.read(&id));
            let differs = versions.as_ref().is_some_and(|versions| versions.hash != record::hash(&held.text));
            if let (true, Some(versions)) = (differs, &versions) {
                if let Some(last) = versions.texts(&store.parts.journal, &store.record_id(&id))?.into_iter().next() {
                    held = held_of(&id, Read::Text { text: last, inode: 0 });
                }
                differing.push(id.clone());
            }
            store.held.insert(id, Held { versions, ..held });
        }
        // A folder without a single one of several files was not emptied task by task: a volume is missing, or a path is another.
        let none_left = store.held.is_empty() && known.len() > 1;
        for (id, versions) in known {
            // One past those that are taken up is not away.
            if fs::symlink_metadata(store.path(&id)).is_ok() {
                continue;
            }
            if let Err(error) = store.missing(id.clone(), versions, none_left) {
                tracing::error!(
                    task = id,
                    error = &error as &dyn std::error::Error,
                    "a task without its file is left as it is"
                );
            }
        }
        store.show_all();
        for id in differing {
            store.sync_or_say(&id);
        }
        let terminal: Vec<String> =
            store.held.iter().filter(|(_, held)| held.task.status.is_terminal()).map(|(id, _)| id.clone()).collect();
        for id in terminal {
            store.archive_or_say(&id);
        }
        store.write_current();
        Ok(store)
    }

    /// A task of the journal without a file: never written before a crash, archived, or taken away.
    fn missing(&mut self, id: String, versions: Versions, restore: bool) -> Result<(), Error> {
        if self.archive.find(&id).is_some() {
            self.over.push((id, versions));
            return Ok(());
        }
        let texts = versions.texts(&self.parts.journal, &self.record_id(&id))?;
        let Some(last) = texts.into_iter().next() else { return Ok(()) };
        let held = held_of(&id, Read::Text { text: last.clone(), inode: 0 });
        let is_new = versions.first == versions.last;
        self.held.insert(id.clone(), Held { versions: Some(versions), ..held });
        if is_new || restore {
            let path = self.path(&id);
            return replace(&path, last.as_bytes(), Mode::Private).map_err(|cause| Error::file("write", &path, cause));
        }
        self.removed(&id)
    }

    pub(super) fn ids_on_disk(&self) -> Result<Vec<String>, Error> {
        let tasks = self.folder.join("tasks");
        let entries = fs::read_dir(&tasks).map_err(|cause| Error::file("read", &tasks, cause))?;
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|cause| Error::file("read", &tasks, cause))?;
            // Whatever has such a name is listed, with what is wrong with it.
            ids.extend(entry.file_name().to_str().and_then(id_of_name).map(str::to_owned));
        }
        ids.sort();
        if ids.len() > TASKS_MAX {
            tracing::warn!(agent = %self.agent, files = ids.len(), max = TASKS_MAX, "more task files than are taken up; archive some");
            ids.truncate(TASKS_MAX);
        }
        Ok(ids)
    }

    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.folder.join("tasks").join(format!("{id}.md"))
    }

    pub(super) fn record_id(&self, id: &str) -> String {
        record::id_of(&self.agent, id)
    }

    pub(super) fn now(&self) -> String {
        self.parts.clock.now().to_string()
    }

    pub(super) fn read(&self, id: &str) -> Read {
        read_file(&self.path(id))
    }

    /// Lets something happen. `subject` is the task it is mostly about: its file is looked at first.
    pub(super) fn act(
        &mut self,
        op: Op,
        is_open: &dyn Fn(&str) -> Option<bool>,
        cause: &Cause<'_>,
    ) -> Result<Decided, Error> {
        if let Some(id) = self.subject(&op) {
            self.sync(&id)?;
            if let Some(said) = self.held.get(&id).and_then(|held| held.problem.clone()) {
                return Err(Error::Malformed { path: self.path(&id), said });
            }
        }
        let tasks: BTreeMap<String, Arc<Task>> = self.well().map(|(id, task)| (id.clone(), task.clone())).collect();
        let starts = matches!(op, Op::Start(..) | Op::AddToBacklog(_) | Op::PickFromBacklog { .. });
        let session = cause.session.filter(|session| starts && session.agent == self.agent);
        let board = Board { tasks: &tasks, is_open, now: self.now() };
        let mut decided = board.decide(op)?;
        let mut puts: Vec<Put> = Vec::new();
        let (mut n, answer) = (0, &mut decided.answer);
        decided.changed.retain(|changed| {
            let mut put = self.planned(changed);
            put.session = session.filter(|_| n == 0).map(SessionKey::to_string);
            n += 1;
            // What only follows from a change does not hold it up.
            let fits = n == 1 || (put.text.len() as u64 <= GROWN_BYTES_MAX && may_write(&self.path(&put.id)).is_ok());
            if fits {
                puts.push(put);
            } else {
                answer.remove("nextTaskId");
                tracing::warn!(task = changed.task.id, "it is its turn, and its file cannot be written");
            }
            fits
        });
        if let Some(warning) = cause.warning {
            decided.answer.entry("warning").or_insert_with(|| warning.into());
        }
        self.put_with(puts, 0, cause.keep.map(|keep| (keep, cause.answer.unwrap_or(&decided.answer))))?;
        for changed in decided.changed.iter().filter(|changed| changed.task.status.is_terminal()) {
            self.archive_or_say(&changed.task.id);
        }
        self.stale_current();
        Ok(decided)
    }

    /// Tasks whose files can be read.
    pub(super) fn well(&self) -> impl Iterator<Item = (&String, &Arc<Task>)> {
        self.held.iter().filter(|(_, held)| held.problem.is_none()).map(|(id, held)| (id, &held.task))
    }

    fn subject(&self, op: &Op) -> Option<String> {
        let active = || active_of(self.well().map(|(_, task)| task)).map(|task| task.id.clone());
        match op {
            Op::Update { task, .. } | Op::Complete { task, .. } | Op::Cancel { task, .. } | Op::Block { task, .. } => {
                task.clone().or_else(active)
            }
            Op::Resume { task, .. } | Op::PickFromBacklog { task } => task.clone(),
            Op::Approve { task, .. }
            | Op::Note { task, .. }
            | Op::RequestUnblock { task, .. }
            | Op::GiveUp { task, .. } => Some(task.clone()),
            Op::Start(..) | Op::AddToBacklog(_) | Op::Fill => active(),
        }
        .filter(|id| self.held.contains_key(id))
    }

    fn planned(&self, changed: &Changed) -> Put {
        let id = changed.task.id.clone();
        let (text, file) = match self.held.get(&id) {
            Some(held) => {
                let mut document = Document::parse(&held.text);
                document.update(&changed.task);
                (document.to_string(), Place::Instead(held.text.clone()))
            }
            None => (Document::of(&changed.task).to_string(), Place::New),
        };
        let ts = self.parts.clock.now();
        let told = changed.told.iter().map(|(kind, data)| Event::of(self.agent.as_ref(), *kind, ts, data.clone()));
        let milestone = changed.task.milestone_item.clone().filter(|_| changed.task.status == Status::Completed);
        Put { id, text, told: told.collect(), file, task: Some(changed.task.clone()), milestone, session: None }
    }

    /// Writes changes that belong together: first all of them to the journal, then each to its file.
    pub(super) fn put(&mut self, puts: Vec<Put>, round: usize) -> Result<(), Error> {
        self.put_with(puts, round, None)
    }

    /// Like [`Store::put`], with the answer to whoever asked for the changes.
    fn put_with(
        &mut self,
        mut puts: Vec<Put>,
        round: usize,
        answer: Option<(&Keep, &Map<String, Value>)>,
    ) -> Result<(), Error> {
        if puts.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::new();
        let mut planned = Vec::new();
        for put in &mut puts {
            let path = self.path(&put.id);
            // The last lines of a task always have room.
            let ends = put.task.as_ref().is_none_or(|task| task.status.is_terminal());
            let bytes_max = if ends { FILE_BYTES_MAX } else { GROWN_BYTES_MAX };
            if put.text.len() as u64 > bytes_max {
                return Err(Error::TooLarge { path });
            }
            let draft = match put.file {
                Place::There { .. } => None,
                Place::New | Place::Instead(_) => {
                    may_write(&path)?;
                    let written = Draft::write(&path, put.text.as_bytes(), Mode::Private);
                    Some(written.map_err(|cause| Error::file("write", &path, cause))?)
                }
            };
            let held = self.held.get(&put.id);
            let known = held.and_then(|held| held.versions.as_ref());
            let rev = known.map_or(1, |known| known.last + 1);
            for (event, n) in put.told.iter_mut().zip(0..) {
                let rev = if n == 0 { rev.to_string() } else { format!("{rev}.{n}") };
                *event = event.clone().caused_by("task", &self.record_id(&put.id), rev);
            }
            let version = Version { text: put.text.clone(), events: put.told.clone() };
            let before = held.map(|held| &*held.text);
            let session = put.session.as_deref();
            let versions = Versions::add(known, &mut transaction, &self.record_id(&put.id), before, &version, session)?;
            if let Some(item) = &put.milestone {
                milestones::put_waiting(&mut transaction, &put.id, item)?;
            }
            planned.push((draft, versions));
        }
        if let Some((keep, answer)) = answer {
            keep.put(&mut transaction, answer)?;
        }
        let asked = self.parts.journal.submit(transaction)?;
        // Both disks' work at once: the journal flushes on its own thread meanwhile.
        let flushed: Vec<io::Result<()>> =
            planned.iter().map(|(draft, _)| draft.as_ref().map_or(Ok(()), Draft::flush)).collect();
        self.seq = asked.wait()?;
        if let Some((keep, _)) = answer {
            keep.kept();
        }
        let told: Vec<Event> = puts.iter_mut().flat_map(|put| std::mem::take(&mut put.told)).collect();
        let mut slipped = Vec::new();
        for ((put, (draft, versions)), flushed) in puts.into_iter().zip(planned).zip(flushed) {
            let inode = match (&put.file, &draft) {
                (Place::There { inode }, _) => *inode,
                (_, Some(draft)) => draft.inode().unwrap_or(0),
                (_, None) => 0,
            };
            let held = match put.task {
                Some(task) => {
                    Held { text: put.text.into(), task: Arc::new(task), problem: None, inode, versions: None }
                }
                None => held_of(&put.id, Read::Text { text: put.text, inode }),
            };
            let before = self.held.insert(put.id.clone(), Held { versions: Some(versions), ..held });
            self.show(&put.id);
            let Some(draft) = draft else { continue };
            let path = self.path(&put.id);
            let placed = flushed.and_then(|()| match &put.file {
                Place::Instead(expected) => draft.exchange(&path).map(|out| Some((out, expected.clone()))),
                Place::New | Place::There { .. } => draft.create(&path).map(|()| None),
            });
            if placed.is_err()
                && matches!(put.file, Place::New)
                && let Some(held) = self.held.get_mut(&put.id)
            {
                held.inode = 0;
            }
            match placed {
                Ok(None) => {}
                Ok(Some((out, expected))) => {
                    let was_ours = before.is_some_and(|before| before.inode == inode_of(&out.file));
                    let same = out.bytes == expected.as_bytes();
                    if !same && !was_ours {
                        // Saved by renaming, so it is whole.
                        slipped.push((put.id, out.bytes));
                    } else {
                        self.keep_late(&put.id, out.file, expected.as_bytes().to_vec());
                    }
                }
                // It is in the journal, and in the file as soon as that can be written. A file that is gone is looked at again.
                Err(cause) if cause.kind() == ErrorKind::NotFound => {}
                Err(cause) => {
                    tracing::error!(path = %path.display(), %cause, "a task is ahead of its file; it is written when the file can be")
                }
            }
        }
        // Whoever hears of a change finds it, in the answer to a question and in the file.
        told.into_iter().for_each(|event| self.tell(event));
        for (id, bytes) in slipped {
            if round >= ROUNDS_MAX {
                self.keep_aside(&id, &bytes, &["everything".to_owned()])?;
                continue;
            }
            self.absorb_or_keep(&id, &bytes, round + 1)?;
        }
        Ok(())
    }

    pub(super) fn tell(&self, event: Event) {
        let (kind, id) = (event.kind.clone(), event.id.clone());
        if let Err(error) = self.parts.bus.emit_event(event) {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                kind,
                id,
                "an event was not written; it is told again after a restart"
            );
        }
    }

    /// Like [`Store::archive`]; what failed is tried again with the next look at this store.
    fn archive_or_say(&mut self, id: &str) {
        if let Err(error) = self.archive(id) {
            tracing::error!(
                task = id,
                error = &error as &dyn std::error::Error,
                "a finished task is not in the history yet"
            );
            self.wait_for_me();
        }
    }

    /// Moves a task that is over to the month's history.
    pub(super) fn archive(&mut self, id: &str) -> Result<(), Error> {
        let Some(held) = self.held.get(id).cloned() else { return Ok(()) };
        if held.problem.is_some() {
            return Ok(());
        }
        self.archive
            .append(id, &Document::parse(&held.text), self.parts.clock.now())
            .map_err(|(path, cause)| Error::file("write", &path, cause))?;
        let path = self.path(id);
        // Out of the way first and looked at then: what was saved at the last moment is kept.
        let aside = self.folder.join("tasks").join(format!(".chela-{id}.tmp"));
        match fs::rename(&path, &aside) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(Error::file("remove", &path, cause)),
            _ => {}
        }
        if let Ok(last) = fs::read(&aside)
            && *last != *held.text.as_bytes()
            && !last.is_empty()
        {
            self.keep_aside(id, &last, &["the task was over".to_owned()])?;
        }
        // Swept at the next start if it stays.
        let _ = fs::remove_file(&aside);
        self.held.remove(id);
        self.ended.push(held.task.clone());
        self.over.extend(held.versions.map(|versions| (id.to_owned(), versions)));
        self.shown.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        Ok(())
    }

    pub(super) fn show(&self, id: &str) {
        let Some(held) = self.held.get(id) else { return };
        let view = self.view(id, held);
        self.shown.write().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), Arc::new(view));
    }

    /// The mirror of the active task is behind.
    pub(super) fn stale_current(&mut self) {
        self.stale = true;
        self.wait_for_me();
    }

    /// There is something to look after.
    pub(super) fn wait_for_me(&self) {
        self.waits.store(true, Ordering::Relaxed);
        self.parts.busy.notify_one();
    }

    fn show_all(&self) {
        let all = self.held.iter().map(|(id, held)| (id.clone(), Arc::new(self.view(id, held)))).collect();
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    fn view(&self, id: &str, held: &Held) -> View {
        let session = held.versions.as_ref().and_then(|versions| versions.session.clone());
        let (agent, task, problem) = (self.agent.clone(), held.task.clone(), held.problem.clone());
        View { agent, id: id.to_owned(), task, problem, session }
    }

    /// `CURRENT_TASK.md` mirrors the active task. It is derived and written behind: nobody waits for it.
    pub(super) fn write_current(&mut self) {
        self.stale = false;
        let path = self.folder.join("CURRENT_TASK.md");
        let active = active_of(self.well().map(|(_, task)| task)).map(|task| task.id.clone());
        let text = match active.as_ref().and_then(|id| self.held.get(id)) {
            Some(held) => {
                format!("<!-- Made from tasks/{}.md; changes here are not read. -->\n\n{}", held.task.id, held.text)
            }
            None => "<!-- Made from tasks/; changes here are not read. -->\n\nNo task is in progress.\n".to_owned(),
        };
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return;
        }
        let written = Draft::write(&path, text.as_bytes(), Mode::Private).and_then(|draft| draft.put(&path));
        if let Err(cause) = written {
            tracing::warn!(path = %path.display(), %cause, "the current task is not mirrored");
        }
    }
}

pub(super) fn held_of(id: &str, read: Read) -> Held {
    match read {
        Read::Text { text, inode } => {
            let document = Document::parse(&text);
            let mut task = document.task();
            let problem = document
                .problems()
                .into_iter()
                .next()
                .map(|problem| format!("line {}: {}", problem.line, problem.said));
            let problem = problem.or_else(|| {
                let said =
                    format!("line 1: the title says {:?} and the file's name says {id}; make them the same", task.id);
                (task.id != id).then_some(said)
            });
            id.clone_into(&mut task.id);
            chela_taskfile::name_all(&mut task.steps);
            Held { text: text.into(), task: Arc::new(task), problem, inode, versions: None }
        }
        Read::Unreadable { said, inode } => {
            let task = Arc::new(Task::new(id, "", ""));
            Held { text: "".into(), task, problem: Some(said), inode, versions: None }
        }
        Read::Gone => {
            Held { text: "".into(), task: Arc::new(Task::new(id, "", "")), problem: None, inode: 0, versions: None }
        }
    }
}
