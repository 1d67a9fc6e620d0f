//! Open tasks as a board shows them: the latest few of each place, and how many there are. Costs one look at each and no disk.

use std::sync::{Arc, PoisonError};

use super::{Handle, View};

/// The tasks of one place, the latest activity first.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    pub total: usize,
    pub views: Vec<Arc<View>>,
}

impl Handle {
    /// Puts every open task where `place` says, and keeps `limit` of each place after the first `from`.
    pub fn board<const PLACES: usize>(
        &self,
        from: usize,
        limit: usize,
        mut place: impl FnMut(&Arc<View>) -> Option<usize>,
    ) -> [Placed; PLACES] {
        let mut placed: [Placed; PLACES] = std::array::from_fn(|_| Placed::default());
        let kept = from.saturating_add(limit);
        for (_, agent) in self.agents() {
            for view in agent.shown.read().unwrap_or_else(PoisonError::into_inner).values() {
                let Some(at) = place(view).and_then(|at| placed.get_mut(at)) else { continue };
                at.total += 1;
                let key = |view: &View| (view.task.last_activity.clone(), view.id.clone());
                let is_last = at.views.len() == kept && at.views.last().is_none_or(|last| key(last) >= key(view));
                if !is_last {
                    let index = at.views.partition_point(|other| key(other) > key(view));
                    at.views.insert(index, view.clone());
                    at.views.truncate(kept);
                }
            }
        }
        for one in &mut placed {
            one.views.drain(..from.min(one.views.len()));
        }
        placed
    }
}
