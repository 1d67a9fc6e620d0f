//! The names of everything in a state directory.
//! Owns the layout and nothing else. Keeps true: no other file spells a path of the state directory. Never: touches the disk.

use std::path::{Path, PathBuf};

use crate::id::AgentId;

/// The name of the event log's files: `STEM.ndjson` grows, `STEM.YYYY-MM.N.ndjson` are closed.
pub const EVENT_LOG_STEM: &str = "coordination-events";

/// A state directory: where one gateway keeps all it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The deployment's configuration, mode 0600.
    pub fn config(&self) -> PathBuf {
        self.0.join("chela.json")
    }

    /// Which layout this directory has, and which version served it last.
    pub fn stamp(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// The configuration of the old system, whose directories look like ours.
    pub fn old_config(&self) -> PathBuf {
        self.0.join("openclaw.json")
    }

    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    pub fn event_log(&self) -> PathBuf {
        self.logs().join(format!("{EVENT_LOG_STEM}.ndjson"))
    }

    /// Where a torn last line of a log is set aside.
    pub fn corrupt_log(&self) -> PathBuf {
        self.logs().join("corrupt.ndjson")
    }

    /// One line for every change that a client asked for.
    pub fn audit_log(&self) -> PathBuf {
        self.logs().join("audit.ndjson")
    }

    /// The audit log of a month that is over; `nth` where the clock made the month end more than once.
    pub fn closed_audit_log(&self, month: &str, nth: u32) -> PathBuf {
        let more = if nth == 0 { String::new() } else { format!(".{nth}") };
        self.logs().join(format!("audit.{month}{more}.ndjson"))
    }

    /// What each plugin logs.
    pub fn plugin_logs(&self) -> PathBuf {
        self.logs().join("plugins")
    }

    /// Transcripts of sessions, by agent.
    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    pub fn transcript(&self, agent: &AgentId, session: &str) -> PathBuf {
        self.sessions().join(agent.as_ref()).join(format!("{session}.jsonl"))
    }

    /// Where transcripts of an agent's sessions are kept that are off the list.
    pub fn session_archive(&self, agent: &str) -> PathBuf {
        self.sessions().join(agent).join("archive")
    }

    /// Where the transcript of a deleted session is kept.
    pub fn archived_transcript(&self, agent: &AgentId, session: &str) -> PathBuf {
        self.session_archive(agent.as_ref()).join(format!("{session}.jsonl"))
    }

    /// What was said in the calls of `/v1` of a day that named no user.
    pub fn archived_calls(&self, agent: &AgentId, day: &str) -> PathBuf {
        self.session_archive(agent.as_ref()).join(format!("openai-{day}.jsonl"))
    }

    /// Installed components; watched.
    pub fn plugins(&self) -> PathBuf {
        self.0.join("plugins")
    }

    /// Rules for the default classifier, taken up when the file is there.
    pub fn rules(&self) -> PathBuf {
        self.plugins().join("rules.json5")
    }

    /// A script that serves where the slot of its world holds a default, taken up when the file is there.
    pub fn script(&self, world: &str) -> PathBuf {
        self.plugins().join(format!("{world}.rhai"))
    }

    /// Compiled components, 0700.
    pub fn plugin_cache(&self) -> PathBuf {
        self.plugins().join("cache")
    }

    /// Copies of the components that serve, and of those before them, by content.
    pub fn plugin_store(&self) -> PathBuf {
        self.plugins().join("kept")
    }

    /// What commands and dropped files have bound, over the configuration.
    pub fn plugin_bindings(&self) -> PathBuf {
        self.plugins().join("bindings.json")
    }

    /// Recorded inputs of policies, one file a slot.
    pub fn decisions(&self) -> PathBuf {
        self.0.join("decisions")
    }

    /// What is derived from the log and can be made again.
    pub fn index(&self) -> PathBuf {
        self.0.join("index")
    }

    /// The index of the event log.
    pub fn event_index(&self) -> PathBuf {
        self.index().join("events.sqlite")
    }

    /// What operators say about the categories of work sessions.
    pub fn category_overrides(&self) -> PathBuf {
        self.0.join("work-session-category-overrides.json")
    }

    /// The journal of durable state.
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    /// What a torn end of the journal was.
    pub fn corrupt_journal(&self) -> PathBuf {
        self.logs().join("corrupt-journal.ndjson")
    }

    pub fn milestones(&self) -> PathBuf {
        self.0.join("milestones.json")
    }

    pub fn todos(&self) -> PathBuf {
        self.0.join("todos.json")
    }

    /// The records of jobs between agents.
    pub fn jobs(&self) -> PathBuf {
        self.0.join("a2a-jobs")
    }

    /// What was said for each task; derived.
    pub fn dialogues(&self) -> PathBuf {
        self.0.join("transcripts")
    }

    /// Questions that people have not answered yet, to be looked at.
    pub fn human(&self) -> PathBuf {
        self.0.join("human")
    }

    pub fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    /// Pid and real addresses, there only while a gateway serves.
    pub fn run_file(&self) -> PathBuf {
        self.run().join("gateway.json")
    }

    /// Which listeners speak TLS and with which certificate, there only while a gateway serves with one.
    pub fn run_tls(&self) -> PathBuf {
        self.run().join("tls.json")
    }

    /// Locked by the serving gateway; the kernel frees it however that process ends.
    pub fn lock(&self) -> PathBuf {
        self.run().join("lock")
    }
}

/// The month of a closed audit log, by its name.
pub fn month_of_closed_audit_log(name: &str) -> Option<&str> {
    let month = name.strip_prefix("audit.")?.strip_suffix(".ndjson")?.get(..7)?;
    let digits = |(at, byte): (usize, u8)| if at == 4 { byte == b'-' } else { byte.is_ascii_digit() };
    month.bytes().enumerate().all(digits).then_some(month)
}

/// Whether a name directly below the state directory is the gateway's own, now or in the layout to come.
pub fn is_taken(name: &str) -> bool {
    const OWN: [&str; 11] = [
        "a2a-jobs",
        "backup",
        "decisions",
        "human",
        "index",
        "journal",
        "logs",
        "plugins",
        "run",
        "sessions",
        "transcripts",
    ];
    OWN.contains(&name) || name.starts_with('.') || name.ends_with(".json")
}
