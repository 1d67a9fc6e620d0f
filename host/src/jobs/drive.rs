//! The loop of a job: what happens to it goes into `step`, what comes out is committed with the messages it sends, and only then done.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chela_flow::{Announce, Announced, Effect, Input, Job, Kind, Message, Next, WaitStatus, What, step};
use tokio::sync::{mpsc, oneshot, watch};

use super::house::Ticket;
use super::next::next_input;
use super::store::{self, Late, Outgoing};
use super::{ASKS_MAX, Ask, Awaits, Error, Handle, Open, Shared, State};
use crate::clock::Timestamp;
use crate::event::Written;
use crate::journal::Transaction;
use crate::session_key::SessionKey;
use crate::sessions::{self, Asked, Origin, OriginKind, Part, Status};
use crate::traces::{self, Begin};

/// After this a step that the journal did not take is tried again.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Driver {
    shared: Arc<Shared>,
    open: Arc<Open>,
    asks: mpsc::Receiver<Ask>,
    /// Events on their way to the disk; until they are there the job takes no further step.
    telling: Option<Telling>,
    /// Events of the last step that the log did not take. The record has them, and the next step brings them along.
    untold: Option<Ticket>,
}

/// The end of telling of a step: its ticket comes back where the log did not take its events.
type Telling = oneshot::Receiver<Result<(), Ticket>>;

/// A step that is on record and told.
struct Done {
    job: Arc<Job>,
    /// What it causes besides.
    effects: Vec<Effect>,
    now: Timestamp,
}

/// A step that could not be committed, and will not be.
enum Stuck {
    /// The gateway stops; the next start goes on from the step before.
    Stopping,
    /// The message cannot be sent; the flow goes on from that.
    Unsendable(sessions::Error),
}

impl Driver {
    /// A driver for a job that is on record and has not ended. It is known from now on.
    pub(super) fn new(shared: &Arc<Shared>, job: Arc<Job>) -> Self {
        Self::opened(shared, &mut shared.state(), job)
    }

    /// A driver for a new job, if it may be. It is known from now on.
    pub(super) fn admitted(shared: &Arc<Shared>, job: Arc<Job>) -> Result<Self, Error> {
        let children_max = shared.options.settings.current().config.a2a.spawn.children;
        let mut state = shared.state();
        state.admit(&job, children_max)?;
        Ok(Self::opened(shared, &mut state, job))
    }

    fn opened(shared: &Arc<Shared>, state: &mut State, job: Arc<Job>) -> Self {
        let (asks, inbox) = mpsc::channel(ASKS_MAX);
        let touched = Mutex::new(shared.options.clock.elapsed());
        let open = Arc::new(Open { job: watch::Sender::new(job.clone()), asks, touched, awaited: AtomicUsize::new(0) });
        state.note(&job);
        state.open(&job, open.clone());
        Self { shared: shared.clone(), open, asks: inbox, telling: None, untold: None }
    }

    /// Commits how a new job begins, with its first message, and tells whoever began it; then drives it on. What happens once is boxed: a job
    /// that waits for days holds what it waits for, and nothing else.
    pub(super) async fn begin(mut self, effects: Vec<Effect>, answer: oneshot::Sender<Result<Arc<Job>, Error>>) {
        let job = self.open.now();
        match Box::pin(self.record(job, effects, false)).await {
            Ok(done) => {
                // Whoever began it may be gone; it goes on all the same.
                let _ = answer.send(Ok(self.open.now()));
                Box::pin(self.follow(done)).await;
                self.run().await;
            }
            Err(stuck) => {
                self.forget();
                let _ = answer.send(Err(match stuck {
                    Stuck::Stopping => Error::Stopping,
                    Stuck::Unsendable(error) => error.into(),
                }));
            }
        }
    }

    /// It never was.
    fn forget(&self) {
        let id = self.open.now().job_id.clone();
        let mut state = self.shared.state();
        state.close(&id);
        state.forget(&id);
    }

    /// Whoever begins it waits for its first reply.
    pub(super) fn awaits(&self) -> Awaits {
        Awaits::new(self.open.clone())
    }

    /// It is to be given up as soon as it goes on.
    pub(super) fn give_up(&self) {
        // The inbox is empty: nobody knows this driver yet.
        let _ = self.open.asks.try_send(Ask::Stale);
    }

    /// The job as it stands.
    pub(super) fn job(&self) -> Arc<Job> {
        self.open.now()
    }

    pub(super) fn spawn(self) {
        let shared = self.shared.clone();
        shared.drivers.spawn(self.run());
    }

    /// Goes on with a job whose last events are on their way to the log.
    pub(super) fn spawn_telling(mut self, events: Vec<Written>, ticket: Ticket, seq: u64) {
        self.telling = Some(tell(&self.shared, &events, ticket, seq));
        self.spawn();
    }

    async fn run(mut self) {
        let shared = self.shared.clone();
        loop {
            let job = self.open.now();
            if job.status.is_terminal() {
                break;
            }
            let (input, answer) = tokio::select! {
                biased;
                () = shared.cut.cancelled() => return,
                ask = self.asks.recv() => match ask {
                    Some(Ask::Cancel { by, answer }) => (Input::Cancel { by }, Some(answer)),
                    Some(Ask::Stale) => (Input::Stale, None),
                    None => return,
                },
                input = next_input(&shared, &job) => match input {
                    Some(input) => (input, None),
                    None => return,
                },
            };
            if !Box::pin(self.apply(&job, input)).await {
                return;
            }
            if let Some(answer) = answer {
                // Whoever asked may be gone; it is cancelled all the same.
                let _ = answer.send(self.open.now());
            }
        }
        if !self.tell_to_the_end().await {
            return;
        }
        let job = self.open.now();
        let chain = &job.chain;
        let begin =
            Begin::new("job", traces::Kind::Internal).of(&chain.id, chain.span.as_deref()).known_as(&job.job_id);
        let begin = begin.below(job.cause.as_deref()).with("chela.job", job.job_id.clone());
        let begin = begin.with("chela.session", job.target_session_key.clone());
        let failed = (job.status != chela_flow::Status::Completed).then(|| job.status.as_str().to_owned());
        let ended = Timestamp(job.finished_at.unwrap_or(job.updated_at));
        traces::told(begin, Timestamp(job.created_at), ended, failed);
        self.shared.state().close(&job.job_id);
    }

    /// Takes a step; false when the gateway stops.
    async fn apply(&mut self, job: &Job, input: Input) -> bool {
        let (rules, now) = (self.shared.rules(), self.shared.now().0);
        // Whoever waited for it may be gone: then they are told like anybody else.
        let awaited_until = job.awaited_until;
        let is_awaited = awaited_until.is_none() || self.open.awaited.load(Ordering::Relaxed) > 0;
        let left = (!is_awaited).then(|| Job { awaited_until: None, ..job.clone() });
        let job = left.as_ref().unwrap_or(job);
        // They may come back, with the same call: that counts for this step alone.
        let stepped = |job: &Job, input: Input| {
            let mut next = step(job, input, &rules, now)?;
            next.job.awaited_until = awaited_until;
            Some(next)
        };
        let Some(next) = stepped(job, input.clone()) else { return true };
        if !next.durable {
            let (events, _) = told_apart(&next.job, next.effects, Timestamp(now));
            self.known(Arc::new(next.job));
            events.into_iter().for_each(|event| emit(&self.shared, event));
            return true;
        }
        match self.commit(next).await {
            Ok(()) => return true,
            Err(Stuck::Stopping) => return false,
            Err(Stuck::Unsendable(error)) => {
                tracing::warn!(job = job.job_id, error = &error as &dyn std::error::Error, "a job cannot send on");
                let next = match input {
                    // What was answered counts: the exchange ends with it.
                    Input::Answered { .. } => {
                        let announce = Announce { to: Announced::Nobody, ..job.announce.clone() };
                        stepped(&Job { max_turns: job.current_turn, announce, ..job.clone() }, input)
                    }
                    _ => {
                        let status = match error {
                            sessions::Error::UnknownAgent(_) => WaitStatus::NotFound,
                            _ => WaitStatus::Error,
                        };
                        let input = Input::Failed { status, error: Some(error.to_string()), transient: false };
                        stepped(job, input)
                    }
                };
                let Some(next) = next else { return true };
                match self.commit(next).await {
                    Ok(()) => return true,
                    Err(Stuck::Stopping) => return false,
                    Err(Stuck::Unsendable(_)) => {}
                }
            }
        }
        // Not even its end can be kept; it is tried again, and never in a hurry.
        self.shared.options.clock.sleep(AGAIN).await;
        true
    }

    /// Takes a step on record, and does what follows from it.
    async fn commit(&mut self, next: Next) -> Result<(), Stuck> {
        let done = self.record(Arc::new(next.job), next.effects, true).await?;
        self.follow(done).await;
        Ok(())
    }

    /// The job with its messages and its events in one transaction; then it is known, and told. A step of a job that is on record is
    /// `patient` with a journal that takes nothing, since nobody else takes it; whoever begins one is told.
    async fn record(&mut self, job: Arc<Job>, effects: Vec<Effect>, patient: bool) -> Result<Done, Stuck> {
        self.finish_telling().await;
        // The beginning is told again from its record alone, at the time that is in it.
        let now = if patient { self.shared.now() } else { Timestamp(job.created_at) };
        let is_retry =
            effects.iter().any(|effect| matches!(effect, Effect::Tell(told) if told.what == What::JobRetried));
        let (events, effects) = told_apart(&job, effects, now);
        let events: Vec<Written> = self.recorded_untold().await.into_iter().chain(events).collect();
        let asked = self.messages(&job, &effects)?;
        let ticket = self.shared.told.begin();
        let seq = loop {
            // What a new job is told as is told from its record alone.
            let told = (patient || job.retry_of.is_some()).then_some(&events[..]);
            let records = match records(&job, &effects, told, now) {
                Ok(records) => records,
                Err(error) => {
                    self.shared.told.end(ticket, 0);
                    return Err(Stuck::Unsendable(error.into()));
                }
            };
            match self.shared.options.sessions.accept_with(&asked, records).await {
                Ok(seq) => break seq,
                Err(error) if error.is_callers() || is_refused(&error) || !patient => {
                    self.shared.told.end(ticket, 0);
                    return Err(Stuck::Unsendable(error));
                }
                Err(error) if matches!(error, sessions::Error::Stopping) || self.shared.cut.is_cancelled() => {
                    self.shared.told.end(ticket, 0);
                    return Err(Stuck::Stopping);
                }
                Err(error) => {
                    tracing::error!(
                        job = job.job_id,
                        error = &error as &dyn std::error::Error,
                        "a step of a job is not recorded yet"
                    );
                    self.shared.options.clock.sleep(AGAIN).await;
                }
            }
        };
        if is_retry {
            self.shared.options.metrics.job_retries.inc();
        }
        if let Some(before) = self.untold.take() {
            // They are of this step now.
            self.shared.told.end(before, 0);
        }
        self.known(job.clone());
        self.telling = Some(tell(&self.shared, &events, ticket, seq));
        Ok(Done { job, effects, now })
    }

    /// What follows from a step that is on record.
    async fn follow(&mut self, done: Done) {
        let Done { job, effects, now } = done;
        for effect in effects {
            match effect {
                Effect::Post { to, text } => {
                    let post = Outgoing { job_id: job.job_id.clone(), to, text, at: now.0 };
                    // Nobody may listen; it lies in the outbox all the same.
                    let _ = self.shared.posts.send(post);
                }
                effect => act(&self.shared, &job, effect).await,
            }
        }
    }

    /// The job stands like this from now on.
    pub(super) fn known(&self, job: Arc<Job>) {
        *self.open.touched.lock().unwrap_or_else(PoisonError::into_inner) = self.shared.options.clock.elapsed();
        self.shared.state().moved(&job);
        self.shared.files.show(job.clone());
        self.open.job.send_replace(job);
    }

    async fn finish_telling(&mut self) {
        let Some(mut told) = self.telling.take() else { return };
        let outcome = match told.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => {
                self.shared.options.bus.hurry();
                told.await.ok()
            }
            outcome => outcome.ok(),
        };
        // One that nobody answers any more is over too: the gateway stops.
        if let Some(Err(ticket)) = outcome {
            self.untold = Some(ticket);
        }
    }

    /// The events that the log did not take, as the record has them.
    async fn recorded_untold(&self) -> Vec<Written> {
        if self.untold.is_none() {
            return Vec::new();
        }
        let (journal, id) = (self.shared.options.journal.clone(), self.open.now().job_id.clone());
        match tokio::task::spawn_blocking(move || store::events(&journal, &id)).await {
            Ok(Ok(events)) => events.into_iter().map(Written::from).collect(),
            Ok(Err(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "events of a job cannot be read back");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }

    /// The last step has no next one that would bring its events along: they are told until the log takes them. False when the gateway stops.
    async fn tell_to_the_end(&mut self) -> bool {
        self.finish_telling().await;
        while self.untold.is_some() {
            tokio::select! {
                () = self.shared.cut.cancelled() => return false,
                () = self.shared.options.clock.sleep(AGAIN) => {}
            }
            // What a log that fails holds back is not told to it twice.
            if self.shared.options.bus.is_failing() {
                continue;
            }
            let events = self.recorded_untold().await;
            let Some(ticket) = self.untold.take() else { break };
            self.telling = Some(tell(&self.shared, &events, ticket, 0));
            self.finish_telling().await;
        }
        true
    }

    /// The messages of a step. What nobody waits for is left out where there is nobody to read it.
    fn messages(&self, job: &Job, effects: &[Effect]) -> Result<Vec<Asked>, Stuck> {
        let settings = self.shared.options.settings.current();
        let mut asked = Vec::new();
        for effect in effects {
            let (message, waits) = match effect {
                Effect::Send(message) => (message, true),
                Effect::Notify(message) => (message, false),
                _ => continue,
            };
            let session = SessionKey::parse(&message.session_key).ok();
            let known =
                |session: &SessionKey| settings.config.agents.list.iter().any(|agent| agent.id == session.agent);
            match session.filter(known) {
                Some(session) => asked.push(self.asked(job, message, session, waits)),
                None if waits => {
                    return Err(Stuck::Unsendable(sessions::Error::UnknownAgent(
                        chela_flow::agent_of(&message.session_key).to_owned(),
                    )));
                }
                None => tracing::warn!(job = job.job_id, session = message.session_key, "nobody is there to be told"),
            }
        }
        Ok(asked)
    }

    fn asked(&self, job: &Job, message: &Message, session: SessionKey, waits: bool) -> Asked {
        let origin = Origin {
            kind: OriginKind::InterSession,
            source_session_key: Some(message.from.clone()),
            source_channel: None,
            source_tool: Some(if job.kind == Kind::Spawn { "sessions_spawn" } else { "sessions_send" }.into()),
            note: message.note.clone(),
        };
        // Who hears of a sub-agent is one above it.
        let above = u32::from(job.kind == Kind::Spawn && !waits);
        let part = job.work_session_id.clone().map(|work_session_id| Part {
            work_session_id,
            conversation_id: job.conversation_id.clone(),
            task_id: job.task_id.clone(),
            depth: job.depth,
            spawns: meta_number(job, "spawns").unwrap_or(0).saturating_sub(above),
            job_id: Some(job.job_id.clone()),
        });
        Asked {
            origin,
            chain: Some(job.chain.clone()),
            part,
            time_ms: meta_number(job, "runTimeoutMs").map(u64::from).filter(|_| waits),
            // What follows from a message that was taken is taken too.
            over_queue: job.rev > 1 || !waits,
            ..Asked::new(message.key.clone(), "sessions_send", session, message.text.clone())
        }
    }
}

/// What follows from a step that is on record.
async fn act(shared: &Arc<Shared>, job: &Arc<Job>, effect: Effect) {
    match effect {
        Effect::Abort { session_key, run } => {
            let Ok(session) = SessionKey::parse(&session_key) else { return };
            if let Err(error) = shared.options.sessions.abort(&session, Some(&run)).await {
                tracing::warn!(
                    job = job.job_id,
                    run,
                    error = &error as &dyn std::error::Error,
                    "a run of a job was not stopped"
                );
            }
        }
        Effect::Overdue { session_key, run } => {
            let late = Late { job_id: job.job_id.clone(), session_key, run };
            hear_late(shared, job.clone(), late);
        }
        // On record with the job, or told already.
        Effect::Send(_) | Effect::Notify(_) | Effect::Post { .. } | Effect::Tell(_) => {}
    }
}

pub(super) fn meta_number(job: &Job, key: &str) -> Option<u32> {
    job.meta.as_ref()?.get(key)?.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// Tells the events of a step, and notes that they are in the log once they are. Nobody is woken for that; a driver looks when it goes on.
fn tell(shared: &Arc<Shared>, events: &[Written], ticket: Ticket, seq: u64) -> Telling {
    let (done, told) = oneshot::channel();
    let noting = shared.clone();
    shared.options.bus.emit_all(events, move |outcome| {
        let outcome = match outcome {
            Ok(()) => {
                noting.told.end(ticket, seq);
                Ok(())
            }
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "events of a job are not in the log yet");
                Err(ticket)
            }
        };
        // Without a driver the ticket stays open: they are told again after a restart.
        let _ = done.send(outcome);
    });
    told
}

/// Whether a record is one that the journal never takes.
fn is_refused(error: &sessions::Error) -> bool {
    matches!(error, sessions::Error::Journal(crate::journal::Error::Refused { .. }))
}

/// What a step is told as, apart from what else it causes.
pub(super) fn told_apart(job: &Job, effects: Vec<Effect>, now: Timestamp) -> (Vec<Written>, Vec<Effect>) {
    let (mut events, mut others) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Tell(happened) => events.push(store::event(job, events.len(), &happened, now)),
            other => others.push(other),
        }
    }
    (events, others)
}

/// Tells something once; a log that does not take it is not asked again.
pub(super) fn emit(shared: &Shared, event: impl Into<Written>) {
    if let Err(error) = shared.options.bus.emit_event(event) {
        tracing::error!(error = &error as &dyn std::error::Error, "an event of a job was not written");
    }
}

/// Everything that a step writes beside its messages.
fn records(
    job: &Job,
    effects: &[Effect],
    told: Option<&[Written]>,
    now: Timestamp,
) -> Result<Transaction, crate::journal::Error> {
    let mut transaction = Transaction::default();
    match told {
        Some(events) => store::put(&mut transaction, job, events)?,
        None => store::put_begun(&mut transaction, job)?,
    }
    for effect in effects {
        match effect {
            Effect::Overdue { session_key, run } => {
                let late = Late { job_id: job.job_id.clone(), session_key: session_key.clone(), run: run.clone() };
                store::put_late(&mut transaction, &late)?;
            }
            Effect::Post { to, text } => {
                let (job_id, to, text, at) = (job.job_id.clone(), to.clone(), text.clone(), now.0);
                store::put_outgoing(&mut transaction, &Outgoing { job_id, to, text, at })?;
            }
            Effect::Send(_) | Effect::Notify(_) | Effect::Abort { .. } | Effect::Tell(_) => {}
        }
    }
    Ok(transaction)
}

/// Tells what a run says that nobody waits for any more.
pub(super) fn hear_late(shared: &Arc<Shared>, job: Arc<Job>, late: Late) {
    let shared = shared.clone();
    let drivers = shared.drivers.clone();
    drivers.spawn(async move {
        let ended = tokio::select! {
            () = shared.cut.cancelled() => return,
            ended = shared.options.sessions.ended(&late.run) => ended,
        };
        let ended = match ended {
            Ok(ended) => ended,
            // It is on record, and heard after the next start.
            Err(error) => {
                return tracing::error!(error = &error as &dyn std::error::Error, "a late reply cannot be read yet");
            }
        };
        if let Some(ended) = ended
            && ended.status == Status::Ok
            && !ended.reply.trim().is_empty()
        {
            let happened = chela_flow::late(&job, &late.session_key, &late.run, &ended.reply);
            let event = store::event(&job, 0, &happened, shared.now());
            if let Err(error) = shared.options.bus.emit_durable(event).await {
                // It is told after the next start.
                return tracing::error!(error = &error as &dyn std::error::Error, "a late reply was not told");
            }
        }
        let mut transaction = Transaction::default();
        let dropped = match store::drop_late(&mut transaction, &late.run) {
            Ok(()) => shared.options.journal.commit_async(transaction).await,
            Err(error) => Err(error),
        };
        if let Err(error) = dropped {
            tracing::warn!(error = &error as &dyn std::error::Error, "a late reply is told again after a restart");
        }
    });
}

impl Handle {
    /// Hears what became of jobs that nobody waits for, as of a start.
    pub(super) async fn hear_all_late(&self, late: Vec<Late>) {
        for late in late {
            if let Ok(Some(job)) = self.get(&late.job_id).await {
                hear_late(&self.0, job, late);
            }
        }
    }
}
