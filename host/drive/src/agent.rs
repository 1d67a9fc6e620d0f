//! An agent as far as it is kept at work.

use std::collections::BTreeMap;

use crate::counts::Counts;
use crate::poll::come;
use crate::rules::Rules;
use crate::step::{Facts, Layer, Send};
use crate::why::Why;

/// When the agent is looked at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    pub due: u64,
    pub layer: Layer,
}

/// What was last done about it, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    pub task: String,
    pub layer: Layer,
    pub at: u64,
    /// `sent`, `skip`, `backoff`, `failed` or `stopped`.
    pub what: &'static str,
    pub why: String,
}

/// The state of one agent. What of it is kept over restarts comes in by [`Agent::kept`] and goes out by [`crate::Effect::Keep`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// By task.
    pub(crate) counts: BTreeMap<String, Counts>,
    /// A person aborted it after so many messages and has not spoken since.
    pub(crate) aborted: Option<u64>,
    /// What of both is on record, or on its way there.
    pub(crate) saved: (BTreeMap<String, Counts>, Option<u64>),
    pub(crate) timer: Option<Timer>,
    /// Counts questions to the policy and sends, so that a late answer is known as such.
    pub(crate) round: u64,
    pub(crate) asked: Option<Asked>,
    pub(crate) sending: Option<Sending>,
    pub(crate) typing_until: u64,
    pub(crate) questions: u32,
    /// The end of the last run, or the last continuation.
    pub(crate) active_at: u64,
    pub(crate) ended_at: u64,
    /// When this life of the gateway began.
    pub(crate) begun_at: u64,
    /// The round has ended without a prompt: a change of the task opens another.
    pub(crate) waits_for_change: bool,
    /// The task in progress and its steps, as last seen.
    pub(crate) seen: Option<(String, u64)>,
    pub(crate) noted: Option<(String, Layer, Why)>,
    pub(crate) last: Option<Last>,
}

/// A question on its way to the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) round: u64,
    pub(crate) layer: Layer,
    pub(crate) task: String,
    pub(crate) session: String,
}

/// A prompt on its way into its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sending {
    pub(crate) send: Box<Send>,
    /// A person aborted the agent meanwhile.
    pub(crate) withdrawn: bool,
}

impl Agent {
    /// An agent as the record has it.
    pub fn kept(counts: BTreeMap<String, Counts>, aborted: Option<u64>) -> Self {
        Self { saved: (counts.clone(), aborted), counts, aborted, ..Self::default() }
    }

    pub fn timer(&self) -> Option<Timer> {
        self.timer
    }

    pub fn last(&self) -> Option<&Last> {
        self.last.as_ref()
    }

    pub fn counts(&self, task: &str) -> Option<&Counts> {
        self.counts.get(task)
    }

    /// Tasks of which something is kept.
    pub fn tasks(&self) -> impl Iterator<Item = &str> {
        self.counts.keys().map(String::as_str)
    }

    pub fn is_aborted(&self) -> bool {
        self.aborted.is_some()
    }

    /// From when on a poll asks about the task in progress; none while something else stands in the way.
    pub fn polled_from(&self, task: &Facts, rules: &Rules, now: u64) -> Option<u64> {
        let counts = self.counts.get(&task.id);
        let stopped = counts.is_some_and(|counts| counts.held || counts.stopped.is_some());
        let idle = self.active_at.max(self.begun_at).max(come(task.activity_at, now)).saturating_add(rules.idle_ms);
        let rests = counts.map_or(0, |counts| counts.resting_until);
        (rules.enabled && self.aborted.is_none() && self.questions == 0 && !stopped).then_some(idle.max(rests))
    }

    /// Whether a question or a prompt is on its way.
    pub fn is_busy(&self) -> bool {
        self.asked.is_some() || self.sending.is_some()
    }
}
