//! What became of every message: how often an agent heard it, by the transcripts, and how often it was answered, by the network.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use chela::layout::StateDir;
use serde_json::Value;

use super::stream::{Numbers, number_in};

#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) messages: u64,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// Of the lost: that no agent heard.
    unheard: u64,
    /// Of the doubled: that an agent heard again.
    heard_again: u64,
}

pub(super) fn read(dir: &StateDir, said: &Numbers, answers: &BTreeMap<u64, usize>) -> Result<Outcome> {
    let heard = heard(dir)?;
    let mut outcome = Outcome { messages: said.len() as u64, ..Outcome::default() };
    for (id, number) in said {
        let times = |count: Option<&usize>| count.copied().unwrap_or(0) as u64;
        let (by_agent, answered) = (times(heard.get(number)), times(answers.get(id)));
        outcome.lost += u64::from(by_agent == 0 || answered == 0);
        outcome.unheard += u64::from(by_agent == 0);
        outcome.doubled += by_agent.saturating_sub(1) + answered.saturating_sub(1);
        outcome.heard_again += by_agent.saturating_sub(1);
    }
    Ok(outcome)
}

/// How often each message stands in a transcript.
fn heard(dir: &StateDir) -> Result<BTreeMap<u64, usize>> {
    let mut heard = BTreeMap::new();
    let mut left = vec![dir.sessions()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                std::fs::read_dir(&path)?
                    .map(|entry| entry.map(|entry| entry.path()))
                    .collect::<Result<Vec<_>, _>>()?,
            );
            continue;
        }
        if path.extension().is_none_or(|ending| ending != "jsonl") {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).with_context(|| format!("no row in {}", path.display()))?;
            if row["role"] == "user"
                && let Some(number) = number_in(&row["content"].to_string())
            {
                *heard.entry(number).or_default() += 1;
            }
        }
    }
    Ok(heard)
}
