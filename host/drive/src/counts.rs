//! What is kept of a task's continuations, over restarts.

use serde::{Deserialize, Serialize};

use crate::rules::Rules;
use crate::step::{Layer, Stop};

const DAY_MS: u64 = 86_400_000;
/// Of an error or an answer no more is kept.
pub(crate) const WORDS_MAX: usize = 300;

/// What a task's continuations have come to so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Counts {
    /// The number of the last prompt: the next one's key is made of it, so it is never taken back.
    pub sent: u64,
    pub in_a_row: u32,
    pub without_progress: u32,
    pub in_all: u32,
    pub today: u32,
    /// The day that `today` counts, since 1970 in UTC.
    pub day: u64,
    /// Of the runs that ended while it was in progress.
    pub tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued_at: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// Runs in a row that ended with that error.
    pub same_error: u32,
    /// What the policy answered before, where that was not a prompt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub earlier: String,
    /// A poll does not ask before.
    pub resting_until: u64,
    /// The last run ended with what no further run mends: nothing until the task or the configuration changes.
    pub held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// The steps as they were when their progress was last looked at.
    pub mark: u64,
    /// When whoever can unblock it was last asked to.
    pub requested_at: u64,
    /// When it was told that it will be abandoned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zombie_at: Option<u64>,
    /// The last prompt, until its event has reached the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untold: Option<Layer>,
}

/// A task that was blocked here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    pub stop: Stop,
    pub reason: String,
    /// It has been seen out of progress since: what is in progress again was resumed.
    pub seen: bool,
}

impl Counts {
    /// Counted from the time on, so that a task of the same name, before or elsewhere, has had no prompt of these numbers.
    pub(crate) fn begun(now: u64) -> Self {
        Self { sent: now, ..Self::default() }
    }

    /// The steps changed, or something was done.
    pub(crate) fn progressed(&mut self) {
        self.in_a_row = 0;
        self.without_progress = 0;
        self.resting_until = 0;
        self.earlier.clear();
    }

    /// Whoever resumes a task that was stopped wants it tried again, whole.
    pub(crate) fn resumed(&mut self) {
        *self = Self { sent: self.sent, mark: self.mark, untold: self.untold, ..Self::default() };
    }

    /// Times that have not come tell that the clock was set back while nobody served: what waits for them would wait for nothing.
    pub(crate) fn set_back(&mut self, now: u64) {
        let ahead = |at: Option<u64>| at.is_some_and(|at| at > now);
        if ahead(self.continued_at) || ahead(self.zombie_at) || self.requested_at > now {
            self.resting_until = 0;
            self.requested_at = self.requested_at.min(now);
            self.continued_at = self.continued_at.map(|at| at.min(now));
            self.zombie_at = self.zombie_at.map(|at| at.min(now));
        }
    }

    /// One more prompt.
    pub(crate) fn continued(&self, layer: Layer, now: u64) -> Self {
        let (day, today) = (now / DAY_MS, self.today_at(now));
        Self {
            sent: self.sent + 1,
            in_a_row: self.in_a_row + 1,
            without_progress: self.without_progress + 1,
            in_all: self.in_all + 1,
            today: today + 1,
            day,
            continued_at: Some(now),
            earlier: String::new(),
            resting_until: 0,
            zombie_at: if layer == Layer::Zombie { Some(now) } else { self.zombie_at },
            untold: Some(layer),
            ..self.clone()
        }
    }

    pub(crate) fn today_at(&self, now: u64) -> u32 {
        if now / DAY_MS == self.day { self.today } else { 0 }
    }

    /// Why there may be no further prompt; none while there may.
    pub(crate) fn cap(&self, now: u64, rules: &Rules) -> Option<String> {
        let today = self.today_at(now);
        if self.in_a_row >= rules.in_a_row_max {
            return Some(format!("{} continuations in a row came to no progress", self.in_a_row));
        }
        if self.without_progress >= rules.without_progress_max {
            return Some(format!("{} continuations came to no progress", self.without_progress));
        }
        if self.in_all >= rules.in_all_max {
            return Some(format!("it was continued {} times, which is as often as a task may be", self.in_all));
        }
        if today >= rules.per_day_max {
            return Some(format!("it was continued {today} times today, which is as often as a task may be on a day"));
        }
        if self.tokens >= rules.tokens_max {
            return Some(format!("its runs took {} of {} tokens", self.tokens, rules.tokens_max));
        }
        None
    }
}

/// The first characters of what somebody else wrote.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(WORDS_MAX).collect()
}
