//! What took how long within what, as spans that a collector of OpenTelemetry takes: requests, runs, calls of tools, calls of components, jobs.
//! Keeps true: recording never waits and never fails; a run, a job and a call have the same ids whoever tells of them, also after a crash.
//! Never: has words of people, arguments or secrets in it; names, ids and outcomes alone.

mod export;
mod otlp;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Timestamp};

pub use export::{Options, export};

/// Spans that wait to be sent.
const QUEUE_MAX: usize = 8_192;

static ON: AtomicBool = AtomicBool::new(false);
static QUEUE: Mutex<VecDeque<Span>> = Mutex::new(VecDeque::new());
static DROPPED: AtomicU64 = AtomicU64::new(0);

tokio::task_local! {
    /// The span that this task is within.
    static WITHIN: Place;
}

/// A span among others. As text it is what a record keeps and what callers of ours say: `TRACE-SPAN`, in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    trace: u128,
    span: u64,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (trace, span) = text.split_once('-')?;
        let hex = |text: &str, len: usize| text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hex(trace, 32) || !hex(span, 16) {
            return None;
        }
        let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        (trace != 0 && span != 0).then_some(Self { trace, span })
    }

    /// Where whoever asks is, by the header `traceparent` of W3C's Trace Context.
    pub fn of_header(value: &str) -> Option<Self> {
        let (version, rest) = value.trim().split_once('-')?;
        // A later version may have more at its end; this one has only flags.
        let known = version.len() == 2 && version != "ff" && rest.is_char_boundary(49);
        known.then(|| Self::parse(rest.get(..49)?)).flatten()
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:032x}-{:016x}", self.trace, self.span)
    }
}

/// The span that this task is within, for a record of what begins here; none where nobody collects.
pub fn here() -> Option<String> {
    WITHIN.try_with(Place::to_string).ok()
}

/// Goes on within the span of who calls this, on a task of its own.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let within = WITHIN.try_with(|place| *place).ok();
    async move {
        match within {
            Some(place) => WITHIN.scope(place, work).await,
            None => work.await,
        }
    }
}

/// A span that is about to begin, for whoever must know it before; none where nobody collects.
pub fn planned() -> Option<Place> {
    ON.load(Ordering::Relaxed)
        .then(|| Place { trace: u128::from(chance()) << 64 | u128::from(chance()), span: chance() })
}

/// Spans that no collector got.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// The attribute that names the route of a request, and its span.
pub const ROUTE: &str = "http.route";

/// What a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody asked us.
    Server,
    Internal,
}

#[derive(Clone, Debug)]
struct Span {
    place: Place,
    parent: Option<u64>,
    name: String,
    kind: Kind,
    started: Timestamp,
    took: Duration,
    attributes: Vec<(&'static str, String)>,
    /// What went wrong, in a word.
    failed: Option<String>,
}

/// A span to be: what it is called, and where it belongs.
pub struct Begin {
    name: String,
    kind: Kind,
    trace: Option<u128>,
    span: Option<u64>,
    parent: Option<u64>,
    attributes: Vec<(&'static str, String)>,
}

impl Begin {
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind, trace: None, span: None, parent: None, attributes: Vec::new() }
    }

    /// Of the trace that a chain began in, below what began it; of one that its id stands for where nothing of that is known.
    pub fn of(mut self, chain: &str, began_in: Option<&str>) -> Self {
        match began_in.and_then(Place::parse) {
            Some(place) => (self.trace, self.parent) = (Some(place.trace), Some(place.span)),
            None => self.trace = Some(trace_of(chain)),
        }
        self
    }

    /// Within this one, of somebody else or of before.
    pub fn within(mut self, place: Option<Place>) -> Self {
        if let Some(place) = place {
            (self.trace, self.parent) = (Some(place.trace), Some(place.span));
        }
        self
    }

    /// The one that was planned.
    pub fn at(mut self, place: Option<Place>) -> Self {
        if let Some(place) = place {
            (self.trace, self.span) = (Some(place.trace), Some(place.span));
        }
        self
    }

    /// The one that this text stands for, such as a run's id.
    pub fn known_as(mut self, id: &str) -> Self {
        self.span = Some(span_of(id));
        self
    }

    /// Within the one that this text stands for, unless the task is within another already.
    pub fn below(mut self, id: Option<&str>) -> Self {
        self.parent = id.map(span_of).or(self.parent);
        self
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }
}

fn trace_of(root: &str) -> u128 {
    let hash = blake3::derive_key("chela 2026 trace", root.as_bytes());
    hash.iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte)).max(1)
}

fn span_of(id: &str) -> u64 {
    let hash = blake3::derive_key("chela 2026 span", id.as_bytes());
    hash.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte)).max(1)
}

fn chance() -> u64 {
    let mut bytes = [0; 8];
    // Without chance two spans would have one id, and one of them would be lost; nothing else.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes).max(1)
}

/// Does something as a span, within the one that the task is within; `end` tells what became of it. Costs one look where nobody collects.
pub async fn traced<T>(
    clock: &Clock,
    begin: impl FnOnce() -> Begin,
    work: impl Future<Output = T>,
    end: impl FnOnce(&T, &mut Vec<(&'static str, String)>) -> Result<(), String>,
) -> T {
    if !ON.load(Ordering::Relaxed) {
        return work.await;
    }
    let begin = begin();
    let outer = WITHIN.try_with(|place| *place).ok();
    let trace = outer.map(|outer| outer.trace).or(begin.trace);
    let place = Place {
        trace: trace.unwrap_or_else(|| u128::from(chance()) << 64 | u128::from(chance())),
        span: begin.span.unwrap_or_else(chance),
    };
    let parent = outer.map(|outer| outer.span).or(begin.parent);
    let (started, from) = (clock.now(), clock.elapsed());
    let outcome = WITHIN.scope(place, work).await;
    let mut attributes = begin.attributes;
    let failed = end(&outcome, &mut attributes).err();
    let took = clock.elapsed().saturating_sub(from);
    // Of a request only its verb is known before it is answered.
    let route = attributes.iter().find(|(name, _)| *name == ROUTE).map(|(_, route)| route);
    let name = route.map_or_else(|| begin.name.clone(), |route| format!("{} {route}", begin.name));
    push(Span { place, parent, name, kind: begin.kind, started, took, attributes, failed });
    outcome
}

/// Tells of something that is over, such as a job that went on over restarts.
pub fn told(begin: Begin, started: Timestamp, ended: Timestamp, failed: Option<String>) {
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    let place = Place { trace: begin.trace.unwrap_or(1), span: begin.span.unwrap_or_else(chance) };
    let took = Duration::from_millis(ended.0.saturating_sub(started.0));
    let (name, kind, attributes, parent) = (begin.name, begin.kind, begin.attributes, begin.parent);
    push(Span { place, parent, name, kind, started, took, attributes, failed });
}

fn push(span: Span) {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.len() >= QUEUE_MAX {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    queue.push_back(span);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_caller_is_is_read_from_its_header_and_kept_as_text() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        const SPAN: &str = "00f067aa0ba902b7";
        let place = Place::of_header(&format!("00-{TRACE}-{SPAN}-01")).expect("a place");
        assert_eq!(place.to_string(), format!("{TRACE}-{SPAN}"));
        assert_eq!(Place::parse(&place.to_string()), Some(place));
        assert_eq!(Place::of_header(&format!("01-{TRACE}-{SPAN}-01-more")), Some(place), "a later version");
        let none = format!("00-{}-{SPAN}-01", "0".repeat(32));
        for bad in [
            "",
            "00",
            "00-1-2-01",
            "ff-x",
            &none,
            &format!("00-{TRACE}"),
            &format!("00-{}-{SPAN}", "g".repeat(32)),
            "00-한국어",
        ] {
            assert_eq!(Place::of_header(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_a_chain_causes_is_below_what_began_it_unless_something_of_the_chain_is_nearer() {
        let began = Place { trace: 7, span: 9 };
        let text = began.to_string();
        let run = Begin::new("run", Kind::Internal).of("chain", Some(&text)).below(None);
        assert_eq!((run.trace, run.parent), (Some(7), Some(9)));
        let job = Begin::new("run", Kind::Internal).of("chain", Some(&text)).below(Some("job"));
        assert_eq!((job.trace, job.parent), (Some(7), Some(span_of("job"))));
        let alone = Begin::new("run", Kind::Internal).of("chain", None).below(None);
        assert_eq!((alone.trace, alone.parent), (Some(trace_of("chain")), None));
    }
}
