//! The thread that keeps the index: reads the log on, asks the classifier, and tells followers.
//! Keeps true: what followers are told is in the index already. Never: holds up a query.

mod renewal;

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use chela_storage::Catalogue;
use tokio::sync::oneshot;

use super::classifier::Classifier;
use super::fold::Spot;
use super::follow::{Chunk, Follower};
use super::index::{Entry, How, Index, IndexError, Pruning, Unclassified};
use super::intake::{Came, Intake, Parsed};
use super::line::Line;
use super::live::Told;
use super::overrides::{self, OverrideError};
use super::pace::Pace;
use super::query::enriched;
use super::{Progress, Shared};
use crate::clock::Clock;
use crate::policy::EventFacts;
use renewal::Renewal;

/// Events whose roles are asked for at once, at most.
const ROLES_AT_ONCE: usize = 256;
/// Sessions whose categories are asked for at once, at most.
const SESSIONS_AT_ONCE: usize = 32;
/// News gather so long before they are taken in; less while somebody follows.
const GATHER: Duration = Duration::from_millis(100);
const FOLLOWED_GATHER: Duration = Duration::from_millis(20);
/// After a failure of the disk or the index.
const RETRY: Duration = Duration::from_secs(1);

/// How often segments that were removed are looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(3_600);

/// What the thread is told from outside.
pub(super) enum Command {
    /// The log may have grown.
    Look,
    Override {
        session: String,
        category: Option<String>,
        by: Option<String>,
        answer: oneshot::Sender<Result<(), OverrideError>>,
    },
    Stop,
}

pub(super) struct Service {
    pub(super) shared: Arc<Shared>,
    pub(super) catalogue: fn(&super::Shared) -> Catalogue,
    pub(super) classifier: Classifier,
    pub(super) clock: Clock,
    /// Between two looks at files that nobody tells about.
    pub(super) poll: Duration,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("the event log could not be read ({0})")]
    Log(#[from] std::io::Error),
}

/// What a step did.
enum Step {
    /// There may be more to do at once.
    Busy,
    /// News were taken in.
    Took,
    Idle,
}

struct State {
    index: Index,
    intake: Intake,
    filled: bool,
    /// What was in the log when this began is in the index.
    caught_up: bool,
    /// The classifier that serves, and its number in the index.
    known: Option<(String, i64)>,
    left: u64,
    roles: Pace,
    sessions: Pace,
    /// Who found the roles that nobody gave; none before the first.
    roles_by: Option<String>,
    renewal: Renewal,
    /// It is made beside the one that answers: nobody hears of it yet.
    beside: bool,
    /// Segments that were removed, while their events are taken out.
    pruning: Option<Pruning>,
    /// When segments that were removed were last looked for.
    looked: Duration,
}

impl State {
    fn new(index: Index, intake: Intake, filled: bool, looked: Duration) -> Self {
        Self {
            index,
            intake,
            filled,
            caught_up: false,
            known: None,
            left: 0,
            roles: Pace::up_to(ROLES_AT_ONCE),
            sessions: Pace::up_to(SESSIONS_AT_ONCE),
            roles_by: None,
            renewal: Renewal::Settled,
            beside: false,
            pruning: None,
            looked,
        }
    }
}

impl Service {
    pub(super) fn run(self, inbox: &Receiver<Command>, overrides: overrides::File) {
        // After those who answer: of this thread alone, as Linux counts. Where it is refused, it is as urgent as they are.
        let _ = rustix::process::setpriority_process(None, 10);
        let mut overrides = overrides;
        let mut state = None;
        loop {
            let (at_least, at_most) = match self.step(&mut state, &mut overrides) {
                Ok(Step::Busy) => (Duration::ZERO, Duration::ZERO),
                Ok(Step::Took) => (self.gather(), self.poll),
                Ok(Step::Idle) => (Duration::ZERO, self.poll),
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "the monitor could not go on; it tries again"
                    );
                    self.shared.set_problem(Some(error.to_string()));
                    state = None;
                    (RETRY, RETRY)
                }
            };
            if self.wait(inbox, at_least, at_most, &mut state, &mut overrides).is_break() {
                return;
            }
        }
    }

    /// How long news may gather: a transaction for each event would cost more than all else.
    fn gather(&self) -> Duration {
        if self.shared.live.is_followed() { FOLLOWED_GATHER } else { GATHER }
    }

    /// Waits for the next step, and does meanwhile what it is told.
    fn wait(
        &self,
        inbox: &Receiver<Command>,
        at_least: Duration,
        at_most: Duration,
        state: &mut Option<State>,
        overrides: &mut overrides::File,
    ) -> ControlFlow<()> {
        let from = Instant::now();
        let mut looked = false;
        loop {
            let until = if looked { at_least } else { at_most };
            match inbox.recv_timeout(until.saturating_sub(from.elapsed())) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return ControlFlow::Break(()),
                Err(RecvTimeoutError::Timeout) => return ControlFlow::Continue(()),
                // There is more, but it may gather first.
                Ok(Command::Look) => looked = true,
                Ok(Command::Override { session, category, by, answer }) => {
                    let outcome = self.set_override(state.as_mut(), overrides, &session, category, by);
                    // Whoever asked may have gone: the file says it all the same.
                    let _ = answer.send(outcome);
                }
            }
        }
    }

    fn step(&self, state: &mut Option<State>, overrides: &mut overrides::File) -> Result<Step, Failure> {
        if state.is_none() {
            *state = Some(self.open()?);
            self.shared.set_problem(None);
        }
        let open = state.as_mut().expect("it was put there just now");
        let changed = overrides.refresh();
        if !changed.is_empty() {
            self.show_overrides(open, &changed, overrides)?;
        }
        match open.intake.next()? {
            Came::Lines(parsed, progress) => {
                self.take(open, parsed, progress, overrides)?;
                if !open.caught_up {
                    return Ok(Step::Busy);
                }
                // Where there are always news it has its turn all the same.
                self.prune(open)?;
                return Ok(Step::Took);
            }
            Came::Changed => {
                tracing::warn!("the event log is another one than was read; the index is made again");
                let taken = state.take().expect("it is open");
                *state = Some(self.begin(taken.index.reset()?)?);
                return Ok(Step::Busy);
            }
            Came::End => {}
        }
        if !open.filled {
            open.index.finish(&overrides.entries)?;
            open.filled = true;
            tracing::info!("the index of the event log is complete");
        }
        if !open.caught_up {
            open.caught_up = true;
            self.shared.set_progress(Progress::Ready);
            self.shared.live.caught_up();
        }
        match self.classify(open, overrides)? {
            Step::Idle => match self.renew(open, overrides)? {
                Step::Idle => self.prune(open),
                step => Ok(step),
            },
            step => Ok(step),
        }
    }

    /// Takes out one piece of what segments that were removed have left in the index.
    fn prune(&self, state: &mut State) -> Result<Step, Failure> {
        let now = self.clock.elapsed();
        if state.pruning.is_none() && now.saturating_sub(state.looked) >= PRUNE_EVERY {
            state.looked = now;
            if let Some(last) = state.intake.removed()? {
                self.shared.readers.lines.forget_up_to(last);
                state.pruning = Some(Pruning::up_to(last));
            }
        }
        let Some(pruning) = &mut state.pruning else { return Ok(Step::Idle) };
        if state.index.prune(pruning)? {
            state.pruning = None;
        }
        Ok(Step::Busy)
    }

    fn open(&self) -> Result<State, Failure> {
        let (index, filled) = Index::open(&self.shared.path)?;
        let mut follower = Follower::new((self.catalogue)(&self.shared), index.marks()?);
        let Some(removed) = follower.check()?.filter(|_| filled) else {
            return self.begin(index.reset()?);
        };
        let mut index = index;
        if let Some(last) = removed.into_iter().max() {
            let mut pruning = Pruning::up_to(last);
            while !index.prune(&mut pruning)? {}
        }
        self.shared.readers.forget();
        self.shared.live.advance(index.last_seq()?, Vec::new());
        let roles_by = index.roles_by()?;
        Ok(State { roles_by, ..State::new(index, Intake::here(follower), true, self.clock.elapsed()) })
    }

    /// From the beginning of the log, into an empty index.
    fn begin(&self, index: Index) -> Result<State, Failure> {
        self.shared.readers.forget();
        self.shared.live.restart();
        self.shared.set_progress(Progress::Indexing { percent: 0 });
        Ok(State::new(index, self.whole_log()?, false, self.clock.elapsed()))
    }

    fn whole_log(&self) -> Result<Intake, Failure> {
        Ok(Intake::ahead(Follower::new((self.catalogue)(&self.shared), Vec::new()))?)
    }

    /// Puts a chunk of lines into the index, then tells whoever follows.
    fn take(
        &self,
        state: &mut State,
        mut parsed: Parsed,
        progress: (u64, u64),
        overrides: &overrides::File,
    ) -> Result<(), Failure> {
        parsed.with_dependent_mut(|chunk, entries| self.take_entries(state, chunk, entries, progress, overrides))
    }

    fn take_entries(
        &self,
        state: &mut State,
        chunk: &Chunk,
        entries: &mut [Entry<'_>],
        (read, total): (u64, u64),
        overrides: &overrides::File,
    ) -> Result<(), Failure> {
        let malformed = chunk.unreadable + (chunk.lines.len() - entries.len()) as u64;
        let asked = self.find_roles(entries, &mut state.roles);
        if asked && state.roles_by.is_none() {
            let by = self.classifier.roles_identity().unwrap_or_default();
            state.index.set_roles_by(&by)?;
            state.roles_by = Some(by);
        }
        let marks: Vec<_> = chunk.mark.iter().cloned().collect();
        let now = self.clock.now().0;
        let new = state.index.add(entries, &marks, malformed, &overrides.entries, now)?;
        if state.beside {
            // Nobody is told before it answers.
        } else if state.caught_up {
            let told = if self.shared.live.is_followed() { told(&state.index, entries, &new)? } else { Vec::new() };
            if let Some(last) = entries.last() {
                self.shared.live.advance(last.seq, told);
            }
        } else {
            let percent = u8::try_from(read * 100 / total.max(1)).unwrap_or(100).min(99);
            self.shared.set_progress(Progress::Indexing { percent });
            if let Some(last) = entries.last() {
                self.shared.live.advance(last.seq, Vec::new());
            }
        }
        Ok(())
    }

    /// Asks the classifier about events whose writers gave them no role; whether there were any.
    fn find_roles(&self, entries: &mut [Entry<'_>], pace: &mut Pace) -> bool {
        let mut open: Vec<&mut Entry<'_>> = entries.iter_mut().filter(|entry| entry.how == How::Classified).collect();
        let asked = !open.is_empty();
        let mut open = open.as_mut_slice();
        while !open.is_empty() {
            let count = pace.at_once().min(open.len());
            let (some, rest) = std::mem::take(&mut open).split_at_mut(count);
            open = rest;
            let facts: Vec<EventFacts> = some.iter().map(|entry| entry.line.facts()).collect();
            let unknown: Vec<bool> = facts.iter().map(|facts| self.classifier.is_guess(facts)).collect();
            let from = Instant::now();
            let roles = self.classifier.roles(facts);
            pace.took(some.len(), from.elapsed());
            for ((entry, role), unknown) in some.iter_mut().zip(roles).zip(unknown) {
                entry.role = role;
                entry.how = if unknown { How::Unknown } else { How::Classified };
            }
        }
        asked
    }

    /// Asks the classifier about a few sessions: those with news first, then those that another classifier has classified.
    fn classify(&self, state: &mut State, overrides: &overrides::File) -> Result<Step, Failure> {
        let Some(identity) = self.classifier.identity() else { return Ok(Step::Idle) };
        let number = match &state.known {
            Some((known, number)) if *known == identity => *number,
            _ => {
                let number = state.index.classifier(&identity)?;
                state.left = state.index.left_to_classify(number)?;
                if state.left > 0 && !state.beside {
                    tracing::info!(sessions = state.left, classifier = identity, "classifying work sessions again");
                }
                state.known = Some((identity, number));
                (state.roles, state.sessions) = (Pace::up_to(ROLES_AT_ONCE), Pace::up_to(SESSIONS_AT_ONCE));
                number
            }
        };
        let now = self.clock.now();
        let waiting = state.index.unclassified(number, now.0, SESSIONS_AT_ONCE, state.sessions.at_once())?;
        if waiting.is_empty() {
            state.left = 0;
            self.show_left(state);
            return Ok(Step::Idle);
        }
        let mut answers = Vec::new();
        let (mut keys, mut conversations) = (Vec::new(), Vec::new());
        for Unclassified { key, session, news } in waiting {
            state.left = state.left.saturating_sub(u64::from(!news));
            match session.conversation(|spot| self.text_at(spot)) {
                None => answers.push((key, None)),
                Some(conversation) if news && !state.beside => {
                    let answer = self.classifier.category(conversation, &key, now);
                    answers.push((key, answer));
                }
                Some(conversation) => {
                    keys.push(key);
                    conversations.push(conversation);
                }
            }
        }
        let (from, count) = (Instant::now(), conversations.len());
        let mut found = self.classifier.categories(conversations, now).into_iter();
        state.sessions.took(count, from.elapsed());
        answers.extend(keys.into_iter().map(|key| (key, found.next())));
        state.index.classify(answers, number, &overrides.entries)?;
        self.show_left(state);
        Ok(Step::Busy)
    }

    fn show_left(&self, state: &State) {
        if !state.beside {
            self.shared.set_left(state.left);
        }
    }

    /// The text of a message; none when its segment is gone.
    fn text_at(&self, (seq, len): Spot) -> Option<String> {
        let bytes = self.shared.readers.lines.read(seq, len as usize).ok()?;
        Line::parse(&bytes)?.text().map(str::to_owned)
    }

    fn set_override(
        &self,
        state: Option<&mut State>,
        overrides: &mut overrides::File,
        session: &str,
        category: Option<String>,
        by: Option<String>,
    ) -> Result<(), OverrideError> {
        // What others wrote into the file meanwhile is shown too.
        let mut changed = overrides.refresh();
        let set = overrides.set(session, category, by, self.clock.now());
        changed.push(session.to_owned());
        let Some(state) = state else { return set };
        let shown = self.show_overrides(state, &changed, overrides);
        set?;
        match shown {
            Ok(()) => Ok(()),
            // The file says it; the index says it when it is read again.
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "an override is not shown yet");
                Ok(())
            }
        }
    }

    /// Shows sessions by what people say of them now, and tells whoever wants to hear of it.
    fn show_overrides(
        &self,
        state: &mut State,
        changed: &[String],
        overrides: &overrides::File,
    ) -> Result<(), IndexError> {
        state.index.override_categories(changed, &overrides.entries)?;
        for session in changed {
            // Nobody may listen.
            let _ = self.shared.overridden.send(session.clone());
        }
        Ok(())
    }
}

/// New events as followers are told them.
fn told(index: &Index, entries: &[Entry<'_>], new: &[usize]) -> Result<Vec<Told>, IndexError> {
    let mut told = Vec::with_capacity(new.len());
    for entry in new.iter().map(|at| &entries[*at]) {
        let session = index.shown_of(entry.seq)?;
        let event = enriched(entry.bytes, entry.seq, entry.role, session.as_ref());
        told.extend(event.map(|event| Told::new(entry.seq, event)));
    }
    Ok(told)
}

impl Shared {
    fn set_progress(&self, progress: Progress) {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).progress = progress;
    }

    fn set_problem(&self, problem: Option<String>) {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).problem = problem;
    }

    fn set_renewal(&self, percent: Option<u8>) {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).renewal = percent;
    }

    fn set_left(&self, left: u64) {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).left_to_classify = left;
    }
}
