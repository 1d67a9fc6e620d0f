//! A work session in progress: who takes part, and the beats that are still to come.
//! Keeps true: beats hold no text, so that a plan of a million of them can be made twice.

/// One thing that will happen, told by the writers of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// A send of a job has the job's id as its run.
    Send {
        thread: u8,
        of_job: bool,
    },
    Response {
        thread: u8,
        turn: u8,
    },
    Blocked {
        thread: u8,
        cause: Cause,
    },
    LateResponse {
        thread: u8,
    },
    Complete {
        thread: u8,
        announced: bool,
    },
    Delivery {
        thread: u8,
        ok: bool,
    },
    AutoRoute {
        thread: u8,
    },
    Spawn {
        child: u8,
    },
    ChildSend {
        child: u8,
    },
    ChildResponse {
        child: u8,
    },
    SpawnResult {
        child: u8,
        ok: bool,
    },
    Task(TaskBeat),
    Job {
        thread: u8,
        revision: u8,
        kind: JobBeat,
    },
    System(SystemBeat),
    /// A type that nobody knows any more.
    Forgotten,
}

/// Why no response came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Timeout,
    NotFound,
    Error,
    /// An error with words of its own
    Rejected,
    Silent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskBeat {
    Started { picked: bool },
    Updated { done: u8, total: u8 },
    Progress,
    Blocked,
    Resumed,
    Completed,
    Cancelled,
    Approved,
    BacklogAdded,
    BacklogPicked,
    ContinuationSent { row: u8 },
    ContinuationBackoff { row: u8 },
    SelfDriving { row: u8 },
    StopGuard { open: u8 },
    PlanSubmitted,
    PlanApproved,
    PlanRejected,
    UnblockRequested { count: u8 },
    UnblockFailed,
    HumanRequested,
    HumanAnswered,
    ResumedAfterHuman,
    ZombieDetected,
    ZombieAbandoned,
    Abandoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobBeat {
    Created,
    Retried,
    Completed,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemBeat {
    MilestoneSyncFailed,
    PluginLoaded,
    ConfigApplied,
    PolicyDecided,
}

/// Two agents who talk; their conversation and the run that answers.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub from: u8,
    pub to: u8,
    pub conversation: u128,
    /// The run of the latest send; its writer names it.
    pub run: u128,
}

/// A sub-agent; `parent` is the index of the child that spawned it, if no main agent did.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    pub by: u8,
    pub agent: u8,
    pub session: u128,
    pub run: u128,
    pub parent: Option<u8>,
    pub depth: u8,
}

/// How a session's writer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Ours,
    /// Of the gateway itself: belongs to no work session
    Housekeeping,
    /// Of a writer before roles and ids; `keys_only` ones name sessions where later ones name agents
    Legacy {
        keys_only: bool,
    },
}

/// Where a reader finds the session's title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Title {
    Label,
    Goal,
    FirstMessage,
}

#[derive(Debug)]
pub struct Session {
    pub id: u128,
    pub previous: Option<u128>,
    pub style: Style,
    pub title: Title,
    pub topic: u32,
    /// The task in hand, 0 before the first; its writer names it.
    pub task: u64,
    pub owner: u8,
    pub threads: Vec<Thread>,
    pub children: Vec<Child>,
    /// Milliseconds after the beat before, and the beat.
    pub script: Vec<(u32, Beat)>,
    pub told: usize,
    /// How many messages were said, so that the topic's own texts come first and in order.
    pub said: u32,
}

impl Session {
    pub fn next(&self) -> Option<(u32, Beat)> {
        self.script.get(self.told).copied()
    }
}
