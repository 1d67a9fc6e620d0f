//! Work sessions and what was said in them, from the index: the main conversations alone.

use chela_page::caps::{SESSIONS, TITLES};
use chela_page::{
    Bubble, CategoryBadge, Conversation, Conversations, Face, Indexed, Listed, Rest, SessionCard, SessionsFilter, Side,
    ThreadRow, UNCATEGORISED, title_of,
};
use serde_json::Value;

use super::words::{fill, readable};
use super::{BUBBLES, Error, Handle, face, faces};
use crate::config::Config;
use crate::event::Role;
use crate::monitor::{EventsQuery, SessionsQuery, Status, ThreadState, is_sessions_cursor, seq_of_cursor, thread_of};
use crate::session_key::SessionKey;
use crate::sessions::text_of;

/// Of each category, where all stand under their names.
const GROUP: usize = 5;
/// Pages of the log that are looked through for the messages of one thread.
const PAGES_MAX: usize = 6;

impl Handle {
    pub async fn conversations(&self, filter: SessionsFilter) -> Result<Conversations, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let agents = faces(config);
        let counts = match self.category_counts().await {
            Err(Error::Indexing { percent }) => {
                let categories = categories(config, &Value::Null);
                let sessions = Indexed::Indexing(percent);
                return Ok(Conversations {
                    filter,
                    categories,
                    uncategorised: 0,
                    all: 0,
                    agents,
                    sessions,
                    next: None,
                });
            }
            counts => counts?,
        };
        let categories = categories(config, &counts);
        let all = counts["workSessions"].as_u64().unwrap_or(0);
        let uncategorised = all.saturating_sub(categories.iter().map(|category| category.sessions).sum());
        let (listed, next) = match (&filter.category, &filter.text) {
            (None, None) => (Listed::Nothing, None),
            (Some(category), None) if filter.grouped && category == "all" => {
                (Listed::Groups(self.groups(config, &filter).await?), None)
            }
            _ => {
                let page = self.0.monitor.sessions(query_of(&filter)).await?;
                (Listed::Latest(page.rows.iter().map(|row| session_card(config, row)).collect()), page.next)
            }
        };
        Ok(Conversations { filter, categories, uncategorised, all, agents, sessions: Indexed::Ready(listed), next })
    }

    /// The latest of every category that has any, and of those without one.
    async fn groups(
        &self,
        config: &Config,
        filter: &SessionsFilter,
    ) -> Result<Vec<(String, Vec<SessionCard>, bool)>, Error> {
        let mut groups = Vec::new();
        let keys = config.categories.iter().map(|category| category.key.as_str());
        for key in keys.chain([UNCATEGORISED]) {
            let asked = SessionsQuery {
                categories: vec![wanted_category(key)],
                cursor: None,
                limit: GROUP,
                ..query_of(filter)
            };
            let page = self.0.monitor.sessions(asked).await?;
            let sessions: Vec<SessionCard> = page.rows.iter().map(|row| session_card(config, row)).collect();
            if !sessions.is_empty() {
                groups.push((key.to_owned(), sessions, page.next.is_some()));
            }
        }
        Ok(groups)
    }

    pub async fn conversation(
        &self,
        id: &str,
        thread: Option<String>,
        before: Option<&str>,
        full: Option<&str>,
        why: Option<Option<&str>>,
    ) -> Result<Conversation, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let found = self.0.monitor.session(id.to_owned()).await?;
        let found = found.ok_or_else(|| Error::unknown("work session", id))?;
        let session = session_card(config, &found);
        let threads: Vec<ThreadRow> =
            found["threads"].as_array().into_iter().flatten().filter_map(|row| thread_row(config, row)).collect();
        let (bubbles, older) =
            self.said(config, id, thread.as_deref(), before.and_then(seq_of_cursor), full, &session).await?;
        let mut tasks = Vec::new();
        for task in found["taskIds"].as_array().into_iter().flatten().filter_map(Value::as_str).take(TITLES) {
            if let Some(title) = self.title_of_task(task).await? {
                tasks.push((task.to_owned(), title));
            }
        }
        Ok(Conversation {
            categories: categories(config, &Value::Null),
            session,
            threads,
            thread,
            bubbles,
            older,
            is_latest: before.is_none(),
            tasks_left: found["taskIds"].as_array().map_or(0, Vec::len).saturating_sub(TITLES),
            tasks,
            why: match why {
                Some(before) => Some(self.why(None, Some(id.to_owned()), before).await?),
                None => None,
            },
        })
    }

    /// What people say of a work session's category, by which it is told from what they say by then; none where there is none of this id.
    pub async fn category_seen(&self, id: &str) -> Result<Option<String>, Error> {
        let settings = self.0.settings.current();
        let found = self.0.monitor.session(id.to_owned()).await?;
        Ok(found.map(|row| session_card(&settings.config, &row).mark().to_owned()))
    }

    /// Messages of a work session, the oldest first, and where those before them begin.
    async fn said(
        &self,
        config: &Config,
        id: &str,
        thread: Option<&str>,
        mut before: Option<i64>,
        full: Option<&str>,
        session: &SessionCard,
    ) -> Result<(Vec<Bubble>, Option<String>), Error> {
        let first = session.participants.first().map(|face| face.id.clone()).unwrap_or_default();
        let mut bubbles = Vec::new();
        let mut older = None;
        for _ in 0..PAGES_MAX {
            let asked = EventsQuery {
                roles: vec![Role::Conversation],
                work_session: Some(id.to_owned()),
                before,
                limit: BUBBLES - bubbles.len(),
                ..EventsQuery::default()
            };
            let page = self.0.monitor.events(asked).await?;
            let of_thread = |event: &&Value| thread.is_none_or(|wanted| thread_of(event).as_deref() == Some(wanted));
            for event in page.rows.iter().filter(of_thread) {
                let Some(mut bubble) = bubble(config, event, full, &first) else { continue };
                self.fill_rest(&mut bubble, &event["data"], full).await?;
                bubbles.push(bubble);
            }
            older = page.next;
            before = older.as_deref().and_then(seq_of_cursor);
            if before.is_none() || bubbles.len() >= BUBBLES || thread.is_none() {
                break;
            }
        }
        bubbles.reverse();
        Ok((bubbles, older))
    }

    /// An event has the beginning of a long text. Whoever asks for all of it gets what the transcript has.
    async fn fill_rest(&self, bubble: &mut Bubble, data: &Value, full: Option<&str>) -> Result<(), Error> {
        let place = &data["messageRef"];
        if !place.is_object() {
            return Ok(());
        }
        bubble.rest = Rest::InTranscript;
        if full == Some(bubble.id.as_str()) {
            let beginning = data["message"].as_str().unwrap_or_default();
            match self.whole(place, beginning).await? {
                Some(text) => {
                    fill(bubble, &text, full);
                    bubble.rest = Rest::Here;
                }
                None => bubble.rest = Rest::Gone,
            }
        }
        Ok(())
    }

    /// The text that begins like this, among the rows of a run; none where they are gone, or say something else.
    async fn whole(&self, place: &Value, beginning: &str) -> Result<Option<String>, Error> {
        let (key, run) =
            (place["sessionKey"].as_str().unwrap_or_default(), place["runId"].as_str().unwrap_or_default());
        let Ok(key) = SessionKey::parse(key) else { return Ok(None) };
        let Some(session) = self.0.sessions.get(&key) else { return Ok(None) };
        let rows = self.0.sessions.rows_of_run(&key, &session.id, run).await?;
        Ok(rows.iter().find_map(|row| begins_like(&text_of(row), beginning)))
    }

    /// What a task is called; none where nothing but its id is known.
    pub(super) async fn title_of_task(&self, id: &str) -> Result<Option<String>, Error> {
        if let Some(view) = self.0.tasks.open(id) {
            return Ok(Some(title_of(&view.task.description)));
        }
        let types = ["task.completed", "task.cancelled", "task.failed", "task.abandoned", "task.started"];
        let types = types.into_iter().map(str::to_owned).collect();
        let asked = EventsQuery { subject: Some(format!("task:{id}")), types, limit: 1, ..EventsQuery::default() };
        let page = self.0.monitor.events(asked).await?;
        let title = page.rows.first().and_then(|event| event["data"]["title"].as_str());
        Ok(title.filter(|title| !title.trim().is_empty()).map(title_of))
    }
}

fn query_of(filter: &SessionsFilter) -> SessionsQuery {
    let list = |word: &Option<String>| word.iter().cloned().collect::<Vec<String>>();
    let searching = filter.text.is_some();
    let status = Status::ALL.into_iter().filter(|one| filter.status.as_deref() == Some(one.as_str()));
    let states = ThreadState::ALL.into_iter().filter(|one| filter.thread.as_deref() == Some(one.as_str()));
    SessionsQuery {
        roles: vec![Role::Conversation],
        types: Vec::new(),
        status: status.collect(),
        categories: filter.category.iter().filter(|key| *key != "all").map(|key| wanted_category(key)).collect(),
        sub_tags: list(&filter.tag),
        thread_states: states.collect(),
        participants: list(&filter.agent),
        text: filter.text.clone(),
        cursor: filter.cursor.clone().filter(|cursor| is_sessions_cursor(cursor, searching)),
        limit: SESSIONS,
    }
}

/// A category as the index is asked for it.
fn wanted_category(key: &str) -> String {
    if key == UNCATEGORISED { String::new() } else { key.to_owned() }
}

pub(super) fn categories(config: &Config, counts: &Value) -> Vec<CategoryBadge> {
    let badge = |category: &crate::config::Category| CategoryBadge {
        key: category.key.clone(),
        ko: category.ko.clone(),
        en: category.en.clone(),
        sessions: counts["categories"][category.key.as_str()].as_u64().unwrap_or(0),
    };
    config.categories.iter().map(badge).collect()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn session_card(config: &Config, row: &Value) -> SessionCard {
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    SessionCard {
        id: text("workSessionId"),
        title: title_of(row["title"].as_str().unwrap_or_default()),
        status: text("status"),
        category: row["collabCategory"].as_str().map(str::to_owned),
        overridden: row["categorySource"] == "manual_override",
        tags: texts(&row["collabSubTags"]).map(str::to_owned).collect(),
        participants: texts(&row["participants"]).map(|id| face(config, id)).collect(),
        activity: number(&row["lastActivity"]),
        messages: number(&row["messageCount"]),
        threads: ["active", "blocked", "resolved"].map(|state| number(&row["threadCounts"][state])),
        passages: row["matches"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|found| found["passage"].as_str().map(|passage| readable(passage).0))
            .collect(),
    }
}

/// A thread with main conversation in it; none of those in which agents only delegate.
fn thread_row(config: &Config, row: &Value) -> Option<ThreadRow> {
    (row["roleCounts"]["conversation.main"].as_u64()? > 0).then(|| ThreadRow {
        key: row["key"].as_str().unwrap_or_default().to_owned(),
        participants: texts(&row["participants"]).map(|id| face(config, id)).collect(),
        state: row["state"].as_str().unwrap_or_default().to_owned(),
        messages: row["messageCount"].as_u64().unwrap_or_default(),
        last: row["lastMessage"].as_str().map(|text| title_of(&readable(text).0)),
        at: row["lastTs"].as_u64().unwrap_or_default(),
    })
}

/// The part of a text that begins like this.
fn begins_like(text: &str, beginning: &str) -> Option<String> {
    let beginning = beginning.trim();
    let at = text.find(beginning).filter(|_| !beginning.is_empty())?;
    Some(text[at..].to_owned())
}

/// A message between agents; none for an event that says nothing.
fn bubble(config: &Config, event: &Value, full: Option<&str>, first: &str) -> Option<Bubble> {
    let data = &event["data"];
    let text = |name: &str| data[name].as_str().filter(|text| !text.trim().is_empty());
    let said = text("message").or(text("replyPreview"))?;
    // What ends a conversation repeats what was said last.
    if event["type"] == "a2a.complete" {
        return None;
    }
    let from = text("fromAgent").or(event["agentId"].as_str()).unwrap_or_default();
    let mut bubble = Bubble {
        id: event["seq"].to_string(),
        side: if from == first { Side::Right } else { Side::Left },
        from: if from.is_empty() { Face::default() } else { face(config, from) },
        to: text("toAgent").map(|id| face(config, id).name),
        at: event["ts"].as_u64().unwrap_or_default(),
        failed: data["outcome"] == "blocked",
        ..Bubble::default()
    };
    fill(&mut bubble, said, full);
    Some(bubble)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_rest_of_a_text_is_that_which_begins_like_it() {
        assert_eq!(
            begins_like("[from ruda] Build it, and then more", "Build it, "),
            Some("Build it, and then more".into())
        );
        assert_eq!(begins_like("something else", "Build it"), None);
        assert_eq!(begins_like("anything", "  "), None);
    }

    #[test]
    fn what_was_found_reads_as_everywhere_else() {
        let row = json!({ "matches": [{ "passage": "[outcome] blocked: the port is taken" }, { "passage": "…a plain one…" }] });
        assert_eq!(session_card(&Config::default(), &row).passages, ["the port is taken", "…a plain one…"]);
    }

    #[test]
    fn what_has_no_category_is_asked_for_as_such() {
        let query =
            |category: &str| query_of(&SessionsFilter { category: Some(category.into()), ..SessionsFilter::default() });
        assert_eq!(query(UNCATEGORISED).categories, [""]);
        assert_eq!(query("infra_ops").categories, ["infra_ops"]);
        assert!(query("all").categories.is_empty());
    }
}
