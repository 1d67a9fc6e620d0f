//! Agents that stop with work left are told to go on: when, how often and by whom is decided by `chela_drive::step`, with what the
//! deployment's policy answers. Owns the counters of continuations. Keeps true: a prompt and its counters are one transaction; a prompt goes
//! out only while nothing else of its agent runs or waits. Never: decides what a prompt says, or whether there is one.

mod act;
mod look;
mod service;
mod shown;
mod store;
mod tell;
mod unblock;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chela_drive::{Agent, Effect, Input, Rules, step};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::config::{Continuation, Zombies};
use crate::humans;
use crate::id::AgentId;
use crate::jobs;
use crate::journal;
use crate::metrics::Metrics;
use crate::plugins;
use crate::session_key::SessionKey;
use crate::sessions;
use crate::settings;
use crate::tasks;

pub use store::{Found, read};

/// Questions to the policy at once: fewer than may wait for one component, so that none is turned away.
const ASKED_AT_ONCE: usize = 64;
/// How long what is under way may take to let go when the gateway stops.
const LET_GO: Duration = Duration::from_secs(2);

/// What a room is built from.
pub struct Options {
    pub clock: Clock,
    pub bus: Bus,
    pub metrics: Metrics,
    pub settings: settings::Handle,
    pub journal: journal::Handle,
    pub plugins: plugins::Handle,
    pub tasks: tasks::Handle,
    pub sessions: sessions::Handle,
    pub jobs: jobs::Handle,
    pub humans: humans::Handle,
}

/// The way to what keeps agents at work; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    options: Options,
    state: Mutex<State>,
    /// The next due time may be another.
    wake: Notify,
    asking: Semaphore,
    under_way: TaskTracker,
}

#[derive(Default)]
struct State {
    agents: HashMap<AgentId, Agent>,
    /// Every armed timer, the next first.
    timers: BTreeSet<(u64, AgentId)>,
    /// When the next poll is.
    poll_at: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In steady time, as everything that `chela_drive` is told: a clock that is set ends no wait and kills no task.
    fn now(&self) -> u64 {
        self.options.clock.steady().0
    }

    fn rules(&self) -> Rules {
        rules(&self.options.settings.current().config.continuation)
    }

    /// Lets something happen to an agent and does what follows. What is to be kept is asked of the journal in the order of steps.
    fn give(self: &Arc<Self>, agent: &AgentId, input: Input) -> Option<journal::Awaited> {
        let rules = self.rules();
        let now = self.now();
        let (effects, kept) = {
            let mut state = self.state();
            let known = state.agents.remove(agent).unwrap_or_default();
            let before = known.timer();
            let (next, effects) = step(known, input, now, &rules);
            if before != next.timer() {
                before.map(|timer| state.timers.remove(&(timer.due, agent.clone())));
                state.timers.extend(next.timer().map(|timer| (timer.due, agent.clone())));
                self.wake.notify_one();
            }
            state.agents.insert(agent.clone(), next);
            let kept = store::keep(&self.options.journal, agent, &effects);
            (effects, kept)
        };
        effects.into_iter().for_each(|effect| self.act(agent, effect));
        kept
    }

    fn act(self: &Arc<Self>, agent: &AgentId, effect: Effect) {
        let (shared, agent) = (self.clone(), agent.clone());
        match effect {
            Effect::Keep { .. } | Effect::KeepAborted(_) | Effect::Forget { .. } => {}
            Effect::Note { task, layer, why } => shared.note(&agent, &task, layer, why),
            Effect::TellBackoff { task, layer, ms, reason } => shared.tell_backoff(&agent, &task, layer, ms, &reason),
            Effect::TellSent { task, layer, counts } => shared.tell_sent(&agent, task, layer, &counts),
            Effect::Ask(ask) => drop(self.under_way.spawn(async move { shared.ask(agent, ask).await })),
            Effect::Send(send) => drop(self.under_way.spawn(async move { shared.send(agent, *send).await })),
            Effect::Withdraw { session, key } => {
                drop(self.under_way.spawn(async move { shared.withdraw(&session, &key).await }));
            }
            Effect::Stop { task, stop, reason } => {
                drop(self.under_way.spawn(async move { shared.stop(agent, task, stop, reason).await }));
            }
            Effect::GiveUp { task, to_backlog, idle_ms } => {
                drop(self.under_way.spawn(async move { shared.give_up(agent, task, to_backlog, idle_ms).await }));
            }
            Effect::Unblock { task, stage } => {
                drop(self.under_way.spawn(async move { shared.unblock(agent, task, stage).await }));
            }
        }
    }
}

/// What the configuration means. A 0 is the default.
fn rules(config: &Continuation) -> Rules {
    let plain = Rules::default();
    let or = |value: u64, plain: u64| if value == 0 { plain } else { value };
    let cap = |value: u32, plain: u32| if value == 0 { plain } else { value };
    let Continuation { enabled, delays, caps, errors, poll } = config;
    let from = cap(errors.back_off_from, plain.same_error_from);
    Rules {
        enabled: *enabled,
        self_driving_ms: or(delays.self_driving_ms, plain.self_driving_ms),
        event_based_ms: or(delays.event_based_ms, plain.event_based_ms),
        compaction_ms: or(delays.compaction_ms, plain.compaction_ms),
        typing_ms: or(delays.typing_ms, plain.typing_ms),
        cooldown_ms: or(delays.cooldown_ms, plain.cooldown_ms),
        idle_ms: or(poll.idle_ms, plain.idle_ms),
        skip_rest_ms: plain.skip_rest_ms,
        in_a_row_max: cap(caps.in_a_row, plain.in_a_row_max),
        without_progress_max: cap(caps.without_progress, plain.without_progress_max),
        in_all_max: cap(caps.in_all, plain.in_all_max),
        per_day_max: cap(caps.per_day, plain.per_day_max),
        tokens_max: or(caps.tokens, plain.tokens_max),
        same_error_from: from,
        same_error_max: cap(errors.block_at, plain.same_error_max).max(from),
        backoff_ms: or(errors.backoff_ms, plain.backoff_ms),
        backoff_ms_max: or(errors.backoff_max_ms, plain.backoff_ms_max),
        unblock_ms: or(poll.unblock_minutes.saturating_mul(60_000), plain.unblock_ms),
        unblock_max: plain.unblock_max,
        zombie_ms: or(poll.zombie_hours.saturating_mul(3_600_000), plain.zombie_ms),
        zombie_to_backlog: poll.zombies == Zombies::Backlog,
    }
}

fn poll_every_ms(config: &Continuation) -> u64 {
    match config.poll.every_ms {
        0 => 120_000,
        ms => ms,
    }
}

/// Starts the room: what the journal has is taken up, and the future looks after everything until `stop`.
pub fn start(options: Options, found: Found, stop: CancellationToken) -> (Handle, impl Future<Output = ()> + Send) {
    let state = State { agents: found.agents, ..State::default() };
    let shared = Arc::new(Shared {
        options,
        state: Mutex::new(state),
        wake: Notify::new(),
        asking: Semaphore::new(ASKED_AT_ONCE),
        under_way: TaskTracker::new(),
    });
    // Before anything runs: what happens from now on is heard.
    let service = service::Service::new(shared.clone());
    (Handle(shared), service.run(stop))
}

impl Handle {
    /// A person stops an agent: nothing is continued until that person, or another, speaks to it. Durable when this answers.
    pub async fn aborted(&self, session: &SessionKey) -> Result<(), journal::Error> {
        if session.is_subagent() {
            return Ok(());
        }
        let order = self.0.options.sessions.order();
        match self.0.give(&session.agent, Input::Aborted { order }) {
            Some(kept) => kept.done().await.map(drop),
            None => Ok(()),
        }
    }

    /// A person types to an agent.
    pub fn typed(&self, agent: &AgentId) {
        self.0.give(agent, Input::Typed);
    }

    /// Lets what is under way end.
    pub async fn stop(&self) {
        self.0.under_way.close();
        if tokio::time::timeout(LET_GO, self.0.under_way.wait()).await.is_err() {
            tracing::warn!(left = self.0.under_way.len(), "continuations did not let go");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_without_numbers_or_with_zeros_has_every_cap() {
        assert_eq!(rules(&Continuation::default()), Rules::default());
        let zeros = r#"{
            "delays": {"selfDrivingMs": 0, "eventBasedMs": 0, "compactionMs": 0, "typingMs": 0, "cooldownMs": 0},
            "caps": {"inARow": 0, "withoutProgress": 0, "inAll": 0, "perDay": 0, "tokens": 0},
            "errors": {"backOffFrom": 0, "blockAt": 0, "backoffMs": 0, "backoffMaxMs": 0},
            "poll": {"everyMs": 0, "idleMs": 0, "unblockMinutes": 0, "zombieHours": 0}
        }"#;
        let config: Continuation = serde_json::from_str(zeros).expect("good");
        assert_eq!((rules(&config), poll_every_ms(&config)), (Rules::default(), 120_000));
    }
}
