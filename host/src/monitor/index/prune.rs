//! What the events of removed segments have left in the index goes as well, a piece at a time: between two pieces news are taken in.
//! Keeps true: how far the segments were read is forgotten last, so that what was cut off is begun again.

use rusqlite::{Connection, Transaction, params};

use super::sessions::Sessions;
use super::{DAY_MS, Db, Index, IndexError, rows_of, signed};

/// Rows of a table that one piece looks at.
const ROWS: i64 = 2_000;
/// Work sessions that one piece looks at: each has several rows beside it.
const SESSIONS: i64 = 250;
/// Pages that are given back to the disk at once: two megabytes.
const PAGES: i64 = 256;
/// Of the file this part may stay free, for what comes next.
const FREE_PART: i64 = 10;

/// How far the index is rid of segments that were removed.
pub(in crate::monitor) struct Pruning {
    /// The last of them.
    last: u32,
    stage: Stage,
}

/// Tables whose order is not that of the log are walked through, from behind the row that was looked at last.
#[derive(Default)]
enum Stage {
    #[default]
    Events,
    Ids(Vec<u8>),
    Subjects(i64, i64),
    Sessions(i64),
    Tasks(String),
    Words(i64),
    Rest,
    Pages,
}

impl Pruning {
    /// Of everything up to this segment.
    pub(in crate::monitor) fn up_to(last: u32) -> Self {
        Self { last, stage: Stage::default() }
    }
}

impl Index {
    /// Takes out one piece; true once nothing is left.
    pub(in crate::monitor) fn prune(&mut self, pruning: &mut Pruning) -> Result<bool, IndexError> {
        let (last, stage) = (pruning.last, std::mem::take(&mut pruning.stage));
        if matches!(stage, Stage::Pages) {
            let more = self.wrap(give_back(&self.db))?;
            pruning.stage = Stage::Pages;
            return Ok(!more);
        }
        // What is at hand may be about rows that go.
        self.sessions.forget();
        self.words.clear();
        pruning.stage = self.change(|tx, _| piece(tx, stage, last))?;
        Ok(false)
    }
}

fn piece(tx: &Transaction<'_>, stage: Stage, last: u32) -> Db<Stage> {
    let end = (i64::from(last) + 1) << 32;
    Ok(match stage {
        Stage::Events => match events(tx, end)? {
            true => Stage::Events,
            false => Stage::Ids(Vec::new()),
        },
        Stage::Ids(after) => match ids(tx, end, &after)? {
            Some(after) => Stage::Ids(after),
            None => Stage::Subjects(i64::MIN, i64::MIN),
        },
        Stage::Subjects(word, seq) => match subjects(tx, end, (word, seq))? {
            Some((word, seq)) => Stage::Subjects(word, seq),
            None => Stage::Sessions(i64::MIN),
        },
        Stage::Sessions(after) => match work_sessions(tx, end, after)? {
            Some(after) => Stage::Sessions(after),
            None => Stage::Tasks(String::new()),
        },
        Stage::Tasks(after) => match tasks(tx, &after)? {
            Some(after) => Stage::Tasks(after),
            None => Stage::Words(i64::MIN),
        },
        Stage::Words(after) => match words(tx, after)? {
            Some(after) => Stage::Words(after),
            None => Stage::Rest,
        },
        Stage::Rest => {
            tx.execute("DELETE FROM times WHERE seq < ?", [end])?;
            tx.execute("DELETE FROM daily_roles WHERE events <= 0", [])?;
            tx.execute("DELETE FROM daily_categories WHERE sessions <= 0", [])?;
            tx.execute("DELETE FROM segments WHERE number <= ?", [last])?;
            Stage::Pages
        }
        Stage::Pages => Stage::Pages,
    })
}

/// The oldest events, with their words and their share of the counts; whether there were any.
fn events(tx: &Transaction<'_>, end: i64) -> Db<bool> {
    let mut find = tx.prepare_cached("SELECT seq FROM events WHERE seq < ? ORDER BY seq LIMIT ?")?;
    let seqs: Vec<i64> = rows_of(find.query_map([end, ROWS], |row| row.get(0))?)?;
    let Some(upto) = seqs.last() else { return Ok(false) };
    let mut counted = tx.prepare_cached(
        "UPDATE daily_roles SET events = daily_roles.events - gone.events
         FROM (SELECT ts / ?1 AS day, role, how, count(*) AS events FROM events WHERE seq <= ?2 GROUP BY 1, 2, 3) AS gone
         WHERE daily_roles.day = gone.day AND daily_roles.role = gone.role AND daily_roles.how = gone.how",
    )?;
    counted.execute(params![signed(DAY_MS), upto])?;
    let mut unspell = tx.prepare_cached("DELETE FROM texts WHERE rowid = ?")?;
    for seq in &seqs {
        unspell.execute([seq])?;
    }
    tx.prepare_cached("DELETE FROM events WHERE seq <= ?")?.execute([upto])?;
    Ok(true)
}

fn ids(tx: &Transaction<'_>, end: i64, after: &[u8]) -> Db<Option<Vec<u8>>> {
    let mut find = tx.prepare_cached("SELECT id, seq FROM ids WHERE id > ? ORDER BY id LIMIT ?")?;
    let rows: Vec<(Vec<u8>, i64)> =
        rows_of(find.query_map(params![after, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?)?;
    let mut remove = tx.prepare_cached("DELETE FROM ids WHERE id = ?")?;
    for (id, _) in rows.iter().filter(|(_, seq)| *seq < end) {
        remove.execute([id])?;
    }
    Ok(rows.into_iter().next_back().map(|(id, _)| id))
}

fn subjects(tx: &Transaction<'_>, end: i64, after: (i64, i64)) -> Db<Option<(i64, i64)>> {
    let mut find = tx.prepare_cached(
        "SELECT word, seq FROM subjects WHERE (word, seq) > (?, ?) ORDER BY word, seq LIMIT ?",
    )?;
    let rows: Vec<(i64, i64)> =
        rows_of(find.query_map([after.0, after.1, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?)?;
    let mut remove = tx.prepare_cached("DELETE FROM subjects WHERE word = ? AND seq = ?")?;
    for (word, seq) in rows.iter().filter(|(_, seq)| *seq < end) {
        remove.execute([word, seq])?;
    }
    Ok(rows.last().copied())
}

/// Sessions that lie wholly in what is gone, and the threads of others that do.
fn work_sessions(tx: &Transaction<'_>, end: i64, after: i64) -> Db<Option<i64>> {
    let mut find = tx.prepare_cached(
        "SELECT id, key, EXISTS (SELECT 1 FROM events WHERE session = sessions.id) FROM sessions WHERE id > ? ORDER BY id LIMIT ?",
    )?;
    let rows: Vec<(i64, String, bool)> =
        rows_of(find.query_map([after, SESSIONS], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?)?;
    let mut threads = tx.prepare_cached("DELETE FROM threads WHERE session = ? AND last_seq < ?")?;
    for (id, key, lives) in &rows {
        threads.execute([*id, end])?;
        if !lives {
            Sessions::remove(tx, *id, key)?;
        }
    }
    Ok(rows.last().map(|(id, ..)| *id))
}

/// Tasks of which no event is left, or no session.
fn tasks(tx: &Transaction<'_>, after: &str) -> Db<Option<String>> {
    let mut find = tx.prepare_cached(
        "SELECT task, EXISTS (SELECT 1 FROM sessions WHERE id = tasks.session)
         AND EXISTS (SELECT 1 FROM subjects JOIN words ON words.id = subjects.word WHERE words.word = 'task:' || task)
         FROM tasks WHERE task > ? ORDER BY task LIMIT ?",
    )?;
    let rows: Vec<(String, bool)> =
        rows_of(find.query_map(params![after, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?)?;
    let mut remove = tx.prepare_cached("DELETE FROM tasks WHERE task = ?")?;
    for (task, _) in rows.iter().filter(|(_, lives)| !lives) {
        remove.execute([task])?;
    }
    Ok(rows.into_iter().next_back().map(|(task, _)| task))
}

/// Words that no event has any more. Numbers of classifiers are words as well, and stay.
fn words(tx: &Transaction<'_>, after: i64) -> Db<Option<i64>> {
    let mut find = tx.prepare_cached("SELECT max(id) FROM (SELECT id FROM words WHERE id > ? ORDER BY id LIMIT ?)")?;
    let upto: Option<i64> = find.query_row([after, ROWS], |row| row.get(0))?;
    let Some(upto) = upto else { return Ok(None) };
    let mut remove = tx.prepare_cached(
        "DELETE FROM words WHERE id > ? AND id <= ? AND substr(word, 1, 11) <> 'classifier:'
         AND NOT EXISTS (SELECT 1 FROM subjects WHERE subjects.word = words.id)
         AND NOT EXISTS (SELECT 1 FROM events WHERE events.type = words.id)",
    )?;
    remove.execute([after, upto])?;
    Ok(Some(upto))
}

/// Gives pages that nothing is in back to the disk; whether there are more.
fn give_back(db: &Connection) -> Db<bool> {
    let number = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("freelist_count")? <= number("page_count")? / FREE_PART {
        return Ok(false);
    }
    let mut vacuum = db.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut rows = vacuum.query([])?;
    // One page a row.
    while rows.next()?.is_some() {}
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::event::Role;
    use crate::monitor::category::Overrides;
    use crate::monitor::index::{Entry, How, Mark};
    use crate::monitor::line::Line;

    const NOW: u64 = 1_700_000_000_000;

    /// The lines of a segment: one work session of its own and one that goes on through all.
    fn lines_of(segment: u32) -> Vec<(i64, String)> {
        (0..1_500u64)
            .map(|n| {
                let own = n % 2 == 0;
                let session = if own { format!("ws_{segment}_{}", n % 40) } else { "ws_long".to_owned() };
                let data = json!({
                    "workSessionId": session, "conversationId": format!("c_{session}"), "fromAgent": "eden", "toAgent": "seum",
                    "message": format!("word{segment} n{n}"), "eventRole": "conversation.main",
                    "taskId": format!("task_{segment}_{}", n % 7),
                });
                let ts = NOW + u64::from(segment) * 3 * DAY_MS + n;
                let line = json!({ "id": format!("{segment}-{n}"), "type": "a2a.send", "agentId": "eden", "ts": ts, "data": data });
                ((i64::from(segment) << 32) + n.cast_signed() * 400, line.to_string())
            })
            .collect()
    }

    fn index_of(path: &Path, segments: &[u32]) -> Index {
        let mut index = Index::make(path).expect("made");
        for number in segments {
            let lines = lines_of(*number);
            let entries: Vec<Entry<'_>> = lines
                .iter()
                .map(|(seq, text)| {
                    let line = Line::parse(text.as_bytes()).expect("an event");
                    Entry { seq: *seq, bytes: text.as_bytes(), line, role: Role::Conversation, how: How::Given }
                })
                .collect();
            let mark = Mark { number: *number, head: vec![1], head_len: 1, read_to: 2, tail: vec![2] };
            index.add(&entries, &[mark], 0, &Overrides::default(), NOW + 100 * DAY_MS).expect("added");
        }
        index.finish(&Overrides::default()).expect("finished");
        index
    }

    fn all(index: &Index, sql: &str) -> Vec<String> {
        let mut statement = index.db.prepare(sql).expect("a query");
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| -> Db<String> {
            (0..columns).map(|at| row.get_ref(at).map(|value| format!("{value:?}"))).collect()
        };
        rows_of(statement.query_map([], row).expect("rows")).expect("rows")
    }

    const LEFT: [&str; 10] = [
        "SELECT seq, len, ts, role, how FROM events ORDER BY seq",
        "SELECT hex(id), seq FROM ids ORDER BY id",
        "SELECT words.word, seq FROM subjects JOIN words ON words.id = subjects.word ORDER BY 1, 2",
        "SELECT word FROM words ORDER BY word",
        "SELECT key FROM sessions ORDER BY key",
        "SELECT sessions.key, threads.key FROM threads JOIN sessions ON sessions.id = session ORDER BY 1, 2",
        "SELECT task FROM tasks ORDER BY task",
        "SELECT day, role, how, events FROM daily_roles ORDER BY 1, 2, 3",
        "SELECT number FROM segments",
        "SELECT rowid FROM texts WHERE texts MATCH 'n*' ORDER BY rowid",
    ];

    #[test]
    fn what_is_left_is_what_the_segments_that_are_left_say() {
        let temp = tempfile::tempdir().expect("a directory");
        let expected = index_of(&temp.path().join("expected"), &[4]);
        let mut index = index_of(&temp.path().join("index"), &[1, 2, 3, 4]);
        let pages = |index: &Index| {
            let number = |name: &str| index.db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).expect("a number");
            (number("page_count"), number("freelist_count"))
        };
        let (before, _) = pages(&index);
        let mut pruning = Pruning::up_to(3);
        let pieces = (0..).take_while(|_| !index.prune(&mut pruning).expect("pruned")).take(1_000).count();
        assert!((10..1_000).contains(&pieces), "{pieces} pieces");
        for sql in LEFT {
            assert_eq!(all(&index, sql), all(&expected, sql), "{sql}");
        }
        assert!(all(&index, "SELECT rowid FROM texts WHERE texts MATCH 'word1'").is_empty());
        // The long one began where nothing is left, and is counted on that day.
        let counted = "SELECT sum(sessions) FROM daily_categories";
        assert_eq!(all(&index, counted), all(&expected, counted));
        let (after, free) = pages(&index);
        assert!(after < before / 2 && free <= after / FREE_PART, "{before} pages before, {after} after, {free} free");
        // It goes on as if nothing had been.
        let lines = lines_of(5);
        let line = Line::parse(lines[0].1.as_bytes()).expect("an event");
        let entry = Entry { seq: lines[0].0, bytes: lines[0].1.as_bytes(), line, role: Role::Conversation, how: How::Given };
        assert_eq!(index.add(&[entry], &[], 0, &Overrides::default(), NOW).expect("added"), [0]);
    }
}
