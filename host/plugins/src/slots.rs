//! A slot: the place of one policy in the deployment, and what serves in it.
//! Keeps true: what serves changes by one assignment, so a call sees the old component or the new one, never neither.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

use super::failure::Failure;
use super::generation::{Generation, Identity};
use super::health::{Consequence, Health};
use super::stats::Stats;
use crate::config::{ChannelLimits, OnFailure, PluginLimits};
use crate::policy::World;

/// How often a slot that falls back says so.
const FALLBACK_TOLD_EVERY: Duration = Duration::from_secs(60);

/// `classifier`, `guard:NAME`, `continuation`, `continuation:AGENT`, or `channel:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotName {
    Classifier,
    Guard(String),
    Continuation(Option<String>),
    Channel(String),
}

impl SlotName {
    /// What a component may take where the configuration says nothing.
    pub(super) fn limits(&self) -> PluginLimits {
        match self {
            Self::Channel(_) => ChannelLimits::default().into(),
            Self::Classifier | Self::Guard(_) | Self::Continuation(_) => PluginLimits::default(),
        }
    }

    pub fn world(&self) -> World {
        match self {
            Self::Classifier => World::Classifier,
            Self::Guard(_) => World::Guard,
            Self::Continuation(_) => World::Continuation,
            Self::Channel(_) => World::Channel,
        }
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Classifier => f.write_str("classifier"),
            Self::Guard(name) => write!(f, "guard:{name}"),
            Self::Continuation(None) => f.write_str("continuation"),
            Self::Continuation(Some(agent)) => write!(f, "continuation:{agent}"),
            Self::Channel(name) => write!(f, "channel:{name}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no slot {given:?}; write `classifier`, `guard:NAME`, `continuation`, `continuation:AGENT` or `channel:NAME`"
)]
pub struct NoSuchSlot {
    pub given: String,
}

impl FromStr for SlotName {
    type Err = NoSuchSlot;

    fn from_str(text: &str) -> Result<Self, NoSuchSlot> {
        let is_name = |name: &str| {
            let letters = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
            !name.is_empty() && name.len() <= 64 && letters && !name.starts_with(['-', '_'])
        };
        match text.split_once(':') {
            None if text == "classifier" => Ok(Self::Classifier),
            None if text == "continuation" => Ok(Self::Continuation(None)),
            Some(("guard", name)) if is_name(name) && name.len() <= 40 => Ok(Self::Guard(name.to_owned())),
            Some(("continuation", agent)) if is_name(agent) => Ok(Self::Continuation(Some(agent.to_owned()))),
            Some(("channel", name)) if is_name(name) && name.len() <= 40 => Ok(Self::Channel(name.to_owned())),
            _ => Err(NoSuchSlot { given: text.chars().take(80).collect() }),
        }
    }
}

pub(super) struct Slot {
    pub(super) name: SlotName,
    on_failure: Mutex<OnFailure>,
    state: Mutex<State>,
    pub(super) stats: Mutex<Stats>,
    /// False until the first load has ended, well or not.
    settled: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    serving: Option<Arc<Generation>>,
    /// While the one that serves is on probation.
    previous: Option<Arc<Generation>>,
    health: Health,
    disabled: bool,
    problem: Option<String>,
    waiting: Option<Waiting>,
    fallbacks_untold: u64,
    fallback_told: Option<Duration>,
}

/// An update that wants more than the one it would replace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    pub source: String,
    pub more_grants: Vec<String>,
}

/// Why no component of the slot is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// The deployment binds none.
    Empty,
    Disabled,
    Quarantined,
    /// It could not be loaded.
    Failed(String),
}

impl Idle {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Empty => "no component is bound".into(),
            Self::Disabled => "it is disabled".into(),
            Self::Quarantined => "it is in quarantine; `chela plugin release` ends that".into(),
            Self::Failed(problem) => problem.clone(),
        }
    }
}

/// What the slot did about a failure.
pub(super) enum Response {
    /// Somebody swapped it meanwhile: ask again.
    Stale,
    Fallback,
    Quarantined,
    /// The version before serves again: ask it.
    RolledBack {
        to: Arc<Generation>,
    },
}

/// What people see of a slot.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub slot: String,
    /// One word, the same everywhere: `loading`, `serving`, `probation`, `quarantined`, `disabled`, `failed` or `empty`.
    pub state: &'static str,
    pub plugin: Option<Identity>,
    pub grants: Vec<String>,
    pub on_failure: Option<OnFailure>,
    pub problem: Option<String>,
    pub waiting: Option<Waiting>,
    /// What it is held to: what the deployment allows, or less where it asks for less.
    pub limits: Option<PluginLimits>,
    pub memory_bytes: usize,
    pub stats: serde_json::Value,
}

impl Slot {
    pub(super) fn new(name: SlotName, on_failure: OnFailure) -> Self {
        Self {
            name,
            on_failure: Mutex::new(on_failure),
            state: Mutex::new(State::default()),
            stats: Mutex::new(Stats::default()),
            settled: watch::Sender::new(false),
        }
    }

    pub(super) fn on_failure(&self) -> OnFailure {
        *self.on_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_on_failure(&self, on_failure: OnFailure) {
        *self.on_failure.lock().unwrap_or_else(PoisonError::into_inner) = on_failure;
    }

    /// Completes once the first load has ended.
    pub(super) async fn settled(&self) {
        // The sender lives as long as the slot.
        let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
    }

    pub(super) fn settle(&self) {
        self.settled.send_replace(true);
    }

    /// The component to ask.
    pub(super) fn component(&self) -> Result<Arc<Generation>, Idle> {
        let state = self.lock();
        match (&state.serving, &state.problem) {
            _ if state.disabled => Err(Idle::Disabled),
            _ if state.health.is_quarantined() => Err(Idle::Quarantined),
            (Some(generation), _) => Ok(generation.clone()),
            (None, Some(problem)) => Err(Idle::Failed(problem.clone())),
            (None, None) => Err(Idle::Empty),
        }
    }

    /// What is bound, whether or not it is asked.
    pub(super) fn bound(&self) -> Option<Arc<Generation>> {
        self.lock().serving.clone()
    }

    /// Puts a component in service; gives the one it replaces. On probation, that one stays ready to come back.
    pub(super) fn swap(&self, new: Arc<Generation>, probation_from: Option<Duration>) -> Option<Arc<Generation>> {
        let mut state = self.lock();
        let old = state.serving.replace(new);
        if let Some(unneeded) = state.previous.take() {
            unneeded.retire();
        }
        match (&old, probation_from) {
            (Some(_), Some(now)) => {
                state.health = Health::on_probation(now);
                state.previous = old.clone();
            }
            _ => {
                state.health = Health::default();
                old.iter().for_each(|old| old.retire());
            }
        }
        state.problem = None;
        state.disabled = false;
        old
    }

    /// Takes everything out; gives what served.
    pub(super) fn empty(&self) -> Option<Arc<Generation>> {
        self.replace_state(State::default())
    }

    fn replace_state(&self, new: State) -> Option<Arc<Generation>> {
        let old = std::mem::replace(&mut *self.lock(), new);
        for generation in old.serving.iter().chain(&old.previous) {
            generation.retire();
        }
        old.serving
    }

    pub(super) fn disable(&self) -> Option<Arc<Generation>> {
        self.replace_state(State { disabled: true, ..State::default() })
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.lock().problem.clone()
    }

    pub(super) fn refuse(&self, problem: String) {
        self.lock().problem = Some(problem);
    }

    pub(super) fn forget_problem(&self) {
        self.lock().problem = None;
    }

    pub(super) fn set_waiting(&self, waiting: Option<Waiting>) {
        self.lock().waiting = waiting;
    }

    pub(super) fn is_quarantined(&self) -> bool {
        self.lock().health.is_quarantined()
    }

    /// What it goes back to at a failure, while it is on probation.
    pub(super) fn is_on_probation(&self, generation: u64) -> bool {
        let state = self.lock();
        let ours = state.serving.as_ref().is_some_and(|serving| serving.id == generation);
        ours && state.health.is_on_probation() && state.previous.is_some()
    }

    pub(super) fn answered(&self, generation: u64, now: Duration) {
        let mut state = self.lock();
        let ours = state.serving.as_ref().is_some_and(|serving| serving.id == generation);
        if ours && state.health.answered(now) {
            // It has proven itself: the one before is not needed in memory any more.
            state.previous.take().iter().for_each(|previous| previous.retire());
        }
    }

    /// Ends a probation whose time is over, so that an idle slot does not hold two versions in memory.
    pub(super) fn expire(&self, now: Duration) {
        let mut state = self.lock();
        if state.health.expired(now) {
            state.previous.take().iter().for_each(|previous| previous.retire());
        }
    }

    pub(super) fn failed(&self, generation: u64, failure: &Failure, now: Duration) -> Response {
        let mut state = self.lock();
        if state.serving.as_ref().is_none_or(|serving| serving.id != generation) {
            return Response::Stale;
        }
        if !failure.is_its_own() {
            return Response::Fallback;
        }
        match state.health.failed(now) {
            Consequence::Fallback => Response::Fallback,
            Consequence::Quarantine => Response::Quarantined,
            Consequence::RollBack => match state.previous.take() {
                None => Response::Fallback,
                Some(previous) => {
                    let to = previous.clone();
                    if let Some(failed) = state.serving.replace(previous) {
                        state.problem = Some(format!(
                            "{} {} was rolled back: {failure}",
                            failed.identity.name, failed.identity.version
                        ));
                        failed.retire();
                    }
                    state.health = Health::default();
                    Response::RolledBack { to }
                }
            },
        }
    }

    /// How many fallbacks to tell of now; none if that was done lately.
    pub(super) fn fell_back(&self, now: Duration) -> Option<u64> {
        let mut state = self.lock();
        state.fallbacks_untold += 1;
        let lately = state.fallback_told.is_some_and(|then| now.saturating_sub(then) < FALLBACK_TOLD_EVERY);
        if lately {
            return None;
        }
        state.fallback_told = Some(now);
        Some(std::mem::take(&mut state.fallbacks_untold))
    }

    pub(super) fn view(&self) -> View {
        let settled = *self.settled.borrow();
        let state = self.lock();
        let word = match &state.serving {
            _ if state.disabled => "disabled",
            Some(_) if state.health.is_quarantined() => "quarantined",
            Some(_) if state.health.is_on_probation() && state.previous.is_some() => "probation",
            Some(_) => "serving",
            None if !settled => "loading",
            None if state.problem.is_some() => "failed",
            None => "empty",
        };
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner).to_value();
        View {
            slot: self.name.to_string(),
            state: word,
            plugin: state.serving.as_ref().map(|generation| generation.identity.clone()),
            grants: state.serving.as_ref().map(|generation| generation.grants.clone()).unwrap_or_default(),
            on_failure: matches!(self.name, SlotName::Guard(_)).then(|| self.on_failure()),
            problem: state.problem.clone(),
            waiting: state.waiting.clone(),
            limits: state.serving.as_ref().map(|generation| generation.limits.held),
            memory_bytes: state.serving.as_ref().map_or(0, |generation| generation.memory()),
            stats,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_slots_are_read_as_they_are_written() {
        for name in ["classifier", "guard:stop-guard", "continuation", "continuation:eden", "channel:discord"] {
            assert_eq!(name.parse::<SlotName>().expect("a slot").to_string(), name);
        }
        for bad in
            ["", "guard", "guard:", "guard:../x", "guard:A", "classifier:x", "channel:", "channel:Discord", "guard:-x"]
        {
            assert!(bad.parse::<SlotName>().is_err(), "{bad}");
        }
    }
}
