//! What the hub's pages show, gathered from the rooms that know it, and which parts of a page an event makes stale.
//! Keeps true: the cost of a view follows what it shows, however much there is. Never: changes anything, or knows of HTTP.

mod agents;
mod chat;
mod conversations;
mod events;
mod jobs;
mod lists;
mod overview;
mod plan;
mod plugins;
mod questions;
mod settings;
mod stale;
mod tasks;
mod trials;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chela_page::Face;
use chela_page::caps::{BUBBLE_BYTES, BUBBLES, COLUMN_CARDS, SINGLE_CARDS};

use crate::config::Config;
use crate::layout::StateDir;
use crate::monitor::QueryError;
use crate::{channels, clock, continuation, dialogues, humans, sessions, tools};

pub use lists::ListAsked;
pub use plugins::{TryOn, Wanted, config_of, with_line};
pub use settings::change_of;
pub use stale::{Stale, of_event, of_feed};
pub use tasks::TaskAsked;
pub use trials::Trial;

/// Who has asked for counters within this time still looks at them.
const COUNTERS_MS: u64 = 30_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {what} {id}")]
    Unknown { what: &'static str, id: String },
    #[error("the index is being made from the log: {percent} % is read")]
    Indexing { percent: u8 },
    #[error(transparent)]
    Query(QueryError),
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    #[error(transparent)]
    Jobs(#[from] crate::jobs::Error),
    #[error(transparent)]
    Humans(#[from] humans::Error),
    #[error(transparent)]
    Dialogues(#[from] dialogues::Error),
    #[error("the files of tasks could not be read; see the gateway's log")]
    Files,
}

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Indexing { percent } => Self::Indexing { percent },
            other => Self::Query(other),
        }
    }
}

impl Error {
    fn unknown(what: &'static str, id: &str) -> Self {
        Self::Unknown { what, id: id.chars().take(80).collect() }
    }

    /// Whether what was asked for could be there.
    pub fn is_found(&self) -> bool {
        !matches!(self, Self::Unknown { .. })
    }
}

/// What the room is built from.
pub struct Options {
    pub dir: StateDir,
    pub clock: clock::Clock,
    pub settings: crate::settings::Handle,
    pub plugins: crate::plugins::Handle,
    pub monitor: crate::monitor::Handle,
    pub tasks: crate::tasks::Handle,
    pub tools: tools::Handle,
    pub channels: channels::Handle,
    pub sessions: sessions::Handle,
    pub jobs: crate::jobs::Handle,
    pub dialogues: dialogues::Handle,
    pub humans: humans::Handle,
    pub continuation: continuation::Handle,
}

/// The way to the views; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Options>, Arc<Memory>);

/// What the room remembers of its readers.
#[derive(Default)]
struct Memory {
    trials: trials::Trials,
    /// When somebody last looked at counters, in milliseconds; zero for never.
    counters_seen: AtomicU64,
}

impl Handle {
    pub fn new(options: Options) -> Self {
        Self(Arc::new(options), Arc::default())
    }

    /// Somebody looks at what counts on without an event.
    fn look_at_counters(&self) {
        self.1.counters_seen.store(self.0.clock.now().0, Ordering::Relaxed);
    }

    /// Whether somebody has looked at counters of late, so that it is worth while to say that they are stale.
    pub fn counters_are_looked_at(&self) -> bool {
        let seen = self.1.counters_seen.load(Ordering::Relaxed);
        seen != 0 && self.0.clock.now().0.saturating_sub(seen) < COUNTERS_MS
    }
}

/// How large the script of every page is.
pub fn script_bytes() -> usize {
    chela_page::SCRIPT.text.len()
}

/// Who an agent is to people; one that is not configured is its id.
fn face(config: &Config, id: &str) -> Face {
    let Some(agent) = config.agents.list.iter().find(|agent| agent.id.as_ref() == id) else {
        return Face { id: id.to_owned(), name: id.to_owned(), emoji: None, colour: None };
    };
    let team = agent.team.as_ref().and_then(|team| config.teams.iter().find(|known| known.id == *team));
    Face {
        id: id.to_owned(),
        name: agent.display_name().to_owned(),
        emoji: agent.identity.as_ref().and_then(|identity| identity.emoji.clone()),
        colour: team.and_then(|team| team.colour.clone()),
    }
}

fn faces(config: &Config) -> Vec<Face> {
    config.agents.list.iter().map(|agent| face(config, agent.id.as_ref())).collect()
}
