//! Replies that are waited for before their runs are there: none is given up while its message is on its way to its session.

use super::Shared;
use super::store::Reply;

/// Messages on their way, until this is dropped.
#[must_use]
pub(super) struct Expected<'a> {
    shared: &'a Shared,
    runs: Vec<String>,
}

impl Shared {
    /// What these runs will say goes to where they were asked for. To be called before they can be there: one may end before its caller goes on.
    pub(super) fn expect(&self, replies: impl IntoIterator<Item = Reply>) -> Expected<'_> {
        let mut state = self.state();
        let mut runs = Vec::new();
        for reply in replies {
            runs.push(reply.run.clone());
            state.coming.insert(reply.run.clone());
            state.replies.insert(reply.run.clone(), reply);
        }
        Expected { shared: self, runs }
    }

    /// Whether a run is not there because its message is still on its way.
    pub(super) fn is_coming(&self, run: &str) -> bool {
        self.state().coming.contains(run)
    }
}

impl Expected<'_> {
    /// The messages were not taken: there is nothing to wait for.
    pub(super) fn no_more(&self) {
        let mut state = self.shared.state();
        self.runs.iter().for_each(|run| drop(state.replies.remove(run)));
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        for run in &self.runs {
            state.coming.remove(run);
        }
    }
}
