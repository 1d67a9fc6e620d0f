//! What came of trying a version, kept for the page that shows it: rules, configurations and files do not fit into an address.
//! Keeps true: a few of them, the oldest go first; a restart forgets all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use chela_page::Tried;

/// Trials that are kept.
const KEPT: usize = 8;

/// A trial, and what was typed for it: it stands in the editor again beside its outcome.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    pub tried: Tried,
    pub text: String,
    pub rules: Option<String>,
    pub config: Option<String>,
}

#[derive(Default)]
pub(super) struct Trials(Mutex<VecDeque<(String, Arc<Trial>)>>);

impl Trials {
    pub(super) fn keep(&self, id: String, trial: Trial) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((id, Arc::new(trial)));
        kept.truncate(KEPT);
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Trial>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == id).map(|(_, trial)| trial.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_are_kept() {
        let trials = Trials::default();
        for nth in 0..=KEPT {
            trials.keep(nth.to_string(), Trial { text: format!("text {nth}"), ..Trial::default() });
        }
        assert!(trials.get("0").is_none() && trials.get("none").is_none());
        assert_eq!(trials.get("1").map(|trial| trial.text.clone()).as_deref(), Some("text 1"));
    }
}
