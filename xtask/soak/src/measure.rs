//! What was measured, second by second, and what of it grew after the warm-up.

use std::time::Duration;

use serde::Serialize;

use crate::page::Page;

/// Resident memory may grow by so much after the warm-up.
const MEMORY_GROWTH_MAX: f64 = 10.0;
/// So many more of a hundred open files are those of connections that come and go, and of task files that were just replaced.
const FILES_GROWTH_MAX: f64 = 5.0;
/// The slowest hundredth may become so much slower after the warm-up, in percent and, where it is fast, in milliseconds.
const LATENCY_GROWTH_MAX: f64 = 50.0;
const LATENCY_NOISE_MS: f64 = 10.0;
/// So much of what was asked for must have been there.
const REACHED_MIN: f64 = 0.9;

#[derive(Clone, Debug)]
pub struct Sample {
    pub at: Duration,
    pub resident_mb: f64,
    pub open_files: u64,
    pub events_per_s: u64,
    /// How long each call took that was answered since the sample before.
    pub took: Vec<Duration>,
}

#[derive(Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    pub fn add(&mut self, sample: Sample) {
        self.0.push(sample);
    }
}

/// What became of what was begun.
#[derive(Debug, Default, Serialize)]
pub struct Ended {
    pub flows: u64,
    pub flows_lost: u64,
    pub flows_failed: u64,
    pub flows_unfinished: u64,
    pub runs: u64,
    pub runs_lost: u64,
    pub tasks_lost: u64,
    pub calls: u64,
    pub calls_refused: u64,
    pub chat_messages: u64,
    pub chat_unanswered: u64,
    pub chat_answered_twice: u64,
    pub events_refused: u64,
}

impl Ended {
    /// How much of it was lost, doubled or refused.
    fn wrong(&self) -> u64 {
        let flows = self.flows_lost + self.flows_failed + self.flows_unfinished;
        let chat = self.chat_unanswered + self.chat_answered_twice;
        flows + chat + self.runs_lost + self.tasks_lost + self.calls_refused + self.events_refused
    }
}

/// What is on the disk.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Kept {
    pub state_mb: f64,
    pub state_files: u64,
    pub journal_mb: f64,
}

#[derive(Debug, Default, Serialize)]
pub struct Figures {
    pub clean: bool,
    pub seconds: u64,
    pub warm_up_seconds: u64,
    pub events_per_s_wanted: u32,
    pub events_per_s: f64,
    pub resident_mb_begin: f64,
    pub resident_mb_end: f64,
    pub resident_mb_max: f64,
    pub resident_growth_percent: f64,
    pub open_files_begin: f64,
    pub open_files_end: f64,
    pub p99_ms_begin: f64,
    pub p99_ms_end: f64,
    pub p50_ms_begin: f64,
    pub p50_ms_end: f64,
    pub kills: u32,
    pub swaps_wanted: u64,
    pub swaps: u64,
    pub swaps_refused: u64,
    pub followers: usize,
    pub told: u64,
    pub told_out_of_order: u64,
    /// What the page in a browser held, where there is one.
    #[serde(flatten)]
    pub page: Option<Page>,
    #[serde(flatten)]
    pub ended: Ended,
    #[serde(flatten)]
    pub kept: Kept,
}

impl Figures {
    /// Compares the first fifth after the warm-up with the last.
    pub fn of(samples: &Samples, warm_up: Duration) -> Self {
        let measured: Vec<&Sample> = samples.0.iter().filter(|sample| sample.at >= warm_up).collect();
        let part = (measured.len() / 5).max(1).min(measured.len());
        let (begin, end) = (&measured[..part], &measured[measured.len() - part..]);
        let both = |value: fn(&Sample) -> f64| {
            let of = |samples: &[&Sample]| median(samples.iter().map(|sample| value(sample)).collect());
            (of(begin), of(end))
        };
        let slowest = |part: u32| {
            let of = |samples: &[&Sample]| {
                let took = samples.iter().flat_map(|sample| sample.took.iter().copied()).collect();
                rounded(percentile_ms(took, part))
            };
            (of(begin), of(end))
        };
        let memory = both(|sample| sample.resident_mb);
        let files = both(|sample| sample.open_files as f64);
        let (p50, p99) = (slowest(50), slowest(99));
        let events = measured.iter().map(|sample| sample.events_per_s as f64).sum::<f64>();
        let most = measured.iter().map(|sample| sample.resident_mb).fold(0.0, f64::max);
        Self {
            seconds: samples.0.last().map_or(0, |last| last.at.as_secs()),
            warm_up_seconds: warm_up.as_secs(),
            events_per_s: rounded(events / measured.len().max(1) as f64),
            resident_mb_begin: rounded(memory.0),
            resident_mb_end: rounded(memory.1),
            resident_mb_max: rounded(most),
            resident_growth_percent: rounded((memory.1 / memory.0.max(1.0) - 1.0) * 100.0),
            open_files_begin: files.0,
            open_files_end: files.1,
            p99_ms_begin: p99.0,
            p99_ms_end: p99.1,
            p50_ms_begin: p50.0,
            p50_ms_end: p50.1,
            ..Self::default()
        }
    }

    /// What is not as it must be, in words; nothing where it was clean.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |is: bool, said: String| faults.extend(is.then_some(said));
        let latency_max =
            (self.p99_ms_begin * (1.0 + LATENCY_GROWTH_MAX / 100.0)).max(self.p99_ms_begin + LATENCY_NOISE_MS);
        fault(
            self.resident_growth_percent > MEMORY_GROWTH_MAX,
            format!("memory grew by {} %, and may by {MEMORY_GROWTH_MAX} %", self.resident_growth_percent),
        );
        fault(
            self.open_files_end > self.open_files_begin * (1.0 + FILES_GROWTH_MAX / 100.0),
            format!("open files grew from {} to {}", self.open_files_begin, self.open_files_end),
        );
        fault(
            self.p99_ms_end > latency_max,
            format!("p99 went from {} ms to {} ms", self.p99_ms_begin, self.p99_ms_end),
        );
        let least = f64::from(self.events_per_s_wanted) * REACHED_MIN;
        fault(self.events_per_s < least, format!("only {} events a second", self.events_per_s));
        let least = (self.swaps_wanted as f64 * REACHED_MIN).floor() as u64;
        fault(self.swaps < least, format!("only {} swaps of {}", self.swaps, self.swaps_wanted));
        fault(self.swaps_refused > 0, format!("{} swaps were refused", self.swaps_refused));
        fault(self.told_out_of_order > 0, format!("{} events were told out of order", self.told_out_of_order));
        if let Some(page) = self.page.filter(Page::grew) {
            fault(true, format!("the page went from {} to {} MB", page.page_heap_mb_begin, page.page_heap_mb_end));
        }
        fault(self.ended.wrong() > 0, format!("something was lost, doubled or refused: {:?}", self.ended));
        faults
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The value that so many of a hundred stay below.
pub fn percentile_ms(mut took: Vec<Duration>, part: u32) -> f64 {
    took.sort();
    let at = (took.len() * part as usize / 100).min(took.len().saturating_sub(1));
    took.get(at).map_or(0.0, |took| took.as_secs_f64() * 1_000.0)
}

pub fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(resident: fn(u64) -> f64, files: fn(u64) -> u64, took_ms: fn(u64) -> u64) -> Figures {
        let mut samples = Samples::default();
        for second in 0..100 {
            samples.add(Sample {
                at: Duration::from_secs(second),
                resident_mb: resident(second),
                open_files: files(second),
                events_per_s: 100,
                took: vec![Duration::from_millis(took_ms(second)); 60],
            });
        }
        Figures { events_per_s_wanted: 100, ..Figures::of(&samples, Duration::from_secs(30)) }
    }

    #[test]
    fn growth_is_told_from_noise_and_from_the_warm_up() {
        let check = |resident: fn(u64) -> f64, clean: bool| {
            let figures = samples(resident, |_| 40, |_| 2);
            assert_eq!(figures.faults().is_empty(), clean, "{figures:?}");
            assert_eq!((figures.events_per_s, figures.seconds), (100.0, 99));
        };
        check(|_| 80.0, true);
        check(|second| 20.0 + second.min(30) as f64, true);
        check(|second| 80.0 + (second % 7) as f64, true);
        check(|second| if second == 99 { 900.0 } else { 80.0 }, true);
        check(|second| 80.0 + second as f64 * 0.2, false);
    }

    #[test]
    fn files_that_stay_open_and_calls_that_slow_down_are_faults() {
        let check = |files: fn(u64) -> u64, took_ms: fn(u64) -> u64, said: Option<&str>| {
            let faults = samples(|_| 80.0, files, took_ms).faults();
            assert_eq!(faults.len(), usize::from(said.is_some()), "{faults:?}");
            assert!(said.is_none_or(|said| faults[0].contains(said)), "{faults:?}");
        };
        check(|second| 40 + second % 3, |second| 5 + second % 4, None);
        check(|second| 40 + second / 10, |_| 5, Some("open files"));
        check(|_| 40, |second| if second > 80 { 31 } else { 20 }, Some("p99"));
        check(|_| 40, |second| if second > 80 { 14 } else { 5 }, None);
    }

    #[test]
    fn what_was_not_reached_or_was_lost_is_a_fault() {
        let good = || samples(|_| 80.0, |_| 40, |_| 2);
        let check = |figures: Figures, said: &str| {
            let faults = figures.faults();
            assert!(faults.len() == 1 && faults[0].contains(said), "{faults:?}");
        };
        check(Figures { events_per_s_wanted: 120, ..good() }, "events a second");
        check(Figures { swaps_wanted: 10, swaps: 8, ..good() }, "swaps of 10");
        check(Figures { swaps_refused: 1, ..good() }, "refused");
        check(Figures { told_out_of_order: 1, ..good() }, "out of order");
        check(Figures { ended: Ended { tasks_lost: 1, ..Ended::default() }, ..good() }, "lost");
        check(Figures { ended: Ended { chat_answered_twice: 1, ..Ended::default() }, ..good() }, "doubled");
    }

    #[test]
    fn the_slowest_hundredth_counts() {
        let took = || (1..=100).map(Duration::from_millis).collect();
        assert_eq!((percentile_ms(took(), 99), percentile_ms(took(), 50)), (100.0, 51.0));
        assert_eq!(percentile_ms(Vec::new(), 99), 0.0);
    }
}
