//! What a deployment says about continuations.

/// Delays are in milliseconds; caps always have an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub enabled: bool,
    /// From the end of a run to the first look.
    pub self_driving_ms: u64,
    /// From the end of a run to the second, where the first could not act.
    pub event_based_ms: u64,
    /// What a run that summed its conversation up adds to the first.
    pub compaction_ms: u64,
    /// A person who typed so lately is let finish.
    pub typing_ms: u64,
    /// After so long without a run or a continuation the row begins anew.
    pub cooldown_ms: u64,
    /// How long an agent is idle before a poll asks about it.
    pub idle_ms: u64,
    /// A poll that was answered with `skip` asks the same question again after so long.
    pub skip_rest_ms: u64,
    pub in_a_row_max: u32,
    pub without_progress_max: u32,
    pub in_all_max: u32,
    pub per_day_max: u32,
    pub tokens_max: u64,
    /// From so many runs in a row with the same error on, it is waited.
    pub same_error_from: u32,
    /// With so many the task is blocked.
    pub same_error_max: u32,
    /// The first wait after errors; it doubles.
    pub backoff_ms: u64,
    pub backoff_ms_max: u64,
    /// Between two requests to unblock a task.
    pub unblock_ms: u64,
    pub unblock_max: u32,
    /// A task in progress without any activity for so long counts as dead.
    pub zombie_ms: u64,
    /// A dead task goes back to the backlog instead of being abandoned.
    pub zombie_to_backlog: bool,
}

const MINUTE: u64 = 60_000;

impl Default for Rules {
    fn default() -> Self {
        Self {
            enabled: true,
            self_driving_ms: 500,
            event_based_ms: 2_000,
            compaction_ms: 5_000,
            typing_ms: 10_000,
            cooldown_ms: MINUTE,
            idle_ms: 3 * MINUTE,
            skip_rest_ms: 30 * MINUTE,
            in_a_row_max: 20,
            without_progress_max: 30,
            in_all_max: 200,
            per_day_max: 100,
            tokens_max: 2_000_000,
            same_error_from: 3,
            same_error_max: 6,
            backoff_ms: MINUTE,
            backoff_ms_max: 30 * MINUTE,
            unblock_ms: 30 * MINUTE,
            unblock_max: 3,
            zombie_ms: 24 * 60 * MINUTE,
            zombie_to_backlog: false,
        }
    }
}

impl Rules {
    /// How long to wait after so many runs in a row with the same error.
    pub(crate) fn backoff(&self, same_error: u32) -> u64 {
        let doublings = same_error.saturating_sub(self.same_error_from).min(32);
        self.backoff_ms.saturating_mul(1 << doublings).min(self.backoff_ms_max)
    }
}
