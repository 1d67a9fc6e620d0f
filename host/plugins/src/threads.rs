//! The room's own threads: guest code runs here and nowhere else. Those who wait have some, and one serves what is asked in bulk.
//! Keeps true: one plugin occupies at most half of them; what waits has an end; a caller learns of every outcome.
//! Never: touches the async runtime, whose threads a guest could hold up.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::failure::Failure;
use super::generation::Generation;
use super::instance::{Instance, Line, Surroundings};
use super::worlds::Call;

/// Calls that may wait at once, and those of one plugin.
const WAITING_MAX: usize = 1_024;
const WAITING_OF_ONE_MAX: usize = 256;
/// On the wall a call may wait so many times its CPU time before it is given up.
const PATIENCE_FACTOR: u32 = 20;
/// An idle thread looks for work so long before it sleeps: waking one takes longer than most calls.
const LINGER: Duration = Duration::from_micros(250);
/// Deep guests need deep stacks; wasmtime itself ends them at 512 KiB.
const STACK_BYTES: usize = 4 * 1024 * 1024;

/// What a call cost.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    pub(super) took: Duration,
    pub(super) lines: Vec<Line>,
}

type Outcome<T> = (Result<T, Failure>, Cost);
/// Takes the instance, or why there is none; gives it back unless it failed, and what tells the caller.
type Work = Box<dyn FnOnce(Result<Instance, Failure>) -> (Option<Instance>, Tell) + Send>;
type Tell = Box<dyn FnOnce() + Send>;
/// Where lines go that an instance logs while it is made.
pub(super) type Lines = Arc<dyn Fn(&Generation, Vec<Line>) + Send + Sync>;

pub(super) struct Threads {
    shared: Arc<Shared>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Calls that wait, for those who look without the lock.
    waiting: AtomicUsize,
    /// Threads that run a call.
    running: AtomicUsize,
    /// One thread is awake and looks for work.
    lingering: AtomicBool,
    /// How many threads one plugin may occupy.
    share: usize,
    /// None once it is over.
    replacements: Mutex<Option<SyncSender<Arc<Generation>>>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Threads in use by each generation.
    busy: HashMap<u64, usize>,
    stopping: bool,
}

struct Job {
    generation: Arc<Generation>,
    work: Work,
    until: Instant,
}

impl Threads {
    /// For those who wait for an answer.
    pub(super) fn start(lines: Lines) -> std::io::Result<Self> {
        Self::start_some("chela-plugin", cores().max(2), lines)
    }

    /// One thread, for long lists that nobody waits for: they hold up no call.
    pub(super) fn start_bulk(lines: Lines) -> std::io::Result<Self> {
        Self::start_some("chela-bulk", 1, lines)
    }

    fn start_some(name: &str, count: usize, lines: Lines) -> std::io::Result<Self> {
        // Bounded by the instances there are: a replacement is asked for only when one was lost.
        let (replacements, wanted) = sync_channel(WAITING_MAX);
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            wake: Condvar::new(),
            waiting: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            lingering: AtomicBool::new(false),
            share: (count / 2).max(1),
            replacements: Mutex::new(Some(replacements)),
        });
        let mut handles = Vec::new();
        for n in 0..count {
            let shared = shared.clone();
            let thread = Builder::new().name(format!("{name}-{n}")).stack_size(STACK_BYTES);
            handles.push(thread.spawn(move || shared.work())?);
        }
        let seen = Arc::downgrade(&shared);
        let spare = Builder::new().name(format!("{name}-spare")).stack_size(STACK_BYTES);
        handles.push(spare.spawn(move || make_replacements(&wanted, &seen, &lines))?);
        Ok(Self { shared, handles: Mutex::new(handles) })
    }

    /// Calls one function of one generation; the answer comes to the receiver.
    pub(super) fn call<C: Call>(
        &self,
        generation: Arc<Generation>,
        input: Arc<C::Input>,
        around: Surroundings,
    ) -> oneshot::Receiver<Outcome<C::Output>> {
        let (answer, answered) = oneshot::channel();
        let work = move |instance: Result<Instance, Failure>| {
            let (outcome, back) = match instance {
                Ok(mut instance) => {
                    let from = Instant::now();
                    let outcome = instance.call::<C>(&input, &around);
                    let cost = Cost { took: from.elapsed(), lines: instance.take_lines() };
                    ((outcome, cost), instance.is_whole().then_some(instance))
                }
                Err(failure) => ((Err(failure), Cost { took: Duration::ZERO, lines: Vec::new() }), None),
            };
            // Whoever asked may have gone; then nobody is to be told.
            let tell: Tell = Box::new(move || drop(answer.send(outcome)));
            (back, tell)
        };
        self.enqueue(generation, Box::new(work));
        answered
    }

    /// Whether no call runs: then a caller may wait awake.
    pub(super) fn are_quiet(&self) -> bool {
        self.shared.running.load(Ordering::Relaxed) == 0
    }

    fn enqueue(&self, generation: Arc<Generation>, work: Work) {
        let patience = Duration::from_millis(generation.limits.held.cpu_ms.into()) * PATIENCE_FACTOR;
        let mut state = self.shared.lock();
        let of_one = state.waiting.iter().filter(|job| job.generation.id == generation.id).count();
        if state.stopping || state.waiting.len() >= WAITING_MAX || of_one >= WAITING_OF_ONE_MAX {
            let failure = if state.stopping { Failure::Stopping } else { Failure::Busy { waited: Duration::ZERO } };
            drop(state);
            refuse(work, failure);
            return;
        }
        state.waiting.push_back(Job { generation, work, until: Instant::now() + patience });
        self.shared.waiting.store(state.waiting.len(), Ordering::SeqCst);
        drop(state);
        // A thread that lingers looks once more, under the lock, before it sleeps.
        if !self.shared.lingering.load(Ordering::SeqCst) {
            self.shared.wake.notify_one();
        }
    }

    /// Lets calls under way end, refuses the rest, and waits for the threads. Not for an async thread.
    pub(super) fn stop(&self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        let refused = std::mem::take(&mut state.waiting);
        drop(state);
        self.shared.wake.notify_all();
        drop(self.shared.replacements.lock().unwrap_or_else(PoisonError::into_inner).take());
        refused.into_iter().for_each(|job| refuse(job.work, Failure::Stopping));
        let handles = std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in handles {
            if handle.join().is_err() {
                tracing::error!("a plugin thread had died");
            }
        }
    }
}

fn refuse(work: Work, failure: Failure) {
    let (_, tell) = work(Err(failure));
    tell();
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((job, instance)) = self.next() {
            let generation = job.generation;
            let had_one = instance.is_ok();
            self.running.fetch_add(1, Ordering::Relaxed);
            let (back, tell) = (job.work)(instance);
            self.running.fetch_sub(1, Ordering::Relaxed);
            match back {
                Some(instance) => generation.give_back(instance),
                // It was cut off, or there was none because one could not be made: that is tried again.
                None if had_one || generation.broken().is_some() => self.replace(&generation),
                None => {}
            }
            self.done(generation.id);
            // Where calls run, the processor is theirs.
            let lingers = self.running.load(Ordering::Relaxed) == 0 && !self.lingering.swap(true, Ordering::SeqCst);
            // Only now: a caller whose next call comes at once finds this thread free and awake.
            tell();
            if lingers {
                self.linger();
            }
        }
    }

    /// Stays awake for a moment after a call: the next one is often close behind.
    fn linger(&self) {
        let until = Instant::now() + LINGER;
        while self.waiting.load(Ordering::SeqCst) == 0 && Instant::now() < until {
            std::hint::spin_loop();
        }
        self.lingering.store(false, Ordering::SeqCst);
    }

    /// The first job that may run now, with an instance to run on; none once it is over.
    fn next(&self) -> Option<(Job, Result<Instance, Failure>)> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            if let Some(expired) = state.waiting.iter().position(|job| job.until <= Instant::now()) {
                let job = state.waiting.remove(expired)?;
                self.waiting.store(state.waiting.len(), Ordering::SeqCst);
                let waited = Duration::from_millis(job.generation.limits.held.cpu_ms.into()) * PATIENCE_FACTOR;
                let failure = job.generation.broken().unwrap_or(Failure::Busy { waited });
                *state.busy.entry(job.generation.id).or_default() += 1;
                return Some((job, Err(failure)));
            }
            let busy = |id: u64| state.busy.get(&id).copied().unwrap_or(0);
            let runnable = |job: &Job| busy(job.generation.id) < self.share && job.generation.is_takeable();
            if let Some(at) = state.waiting.iter().position(runnable) {
                let job = state.waiting.remove(at)?;
                self.waiting.store(state.waiting.len(), Ordering::SeqCst);
                let taken = job.generation.take();
                let instance =
                    taken.ok_or_else(|| job.generation.broken().unwrap_or(Failure::Busy { waited: Duration::ZERO }));
                *state.busy.entry(job.generation.id).or_default() += 1;
                // Who came while this thread lingered woke nobody: another thread looks after the rest at once.
                if !state.waiting.is_empty() {
                    self.wake.notify_one();
                }
                return Some((job, instance));
            }
            let nearest = state.waiting.iter().map(|job| job.until).min();
            state = match nearest {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let wait = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                    self.wake.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn done(&self, generation: u64) {
        let mut state = self.lock();
        if let Some(count) = state.busy.get_mut(&generation) {
            *count -= 1;
            if *count == 0 {
                state.busy.remove(&generation);
            }
        }
        let more = !state.waiting.is_empty();
        drop(state);
        if more {
            self.wake.notify_one();
        }
    }

    fn replace(&self, generation: &Arc<Generation>) {
        let replacements = self.replacements.lock().unwrap_or_else(PoisonError::into_inner);
        let full = replacements
            .as_ref()
            .is_some_and(|sender| matches!(sender.try_send(generation.clone()), Err(TrySendError::Full(_))));
        if full {
            tracing::error!("too many plugin instances are to be replaced at once");
        }
    }
}

fn make_replacements(wanted: &Receiver<Arc<Generation>>, shared: &Weak<Shared>, lines: &Lines) {
    for generation in wanted {
        let mut logged = Vec::new();
        generation.replenish(&mut logged);
        lines(&generation, logged);
        if let Some(shared) = shared.upgrade() {
            // Under the lock, or a thread could look just before and sleep just after.
            drop(shared.lock());
            shared.wake.notify_all();
        }
    }
}
