//! Questions to people: an orchestrator asks, its task waits, a person answers, the task goes on.
//! Owns the records of questions and `human/`. Keeps true: a question is on record with the run that asked it; the first answer stands, and
//! reaches the task that waited and no other; whatever a crash cut off is finished at the next start. Never: asks a model.

mod answers;
mod ending;
mod files;
mod find;
mod house;
mod recall;
mod service;
mod store;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chela_question::{Ask, Chat, Phase, Question};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::config::AgentRole;
use crate::dialogues;
use crate::event::Event;
use crate::feed::Feed;
use crate::id::{self, AgentId};
use crate::jobs;
use crate::journal;
use crate::layout::StateDir;
use crate::session_key::SessionKey;
use crate::sessions;
use crate::settings;
use crate::tasks;

use store::{Inbox, Kept};

pub use answers::run_of;
pub use ending::{Ending, Left};
pub use find::{Asked, Listed, Which};
pub use store::{Found, read};

/// Requests that may wait for the room.
const WORK_MAX: usize = 256;
const MINUTE_MS: u64 = 60_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] chela_question::Refused),
    #[error("no question has the id {0:?}; `chela questions` lists them")]
    Unknown(String),
    #[error("{0}; `chela questions` lists those that are open")]
    NoneOpen(String),
    #[error("several questions are meant; answer one by its id: {0}")]
    Several(String),
    #[error("question {id} does not belong to {what} {given}")]
    Other { id: String, what: &'static str, given: String },
    #[error("say which question: give its `id`, or `taskId`, or `runId`")]
    Which,
    #[error("there is no open task {0}; `task_list` shows those there are")]
    NoTask(String),
    #[error("only an orchestrator asks people{advice}")]
    NotOrchestrator { advice: String },
    #[error("the cursor is not one that this list gave; ask without it")]
    BadCursor,
    #[error("the gateway is stopping; try again when it is back")]
    Stopping,
    #[error(transparent)]
    Tasks(#[from] tasks::Error),
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    #[error(transparent)]
    Jobs(#[from] jobs::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error("the event log does not take what is told of a question: {0}")]
    Bus(#[from] crate::bus::Error),
}

impl Error {
    /// Whether the one who asks can mend it.
    pub fn is_callers(&self) -> bool {
        match self {
            Self::Stopping | Self::Journal(_) | Self::Bus(_) => false,
            Self::Tasks(error) => error.is_callers(),
            Self::Sessions(error) => error.is_callers(),
            Self::Jobs(error) => error.is_callers(),
            _ => true,
        }
    }
}

/// What a room is built from.
pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    pub bus: Bus,
    pub settings: settings::Handle,
    pub journal: journal::Handle,
    pub tasks: tasks::Handle,
    pub sessions: sessions::Handle,
    pub jobs: jobs::Handle,
    pub dialogues: dialogues::Handle,
    pub feed: Feed,
}

/// The way to the questions; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    options: Options,
    state: Mutex<State>,
    work: mpsc::Sender<Work>,
    /// Runs have left something in the inbox.
    left: Notify,
}

#[derive(Default)]
struct State {
    /// Every question that is kept, by when it was asked.
    all: BTreeMap<(u64, String), Arc<Question>>,
    /// When each was asked, by its own id and by those of what was added to it.
    names: HashMap<String, (u64, String)>,
    /// What the calls of tools have asked.
    causes: HashMap<String, (u64, String)>,
    /// Events that may not be in the log.
    untold: HashMap<String, Vec<Event>>,
    inbox: VecDeque<Inbox>,
}

impl State {
    fn note(&mut self, kept: Kept) -> Arc<Question> {
        let question = Arc::new(kept.question);
        let place = (question.created_at, question.id.clone());
        if let Some(before) = self.all.get(&place).cloned() {
            // What was added to it may have made room for more by now.
            self.forget_names(&before);
        }
        for ask in &question.asks {
            self.names.insert(ask.id.clone(), place.clone());
            if let Some(cause) = &ask.cause {
                self.causes.insert(cause.clone(), place.clone());
            }
        }
        self.names.insert(question.id.clone(), place.clone());
        match kept.events.is_empty() {
            true => drop(self.untold.remove(&question.id)),
            false => drop(self.untold.insert(question.id.clone(), kept.events)),
        }
        self.all.insert(place, question.clone());
        question
    }

    /// Questions that were over before a time, and the oldest past `max` of those that are over.
    fn old(&self, before: u64, max: usize) -> Vec<Arc<Question>> {
        let over: Vec<&Arc<Question>> = self.all.values().filter(|question| question.phase == Phase::Done).collect();
        let past = over.len().saturating_sub(max);
        let is_old = |(nth, question): &(usize, &Arc<Question>)| *nth < past || question.updated_at < before;
        over.into_iter().enumerate().filter(is_old).map(|(_, question)| question.clone()).collect()
    }

    fn forget(&mut self, question: &Question) {
        self.all.remove(&(question.created_at, question.id.clone()));
        self.untold.remove(&question.id);
        self.forget_names(question);
    }

    fn forget_names(&mut self, question: &Question) {
        self.names.remove(&question.id);
        for ask in &question.asks {
            self.names.remove(&ask.id);
            ask.cause.as_ref().map(|cause| self.causes.remove(cause));
        }
    }

    fn named(&self, id: &str) -> Option<Arc<Question>> {
        self.names.get(id).and_then(|place| self.all.get(place)).cloned()
    }

    fn open(&self) -> impl Iterator<Item = &Arc<Question>> {
        self.all.values().filter(|question| question.is_open())
    }
}

impl Shared {
    /// A question stands like this from now on; while it is open, so is its work session, and whoever asked is there to hear the answer.
    fn note(&self, kept: Kept) -> Arc<Question> {
        let question = self.state().note(kept);
        let held = question.is_open().then(|| jobs::Held {
            work_session: question.work_session_id.clone(),
            sessions: question.askers().into_iter().map(str::to_owned).collect(),
        });
        self.options.jobs.hold(&question.id, held);
        question
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is asked of the room.
enum Work {
    Ask { ask: Box<Ask>, answer: oneshot::Sender<Result<Arc<Question>, Error>> },
    Answer { id: String, given: Given, answer: oneshot::Sender<Result<Arc<Question>, Error>> },
}

/// What a person says.
#[derive(Clone, Debug)]
pub struct Given {
    pub text: String,
    pub by: String,
    pub via: &'static str,
    /// The chat message that it is.
    pub chat: Option<Chat>,
}

/// Starts the room. The future finishes what the journal has and then does what is asked, until `stop`.
pub fn start(options: Options, found: Found, stop: CancellationToken) -> (Handle, impl Future<Output = ()> + Send) {
    let (work, inbox) = mpsc::channel(WORK_MAX);
    let state = State { inbox: found.inbox.into(), ..State::default() };
    let handle = Handle(Arc::new(Shared { options, state: Mutex::new(state), work, left: Notify::new() }));
    for kept in found.questions {
        handle.0.note(kept);
    }
    let service = service::Service::new(handle.clone(), inbox);
    (handle, service.run(stop))
}

/// A question that is asked by a call of a tool.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub session: SessionKey,
    pub question: String,
    pub task: Option<String>,
    pub deadline_minutes: Option<u64>,
    pub default_answer: Option<String>,
    /// The call: the same again asks nothing new.
    pub cause: Option<String>,
    /// The run that makes it.
    pub run: Option<String>,
    pub part: Option<sessions::Part>,
    /// Whose message began that run.
    pub sender: Option<SessionKey>,
}

impl Handle {
    /// Asks people. When this answers, the question is on record and its task waits.
    pub async fn ask(&self, wanted: Wanted) -> Result<Arc<Question>, Error> {
        self.may_ask(&wanted.session.agent)?;
        if let Some(known) = wanted.cause.as_deref().and_then(|cause| self.caused_by(cause)) {
            return Ok(known);
        }
        let options = &self.0.options;
        let named = match &wanted.task {
            Some(id) => Some(options.tasks.open(id).ok_or_else(|| Error::NoTask(id.chars().take(80).collect()))?),
            None => None,
        };
        let task = match named {
            Some(view) => Some(dialogues::Task {
                id: view.id.clone(),
                agent: view.agent.clone(),
                session: view.session_key(),
                work_session: view.task.work_session.clone(),
            }),
            None => options.dialogues.task_in(&wanted.session, wanted.part.as_ref(), wanted.sender.as_ref()),
        };
        let ask = self.ask_of(&wanted.session, task, wanted.part.as_ref(), vec![wanted.question.trim().to_owned()]);
        let ask = Ask {
            run_id: wanted.run,
            cause: wanted.cause,
            deadline: wanted
                .deadline_minutes
                .map(|minutes| ask.at.saturating_add(minutes * MINUTE_MS))
                .or(ask.deadline),
            default_answer: wanted.default_answer,
            ..ask
        };
        let (answer, answered) = oneshot::channel();
        self.0.work.send(Work::Ask { ask: Box::new(ask), answer }).await.map_err(|_| Error::Stopping)?;
        answered.await.unwrap_or(Err(Error::Stopping))
    }

    fn caused_by(&self, cause: &str) -> Option<Arc<Question>> {
        let state = self.0.state();
        state.causes.get(cause).and_then(|place| state.all.get(place)).cloned()
    }

    /// Whether an agent asks people itself; others are told whom to ask.
    fn may_ask(&self, agent: &AgentId) -> Result<(), Error> {
        let settings = self.0.options.settings.current();
        let known = settings.config.agents.list.iter().find(|known| known.id == *agent);
        match known {
            Some(known) if known.role == AgentRole::Orchestrator => Ok(()),
            known => {
                let orchestrator = known.and_then(|known| settings.config.orchestrator_of(known));
                let advice = orchestrator.map_or_else(
                    || "; there is none here, so decide yourself or say what is missing".to_owned(),
                    |id| format!("; ask yours, `{id}`, with sessions_send"),
                );
                Err(Error::NotOrchestrator { advice })
            }
        }
    }

    /// What is common to everything that is asked.
    fn ask_of(
        &self,
        session: &SessionKey,
        task: Option<dialogues::Task>,
        part: Option<&sessions::Part>,
        questions: Vec<String>,
    ) -> Ask {
        let options = &self.0.options;
        let now = options.clock.now();
        let minutes = options.settings.current().config.human.deadline_minutes;
        let of_task = task.as_ref().and_then(|task| task.work_session.clone());
        Ask {
            id: id::fresh(now).to_string(),
            agent_id: session.agent.to_string(),
            session_key: session.to_string(),
            run_id: None,
            message_id: None,
            cause: None,
            questions,
            left_out: 0,
            at: now.0,
            task: task.map(|task| chela_question::TaskRef {
                task_id: task.id,
                agent_id: task.agent.to_string(),
                session_key: task.session.to_string(),
            }),
            work_session_id: of_task.or_else(|| part.map(|part| part.work_session_id.clone())),
            conversation_id: part.map(|part| part.conversation_id.clone()),
            deadline: (minutes > 0).then(|| now.0.saturating_add(minutes * MINUTE_MS)),
            default_answer: None,
        }
    }

    /// Answers a question: the first answer stands. When this answers, it is on record, and reaches who asked whatever happens.
    pub async fn answer(&self, which: &Which, given: Given) -> Result<Arc<Question>, Error> {
        let id = self.which(which).await?.id.clone();
        let (answer, answered) = oneshot::channel();
        self.0.work.send(Work::Answer { id, given, answer }).await.map_err(|_| Error::Stopping)?;
        answered.await.unwrap_or(Err(Error::Stopping))
    }

    /// Questions that are open in a session: what a person writes there may be the answer.
    pub fn open_in(&self, session: &SessionKey) -> Vec<Arc<Question>> {
        let (state, key) = (self.0.state(), session.to_string());
        state.open().filter(|question| question.askers().contains(&&*key)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(n: u64, causes: &[&str]) -> Kept {
        let ask = Ask {
            id: format!("q{n}"),
            agent_id: "ruda".into(),
            session_key: "agent:ruda:main".into(),
            run_id: None,
            message_id: None,
            cause: None,
            questions: vec!["Which?".into()],
            left_out: 0,
            at: n,
            task: None,
            work_session_id: None,
            conversation_id: None,
            deadline: None,
            default_answer: None,
        };
        let mut question = chela_question::create(ask).expect("a question").question;
        question.phase = Phase::Done;
        let first = question.asks[0].clone();
        let asks = causes.iter().map(|cause| chela_question::Asked {
            id: format!("{cause}-id"),
            cause: Some((*cause).into()),
            ..first.clone()
        });
        question.asks.extend(asks);
        Kept { question, events: Vec::new() }
    }

    #[test]
    fn past_their_days_and_past_so_many_the_oldest_questions_go_with_all_of_their_names() {
        let mut state = State::default();
        (0..5).for_each(|n| drop(state.note(kept(n, &[&format!("c{n}")]))));
        let old = |state: &State, before: u64, max: usize| -> Vec<String> {
            state.old(before, max).iter().map(|question| question.id.clone()).collect()
        };
        assert!(old(&state, 0, 5).is_empty(), "as many as may");
        assert_eq!(old(&state, 0, 3), ["q0", "q1"]);
        assert_eq!(old(&state, 3, 3), ["q0", "q1", "q2"]);
        for question in state.old(0, 1) {
            state.forget(&question);
        }
        assert_eq!((state.all.len(), state.names.len(), state.causes.len()), (1, 2, 1));
        assert!(state.named("c4-id").is_some() && state.named("c0-id").is_none());
        // What made room in the question for something else has no name any more.
        state.note(kept(4, &["other"]));
        assert!(state.named("c4-id").is_none() && state.named("other-id").is_some() && state.named("q4").is_some());
        assert_eq!((state.names.len(), state.causes.len()), (2, 1));
    }
}
