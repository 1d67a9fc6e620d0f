//! What the gateway counts about itself, in Prometheus' text format.
//! Keeps true: labels come from our own tables, never from a request, so their number is bounded.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
pub use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::clock::{Clock, Timestamp};

/// A label whose value is one of our own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub &'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Request {
    pub listener: Word,
    /// The route's pattern, or `other`.
    pub route: Word,
    pub status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Listener {
    pub listener: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Refusal {
    pub reason: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    pub outcome: Word,
}

/// A slot's name comes from the configuration, which bounds their number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PluginCall {
    pub slot: String,
    pub outcome: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Layer {
    pub layer: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct JobStatus {
    pub status: Word,
}

/// A channel's name comes from the configuration or an operator, which bounds their number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ChannelMessage {
    pub channel: String,
    pub what: Word,
}

/// A slot's name comes from the configuration, which bounds their number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Slot {
    pub slot: String,
}

/// How long things of one kind take.
#[derive(Clone)]
pub struct Timed<L>(Family<L, Histogram, fn() -> Histogram>);

impl<L: Clone + Eq + std::hash::Hash> Default for Timed<L> {
    fn default() -> Self {
        // From a call of a component to a request that waits for an agent.
        const BOUNDS: [f64; 14] =
            [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0];
        Self(Family::new_with_constructor(|| Histogram::new(BOUNDS)))
    }
}

impl<L: Clone + Eq + std::hash::Hash> Timed<L> {
    pub fn took(&self, label: &L, time: Duration) {
        self.0.get_or_create(label).observe(time.as_secs_f64());
    }
}

/// What is not counted but looked at when somebody asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Runs under way.
    pub runs: usize,
    /// Connections that outlive their request: WebSockets, and streams of answers.
    pub sockets: usize,
    /// Free bytes of the disk below the state directory.
    pub disk_free: Option<u64>,
    /// When the certificate of the listeners ends.
    pub certificate_until: Option<Timestamp>,
    /// Spans that no collector got.
    pub spans_dropped: u64,
}

/// Every counter, cheap to clone and to bump.
#[derive(Clone, Default)]
pub struct Metrics {
    pub requests: Family<Request, Counter>,
    pub connections: Family<Listener, Gauge>,
    pub refusals: Family<Refusal, Counter>,
    pub events: Counter,
    pub events_failed: Counter,
    pub events_missed: Counter,
    pub config_reloads: Family<Outcome, Counter>,
    pub plugin_calls: Family<PluginCall, Counter>,
    pub jobs: Family<JobStatus, Gauge>,
    pub job_retries: Counter,
    pub oldest_job: Gauge,
    pub channel_messages: Family<ChannelMessage, Counter>,
    pub continuations: Family<Layer, Counter>,
    pub continuations_blocked: Family<Refusal, Counter>,
    pub request_times: Timed<Listener>,
    pub plugin_times: Timed<Slot>,
}

impl Metrics {
    pub fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Refusal { reason: Word(reason) }).inc();
    }

    /// An agent was told to go on.
    pub fn continued(&self, layer: &'static str) {
        self.continuations.get_or_create(&Layer { layer: Word(layer) }).inc();
    }

    /// A task was blocked instead.
    pub fn continuation_blocked(&self, reason: &'static str) {
        self.continuations_blocked.get_or_create(&Refusal { reason: Word(reason) }).inc();
    }

    /// How many jobs have this status.
    pub fn jobs_in(&self, status: &'static str) -> Gauge {
        self.jobs.get_or_create_owned(&JobStatus { status: Word(status) })
    }

    /// All of it as text, with what the process looks like at this moment.
    pub fn encode(&self, clock: &Clock, now: Now) -> String {
        let mut registry = Registry::default();
        let own = registry.sub_registry_with_prefix("chela");
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        own.register("build", "What runs here", prometheus_client::metrics::info::Info::new(version));
        own.register("http_requests", "Answered requests", self.requests.clone());
        own.register("connections", "Open connections", self.connections.clone());
        own.register("refusals", "Requests and connections refused before any handler", self.refusals.clone());
        own.register("events", "Events written to the log", self.events.clone());
        own.register("events_failed", "Events that the log could not take", self.events_failed.clone());
        own.register("events_missed", "Events that slow subscribers missed", self.events_missed.clone());
        own.register("config_reloads", "Times a changed configuration was read", self.config_reloads.clone());
        own.register("plugin_calls", "Calls of plugins, by what became of them", self.plugin_calls.clone());
        own.register("jobs", "Jobs between agents that are kept, by status", self.jobs.clone());
        own.register("job_retries", "Further tries of jobs", self.job_retries.clone());
        own.register("channel_messages", "Messages of channels, by what became of them", self.channel_messages.clone());
        own.register("continuations", "Agents that were told to go on, by what noticed it", self.continuations.clone());
        own.register(
            "continuations_blocked",
            "Tasks that were blocked since continuing them came to nothing",
            self.continuations_blocked.clone(),
        );
        own.register_with_unit(
            "oldest_job",
            "Age of the oldest unfinished job",
            Unit::Seconds,
            self.oldest_job.clone(),
        );
        own.register_with_unit(
            "http_request_duration",
            "From the head of a request to its answer",
            Unit::Seconds,
            self.request_times.0.clone(),
        );
        own.register_with_unit(
            "plugin_call_duration",
            "Calls of components that were answered",
            Unit::Seconds,
            self.plugin_times.0.clone(),
        );
        let spans_dropped: Counter = Counter::default();
        spans_dropped.inc_by(now.spans_dropped);
        own.register("spans_dropped", "Spans of traces that the collector did not get", spans_dropped);
        own.register("runs", "Runs of agents under way", gauge(now.runs as u64));
        own.register("sockets", "WebSockets and streamed answers under way", gauge(now.sockets as u64));
        if let Some(free) = now.disk_free {
            own.register_with_unit("disk_free", "Free below the state directory", Unit::Bytes, gauge(free));
        }
        if let Some(until) = now.certificate_until {
            let what = "When the certificate of the listeners ends, since 1970";
            own.register_with_unit("certificate_expiry_timestamp", what, Unit::Seconds, gauge(until.0 / 1_000));
        }
        own.register_with_unit("uptime", "Since the start", Unit::Seconds, gauge(clock.elapsed().as_secs()));
        if let Some(process) = Process::read() {
            let registry = registry.sub_registry_with_prefix("process");
            registry.register_with_unit("resident_memory", "In memory", Unit::Bytes, gauge(process.resident_bytes));
            registry.register("open_fds", "Open file descriptors", gauge(process.open_files));
            if let Some(max) = process.open_files_max {
                registry.register("max_fds", "File descriptors that may be open", gauge(max));
            }
            let cpu: Counter<f64, AtomicU64> = Counter::default();
            cpu.inc_by(process.cpu.as_secs_f64());
            registry.register_with_unit("cpu", "Time of the processor that was used", Unit::Seconds, cpu);
            let started = clock.now().0.saturating_sub(u64::try_from(clock.elapsed().as_millis()).unwrap_or(0));
            let what = "When the process began, since 1970";
            registry.register_with_unit("start_time", what, Unit::Seconds, gauge(started / 1_000));
        }
        let mut text = String::new();
        if encode(&mut text, &registry).is_err() {
            // Writing to a string cannot fail; were it to, an empty page is told apart from a true one.
            let _ = writeln!(text, "# encoding failed");
        }
        text
    }
}

fn gauge(value: u64) -> Gauge {
    let gauge: Gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    gauge
}

struct Process {
    resident_bytes: u64,
    open_files: u64,
    open_files_max: Option<u64>,
    cpu: Duration,
}

impl Process {
    fn read() -> Option<Self> {
        let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
        let open_files = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(Self {
            resident_bytes: pages * rustix::param::page_size() as u64,
            open_files,
            open_files_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            cpu: Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_what_was_counted() {
        let metrics = Metrics::default();
        metrics.refused("origin");
        metrics.request_times.took(&Listener { listener: Word("hub") }, Duration::from_millis(3));
        let certificate_until = Some(Timestamp(9_000));
        let now = Now { runs: 2, sockets: 3, disk_free: Some(7), certificate_until, spans_dropped: 4 };
        let text = metrics.encode(&Clock::manual(Timestamp(0)), now);
        assert!(text.contains("chela_http_request_duration_seconds_bucket{le=\"0.005\",listener=\"hub\"} 1"), "{text}");
        assert!(text.contains("chela_spans_dropped_total 4\n") && text.contains("chela_sockets 3\n"), "{text}");
        assert!(text.contains("chela_runs 2\n") && text.contains("chela_disk_free_bytes 7\n"), "{text}");
        assert!(text.contains("chela_certificate_expiry_timestamp_seconds 9\n"), "{text}");
        assert!(text.contains("process_cpu_seconds_total ") && text.contains("process_max_fds "), "{text}");
        assert!(text.contains("chela_refusals_total{reason=\"origin\"} 1"), "{text}");
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
