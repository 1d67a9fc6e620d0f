//! What happened, as the page of events shows it: a line an event, or who gave what to whom as a tree.

use super::{Face, Indexed};

/// What is chosen of the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventsFilter {
    pub role: Option<String>,
    pub kind: Option<String>,
    pub session: Option<String>,
    pub task: Option<String>,
    pub job: Option<String>,
    /// Who gave what to whom, instead of a line an event.
    pub tree: bool,
    /// Older ones than this place of the log.
    pub cursor: Option<String>,
    /// Nothing newer than this place: the reader has paused.
    pub until: Option<String>,
}

/// What an event is to people, beside its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventSort {
    #[default]
    Plain,
    Question,
    /// An agent was told to go on.
    SelfDriving,
    /// An agent was not let stop.
    StopGuard,
    Failure,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventLine {
    /// Its place of the log.
    pub cursor: String,
    pub kind: String,
    pub role: String,
    pub agent: Face,
    pub to: Option<Face>,
    pub at: u64,
    pub said: String,
    pub sort: EventSort,
    /// Which time in a row, and how often at most.
    pub in_a_row: Option<(u64, u64)>,
    pub steps_left: Option<u64>,
    pub task: Option<String>,
    pub session: Option<String>,
    pub job: Option<String>,
}

/// A conversation between two, with those that came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Branch {
    pub key: String,
    pub from: Face,
    pub to: Face,
    /// A sub-agent was made for it.
    pub is_spawn: bool,
    pub at: u64,
    pub said: String,
    /// `active`, `blocked` or `resolved`.
    pub state: String,
    pub messages: u64,
    pub branches: Vec<Branch>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum EventsShown {
    Lines { lines: Vec<EventLine>, next: Option<String> },
    Tree { branches: Vec<Branch>, next: Option<String> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Events {
    pub filter: EventsFilter,
    pub shown: Indexed<EventsShown>,
    /// Where a reader who pauses now stands.
    pub now: Option<String>,
    /// The work session that is looked at, by its title.
    pub session: Option<(String, String)>,
    /// One event whole, as it stands in the log.
    pub raw: Option<String>,
}

/// Why something was decided as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub at: u64,
    pub slot: String,
    /// The component that answered, with its version; none where the gateway itself did.
    pub component: Option<(String, String)>,
    pub export: String,
    /// Tells one input from another.
    pub digest: String,
    pub answer: String,
    /// Why the gateway decided itself.
    pub reason: String,
    pub micros: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Why {
    /// The newest last.
    pub decisions: Vec<Decision>,
    /// Where older ones begin.
    pub older: Option<String>,
}
