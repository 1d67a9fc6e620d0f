//! What people see: when an agent is looked at next, what was counted, what was last done about it.

use serde_json::{Value, json};

use super::{Handle, poll_every_ms};
use crate::id::AgentId;

impl Handle {
    /// Whether a person has stopped an agent, and has not spoken to it since.
    pub fn is_stopped(&self, agent: &AgentId) -> bool {
        self.0.state().agents.get(agent).is_some_and(|known| known.is_aborted())
    }

    /// How an agent is kept at the task it works on.
    pub fn shown(&self, agent: &AgentId) -> Value {
        let shared = &self.0;
        let (rules, look) = (shared.rules(), shared.look(agent));
        let every = poll_every_ms(&shared.options.settings.current().config.continuation);
        let wall = |steady: u64| shared.options.clock.wall_of(steady);
        let state = shared.state();
        let Some(known) = state.agents.get(agent) else {
            return json!({ "enabled": rules.enabled, "aborted": false, "busy": false, "next": null, "counters": null, "last": null });
        };
        let polled = || {
            let from = known.polled_from(look.task.as_ref()?, &rules, shared.now())?;
            let further = from.saturating_sub(state.poll_at).div_ceil(every).saturating_mul(every);
            Some(json!({ "layer": "polling", "at": wall(state.poll_at.saturating_add(further)) }))
        };
        let timed = known.timer().map(|timer| json!({ "layer": timer.layer.as_str(), "at": wall(timer.due) }));
        let next = timed.or_else(polled);
        let counts = look.task.as_ref().and_then(|task| known.counts(&task.id));
        let counters = counts.map(|counts| {
            json!({
                "inARow": counts.in_a_row, "inARowMax": rules.in_a_row_max, "withoutProgress": counts.without_progress,
                "withoutProgressMax": rules.without_progress_max, "inAll": counts.in_all, "inAllMax": rules.in_all_max,
                "tokens": counts.tokens, "tokensMax": rules.tokens_max, "sameError": counts.same_error,
                "lastError": counts.last_error,
            })
        });
        let last = known.last().map(|last| {
            json!({
                "taskId": last.task, "layer": last.layer.as_str(), "at": wall(last.at), "action": last.what, "reason": last.why,
            })
        });
        json!({
            "enabled": rules.enabled, "aborted": known.is_aborted(), "busy": known.is_busy(), "next": next,
            "counters": counters, "last": last,
        })
    }
}
