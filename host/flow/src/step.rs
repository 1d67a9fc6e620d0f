//! What a flow does next. Everything that happens to it comes in as an [`Input`]; what is to be done goes out as [`Effect`]s, which are
//! performed only once the job is on record.

use crate::Rules;
use crate::job::{AnnounceState, Announced, Attempt, Delivery, DeliveryState, Job, Kind, Phase, Place, Status};
use crate::tell::{self, Happened, What};
use crate::words;

/// A reply past this is cut: it goes into the record, and to the other side.
const REPLY_CHARS_MAX: usize = 16_000;
const ERROR_CHARS_MAX: usize = 1_000;
/// Whoever waits not longer than this hears of a failure by message too: to record it takes a while.
const ANSWERED_WITHIN_MS: u64 = 1_000;
/// The longest wait between two tries.
pub const BACKOFF_MS_MAX: u64 = 300_000;

/// How the wait for a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    Ok,
    Error,
    Timeout,
    NotFound,
}

impl WaitStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
        }
    }
}

/// Something that happened to a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The other side works on the current message.
    Delivered,
    /// The run of the current message has ended well.
    Answered {
        reply: String,
    },
    /// It has ended otherwise, or could not be begun.
    Failed {
        status: WaitStatus,
        error: Option<String>,
        transient: bool,
    },
    /// It takes longer than anybody waits.
    TimedOut,
    /// The time of the next try has come, or the current message was never taken.
    Due,
    /// A start of the gateway found it unfinished.
    Resumed,
    /// Nothing has happened to it for too long.
    Stale,
    Cancel {
        by: String,
    },
}

/// A message to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its idempotency key, which is the run.
    pub key: String,
    pub session_key: String,
    pub text: String,
    /// The session it comes from.
    pub from: String,
    /// What stands in front of it for the model.
    pub note: Option<String>,
}

/// What is to be done, in this order, with the record of the job.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Give it to its session; the flow goes on with its answer.
    Send(Message),
    /// Give it to its session; nobody waits for an answer.
    Notify(Message),
    /// Put it into the outbox of a channel.
    Post {
        to: Place,
        text: String,
    },
    /// Stop a run, or take it out of its lane.
    Abort {
        session_key: String,
        run: String,
    },
    /// Nobody waits for this run any more; what it says is still told.
    Overdue {
        session_key: String,
        run: String,
    },
    Tell(Happened),
}

/// A flow after a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub job: Job,
    pub effects: Vec<Effect>,
    /// It is to be on record before the effects. Otherwise it is news that the next start finds out by itself.
    pub durable: bool,
}

/// What a flow does about something that happened; none if that changes nothing.
pub fn step(job: &Job, input: Input, rules: &Rules, now: u64) -> Option<Next> {
    if job.status.is_terminal() {
        return None;
    }
    let mut steps = Steps::new(job.clone(), rules, now);
    match input {
        Input::Delivered => return steps.delivered(),
        Input::Answered { reply } => steps.answered(&reply)?,
        Input::Failed { status, error, transient } => steps.failed(status, error, transient)?,
        Input::TimedOut => steps.timed_out()?,
        Input::Due => steps.due()?,
        Input::Resumed => {
            steps.job.status = Status::Pending;
            steps.job.resume_count += 1;
            steps.tell_of_job(What::JobResumed);
        }
        Input::Stale => {
            let said = "nothing has happened to it for too long".to_owned();
            steps.give_up_current(&said);
            steps.come_to_nothing(Status::Abandoned, WaitStatus::Error, Some(said));
        }
        Input::Cancel { by } => {
            steps.give_up_current(&format!("cancelled by {by}"));
            steps.cancelled(&by);
        }
    }
    Some(steps.done())
}

/// A step on its way.
pub(crate) struct Steps<'a> {
    pub(crate) job: Job,
    effects: Vec<Effect>,
    rules: &'a Rules,
    now: u64,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(job: Job, rules: &'a Rules, now: u64) -> Self {
        Self { job, effects: Vec::new(), rules, now }
    }

    pub(crate) fn done(mut self) -> Next {
        self.job.rev += 1;
        self.job.updated_at = self.now;
        Next { job: self.job, effects: self.effects, durable: true }
    }

    pub(crate) fn tell(&mut self, happened: Happened) {
        self.effects.push(Effect::Tell(happened));
    }

    pub(crate) fn tell_of_job(&mut self, what: What) {
        self.tell(tell::of_job(&self.job, what));
    }

    fn tell_delivery(&mut self) {
        let happened = self.job.current().map(|delivery| tell::delivery(&self.job, delivery));
        self.effects.extend(happened.map(Effect::Tell));
    }

    /// Sends a turn, the current one from now on.
    pub(crate) fn send_turn(&mut self, turn: u32) {
        self.job.current_turn = turn;
        self.job.phase = if turn == 0 { Phase::Wait } else { Phase::Pingpong };
        let session_key = self.job.answerer(turn).to_owned();
        let key = format!("{}:{turn}", self.job.job_id);
        self.job.turns.retain(|known| known.turn != turn);
        self.job.turns.push(delivery(turn, session_key, key));
        self.send_current();
    }

    /// Gives the current message to its session.
    fn send_current(&mut self) {
        let Some(message) = self.message() else { return };
        self.job.status = Status::Pending;
        self.job.next_try_at = None;
        let now = self.now;
        if let Some(delivery) = self.job.current_mut() {
            delivery.state = DeliveryState::Stored;
            delivery.stored_at = Some(now);
            (delivery.delivered_at, delivery.failed_at) = (None, None);
        }
        self.effects.push(Effect::Send(message));
        self.tell_delivery();
    }

    /// What is sent now.
    fn message(&self) -> Option<Message> {
        let job = &self.job;
        let delivery = job.current()?;
        let turn = delivery.turn;
        let (from, text, note) = match job.phase {
            Phase::Announce => {
                let reply = |at: Option<&Delivery>| at.and_then(|turn| turn.reply.clone()).unwrap_or_default();
                let answered = |turn: &&Delivery| turn.reply.is_some();
                let text = words::exchange(&job.message, &reply(job.first()), &reply(job.turns.iter().rfind(answered)));
                let to = match &job.announce.to {
                    Announced::Channel(place) => format!("the people in {}", place.channel),
                    Announced::Session { session_key } => session_key.clone(),
                    Announced::Nobody => return None,
                };
                (job.session_key.clone(), text, words::note_of_announce(&to))
            }
            _ if turn == 0 => (job.session_key.clone(), job.message.clone(), words::note_of_request(&job.session_key)),
            _ => {
                let before = job.turns.iter().find(|known| known.turn + 1 == turn);
                // A record of another writer does not say what was answered.
                let text = before.and_then(|known| known.reply.clone()).unwrap_or_else(|| job.message.clone());
                let from = job.asker(turn).to_owned();
                let note = words::note_of_turn(&from, turn, job.max_turns);
                (from, text, note)
            }
        };
        let session_key = delivery.session_key.clone();
        Some(Message { key: delivery.key.clone(), session_key, text, from, note: Some(note) })
    }

    fn delivered(mut self) -> Option<Next> {
        let now = self.now;
        let delivery = self.job.current_mut()?;
        if delivery.state != DeliveryState::Stored {
            return None;
        }
        delivery.state = DeliveryState::Delivered;
        delivery.delivered_at = Some(now);
        self.job.status = Status::Running;
        self.job.updated_at = now;
        self.tell_delivery();
        Some(Next { job: self.job, effects: self.effects, durable: false })
    }

    fn answered(&mut self, reply: &str) -> Option<()> {
        let reply = words::clip(reply, REPLY_CHARS_MAX).to_owned();
        let now = self.now;
        let delivery = self.job.current_mut()?;
        delivery.state = DeliveryState::Answered;
        delivery.answered_at = Some(now);
        delivery.reply = Some(reply.clone());
        let turn = delivery.turn;
        self.job.retry_count = 0;
        self.tell_delivery();
        match (self.job.phase, self.job.kind) {
            (Phase::Announce, _) => self.announced(&reply),
            (_, Kind::Spawn) => self.spawn_ended("ok", &reply),
            // An exchange that has nothing more to say is over without a further response.
            _ if turn > 0 && words::is_reply_skip(&reply) => self.announce(),
            _ if reply.trim().is_empty() => {
                self.tell(tell::no_reply(&self.job, WaitStatus::Ok, None, self.rules));
                self.announce();
            }
            _ => {
                let response = self.job.current().map(|delivery| tell::answered(&self.job, delivery));
                self.effects.extend(response.map(Effect::Tell));
                match turn < self.job.max_turns && !words::wants_no_reply(&reply) && self.other_side_answers() {
                    true => self.send_turn(turn + 1),
                    false => self.announce(),
                }
            }
        }
        Some(())
    }

    /// Whether there is somebody to go back and forth with.
    fn other_side_answers(&self) -> bool {
        self.job.session_key != self.job.target_session_key
    }

    /// The exchange is over: who is to be told of it is.
    pub(crate) fn announce(&mut self) {
        match self.job.announce.to {
            Announced::Nobody => {
                self.job.announce.state = AnnounceState::NoChannel;
                self.complete(false);
            }
            Announced::Channel(_) | Announced::Session { .. } => {
                self.job.phase = Phase::Announce;
                let key = format!("{}:announce", self.job.job_id);
                let session = self.job.target_session_key.clone();
                self.job.announce.asked = Some(delivery(self.job.current_turn, session, key));
                self.send_current();
            }
        }
    }

    fn announced(&mut self, text: &str) {
        if words::is_announce_skip(text) {
            self.job.announce.state = AnnounceState::Skipped;
            return self.complete(false);
        }
        self.job.announce.state = AnnounceState::Queued;
        match self.job.announce.to.clone() {
            Announced::Channel(to) => self.effects.push(Effect::Post { to, text: text.to_owned() }),
            Announced::Session { session_key } => {
                let from = self.job.target_session_key.clone();
                self.notify("told", session_key, from, format!("[NOTIFICATION] {text}"));
            }
            Announced::Nobody => {}
        }
        self.complete(true);
    }

    fn notify(&mut self, suffix: &str, session_key: String, from: String, text: String) {
        let key = format!("{}:{suffix}", self.job.job_id);
        self.effects.push(Effect::Notify(Message { key, session_key, text, from, note: None }));
    }

    fn complete(&mut self, announced: bool) {
        self.tell(tell::completed(&self.job, announced));
        self.finish(Status::Completed);
        self.tell_of_job(What::JobCompleted);
    }

    fn finish(&mut self, status: Status) {
        self.job.status = status;
        self.job.phase = Phase::Done;
        self.job.finished_at = Some(self.now);
        self.job.next_try_at = None;
    }

    fn failed(&mut self, status: WaitStatus, error: Option<String>, transient: bool) -> Option<()> {
        let said = words::clip(error.as_deref().unwrap_or(status.as_str()), ERROR_CHARS_MAX).to_owned();
        let (now, retries) = (self.now, self.job.retry_count);
        let again = transient && retries < self.job.max_retries;
        let Some(delivery) = self.job.current_mut() else {
            // A record of another writer, whose message could not even be sent.
            self.come_to_nothing(Status::Failed, status, error);
            return Some(());
        };
        delivery.failed_at = Some(now);
        delivery.error = Some(said.clone());
        if !again {
            delivery.state = DeliveryState::Failed;
            self.tell_delivery();
            self.come_to_nothing(Status::Failed, status, error);
            return Some(());
        }
        delivery.state = DeliveryState::Waiting;
        let (key, stored_at) = (delivery.key.clone(), delivery.stored_at.unwrap_or(now));
        // A try has a key of its own: the session keeps the failed one under its old key.
        let base = delivery.key.split('~').next().unwrap_or_default().to_owned();
        delivery.attempts.push(Attempt { key, stored_at, failed_at: now, error: said.clone(), transient });
        delivery.key = format!("{base}~{}", delivery.attempts.len());
        self.job.last_error = Some(said);
        self.job.status = Status::Pending;
        self.job.retry_count += 1;
        self.job.next_try_at = Some(now + backoff(self.rules.backoff_ms, retries, &self.job.job_id));
        self.tell_of_job(What::JobRetried);
        Some(())
    }

    fn timed_out(&mut self) -> Option<()> {
        let now = self.now;
        let delivery = self.job.current_mut()?;
        delivery.state = DeliveryState::Failed;
        delivery.failed_at = Some(now);
        let (session_key, run) = (delivery.session_key.clone(), delivery.key.clone());
        self.job.last_error = Some(format!("no answer within {} s", self.rules.wait_ms / 1_000));
        self.effects.push(Effect::Overdue { session_key, run });
        self.tell_delivery();
        self.come_to_nothing(Status::Failed, WaitStatus::Timeout, None);
        Some(())
    }

    /// The flow ends without what it was begun for.
    fn come_to_nothing(&mut self, end: Status, status: WaitStatus, error: Option<String>) {
        let why = words::clip(error.as_deref().unwrap_or_default(), ERROR_CHARS_MAX).to_owned();
        let why = (!why.is_empty()).then_some(why);
        if self.job.last_error.is_none() || why.is_some() {
            self.job.last_error = why.clone().or_else(|| Some(status.as_str().to_owned()));
        }
        // What was said was said: only telling people of it has failed.
        if self.job.phase == Phase::Announce && end == Status::Failed {
            self.job.announce.state = AnnounceState::Failed;
            return self.complete(false);
        }
        self.job.announce.state = AnnounceState::Skipped;
        if self.job.kind == Kind::Spawn {
            let said = words::no_reply(self.rules.language, status, why.as_deref(), self.rules.wait_ms);
            self.tell(tell::spawn_result(&self.job, status.as_str()));
            self.finish(end);
            self.tell_of_job(tell::end_of(end));
            let (parent, child) = (self.job.session_key.clone(), self.job.target_session_key.clone());
            let text = words::told_result(self.rules.language, &child, status.as_str(), &said);
            self.notify("announce", parent, child, text);
            return self.tell_people(words::unmarked(&said).to_owned());
        }
        self.tell(tell::no_reply(&self.job, status, why.as_deref(), self.rules));
        self.tell(tell::completed(&self.job, false));
        self.finish(end);
        self.tell_of_job(tell::end_of(end));
        self.tell_sender(status, why.as_deref());
    }

    /// The sender hears of it, and people do, unless its own call still waits and says so.
    fn tell_sender(&mut self, status: WaitStatus, why: Option<&str>) {
        let blocked = words::no_reply(self.rules.language, status, why, self.rules.wait_ms);
        let why = words::unmarked(&blocked);
        if self.notify_sender(why) {
            self.tell_people(why.to_owned());
        }
    }

    /// Tells the sender that its message came to nothing; false where its own call still waits and says so.
    fn notify_sender(&mut self, why: &str) -> bool {
        let waits = self.job.awaited_until.is_some_and(|until| self.now.saturating_add(ANSWERED_WITHIN_MS) < until);
        let heard = waits && self.job.current_turn == 0;
        if !heard {
            let (sender, target) = (self.job.session_key.clone(), self.job.target_session_key.clone());
            let text = words::told_failure(self.rules.language, words::agent_of(&target), &self.job.message, why);
            self.notify("failed", sender, target, text);
        }
        !heard
    }

    /// People hear of a failure, also where the answer would have gone to somebody else: those who began it are not left waiting.
    fn tell_people(&mut self, why: String) {
        let to = match &self.job.announce.to {
            Announced::Channel(place) => Some(place.clone()),
            Announced::Session { .. } | Announced::Nobody => self.job.chain.place.clone(),
        };
        self.effects.extend(to.map(|to| Effect::Post { to, text: why }));
    }

    fn spawn_ended(&mut self, outcome: &'static str, reply: &str) {
        self.tell(tell::spawn_result(&self.job, outcome));
        self.job.announce.state = AnnounceState::Queued;
        let (parent, child) = (self.job.session_key.clone(), self.job.target_session_key.clone());
        let text = words::told_result(self.rules.language, &child, outcome, reply);
        self.notify("announce", parent, child, text);
        self.finish(Status::Completed);
        self.tell_of_job(What::JobCompleted);
    }

    fn cancelled(&mut self, by: &str) {
        self.job.last_error = Some(format!("cancelled by {by}"));
        self.job.announce.state = AnnounceState::Skipped;
        match self.job.kind {
            Kind::Spawn => {
                self.tell(tell::spawn_result(&self.job, "cancelled"));
                let (parent, child) = (self.job.session_key.clone(), self.job.target_session_key.clone());
                let text = words::told_result(self.rules.language, &child, "cancelled", "");
                self.notify("announce", parent, child, text);
            }
            Kind::Send | Kind::AutoRoute => self.tell(tell::completed(&self.job, false)),
        }
        // What was said was said: whoever cancels then only keeps it from being announced.
        let unanswered = self.job.phase != Phase::Announce;
        self.finish(Status::Cancelled);
        self.tell_of_job(What::JobCancelled);
        if self.job.kind != Kind::Spawn && unanswered {
            self.notify_sender(&words::cancelled(self.rules.language, by));
        }
    }

    /// Nobody waits for the current message any more: its run is stopped, and it has failed.
    fn give_up_current(&mut self, why: &str) {
        let now = self.now;
        let Some(delivery) = self.job.current_mut() else { return };
        // One that waits for its next try has no run.
        let run = (delivery.state != DeliveryState::Waiting).then(|| delivery.key.clone());
        let session_key = delivery.session_key.clone();
        delivery.state = DeliveryState::Failed;
        delivery.failed_at = Some(now);
        delivery.error = Some(words::clip(why, ERROR_CHARS_MAX).to_owned());
        self.effects.extend(run.map(|run| Effect::Abort { session_key, run }));
        self.tell_delivery();
    }

    fn due(&mut self) -> Option<()> {
        match self.job.current() {
            Some(_) => self.send_current(),
            // A record of another writer knows its turn and nothing of deliveries.
            None => self.send_turn(self.job.current_turn),
        }
        Some(())
    }
}

fn delivery(turn: u32, session_key: String, key: String) -> Delivery {
    Delivery {
        turn,
        session_key,
        key,
        state: DeliveryState::Waiting,
        stored_at: None,
        delivered_at: None,
        answered_at: None,
        failed_at: None,
        reply: None,
        error: None,
        attempts: Vec::new(),
    }
}

/// Doubles with each try; a share of it follows from the job, so that many do not come back at once.
fn backoff(base_ms: u64, tries: u32, job: &str) -> u64 {
    let whole = base_ms.saturating_mul(1 << tries.min(16)).min(BACKOFF_MS_MAX);
    let mixed = job
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    whole / 2 + mixed.rotate_left(tries) % (whole / 2 + 1)
}
