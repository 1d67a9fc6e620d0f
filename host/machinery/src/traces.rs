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

/// A span among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    trace: u128,
    span: u64,
}

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

    /// Of the trace that this text stands for, such as a work session's id.
    pub fn of(mut self, root: &str) -> Self {
        self.trace = Some(trace_of(root));
        self
    }

    /// The one that this text stands for, such as a run's id.
    pub fn known_as(mut self, id: &str) -> Self {
        self.span = Some(span_of(id));
        self
    }

    /// Within the one that this text stands for, unless it is within another already.
    pub fn below(mut self, id: Option<&str>) -> Self {
        self.parent = id.map(span_of);
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
    push(Span { place, parent, name: begin.name, kind: begin.kind, started, took, attributes, failed });
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
