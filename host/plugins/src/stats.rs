//! What a slot's component has done since it took the slot: calls, their time, failures by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::failure::Failure;

/// Longer calls are counted as this long.
const MICROS_MAX: u64 = 60_000_000;

pub(super) struct Stats {
    calls: u64,
    fallbacks: u64,
    failures: BTreeMap<String, u64>,
    micros: Histogram<u64>,
}

impl Default for Stats {
    fn default() -> Self {
        let micros = Histogram::new_with_bounds(1, MICROS_MAX, 2).expect("bounds that hold");
        Self { calls: 0, fallbacks: 0, failures: BTreeMap::new(), micros }
    }
}

impl Stats {
    pub(super) fn called(&mut self, took: Duration) {
        self.calls += 1;
        self.micros.saturating_record(u64::try_from(took.as_micros()).unwrap_or(MICROS_MAX).max(1));
    }

    pub(super) fn failed(&mut self, failure: &Failure) {
        let kind = match failure {
            Failure::Limit { limit, .. } => format!("limit:{limit}"),
            other => other.kind().to_owned(),
        };
        *self.failures.entry(kind).or_default() += 1;
    }

    pub(super) fn fell_back(&mut self) {
        self.fallbacks += 1;
    }

    pub(super) fn to_value(&self) -> Value {
        json!({
            "calls": self.calls,
            "fallbacks": self.fallbacks,
            "failures": self.failures,
            "p50Micros": self.micros.value_at_quantile(0.5),
            "p99Micros": self.micros.value_at_quantile(0.99),
        })
    }
}
