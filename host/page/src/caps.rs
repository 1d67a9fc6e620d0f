//! How many of everything one page shows. Whoever gathers a view keeps to these, and the tests weigh pages that are as full as they allow.

/// A page stays below this before it is compressed, whatever is written into it.
pub const PAGE_BYTES_MAX: usize = 150_000;
/// What the main list of a page may take of that; the rest is for its frame, its forms and its filters.
pub(crate) const LIST_BYTES: usize = 110_000;
/// The same where other lists stand beside it.
pub(crate) const SAID_BYTES: usize = 90_000;

/// Cards of one column while all are shown, and of a column alone.
pub const COLUMN_CARDS: usize = 12;
pub const SINGLE_CARDS: usize = 50;
/// Things said that one page shows, and how much of each is read for it.
pub const BUBBLES: usize = 40;
pub const BUBBLE_BYTES: usize = 2_400;
pub const STEPS: usize = 30;
pub const PROGRESS_LINES: usize = 40;
/// Tasks that come before one, or belong to a work session, by their titles.
pub const TITLES: usize = 20;
pub const QUESTIONS: usize = 20;
pub const SESSIONS: usize = 30;
pub const THREADS: usize = 20;
pub const JOBS: usize = 40;
pub const EVENT_LINES: usize = 60;
pub const DECISIONS: usize = 40;
pub const BRANCHES: usize = 80;
pub const SWAPS: usize = 20;
pub const TRIED: usize = 100;
pub const MILESTONES: usize = 12;
/// Items of milestones that one page shows in all.
pub const ITEMS: usize = 24;
pub const TODOS: usize = 60;
pub const FILES: usize = 200;
pub const AGENTS: usize = 40;
/// Agents of the graph, tasks of one of them, and tasks in all.
pub const NODES: usize = 60;
pub const NODE_TASKS: usize = 6;
pub const GRAPH_TASKS: usize = 90;
pub const BARS: usize = 40;
