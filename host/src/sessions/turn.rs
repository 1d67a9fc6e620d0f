//! Runs begun, steps recorded, runs ended: each in the journal first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chela_model::{Answer, Usage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::lanes::{Live, Place, Progress};
use super::record::{self, Accepted, Ended, LastRun, Run, Session, Status, Step};
use super::transcript::Appended;
use super::{Error, Handle, RESUMED_MAX, Shared, Told, Work, rows};
use crate::clock::Timestamp;
use crate::feed::Audience;
use crate::id::AgentId;
use crate::journal::{self, Awaited, Transaction};
use crate::results::Key;
use crate::session_key::SessionKey;

/// After this what the journal did not take of a run, or of its end, is tried again.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

impl Handle {
    /// Waits until a run may begin; false once the room is closed.
    pub async fn ready(&self) -> bool {
        let shared = &self.0;
        loop {
            let notified = shared.ready.notified();
            if shared.closed.is_cancelled() {
                return false;
            }
            if shared.state().has_ready() {
                return true;
            }
            notified.await;
        }
    }

    /// Begins the next run, if there is one and the room is open.
    pub fn begin(&self) -> Option<Turn> {
        let shared = &self.0;
        if shared.closed.is_cancelled() {
            return None;
        }
        let now = shared.options.clock.now();
        let settings = shared.options.settings.current();
        let live = shared.state().begin(now, |agent| settings.config.slots_of(agent))?;
        self.publish_started(&live, now);
        let done = (live.steps.clone(), live.rows);
        Some(Turn::new(self.clone(), live, done, now))
    }

    /// Ends what runs or waits: one run, or all of a session. Tells which.
    pub async fn abort(&self, key: &SessionKey, run: Option<&str>) -> Result<Vec<String>, Error> {
        let (running, waiting) = {
            let mut state = self.0.state();
            let wanted = |live: &Arc<Live>| run.is_none_or(|run| run == live.id());
            let lane = state.lanes.get_mut(key);
            let running = lane.as_ref().and_then(|lane| lane.running.clone()).filter(wanted);
            // Taken out at once: what is being ended must not begin meanwhile.
            let mut waiting: Vec<Arc<Live>> = Vec::new();
            if let Some(lane) = lane {
                let (ours, others): (Vec<_>, Vec<_>) = lane.waiting.drain(..).partition(wanted);
                lane.waiting.extend(others);
                waiting = ours;
            }
            (running, waiting)
        };
        let mut aborted = Vec::new();
        // First, since each that waits takes a commit.
        if let Some(live) = &running {
            live.abort.cancel();
        }
        for live in waiting {
            // Whoever sent it hears that it did not run.
            let at = self.0.options.clock.now();
            // One that a crash interrupted has run, and what it did stays.
            let has_run = live.rows > 0 || !live.steps.is_empty();
            let done = (live.steps.clone(), live.rows);
            let turn = Turn::new(self.clone(), live, done, at);
            let run = turn.live.id().to_owned();
            let (steps, said) = match has_run {
                true => (Vec::new(), "aborted"),
                false => (vec![Step::Withdrawn { at }], "aborted before it ran"),
            };
            turn.end(steps, Status::Aborted, said).await?;
            let told = json!({
                "runId": run, "sessionKey": key.to_string(), "agentId": key.agent, "seq": 1, "state": "aborted",
                "stopReason": "rpc",
            });
            self.0.options.feed.tell("chat", Audience::Readers, &told);
            aborted.push(run);
        }
        aborted.extend(running.map(|live| live.id().to_owned()));
        Ok(aborted)
    }

    /// Who waits in a session.
    pub fn waiting(&self, key: &SessionKey) -> Vec<Place> {
        self.0.state().places(key, self.0.options.clock.now())
    }

    /// How many wait in a session.
    pub fn queued(&self, key: &SessionKey) -> usize {
        self.0.state().lanes.get(key).map_or(0, |lane| lane.waiting.len())
    }

    /// The run that is under way in a session, since when.
    pub fn running(&self, key: &SessionKey) -> Option<(String, Timestamp)> {
        let state = self.0.state();
        let live = state.lanes.get(key)?.running.as_ref()?;
        match *live.progress.borrow() {
            Progress::Running { started_at } => Some((live.id().to_owned(), started_at)),
            _ => None,
        }
    }

    /// Whether a run of this chain holds the lane of a session: to wait for it would be for ever. One of the job that is waited for does not.
    pub fn holds(&self, key: &SessionKey, chain: &str, job: Option<&str>) -> bool {
        let state = self.0.state();
        let running = state.lanes.get(key).and_then(|lane| lane.running.as_ref());
        let job_of = |accepted: &'_ Accepted| accepted.part.as_ref().and_then(|part| part.job_id.clone());
        running.map(|live| &live.run.accepted).is_some_and(|accepted| {
            accepted.chain.id == chain && job.is_none_or(|job| job_of(accepted).as_deref() != Some(job))
        })
    }

    /// How a run stands, as it changes; none if it has ended, or nobody knows it.
    pub fn watch(&self, run: &str) -> Option<tokio::sync::watch::Receiver<Progress>> {
        self.0.state().live(run).map(|live| live.progress.subscribe())
    }

    /// When a run that has not ended last recorded something, by the clock's `elapsed`.
    pub fn recorded_at(&self, run: &str) -> Option<Duration> {
        let live = self.0.state().live(run).cloned()?;
        Some(Duration::from_millis(live.recorded_ms.load(Ordering::Relaxed)))
    }

    /// What a chain has taken so far.
    pub fn used_by_chain(&self, chain: &str) -> chela_flow::Used {
        self.0.state().used_by_chain(chain)
    }

    /// Tokens that an agent has used today.
    pub fn used_today(&self, agent: &AgentId) -> u64 {
        let day = day_key(agent, self.0.options.clock.now());
        self.0.state().usage.get(&day).map_or(0, |usage| usage.tokens)
    }
}

fn day_key(agent: &AgentId, now: Timestamp) -> String {
    format!("{agent}:{}", now.date())
}

/// A run that is under way. Dropped without an end, it goes on after the next start.
pub struct Turn {
    handle: Handle,
    live: Arc<Live>,
    /// What it has done so far.
    pub steps: Vec<Step>,
    pub started_at: Timestamp,
    /// Rows of it that are in the transcript.
    rows: usize,
    /// Steps on their way into the journal, and rows on theirs into the transcript: whoever waited for them may be cut off.
    recording: Option<(Vec<Step>, Awaited)>,
    showing: Option<Appended>,
}

/// What is known of a run when it ends.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    pub usage: Usage,
    pub context_tokens: u64,
    /// The last prompt and its answer, by our own estimate.
    pub weight: u64,
    pub provider: String,
    pub model: String,
    pub answers: u32,
}

impl Sum {
    /// What a run has used by the steps that it has recorded.
    pub fn of(steps: &[Step]) -> Self {
        let mut sum = Self::default();
        for step in steps {
            if let Step::Answered { answer, provider, model, .. } = step {
                sum.count(answer);
                sum.provider.clone_from(provider);
                sum.model.clone_from(model);
            }
        }
        sum
    }

    pub fn count(&mut self, answer: &Answer) {
        let usage = &answer.usage;
        self.answers += 1;
        self.usage.input += usage.input;
        self.usage.output += usage.output;
        self.usage.cache_read += usage.cache_read;
        self.usage.cache_write += usage.cache_write;
        self.context_tokens = usage.input + usage.cache_read + usage.cache_write + usage.output;
    }
}

/// Records of other rooms that are committed with the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Further(Vec<(&'static str, String, Value)>);

impl Further {
    pub fn put(&mut self, kind: &'static str, id: &str, body: &impl serde::Serialize) {
        let body = serde_json::to_value(body).expect("a record is plain JSON");
        self.0.push((kind, id.to_owned(), body));
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Why a run came to no answer.
#[derive(Clone, Debug)]
pub struct Wrong {
    pub said: String,
    /// `rate_limit`, `context_length` and such.
    pub kind: Option<String>,
    /// It may go better another time.
    pub transient: bool,
}

impl Turn {
    fn new(handle: Handle, live: Arc<Live>, (steps, rows): (Vec<Step>, usize), started_at: Timestamp) -> Self {
        Self { handle, live, steps, started_at, rows, recording: None, showing: None }
    }

    pub fn message(&self) -> &Accepted {
        &self.live.run.accepted
    }

    pub fn session(&self) -> &SessionKey {
        &self.live.key
    }

    pub fn id(&self) -> &str {
        self.live.id()
    }

    /// Cancelled when somebody aborts it.
    pub fn aborted(&self) -> &CancellationToken {
        &self.live.abort
    }

    /// How often a start found it unfinished.
    pub fn resumed(&self) -> u32 {
        self.live.run.resumed
    }

    pub fn is_hopeless(&self) -> bool {
        self.live.run.resumed > RESUMED_MAX
    }

    /// Whether the transcript has its message already.
    pub fn is_shown(&self) -> bool {
        self.rows > 0
    }

    fn shared(&self) -> &Shared {
        &self.handle.0
    }

    /// Writes the rows of what was done so far; those that are there already are not written again.
    pub async fn show(&mut self) {
        // What the file does not take now is tried again with the next rows, and is in the journal meanwhile.
        self.show_more(false).await;
    }

    /// The rows that a prompt is made of: those of the transcript, then those of its own that the transcript has not taken yet.
    pub(crate) async fn context(&self, tokens_max: u64) -> Result<Vec<Told>, Error> {
        let mut told = self.handle.context(&self.live.key, tokens_max).await?;
        told.extend(rows::of_run(&self.live.run, &self.steps).iter().skip(self.rows).map(Told::of));
        Ok(told)
    }

    async fn show_more(&mut self, last: bool) {
        self.shown().await;
        let all = rows::of_run(&self.live.run, &self.steps);
        let fresh: Vec<Value> = all.into_iter().skip(self.rows).collect();
        if fresh.is_empty() {
            return;
        }
        let shared = self.shared();
        let path = shared.transcript(&self.live.key, &self.live.run.accepted.session_id);
        self.showing = Some(shared.writer.append(path, fresh, last).await);
        self.shown().await;
    }

    /// Waits for the rows that are on their way, and tells of them.
    async fn shown(&mut self) {
        let Some(showing) = &mut self.showing else { return };
        let numbered = showing.done().await.unwrap_or_default();
        self.showing = None;
        self.rows += numbered.len();
        for row in &numbered {
            let payload = json!({
                "sessionKey": self.live.key.to_string(), "agentId": self.live.key.agent, "runId": self.id(),
                "messageId": row["__openclaw"]["id"], "messageSeq": row["__openclaw"]["seq"], "message": row,
            });
            self.shared().options.feed.tell("session.message", Audience::Readers, &payload);
        }
    }

    /// Records steps; when this answers they are never done again.
    pub async fn record(&mut self, steps: Vec<Step>) -> Result<(), Error> {
        self.record_unshown(steps).await?;
        self.show().await;
        Ok(())
    }

    /// Records steps whose rows are written later. A journal that cannot be used now is waited for: what was done is done.
    pub async fn record_unshown(&mut self, steps: Vec<Step>) -> Result<(), Error> {
        self.recorded().await?;
        let mut transaction = Transaction::default();
        self.put_steps(&mut transaction, &steps)?;
        let mut steps = steps;
        loop {
            let failed = match self.shared().options.journal.submit_async(transaction.clone()) {
                Ok(awaited) => {
                    self.recording = Some((steps, awaited));
                    match self.settled().await {
                        Ok(()) => return Ok(()),
                        Err((error, unrecorded)) => {
                            steps = unrecorded;
                            error
                        }
                    }
                }
                Err(error) => error,
            };
            if !matches!(failed, journal::Error::Unusable { .. }) || self.shared().closed.is_cancelled() {
                return Err(failed.into());
            }
            tracing::error!(
                run = self.id(),
                error = &failed as &dyn std::error::Error,
                "what a run has done is not recorded yet"
            );
            self.shared().options.clock.sleep(RECORD_AGAIN).await;
        }
    }

    /// Waits for the steps that are on their way; then they are done.
    async fn recorded(&mut self) -> Result<(), Error> {
        self.settled().await.map_err(|(error, _)| error.into())
    }

    /// The same; steps that are not on record are given back.
    async fn settled(&mut self) -> Result<(), (journal::Error, Vec<Step>)> {
        let Some((_, awaited)) = &mut self.recording else { return Ok(()) };
        let outcome = awaited.settled().await;
        let steps = self.recording.take().map(|(steps, _)| steps).unwrap_or_default();
        if let Err(error) = outcome {
            return Err((error, steps));
        }
        self.steps.extend(steps);
        let now = self.shared().options.clock.elapsed().as_millis();
        self.live.recorded_ms.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(())
    }

    /// Waits for what was on its way when somebody who recorded or showed something was cut off.
    pub async fn settle(&mut self) {
        if let Err(error) = self.recorded().await {
            let error: &dyn std::error::Error = &error;
            tracing::error!(run = self.id(), error, "the last steps of a run that was cut off are not recorded");
        }
        self.shown().await;
    }

    fn put_steps(&self, transaction: &mut Transaction, steps: &[Step]) -> Result<(), Error> {
        for (nth, step) in (u32::try_from(self.steps.len()).unwrap_or(u32::MAX)..).zip(steps) {
            journal::put(transaction, record::STEP, &record::step_id(self.id(), nth), step)?;
            // The step has it from here on.
            if let Step::Result { call_id, .. } = step {
                let key = Key::of_call(self.id(), &self.name_of_call(call_id));
                self.shared().options.results.forget(transaction, &key)?;
            }
        }
        Ok(())
    }

    /// What an open call is known by within this run. Providers tell the calls of one answer apart, and not every one those of a run.
    pub fn name_of_call(&self, call_id: &str) -> String {
        let is_same = |step: &&Step| matches!(step, Step::Result { call_id: other, .. } if other == call_id);
        match self.steps.iter().filter(is_same).count() {
            0 => call_id.to_owned(),
            before => format!("{call_id}#{before}"),
        }
    }

    /// Ends a run that no model is asked for any more.
    pub async fn end(self, steps: Vec<Step>, status: Status, said: &str) -> Result<Arc<Ended>, Error> {
        let wrong = Wrong { said: said.to_owned(), kind: None, transient: false };
        let sum = Sum::of(&self.steps);
        self.end_with(steps, status, String::new(), Some(wrong), "rpc", sum, &Further::default()).await
    }

    /// The name of the last row, once these steps are recorded.
    pub fn message_id(&self, steps: &[Step]) -> String {
        let all: Vec<Step> = self.steps.iter().chain(steps).cloned().collect();
        rows::row_id(self.id(), rows::of_run(&self.live.run, &all).len().saturating_sub(1))
    }

    /// Records the last steps and the end, in one, with what else is to be there or not together with it.
    #[allow(clippy::too_many_arguments, reason = "everything that is known of an end")]
    pub async fn end_with(
        mut self,
        mut steps: Vec<Step>,
        status: Status,
        reply: String,
        wrong: Option<Wrong>,
        stop: &str,
        sum: Sum,
        further: &Further,
    ) -> Result<Arc<Ended>, Error> {
        let shared = self.handle.0.clone();
        let now = shared.options.clock.now();
        let transient = wrong.as_ref().is_some_and(|wrong| wrong.transient);
        let (error, error_kind) = wrong.map(|wrong| (wrong.said, wrong.kind)).unzip();
        let mut ended = Ended {
            status,
            started_at: self.started_at,
            at: now,
            reply,
            error,
            error_kind: error_kind.flatten(),
            transient,
            stop: stop.to_owned(),
            usage: sum.usage,
            context_tokens: sum.context_tokens,
            provider: sum.provider.clone(),
            model: sum.model.clone(),
            steps: sum.answers,
        };
        let mut counted = false;
        let run = loop {
            let run = Run { ended: Some(ended.clone()), ..self.live.run.clone() };
            match self.commit_end(&run, &steps, &ended, &sum, further, &mut counted).await {
                Ok(()) => break run,
                // It does not fit: that it came to nothing does.
                Err(Error::Journal(journal::Error::Refused { .. })) if !steps.is_empty() || !ended.reply.is_empty() => {
                    steps.clear();
                    ended.reply.clear();
                    ended.status = Status::Error;
                    ended.error = Some("the answer is larger than can be kept".into());
                }
                Err(error) if shared.closed.is_cancelled() => return Err(error),
                Err(error) => {
                    // A lane without an end would hold up its session until a restart.
                    tracing::error!(
                        run = self.id(),
                        error = &error as &dyn std::error::Error,
                        "the end of a run is not recorded yet"
                    );
                    shared.options.clock.sleep(RECORD_AGAIN).await;
                }
            }
        };
        self.steps.extend(steps);
        self.show_more(true).await;
        let path = shared.transcript(&self.live.key, &run.accepted.session_id);
        let count = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        shared.writer.ask(Work::Ended { run: Box::new(run), steps: count, path }).await;
        let ended = Arc::new(ended);
        let slots = shared.options.settings.current().config.slots_of(&self.live.key.agent);
        shared.state().end(&self.live, ended.clone(), slots);
        self.handle.publish_ended(&self.live, &self.steps, &ended);
        shared.ready.notify_one();
        self.handle.tell_session(&self.live.key, "end", Some(self.live.id()));
        Ok(ended)
    }
}

impl Turn {
    /// Commits the last steps and the end. `counted`: what was used is counted already, in a try before.
    async fn commit_end(
        &self,
        run: &Run,
        steps: &[Step],
        ended: &Ended,
        sum: &Sum,
        further: &Further,
        counted: &mut bool,
    ) -> Result<(), Error> {
        let shared = self.shared();
        let mut transaction = Transaction::default();
        self.put_steps(&mut transaction, steps)?;
        journal::put(&mut transaction, record::RUN, self.id(), run)?;
        for (kind, id, body) in &further.0 {
            journal::put(&mut transaction, kind, id, body)?;
        }
        let day = day_key(&self.live.key.agent, ended.at);
        let tokens = sum.usage.input + sum.usage.output + sum.usage.cache_read + sum.usage.cache_write;
        let submitted = {
            let mut state = shared.state();
            let mut usage = state.usage.get(&day).copied().unwrap_or_default();
            let mut session = state.sessions.get(&self.live.key).map(|session| Session::clone(session));
            if !*counted {
                usage.tokens += tokens;
                session.iter_mut().for_each(|session| touch(session, ended, sum, self.live.id()));
            }
            if tokens > 0 {
                journal::put(&mut transaction, record::USAGE, &day, &usage)?;
            }
            if let Some(session) = &session {
                journal::put(&mut transaction, record::SESSION, &session.key, session)?;
            }
            let submitted = shared.options.journal.submit_async(transaction)?;
            *counted = true;
            state.usage.insert(day, usage);
            if let Some(session) = session {
                state.sessions.insert(self.live.key.clone(), Arc::new(session));
            }
            submitted
        };
        submitted.done().await?;
        Ok(())
    }
}

fn touch(session: &mut Session, ended: &Ended, sum: &Sum, run: &str) {
    session.updated_at = ended.at;
    session.usage.input += ended.usage.input;
    session.usage.output += ended.usage.output;
    session.usage.cache_read += ended.usage.cache_read;
    session.usage.cache_write += ended.usage.cache_write;
    if ended.context_tokens > 0 {
        session.context_tokens = ended.context_tokens;
    }
    if sum.weight > 0 {
        session.weight = sum.weight;
    }
    session.last_run = Some(LastRun {
        id: run.to_owned(),
        status: ended.status,
        started_at: ended.started_at,
        ended_at: ended.at,
        provider: ended.provider.clone(),
        model: ended.model.clone(),
    });
}
