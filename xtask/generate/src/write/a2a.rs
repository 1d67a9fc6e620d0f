//! Lines of conversations between main agents, of sub-agents and of jobs.

use super::{MESSAGE_CHARS_MAX, PREVIEW_CHARS_MAX, Role, Writer, agent, belongs, session_types};
use crate::plan::session::{Beat, Cause, Child, JobBeat, Session, Thread, Title};
use crate::record::{Id, Record, v4, v7};

const TURNS_MAX: u64 = 5;

impl Cause {
    pub fn status(self) -> Option<&'static str> {
        match self {
            Self::Timeout => Some("timeout"),
            Self::NotFound => Some("not_found"),
            Self::Error | Self::Rejected => Some("error"),
            Self::Silent => None,
        }
    }

    pub fn error(self) -> Option<&'static str> {
        match self {
            Self::Rejected => Some("LLM request rejected: prompt is too long: 213402 tokens > 200000 maximum"),
            Self::Timeout | Self::NotFound | Self::Error | Self::Silent => None,
        }
    }

    /// The old system's words, to the letter.
    pub fn words(self) -> &'static str {
        match self {
            Self::Timeout => "[outcome] blocked: 응답을 받지 못했습니다 (대기 시간 300초 초과)",
            Self::NotFound => "[outcome] blocked: 응답을 받지 못했습니다 (실행 상태를 찾을 수 없음)",
            Self::Error => "[outcome] blocked: 응답을 받지 못했습니다 (실행 오류)",
            Self::Rejected => {
                "[outcome] blocked: 응답을 받지 못했습니다 (LLM request rejected: prompt is too long: 213402 tokens > 200000 maximum)"
            }
            Self::Silent => "[outcome] blocked: 응답을 받지 못했습니다",
        }
    }
}

impl Writer {
    pub(super) fn a2a(&mut self, line: &mut String, session: &mut Session, beat: Beat, ts: u64) {
        match beat {
            Beat::Send { thread, of_job } => self.send(line, session, thread, of_job, ts),
            Beat::Response { thread, turn } => self.response(line, session, thread, Some(turn), ts),
            Beat::LateResponse { thread } => self.response(line, session, thread, None, ts),
            Beat::Blocked { thread, cause } => self.blocked(line, session, thread, cause, ts),
            Beat::Complete { thread, announced } => {
                let id = self.fresh(ts);
                let thread = session.threads[usize::from(thread)];
                let mut record = Record::open(line, Some(id), "a2a.complete", agent(thread.from).id, ts);
                pair(&mut record, session, thread, Role::Conversation);
                record.flag("announced", announced);
                record.close();
            }
            Beat::Delivery { thread, ok } => {
                let id = self.fresh(ts);
                let thread = session.threads[usize::from(thread)];
                let mut record = Record::open(line, Some(id), "a2a.delivery", agent(thread.to).id, ts);
                pair(&mut record, session, thread, Role::System);
                record.word("channel", "discord").word("status", if ok { "sent" } else { "failed" });
                record.close();
            }
            Beat::AutoRoute { thread } => {
                let id = self.fresh(ts);
                let thread = session.threads[usize::from(thread)];
                let mut record = Record::open(line, Some(id), "a2a.auto_route", agent(thread.from).id, ts);
                pair(&mut record, session, thread, Role::Orchestration);
                record.word("channel", "discord").word("reason", "mention");
                record.close();
            }
            other => unreachable!("{other:?} is no beat of a conversation"),
        }
    }

    fn send(&mut self, line: &mut String, session: &mut Session, index: u8, of_job: bool, ts: u64) {
        let id = self.fresh(ts);
        if !of_job {
            session.threads[usize::from(index)].run = v4(self.chance.bits());
        }
        let thread = session.threads[usize::from(index)];
        let first = session.said == 0;
        self.say(session, agent(thread.to), MESSAGE_CHARS_MAX);
        let mut record = Record::open(line, Some(id), "a2a.send", agent(thread.from).id, ts);
        pair(&mut record, session, thread, Role::Conversation);
        if first && session.title == Title::Label {
            record.text("label", self.talk.title(session.topic));
        }
        record.text("message", &self.said);
        record.id("targetSessionKey", Id::Session(agent(thread.to).id, "main")).id("runId", Id::Plain(thread.run));
        if self.chance.per_mille(30) {
            self.category(&mut record, session.topic);
        }
        record.close();
    }

    /// `turn` is none for a response that came after the wait had ended.
    fn response(&mut self, line: &mut String, session: &mut Session, index: u8, turn: Option<u8>, ts: u64) {
        let id = self.fresh(ts);
        let thread = session.threads[usize::from(index)];
        // In a ping-pong the two speak in turns, the one who was asked first.
        let back = turn.unwrap_or(0).is_multiple_of(2);
        let thread = if back { Thread { from: thread.to, to: thread.from, ..thread } } else { thread };
        self.say(session, agent(thread.to), PREVIEW_CHARS_MAX);
        let mut record = Record::open(line, Some(id), "a2a.response", agent(thread.from).id, ts);
        pair(&mut record, session, thread, Role::Conversation);
        record.text("replyPreview", &self.said);
        match turn {
            Some(turn) => record.number("turn", u64::from(turn)).number("maxTurns", TURNS_MAX),
            None => record.flag("late", true),
        };
        record.close();
    }

    fn blocked(&mut self, line: &mut String, session: &Session, index: u8, cause: Cause, ts: u64) {
        let id = self.fresh(ts);
        let thread = session.threads[usize::from(index)];
        let back = Thread { from: thread.to, to: thread.from, ..thread };
        let mut record = Record::open(line, Some(id), "a2a.response", agent(back.from).id, ts);
        pair(&mut record, session, back, Role::Conversation);
        record.text("replyPreview", cause.words()).word("outcome", "blocked");
        if let Some(status) = cause.status() {
            record.word("waitStatus", status);
        }
        if let Some(error) = cause.error() {
            record.text("waitError", error);
        }
        record.close();
    }

    fn category(&mut self, record: &mut Record<'_>, topic: u32) {
        if let Some(category) = &self.talk.topic(topic).category {
            record.word("collabCategory", category).texts("collabSubTags", &[self.talk.tag(topic)]);
            record.json("categoryConfidence", self.chance.pick(&["0.62", "0.78", "0.87", "0.94"]));
            record.word("categorySource", self.chance.pick(&["rule", "heuristic"])).word("categoryVersion", "rules-1");
        }
    }

    pub(super) fn job(
        &mut self,
        line: &mut String,
        session: &mut Session,
        (index, revision, kind): (u8, u8, JobBeat),
        ts: u64,
    ) {
        if kind == JobBeat::Created {
            session.threads[usize::from(index)].run = v7(ts, self.chance.bits());
        }
        let thread = session.threads[usize::from(index)];
        let id = Id::Revised("job:", thread.run, u32::from(revision));
        let (kind, status, error) = match kind {
            JobBeat::Created => ("job.created", "PENDING", None),
            JobBeat::Retried => ("job.retried", "RUNNING", Some("overloaded_error: the model is busy")),
            JobBeat::Completed => ("job.completed", "COMPLETED", None),
            JobBeat::Failed => ("job.failed", "FAILED", Some("no response")),
        };
        let mut record = Record::open(line, Some(id), kind, agent(thread.from).id, ts);
        pair(&mut record, session, thread, Role::Orchestration);
        record.id("jobId", Id::Plain(thread.run)).word("status", status);
        if let Some(error) = error {
            record.number("retryCount", 1).word("lastError", error);
        }
        record.close();
    }

    pub(super) fn delegation(&mut self, line: &mut String, session: &mut Session, beat: Beat, ts: u64) {
        let id = self.fresh(ts);
        let (Beat::Spawn { child }
        | Beat::ChildSend { child }
        | Beat::ChildResponse { child }
        | Beat::SpawnResult { child, .. }) = beat
        else {
            unreachable!("{beat:?} is no beat of a sub-agent")
        };
        let child = session.children[usize::from(child)];
        let parent_run = child.parent.map(|parent| session.children[usize::from(parent)].run);
        let up = matches!(beat, Beat::ChildResponse { .. } | Beat::SpawnResult { .. });
        let chars_max = if up { PREVIEW_CHARS_MAX } else { MESSAGE_CHARS_MAX };
        let first = session.said == 0;
        self.say(session, agent(child.agent), chars_max);
        let kind = match beat {
            Beat::Spawn { .. } => "a2a.spawn",
            Beat::ChildSend { .. } => "a2a.send",
            Beat::ChildResponse { .. } => "a2a.response",
            _ => "a2a.spawn_result",
        };
        let by = if up { child.agent } else { child.by };
        let mut record = Record::open(line, Some(id), kind, agent(by).id, ts);
        relation(&mut record, session, child, up);
        match beat {
            Beat::Spawn { .. } => {
                if first && session.title == Title::Label {
                    record.text("label", self.talk.title(session.topic));
                }
                record.text("message", &self.said);
            }
            Beat::ChildSend { .. } => {
                record.text("message", &self.said);
            }
            Beat::SpawnResult { ok: false, .. } => {
                record.word("status", "error").word("error", "run ended: context limit reached");
            }
            Beat::SpawnResult { .. } => {
                record.word("status", "ok").text("replyPreview", &self.said);
            }
            _ => {
                record.text("replyPreview", &self.said);
            }
        }
        let key = if up { "sessionKey" } else { "targetSessionKey" };
        record.id(key, Id::Subagent(agent(child.agent).id, child.session)).id("runId", Id::Plain(child.run));
        if let Some(run) = parent_run {
            record.id("parentRunId", Id::Plain(run));
        }
        record.number("depth", u64::from(child.depth));
        record.close();
    }
}

/// Who says something to whom, in which conversation.
fn pair(record: &mut Record<'_>, session: &Session, thread: Thread, role: Role) {
    record.word("fromAgent", agent(thread.from).id).word("toAgent", agent(thread.to).id);
    record.id("conversationId", Id::Plain(thread.conversation));
    belongs(record, session, role);
    session_types(record, "main", "main");
}

fn relation(record: &mut Record<'_>, session: &Session, child: Child, up: bool) {
    let (from, to) = if up { (child.agent, child.by) } else { (child.by, child.agent) };
    record.word("fromAgent", agent(from).id).word("toAgent", agent(to).id);
    belongs(record, session, Role::Delegation);
    let above = if child.parent.is_some() { "subagent" } else { "main" };
    if up { session_types(record, "subagent", above) } else { session_types(record, above, "subagent") }
}
