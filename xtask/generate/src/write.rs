//! Tells a planned beat as a line of the log.
//! Keeps true: every line of ours has an id, a role and its work session's id; a legacy line has none of them.

mod a2a;
mod legacy;
mod system;
mod task;

use crate::cast::{Agent, agents};
use crate::chance::Chance;
use crate::plan::session::{Beat, Session, Style, Title};
use crate::record::{Id, Record, v7};
use crate::talk::{Speech, Talk};

/// Limits of the texts in events, in characters.
const MESSAGE_CHARS_MAX: usize = 4_000;
const PREVIEW_CHARS_MAX: usize = 200;

#[derive(Clone, Copy)]
enum Role {
    Conversation,
    Delegation,
    Orchestration,
    System,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation.main",
            Self::Delegation => "delegation.subagent",
            Self::Orchestration => "orchestration.task",
            Self::System => "system.observability",
        }
    }
}

pub struct Writer {
    pub talk: Talk,
    chance: Chance,
    /// What is being said, used again for every line.
    said: String,
}

impl Writer {
    pub fn new(talk: Talk, seed: u64) -> Self {
        Self { talk, chance: Chance::new(seed, 1), said: String::new() }
    }

    pub fn write(&mut self, line: &mut String, session: &mut Session, beat: Beat, ts: u64) {
        if let Style::Legacy { keys_only } = session.style {
            return self.legacy(line, session, keys_only, beat, ts);
        }
        match beat {
            Beat::Send { .. }
            | Beat::Response { .. }
            | Beat::Blocked { .. }
            | Beat::LateResponse { .. }
            | Beat::Complete { .. }
            | Beat::Delivery { .. }
            | Beat::AutoRoute { .. } => self.a2a(line, session, beat, ts),
            Beat::Spawn { .. } | Beat::ChildSend { .. } | Beat::ChildResponse { .. } | Beat::SpawnResult { .. } => {
                self.delegation(line, session, beat, ts);
            }
            Beat::Task(beat) => self.task(line, session, beat, ts),
            Beat::Job { thread, revision, kind } => self.job(line, session, (thread, revision, kind), ts),
            Beat::System(beat) => self.system(line, session, beat, ts),
            Beat::Forgotten => unreachable!("only legacy sessions have forgotten types"),
        }
    }

    /// How long before its line an old writer's event happened.
    pub fn lag_ms(&mut self) -> u64 {
        if self.chance.per_mille(100) { u64::from(self.chance.below(3_000)) } else { 0 }
    }

    fn fresh(&mut self, ts: u64) -> Id<'static> {
        Id::Plain(v7(ts, self.chance.bits()))
    }

    /// Puts the session's next message into `said`.
    fn say(&mut self, session: &mut Session, to: Agent, chars_max: usize) {
        self.said.clear();
        let goal = session.said == 0 && session.title == Title::Goal;
        let speech = Speech { topic: session.topic, turn: session.said, to, goal, chars_max };
        self.talk.say(&mut self.said, &speech, &mut self.chance);
        session.said += 1;
    }
}

fn agent(index: u8) -> Agent {
    agents()[usize::from(index)]
}

/// The fields that every event of a work session has. The first one also tells which session it goes on from.
fn belongs(record: &mut Record<'_>, session: &Session, role: Role) {
    record.id("workSessionId", Id::Prefixed("ws_", session.id));
    if let (1, Some(previous)) = (session.told, session.previous) {
        record.id("previousWorkSessionId", Id::Prefixed("ws_", previous));
    }
    if session.task != 0 {
        record.id("taskId", Id::Short("task_", session.task));
    }
    record.word("eventRole", role.as_str());
}

fn session_types(record: &mut Record<'_>, from: &str, to: &str) {
    record.word("fromSessionType", from).word("toSessionType", to);
}
