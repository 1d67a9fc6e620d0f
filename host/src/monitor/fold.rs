//! What the events of a work session add up to: pure, one event after the other.
//! Keeps true: folding the same events in the same order gives the same session; every list in it has an end. Never: reads a clock.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::line::Line;
use super::title;
use crate::clock::Timestamp;
use crate::event::Role;
use crate::policy::Conversation;

/// A session without activity for longer is over.
pub(super) const ARCHIVED_AFTER_MS: u64 = 24 * 60 * 60 * 1000;
/// A send or spawn without an end counts as open for so long.
const OPEN_FOR_MS: u64 = 60 * 60 * 1000;
const OPEN_MAX: usize = 256;
const PARTICIPANTS_MAX: usize = 64;
const TYPES_MAX: usize = 64;
const TASKS_MAX: usize = 16;
/// Of the messages of a session, so many of its beginning and of its end are shown to the classifier.
const FIRST_TEXTS: usize = 2;
const LAST_TEXTS: usize = 6;
/// Each cut so that all of them fit into 4 KiB.
const TEXT_BYTES: usize = 512;

/// Where the line of a message lies, and how long it is: the text itself stays in the log.
pub(super) type Spot = (i64, u32);

/// An event as the fold takes it.
pub(super) struct Fact<'a> {
    pub(super) seq: i64,
    /// Bytes of the line.
    pub(super) len: u32,
    pub(super) role: Role,
    pub(super) line: &'a Line<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    Active,
    Quiet,
    Archived,
}

impl Status {
    pub const ALL: [Self; 3] = [Self::Active, Self::Quiet, Self::Archived];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Quiet => "QUIET",
            Self::Archived => "ARCHIVED",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadState {
    #[default]
    Active,
    Blocked,
    Resolved,
}

impl ThreadState {
    pub const ALL: [Self; 3] = [Self::Active, Self::Blocked, Self::Resolved];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Blocked => "blocked",
            Self::Resolved => "resolved",
        }
    }
}

/// A category that the log itself says a person chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manual {
    pub(super) category: String,
    pub(super) sub_tags: Vec<String>,
}

/// The names are short because there are many of these in the index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Session {
    #[serde(rename = "f")]
    pub(super) first_ts: u64,
    #[serde(rename = "l")]
    pub(super) last_ts: u64,
    #[serde(rename = "q")]
    pub(super) last_seq: i64,
    /// The time of the last event that counts as activity; 0 before the first.
    #[serde(rename = "a")]
    pub(super) activity: u64,
    /// That event ended something.
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    pub(super) terminal: bool,
    /// Sends and spawns without an end, and since when.
    #[serde(rename = "o", skip_serializing_if = "is_default")]
    open: BTreeMap<String, u64>,
    #[serde(rename = "e")]
    pub(super) events: u64,
    /// By the order of [`Role::ALL`].
    #[serde(rename = "r")]
    pub(super) roles: [u64; 4],
    #[serde(rename = "y")]
    pub(super) types: BTreeMap<String, u64>,
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    pub(super) participants: Vec<String>,
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    label: Option<String>,
    #[serde(rename = "g", skip_serializing_if = "is_default")]
    goal: Option<String>,
    #[serde(rename = "m", skip_serializing_if = "is_default")]
    first_message: Option<String>,
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    pub(super) tasks: Vec<String>,
    #[serde(rename = "i", skip_serializing_if = "is_default")]
    task_titles: Vec<String>,
    #[serde(rename = "v", skip_serializing_if = "is_default")]
    pub(super) previous: Option<String>,
    /// Messages of its main conversations.
    #[serde(rename = "n")]
    pub(super) messages: u64,
    #[serde(rename = "x", skip_serializing_if = "is_default")]
    first_texts: Vec<Spot>,
    #[serde(rename = "z", skip_serializing_if = "is_default")]
    last_texts: VecDeque<Spot>,
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    pub(super) manual: Option<Manual>,
    /// By the order of [`ThreadState::ALL`].
    #[serde(rename = "s")]
    pub(super) thread_states: [u32; 3],
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Thread {
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    pub(super) participants: Vec<String>,
    #[serde(rename = "f")]
    pub(super) first_ts: u64,
    #[serde(rename = "l")]
    pub(super) last_ts: u64,
    #[serde(rename = "e")]
    pub(super) events: u64,
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    pub(super) messages: u64,
    #[serde(rename = "r")]
    pub(super) roles: [u64; 4],
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    pub(super) state: ThreadState,
    #[serde(rename = "m", skip_serializing_if = "is_default")]
    pub(super) last_message: Option<Spot>,
    /// Kept beside it in the index.
    #[serde(skip)]
    pub(super) last_seq: i64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn place(role: Role) -> usize {
    match role {
        Role::Conversation => 0,
        Role::Delegation => 1,
        Role::Orchestration => 2,
        Role::System => 3,
    }
}

/// The role at a place of [`Role::ALL`], as it is stored.
pub(super) fn role_at(place: u8) -> Role {
    Role::ALL[usize::from(place).min(Role::ALL.len() - 1)]
}

impl Session {
    pub(super) fn add(&mut self, fact: &Fact<'_>, thread_key: &str) {
        let Fact { seq, role, line, .. } = *fact;
        if self.events == 0 {
            self.first_ts = line.ts;
        }
        self.first_ts = self.first_ts.min(line.ts);
        self.last_ts = self.last_ts.max(line.ts);
        self.last_seq = self.last_seq.max(seq);
        self.events += 1;
        self.roles[place(role)] += 1;
        let kind: &str = &line.kind;
        if let Some(count) = self.types.get_mut(kind) {
            *count += 1;
        } else if self.types.len() < TYPES_MAX {
            self.types.insert(kind.to_owned(), 1);
        }
        if is_activity(fact) {
            self.activity = self.activity.max(line.ts);
            self.terminal = is_terminal(kind);
        }
        self.follow_open(line, thread_key);
        for name in [line.from(), line.to()].into_iter().flatten() {
            remember(&mut self.participants, name, PARTICIPANTS_MAX);
        }
        for task in [line.data.task_id.get(), line.data.root_task_id.get()].into_iter().flatten() {
            remember(&mut self.tasks, task, TASKS_MAX);
        }
        if self.previous.is_none() {
            self.previous = line.data.previous_work_session_id.get().map(|id| cut(id, 256));
        }
        self.take_titles(fact);
        self.take_text(fact);
        let by_hand = line.data.category_manual_override.0 || line.data.category_source.get() == Some("manual");
        if let Some(category) = line.data.collab_category.get().filter(|_| by_hand) {
            let sub_tags = line.data.collab_sub_tags.0.clone();
            self.manual = Some(Manual { category: cut(category, 64), sub_tags });
        }
    }

    fn follow_open(&mut self, line: &Line<'_>, thread_key: &str) {
        let spawn = || {
            let data = &line.data;
            let key = data.run_id.get().or(data.child_session_key.get()).unwrap_or(thread_key);
            format!("spawn:{}", cut(key, 256))
        };
        match &*line.kind {
            "a2a.send" => self.begin(thread_key.to_owned(), line.ts),
            "a2a.spawn" => self.begin(spawn(), line.ts),
            "a2a.complete" => drop(self.open.remove(thread_key)),
            "a2a.spawn_result" => drop(self.open.remove(&spawn())),
            _ => {}
        }
    }

    fn begin(&mut self, key: String, ts: u64) {
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&key) {
            let oldest = self.open.iter().min_by_key(|(_, since)| **since).map(|(key, _)| key.clone());
            oldest.map(|oldest| self.open.remove(&oldest));
        }
        self.open.insert(key, ts);
    }

    fn take_titles(&mut self, fact: &Fact<'_>) {
        let data = &fact.line.data;
        if self.label.is_none() {
            self.label = data.label.get().and_then(title::of_label);
        }
        let names_task = fact.line.kind == "task.started" || fact.line.kind == "task.backlog_added";
        let title = data.title.get().or(data.description.get()).filter(|_| names_task);
        if let Some(title) = title.and_then(title::of_label) {
            remember(&mut self.task_titles, &title, TASKS_MAX);
        }
        if self.goal.is_some() || !is_talk(fact) {
            return;
        }
        let Some(text) = fact.line.text() else { return };
        self.goal = title::goal_in(text);
        if self.first_message.is_none() {
            self.first_message = title::of_message(text);
        }
    }

    fn take_text(&mut self, fact: &Fact<'_>) {
        if fact.role != Role::Conversation || !is_message(&fact.line.kind) || fact.line.text().is_none() {
            return;
        }
        self.messages += 1;
        let spot = (fact.seq, fact.len);
        if self.first_texts.len() < FIRST_TEXTS {
            self.first_texts.push(spot);
            return;
        }
        if self.last_texts.len() >= LAST_TEXTS {
            self.last_texts.pop_front();
        }
        self.last_texts.push_back(spot);
    }

    /// A thread of this session went from one state to another; none before it was there.
    pub(super) fn thread_changed(&mut self, from: Option<ThreadState>, to: ThreadState) {
        let at = |state: ThreadState| ThreadState::ALL.iter().position(|other| *other == state).unwrap_or(0);
        if let Some(from) = from {
            self.thread_states[at(from)] = self.thread_states[at(from)].saturating_sub(1);
        }
        self.thread_states[at(to)] += 1;
    }

    /// Until when an open send or spawn keeps it from being quiet; 0 when none is.
    pub(super) fn open_until(&self) -> u64 {
        self.open.values().max().map_or(0, |since| since.saturating_add(OPEN_FOR_MS))
    }

    pub(super) fn title(&self) -> String {
        let own = self.label.as_ref().or(self.goal.as_ref()).or(self.first_message.as_ref());
        own.cloned().unwrap_or_else(|| title::NONE.to_owned())
    }

    /// How much the classifier is shown beside messages; it only grows.
    pub(super) fn beside_messages(&self) -> usize {
        self.participants.len() + self.task_titles.len()
    }

    /// What the classifier is shown, its messages read from the log; none while nobody has said anything.
    pub(super) fn conversation(&self, text_at: impl Fn(Spot) -> Option<String>) -> Option<Conversation> {
        let spots = self.first_texts.iter().chain(&self.last_texts);
        (self.messages > 0).then(|| Conversation {
            texts: spots.filter_map(|spot| text_at(*spot)).map(|text| cut(&text, TEXT_BYTES)).collect(),
            participants: self.participants.clone(),
            tags: self.task_titles.clone(),
        })
    }
}

/// The status at `now`, from what is kept of a session.
pub(super) fn status(activity: u64, terminal: bool, open_until: u64, now: u64) -> Status {
    if now.saturating_sub(activity) > ARCHIVED_AFTER_MS {
        Status::Archived
    } else if terminal && open_until <= now {
        Status::Quiet
    } else {
        Status::Active
    }
}

impl Thread {
    pub(super) fn add(&mut self, fact: &Fact<'_>) {
        let Fact { seq, role, line, .. } = *fact;
        if self.events == 0 {
            self.first_ts = line.ts;
        }
        self.first_ts = self.first_ts.min(line.ts);
        self.last_ts = self.last_ts.max(line.ts);
        self.last_seq = self.last_seq.max(seq);
        self.events += 1;
        self.roles[place(role)] += 1;
        for name in [line.from(), line.to()].into_iter().flatten() {
            remember(&mut self.participants, name, PARTICIPANTS_MAX);
        }
        let late = line.data.late.0;
        self.state = match &*line.kind {
            // What was asked anew has not been answered: the last response is what it was.
            "a2a.send" if self.state == ThreadState::Blocked => ThreadState::Blocked,
            "a2a.send" => ThreadState::Active,
            "a2a.response" if late => self.state,
            "a2a.response" if line.data.outcome.get() == Some("blocked") => ThreadState::Blocked,
            "a2a.response" => ThreadState::Active,
            "a2a.complete" if self.state != ThreadState::Blocked => ThreadState::Resolved,
            _ => self.state,
        };
        if is_message(&line.kind) && line.text().is_some() {
            self.messages += 1;
            self.last_message = Some((seq, fact.len));
        }
    }
}

/// The thread of an event: its conversation, else its two agents, else its type and hour.
pub(super) fn thread_key(line: &Line<'_>) -> String {
    if let Some(id) = line.data.conversation_id.get() {
        return format!("conv:{}", cut(id, 256));
    }
    if let (Some(from), Some(to)) = (line.from(), line.to()) {
        let (first, second) = if from <= to { (from, to) } else { (to, from) };
        return format!("pair:{}_{}", cut(first, 128), cut(second, 128));
    }
    format!("event:{}:{}", line.kind, Timestamp(line.ts).hour())
}

/// The thread of an event as queries answer it; none of what is no event.
pub fn thread_of(event: &serde_json::Value) -> Option<String> {
    let bytes = serde_json::to_vec(event).ok()?;
    Line::parse(&bytes).map(|line| thread_key(&line))
}

/// The session of an event whose writer named none: its thread on that day.
pub(super) fn legacy_key(thread_key: &str, line: &Line<'_>) -> String {
    format!("legacy:{thread_key}:{}", Timestamp(line.ts).date())
}

fn is_activity(fact: &Fact<'_>) -> bool {
    let kind: &str = &fact.line.kind;
    fact.role != Role::System && !kind.starts_with("job.") && kind != "a2a.delivery" && !fact.line.data.late.0
}

fn is_terminal(kind: &str) -> bool {
    matches!(
        kind,
        "a2a.complete" | "a2a.spawn_result" | "task.completed" | "task.cancelled" | "task.failed" | "task.abandoned"
    )
}

fn is_message(kind: &str) -> bool {
    matches!(kind, "a2a.send" | "a2a.response")
}

/// Whether people would read it as a part of a talk.
fn is_talk(fact: &Fact<'_>) -> bool {
    matches!(fact.role, Role::Conversation | Role::Delegation) && fact.line.kind.starts_with("a2a.")
}

fn remember(names: &mut Vec<String>, name: &str, max: usize) {
    let name = cut(name, 256);
    if names.len() < max && !names.contains(&name) {
        names.push(name);
    }
}

/// At most so many bytes, whole characters.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
#[path = "fold/tests.rs"]
mod tests;
