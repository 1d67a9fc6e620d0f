//! Lines of writers before roles, ids and work sessions: what a reader must still place by session keys and agents alone.

use super::{MESSAGE_CHARS_MAX, PREVIEW_CHARS_MAX, Writer, agent};
use crate::plan::session::{Beat, Session, TaskBeat, Thread};
use crate::record::{Id, Record, v4};

impl Writer {
    pub(super) fn legacy(&mut self, line: &mut String, session: &mut Session, keys_only: bool, beat: Beat, ts: u64) {
        match beat {
            Beat::Send { thread, .. } => {
                session.threads[usize::from(thread)].run = v4(self.chance.bits());
                let thread = session.threads[usize::from(thread)];
                self.say(session, agent(thread.to), MESSAGE_CHARS_MAX);
                let mut record = Record::open(line, None, "a2a.send", agent(thread.from).id, ts);
                between(&mut record, thread, keys_only);
                record.text("message", &self.said).id("runId", Id::Plain(thread.run));
                self.close(record);
            }
            Beat::Response { thread, turn } => {
                let thread = session.threads[usize::from(thread)];
                let back = Thread { from: thread.to, to: thread.from, ..thread };
                let thread = if turn.is_multiple_of(2) { back } else { thread };
                self.say(session, agent(thread.to), PREVIEW_CHARS_MAX);
                let mut record = Record::open(line, None, "a2a.response", agent(thread.from).id, ts);
                between(&mut record, thread, keys_only);
                record.text("replyPreview", &self.said);
                if turn > 0 {
                    record.number("turn", u64::from(turn)).number("maxTurns", 5);
                }
                self.close(record);
            }
            Beat::Complete { thread, announced } => {
                let thread = session.threads[usize::from(thread)];
                let mut record = Record::open(line, None, "a2a.complete", agent(thread.from).id, ts);
                between(&mut record, thread, keys_only);
                record.flag("announced", announced);
                self.close(record);
            }
            Beat::Spawn { child } | Beat::SpawnResult { child, .. } => {
                let child = session.children[usize::from(child)];
                self.say(session, agent(child.agent), PREVIEW_CHARS_MAX);
                let kind = if matches!(beat, Beat::Spawn { .. }) { "a2a.spawn" } else { "a2a.spawn_result" };
                let mut record = Record::open(line, None, kind, agent(child.by).id, ts);
                record.id("sessionKey", Id::Session(agent(child.by).id, "main"));
                record.id("targetSessionKey", Id::Subagent(agent(child.agent).id, child.session));
                match beat {
                    Beat::SpawnResult { ok, .. } => record.word("status", if ok { "ok" } else { "error" }),
                    _ => record.text("message", &self.said),
                };
                self.close(record);
            }
            Beat::Task(beat) => self.legacy_task(line, session, beat, ts),
            _ => {
                let kind = self.chance.pick(&["legacy.heartbeat", "legacy.note", "legacy.route_cache"]);
                let mut record = Record::open(line, None, kind, agent(session.owner).id, ts);
                record.number("count", u64::from(self.chance.below(100)));
                self.close(record);
            }
        }
    }

    fn legacy_task(&mut self, line: &mut String, session: &mut Session, beat: TaskBeat, ts: u64) {
        if session.task == 0 {
            session.task = self.chance.word() | 1;
        }
        self.say(session, agent(session.owner), PREVIEW_CHARS_MAX);
        let mut record = Record::open(line, None, beat.kind(), agent(session.owner).id, ts);
        record.id("taskId", Id::Short("task_", session.task));
        match beat {
            TaskBeat::Started { .. } => record.text("description", &self.said),
            TaskBeat::Completed => record.word("status", "completed"),
            _ => record.text("progress", &self.said),
        };
        self.close(record);
    }

    /// Ends a line, sometimes with fields that nobody knows any more.
    fn close(&mut self, mut record: Record<'_>) {
        match self.chance.below(20) {
            0 => {
                record.json("meta", "{\"client\":\"0.3.1\",\"tries\":2}");
            }
            1 => {
                record.id("x_trace", Id::Short("", self.chance.word()));
            }
            2 => {
                record.json("notify", "null");
            }
            _ => {}
        }
        record.close();
    }
}

fn between(record: &mut Record<'_>, thread: Thread, keys_only: bool) {
    if keys_only {
        record.id("sessionKey", Id::Session(agent(thread.from).id, "main"));
        record.id("targetSessionKey", Id::Session(agent(thread.to).id, "main"));
    } else {
        record.word("fromAgent", agent(thread.from).id).word("toAgent", agent(thread.to).id);
        record.id("conversationId", Id::Plain(thread.conversation));
    }
}
