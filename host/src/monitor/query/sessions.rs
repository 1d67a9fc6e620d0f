//! Work sessions, the latest activity first.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use serde_json::{Map, Value, json};

use super::{Page, QueryError, Readers, SCAN_MAX, SessionsQuery};
use crate::event::Role;
use crate::monitor::category::{Classified, Shown};
use crate::monitor::fold::{ARCHIVED_AFTER_MS, Session, Status, Thread, ThreadState, place, status};
use crate::monitor::index::parsed;
use crate::monitor::line::Line;
use crate::monitor::title;
use crate::policy::Conversation;

/// Threads that are shown with a session; more are told by their number.
const THREADS_MAX: i64 = 200;
pub(super) const COLUMNS: &str = "s.id, s.key, s.activity, s.terminal, s.open_until, s.category, s.fold, s.shown, s.main, s.delegation, s.orchestration, s.system, s.blocked";

/// A work session as the classifier is shown it.
#[derive(Clone, Debug)]
pub struct Heard {
    pub session: String,
    pub title: String,
    pub conversation: Conversation,
}

/// A session as the index keeps it.
pub(super) struct Found {
    pub(super) id: i64,
    key: String,
    pub(super) activity: u64,
    status: Status,
    category: Option<String>,
    session: Session,
    shown: Shown,
    roles: [u64; 4],
}

impl Readers {
    pub(in crate::monitor) fn sessions(&self, query: &SessionsQuery, now: u64) -> Result<Page, QueryError> {
        if let Some(text) = &query.text {
            return self.search(query, text, now);
        }
        self.read(|db| {
            let (rows, next) = walk(db, query, now)?;
            Ok(Page { rows: rows.iter().map(Found::summary).collect(), next })
        })
    }

    /// One session with its threads; none if there is none of that name.
    pub(in crate::monitor) fn session(&self, key: &str, now: u64) -> Result<Option<Value>, QueryError> {
        self.read(|db| {
            let sql = format!("SELECT {COLUMNS} FROM sessions s WHERE s.key = ?");
            let found = db.prepare_cached(&sql)?.query_row([key], |row| found(row, now)).optional()?;
            let Some(found) = found else { return Ok(None) };
            let mut summary = found.summary();
            summary["classification"] = classification(db, found.id)?;
            summary["threads"] = self.threads(db, found.id)?;
            Ok(Some(summary))
        })
    }
}

impl Readers {
    /// What the classifier is shown of the latest work sessions in which somebody has said something, with their names and titles.
    pub(in crate::monitor) fn conversations(&self, limit: usize, now: u64) -> Result<Vec<Heard>, QueryError> {
        let query = SessionsQuery { roles: vec![Role::Conversation], limit, ..SessionsQuery::default() };
        self.read(|db| {
            let (rows, _) = walk(db, &query, now)?;
            let text_at = |(seq, len): (i64, u32)| {
                let bytes = self.lines.read(seq, len as usize).ok()?;
                Line::parse(&bytes)?.text().map(str::to_owned)
            };
            let heard = rows.into_iter().filter_map(|found| {
                let conversation = found.session.conversation(text_at)?;
                Some(Heard { session: found.key, title: found.session.title(), conversation })
            });
            Ok(heard.collect())
        })
    }

    /// The threads of a session, the latest first.
    fn threads(&self, db: &Connection, session: i64) -> Result<Value, QueryError> {
        let mut statement = db.prepare_cached(
            "SELECT key, fold, last_seq FROM threads WHERE session = ? ORDER BY last_seq DESC LIMIT ?",
        )?;
        let rows = statement.query_map([session, THREADS_MAX], |row| {
            Ok((row.get::<_, String>(0)?, parsed::<Thread>(row.get_ref(1)?.as_str()?)?, row.get::<_, i64>(2)?))
        })?;
        let mut shown = Vec::new();
        for row in rows {
            let (key, thread, last_seq) = row?;
            // Of a message whose segment is gone there is nothing to show.
            let last = thread.last_message.and_then(|(seq, len)| self.lines.read(seq, len as usize).ok());
            let last = last.as_deref().and_then(Line::parse);
            shown.push(json!({
                "conversationId": key.strip_prefix("conv:"),
                "key": key,
                "participants": thread.participants,
                "state": thread.state,
                "startedAt": thread.first_ts,
                "lastTs": thread.last_ts,
                "lastSeq": last_seq,
                "eventCount": thread.events,
                "messageCount": thread.messages,
                "roleCounts": by_role(thread.roles),
                "lastMessage": last.as_ref().and_then(Line::text).map(title::preview),
                "lastFrom": last.as_ref().and_then(Line::from),
            }));
        }
        Ok(Value::Array(shown))
    }
}

fn walk(db: &Connection, query: &SessionsQuery, now: u64) -> Result<(Vec<Found>, Option<String>), QueryError> {
    let (cursor_activity, cursor_id) = query.cursor.as_deref().and_then(decode).unwrap_or((i64::MAX, i64::MAX));
    let day_ago = i64::try_from(now.saturating_sub(ARCHIVED_AFTER_MS)).unwrap_or(i64::MAX);
    // Status is a matter of time first: what cannot have it is not looked at.
    let only_archived = query.status == [Status::Archived];
    let none_archived = !query.status.is_empty() && !query.status.contains(&Status::Archived);
    let until = if only_archived { cursor_activity.min(day_ago - 1) } else { cursor_activity };
    let from = if none_archived { day_ago.max(1) } else { 1 };
    let (index, clause) = match (query.categories.as_slice(), query.roles.as_slice()) {
        ([category], _) if !category.is_empty() => ("sessions_by_category", "s.category = ?4 AND"),
        (_, [Role::Conversation]) => ("sessions_of_main", "s.main > 0 AND"),
        (_, [Role::Delegation]) => ("sessions_of_delegation", "s.delegation > 0 AND"),
        (_, [Role::Orchestration]) => ("sessions_of_orchestration", "s.orchestration > 0 AND"),
        (_, [Role::System]) => ("sessions_of_system", "s.system > 0 AND"),
        _ if query.thread_states == [ThreadState::Blocked] => ("sessions_blocked", "s.blocked > 0 AND"),
        _ => ("sessions_by_activity", ""),
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions s INDEXED BY {index} WHERE {clause} s.activity >= ?1 AND (s.activity, s.id) < (?2, ?3)
         ORDER BY s.activity DESC, s.id DESC"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let cursor_id = if until == cursor_activity { cursor_id } else { i64::MAX };
    let mut values: Vec<SqlValue> = vec![from.into(), until.into(), cursor_id.into()];
    if let Some(category) = query.categories.first().filter(|key| query.categories.len() == 1 && !key.is_empty()) {
        values.push(category.clone().into());
    }
    let mut rows = statement.query(params_from_iter(values))?;
    let (mut taken, mut scanned) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        scanned += 1;
        let (activity, id): (i64, i64) = (row.get(2)?, row.get(0)?);
        let here = Some(format!("{activity}.{id}"));
        if taken.len() == query.limit {
            let next = taken.last().map(|last: &Found| format!("{}.{}", last.activity, last.id));
            return Ok((taken, next));
        }
        if may_fit(row, query)? {
            let found = found(row, now)?;
            if fits(&found, query) {
                taken.push(found);
            }
        }
        if scanned >= SCAN_MAX {
            return Ok((taken, here));
        }
    }
    Ok((taken, None))
}

/// What can be told without reading what the session adds up to.
fn may_fit(row: &Row<'_>, query: &SessionsQuery) -> rusqlite::Result<bool> {
    if !query.roles.is_empty() {
        let mut any = false;
        for role in &query.roles {
            any |= row.get::<_, i64>(8 + place(*role))? > 0;
        }
        if !any {
            return Ok(false);
        }
    }
    if query.categories.is_empty() {
        return Ok(true);
    }
    let category = row.get_ref(5)?.as_str_or_null()?;
    Ok(query.categories.iter().any(|wanted| wanted == category.unwrap_or_default()))
}

pub(super) fn fits(found: &Found, query: &SessionsQuery) -> bool {
    let of_status = query.status.is_empty() || query.status.contains(&found.status);
    let of_role = query.roles.is_empty() || query.roles.iter().any(|role| found.roles[place(*role)] > 0);
    let of_type = query.types.is_empty() || query.types.iter().any(|kind| found.session.types.contains_key(kind));
    let of_category = query.categories.is_empty()
        || query.categories.iter().any(|wanted| *wanted == found.category.as_deref().unwrap_or_default());
    let of_tag =
        query.sub_tags.is_empty() || query.sub_tags.iter().any(|tag| found.shown.collab_sub_tags.contains(tag));
    let states = ThreadState::ALL.iter().zip(found.session.thread_states);
    let of_state = query.thread_states.is_empty()
        || states.into_iter().any(|(state, count)| count > 0 && query.thread_states.contains(state));
    let of_agent = query.participants.is_empty()
        || query.participants.iter().any(|name| found.session.participants.contains(name));
    of_status && of_role && of_type && of_category && of_tag && of_state && of_agent
}

pub(super) fn found(row: &Row<'_>, now: u64) -> rusqlite::Result<Found> {
    let activity = row.get::<_, i64>(2)?.unsigned_abs();
    let open_until = row.get::<_, i64>(4)?.unsigned_abs();
    let count = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
    Ok(Found {
        id: row.get(0)?,
        key: row.get(1)?,
        activity,
        status: status(activity, row.get(3)?, open_until, now),
        category: row.get(5)?,
        session: parsed(row.get_ref(6)?.as_str()?)?,
        shown: parsed(row.get_ref(7)?.as_str()?)?,
        roles: [count(8)?, count(9)?, count(10)?, count(11)?],
    })
}

impl Found {
    pub(super) fn summary(&self) -> Value {
        let session = &self.session;
        let by_state: Map<String, Value> = ThreadState::ALL
            .iter()
            .zip(session.thread_states)
            .map(|(state, count)| (state.as_str().to_owned(), json!(count)))
            .collect();
        let mut summary = json!({
            "workSessionId": self.key,
            "title": session.title(),
            "status": self.status,
            "startedAt": session.first_ts,
            "lastActivity": self.activity,
            "lastSeq": session.last_seq,
            "participants": session.participants,
            "eventCount": session.events,
            "messageCount": session.messages,
            "roleCounts": by_role(self.roles),
            "typeCounts": session.types,
            "threadCounts": by_state,
            "taskIds": session.tasks,
        });
        let fields = summary.as_object_mut().expect("an object");
        if let Some(previous) = &session.previous {
            fields.insert("previousWorkSessionId".into(), json!(previous));
        }
        if let Ok(Value::Object(shown)) = serde_json::to_value(&self.shown) {
            fields.extend(shown);
        }
        summary
    }
}

/// How many events of each role there are.
fn by_role(counts: [u64; 4]) -> Map<String, Value> {
    Role::ALL.iter().map(|role| (role.as_str().to_owned(), json!(counts[place(*role)]))).collect()
}

/// `ACTIVITY.ID` of the last session of a page.
fn decode(cursor: &str) -> Option<(i64, i64)> {
    let (activity, id) = cursor.split_once('.')?;
    Some((activity.parse().ok()?, id.parse().ok()?))
}

/// Whether a text can be a cursor of a list of sessions, or of what was searched for among them.
pub fn is_sessions_cursor(text: &str, searching: bool) -> bool {
    if searching { super::search::is_cursor(text) } else { decode(text).is_some() }
}

/// What the classifier said of a session, whoever overruled it; null before it was asked.
fn classification(db: &Connection, session: i64) -> Result<Value, QueryError> {
    let mut find = db.prepare_cached("SELECT classified FROM sessions WHERE id = ?")?;
    let classified: Option<String> = find.query_row([session], |row| row.get(0))?;
    let Some(Classified { answer, version, at }) = classified.as_deref().map(parsed).transpose()? else {
        return Ok(Value::Null);
    };
    let mut said = json!(answer);
    said["version"] = json!(version);
    said["at"] = json!(at);
    Ok(said)
}
