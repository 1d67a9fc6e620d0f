//! Work sessions on their way into the index: read once, folded in memory, written once a transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{DAY_MS, Db, Entry, signed};
use crate::event::{Kind, Role};
use crate::monitor::category::{Classified, Overrides, Shown};
use crate::monitor::fold::{self, Fact, Session, Thread, ThreadState};

/// What is kept at hand, at most.
pub(super) struct AtHand {
    sessions: usize,
    /// Tasks whose session is known.
    tasks: usize,
    pub(super) words: usize,
}

/// While the log is read for the first time, as fast as it can be.
pub(super) const READING: AtHand = AtHand { sessions: 4_096, tasks: 50_000, words: 50_000 };
/// While events come one by one: what is not at hand is looked up.
pub(super) const SERVING: AtHand = AtHand { sessions: 256, tasks: 2_048, words: 2_048 };

/// Threads of one session that are kept at hand.
const THREADS_MAX: usize = 64;
/// A session that has not been asked about since its last message is, after so much silence.
pub(super) const SILENCE_MS: u64 = 10_000;
/// A classifier that had no answer for a session is asked again after so long, at the least.
const AGAIN_MS: u64 = 60_000;
/// And no more once nobody has spoken for so long.
const AGAIN_WITHIN_MS: u64 = 7 * DAY_MS;

pub(super) struct Sessions {
    kept: HashMap<String, Kept>,
    /// The session of a task, as it was written last.
    tasks: HashMap<String, i64>,
    next_id: i64,
    /// Counts uses, to tell which were used last.
    uses: u64,
}

struct Kept {
    id: i64,
    session: Session,
    threads: HashMap<String, (Thread, bool)>,
    classified: Option<Classified>,
    classifier: i64,
    seen: u64,
    due: Option<i64>,
    /// The classifier would be shown more than messages now: a participant or a task that it does not know.
    grown: bool,
    /// Under which day, category and source it is counted.
    counted: Option<(u64, String, String)>,
    changed: bool,
    used: u64,
}

impl Sessions {
    pub(super) fn new(db: &Connection) -> Db<Self> {
        let last: Option<i64> = db.query_row("SELECT max(id) FROM sessions", [], |row| row.get(0))?;
        Ok(Self { kept: HashMap::new(), tasks: HashMap::new(), next_id: last.unwrap_or(0) + 1, uses: 0 })
    }

    /// After a failed transaction: what is at hand may be more than what is stored.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
        self.tasks.clear();
    }

    /// Folds an event into its session; none if it belongs to none.
    pub(super) fn place(&mut self, tx: &Transaction<'_>, entry: &Entry<'_>) -> Db<Option<i64>> {
        let line = &entry.line;
        if line.kind == Kind::PolicyDecided.as_str() {
            // It is about the session, not a part of it.
            let key = line.data.work_session_id.get().map(|id| fold::cut(id, 256));
            return key.map_or(Ok(None), |key| id_of(tx, &key));
        }
        let thread_key = fold::thread_key(line);
        let Some(key) = self.key_of(tx, entry, &thread_key)? else { return Ok(None) };
        self.uses += 1;
        let kept = self.load(tx, &key)?;
        let len = u32::try_from(entry.bytes.len()).unwrap_or(u32::MAX);
        let fact = Fact { seq: entry.seq, len, role: entry.role, line };
        let shown = kept.session.beside_messages();
        kept.session.add(&fact, &thread_key);
        kept.grown |= kept.session.beside_messages() > shown;
        let id = kept.id;
        let (thread, changed) = match kept.threads.entry(thread_key) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let thread = stored_thread(tx, id, slot.key())?;
                slot.insert((thread.unwrap_or_default(), false))
            }
        };
        let before = (thread.events > 0).then_some(thread.state);
        thread.add(&fact);
        kept.session.thread_changed(before, thread.state);
        *changed = true;
        kept.changed = true;
        let named = line.data.work_session_id.get().is_some();
        if let Some(task) = line.data.task_id.get().filter(|task| named && self.tasks.get(*task) != Some(&id)) {
            tx.prepare_cached("INSERT OR REPLACE INTO tasks VALUES (?, ?)")?
                .execute(params![fold::cut(task, 256), id])?;
            self.tasks.insert(task.to_owned(), id);
        }
        Ok(Some(id))
    }

    /// The session an event belongs to: the one it names, else its task's, else its thread's of that day. What only observes has none of its own.
    fn key_of(&self, tx: &Transaction<'_>, entry: &Entry<'_>, thread_key: &str) -> Db<Option<String>> {
        let line = &entry.line;
        if let Some(id) = line.data.work_session_id.get() {
            return Ok(Some(fold::cut(id, 256)));
        }
        if let Some(task) = line.data.task_id.get() {
            let mut find =
                tx.prepare_cached("SELECT key FROM sessions JOIN tasks ON sessions.id = tasks.session WHERE task = ?")?;
            let found = find.query_row([fold::cut(task, 256)], |row| row.get(0)).optional()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok((entry.role != Role::System).then(|| fold::legacy_key(thread_key, line)))
    }

    fn load(&mut self, tx: &Transaction<'_>, key: &str) -> Db<&mut Kept> {
        if !self.kept.contains_key(key) {
            let kept = match stored(tx, key)? {
                Some(kept) => kept,
                None => {
                    let id = self.next_id;
                    self.next_id += 1;
                    // The row is there at once, so that tasks and threads can point to it.
                    tx.prepare_cached(
                        "INSERT INTO sessions VALUES (?, ?, 0, 0, 0, 0, 0, 0, 0, 0, NULL, '', 0, 0, NULL, '{}', NULL, '{}')",
                    )?
                    .execute(params![id, key])?;
                    Kept::new(id)
                }
            };
            self.kept.insert(key.to_owned(), kept);
        }
        let kept = self.kept.get_mut(key).expect("it was put there just now");
        kept.used = self.uses;
        Ok(kept)
    }

    /// Writes what has changed, with when the classifier is to be asked; without `now`, as when the log was read for the first time, what was
    /// there before is classified in the background.
    pub(super) fn store(&mut self, tx: &Transaction<'_>, overrides: &Overrides, now: Option<u64>) -> Db<()> {
        for (key, kept) in self.kept.iter_mut().filter(|(_, kept)| kept.changed) {
            if let Some(now) = now {
                kept.schedule(now);
            }
            kept.write(tx, key, overrides)?;
        }
        Ok(())
    }

    /// Writes what will not be kept at hand. While the log is read for the first time that is enough: what is cut off is made again from the
    /// beginning, and most sessions are over before they have to go.
    pub(super) fn spill(&mut self, tx: &Transaction<'_>, overrides: &Overrides) -> Db<()> {
        let last_to_go = self.last_to_go(READING.sessions);
        for (key, kept) in self.kept.iter_mut().filter(|(_, kept)| kept.changed) {
            if kept.used <= last_to_go || kept.threads.len() > THREADS_MAX {
                kept.write(tx, key, overrides)?;
            }
        }
        Ok(())
    }

    /// The transaction stands: lets go of what is written and was not used lately.
    pub(super) fn settle(&mut self, at_hand: &AtHand) {
        let last_to_go = self.last_to_go(at_hand.sessions);
        self.kept.retain(|_, kept| kept.changed || kept.used > last_to_go);
        self.kept.shrink_to(2 * at_hand.sessions);
        if self.tasks.len() > at_hand.tasks {
            self.tasks.clear();
            self.tasks.shrink_to(at_hand.tasks);
        }
        // A thread can be read again; a session of many would fill the memory.
        for kept in self.kept.values_mut().filter(|kept| !kept.changed && kept.threads.len() > THREADS_MAX) {
            kept.threads.clear();
        }
    }

    /// The latest use of those that are too many; 0 when all may stay.
    fn last_to_go(&self, max: usize) -> u64 {
        if self.kept.len() <= max {
            return 0;
        }
        let mut uses: Vec<u64> = self.kept.values().map(|kept| kept.used).collect();
        let many = uses.len() - max / 2;
        *uses.select_nth_unstable(many - 1).1
    }

    /// Writes down what the classifier said of a session, or that it has nothing to say of one in which nobody spoke.
    pub(super) fn classified(
        &mut self,
        tx: &Transaction<'_>,
        key: &str,
        classified: Option<Classified>,
        classifier: i64,
        overrides: &Overrides,
    ) -> Db<()> {
        self.uses += 1;
        let kept = self.load(tx, key)?;
        kept.seen = kept.session.messages;
        kept.due = classified.as_ref().and_then(|classified| kept.again_at(classified));
        kept.grown = false;
        kept.classifier = classifier;
        if classified.is_some() {
            kept.classified = classified;
        }
        kept.changed = true;
        kept.write(tx, key, overrides)
    }

    /// Writes a session again, since an operator's word about it has changed.
    pub(super) fn overridden(&mut self, tx: &Transaction<'_>, key: &str, overrides: &Overrides) -> Db<bool> {
        if stored(tx, key)?.is_none() {
            return Ok(false);
        }
        self.uses += 1;
        let kept = self.load(tx, key)?;
        kept.changed = true;
        kept.write(tx, key, overrides)?;
        Ok(true)
    }
}

impl Sessions {
    /// Takes out a session of which no event is left, with its threads and its place in the counts.
    pub(super) fn remove(tx: &Transaction<'_>, id: i64, key: &str) -> Db<()> {
        if let Some((day, category, source)) = stored(tx, key)?.and_then(|kept| kept.counted) {
            tx.prepare_cached(
                "UPDATE daily_categories SET sessions = sessions - 1 WHERE day = ? AND category = ? AND source = ?",
            )?
            .execute(params![signed(day), category, source])?;
        }
        tx.prepare_cached("DELETE FROM threads WHERE session = ?")?.execute([id])?;
        tx.prepare_cached("DELETE FROM sessions WHERE id = ?")?.execute([id])?;
        Ok(())
    }
}

impl Kept {
    fn new(id: i64) -> Self {
        Self {
            id,
            session: Session::default(),
            threads: HashMap::new(),
            classified: None,
            classifier: 0,
            seen: 0,
            due: None,
            grown: false,
            counted: None,
            changed: false,
            used: 0,
        }
    }

    /// The classifier is asked at the 1st, 2nd, 4th, 8th … message, and after a silence. Not only messages count: an index made anew shows
    /// it everything at once, and must come to the same.
    fn schedule(&mut self, now: u64) {
        let grown = std::mem::take(&mut self.grown);
        if self.session.messages == 0 || self.session.messages == self.seen && !grown {
            return;
        }
        // Between what it was asked about and what there is lies a power of two.
        let doubled = self.seen == 0 || self.session.messages.ilog2() > self.seen.ilog2();
        self.due = Some(if doubled { 0 } else { signed(now + SILENCE_MS) });
    }

    /// When the classifier is asked again that had no answer: a failure may pass. Each time as long after the last word as that was ago, so
    /// that one that never answers is asked less and less.
    fn again_at(&self, classified: &Classified) -> Option<i64> {
        if classified.version.is_some() {
            return None;
        }
        let silent = classified.at.0.saturating_sub(self.session.activity);
        (silent < AGAIN_WITHIN_MS).then(|| signed(classified.at.0 + silent.max(AGAIN_MS)))
    }

    fn write(&mut self, tx: &Transaction<'_>, key: &str, overrides: &Overrides) -> Db<()> {
        let session = &self.session;
        let shown = Shown::of(overrides.get(key), session.manual.as_ref(), self.classified.as_ref());
        let blocked =
            session.thread_states[ThreadState::ALL.iter().position(|s| *s == ThreadState::Blocked).unwrap_or(0)];
        tx.prepare_cached(
            "UPDATE sessions SET activity = ?, terminal = ?, open_until = ?, main = ?, delegation = ?, orchestration = ?, system = ?,
             blocked = ?, fold = ?, category = ?, source = ?, shown = ?, classified = ?, classifier = ?, seen = ?, due = ? WHERE id = ?",
        )?
        .execute(params![
            signed(session.activity),
            session.terminal,
            signed(session.open_until()),
            signed(session.roles[0]),
            signed(session.roles[1]),
            signed(session.roles[2]),
            signed(session.roles[3]),
            blocked,
            json(session),
            shown.collab_category,
            shown.category_source,
            json(&shown),
            self.classified.as_ref().map(json),
            self.classifier,
            signed(self.seen),
            self.due,
            self.id,
        ])?;
        for (key, (thread, changed)) in self.threads.iter_mut().filter(|(_, (_, changed))| *changed) {
            tx.prepare_cached("INSERT OR REPLACE INTO threads VALUES (?, ?, ?, ?)")?.execute(params![
                self.id,
                key,
                thread.last_seq,
                json(thread)
            ])?;
            *changed = false;
        }
        self.changed = false;
        // Only what people talked in has a category to be counted.
        if session.messages > 0 {
            let category = shown.collab_category.unwrap_or_default();
            self.count(tx, (session.first_ts / DAY_MS, category, shown.category_source))?;
        }
        Ok(())
    }

    fn count(&mut self, tx: &Transaction<'_>, now: (u64, String, String)) -> Db<()> {
        if self.counted.as_ref() == Some(&now) {
            return Ok(());
        }
        let mut add = tx.prepare_cached(
            "INSERT INTO daily_categories VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET sessions = sessions + excluded.sessions",
        )?;
        if let Some((day, category, source)) = &self.counted {
            add.execute(params![signed(*day), category, source, -1])?;
        }
        add.execute(params![signed(now.0), now.1, now.2, 1])?;
        self.counted = Some(now);
        Ok(())
    }
}

fn stored(tx: &Transaction<'_>, key: &str) -> Db<Option<Kept>> {
    let mut find = tx.prepare_cached(
        "SELECT id, fold, category, source, classified, classifier, seen, due FROM sessions WHERE key = ?",
    )?;
    let row = find.query_row([key], |row| {
        let session: Session = parsed(row.get_ref(1)?.as_str()?)?;
        let category: Option<String> = row.get(2)?;
        let source: String = row.get(3)?;
        let counted = (session.messages > 0).then(|| (session.first_ts / DAY_MS, category.unwrap_or_default(), source));
        let classified: Option<String> = row.get(4)?;
        Ok(Kept {
            id: row.get(0)?,
            counted,
            classified: classified.as_deref().map(parsed).transpose()?,
            classifier: row.get(5)?,
            seen: row.get::<_, i64>(6)?.unsigned_abs(),
            due: row.get(7)?,
            ..Kept::new(0)
        }
        .with(session))
    });
    row.optional()
}

impl Kept {
    fn with(mut self, session: Session) -> Self {
        self.session = session;
        self
    }
}

fn id_of(tx: &Transaction<'_>, key: &str) -> Db<Option<i64>> {
    tx.prepare_cached("SELECT id FROM sessions WHERE key = ?")?.query_row([key], |row| row.get(0)).optional()
}

fn stored_thread(tx: &Transaction<'_>, session: i64, key: &str) -> Db<Option<Thread>> {
    let mut find = tx.prepare_cached("SELECT fold, last_seq FROM threads WHERE session = ? AND key = ?")?;
    let read = |row: &rusqlite::Row<'_>| Ok(Thread { last_seq: row.get(1)?, ..parsed(row.get_ref(0)?.as_str()?)? });
    find.query_row(params![session, key], read).optional()
}

pub(in crate::monitor) fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> Db<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error)))
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("what is stored is plain JSON")
}
