//! The index of the event log, in SQLite: what was read goes in with how far the reading went, in one transaction.
//! Keeps true: it follows from the log alone, and agrees with a reading of the whole log whatever was cut off. Never: holds what the log does not.

mod prune;
mod sessions;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::category::{Classified, Overrides, Shown};
use super::fold;
use super::line::Line;
use crate::event::Role;
pub(super) use prune::Pruning;
pub(super) use sessions::parsed;
use sessions::{AtHand, READING, SERVING, SILENCE_MS, Sessions};

/// Another number means another layout, or that events add up to something else: the index is made again.
const VERSION: i64 = 5;
const TIMES_EVERY_MS: u64 = 60_000;
/// News go in beside those who make them: after so many events the processor is left to whoever waits for it.
const YIELD_EVERY: usize = 8;
/// Pages that the writer keeps: what the events of a few minutes change, so that each page is read once. The system keeps the rest of the file at
/// hand by itself; a larger cache fills in the course of a day and looks like memory that is lost.
const WRITER_CACHE_KIB: i64 = 4 * 1024;
/// Each of the connections that read keeps the upper pages of the trees that queries go through.
pub(super) const READER_CACHE_KIB: i64 = 1024;
pub(super) const DAY_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug, thiserror::Error)]
#[error("the index {} failed ({cause}); remove the file, it is made again from the log", path.display())]
pub struct IndexError {
    path: PathBuf,
    cause: rusqlite::Error,
}

/// Who said what an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum How {
    Given = 0,
    Classified = 1,
    /// Neither session keys nor agents told: the careful guess.
    Unknown = 2,
}

/// A line on its way into the index.
pub(super) struct Entry<'a> {
    pub(super) seq: i64,
    pub(super) bytes: &'a [u8],
    pub(super) line: Line<'a>,
    pub(super) role: Role,
    pub(super) how: How,
}

/// How far a segment was read, and how it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) number: u32,
    pub(super) head: Vec<u8>,
    pub(super) head_len: u64,
    pub(super) read_to: u64,
    /// A hash of what lies right before that.
    pub(super) tail: Vec<u8>,
}

pub(super) struct Index {
    path: PathBuf,
    db: Connection,
    words: HashMap<String, i64>,
    sessions: Sessions,
    /// The whole log was read once: what comes now is news.
    filled: bool,
    /// The latest time of an event so far, when it was last written down.
    latest: u64,
}

type Db<T> = rusqlite::Result<T>;

impl Index {
    /// Opens the index at `path`, an empty one when there is none or it cannot be used. True when it has been filled before.
    pub(super) fn open(path: &Path) -> Result<(Self, bool), IndexError> {
        let failed = |cause| IndexError { path: path.to_owned(), cause };
        let (db, filled) = match open_filled(path) {
            Ok(Some(db)) => (db, true),
            Ok(None) | Err(_) => {
                remove(path);
                (create(path).map_err(failed)?, false)
            }
        };
        let sessions = Sessions::new(&db).map_err(failed)?;
        let latest: Option<i64> =
            db.query_row("SELECT max(latest) FROM times", [], |row| row.get(0)).map_err(failed)?;
        let latest = latest.unwrap_or(0).unsigned_abs();
        Ok((Self { path: path.to_owned(), db, words: HashMap::new(), sessions, filled, latest }, filled))
    }

    /// Forgets everything, to be filled again.
    pub(super) fn reset(self) -> Result<Self, IndexError> {
        let path = self.path.clone();
        drop(self);
        Self::make(&path)
    }

    /// An empty index in place of whatever is there.
    pub(super) fn make(path: &Path) -> Result<Self, IndexError> {
        remove(path);
        Self::open(path).map(|(index, _)| index)
    }

    /// Who found the roles that nobody gave; none before the first.
    pub(super) fn roles_by(&self) -> Result<Option<String>, IndexError> {
        let mut find = self.wrap(self.db.prepare_cached("SELECT value FROM meta WHERE key = 'roles_by'"))?;
        self.wrap(find.query_row([], |row| row.get(0)).optional())
    }

    pub(super) fn set_roles_by(&self, by: &str) -> Result<(), IndexError> {
        self.wrap(self.db.execute("INSERT OR REPLACE INTO meta VALUES ('roles_by', ?)", [by]).map(|_| ()))
    }

    /// Events before `seq` whose roles nobody gave, the newest first.
    pub(super) fn guessed_before(&self, seq: i64, limit: usize) -> Result<Vec<Guessed>, IndexError> {
        let read = || -> Db<Vec<Guessed>> {
            let mut find = self.db.prepare_cached(
                "SELECT seq, len, role, how FROM events WHERE how > 0 AND seq < ? ORDER BY seq DESC LIMIT ?",
            )?;
            let guessed = |row: &rusqlite::Row<'_>| {
                Ok(Guessed {
                    seq: row.get(0)?,
                    len: row.get(1)?,
                    role: fold::role_at(row.get(2)?),
                    how: if row.get::<_, i64>(3)? == How::Unknown as i64 { How::Unknown } else { How::Classified },
                })
            };
            rows_of(find.query_map(params![seq, signed(limit as u64)], guessed)?)
        };
        self.wrap(read())
    }

    fn wrap<T>(&self, result: Db<T>) -> Result<T, IndexError> {
        result.map_err(|cause| IndexError { path: self.path.clone(), cause })
    }

    pub(super) fn marks(&self) -> Result<Vec<Mark>, IndexError> {
        let read = || -> Db<Vec<Mark>> {
            let mut rows =
                self.db.prepare("SELECT number, head, head_len, read_to, tail FROM segments ORDER BY number")?;
            let rows = rows.query_map([], |row| {
                Ok(Mark {
                    number: row.get(0)?,
                    head: row.get(1)?,
                    head_len: row.get::<_, i64>(2)?.unsigned_abs(),
                    read_to: row.get::<_, i64>(3)?.unsigned_abs(),
                    tail: row.get(4)?,
                })
            })?;
            rows.collect()
        };
        self.wrap(read())
    }

    /// Takes entries in the order of the log, with how far the log was read and how many lines were no events. Gives back those that were new.
    pub(super) fn add(
        &mut self,
        entries: &[Entry<'_>],
        marks: &[Mark],
        malformed: u64,
        overrides: &Overrides,
        now: u64,
    ) -> Result<Vec<usize>, IndexError> {
        let added = self.try_add(entries, marks, malformed, overrides, now);
        if added.is_err() {
            // What was rolled back must not be remembered.
            self.sessions.forget();
            self.words.clear();
        }
        self.wrap(added)
    }

    fn try_add(
        &mut self,
        entries: &[Entry<'_>],
        marks: &[Mark],
        malformed: u64,
        overrides: &Overrides,
        now: u64,
    ) -> Db<Vec<usize>> {
        let tx = self.db.transaction()?;
        let mut new = Vec::with_capacity(entries.len());
        let mut daily: HashMap<(u64, Role, How), u64> = HashMap::new();
        let mut known = tx.prepare_cached("INSERT OR IGNORE INTO ids VALUES (?, ?)")?;
        let mut insert = tx.prepare_cached("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)")?;
        let mut name = tx.prepare_cached("INSERT OR IGNORE INTO subjects VALUES (?, ?)")?;
        let mut spell = tx.prepare_cached("INSERT INTO texts (rowid, text) VALUES (?, ?)")?;
        for (at, entry) in entries.iter().enumerate() {
            if self.filled && at % YIELD_EVERY == 0 {
                std::thread::yield_now();
            }
            if is_known(&mut known, entry)? {
                continue;
            }
            new.push(at);
            *daily.entry((entry.line.ts / DAY_MS, entry.role, entry.how)).or_default() += 1;
            // A clock that runs far ahead must not hide what comes after it.
            let ts = entry.line.ts;
            if (self.latest + TIMES_EVERY_MS..now + DAY_MS).contains(&ts) || self.latest == 0 && ts < now + DAY_MS {
                tx.prepare_cached("INSERT OR IGNORE INTO times VALUES (?, ?)")?
                    .execute(params![signed(ts), entry.seq])?;
                self.latest = ts;
            }
            let session = self.sessions.place(&tx, entry)?;
            let kind = word(&tx, &mut self.words, &entry.line.kind)?;
            insert.execute(params![
                entry.seq,
                signed(entry.bytes.len() as u64),
                signed(entry.line.ts),
                kind,
                signed(fold::place(entry.role) as u64),
                entry.how as i64,
                session,
            ])?;
            let data = &entry.line.data;
            // What happened to a slot is looked for by its name; what was decided there is not, and there is much of it.
            let slot = data.slot.get().filter(|_| entry.line.kind.starts_with("plugin."));
            let subjects = [("task", data.task_id.get()), ("job", data.job_id.get()), ("slot", slot)];
            for (kind, id) in subjects.into_iter().filter_map(|(kind, id)| Some((kind, id?))) {
                let subject = word(&tx, &mut self.words, &subject(kind, id))?;
                name.execute(params![subject, entry.seq])?;
            }
            if let Some(text) = entry.line.text() {
                spell.execute(params![entry.seq, text])?;
            }
        }
        drop((known, insert, name, spell));
        for ((day, role, how), events) in daily {
            tx.prepare_cached(
                "INSERT INTO daily_roles VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET events = events + excluded.events",
            )?
            .execute(params![signed(day), signed(fold::place(role) as u64), how as i64, signed(events)])?;
        }
        match self.filled {
            true => self.sessions.store(&tx, overrides, Some(now))?,
            false => self.sessions.spill(&tx, overrides)?,
        }
        for mark in marks {
            tx.prepare_cached("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?)")?.execute(params![
                mark.number,
                signed(mark.head_len),
                mark.head,
                signed(mark.read_to),
                mark.tail
            ])?;
        }
        if malformed > 0 {
            bump(&tx, "malformed", malformed)?;
        }
        tx.commit()?;
        let at_hand = at_hand(self.filled);
        self.sessions.settle(at_hand);
        if self.words.len() > at_hand.words {
            self.words.clear();
            self.words.shrink_to(at_hand.words);
        }
        Ok(new)
    }

    /// Sessions that the classifier is to be asked about now: those that are due, and those that another one has classified, latest first.
    pub(super) fn unclassified(
        &self,
        classifier: i64,
        now: u64,
        news_max: usize,
        others_max: usize,
    ) -> Result<Vec<Unclassified>, IndexError> {
        let read = || -> Db<Vec<Unclassified>> {
            let mut due = self.db.prepare_cached("SELECT key, fold, 1 FROM sessions WHERE due <= ? LIMIT ?")?;
            let mut rows = rows_of(due.query_map(params![signed(now), signed(news_max as u64)], unclassified)?)?;
            // The nearest number on either side; further ones have their turn once these are gone.
            let mut others = self.db.prepare_cached(
                "SELECT max(classifier) FROM sessions WHERE classifier < ?1 UNION ALL SELECT min(classifier) FROM sessions WHERE classifier > ?1",
            )?;
            let others: Vec<Option<i64>> = rows_of(others.query_map([classifier], |row| row.get(0))?)?;
            // One that is due within a silence has its turn then; one that waits longer had no answer from another.
            let mut old = self.db.prepare_cached(
                "SELECT key, fold, 0 FROM sessions WHERE classifier = ? AND (due IS NULL OR due > ?) ORDER BY activity DESC, id DESC LIMIT ?",
            )?;
            let soon = signed(now + SILENCE_MS);
            for other in others.into_iter().flatten() {
                let left = others_max.saturating_sub(rows.len());
                rows.extend(rows_of(old.query_map(params![other, soon, signed(left as u64)], unclassified)?)?);
            }
            Ok(rows)
        };
        self.wrap(read())
    }

    /// How many sessions another classifier than this has classified.
    pub(super) fn left_to_classify(&self, classifier: i64) -> Result<u64, IndexError> {
        let count = self.db.query_row(
            "SELECT count(*) FROM sessions WHERE classifier < ?1 OR classifier > ?1",
            [classifier],
            |row| row.get::<_, i64>(0),
        );
        self.wrap(count).map(i64::unsigned_abs)
    }

    /// The number of a classifier, a new one if it has not been seen.
    pub(super) fn classifier(&mut self, identity: &str) -> Result<i64, IndexError> {
        let numbered = self.db.transaction().and_then(|tx| {
            let id = word(&tx, &mut HashMap::new(), &format!("classifier:{identity}"))?;
            tx.commit()?;
            Ok(id)
        });
        self.wrap(numbered)
    }

    /// Writes down what a classifier said of sessions.
    pub(super) fn classify(
        &mut self,
        answers: Vec<(String, Option<Classified>)>,
        classifier: i64,
        overrides: &Overrides,
    ) -> Result<(), IndexError> {
        self.change(|tx, sessions| {
            for (key, classified) in answers {
                sessions.classified(tx, &key, classified, classifier, overrides)?;
            }
            Ok(())
        })
    }

    /// Shows sessions by what operators now say of them; how many of them there are.
    pub(super) fn override_categories(&mut self, keys: &[String], overrides: &Overrides) -> Result<usize, IndexError> {
        self.change(|tx, sessions| {
            let mut found = 0;
            for key in keys {
                found += usize::from(sessions.overridden(tx, key, overrides)?);
            }
            Ok(found)
        })
    }

    fn change<T>(&mut self, change: impl FnOnce(&Transaction<'_>, &mut Sessions) -> Db<T>) -> Result<T, IndexError> {
        let changed = self.db.transaction().and_then(|tx| {
            let done = change(&tx, &mut self.sessions)?;
            tx.commit()?;
            Ok(done)
        });
        match &changed {
            Ok(_) => self.sessions.settle(at_hand(self.filled)),
            Err(_) => self.sessions.forget(),
        }
        self.wrap(changed)
    }

    /// The last place that was read; 0 before the first event.
    pub(super) fn last_seq(&self) -> Result<i64, IndexError> {
        let last: Db<Option<i64>> = self.db.query_row("SELECT max(seq) FROM events", [], |row| row.get(0));
        self.wrap(last).map(Option::unwrap_or_default)
    }

    /// The key of each session and how it is shown, for events that were just added.
    pub(super) fn shown_of(&self, seq: i64) -> Result<Option<(String, Shown)>, IndexError> {
        let read = || -> Db<Option<(String, Shown)>> {
            let mut find = self.db.prepare_cached(
                "SELECT key, shown FROM sessions JOIN events ON events.session = sessions.id WHERE seq = ?",
            )?;
            find.query_row([seq], |row| Ok((row.get(0)?, parsed(row.get_ref(1)?.as_str()?)?))).optional()
        };
        self.wrap(read())
    }

    /// Makes the ways by which queries find rows; from then on the index counts as filled.
    pub(super) fn finish(&mut self, overrides: &Overrides) -> Result<(), IndexError> {
        self.change(|tx, sessions| sessions.store(tx, overrides, None))?;
        let finished = self.db.execute_batch(include_str!("index/ways.sql")).and_then(|()| {
            self.db.cache_flush()?;
            let flushed = std::fs::File::open(&self.path).and_then(|file| file.sync_all());
            flushed.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
            // Everything is on the disk: from here on, changes are kept by a log of their own.
            configure(&self.db, WRITER_CACHE_KIB)?;
            self.db.execute("INSERT OR REPLACE INTO meta VALUES ('filled', 1)", [])
        });
        self.wrap(finished)?;
        self.filled = true;
        Ok(())
    }
}

/// An event whose role a classifier found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guessed {
    pub(super) seq: i64,
    pub(super) len: u32,
    pub(super) role: Role,
    pub(super) how: How,
}

/// A session whose category is to be found.
pub(super) struct Unclassified {
    pub(super) key: String,
    pub(super) session: fold::Session,
    /// Because it has news, not because the classifier is another.
    pub(super) news: bool,
}

fn unclassified(row: &rusqlite::Row<'_>) -> Db<Unclassified> {
    Ok(Unclassified { key: row.get(0)?, session: parsed(row.get_ref(1)?.as_str()?)?, news: row.get(2)? })
}

fn rows_of<T>(rows: impl Iterator<Item = Db<T>>) -> Db<Vec<T>> {
    rows.collect()
}

fn open_filled(path: &Path) -> Db<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let db = Connection::open(path)?;
    configure(&db, WRITER_CACHE_KIB)?;
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != VERSION {
        return Ok(None);
    }
    let filled: Option<i64> =
        db.query_row("SELECT value FROM meta WHERE key = 'filled'", [], |row| row.get(0)).optional()?;
    Ok(filled.is_some().then_some(db))
}

fn create(path: &Path) -> Db<Connection> {
    let db = Connection::open(path)?;
    // What is cut off while it is filled is made again, so nothing needs to be undone or to survive until it is finished.
    db.pragma_update(None, "page_size", 8192)?;
    // Before there is a table: pages of what was removed can be given back to the disk.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    db.pragma_update(None, "threads", 2)?;
    db.pragma_update(None, "journal_mode", "OFF")?;
    db.pragma_update(None, "synchronous", "OFF")?;
    db.pragma_update(None, "cache_size", -64 * 1024)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.set_prepared_statement_cache_capacity(64);
    db.execute_batch(include_str!("index/schema.sql"))?;
    // Words of many messages are gathered before they are written.
    db.execute("INSERT INTO texts (texts, rank) VALUES ('hashsize', 16777216)", [])?;
    db.pragma_update(None, "user_version", VERSION)?;
    Ok(db)
}

/// How every connection to the index behaves. A power cut may undo the last transactions, never tear one: they are read again from the log.
pub(super) fn configure(db: &Connection, cache_kib: i64) -> Db<()> {
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "cache_size", -cache_kib)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(())
}

pub(super) fn remove(path: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        // One that is not there is as good as removed; one that cannot be removed fails when it is opened.
        let _ = std::fs::remove_file(PathBuf::from(name));
    }
}

/// Whether an event with this id came before. Lines of foreign writers have none and are never the same.
fn is_known(insert: &mut rusqlite::CachedStatement<'_>, entry: &Entry<'_>) -> Db<bool> {
    let Some(id) = entry.line.id.as_deref() else { return Ok(false) };
    let changed = match uuid::Uuid::try_parse(id) {
        Ok(id) => insert.execute(params![id.as_bytes().as_slice(), entry.seq])?,
        Err(_) => insert.execute(params![fold::cut(id, 512).as_bytes(), entry.seq])?,
    };
    Ok(changed == 0)
}

fn at_hand(filled: bool) -> &'static AtHand {
    if filled { &SERVING } else { &READING }
}

fn word(tx: &Transaction<'_>, known: &mut HashMap<String, i64>, text: &str) -> Db<i64> {
    if let Some(id) = known.get(text) {
        return Ok(*id);
    }
    let mut find = tx.prepare_cached("SELECT id FROM words WHERE word = ?")?;
    let id = match find.query_row([text], |row| row.get(0)).optional()? {
        Some(id) => id,
        None => {
            tx.prepare_cached("INSERT INTO words (word) VALUES (?)")?.execute([text])?;
            tx.last_insert_rowid()
        }
    };
    known.insert(text.to_owned(), id);
    Ok(id)
}

/// The word under which the events of a task, job or slot are found.
pub(super) fn subject(kind: &str, id: &str) -> String {
    format!("{kind}:{}", fold::cut(id, 256))
}

fn bump(tx: &Transaction<'_>, key: &str, by: u64) -> Db<usize> {
    tx.execute(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = value + excluded.value",
        params![key, signed(by)],
    )
}

/// SQLite counts in signed numbers; ours are far from their end.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
