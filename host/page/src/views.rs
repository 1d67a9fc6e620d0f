//! What each page shows, as plain values. Whoever gathers them has read them from where they are kept, a page of each at most.

mod events;
mod jobs;
mod lists;
mod plan;
mod plugins;

pub use events::*;
pub use jobs::*;
pub use lists::*;
pub use plan::*;
pub use plugins::*;

/// Who an agent is to people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Face {
    pub id: String,
    pub name: String,
    pub emoji: Option<String>,
    /// The colour of its team, as `#rrggbb`.
    pub colour: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    Working,
    /// Messages wait, and none runs.
    Queued,
    WaitsForPerson,
    Blocked,
    /// A person has stopped it.
    Stopped,
    Idle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Done or skipped.
    pub done: usize,
    pub total: usize,
}

/// A task in a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskCard {
    pub id: String,
    pub title: String,
    /// As the task says it.
    pub status: String,
    pub priority: String,
    pub agent: Face,
    pub steps: Option<Steps>,
    pub step: Option<String>,
    /// What stands in the way.
    pub blocked: Option<String>,
    /// The question that it waits for.
    pub question: Option<String>,
    pub activity: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AgentCard {
    pub face: Face,
    pub role: String,
    pub team: Option<String>,
    pub state: AgentState,
    pub queue: usize,
    pub task: Option<TaskCard>,
}

/// What the agents of a team have done of their steps.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamTotal {
    pub name: String,
    pub colour: Option<String>,
    pub agents: usize,
    pub working: usize,
    pub steps: Steps,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuestionCard {
    pub id: String,
    pub question: String,
    pub asker: Face,
    /// The task that waits, with its title.
    pub task: Option<(String, String)>,
    /// What was said before, as far as it helps.
    pub context: Option<String>,
    pub asked_at: u64,
    pub deadline: Option<u64>,
    pub default_answer: Option<String>,
    pub state: QuestionState,
    pub answer: Option<(String, String, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuestionState {
    #[default]
    Open,
    Answered,
    Expired,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    pub id: String,
    pub from: Face,
    pub to: Face,
    pub status: String,
    pub turn: u32,
    pub error: Option<String>,
    pub at: u64,
    pub work_session: Option<String>,
}

/// A value that needs the index, which may still be in the making.
#[derive(Clone, Debug, PartialEq)]
pub enum Indexed<T> {
    Ready(T),
    /// So many percent are read.
    Indexing(u8),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Day {
    pub day: String,
    pub events: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    pub agents: Vec<AgentCard>,
    pub teams: Vec<TeamTotal>,
    pub questions: Vec<QuestionCard>,
    pub more_questions: bool,
    pub jobs: Vec<JobRow>,
    pub failed_jobs: usize,
    /// Open tasks of each column, in the order of the board.
    pub open: [usize; 4],
    pub activity: Indexed<Vec<Day>>,
    pub spread: Vec<Spread>,
}

/// How much of the work sessions is of one category, and how much was in the week before.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    pub ko: String,
    pub en: String,
    pub sessions: u64,
    /// In tenths of a percent.
    pub share: u64,
    pub share_before: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Questions {
    pub state: QuestionState,
    pub questions: Vec<QuestionCard>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// What is chosen on the board.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TasksFilter {
    pub agent: Option<String>,
    pub priority: Option<String>,
    pub text: Option<String>,
    /// One column alone, from so many cards on.
    pub column: Option<crate::Column>,
    pub from: usize,
    /// Where the page of finished tasks begins.
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BoardColumn {
    pub column: crate::Column,
    pub cards: Vec<TaskCard>,
    /// Cards that fit, shown or not; none where nobody counts them.
    pub total: Option<usize>,
    pub next: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    pub filter: TasksFilter,
    pub agents: Vec<Face>,
    pub columns: Vec<BoardColumn>,
    pub indexing: Option<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StepRow {
    pub id: String,
    pub content: String,
    pub status: String,
    /// Of all steps of its task, shown or not.
    pub is_first: bool,
    pub is_last: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskDetail {
    pub card: TaskCard,
    pub description: String,
    pub context: Option<String>,
    /// Some of its steps, from so many on.
    pub steps: Vec<StepRow>,
    pub steps_from: usize,
    pub steps_total: usize,
    pub progress: Vec<String>,
    /// Earlier and later lines of progress that are not here.
    pub progress_from: usize,
    pub progress_later: usize,
    pub blocked: Option<Blocker>,
    pub outcome: Option<(String, String, String)>,
    pub created: String,
    pub created_by: Option<String>,
    pub due: Option<String>,
    /// Ids of those that come first, with their titles as far as these are known.
    pub depends_on: Vec<(String, String)>,
    /// Others that come first.
    pub depends_left: usize,
    pub work_session: Option<String>,
    pub problem: Option<String>,
    pub question: Option<QuestionCard>,
    pub is_over: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocker {
    pub reason: String,
    pub kind: String,
    pub action: String,
    pub unblocked_by: Vec<String>,
    pub escalation: String,
}

/// A tab of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskTab {
    Details,
    /// `older` is where those before begin, `later` whether these are not the newest.
    Conversation {
        turns: Vec<Bubble>,
        total: usize,
        older: Option<String>,
        later: bool,
    },
    Events {
        events: Indexed<Vec<EventRow>>,
        next: Option<String>,
        later: bool,
    },
    Why(Indexed<Why>),
}

/// A dialog over a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskDialog {
    Block,
    Cancel,
    Complete,
}

impl TaskDialog {
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Block, Self::Cancel, Self::Complete].into_iter().find(|dialog| dialog.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Cancel => "cancel",
            Self::Complete => "complete",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventRow {
    pub kind: String,
    pub agent: String,
    pub at: u64,
    pub said: String,
    /// About a question to a person.
    pub human: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Who speaks for us: people, or the one who asked.
    Right,
    #[default]
    Left,
    /// Neither: a notice.
    Middle,
}

/// Something that was said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bubble {
    /// Tells it from others on the page.
    pub id: String,
    pub side: Side,
    pub from: Face,
    pub to: Option<String>,
    pub at: u64,
    pub text: String,
    /// Bytes that were left out.
    pub cut: usize,
    /// The tools that were used, by name.
    pub tools: Vec<String>,
    pub failed: bool,
    /// The tool that failed, where it was one.
    pub failed_tool: Option<String>,
    pub question: Option<QuestionCard>,
    /// Where that is which an event has no room for.
    pub rest: Rest,
}

/// Where the rest of a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// With its beginning.
    #[default]
    Here,
    InTranscript,
    Gone,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CategoryBadge {
    pub key: String,
    pub ko: String,
    pub en: String,
    pub sessions: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionCard {
    pub id: String,
    pub title: String,
    pub status: String,
    pub category: Option<String>,
    /// A person has said which.
    pub overridden: bool,
    pub tags: Vec<String>,
    pub participants: Vec<Face>,
    pub activity: u64,
    pub messages: u64,
    /// Threads that are active, blocked, resolved.
    pub threads: [u64; 3],
    /// What was found, around the words that were looked for.
    pub passages: Vec<String>,
}

impl SessionCard {
    /// Tells what people had said of its category from what they say by now. What a classifier makes of it is no word of theirs.
    pub fn mark(&self) -> &str {
        self.category.as_deref().filter(|_| self.overridden).unwrap_or("-")
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionsFilter {
    /// `all`, or the key of a category; none on the first visit.
    pub category: Option<String>,
    pub status: Option<String>,
    pub thread: Option<String>,
    pub tag: Option<String>,
    pub agent: Option<String>,
    pub text: Option<String>,
    pub cursor: Option<String>,
    /// The latest of each category, under its name.
    pub grouped: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Conversations {
    pub filter: SessionsFilter,
    pub categories: Vec<CategoryBadge>,
    /// Work sessions that nobody has put into one.
    pub uncategorised: u64,
    pub all: u64,
    pub agents: Vec<Face>,
    pub sessions: Indexed<Listed>,
    pub next: Option<String>,
}

/// Work sessions as a page lists them.
#[derive(Clone, Debug, PartialEq)]
pub enum Listed {
    /// Nobody has said which.
    Nothing,
    Latest(Vec<SessionCard>),
    /// Under the keys of their categories, in the order of the deployment's table; and whether there are more of each.
    Groups(Vec<(String, Vec<SessionCard>, bool)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    pub key: String,
    pub participants: Vec<Face>,
    pub state: String,
    pub messages: u64,
    pub last: Option<String>,
    pub at: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    pub session: SessionCard,
    pub categories: Vec<CategoryBadge>,
    pub threads: Vec<ThreadRow>,
    /// The thread that is shown alone.
    pub thread: Option<String>,
    pub bubbles: Vec<Bubble>,
    /// Where older ones begin.
    pub older: Option<String>,
    pub is_latest: bool,
    /// Ids of its tasks, with their titles.
    pub tasks: Vec<(String, String)>,
    /// Others of its tasks.
    pub tasks_left: usize,
    /// Why it is categorised as it is, if that was asked for.
    pub why: Option<Indexed<Why>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Chat {
    /// Whom one may talk to.
    pub agents: Vec<Face>,
    pub agent: Option<Face>,
    pub session: String,
    pub bubbles: Vec<Bubble>,
    pub older: Option<u64>,
    pub is_latest: bool,
    pub running: bool,
    /// Texts that wait for their turn.
    pub waiting: Vec<String>,
    /// Questions of this chat, where there are several: a message answers none of them.
    pub open: Vec<(String, String)>,
    /// By which a message that is sent twice is taken once.
    pub key: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    pub enabled: bool,
    pub next: Option<(String, u64)>,
    pub last: Option<(String, String, u64)>,
    pub in_a_row: Option<(u64, u64)>,
    pub without_progress: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AgentDetail {
    pub card: AgentCard,
    /// The address of its picture.
    pub avatar: Option<String>,
    pub tokens_today: u64,
    pub kept: Kept,
    pub tasks: Vec<TaskCard>,
    pub tasks_total: usize,
    pub questions: Vec<QuestionCard>,
    pub jobs: Vec<JobRow>,
    pub sessions: Vec<(String, u64)>,
    /// Whom to talk to about it.
    pub chat: Option<Face>,
}
