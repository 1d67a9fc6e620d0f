//! How a flow begins: as a new one, or anew from where one ended.

use serde_json::{Map, Value};

use crate::Rules;
use crate::chain::Chain;
use crate::job::{Announce, Announced, DeliveryState, Job, Kind, Phase, Status};
use crate::step::{Effect, Next, Steps};
use crate::tell::{self, Happened, What};
use crate::words;

/// The most turns that two agents go back and forth.
const TURNS_MAX: u32 = 5;

/// What a flow is made from.
#[derive(Clone, Debug, Default)]
pub struct New {
    pub job_id: String,
    pub kind: Kind,
    pub session_key: String,
    pub target_session_key: String,
    pub conversation_id: String,
    pub parent_conversation_id: Option<String>,
    pub work_session_id: Option<String>,
    pub previous_work_session_id: Option<String>,
    pub task_id: Option<String>,
    pub label: Option<String>,
    pub depth: u32,
    pub chain: Chain,
    pub message: String,
    pub max_turns: u32,
    pub max_retries: u32,
    pub awaited_until: Option<u64>,
    pub cause: Option<String>,
    pub announce: Announced,
    pub meta: Option<Map<String, Value>>,
}

/// A new flow, with its first message on the way.
pub fn create(new: New, rules: &Rules, now: u64) -> Next {
    let alone = new.kind == Kind::Spawn || words::wants_no_reply(&new.message);
    let job = Job {
        run_id: new.job_id.clone(),
        job_id: new.job_id,
        kind: new.kind,
        status: Status::Pending,
        phase: Phase::Wait,
        session_key: new.session_key,
        target_session_key: new.target_session_key,
        conversation_id: new.conversation_id,
        parent_conversation_id: new.parent_conversation_id,
        work_session_id: new.work_session_id,
        previous_work_session_id: new.previous_work_session_id,
        task_id: new.task_id,
        label: new.label,
        depth: new.depth,
        chain: new.chain,
        max_turns: if alone { 0 } else { new.max_turns.min(TURNS_MAX) },
        message: new.message,
        current_turn: 0,
        retry_count: 0,
        max_retries: new.max_retries,
        last_error: None,
        created_at: now,
        updated_at: now,
        finished_at: None,
        resume_count: 0,
        next_try_at: None,
        awaited_until: new.awaited_until,
        cause: new.cause,
        retry_of: None,
        turns: Vec::new(),
        announce: Announce { to: new.announce, ..Announce::default() },
        rev: 0,
        meta: new.meta,
    };
    begin(job, rules, now)
}

/// A flow that takes up where one ended that came to nothing. What was answered before is not asked again.
pub fn again(old: &Job, job_id: String, rules: &Rules, now: u64) -> Next {
    let mut job = old.clone();
    job.retry_of = Some(std::mem::replace(&mut job.job_id, job_id));
    job.run_id.clone_from(&job.job_id);
    job.status = Status::Pending;
    job.phase = if job.current_turn == 0 { Phase::Wait } else { Phase::Pingpong };
    job.turns.retain(|turn| turn.state == DeliveryState::Answered && turn.turn <= old.current_turn);
    job.announce = Announce { to: job.announce.to, ..Announce::default() };
    (job.retry_count, job.resume_count, job.rev) = (0, 0, 0);
    (job.created_at, job.updated_at) = (now, now);
    (job.last_error, job.finished_at, job.next_try_at, job.awaited_until, job.cause) = (None, None, None, None, None);
    begin(job, rules, now)
}

/// What the beginning of a new flow was told as, from its record alone; none where it has gone on since, or takes up another. Whatever
/// changes how a flow begins, it tells of those that an earlier version began.
pub fn told_as_begun(job: &Job) -> Option<Vec<Happened>> {
    if job.rev != 1 || job.retry_of.is_some() {
        return None;
    }
    let turns = Vec::new();
    let announce = Announce { to: job.announce.to.clone(), ..Announce::default() };
    let fresh = Job { status: Status::Pending, phase: Phase::Wait, turns, announce, rev: 0, ..job.clone() };
    // What is told of a beginning hangs on no rule.
    let begun = begin(fresh, &Rules::default(), job.created_at);
    let told = |effect| match effect {
        Effect::Tell(happened) => Some(happened),
        _ => None,
    };
    Some(begun.effects.into_iter().filter_map(told).collect())
}

fn begin(job: Job, rules: &Rules, now: u64) -> Next {
    let mut steps = Steps::new(job, rules, now);
    steps.tell_of_job(What::JobCreated);
    match steps.job.kind {
        Kind::Spawn => steps.tell(tell::sent(&steps.job, What::Spawn)),
        Kind::AutoRoute => {
            steps.tell(tell::sent(&steps.job, What::AutoRoute));
            steps.tell(tell::sent(&steps.job, What::Send));
        }
        Kind::Send => steps.tell(tell::sent(&steps.job, What::Send)),
    }
    let turn = steps.job.current_turn;
    let answered = steps.job.turns.iter().any(|known| known.turn == turn && known.state == DeliveryState::Answered);
    match answered {
        // Only telling of it is left.
        true => steps.announce(),
        false => steps.send_turn(turn),
    }
    steps.done()
}
