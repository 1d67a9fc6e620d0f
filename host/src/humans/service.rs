//! The one who moves questions: takes up what runs and callers bring, and finishes every phase, also after a crash.

use std::sync::Arc;
use std::time::Duration;

use chela_question::{Ask, Input, Next, Phase, Question, create, step};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::store::{self, Forward, Inbox, Kept};
use super::{Error, Given, Handle, Work};
use crate::clock::Timestamp;
use crate::feed::Audience;
use crate::jobs;
use crate::journal::{self, Transaction};
use crate::session_key::SessionKey;
use crate::sessions;

/// Between two looks at deadlines, tasks that have ended and what could not be finished.
const TICK: Duration = Duration::from_secs(1);
/// Between two looks for old questions.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

pub(super) struct Service {
    pub(super) handle: Handle,
    work: mpsc::Receiver<Work>,
    /// Files cannot be written; said once.
    pub(super) failing: bool,
}

impl Service {
    pub(super) fn new(handle: Handle, work: mpsc::Receiver<Work>) -> Self {
        Self { handle, work, failing: false }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let clock = self.handle.0.options.clock.clone();
        let handle = self.handle.clone();
        self.show_all().await;
        self.take_up_inbox().await;
        self.finish_all().await;
        let (mut swept, mut next) = (Duration::ZERO, clock.elapsed() + TICK);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                work = self.work.recv() => match work {
                    Some(work) => self.serve(work).await,
                    None => return,
                },
                () = handle.0.left.notified() => self.take_up_inbox().await,
                // From the last one on: work that never ends does not put it off.
                () = clock.sleep(next.saturating_sub(clock.elapsed())) => {
                    next = clock.elapsed() + TICK;
                    self.take_up_inbox().await;
                    self.look_at_open().await;
                    self.finish_all().await;
                    if clock.elapsed().saturating_sub(swept) >= SWEEP_EVERY {
                        swept = clock.elapsed();
                        self.sweep().await;
                    }
                }
            }
        }
    }

    async fn serve(&mut self, work: Work) {
        // Whoever asked may be gone; it is done all the same.
        match work {
            Work::Ask { ask, answer } => {
                let asked = self.ask(*ask, None).await;
                let _ = answer.send(asked);
            }
            Work::Answer { id, given, answer } => {
                let answered = self.answer(&id, given).await;
                let _ = answer.send(answered);
            }
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.handle.0.options.clock.now()
    }

    fn question(&self, id: &str) -> Option<Arc<Question>> {
        self.handle.0.state().named(id)
    }

    /// What runs have left is taken up in its order; what cannot be now is tried again.
    async fn take_up_inbox(&mut self) {
        loop {
            let next = self.handle.0.state().inbox.front().cloned();
            let Some(left) = next else { return };
            let taken = match left.clone() {
                Inbox::Ask(ask) => self.ask(ask.clone(), Some(&ask.id)).await.map(drop),
                Inbox::Forward(forward) => self.forward(forward).await,
            };
            if let Err(Error::Refused(refused)) = &taken {
                tracing::warn!(%refused, "what a run asks says nothing");
                if self.drop_inbox(left.id()).await.is_err() {
                    return;
                }
            } else if let Err(error) = taken {
                return tracing::warn!(error = &error as &dyn std::error::Error, "what a run asks is not taken up yet");
            }
            self.handle.0.state().inbox.pop_front();
        }
    }

    /// Asks, or adds to what the task has asked before. `inbox`: the record that this takes up.
    async fn ask(&mut self, ask: Ask, inbox: Option<&str>) -> Result<Arc<Question>, Error> {
        let (id, task) = (ask.id.clone(), ask.task.as_ref().map(|task| task.task_id.clone()));
        let open = {
            let state = self.handle.0.state();
            // The task of a run that has asked before waits by now, and is nobody's active one.
            let of_run = ask.run_id.as_deref().filter(|_| task.is_none());
            let is_meant = |question: &&Arc<Question>| match &task {
                Some(_) => question.task_id == task,
                None => of_run.is_some_and(|run| question.is_of_run(run)),
            };
            state.named(&id).or_else(|| state.open().find(is_meant).cloned())
        };
        let next = match open {
            Some(open) => step(&open, Input::Ask(Box::new(ask)), self.now().0)?,
            None => Some(create(ask)?),
        };
        if let Some(next) = next {
            self.commit(next, Vec::new(), inbox).await?;
        } else if let Some(inbox) = inbox {
            self.drop_inbox(inbox).await?;
        }
        self.finish(&id).await;
        self.question(&id).ok_or(Error::Unknown(id))
    }

    async fn forward(&mut self, forward: Forward) -> Result<(), Error> {
        let sent = match (SessionKey::parse(&forward.from), SessionKey::parse(&forward.to)) {
            (Ok(from), Ok(target)) => {
                let asked = jobs::Send {
                    from,
                    key: Some(forward.id.clone()),
                    cause: Some(jobs::Cause { chain: forward.chain.clone(), part: forward.part.clone() }),
                    target,
                    to_agent: true,
                    message: forward.text.clone(),
                    wait: Duration::ZERO,
                    conversation_id: None,
                    parent_conversation_id: None,
                    work_session_id: None,
                };
                self.handle.0.options.jobs.send(asked).await.map(drop)
            }
            _ => Ok(()),
        };
        match sent {
            Err(error) if !error.is_callers() => return Err(error.into()),
            Err(error) => {
                tracing::warn!(from = forward.from, to = forward.to, %error, "an orchestrator could not be told what its worker wants to know");
            }
            Ok(()) => {}
        }
        self.drop_inbox(&forward.id).await
    }

    async fn drop_inbox(&self, id: &str) -> Result<(), Error> {
        let mut transaction = Transaction::default();
        store::drop_inbox(&mut transaction, id)?;
        self.handle.0.options.journal.commit_async(transaction).await?;
        Ok(())
    }

    async fn answer(&mut self, id: &str, given: Given) -> Result<Arc<Question>, Error> {
        let question = self.question(id).ok_or_else(|| Error::Unknown(id.to_owned()))?;
        let Given { text, by, via, chat } = given;
        let input = Input::Answer { text, by, via: via.to_owned(), chat };
        if let Some(next) = step(&question, input, self.now().0)? {
            self.commit(next, Vec::new(), None).await?;
        }
        // It is on record: what is left is finished now, or after a restart.
        self.finish(id).await;
        self.question(id).ok_or_else(|| Error::Unknown(id.to_owned()))
    }

    /// Finishes what is left to do about every question.
    async fn finish_all(&mut self) {
        let unfinished: Vec<String> = {
            let state = self.handle.0.state();
            let is_left = |question: &&Arc<Question>| {
                !matches!(question.phase, Phase::Open | Phase::Done) || state.untold.contains_key(&question.id)
            };
            state.all.values().filter(is_left).map(|question| question.id.clone()).collect()
        };
        for id in unfinished {
            self.finish(&id).await;
        }
    }

    pub(super) async fn finish(&mut self, id: &str) {
        while let Some(question) = self.question(id) {
            match self.go_on(&question).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    return tracing::warn!(
                        question = question.id,
                        phase = ?question.phase,
                        error = &error as &dyn std::error::Error,
                        "a question is not finished yet; it is tried again"
                    );
                }
            }
        }
    }

    /// Does what is next; false when nothing is.
    async fn go_on(&mut self, question: &Arc<Question>) -> Result<bool, Error> {
        match question.phase {
            Phase::Asking => {
                self.block(question).await?;
                self.tell(question).await?;
                self.advance(question, Input::Blocked, Vec::new()).await?;
            }
            Phase::Resuming => {
                self.tell(question).await?;
                let resumed = self.resume(question).await?;
                let messages = self.handle.messages(question);
                self.advance(question, Input::Settled { resumed }, messages).await?;
            }
            Phase::Telling => {
                self.tell(question).await?;
                self.advance(question, Input::Told, Vec::new()).await?;
            }
            Phase::Open | Phase::Done => {
                if self.handle.0.state().untold.contains_key(&question.id) {
                    self.tell(question).await?;
                    let kept = Kept { question: Question::clone(question), events: Vec::new() };
                    let mut transaction = Transaction::default();
                    store::put(&mut transaction, &kept)?;
                    self.handle.0.options.journal.commit_async(transaction).await?;
                    self.handle.0.note(kept);
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) async fn advance(
        &mut self,
        question: &Question,
        input: Input,
        messages: Vec<sessions::Asked>,
    ) -> Result<(), Error> {
        match step(question, input, self.now().0)? {
            Some(next) => self.commit(next, messages, None).await,
            None => Ok(()),
        }
    }

    /// Puts the events of the last step into the log; what is told again is known by its id.
    async fn tell(&self, question: &Question) -> Result<(), Error> {
        let events = self.handle.0.state().untold.get(&question.id).cloned().unwrap_or_default();
        for event in events {
            self.handle.0.options.bus.emit_durable(event).await?;
        }
        Ok(())
    }

    async fn block(&self, question: &Question) -> Result<(), Error> {
        let Some((agent, task)) = task_of(question) else { return Ok(()) };
        let blocked = self.handle.0.options.tasks.wait_for_person(agent, task, &question.question, &question.id).await;
        not_its_fault(question, blocked).map(drop)
    }

    async fn resume(&self, question: &Question) -> Result<bool, Error> {
        let Some((agent, task)) = task_of(question) else { return Ok(false) };
        let said = question.answer.as_ref().map_or("nobody answered in time", |answer| &answer.text);
        let tasks = &self.handle.0.options.tasks;
        let resumed = tasks.go_on_answered(agent.clone(), task.clone(), said).await;
        let resumed = not_its_fault(question, resumed)?;
        // After a crash it may go on already.
        let open = tasks.of(&agent).is_ok_and(|views| views.iter().any(|view| view.id == task));
        Ok(resumed || open)
    }

    /// A step with its messages and events in one transaction; then those who look on hear of it.
    async fn commit(&mut self, next: Next, messages: Vec<sessions::Asked>, inbox: Option<&str>) -> Result<(), Error> {
        let shared = self.handle.0.clone();
        let now = self.now();
        let word = next.told.first().map(|told| told.what);
        let events = store::events(&next.question, next.told, now);
        let kept = Kept { question: next.question, events };
        let records = |kept: &Kept| -> Result<Transaction, journal::Error> {
            let mut transaction = Transaction::default();
            store::put(&mut transaction, kept)?;
            inbox.map(|id| store::drop_inbox(&mut transaction, id)).transpose()?;
            Ok(transaction)
        };
        match messages.is_empty() {
            true => drop(shared.options.journal.commit_async(records(&kept)?).await?),
            false => match shared.options.sessions.accept_with(&messages, records(&kept)?).await {
                Ok(_) => {}
                Err(error) if error.is_callers() => {
                    one_by_one(&shared, &kept.question.id, messages).await?;
                    shared.options.journal.commit_async(records(&kept)?).await?;
                }
                Err(error) => return Err(error.into()),
            },
        }
        let question = shared.note(kept);
        if let Some(word) = word {
            let told = json!({ "reason": word.as_str(), "ts": now, "question": *question });
            shared.options.feed.tell("human.changed", Audience::Readers, &told);
        }
        self.show(question).await;
        Ok(())
    }
}

/// Where one of several cannot be taken, the others are; one that is too long is cut. Each is known by its key when it comes again.
async fn one_by_one(shared: &super::Shared, question: &str, messages: Vec<sessions::Asked>) -> Result<(), Error> {
    let bytes_max = shared.options.settings.current().config.runs.message_bytes;
    for mut message in messages {
        message.text.truncate(message.text.floor_char_boundary(bytes_max));
        match shared.options.sessions.accept_with(&[message], Transaction::default()).await {
            Ok(_) => {}
            Err(error) if error.is_callers() => {
                tracing::error!(question, error = &error as &dyn std::error::Error, "an answer could not be delivered");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn task_of(question: &Question) -> Option<(crate::id::AgentId, String)> {
    let agent = question.task_agent_id.as_deref()?.parse().ok()?;
    Some((agent, question.task_id.clone()?))
}

/// A task that cannot be moved, by whose fault ever, does not keep a person from being asked or an answer from its way.
fn not_its_fault(question: &Question, moved: Result<bool, crate::tasks::Error>) -> Result<bool, Error> {
    match moved {
        Err(error @ (crate::tasks::Error::Stopping | crate::tasks::Error::Journal(_))) => Err(error.into()),
        Err(error) => {
            tracing::warn!(
                question = question.id,
                task = question.task_id,
                error = &error as &dyn std::error::Error,
                "the task of a question could not be moved"
            );
            Ok(false)
        }
        Ok(moved) => Ok(moved),
    }
}
