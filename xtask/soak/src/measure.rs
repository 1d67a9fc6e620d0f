//! What was measured, second by second, and what of it grew after the warm-up.

use std::time::Duration;

use serde::Serialize;

/// Resident memory may grow by so much after the warm-up.
const MEMORY_GROWTH_MAX: f64 = 10.0;
/// So many open files more or less are those of connections that come and go.
const FILES_GROWTH_MAX: f64 = 8.0;

#[derive(Clone, Debug)]
pub struct Sample {
    pub at: Duration,
    pub resident_mb: f64,
    pub open_files: u64,
    pub events_per_s: u64,
    pub p99_ms: f64,
}

#[derive(Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    pub fn add(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// What became of what was begun.
#[derive(Debug, Default, Serialize)]
pub struct Ended {
    pub flows: u64,
    pub flows_lost: u64,
    pub flows_failed: u64,
    pub flows_unfinished: u64,
    pub tasks: u64,
    pub calls: u64,
    pub calls_refused: u64,
    pub chat_messages: u64,
    pub chat_answers: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct Figures {
    pub seconds: u64,
    pub warm_up_seconds: u64,
    pub events_per_s: f64,
    pub resident_mb_begin: f64,
    pub resident_mb_end: f64,
    pub resident_growth_percent: f64,
    pub open_files_begin: f64,
    pub open_files_end: f64,
    pub p99_ms_begin: f64,
    pub p99_ms_end: f64,
    pub kills: u32,
    pub swaps: u64,
    pub swaps_refused: u64,
    pub followers: usize,
    pub told: u64,
    pub told_out_of_order: u64,
    #[serde(flatten)]
    pub ended: Ended,
}

impl Figures {
    /// Compares the first fifth after the warm-up with the last.
    pub fn of(samples: &Samples, warm_up: Duration) -> Self {
        let measured: Vec<&Sample> = samples.0.iter().filter(|sample| sample.at >= warm_up).collect();
        let part = (measured.len() / 5).max(1);
        let of = |value: fn(&Sample) -> f64| {
            let begin = measured.iter().take(part).map(|sample| value(sample)).collect();
            let end = measured.iter().rev().take(part).map(|sample| value(sample)).collect();
            (median(begin), median(end))
        };
        let memory = of(|sample| sample.resident_mb);
        let files = of(|sample| sample.open_files as f64);
        let latency = of(|sample| sample.p99_ms);
        let events = measured.iter().map(|sample| sample.events_per_s as f64).sum::<f64>();
        Self {
            seconds: samples.0.last().map_or(0, |last| last.at.as_secs()),
            warm_up_seconds: warm_up.as_secs(),
            events_per_s: rounded(events / measured.len().max(1) as f64),
            resident_mb_begin: rounded(memory.0),
            resident_mb_end: rounded(memory.1),
            resident_growth_percent: rounded((memory.1 / memory.0.max(1.0) - 1.0) * 100.0),
            open_files_begin: files.0,
            open_files_end: files.1,
            p99_ms_begin: rounded(latency.0),
            p99_ms_end: rounded(latency.1),
            ..Self::default()
        }
    }

    /// Nothing was lost, and what must not grow did not.
    pub fn is_clean(&self) -> bool {
        let ended = &self.ended;
        ended.flows_lost + ended.flows_failed + ended.flows_unfinished + self.swaps_refused + self.told_out_of_order
            == 0
            && ended.chat_answers == ended.chat_messages
            && self.resident_growth_percent <= MEMORY_GROWTH_MAX
            && self.open_files_end <= self.open_files_begin + FILES_GROWTH_MAX
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The value that all but a hundredth stay below.
pub fn p99_ms(mut took: Vec<Duration>) -> f64 {
    took.sort();
    let at = (took.len() * 99 / 100).min(took.len().saturating_sub(1));
    took.get(at).map_or(0.0, |took| took.as_secs_f64() * 1_000.0)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_noise_and_from_the_warm_up() {
        let check = |resident: fn(u64) -> f64, clean: bool| {
            let mut samples = Samples::default();
            for second in 0..100 {
                let at = Duration::from_secs(second);
                let resident_mb = resident(second);
                samples.add(Sample { at, resident_mb, open_files: 40, events_per_s: 100, p99_ms: 2.0 });
            }
            let figures = Figures::of(&samples, Duration::from_secs(30));
            assert_eq!(figures.is_clean(), clean, "{figures:?}");
            assert_eq!((figures.events_per_s, figures.seconds), (100.0, 99));
        };
        check(|_| 80.0, true);
        check(|second| 20.0 + second.min(30) as f64, true);
        check(|second| 80.0 + (second % 7) as f64, true);
        check(|second| if second == 99 { 900.0 } else { 80.0 }, true);
        check(|second| 80.0 + second as f64 * 0.2, false);
    }

    #[test]
    fn the_slowest_hundredth_counts() {
        let took = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(p99_ms(took), 100.0);
        assert_eq!(p99_ms(Vec::new()), 0.0);
    }
}
