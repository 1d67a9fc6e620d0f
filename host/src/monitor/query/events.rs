//! Events, newest first or from a place on.

use rusqlite::{Connection, OptionalExtension, params_from_iter};
use serde_json::{Map, Value};

use super::{EventsQuery, Page, QueryError, Readers, SCAN_MAX, Since, cursor_of};
use crate::event::Role;
use crate::monitor::category::Shown;
use crate::monitor::fold::place;
use crate::monitor::index::parsed;

/// A row of the index, enough to read the line and to say what the index knows of it.
pub(in crate::monitor) struct Row {
    pub(in crate::monitor) seq: i64,
    len: usize,
    ts: u64,
    kind: i64,
    role: usize,
    session: Option<i64>,
    category: Option<String>,
}

/// One way through the index: all events, or those with one value.
struct Way {
    clause: &'static str,
    value: Option<i64>,
}

impl Readers {
    pub(in crate::monitor) fn events(&self, query: &EventsQuery) -> Result<Page, QueryError> {
        self.read(|db| {
            let Some(ways) = ways(db, query)? else { return Ok(Page { rows: Vec::new(), next: None }) };
            let (from, ascending) = match query.since {
                Some(Since::Seq(seq)) => (seq, true),
                Some(Since::Time(ms)) => (before_time(db, ms)?, true),
                None => (query.before.unwrap_or(i64::MAX), false),
            };
            let (rows, next) = merged(db, query, &ways, from, ascending)?;
            let rows = rows.iter().map(|row| self.event(db, row)).filter_map(Result::transpose);
            Ok(Page { rows: rows.collect::<Result<_, _>>()?, next: next.map(cursor_of) })
        })
    }

    /// The event of a row as the API shows it; none when its segment was removed.
    fn event(&self, db: &Connection, row: &Row) -> Result<Option<Value>, QueryError> {
        let bytes = match self.lines.read(row.seq, row.len) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let session = match row.session {
            None => None,
            Some(id) => db
                .prepare_cached("SELECT key, shown FROM sessions WHERE id = ?")?
                .query_row([id], |found| {
                    Ok((found.get::<_, String>(0)?, parsed::<Shown>(found.get_ref(1)?.as_str()?)?))
                })
                .optional()?,
        };
        Ok(enriched(&bytes, row.seq, Role::ALL[row.role.min(3)], session.as_ref()))
    }
}

/// A line of the log with its place, its role, its work session and that session's category.
pub(in crate::monitor) fn enriched(
    bytes: &[u8],
    seq: i64,
    role: Role,
    session: Option<&(String, Shown)>,
) -> Option<Value> {
    let mut event: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    if !event.get("data").is_some_and(Value::is_object) {
        event.insert("data".into(), Value::Object(Map::new()));
    }
    event.insert("seq".into(), seq.into());
    let data = event.get_mut("data")?.as_object_mut()?;
    data.insert("eventRole".into(), role.as_str().into());
    if let Some((key, shown)) = session {
        data.insert("workSessionId".into(), key.as_str().into());
        if let Ok(Value::Object(fields)) = serde_json::to_value(shown) {
            data.extend(fields);
        }
    }
    Some(Value::Object(event))
}

/// The rows of all ways in one order, and where to go on.
fn merged(
    db: &Connection,
    query: &EventsQuery,
    ways: &[Way],
    from: i64,
    ascending: bool,
) -> Result<(Vec<Row>, Option<i64>), QueryError> {
    // Beyond the place where a way had to stop, nothing is known to be complete.
    let (mut rows, mut horizon): (Vec<Row>, Option<i64>) = (Vec::new(), None);
    let nearer = |a: i64, b: i64| if ascending { a.min(b) } else { a.max(b) };
    for way in ways {
        let stopped = walk(db, query, way, from, ascending, SCAN_MAX / ways.len(), &mut rows)?;
        horizon = match (horizon, stopped) {
            (Some(one), Some(other)) => Some(nearer(one, other)),
            (one, other) => one.or(other),
        };
    }
    rows.sort_by_key(|row| if ascending { row.seq } else { -row.seq });
    rows.dedup_by_key(|row| row.seq);
    if let Some(horizon) = horizon {
        rows.retain(|row| if ascending { row.seq <= horizon } else { row.seq >= horizon });
    }
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = if more { rows.last().map(|row| row.seq) } else { horizon };
    Ok((rows, next))
}

/// Follows one way until it has enough; says where it had to stop before.
fn walk(
    db: &Connection,
    query: &EventsQuery,
    way: &Way,
    from: i64,
    ascending: bool,
    scan_max: usize,
    found: &mut Vec<Row>,
) -> Result<Option<i64>, QueryError> {
    let (order, beyond) = if ascending { ("ASC", ">") } else { ("DESC", "<") };
    let (category, join) = match query.categories.is_empty() {
        true => ("NULL", ""),
        false => ("s.category", "LEFT JOIN sessions s ON s.id = e.session"),
    };
    let sql = format!(
        "SELECT e.seq, e.len, e.ts, e.type, e.role, e.session, {category} FROM events e {join} {} e.seq {beyond} ? ORDER BY e.seq {order}",
        way.clause
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(way.value.into_iter().chain([from])))?;
    let types = type_ids(db, &query.types)?;
    let (mut taken, mut scanned) = (0, 0);
    while let Some(row) = rows.next()? {
        let row = Row {
            seq: row.get(0)?,
            len: row.get::<_, i64>(1)?.unsigned_abs() as usize,
            ts: row.get::<_, i64>(2)?.unsigned_abs(),
            kind: row.get(3)?,
            role: row.get::<_, i64>(4)?.unsigned_abs() as usize,
            session: row.get(5)?,
            category: row.get(6)?,
        };
        scanned += 1;
        let seq = row.seq;
        if fits(&row, query, &types) {
            found.push(row);
            taken += 1;
            // One more than asked for tells that there is more.
            if taken > query.limit {
                return Ok(None);
            }
        }
        if scanned >= scan_max {
            return Ok(Some(seq));
        }
    }
    Ok(None)
}

fn fits(row: &Row, query: &EventsQuery, types: &[i64]) -> bool {
    let of_role = query.roles.is_empty() || query.roles.iter().any(|role| place(*role) == row.role);
    let of_type = query.types.is_empty() || types.contains(&row.kind);
    let of_category = query.categories.is_empty()
        || row.category.as_ref().is_some_and(|category| query.categories.contains(category));
    let in_time = !matches!(query.since, Some(Since::Time(ms)) if row.ts < ms);
    of_role && of_type && of_category && in_time
}

/// The narrowest ways to what is asked for; none if there can be nothing.
fn ways(db: &Connection, query: &EventsQuery) -> Result<Option<Vec<Way>>, QueryError> {
    if let Some(subject) = &query.subject {
        let clause = "JOIN subjects j ON j.seq = e.seq WHERE j.word = ? AND";
        return Ok(word(db, subject)?.map(|id| vec![Way { clause, value: Some(id) }]));
    }
    if let Some(key) = &query.work_session {
        let mut find = db.prepare_cached("SELECT id FROM sessions WHERE key = ?")?;
        let id: Option<i64> = find.query_row([key], |row| row.get(0)).optional()?;
        return Ok(id.map(|id| vec![Way { clause: "WHERE e.session = ? AND", value: Some(id) }]));
    }
    if !query.types.is_empty() {
        let ids = type_ids(db, &query.types)?;
        let way = |id| Way { clause: "WHERE e.type = ? AND", value: Some(id) };
        return Ok((!ids.is_empty()).then(|| ids.into_iter().map(way).collect()));
    }
    if query.roles.is_empty() {
        return Ok(Some(vec![Way { clause: "WHERE", value: None }]));
    }
    let way = |role: &Role| Way { clause: "WHERE e.role = ? AND", value: i64::try_from(place(*role)).ok() };
    Ok(Some(query.roles.iter().map(way).collect()))
}

fn type_ids(db: &Connection, types: &[String]) -> Result<Vec<i64>, QueryError> {
    let mut ids = Vec::new();
    for kind in types {
        ids.extend(word(db, kind)?);
    }
    Ok(ids)
}

fn word(db: &Connection, text: &str) -> Result<Option<i64>, QueryError> {
    let mut find = db.prepare_cached("SELECT id FROM words WHERE word = ?")?;
    Ok(find.query_row([text], |row| row.get(0)).optional()?)
}

/// A place before which everything happened earlier than `ms`.
fn before_time(db: &Connection, ms: u64) -> Result<i64, QueryError> {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    let mut find = db.prepare_cached("SELECT seq FROM times WHERE latest < ? ORDER BY latest DESC LIMIT 1")?;
    let seq: Option<i64> = find.query_row([ms], |row| row.get(0)).optional()?;
    Ok(seq.map_or(-1, |seq| seq - 1))
}
