//! The gateway's latest log lines, for clients that have no access to its standard error.
//! Keeps true: bounded, whatever is logged. Never: keeps a line that the log itself would not show.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::clock::Clock;

const BYTES_MAX: usize = 1024 * 1024;
/// Of one line no more than this is kept.
const LINE_CHARS_MAX: usize = 4_000;

struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that were ever kept: the number of the last one.
    count: u64,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { lines: VecDeque::new(), bytes: 0, count: 0 });

/// Takes in what is logged.
pub struct Keep(pub Clock);

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let about = event.metadata();
        let message: String = format!("{}{}", words.message, words.fields).chars().take(LINE_CHARS_MAX).collect();
        let level = about.level().as_str().to_lowercase();
        let room = about.target().split("::").nth(1).unwrap_or("gateway");
        keep(
            json!({ "time": self.0.now().to_string(), "level": level, "subsystem": room, "message": message })
                .to_string(),
        );
    }
}

#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

fn keep(line: String) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.bytes += line.len();
    kept.count += 1;
    kept.lines.push_back(line);
    while kept.bytes > BYTES_MAX {
        let Some(oldest) = kept.lines.pop_front() else { return };
        kept.bytes -= oldest.len();
    }
}

pub struct Tail {
    pub lines: Vec<String>,
    /// The number of the last line.
    pub cursor: u64,
    pub size: usize,
    /// Lines that were asked for are gone.
    pub truncated: bool,
    /// The cursor is of another life of the gateway: what comes is all there is.
    pub reset: bool,
}

/// The lines after a cursor, or the last ones.
pub fn tail(after: Option<u64>, limit: usize, bytes_max: usize) -> Tail {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let first = kept.count - kept.lines.len() as u64;
    let reset = after.is_some_and(|after| after > kept.count);
    let after = after.filter(|_| !reset);
    let wanted = after.map_or(kept.count, |after| kept.count - after);
    let mut bytes = 0;
    let lines = kept.lines.iter().rev().take(usize::try_from(wanted).unwrap_or(usize::MAX).min(limit));
    let mut lines: Vec<String> = lines
        .take_while(|line| {
            bytes += line.len();
            bytes <= bytes_max
        })
        .cloned()
        .collect();
    lines.reverse();
    Tail { lines, cursor: kept.count, size: kept.bytes, truncated: after.is_some_and(|after| after < first), reset }
}
